package pgtest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is a TCP proxy to a server whose connections can be cut: after a number of bytes,
// between a COMMIT and its reply, or all at once. The server keeps running.
type Proxy struct {
	server   *Server
	listener net.Listener

	mu    sync.Mutex
	lines map[*proxied]bool
	// left is the number of bytes until the next cut, by direction; negative if none is
	// requested.
	left map[Direction]int
	// commits is how many replies to a COMMIT are passed on before one is lost; negative if
	// none is to be lost.
	commits int
	cuts    int
	seen    int // replies to a COMMIT, lost or not
}

// Direction is the direction of bytes.
type Direction int

// ToServer is what clients send, ToClient the server's replies.
const (
	ToServer Direction = iota
	ToClient
)

// proxied is one connection through the proxy.
type proxied struct{ client, server net.Conn }

func (p *proxied) close() {
	_ = p.client.Close()
	_ = p.server.Close()
}

// NewProxy starts a proxy to a server, which is closed when the test ends.
func NewProxy(t testing.TB, server *Server) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: server, listener: listener, lines: map[*proxied]bool{}, left: map[Direction]int{ToServer: -1, ToClient: -1}, commits: -1}
	t.Cleanup(func() {
		_ = listener.Close()
		p.CutAll()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.carry(client)
		}
	}()
	return p
}

// URL is the address of a database through the proxy.
func (p *Proxy) URL(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, p.listener.Addr(), database)
}

// CutAll cuts every present connection.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range p.lines {
		line.close()
	}
}

// CutAfter cuts one connection after the given number of further bytes in a direction, on
// all connections together.
func (p *Proxy) CutAfter(way Direction, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left[way] = bytes
}

// LoseCommit cuts one connection instead of passing on the reply to a COMMIT, after the
// given number of others.
func (p *Proxy) LoseCommit(after int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits = after
}

// Cuts returns how often a requested cut has happened, and cancels the rest.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left[ToServer], p.left[ToClient], p.commits = -1, -1, -1
	return p.cuts
}

// Commits is how many COMMITs the server has answered so far.
func (p *Proxy) Commits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (p *Proxy) carry(client net.Conn) {
	server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.server.Port))
	if err != nil {
		_ = client.Close()
		return
	}
	line := &proxied{client, server}
	p.mu.Lock()
	p.lines[line] = true
	p.mu.Unlock()
	var group sync.WaitGroup
	group.Go(func() { p.toServer(line) })
	group.Go(func() { p.toClient(line) })
	group.Wait()
	p.mu.Lock()
	delete(p.lines, line)
	p.mu.Unlock()
}

func (p *Proxy) toServer(line *proxied) {
	defer line.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := line.client.Read(buffer)
		if !p.pass(ToServer, line.server, buffer[:n]) || err != nil {
			return
		}
	}
}

// toClient passes on whole messages, so that it can recognise replies: a byte for the type,
// four for the length, and the body.
func (p *Proxy) toClient(line *proxied) {
	defer line.close()
	from := bufio.NewReader(line.server)
	for {
		message := make([]byte, 5)
		if _, err := io.ReadFull(from, message); err != nil {
			return
		}
		rest := make([]byte, binary.BigEndian.Uint32(message[1:])-4)
		if _, err := io.ReadFull(from, rest); err != nil {
			return
		}
		if message[0] == 'C' && string(rest) == "COMMIT\x00" && p.loses() {
			return
		}
		if !p.pass(ToClient, line.client, append(message, rest...)) {
			return
		}
	}
}

func (p *Proxy) loses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen++
	if p.commits < 0 {
		return false
	}
	if p.commits--; p.commits >= 0 {
		return false
	}
	p.cuts++
	return true
}

// pass sends bytes on, up to the next cut; false if that was reached.
func (p *Proxy) pass(way Direction, to net.Conn, bytes []byte) bool {
	p.mu.Lock()
	cut := false
	if left := p.left[way]; left >= 0 {
		cut = len(bytes) > left
		bytes = bytes[:min(left, len(bytes))]
		p.left[way] -= len(bytes)
		if cut {
			p.left[way] = -1
			p.cuts++
		}
	}
	p.mu.Unlock()
	_, err := to.Write(bytes)
	return err == nil && !cut
}
