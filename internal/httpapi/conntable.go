package httpapi

import (
	"container/list"
	"net/netip"
	"sync"

	"github.com/coaxhq/coax/internal/access"
)

// connState is how far a connection has come. The states are in the order in which
// connections are dropped when there is no room for another one.
type connState int

const (
	// connWaiting: no request of it was read to its end yet, or not even the TLS
	// handshake. Dropped first.
	connWaiting connState = iota
	// connIdle: what it asked for was answered or is being answered, and nothing of it
	// authenticated. It stays idle until its next request was read to its end. Dropped
	// next.
	connIdle
	// connBusy: a request that was read to its end is being handled, and no byte of the
	// answer was written yet. Never dropped.
	connBusy
	// connKept: it has carried an authenticated request. Never dropped.
	connKept
)

// droppable is how many of the states, from the first, are dropped.
const droppable = int(connBusy)

func (s connState) String() string {
	return [...]string{"waiting", "idle", "busy", "kept"}[s]
}

// connTable counts connections by address, by network and in all. Where one of these is at
// its limit, a new connection takes the place of the one there that has been waiting for
// longest, or, if none waits, idle for longest. So connections that say nothing keep nobody
// out. Every operation takes constant time.
type connTable struct {
	maxPerNetwork int
	maxPerAddress int

	mu        sync.Mutex // guards what follows, and the place of every conn
	all       *connGroup
	byNetwork map[netip.Prefix]*connGroup
	byAddress map[netip.Addr]*connGroup
	conns     map[*conn]struct{}
}

// connGroup is the connections that share a limit.
type connGroup struct {
	limit   string // which limit it is, as metrics name it
	network netip.Prefix
	address netip.Addr
	max     int
	open    int
	// lists has the droppable ones by state, the one longest in it in front.
	lists [droppable]list.List
}

// place is where a connection stands in the table: its groups, the narrowest first, and its
// element in the list of each while it is droppable.
type place struct {
	state    connState
	groups   []*connGroup
	elements [3]*list.Element
}

// newConnTable returns an empty table. A network has never less room than an address.
func newConnTable(max, maxPerNetwork, maxPerAddress int) *connTable {
	return &connTable{
		maxPerNetwork: maxPerNetwork,
		maxPerAddress: maxPerAddress,
		all:           &connGroup{limit: "total", max: max},
		byNetwork:     map[netip.Prefix]*connGroup{},
		byAddress:     map[netip.Addr]*connGroup{},
		conns:         map[*conn]struct{}{},
	}
}

// dropped is a connection that has to make room, and which limit asked for it.
type dropped struct {
	conn  *conn
	state connState
	limit string
}

// enter gives a connection a place. If that took the place of another, drop is that one, and
// the caller closes it. If there is no place, refused names the limit. A connection of a
// trusted proxy counts in all only: its address says nothing about who is calling.
func (t *connTable) enter(c *conn, trusted bool) (drop dropped, refused string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	groups := t.groupsOf(c, trusted)
	for _, group := range groups {
		if group.open < group.max {
			continue
		}
		// Whoever leaves a group leaves the wider ones too, so one is enough.
		if drop = group.oldest(); drop.conn == nil {
			t.forget(groups)
			return drop, group.limit
		}
		t.remove(drop.conn)
		drop.conn.dropped.Store(true)
		break
	}
	c.place = place{state: connWaiting, groups: groups}
	for _, group := range groups {
		group.open++
	}
	c.place.list(c)
	t.conns[c] = struct{}{}
	if drop.conn != nil {
		t.forget(drop.conn.place.groups)
	}
	return drop, ""
}

// oldest is the connection of a group to drop first.
func (g *connGroup) oldest() dropped {
	for state := range g.lists {
		if front := g.lists[state].Front(); front != nil {
			return dropped{front.Value.(*conn), connState(state), g.limit}
		}
	}
	return dropped{}
}

// groupsOf returns the groups that a connection counts in, the narrowest first.
func (t *connTable) groupsOf(c *conn, trusted bool) []*connGroup {
	if trusted {
		return []*connGroup{t.all}
	}
	network := access.NetworkOf(c.peer)
	if t.byAddress[c.peer] == nil {
		t.byAddress[c.peer] = &connGroup{limit: "address", address: c.peer, max: t.maxPerAddress}
	}
	if t.byNetwork[network] == nil {
		t.byNetwork[network] = &connGroup{limit: "network", network: network, max: max(t.maxPerNetwork, t.maxPerAddress)}
	}
	return []*connGroup{t.byAddress[c.peer], t.byNetwork[network], t.all}
}

// move puts a connection into another state. It reports false, and moves nothing, if the
// connection was dropped. One that is kept stays so.
func (t *connTable) move(c *conn, to connState) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.conns[c]; !open {
		return false
	}
	if c.place.state != to && c.place.state != connKept {
		c.place.unlist()
		c.place.state = to
		c.place.list(c)
	}
	return true
}

// answer makes a connection idle whose request was being handled: a client that does not
// read its answer keeps nobody out. It reports false if the connection was dropped.
func (t *connTable) answer(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.conns[c]; !open {
		return false
	}
	if c.place.state == connBusy {
		c.place.state = connIdle
		c.place.list(c)
	}
	return true
}

// discard makes a connection droppable whatever its state: it is about to be closed.
func (t *connTable) discard(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.conns[c]; open {
		c.place.unlist()
		c.place.state = connIdle
		c.place.list(c)
	}
}

// leave gives up a connection's place. It reports whether it still had one.
func (t *connTable) leave(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.conns[c]; !open {
		return false
	}
	t.remove(c)
	t.forget(c.place.groups)
	return true
}

// silent returns the connections of which no byte of a request has come.
func (t *connTable) silent() []*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	var silent []*conn
	for c := range t.conns {
		if !c.begun.Load() {
			silent = append(silent, c)
		}
	}
	return silent
}

func (t *connTable) remove(c *conn) {
	c.place.unlist()
	for _, group := range c.place.groups {
		group.open--
	}
	delete(t.conns, c)
}

// forget gives back the memory of groups in which nobody is left.
func (t *connTable) forget(groups []*connGroup) {
	for _, group := range groups {
		switch {
		case group.open > 0 || group == t.all:
		case group == t.byAddress[group.address]:
			delete(t.byAddress, group.address)
		default:
			delete(t.byNetwork, group.network)
		}
	}
}

// list puts a droppable connection at the end of the lists of its groups.
func (p *place) list(c *conn) {
	if int(p.state) >= droppable {
		return
	}
	for i, group := range p.groups {
		p.elements[i] = group.lists[p.state].PushBack(c)
	}
}

func (p *place) unlist() {
	if int(p.state) >= droppable {
		return
	}
	for i, group := range p.groups {
		group.lists[p.state].Remove(p.elements[i])
	}
}
