package httpapi

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
)

// from returns a connection from an address, without a socket.
func from(address string) *conn { return &conn{peer: netip.MustParseAddr(address)} }

// mustEnter adds connections that displace no other.
func mustEnter(t *testing.T, table *connTable, conns ...*conn) {
	t.Helper()
	for _, c := range conns {
		if drop, refused := table.add(c, false); drop.conn != nil || refused != "" {
			t.Fatalf("%v: dropped %v, refused %q; want it added", c.peer, drop, refused)
		}
	}
}

func TestConnTable_DropsWaitingBeforeIdleAndOldestFirst(t *testing.T) {
	table := newConnTable(6, 100, 100)
	idle1, idle2, kept, busy := from("192.0.2.1"), from("192.0.2.2"), from("192.0.2.3"), from("192.0.2.4")
	old, young := from("198.51.100.1"), from("203.0.113.1")
	mustEnter(t, table, idle1, idle2, kept, busy, old, young)
	for _, step := range []struct {
		conn *conn
		to   connState
	}{
		{kept, connAuthenticated}, {busy, connBusy},
		{idle1, connBusy}, {idle1, connIdle}, {idle2, connBusy}, {idle2, connIdle},
		{idle1, connBusy}, {idle1, connIdle}, // the latest to become idle
		{kept, connIdle}, // an authenticated connection stays so
	} {
		if !table.setState(step.conn, step.to) {
			t.Fatalf("%v was not moved to %v", step.conn.peer, step.to)
		}
	}
	var entered []*conn
	for i, want := range []dropped{
		{old, connWaiting, "total"}, {young, connWaiting, "total"},
	} {
		c := from(fmt.Sprintf("10.0.%d.1", i))
		if drop, refused := table.add(c, false); drop != want || refused != "" {
			t.Errorf("connection %d dropped %v (refused %q); want %v", i, drop, refused, want)
		}
		table.setState(c, connAuthenticated)
		entered = append(entered, c)
	}
	for i, want := range []dropped{{idle2, connIdle, "total"}, {idle1, connIdle, "total"}} {
		c := from(fmt.Sprintf("10.1.%d.1", i))
		if drop, refused := table.add(c, false); drop != want || refused != "" {
			t.Errorf("with none waiting, connection %d dropped %v (refused %q); want %v", i, drop, refused, want)
		}
		table.setState(c, connBusy)
		entered = append(entered, c)
	}
	if drop, refused := table.add(from("10.2.0.1"), false); drop.conn != nil || refused != "total" {
		t.Errorf("with all busy or kept: dropped %v, refused %q; want a refusal", drop, refused)
	}
	for _, gone := range []*conn{old, young, idle1, idle2} {
		if !gone.dropped.Load() || table.setState(gone, connBusy) || table.remove(gone) {
			t.Errorf("%v was dropped and is still in the table", gone.peer)
		}
	}
	// An authenticated connection that is about to be closed can be dropped.
	table.discard(kept)
	if drop, _ := table.add(from("10.2.0.2"), false); drop.conn != kept {
		t.Errorf("dropped %v; want the connection that is being closed", drop)
	}
	for _, c := range append(entered, busy) {
		if !table.remove(c) || table.remove(c) {
			t.Errorf("%v does not leave once", c.peer)
		}
	}
}

func TestConnTable_NetworkLimit(t *testing.T) {
	for name, tt := range map[string]struct{ inside, more, elsewhere string }{
		"IPv4 /24":    {"192.0.2.1", "192.0.2.200", "192.0.3.1"},
		"IPv6 /64":    {"2001:db8:0:1::1", "2001:db8:0:1:ffff::9", "2001:db8:0:2::1"},
		"mapped IPv4": {"192.0.2.1", "::ffff:192.0.2.9", "::ffff:192.0.3.9"},
	} {
		t.Run(name, func(t *testing.T) {
			table := newConnTable(100, 2, 1)
			first, second := from(tt.inside), from(tt.inside)
			first.peer, second.peer = netip.MustParseAddr(tt.inside), netip.MustParseAddr(tt.more)
			mustEnter(t, table, first, second, from(tt.elsewhere))
			third := from(tt.inside)
			third.peer = third.peer.Next()
			if drop, refused := table.add(third, false); refused != "" || drop != (dropped{first, connWaiting, "network"}) {
				t.Errorf("dropped %v, refused %q; want the network's oldest", drop, refused)
			}
			table.setState(second, connAuthenticated)
			table.setState(third, connBusy)
			fourth := from(tt.inside)
			if drop, refused := table.add(fourth, false); refused != "network" || drop.conn != nil {
				t.Errorf("dropped %v, refused %q; want a refusal for the network", drop, refused)
			}
			if drop, refused := table.add(fourth, true); refused != "" || drop.conn != nil {
				t.Errorf("a trusted proxy: dropped %v, refused %q; want no limit but the total", drop, refused)
			}
		})
	}
}

