package httpapi

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// queue is the listener net/http accepts from: connections come to it greeted.
type queue struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newQueue() *queue {
	return &queue{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// put hands a connection over. It reports whether somebody took it.
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

// Addr is asked for by net/http's bookkeeping; there is no one address to name.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

// unread is a connection whose first byte has been looked at.
type unread struct {
	net.Conn
	first []byte
}

func (u *unread) Read(p []byte) (int, error) {
	if len(u.first) == 0 || len(p) == 0 {
		return u.Conn.Read(p)
	}
	n := copy(p, u.first)
	u.first = u.first[n:]
	return n, nil
}

// complaints takes what net/http has to complain about into the log: a line a
// second at most, because strangers can make it complain, and not more of one
// than says what kind it is.
type complaints struct {
	log     *slog.Logger
	busy    atomic.Bool
	dropped atomic.Int64
}

const (
	complaintPause = time.Second
	complaintBytes = 200
)

func (c *complaints) Write(p []byte) (int, error) {
	if !c.busy.CompareAndSwap(false, true) {
		c.dropped.Add(1)
		return len(p), nil
	}
	time.AfterFunc(complaintPause, func() { c.busy.Store(false) })
	text, _, _ := strings.Cut(string(p), "\n")
	c.log.Warn("http server",
		slog.String("complaint", text[:min(len(text), complaintBytes)]),
		slog.Int64("not_shown", c.dropped.Swap(0)))
	return len(p), nil
}
