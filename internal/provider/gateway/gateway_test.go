package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// timeout does not expire, even on a busy machine.
const timeout = 2 * time.Minute

func open(t testing.TB, config Config) *Gateway {
	t.Helper()
	if config.Timeout == 0 {
		config.Timeout = timeout
	}
	g, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// answering starts a provider that sends the same reply to every call.
func answering(t testing.TB, code int, body string) *httptest.Server {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	})
}

func serving(t testing.TB, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server
}

var order = operation.Order{
	Reference:    "CX1-2.3",
	ClientKey:    "deb6947af76822393450b22a9a6e671195e908c66b8970f598d0b5d028142bfa",
	Kind:         operation.Activate,
	SubscriberID: "100234",
	Mobile:       "9812345678",
	Name:         "अनिता \"देसाई\"",
	Email:        "anita@example.in",
	Password:     "hunter2 <&>",
	Component:    "TV-FAMILY",
	Months:       3,
	// Late on the last day of February in London is March in India.
	StartDate: time.Date(2027, 2, 28, 20, 0, 0, 0, time.UTC),
	ExpiresAt: time.Date(2027, 5, 30, 13, 0, 0, 0, time.UTC),
}

func TestNew_ConfigErrors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := Config{URL: "https://provider.example", Timeout: time.Second}
	tests := []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no address", func(c *Config) { c.URL = "" }, "https://provider.example"},
		{"no scheme", func(c *Config) { c.URL = "provider.example" }, "https://provider.example"},
		{"another scheme", func(c *Config) { c.URL = "ftp://provider.example" }, "https://provider.example"},
		{"no host", func(c *Config) { c.URL = "https://" }, "https://provider.example"},
		{"not an address", func(c *Config) { c.URL = "https://hunter2\x7f" }, "cannot be read"},
		{"a password in the address", func(c *Config) { c.URL = "https://coax:hunter2@provider.example" }, "token"},
		{"a query", func(c *Config) { c.URL = "https://provider.example?key=hunter2" }, "before any ?"},
		{"a fragment", func(c *Config) { c.URL = "https://provider.example#x" }, "before any ?"},
		{"no time", func(c *Config) { c.Timeout = 0 }, "time"},
		{"negative time", func(c *Config) { c.Timeout = -time.Second }, "time"},
		{"a token with a line break", func(c *Config) { c.Token = "hunter2\n" }, "line break"},
		{"a token in the open", func(c *Config) { c.URL, c.Token = "http://provider.example", "hunter2" }, "unencrypted"},
		{"a CA that is not there", func(c *Config) { c.CAFile = filepath.Join(t.TempDir(), "ca.pem") }, "CA"},
		{"a CA without a certificate", func(c *Config) { c.CAFile = empty }, "no certificate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config := good
			tt.change(&config)
			_, err := New(config)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("New = %v; want an error that says %q and no secret", err, tt.want)
			}
		})
	}
	for _, url := range []string{"http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://provider.example"} {
		if _, err := New(Config{URL: url, Timeout: time.Second, Token: "hunter2"}); err != nil {
			t.Errorf("New with a token for %s: %v", url, err)
		}
	}
}

func TestTransport_NoAutomaticFeatures(t *testing.T) {
	g := open(t, Config{URL: "https://provider.example"})
	if g.transport.Load().Proxy != nil || !g.transport.Load().DisableCompression || g.transport.Load().DisableKeepAlives ||
		g.transport.Load().TLSClientConfig.InsecureSkipVerify || g.transport.Load().TLSClientConfig.MinVersion != 0x0303 ||
		g.transport.Load().Protocols.HTTP2() || g.transport.Load().Protocols.UnencryptedHTTP2() {
		t.Errorf("the transport is %+v", g.transport.Load())
	}
}

// seen is a request as the provider receives it.
type seen struct {
	target string
	header http.Header
	body   map[string]any
}

func record(t testing.TB, config Config, ask func(*Gateway)) seen {
	t.Helper()
	var got seen
	server := serving(t, func(w http.ResponseWriter, r *http.Request) {
		got = seen{target: r.Method + " " + r.RequestURI, header: r.Header.Clone()}
		_ = json.NewDecoder(r.Body).Decode(&got.body)
	})
	config.URL = server.URL + config.URL
	ask(open(t, config))
	return got
}

