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
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/telemetry"
)

// Pages is what people see in a browser, beside the API. It has some paths of its
// own, and sees no request that did not come over HTTPS.
type Pages interface {
	Owns(path string) bool
	http.Handler
}

// ServerConfig says how a Server lets connections in. Handler is required,
// and GetCertificate too if TLS is served; the rest has defaults.
type ServerConfig struct {
	Handler http.Handler
	// Pages may be left out; then every path is the handler's.
	Pages          Pages
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Proxies        access.TrustedProxies
	Log            *slog.Logger
	Metrics        *telemetry.Metrics

	// MaxConnections bounds all connections together (4096), MaxPerNetwork those
	// from one network (IPv4 /24, IPv6 /64; 1024, and never less than
	// MaxPerAddress), MaxPerAddress those from one address (256). The last two
	// are not for trusted proxies.
	MaxConnections int
	MaxPerNetwork  int
	MaxPerAddress  int

	// OpenTimeout is for the first byte and the TLS handshake (5 s),
	// ReadHeaderTimeout for a request's head (5 s), ReadTimeout for all of it
	// (15 s), IdleTimeout for the pause between two (60 s). WriteTimeout runs
	// from the head to the end of the answer, and so must outlast the longest
	// operation (60 s).
	OpenTimeout       time.Duration
	ReadHeaderTimeout time.Duration
	ReadTimeout       time.Duration
	IdleTimeout       time.Duration
	WriteTimeout      time.Duration

	// HSTSIncludeSubdomains extends Strict-Transport-Security, which every response
	// over TLS carries, to the names below the host's.
	HSTSIncludeSubdomains bool

	// MaxHeaderBytes bounds a request's head (8 KiB); net/http adds 4 KiB of
	// its own to any bound.
	MaxHeaderBytes int
}

// Server lets connections in: it counts them, finds out whether they speak
// TLS, and hands them to net/http. Whatever net/http would answer by itself, it
// answers in the envelope. It serves any number of listeners, which share one
// handler and one count.
type Server struct {
	handler     http.Handler
	pages       Pages
	tls         *tls.Config
	hsts        []string
	proxies     access.TrustedProxies
	record      record
	openTimeout time.Duration
	server      *http.Server
	queue       *queue
	start       sync.Once

	// opening ends when the door is shut: a handshake under way is cut off.
	opening context.Context
	shut    context.CancelFunc

	// What has to end before Shutdown returns, in the order in which it ends: no
	// group grows once those before it have ended.
	accepting sync.WaitGroup
	greeting  sync.WaitGroup
	running   sync.WaitGroup

	table *connTable

	mu        sync.Mutex // guards what follows
	listeners map[net.Listener]struct{}
}

// NewServer returns a door that is open as soon as it is given a listener.
func NewServer(config ServerConfig) *Server {
	f := &Server{
		handler:     config.Handler,
		pages:       config.Pages,
		proxies:     config.Proxies,
		hsts:        hstsValue(config.HSTSIncludeSubdomains),
		record:      newRecord(config.Log, config.Metrics),
		openTimeout: cmp.Or(config.OpenTimeout, 5*time.Second),
		queue:       newQueue(),
		listeners:   map[net.Listener]struct{}{},
		table: newConnTable(
			cmp.Or(config.MaxConnections, 4096), cmp.Or(config.MaxPerNetwork, 1024), cmp.Or(config.MaxPerAddress, 256)),
		// HTTP/2 is not offered: the callers are servers, one request at a time
		// is what they sign, and what cannot be spoken cannot be flooded.
		tls: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"http/1.1"},
			GetCertificate: config.GetCertificate,
		},
	}
	f.opening, f.shut = context.WithCancel(context.Background())

	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	f.server = &http.Server{
		Handler:                      http.HandlerFunc(f.handle),
		DisableGeneralOptionsHandler: true, // OPTIONS * is a wrong path like any other
		Protocols:                    protocols,
		ReadHeaderTimeout:            cmp.Or(config.ReadHeaderTimeout, 5*time.Second),
		ReadTimeout:                  cmp.Or(config.ReadTimeout, 15*time.Second),
		IdleTimeout:                  cmp.Or(config.IdleTimeout, 60*time.Second),
		WriteTimeout:                 cmp.Or(config.WriteTimeout, 60*time.Second),
		MaxHeaderBytes:               cmp.Or(config.MaxHeaderBytes, 8<<10),
		ErrorLog:                     log.New(&complaints{log: f.record.log}, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ctx = access.OnAuthenticated(ctx, c.(*conn).keep)
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				c.(*conn).idle()
			}
		},
	}
	return f
}

// ServeTLS lets in what comes to listener, until the door is shut; then it
// returns nil. Who speaks plain HTTP there is heard, and told to use HTTPS.
func (f *Server) ServeTLS(listener net.Listener) error { return f.serve(listener, f.greet) }

// ServePlain is for a listener without TLS, where a trusted proxy has taken it
// off. To anybody else it says that HTTPS is required.
func (f *Server) ServePlain(listener net.Listener) error {
	return f.serve(listener, func(context.Context, *conn) error { return nil })
}

