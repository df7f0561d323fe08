package httpapi

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/acme"

	"github.com/coaxhq/coax/internal/fault"
)

func TestServer_ResumesTLSSession(t *testing.T) {
	h := newTestEnv(t)
	config := clientTLS()
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for visit, resumed := range []bool{false, true, true} {
		w := h.dial(h.tls, config)
		w.send(balanceRequest)
		w.expect(200, fault.OK) // the session ticket comes before the response
		if got := w.Conn.(*tls.Conn).ConnectionState().DidResume; got != resumed {
			t.Errorf("visit %d: resumed is %v; want %v", visit+1, got, resumed)
		}
		w.Close()
	}
}

// An authority's validation connection gets its certificate, and is then closed; nothing is
// served on it, and it does not count as refused. Without ACME there is no such protocol.
func TestServer_ValidationConnections(t *testing.T) {
	validation := clientTLS()
	validation.NextProtos = []string{acme.ALPNProto}
	with := newTestEnv(t, func(_ *Config, s *ServerConfig) { s.ACME = true })
	w := with.dial(with.tls, validation)
	if got := w.Conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != acme.ALPNProto {
		t.Errorf("the protocol is %q; want %s", got, acme.ALPNProto)
	}
	w.send(balanceRequest)
	if text, err := io.ReadAll(w.Conn); len(text) > 0 {
		t.Errorf("after the handshake the connection has %q, %v; want it closed", text, err)
	}
	if got := with.metric(`coax_http_connections_refused_total{reason="handshake"}`); got != 0 {
		t.Errorf("%v refused handshakes were counted", got)
	}
	clients := with.dial(with.tls, clientTLS())
	clients.send(balanceRequest)
	clients.expect(200, fault.OK)

	without := newTestEnv(t)
	if conn, err := tls.Dial("tcp", without.tls, validation); err == nil {
		t.Errorf("without ACME the protocol is %q", conn.ConnectionState().NegotiatedProtocol)
	}
}

// counter is a listener that counts writes to its connections.
type counter struct {
	net.Listener
	writes atomic.Int64
}

type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c *counter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return counted{conn, &c.writes}, err
}

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestServer_ResponseIsOneWrite(t *testing.T) {
	h := newTestEnv(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counting := &counter{Listener: listener}
	var served sync.WaitGroup
	served.Go(func() { _ = h.server.ServeTLS(counting) })
	defer served.Wait()
	defer listener.Close()
	w := h.dial(listener.Addr().String(), clientTLS())
	w.send(balanceRequest)
	w.expect(200, fault.OK)
	before := counting.writes.Load()
	const answers = 10
	for range answers {
		w.send(balanceRequest)
		w.expect(200, fault.OK)
	}
	if got := counting.writes.Load() - before; got != answers {
		t.Errorf("%d answers took %d writes", answers, got)
	}
}