func TestGateway_Requests(t *testing.T) {
	ctx := context.Background()
	about := map[string]any{"reference": "CX1-2.3", "subscriber_id": "100234", "mobile": "9812345678", "component": "TV-FAMILY"}
	ordered := with(about, map[string]any{"client_key": order.ClientKey, "months": 3.0, "start_date": "2027-03-01", "expires_at": "2027-05-30T18:30:00+05:30"})
	kind := func(k operation.Kind) operation.Order {
		o := order
		o.Kind = k
		return o
	}
	strange := operation.Order{Reference: "CX1&a=b c/ü"}
	tests := []struct {
		name   string
		ask    func(*Gateway)
		target string
		body   map[string]any
	}{
		{"activate", func(g *Gateway) { g.Apply(ctx, order) }, "POST /coax/v1/activate",
			with(ordered, map[string]any{"name": "अनिता \"देसाई\"", "email": "anita@example.in", "password": "hunter2 <&>"})},
		{"renew", func(g *Gateway) { g.Apply(ctx, kind(operation.Renew)) }, "POST /coax/v1/renew", ordered},
		{"advance renew", func(g *Gateway) { g.Apply(ctx, kind(operation.AdvanceRenew)) }, "POST /coax/v1/advance-renew", ordered},
		{"reset password", func(g *Gateway) {
			g.ResetPassword(ctx, operation.PasswordReset{Reference: "PW1", SubscriberID: "100234", Mobile: "9812345678", Password: "hunter2 <&>"})
		}, "POST /coax/v1/reset-password", map[string]any{
			"reference": "PW1", "subscriber_id": "100234", "mobile": "9812345678", "password": "hunter2 <&>",
		}},
		{"contact", func(g *Gateway) {
			g.UpdateContact(ctx, operation.ContactUpdate{Reference: "CT1", SubscriberID: "100234", Mobile: "9812345678", Version: 3, Contact: operation.Contact{
				Name: "Anita", Area: "Ward 4", Address: "7 Lake Road\nKochi", BoxNumber: "STB1", Notes: "the operator's own",
			}})
		}, "POST /coax/v1/contact", map[string]any{
			"reference": "CT1", "subscriber_id": "100234", "mobile": "9812345678", "version": 3.0, "name": "Anita", "email": "", "area": "Ward 4",
			"address": "7 Lake Road\nKochi", "box_number": "STB1",
		}},
		{"status", func(g *Gateway) { g.Status(ctx, order) }, "GET /coax/v1/status?reference=CX1-2.3", nil},
		{"status of something strange", func(g *Gateway) { g.Status(ctx, strange) }, "GET /coax/v1/status?reference=CX1%26a%3Db+c%2F%C3%BC", nil},
		{"void", func(g *Gateway) { g.Void(ctx, order) }, "POST /coax/v1/void", about},
		{"catalogue", func(g *Gateway) { _, _ = g.Catalogue(ctx) }, "GET /coax/v1/catalogue", nil},
		{"probe", func(g *Gateway) { _ = g.Probe(ctx) }, "GET /coax/v1/status?reference=probe", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, base := range []string{"/coax", "/coax/"} {
				got := record(t, Config{URL: base, Token: "t0ken"}, tt.ask)
				if got.target != tt.target || !reflect.DeepEqual(got.body, tt.body) {
					t.Errorf("sent %s %v; want %s %v", got.target, got.body, tt.target, tt.body)
				}
				var names []string
				for name := range got.header {
					names = append(names, name)
				}
				slices.Sort(names)
				want := []string{"Accept", "Accept-Encoding", "Authorization", "User-Agent"}
				if tt.body != nil {
					want = []string{"Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "User-Agent"}
				}
				if !slices.Equal(names, want) {
					t.Errorf("sent the headers %v; want %v and no more", names, want)
				}
				if got.header.Get("Authorization") != "Bearer t0ken" || got.header.Get("Accept-Encoding") != "identity" {
					t.Errorf("sent %v", got.header)
				}
			}
		})
	}
	if got := record(t, Config{}, func(g *Gateway) { g.Apply(ctx, order) }); got.header.Get("Authorization") != "" {
		t.Error("sent an authorization without a token")
	}
}

func with(a, b map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range []map[string]any{a, b} {
		for name, value := range m {
			all[name] = value
		}
	}
	return all
}

func TestApply_InvalidOrderIsNotSent(t *testing.T) {
	server := serving(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	g := open(t, Config{URL: server.URL})
	for _, change := range []func(*operation.Order){
		func(o *operation.Order) { o.Reference = "" },
		func(o *operation.Order) { o.Kind = "cancel" },
		func(o *operation.Order) { o.Kind = "" },
	} {
		odd := order
		change(&odd)
		got := g.Apply(context.Background(), odd)
		if got.Outcome != operation.Rejected || !got.NotSent {
			t.Errorf("Apply(%+v) = %+v; want it never to leave", odd, got)
		}
	}
}

func TestGateway_ReusesConnections(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"reference":"CX1-2.3","status":"rejected","message":"no"}`)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	g := open(t, Config{URL: server.URL})
	for range 50 {
		if got := g.Apply(context.Background(), order); got.Outcome != operation.Rejected {
			t.Fatalf("Apply = %+v", got)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("50 calls took %d connections; want 1", n)
	}
}

func TestApply_DatesAreIndian(t *testing.T) {
	late := order
	late.StartDate = time.Date(2027, 3, 1, 0, 0, 0, 0, subscription.IST)
	for _, start := range []time.Time{late.StartDate, late.StartDate.UTC(), order.StartDate} {
		late.StartDate = start
		if body := string(applyBody(late)); !strings.Contains(body, `"start_date":"2027-03-01"`) {
			t.Errorf("the cycle of %s begins in %s", start, body)
		}
	}
	if body := string(applyBody(operation.Order{Reference: "CX1"})); strings.Contains(body, "start_date") || strings.Contains(body, "0001") || strings.Contains(body, "client_key") {
		t.Errorf("fields that are not set were sent: %s", body)
	}
}
