package generator

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// Target is one address to load.
type Target struct {
	// Addr is HOST:PORT.
	Addr string
	// TLS trusts the service's certificate, and keeps its sessions.
	TLS *tls.Config
}

// conn is one client's connection, kept open from request to request.
type conn struct {
	target Target
	tls    *tls.Conn
	// under is what cut closes, from outside.
	under  atomic.Pointer[tls.Conn]
	buffer []byte
}

// open connects if necessary. There are no deadlines, which would cost a timer for each
// request: the load cuts slow connections.
func (c *conn) open(ctx context.Context) error {
	if c.tls != nil {
		return nil
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: c.target.TLS}
	opened, err := dialer.DialContext(ctx, "tcp", c.target.Addr)
	if err != nil {
		return err
	}
	c.tls = opened.(*tls.Conn)
	c.under.Store(c.tls)
	return nil
}

// cut closes the connection, from any goroutine.
func (c *conn) cut() {
	if open := c.under.Load(); open != nil {
		_ = open.NetConn().Close()
	}
}

func (c *conn) close() {
	if c.tls != nil {
		_ = c.tls.Close()
		c.tls = nil
	}
}

// answer is a response. Its bytes are valid until the next exchange.
type answer struct {
	status    int
	requestID []byte
	replayed  bool
	last      bool // the server closes the connection after it
	head      []byte
	body      []byte
}

// exchange sends a request and reads its whole answer. After an error the connection is closed,
// because the start of the next answer is unknown.
func (c *conn) exchange(request []byte) (answer, error) {
	if _, err := c.tls.Write(request); err != nil {
		c.close()
		return answer{}, err
	}
	a, err := c.read()
	if err != nil || a.last {
		c.close()
	}
	return a, err
}

var headEnd = []byte("\r\n\r\n")

func (c *conn) read() (answer, error) {
	if c.buffer == nil {
		c.buffer = make([]byte, 16<<10)
	}
	have, end := 0, -1
	for end < 0 {
		if have == len(c.buffer) {
			return answer{}, errors.New("the answer's head is too long")
		}
		n, err := c.tls.Read(c.buffer[have:])
		if err != nil {
			return answer{}, err
		}
		// The end may lie across two reads.
		from := max(0, have-3)
		have += n
		if at := bytes.Index(c.buffer[from:have], headEnd); at >= 0 {
			end = from + at
		}
	}
	a, length, err := readHead(c.buffer[:end])
	if err != nil {
		return a, err
	}
	begin := end + len(headEnd)
	whole := begin + length
	if whole > len(c.buffer) {
		return a, fmt.Errorf("the answer's body has %d bytes", length)
	}
	for have < whole {
		n, err := c.tls.Read(c.buffer[have:])
		if err != nil {
			return a, err
		}
		have += n
	}
	if have > whole {
		return a, fmt.Errorf("%d bytes came after the end of the answer", have-whole)
	}
	a.head, a.body = c.buffer[:end], c.buffer[begin:whole]
	return a, nil
}

// readHead reads the status line and the headers that are used here. An answer without a
// length is refused.
func readHead(head []byte) (a answer, length int, err error) {
	length = -1
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	status, found := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !found || len(status) < 3 {
		return a, 0, fmt.Errorf("the answer begins with %.40q", line)
	}
	if a.status, err = strconv.Atoi(string(status[:3])); err != nil {
		return a, 0, fmt.Errorf("the answer begins with %.40q", line)
	}
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "content-length"):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return a, 0, fmt.Errorf("the answer's length is %q", value)
			}
		case is(name, "x-request-id"):
			a.requestID = value
		case is(name, "idempotent-replayed"):
			a.replayed = true
		case is(name, "connection"):
			a.last = bytes.EqualFold(value, []byte("close"))
		case is(name, "transfer-encoding"):
			return a, 0, fmt.Errorf("the answer's transfer encoding is %q", value)
		}
	}
	if length < 0 {
		return a, 0, errors.New("the answer has no length")
	}
	return a, length, nil
}

// is compares a header's name with one in lower case, most of which differ in
// their length already.
func is(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// code is the envelope's, after its request id was compared with the header's.
// The contract fixes the order of its fields, so the first of each is meant.
func (a answer) code() (string, error) {
	id, err := field(a.body, `"request_id":"`)
	if err != nil {
		return "", err
	}
	if len(id) == 0 || !bytes.Equal(id, a.requestID) {
		return "", fmt.Errorf("the answer is to %q in its body and to %q in its head", id, a.requestID)
	}
	code, err := field(a.body, `"code":"`)
	if err != nil {
		return "", err
	}
	if string(code) == "OK" {
		return "OK", nil // which is the one that comes thousands of times a second
	}
	return string(code), nil
}

func field(body []byte, name string) ([]byte, error) {
	at := bytes.Index(body, []byte(name))
	if at < 0 {
		return nil, fmt.Errorf("the answer has no %s…: %.100q", name, body)
	}
	rest := body[at+len(name):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return nil, fmt.Errorf("the answer is cut off: %.100q", body)
	}
	return rest[:end], nil
}
