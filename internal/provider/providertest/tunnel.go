package providertest

import (
	"net"
	"sync"
	"testing"
)

// tunnel is the way to a server, which can be made to end after so many bytes of
// a question or of its answer.
type tunnel struct {
	listener net.Listener
	to       string

	mu      sync.Mutex
	armed   *cut
	fired   bool
	onFresh bool // the cut met a connection that had carried nothing before
	// Of the exchange since the last arm: bytes that came in.
	asked, answered int
	open            map[net.Conn]bool
	closed          bool
	running         sync.WaitGroup
}

// cut is where a connection ends.
type cut struct {
	// answer: it is the answer that is cut, not the question.
	answer bool
	// after is how many bytes of it still come through.
	after int
	// end is how the client's side ends.
	end func(net.Conn)
}

func dig(t testing.TB, to string) *tunnel {
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

// arm makes the next exchange end as c says; nil lets it pass.
func (w *tunnel) arm(c *cut) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed, w.fired, w.onFresh, w.asked, w.answered = c, false, false, 0, 0
}

// seen is what came in since the last arm, and how the cut met it.
func (w *tunnel) seen() (asked, answered int, fired, onFresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked, w.answered, w.fired, w.onFresh
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
		// Written by the questions' side alone before the first answer comes.
		used := &usage{}
		w.running.Go(func() { w.carry(client, server, client, false, used) })
		w.running.Go(func() { w.carry(server, client, client, true, used) })
	}
}

// usage is what a connection has been used for.
type usage struct {
	sync.Mutex
	answered bool // it has brought an answer before
	// ended: it was cut after what it carries now, and brings nothing back. A server
	// may answer a whole question before its connection is closed.
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

// allow says how much of what came in goes on, and whether the way ends there.
func (w *tunnel) allow(part []byte, answer bool, used *usage) ([]byte, func(net.Conn)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.asked
	if answer {
		before = w.answered
		w.answered += len(part)
	} else {
		w.asked += len(part)
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
		// An answer's own connection has carried its question at least.
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
