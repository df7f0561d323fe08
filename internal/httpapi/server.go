package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/telemetry"
)

// Pages serves the panel and the console. It owns some paths, and receives only
// requests that came over HTTPS.
type Pages interface {
	Owns(path string) bool
	http.Handler
}

// ServerConfig configures a Server. Handler is required, and so is GetCertificate
// if TLS is served; the rest has defaults.
type ServerConfig struct {
	Handler http.Handler
	// Pages is optional; without it Handler serves every path.
	Pages          Pages
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ACME offers acme-tls/1 to the validation connections of an authority, for which
	// GetCertificate returns the answer to a challenge. They are closed after the handshake.
	ACME    bool
	Proxies access.TrustedProxies
	Log     *slog.Logger
	Metrics *telemetry.Metrics

	// MaxConnections limits all connections together (4096), MaxPerNetwork those
	// from one network (IPv4 /24, IPv6 /64; 1024, and never less than
	// MaxPerAddress), MaxPerAddress those from one address (256). The last two
	// do not apply to trusted proxies.
	MaxConnections int
	MaxPerNetwork  int
	MaxPerAddress  int

	// OpenTimeout is for the first byte and the TLS handshake (5 s),
	// ReadHeaderTimeout for a request's header (5 s), ReadTimeout for the whole
	// request (15 s), IdleTimeout for the pause between two requests (60 s).
	// WriteTimeout runs from the end of the header to the end of the response, so
	// it must exceed the longest operation (60 s).
	OpenTimeout       time.Duration
	ReadHeaderTimeout time.Duration
	ReadTimeout       time.Duration
	IdleTimeout       time.Duration
	WriteTimeout      time.Duration

	// HSTSIncludeSubdomains extends Strict-Transport-Security, which every response
	// over TLS carries, to the names below the host's.
	HSTSIncludeSubdomains bool

	// MaxHeaderBytes limits a request's header (8 KiB); net/http adds 4 KiB to
	// any limit.
	MaxHeaderBytes int
}

// Server accepts connections, limits their number, detects TLS and passes them to
// net/http. Where net/http would write an error response of its own, Server writes
// one in the envelope. It serves any number of listeners, which share the handler
// and the connection limits.
type Server struct {
	handler     http.Handler
	pages       Pages
	tls         *tls.Config
	hsts        []string
	proxies     access.TrustedProxies
	recorder    recorder
	openTimeout time.Duration
	httpServer  *http.Server
	queue       *queue
	start       sync.Once

	// opening is cancelled by Shutdown, which ends handshakes under way.
	opening context.Context
	shut    context.CancelFunc

	// Shutdown waits for these in this order: nothing is added to a group once the
	// groups before it have ended.
	accepting   sync.WaitGroup
	handshaking sync.WaitGroup
	running     sync.WaitGroup

	table *connTable

	mu        sync.Mutex // guards what follows
	listeners map[net.Listener]struct{}
}