func TestConnTable_AddressLimitDropsFromThatAddress(t *testing.T) {
	table := newConnTable(100, 1, 2) // an address is never limited by a smaller network
	other, first, second := from("192.0.3.1"), from("192.0.2.1"), from("192.0.2.1")
	mustEnter(t, table, other, first, second)
	third := from("192.0.2.1")
	if drop, refused := table.add(third, false); refused != "" || drop != (dropped{first, connWaiting, "address"}) {
		t.Errorf("dropped %v, refused %q; want the address's oldest", drop, refused)
	}
	table.setState(second, connAuthenticated)
	table.setState(third, connAuthenticated)
	if drop, refused := table.add(from("192.0.2.1"), false); refused != "address" || drop.conn != nil {
		t.Errorf("dropped %v, refused %q; want a refusal for the address", drop, refused)
	}
}

// Connections are added, changed and removed concurrently: the counts stay within the
// limits, and the table is empty at the end.
func TestConnTable_ManyAtOnce(t *testing.T) {
	const most, perNetwork, perAddress = 40, 20, 8
	table := newConnTable(most, perNetwork, perAddress)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 24))
			var mine []*conn
			for range 3000 {
				switch random.IntN(4) {
				case 0, 1:
					c := from(fmt.Sprintf("192.0.%d.%d", random.IntN(3), random.IntN(4)))
					if _, refused := table.add(c, random.IntN(10) == 0); refused == "" {
						mine = append(mine, c)
					}
				case 2:
					if len(mine) > 0 {
						table.setState(mine[random.IntN(len(mine))], connState(random.IntN(4)))
					}
				case 3:
					if len(mine) > 0 {
						table.remove(mine[0])
						mine = mine[1:]
					}
				}
				table.mu.Lock()
				if table.all.open > most || table.all.open != len(table.conns) {
					t.Errorf("%d connections are counted, %d known; want the same, at most %d", table.all.open, len(table.conns), most)
				}
				for network, group := range table.byNetwork {
					if group.open > perNetwork || group.open < 1 {
						t.Errorf("%d connections of %v; want 1 to %d", group.open, network, perNetwork)
					}
				}
				for address, group := range table.byAddress {
					if group.open > perAddress || group.open < 1 {
						t.Errorf("%d connections of %v; want 1 to %d", group.open, address, perAddress)
					}
				}
				table.mu.Unlock()
			}
			for _, c := range mine {
				table.remove(c)
			}
		})
	}
	all.Wait()
	if table.all.open != 0 || len(table.conns)+len(table.byNetwork)+len(table.byAddress) != 0 || table.all.oldest().conn != nil {
		t.Errorf("left behind: %d counted, %d connections, %d networks, %d addresses", table.all.open, len(table.conns), len(table.byNetwork), len(table.byAddress))
	}
}

// dialFrom connects from another address of this machine.
func (h *testEnv) dialFrom(address, to string) *wire {
	h.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := dialer.Dial("tcp", to)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(waitLimit))
	return &wire{Conn: c, t: h.t}
}

