package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/telemetry"
)

func TestServer_KeepsConnectionAlive(t *testing.T) {
	h := newTestEnv(t)
	transport := &http.Transport{TLSClientConfig: clientTLS(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: waitLimit}
	for range 5 {
		response, err := client.Get("https://" + h.tls + "/api/v1/balance")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode != 200 || response.ProtoMajor != 1 {
			t.Errorf("answered %s %d; want HTTP/1.1 200", response.Proto, response.StatusCode)
		}
	}
	if got := h.metric("coax_http_connections"); got != 1 {
		t.Errorf("%v connections are open; want 1", got)
	}
}

func TestServer_RefusesPlainHTTPOnBothPorts(t *testing.T) {
	h := newTestEnv(t)
	for _, address := range []string{h.plain, h.tls} {
		w := h.dialPlain(address)
		for _, request := range []string{balanceRequest, "GET / HTTP/1.1\r\nHost: coax\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: coax\r\n\r\n"} {
			w.send("%s", request)
			w.expect(403, fault.HTTPSRequired)
		}
	}
}

func TestServer_TLSVersions(t *testing.T) {
	h := newTestEnv(t)
	old := clientTLS()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	onlyH2 := clientTLS()
	onlyH2.NextProtos = []string{"h2"}
	for name, config := range map[string]*tls.Config{"TLS 1.1": old, "nothing but HTTP/2": onlyH2} {
		raw, err := net.Dial("tcp", h.tls)
		if err != nil {
			t.Fatal(err)
		}
		raw.SetDeadline(time.Now().Add(waitLimit))
		if err := tls.Client(raw, config).Handshake(); err == nil {
			t.Errorf("%s was accepted", name)
		}
		raw.Close()
	}
	if !eventually(func() bool { return h.metric(`coax_http_connections_refused_total{reason="handshake"}`) == 2 }) {
		t.Error("the two failed handshakes were not counted")
	}

	again := clientTLS()
	again.MaxVersion = tls.VersionTLS12 // its ticket comes with the handshake
	again.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		state := h.dial(h.tls, again).Conn.(*tls.Conn).ConnectionState()
		if state.DidResume != (i == 1) {
			t.Errorf("connection %d: resumed is %v", i, state.DidResume)
		}
	}
}

func TestServer_CutsOffSlowClients(t *testing.T) {
	const short = 500 * time.Millisecond
	tests := []struct {
		name   string
		change func(*ServerConfig)
		dial   func(*testEnv) *wire
		send   string
	}{
		{
			"no byte after connecting", func(d *ServerConfig) { d.OpenTimeout = short },
			func(h *testEnv) *wire { return h.dialPlain(h.tls) }, "",
		},
		{
			"half a handshake", func(d *ServerConfig) { d.OpenTimeout = short },
			func(h *testEnv) *wire { return h.dialPlain(h.tls) }, "\x16\x03\x01\x02\x00\x01",
		},
		{
			"no byte after the handshake", func(d *ServerConfig) { d.ReadHeaderTimeout = short },
			(*testEnv).dialTLS, "",
		},
		{
			"half a header", func(d *ServerConfig) { d.ReadHeaderTimeout = short },
			(*testEnv).dialTLS, "GET /api/v1/balance HTTP/1.1\r\nHost:",
		},
		{
			"half a header on the plain port", func(d *ServerConfig) { d.ReadHeaderTimeout = short },
			func(h *testEnv) *wire { return h.dialPlain(h.plain) }, "GET / HTTP/1.1\r\nHost:",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t, func(_ *Config, server *ServerConfig) { tt.change(server) })
			w := tt.dial(h)
			w.send("%s", tt.send)
			w.expectClosed()
		})
	}
}

// net/http takes an unfinished request line for a malformed one.
func TestServer_SlowRequestLineIsFault(t *testing.T) {
	h := newTestEnv(t, func(_ *Config, server *ServerConfig) { server.ReadHeaderTimeout = 500 * time.Millisecond })
	w := h.dialTLS()
	w.send("GET /api")
	w.expect(400, fault.BadRequest)
	w.expectClosed()
}

func TestServer_ClosesIdleConnection(t *testing.T) {
	h := newTestEnv(t, func(_ *Config, server *ServerConfig) { server.IdleTimeout = 50 * time.Millisecond })
	w := h.dialTLS()
	w.send(balanceRequest)
	w.expect(200, fault.OK)
	w.expectClosed()
}