// NewServer returns a Server; ServeTLS and ServePlain start it.
func NewServer(config ServerConfig) *Server {
	s := &Server{
		handler:     config.Handler,
		pages:       config.Pages,
		proxies:     config.Proxies,
		hsts:        hstsValue(config.HSTSIncludeSubdomains),
		recorder:    newRecorder(config.Log, config.Metrics),
		openTimeout: cmp.Or(config.OpenTimeout, 5*time.Second),
		queue:       newQueue(),
		listeners:   map[net.Listener]struct{}{},
		table: newConnTable(
			cmp.Or(config.MaxConnections, 4096), cmp.Or(config.MaxPerNetwork, 1024), cmp.Or(config.MaxPerAddress, 256)),
		// HTTP/2 is not offered: callers are servers that sign one request at a
		// time, and its flooding attacks are ruled out.
		tls: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"http/1.1"},
			GetCertificate: config.GetCertificate,
		},
	}
	if config.ACME {
		s.tls.NextProtos = append(s.tls.NextProtos, acme.ALPNProto)
	}
	s.opening, s.shut = context.WithCancel(context.Background())
	s.recorder.metrics.ExpectConnections(append(slices.Clone(limits), refusedInHandshake), limits, []string{connWaiting.String(), connIdle.String()})

	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	s.httpServer = &http.Server{
		Handler:                      http.HandlerFunc(s.handle),
		DisableGeneralOptionsHandler: true, // OPTIONS * is answered as an unknown path
		Protocols:                    protocols,
		ReadHeaderTimeout:            cmp.Or(config.ReadHeaderTimeout, 5*time.Second),
		ReadTimeout:                  cmp.Or(config.ReadTimeout, 15*time.Second),
		IdleTimeout:                  cmp.Or(config.IdleTimeout, 60*time.Second),
		WriteTimeout:                 cmp.Or(config.WriteTimeout, 60*time.Second),
		MaxHeaderBytes:               cmp.Or(config.MaxHeaderBytes, 8<<10),
		ErrorLog:                     log.New(&errorLog{log: s.recorder.log}, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ctx = access.OnAuthenticated(ctx, c.(*conn).markAuthenticated)
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				c.(*conn).markIdle()
			}
		},
	}
	return s
}

// ServeTLS serves connections from listener until Shutdown, and then returns nil. A
// plain HTTP request on it is answered with HTTPS_REQUIRED.
func (s *Server) ServeTLS(listener net.Listener) error { return s.serve(listener, s.handshake) }

// ServePlain serves a listener behind a trusted proxy that terminates TLS. Requests
// from any other address are answered with HTTPS_REQUIRED.
func (s *Server) ServePlain(listener net.Listener) error {
	return s.serve(listener, func(context.Context, *conn) error { return nil })
}

func (s *Server) serve(listener net.Listener, handshake func(context.Context, *conn) error) error {
	if !s.register(listener) {
		listener.Close()
		return nil
	}
	defer s.accepting.Done()
	s.start.Do(func() { s.running.Go(func() { s.httpServer.Serve(s.queue) }) })

	var pause time.Duration
	for {
		raw, err := listener.Accept()
		switch {
		case s.opening.Err() != nil:
			if err == nil {
				raw.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			// Most likely out of file descriptors: wait for some to be released.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.httpServer.ErrorLog.Printf("accept a connection: %v; retrying in %v", err, pause)
			select {
			case <-time.After(pause):
			case <-s.opening.Done():
			}
			continue
		}
		pause = 0
		if c := s.add(raw); c != nil {
			s.handshaking.Go(func() { s.open(c, handshake) })
		}
	}
}

// register makes Shutdown close the listener and wait for its accept loop. It
// returns false after Shutdown.
func (s *Server) register(listener net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening.Err() != nil {
		return false
	}
	s.listeners[listener] = struct{}{}
	s.accepting.Add(1)
	return true
}

// refusedInHandshake is the reason of a refused connection beside the limits.
const refusedInHandshake = "handshake"

// add puts a new connection into the table, or closes it and returns nil if a limit
// is reached. A refused connection gets no response: that would cost a handshake.
func (s *Server) add(raw net.Conn) *conn {
	c := &conn{Conn: raw, raw: raw, server: s, peer: peerOf(raw.RemoteAddr().String())}
	drop, refused := s.table.add(c, s.proxies.Trusts(c.peer))
	if refused != "" {
		raw.Close()
		s.recorder.metrics.ConnectionRefused(refused)
		return nil
	}
	if drop.conn != nil {
		drop.conn.raw.Close()
		s.recorder.metrics.ConnectionDropped(drop.limit, drop.state.String())
		s.recorder.metrics.ConnectionClosed()
	}
	s.recorder.metrics.ConnectionOpened()
	return c
}

// remove takes a closed connection out of the table.
func (s *Server) remove(c *conn) {
	if s.table.remove(c) {
		s.recorder.metrics.ConnectionClosed()
	}
}

// open does a connection's handshake and passes it to net/http. It runs in a
// goroutine per connection, so that a silent client delays no other.
func (s *Server) open(c *conn, handshake func(context.Context, *conn) error) {
	ctx, cancel := context.WithTimeout(s.opening, s.openTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.raw.Close() })
	err := handshake(ctx, c)
	if inTime := stop(); err != nil || !inTime || !s.queue.put(c) {
		if !c.dropped.Load() && !errors.Is(err, errValidation) {
			s.recorder.metrics.ConnectionRefused(refusedInHandshake)
		}
		c.Close()
	}
}

