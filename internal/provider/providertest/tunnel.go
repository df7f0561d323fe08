package providertest

import (
	"net"
	"sync"
	"testing"
)

// tunnel is a TCP proxy that can end a connection after a number of bytes of a
// request or of its reply.
type tunnel struct {
	listener net.Listener
	to       string

	mu      sync.Mutex
	armed   *cut
	fired   bool
	onFresh bool // the cut hit a new connection
	// Bytes received since the last arm.
	requested, answered int
	open                map[net.Conn]bool
	closed              bool
	running             sync.WaitGroup
}

// cut is where a connection ends.
type cut struct {
	// answer: the reply is cut, not the request.
	answer bool
	// after is the number of bytes that are still passed on.
	after int
	// end closes the client's connection.
	end func(net.Conn)
}

func newTunnel(t testing.TB, to string) *tunnel {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &tunnel{listener: listener, to: to, open: map[net.Conn]bool{}}
	w.running.Go(w.accept)
	t.Cleanup(w.close)
	return w
}

func (w *tunnel) address() string { return w.listener.Addr().String() }

// arm sets the cut of the next exchange; nil lets it pass.
func (w *tunnel) arm(c *cut) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed, w.fired, w.onFresh, w.requested, w.answered = c, false, false, 0, 0
}

// seen returns the bytes received since the last arm, and whether the cut was made.
func (w *tunnel) seen() (requested, answered int, fired, onFresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requested, w.answered, w.fired, w.onFresh
}

func (w *tunnel) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !w.track(client, server) {
			return
		}
		used := &usage{}
		w.running.Go(func() { w.carry(client, server, client, false, used) })
		w.running.Go(func() { w.carry(server, client, client, true, used) })
	}
}

// usage is the state of one connection.
type usage struct {
	sync.Mutex
	answered bool // it has carried a reply before
	// ended: the connection was cut and passes nothing more. A server may answer a
	// whole request before its connection is closed.
	ended bool
}

// carry copies one direction until it ends or is cut.
func (w *tunnel) carry(from, to, client net.Conn, answer bool, used *usage) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			part, end := w.allow(buffer[:n], answer, used)
			if len(part) > 0 {
				_, _ = to.Write(part)
			}
			if end != nil {
				end(client)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// allow returns the part to pass on, and how to end the connection if it is cut there.
func (w *tunnel) allow(part []byte, answer bool, used *usage) ([]byte, func(net.Conn)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.requested
	if answer {
		before = w.answered
		w.answered += len(part)
	} else {
		w.requested += len(part)
	}
	used.Lock()
	defer used.Unlock()
	if used.ended {
		return nil, nil
	}
	fresh := !used.answered
	used.answered = used.answered || answer
	if c := w.armed; c != nil && c.answer == answer && before+len(part) >= c.after {
		w.armed, w.fired, used.ended = nil, true, true
		w.onFresh = fresh
		return part[:max(0, c.after-before)], c.end
	}
	return part, nil
}

func (w *tunnel) track(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		if w.closed {
			_ = conn.Close()
		}
		w.open[conn] = true
	}
	return !w.closed
}

func (w *tunnel) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	w.closed = true
	for conn := range w.open {
		_ = conn.Close()
	}
	w.mu.Unlock()
	w.running.Wait()
}
