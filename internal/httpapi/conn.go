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

// conn is a connection of Server, as net/http sees it.
type conn struct {
	net.Conn          // TLS, or the bare socket
	raw      net.Conn // the socket
	server   *Server
	peer     netip.Addr
	secure   bool
	slot     connSlot // in the server's table, which guards it

	framing framing
	served  int64 // requests that reached the handler; only net/http's goroutine writes it

	begun         atomic.Bool // a byte of a request was read
	handling      atomic.Bool // a handler was called since the connection was last idle
	readDone      atomic.Bool // nothing more is read
	authenticated atomic.Bool // it has carried an authenticated request
	dropped       atomic.Bool // it was closed in favour of a new connection
	closeOnce     sync.Once
}

type connKey struct{}

// connOf returns the connection of a request; nil if no Server accepted it.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// overTLS reports whether a request's connection is encrypted.
func overTLS(ctx context.Context) bool {
	c := connOf(ctx)
	return c != nil && c.secure
}

// stopReading makes the response that is about to be written the last one on its
// connection; nothing more is read.
func stopReading(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.readDone.Store(true)
	}
}

func (c *conn) Read(p []byte) (int, error) {
	if c.readDone.Load() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.begun.Store(true)
		c.framing.scan(p[:n])
	}
	if err != nil && c.dropped.Load() {
		err = io.EOF // closed by us: net/http must write no error response
	}
	return n, err
}

// markAuthenticated records that the connection has carried an authenticated request. It
// is not dropped from then on.
func (c *conn) markAuthenticated() {
	if !c.authenticated.Load() && c.server.table.setState(c, connAuthenticated) {
		c.authenticated.Store(true)
	}
}

// markBusy records that a request was read completely and is about to be handled. It
// returns false if the connection was dropped: then the request must not be handled.
func (c *conn) markBusy() bool { return c.authenticated.Load() || c.server.table.setState(c, connBusy) }

// markIdle records that the request was answered.
func (c *conn) markIdle() {
	c.handling.Store(false)
	if !c.authenticated.Load() {
		c.server.table.setState(c, connIdle)
	}
}

// wholeBody is the body of a request on a connection that may be dropped until the body
// was read completely.
type wholeBody struct {
	io.ReadCloser
	conn *conn
}

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !b.conn.markBusy() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write writes a handler's response. Unless the request was authenticated, the
// connection may be dropped from then on. What net/http writes while no handler runs
// is its own error response to a message that it could not read, always in one call;
// an envelope is sent instead.
func (c *conn) Write(p []byte) (int, error) {
	if c.handling.Load() {
		if !c.authenticated.Load() && !c.server.table.startResponse(c) {
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
	c.readDone.Store(true)
	resp, body := c.server.fault(c, status)
	if _, err := c.Conn.Write(resp.bytes(body)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// faultStatus parses the status of a response; isFault is true from 400 on.
func faultStatus(p []byte) (status int, isFault bool) {
	const before, digits = len("HTTP/1.1 "), 3
	if !bytes.HasPrefix(p, []byte("HTTP/1.")) || len(p) < before+digits {
		return 0, false
	}
	status, err := strconv.Atoi(string(p[before : before+digits]))
	return status, err == nil && status >= http.StatusBadRequest
}

// CloseWrite closes the sending side. net/http calls it before it closes a connection
// whose client is still sending.
func (c *conn) CloseWrite() error {
	if encrypted, ok := c.Conn.(*tls.Conn); ok {
		encrypted.CloseWrite() // close_notify comes before the end of the socket
	}
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection once and removes it from the table.
func (c *conn) Close() error {
	var err error
	c.closeOnce.Do(func() {
		if c.readDone.Load() {
			c.server.table.discard(c)
			c.server.running.Go(c.linger)
			return
		}
		err = c.Conn.Close()
		c.server.remove(c)
	})
	return err
}

const (
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// linger closes a connection with unread data. Closing a socket with unread bytes
// resets the connection, and the client may lose our response. So incoming data is
// discarded for a moment first.
func (c *conn) linger() {
	defer c.server.remove(c)
	defer c.raw.Close()
	timer := time.AfterFunc(lingerTime, func() { c.raw.Close() })
	defer timer.Stop()
	c.CloseWrite()
	io.CopyN(io.Discard, c.raw, lingerBytes)
}