// handshake detects TLS by the first byte and does the TLS handshake. A TLS
// handshake record begins with 0x16, which no HTTP request does.
func (s *Server) handshake(ctx context.Context, c *conn) error {
	var first [1]byte
	if _, err := io.ReadFull(c.raw, first[:]); err != nil {
		return err
	}
	c.Conn = &peekedConn{Conn: c.raw, first: first[:]}
	if first[0] != 0x16 {
		return nil
	}
	encrypted := tls.Server(c.Conn, s.tls)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return err
	}
	if encrypted.ConnectionState().NegotiatedProtocol == acme.ALPNProto {
		_ = encrypted.CloseWrite()
		return errValidation
	}
	c.Conn, c.secure = encrypted, true
	return nil
}

// errValidation ends the connection of an authority that has seen its answer.
var errValidation = errors.New("an authority's validation connection")

// handle is net/http's handler: it tracks the connection's state and calls the API
// or the pages.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	c := connOf(r.Context())
	c.handling.Store(true)
	c.served++
	// A connection may be dropped until its request was read completely; a request
	// whose connection was dropped must not be handled.
	switch {
	case r.Body != nil && r.Body != http.NoBody:
		// Replace the body in a copy of the request: net/http checks the body of its
		// own request to see whether the client still waits for 100 Continue.
		r = r.WithContext(r.Context())
		if !c.authenticated.Load() {
			r.Body = &wholeBody{r.Body, c}
		}
	case !c.markBusy():
		panic(http.ErrAbortHandler)
	}
	s.setHSTS(w.Header(), c, r)
	// A chunked request and an HTTP/1.0 request are the last on their connection, so
	// that no two readers can disagree on where the next request begins: framing relies on
	// it, and RFC 9112, section 6.1, demands it where both kinds of length are given.
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		w.Header().Set("Connection", "close")
	}
	if c.framing.ambiguous.Load() == c.served {
		c.readDone.Store(true)
		resp, body := s.fault(c, http.StatusBadRequest)
		resp.send(w, body)
		return
	}
	s.handlerOf(c, r).ServeHTTP(w, r)
}

// handlerOf returns the pages or the API, by the path as it was sent. Plain HTTP
// goes to the API, which refuses it for every path.
func (s *Server) handlerOf(c *conn, r *http.Request) http.Handler {
	if s.pages == nil {
		return s.handler
	}
	path, _ := splitTarget(r.RequestURI)
	if !s.pages.Owns(path) || !s.proxies.Secure(c.peer, c.secure, r.Header["X-Forwarded-Proto"]) {
		return s.handler
	}
	return s.pages
}

// Shutdown stops accepting connections, waits until the requests under way are
// answered, and closes everything. If ctx ends first, those requests are cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.shut()
	for listener := range s.listeners {
		listener.Close()
	}
	s.mu.Unlock()

	// From here on net/http gets no new connection. Connections that have sent
	// nothing yet are closed here: net/http would wait five seconds for them.
	s.accepting.Wait()
	s.handshaking.Wait()
	for _, c := range s.table.silent() {
		c.Close()
	}

	err := s.httpServer.Shutdown(ctx)
	if err != nil {
		s.httpServer.Close()
	}
	s.queue.Close() // if nothing was ever served, net/http has not closed it
	s.running.Wait()
	return err
}
