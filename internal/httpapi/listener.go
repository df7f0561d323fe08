package httpapi

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// queue is the listener that net/http accepts from. Its connections have done their
// handshake.
type queue struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newQueue() *queue {
	return &queue{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// put passes a connection to net/http. It returns false if the queue is closed.
func (q *queue) put(c net.Conn) bool {
	select {
	case q.conns <- c:
		return true
	case <-q.closed:
		return false
	}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// Addr is required by net/http; a queue has no address of its own.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

// peekedConn is a connection whose first bytes were read already; Read returns them again.
type peekedConn struct {
	net.Conn
	first []byte
}

func (c *peekedConn) Read(p []byte) (int, error) {
	if len(c.first) == 0 || len(p) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.first)
	c.first = c.first[n:]
	return n, nil
}

// errorLog writes net/http's error messages to the log: at most one a second, and only
// the beginning of each, because any client can cause them.
type errorLog struct {
	log     *slog.Logger
	busy    atomic.Bool
	dropped atomic.Int64
}

const (
	errorLogPause = time.Second
	errorLogBytes = 200
)

func (c *errorLog) Write(p []byte) (int, error) {
	if !c.busy.CompareAndSwap(false, true) {
		c.dropped.Add(1)
		return len(p), nil
	}
	time.AfterFunc(errorLogPause, func() { c.busy.Store(false) })
	text, _, _ := strings.Cut(string(p), "\n")
	c.log.Warn("http server",
		slog.String("error", text[:min(len(text), errorLogBytes)]),
		slog.Int64("not_shown", c.dropped.Swap(0)))
	return len(p), nil
}
