package httpapi

import (
	"container/list"
	"net/netip"
	"sync"

	"github.com/coaxhq/coax/internal/access"
)

// connState is the state of a connection. The states are in the order in which
// connections are dropped when a limit is reached.
type connState int

const (
	// connWaiting: no request, or not even the TLS handshake, was read completely yet.
	// Dropped first.
	connWaiting connState = iota
	// connIdle: its requests were answered or the response is being written, and none
	// was authenticated. It stays idle until its next request was read completely.
	// Dropped next.
	connIdle
	// connBusy: a request that was read completely is being handled, and no byte of the
	// response was written yet. Never dropped.
	connBusy
	// connAuthenticated: it has carried an authenticated request. Never dropped.
	connAuthenticated
)

// droppable is the number of states, from the first, that may be dropped.
const droppable = int(connBusy)

func (s connState) String() string {
	return [...]string{"waiting", "idle", "busy", "authenticated"}[s]
}

// limits are the names of the limits.
var limits = []string{"total", "network", "address"}

// connTable counts connections by address, by network and in total. Where one of these
// limits is reached, a new connection replaces the one that has been waiting longest or,
// if none waits, idle longest. So silent connections cannot lock others out. Every
// operation takes constant time.
type connTable struct {
	maxPerNetwork int
	maxPerAddress int

	mu        sync.Mutex // guards what follows, and the slot of every conn
	all       *connGroup
	byNetwork map[netip.Prefix]*connGroup
	byAddress map[netip.Addr]*connGroup
	conns     map[*conn]struct{}
}

// connGroup is a set of connections that share a limit.
type connGroup struct {
	limit   string // its name in metrics
	network netip.Prefix
	address netip.Addr
	max     int
	open    int
	// lists has the droppable connections by state, oldest first.
	lists [droppable]list.List
}

// connSlot is a connection's entry in the table: its groups, the narrowest first, and its
// element in the list of each while it is droppable.
type connSlot struct {
	state    connState
	groups   []*connGroup
	elements [3]*list.Element
}

// newConnTable returns an empty table. A network's limit is at least an address's.
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

// dropped is a connection that is closed in favour of a new one, and the limit that was
// reached.
type dropped struct {
	conn  *conn
	state connState
	limit string
}

// add adds a connection. If it replaces another, drop is that one, and the caller closes
// it. If it cannot be added, refused names the limit. A trusted proxy's connection counts
// in the total only: its address says nothing about the client.
func (t *connTable) add(c *conn, trusted bool) (drop dropped, refused string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	groups := t.groupsOf(c, trusted)
	for _, group := range groups {
		if group.open < group.max {
			continue
		}
		// A connection that leaves a group leaves the wider ones too, so one is enough.
		if drop = group.oldest(); drop.conn == nil {
			t.deleteEmpty(groups)
			return drop, group.limit
		}
		t.unlink(drop.conn)
		drop.conn.dropped.Store(true)
		break
	}
	c.slot = connSlot{state: connWaiting, groups: groups}
	for _, group := range groups {
		group.open++
	}
	c.slot.list(c)
	t.conns[c] = struct{}{}
	if drop.conn != nil {
		t.deleteEmpty(drop.conn.slot.groups)
	}
	return drop, ""
}

// oldest returns the connection of a group to drop first.
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

// setState changes a connection's state. It returns false if the connection was dropped.
// An authenticated connection stays authenticated.
func (t *connTable) setState(c *conn, to connState) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.conns[c]; !open {
		return false
	}
	if c.slot.state != to && c.slot.state != connAuthenticated {
		c.slot.unlist()
		c.slot.state = to
		c.slot.list(c)
	}
	return true
}

// startResponse makes a busy connection idle, so that a client that does not read its
// response can be dropped. It returns false if the connection was dropped.
func (t *connTable) startResponse(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.conns[c]; !open {
		return false
	}
	if c.slot.state == connBusy {
		c.slot.state = connIdle
		c.slot.list(c)
	}
	return true
}

// discard makes a connection droppable in any state, because it is about to be closed.
func (t *connTable) discard(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.conns[c]; open {
		c.slot.unlist()
		c.slot.state = connIdle
		c.slot.list(c)
	}
}

// remove takes a connection out of the table. It returns false if it was dropped before.
func (t *connTable) remove(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.conns[c]; !open {
		return false
	}
	t.unlink(c)
	t.deleteEmpty(c.slot.groups)
	return true
}

// silent returns the connections that have not sent a byte of a request.
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

func (t *connTable) unlink(c *conn) {
	c.slot.unlist()
	for _, group := range c.slot.groups {
		group.open--
	}
	delete(t.conns, c)
}

// deleteEmpty deletes the groups without connections.
func (t *connTable) deleteEmpty(groups []*connGroup) {
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
func (s *connSlot) list(c *conn) {
	if int(s.state) >= droppable {
		return
	}
	for i, group := range s.groups {
		s.elements[i] = group.lists[s.state].PushBack(c)
	}
}

func (s *connSlot) unlist() {
	if int(s.state) >= droppable {
		return
	}
	for i, group := range s.groups {
		group.lists[s.state].Remove(s.elements[i])
	}
}
