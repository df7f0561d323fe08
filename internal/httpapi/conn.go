package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection that came through the front door, as net/http sees it.
type conn struct {
	net.Conn          // TLS, or the bare socket
	raw      net.Conn // the socket
	door     *Server
	peer     netip.Addr
	secure   bool
	place    place // in the door's table, which guards it

	framing framing
	served  int64 // requests that reached the handler; only net/http's one goroutine counts

	begun    atomic.Bool // a byte of a request has come
	handling atomic.Bool // a handler was entered since the connection was last idle
	over     atomic.Bool // nothing more is read
	kept     atomic.Bool // it has carried an authenticated request
	dropped  atomic.Bool // it had to make room for another
	closing  sync.Once
}

type connKey struct{}

// connOf returns the connection a request came on; nil if it came on another
// way than through a front door.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// overTLS reports whether a request's connection is encrypted.
func overTLS(ctx context.Context) bool {
	c := connOf(ctx)
	return c != nil && c.secure
}

// hangUp makes the response that is about to be written the last, and leaves
// unread whatever else is on its way.
func hangUp(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.over.Store(true)
	}
}

func (c *conn) Read(p []byte) (int, error) {
	if c.over.Load() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.begun.Store(true)
		c.framing.see(p[:n])
	}
	if err != nil && c.dropped.Load() {
		err = io.EOF // closed by us; net/http has nothing to answer
	}
	return n, err
}

// keep notes that the connection has carried an authenticated request. It is not dropped
// from then on.
func (c *conn) keep() {
	if !c.kept.Load() && c.door.table.move(c, connKept) {
		c.kept.Store(true)
	}
}

// busy notes that a request was read to its end and is about to be handled. It reports
// false if the connection was dropped before: then the request must not be handled.
func (c *conn) busy() bool { return c.kept.Load() || c.door.table.move(c, connBusy) }

// idle notes that the request was answered.
func (c *conn) idle() {
	c.handling.Store(false)
	if !c.kept.Load() {
		c.door.table.move(c, connIdle)
	}
}

// wholeBody is the body of a request on a connection that may be dropped until the body was
// read to its end.
type wholeBody struct {
	io.ReadCloser
	conn *conn
}

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !b.conn.busy() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write passes on what a handler writes. Unless the request was authenticated, the
// connection may be dropped from then on. What net/http writes while no handler is
// at work is its own short text about a message that it could not read, each time
// in one piece; an envelope is sent in its place.
func (c *conn) Write(p []byte) (int, error) {
	if c.handling.Load() {
		if !c.kept.Load() && !c.door.table.answer(c) {
			return 0, net.ErrClosed
		}
		return c.Conn.Write(p)
	}
	if c.dropped.Load() {
		return 0, net.ErrClosed
	}
	status, isFault := faultStatus(p)
	if !isFault {
		return c.Conn.Write(p)
	}
	c.over.Store(true)
	answer, body := c.door.fault(c, status)
	if _, err := c.Conn.Write(answer.bytes(body)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// faultStatus reads the status from the beginning of a response, if it is one
// that refuses.
func faultStatus(p []byte) (status int, isFault bool) {
	const before, digits = len("HTTP/1.1 "), 3
	if !bytes.HasPrefix(p, []byte("HTTP/1.")) || len(p) < before+digits {
		return 0, false
	}
	status, err := strconv.Atoi(string(p[before : before+digits]))
	return status, err == nil && status >= http.StatusBadRequest
}

// CloseWrite tells the other end that nothing more will come. net/http looks for
// it before it hangs up on somebody who is still sending.
func (c *conn) CloseWrite() error {
	if encrypted, ok := c.Conn.(*tls.Conn); ok {
		encrypted.CloseWrite() // TLS has a goodbye of its own, which comes first
	}
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection once, and gives up its place.
func (c *conn) Close() error {
	var err error
	c.closing.Do(func() {
		if c.over.Load() {
			c.door.table.discard(c)
			c.door.running.Go(c.linger)
			return
		}
		err = c.Conn.Close()
		c.door.leave(c)
	})
	return err
}

const (
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// linger closes a connection on which something may be unread. A socket closed
// with bytes unread resets the connection, and the other end may then lose our
// answer before it has seen it. So what still comes is thrown away for a moment.
func (c *conn) linger() {
	defer c.door.leave(c)
	defer c.raw.Close()
	timer := time.AfterFunc(lingerTime, func() { c.raw.Close() })
	defer timer.Stop()
	c.CloseWrite()
	io.CopyN(io.Discard, c.raw, lingerBytes)
}