func (f *Server) serve(listener net.Listener, greet func(context.Context, *conn) error) error {
	if !f.watch(listener) {
		listener.Close()
		return nil
	}
	defer f.accepting.Done()
	f.start.Do(func() { f.running.Go(func() { f.server.Serve(f.queue) }) })

	var pause time.Duration
	for {
		raw, err := listener.Accept()
		switch {
		case f.opening.Err() != nil:
			if err == nil {
				raw.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			// Out of file descriptors, most likely. Some will come back; to
			// ask again at once would only burn the processor.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			f.server.ErrorLog.Printf("accept a connection: %v; again in %v", err, pause)
			select {
			case <-time.After(pause):
			case <-f.opening.Done():
			}
			continue
		}
		pause = 0
		if c := f.enter(raw); c != nil {
			f.greeting.Go(func() { f.open(c, greet) })
		}
	}
}

// watch makes Shutdown close the listener and wait for its loop. It reports
// whether the door is still open.
func (f *Server) watch(listener net.Listener) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opening.Err() != nil {
		return false
	}
	f.listeners[listener] = struct{}{}
	f.accepting.Add(1)
	return true
}

// enter gives a new connection its place, or closes it if there is none. Nothing
// is said to a connection too many: that would need the time we do not have.
func (f *Server) enter(raw net.Conn) *conn {
	c := &conn{Conn: raw, raw: raw, door: f, peer: peerOf(raw.RemoteAddr().String())}
	drop, refused := f.table.enter(c, f.proxies.Trusts(c.peer))
	if refused != "" {
		raw.Close()
		f.record.metrics.ConnectionRefused(refused)
		return nil
	}
	if drop.conn != nil {
		drop.conn.raw.Close()
		f.record.metrics.ConnectionDropped(drop.limit, drop.state.String())
		f.record.metrics.ConnectionClosed()
	}
	f.record.metrics.ConnectionOpened()
	return c
}

// leave gives up a connection's place.
func (f *Server) leave(c *conn) {
	if f.table.leave(c) {
		f.record.metrics.ConnectionClosed()
	}
}

// open greets a connection and hands it to net/http. Each is greeted in its own
// goroutine, so that somebody who says nothing keeps nobody else waiting.
func (f *Server) open(c *conn, greet func(context.Context, *conn) error) {
	ctx, cancel := context.WithTimeout(f.opening, f.openTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.raw.Close() })
	err := greet(ctx, c)
	if inTime := stop(); err != nil || !inTime || !f.queue.put(c) {
		if !c.dropped.Load() {
			f.record.metrics.ConnectionRefused("handshake")
		}
		c.Close()
	}
}

// greet finds out by the first byte whether the other end speaks TLS. A TLS
// record that opens a handshake begins with 0x16, which no HTTP request does.
func (f *Server) greet(ctx context.Context, c *conn) error {
	var first [1]byte
	if _, err := io.ReadFull(c.raw, first[:]); err != nil {
		return err
	}
	c.Conn = &unread{Conn: c.raw, first: first[:]}
	if first[0] != 0x16 {
		return nil
	}
	encrypted := tls.Server(c.Conn, f.tls)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return err
	}
	c.Conn, c.secure = encrypted, true
	return nil
}

// handle stands between net/http and the handler.
func (f *Server) handle(w http.ResponseWriter, r *http.Request) {
	c := connOf(r.Context())
	c.handling.Store(true)
	c.served++
	// Until the request was read to its end the connection may be dropped, and
	// nothing is done for a request whose connection was.
	switch {
	case r.Body != nil && r.Body != http.NoBody:
		// Handlers replace the body in a copy: by the body of its own request net/http
		// finds out whether the client still waits to be told to send it.
		r = r.WithContext(r.Context())
		if !c.kept.Load() {
			r.Body = &wholeBody{r.Body, c}
		}
	case !c.busy():
		panic(http.ErrAbortHandler)
	}
	f.setHSTS(w.Header(), c, r)
	// A chunked request is the last on its connection, and so is one of HTTP/1.0.
	// Where the next request begins is then nobody's opinion: framing relies on
	// that, and it is what RFC 9112, section 6.1, asks for where the two ways of
	// giving a length meet.
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		w.Header().Set("Connection", "close")
	}
	if c.framing.ambiguous.Load() == c.served {
		c.over.Store(true)
		answer, body := f.fault(c, http.StatusBadRequest)
		answer.send(w, body)
		return
	}
	f.handlerOf(c, r).ServeHTTP(w, r)
}

// handlerOf tells pages from the API, by the path as it was sent. Over plain HTTP
// everything is the API's, which refuses it whatever the path.
func (f *Server) handlerOf(c *conn, r *http.Request) http.Handler {
	if f.pages == nil {
		return f.handler
	}
	path, _ := splitTarget(r.RequestURI)
	if !f.pages.Owns(path) || !f.proxies.Secure(c.peer, c.secure, r.Header["X-Forwarded-Proto"]) {
		return f.handler
	}
	return f.pages
}

// Shutdown lets nobody in any more, waits until the requests under way are
// answered, and closes everything. When ctx ends first, they are cut off.
func (f *Server) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	f.shut()
	for listener := range f.listeners {
		listener.Close()
	}
	f.mu.Unlock()

	// Once these have ended, no connection is handed to net/http any more. Those
	// that have not said anything yet are hung up on: net/http would wait five
	// seconds for them.
	f.accepting.Wait()
	f.greeting.Wait()
	for _, c := range f.table.silent() {
		c.Close()
	}

	err := f.server.Shutdown(ctx)
	if err != nil {
		f.server.Close()
	}
	f.queue.Close() // if nothing was ever served, nobody else has closed it
	f.running.Wait()
	return err
}