func TestServer_DropsSilentConnections(t *testing.T) {
	const most = 12
	h := newTestEnv(t, func(_ *Config, server *ServerConfig) { server.MaxConnections = most })
	kept := h.dialTLS()
	kept.send(balanceRequest)
	kept.expect(200, fault.OK)

	// One was answered and did not authenticate; the others stop in a header, in a body
	// and in the handshake.
	h.authorizer.mu.Lock()
	caller := h.authorizer.caller
	h.authorizer.caller, h.authorizer.refusal = access.Caller{}, fault.New(fault.InvalidSignature, "no")
	h.authorizer.mu.Unlock()
	idle := h.dialTLS()
	idle.send(balanceRequest)
	idle.expect(401, fault.InvalidSignature)
	head, body, handshake := h.dialTLS(), h.dialTLS(), h.dialPlain(h.tls)
	head.send("GET /api/v1/balance HTTP/1.1\r\nHost:")
	body.send("POST /api/v1/renew HTTP/1.1\r\nHost: coax\r\nContent-Length: 10\r\n\r\n{")
	handshake.send("\x16\x03\x01\x02\x00\x01")
	for i := range 3 * most {
		to := h.tls
		if i%2 == 1 {
			to = h.plain
		}
		h.dialFrom(fmt.Sprintf("127.0.%d.%d", 1+i%4, 1+i%7), to)
	}
	for _, w := range []*wire{head, body, handshake} {
		w.expectClosed()
	}
	// A connection that is accepted later drops an older one, also one in its handshake.
	const opened = 5 + 3*most
	if !eventually(func() bool {
		return h.metric(`coax_http_connections_dropped_total{reason="total",state="waiting"}`) == opened-most
	}) {
		t.Error("not all connections were accepted")
	}

	h.authorizer.mu.Lock()
	h.authorizer.caller, h.authorizer.refusal = caller, nil
	h.authorizer.mu.Unlock()
	for range 3 {
		w := h.dialTLS()
		w.send(balanceRequest)
		w.expect(200, fault.OK)
	}
	for _, w := range []*wire{kept, idle} { // silent connections were dropped first
		w.send(balanceRequest)
		w.expect(200, fault.OK)
	}
	if got := h.metric("coax_http_connections"); got > most {
		t.Errorf("%v connections are counted; want %d at most", got, most)
	}
	if got := h.metric(`coax_http_connections_dropped_total{reason="total",state="waiting"}`); got == 0 {
		t.Error("no dropped connection is counted")
	}
	for _, reason := range []string{"total", "handshake"} {
		if got := h.metric(`coax_http_connections_refused_total{reason="` + reason + `"}`); got != 0 {
			t.Errorf("%v connections were refused (%s); want none", got, reason)
		}
	}
}

// A request that was read completely is answered even at the limit; one that was not is
// not handled after its connection was dropped.
func TestServer_DoesNotDropWholeRequests(t *testing.T) {
	entered, release := make(chan string), make(chan struct{})
	h := newTestEnv(t, func(_ *Config, server *ServerConfig) {
		server.MaxConnections = 3
		server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			entered <- string(text)
			<-release
			w.Write(text)
		})
	})
	post := func(body string, length int) *wire {
		w := h.dialTLS()
		w.send("POST / HTTP/1.1\r\nHost: coax\r\nContent-Length: %d\r\n\r\n%s", length, body)
		return w
	}
	whole, get := post("whole", 5), h.dialTLS()
	if got := <-entered; got != "whole" {
		t.Fatalf("the handler read %q", got)
	}
	get.send("GET / HTTP/1.1\r\nHost: coax\r\n\r\n")
	<-entered
	part := post("part", 5)
	h.dialFrom("127.0.1.1", h.tls)
	part.expectClosed() // the handler has not read a whole body: entered would block
	for i := range 9 {
		h.dialFrom(fmt.Sprintf("127.0.%d.1", 1+i), h.plain)
	}
	close(release)
	for w, want := range map[*wire]string{whole: "whole", get: ""} {
		response, err := http.ReadResponse(w.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(response.Body); err != nil || string(got) != want {
			t.Errorf("answered %q, %v; want %q", got, err, want)
		}
	}
}

// A client that does not read its response can be dropped, and the handler's next write
// fails.
func TestServer_DropsUnreadResponses(t *testing.T) {
	const most = 4
	writing, cut := make(chan struct{}), make(chan error, most)
	h := newTestEnv(t, func(_ *Config, server *ServerConfig) {
		server.MaxConnections = most
		server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/large" {
				io.WriteString(w, "small")
				return
			}
			part := make([]byte, 64<<10)
			_, err := w.Write(part)
			writing <- struct{}{}
			for err == nil {
				_, err = w.Write(part)
			}
			cut <- err
		})
	})
	for i := range most {
		w := h.dialTLS()
		if i%2 == 1 {
			w = h.dialPlain(h.plain)
		}
		w.send("%s", strings.Repeat("GET /large HTTP/1.1\r\nHost: coax\r\n\r\n", 3))
		<-writing
	}
	for range 2 * most {
		w := h.dialTLS()
		w.send("GET /small HTTP/1.1\r\nHost: coax\r\n\r\n")
		response, err := http.ReadResponse(w.r, nil)
		if err != nil {
			t.Fatalf("a newcomer is not served: %v", err)
		}
		if got, err := io.ReadAll(response.Body); err != nil || string(got) != "small" {
			t.Errorf("a newcomer was answered %q, %v", got, err)
		}
	}
	for range most {
		if err := <-cut; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the answer ended with %v; want %v", err, net.ErrClosed)
		}
	}
	if got := h.metric(`coax_http_connections_dropped_total{reason="total",state="idle"}`); got < most {
		t.Errorf("%v dropped connections are counted; want %d at least", got, most)
	}
}