func TestServer_ConnectionLimits(t *testing.T) {
	trusting := func(api *Config, _ *ServerConfig) {
		api.Proxies = access.TrustedProxies{netip.MustParsePrefix("127.0.0.1/32")}
	}
	tests := []struct {
		name    string
		options []option
		places  int
		reason  string
	}{
		{
			"limit per address", []option{func(_ *Config, d *ServerConfig) { d.MaxPerAddress = 2 }},
			2, "address",
		},
		{
			"a trusted proxy is limited by the total only",
			[]option{trusting, func(_ *Config, d *ServerConfig) { d.MaxPerAddress, d.MaxConnections = 2, 4 }},
			4, "total",
		},
		{
			"limit in total", []option{func(_ *Config, d *ServerConfig) { d.MaxConnections = 3 }},
			3, "total",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestEnv(t, tt.options...)
			var inside []*wire
			for range tt.places {
				w := h.dialTLS()
				w.send(balanceRequest)
				w.expect(200, fault.OK)
				inside = append(inside, w)
			}
			for _, address := range []string{h.tls, h.plain} {
				h.dialPlain(address).expectClosed() // over the limit, on either port
			}
			// The server closes first and counts then, so the client may be early.
			refused := `coax_http_connections_refused_total{reason="` + tt.reason + `"}`
			if !eventually(func() bool { return h.metric(refused) == 2 }) {
				t.Errorf("%v connections refused for %q; want 2", h.metric(refused), tt.reason)
			}
			if got := h.metric("coax_http_connections"); got != float64(tt.places) {
				t.Errorf("%v connections are open; want %d", got, tt.places)
			}

			inside[0].Close()
			if !eventually(func() bool { return h.metric("coax_http_connections") == float64(tt.places-1) }) {
				t.Fatal("a place did not become free")
			}
			w := h.dialTLS()
			w.send(balanceRequest)
			w.expect(200, fault.OK)
		})
	}
}

func TestShutdown_Drains(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	h := newTestEnv(t, func(api *Config, _ *ServerConfig) {
		wallets := api.Wallets
		api.Wallets = walletFunc(func(ctx context.Context, id int64) (subscription.Wallet, error) {
			close(entered)
			<-release
			return wallets.Wallet(ctx, id)
		})
	})
	busy, idle, silent, handshaking := h.dialTLS(), h.dialTLS(), h.dialTLS(), h.dialPlain(h.tls)
	idle.send("GET /api/v1/plans HTTP/1.1\r\nHost: coax\r\n\r\n")
	idle.expect(200, fault.OK)
	busy.send(balanceRequest)
	<-entered

	done := make(chan error, 1)
	go func() { done <- h.server.Shutdown(context.Background()) }()
	h.served.Wait() // the listeners are closed
	for _, address := range []string{h.tls, h.plain} {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Errorf("%s still takes connections", address)
		}
	}
	for name, w := range map[string]*wire{"idle": idle, "silent": silent, "still handshaking": handshaking} {
		t.Run(name+" is closed", func(*testing.T) { w.expectClosed() })
	}
	select {
	case err := <-done:
		t.Fatalf("shutdown did not wait for the request under way: %v", err)
	default:
	}

	close(release)
	if g := busy.expect(200, fault.OK); !g.Close {
		t.Error("the last answer does not say that it is the last")
	}
	busy.expectClosed()
	if err := <-done; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestShutdown_CutsOffAtDeadline(t *testing.T) {
	entered, cut := make(chan struct{}), make(chan struct{})
	h := newTestEnv(t, func(api *Config, _ *ServerConfig) {
		api.Wallets = walletFunc(func(ctx context.Context, _ int64) (subscription.Wallet, error) {
			close(entered)
			<-ctx.Done()
			close(cut)
			return subscription.Wallet{}, ctx.Err()
		})
	})
	w := h.dialTLS()
	w.send(balanceRequest)
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown = %v; want that time was up", err)
	}
	<-cut
	w.expectClosed()
}

func TestShutdown_IsFinal(t *testing.T) {
	h := newTestEnv(t)
	if err := h.server.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.server.ServeTLS(listener); err != nil {
		t.Errorf("ServeTLS = %v; want nil", err)
	}
	if c, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		c.Close()
		t.Error("a listener given to a server after Shutdown is open")
	}
}

// flaky is a listener that fails a few times first.
type flaky struct {
	net.Listener
	failures int
}

func (l *flaky) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, errors.New("too many open files")
	}
	return l.Listener.Accept()
}

func TestServer_AcceptsAfterFailure(t *testing.T) {
	h := newTestEnv(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.served.Go(func() { h.server.ServeTLS(&flaky{Listener: listener, failures: 3}) })
	w := h.dial(listener.Addr().String(), clientTLS())
	w.send(balanceRequest)
	w.expect(200, fault.OK)
	if !strings.Contains(h.logs.String(), "too many open files") {
		t.Errorf("the log says nothing of the failure:\n%s", h.logs)
	}
}

func TestServer_ReportsListenerClosedByOwner(t *testing.T) {
	h := newTestEnv(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := h.server.ServePlain(listener); !errors.Is(err, net.ErrClosed) {
		t.Errorf("ServePlain = %v; want that the listener is closed", err)
	}
}

func TestErrorLog_LimitsRateAndLength(t *testing.T) {
	j := &logs{}
	c := &errorLog{log: telemetry.NewLogger(j, slog.LevelInfo, "json")}
	for range 100 {
		io.WriteString(c, "http: "+strings.Repeat("x", 1000)+"\nand a stack\n")
	}
	lines := j.lines(t)
	if len(lines) != 1 || len(lines[0]["error"].(string)) != errorLogBytes {
		t.Errorf("logged %v; want one short line", lines)
	}
	c.busy.Store(false) // as after the pause
	io.WriteString(c, "again")
	if lines := j.lines(t); len(lines) != 2 || lines[1]["not_shown"] != 99.0 {
		t.Errorf("logged %v; want a second line that owns up to 99", lines)
	}
}
