package httpapi

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
)

const balanceRequest = "GET /api/v1/balance HTTP/1.1\r\nHost: coax\r\n\r\n"

// Every endpoint requires its own permission before it reads the request.
func TestAPI_EndpointPermissions(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	for path, needs := range map[string]access.Permission{
		"POST /api/v1/activate":      access.Activate,
		"POST /api/v1/renew":         access.Renew,
		"POST /api/v1/advance-renew": access.AdvanceRenew,
		"GET /api/v1/subscription":   access.CheckSubscription,
		"GET /api/v1/transaction":    access.CheckTransaction,
	} {
		w.send("%s HTTP/1.1\r\nHost: coax\r\n\r\n", path)
		status, code := 422, fault.ValidationError
		if strings.HasPrefix(path, "POST") {
			status, code = 415, fault.UnsupportedMediaType
		}
		g := w.expect(status, code)
		if asked := h.authorizer.requests(); len(asked) != 1 || asked[0].Needs != needs {
			t.Errorf("%s: the authorizer was called %v; want once, for %v", path, asked, needs)
		}
		if g.Header.Get("X-RateLimit-Limit") != "60" {
			t.Errorf("%s: no rate limit headers on an authenticated response", path)
		}
	}
}

func TestAPI_AuthorizerSeesRequestAsSent(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	w.send("GET /api/v1/balance?b=%%32&a=+&a HTTP/1.1\r\nHost: coax\r\nContent-Length: 4\r\n" +
		"x-api-key: k\r\nX-Timestamp: 1\r\nX-Timestamp: 2\r\nX-Nonce: n\r\nX-Signature:  s \r\nX_API_KEY: no\r\n\r\nbody")
	g := w.expect(200, fault.OK)
	w.send("POST /api/v1/renew?x=1 HTTP/1.1\r\nHost: coax\r\nContent-Length: 2\r\n\r\n{}")
	w.expect(415, fault.UnsupportedMediaType)

	asked := h.authorizer.requests()
	if len(asked) != 2 {
		t.Fatalf("the authorizer was called %d times; want 2", len(asked))
	}
	if got, want := describe(asked[0]), describe(access.Request{
		ID: g.ID, Now: noon, Address: netip.MustParseAddr("127.0.0.1"),
		Method: "GET", Path: "/api/v1/balance", RawQuery: "b=%32&a=+&a", Body: []byte("body"),
		Key: []string{"k"}, Timestamp: []string{"1", "2"}, Nonce: []string{"n"}, Signature: []string{"s"},
		Needs: access.CheckBalance,
	}); got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
	if post := asked[1]; post.Method != "POST" || post.RawQuery != "" || string(post.Body) != "{}" {
		t.Errorf("asked %s; want a POST without its query", describe(post))
	}
}

func describe(r access.Request) string { return fmt.Sprintf("%+v", r) }

func TestAPI_RateHeaders(t *testing.T) {
	tests := []struct {
		name    string
		rate    access.Rate
		refusal error
		want    string
	}{
		{"an accepted request", access.Rate{Limit: 60, Remaining: 12, ResetAt: noon}, nil, "60 12 1803882600"},
		{
			"a request over the limit", access.Rate{Limit: 60, ResetAt: noon},
			fault.New(fault.RateLimited, "wait").After(30 * time.Second), "60 0 1803882600",
		},
		{
			"a request without the permission", access.Rate{Limit: 5, Remaining: 1, ResetAt: noon},
			fault.New(fault.PermissionDenied, "no"), "5 1 1803882600",
		},
		{"a request refused earlier", access.Rate{}, fault.New(fault.InvalidSignature, "no"), "  "},
	}
	h := newTestEnv(t)
	w := h.dialTLS()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h.authorizer.mu.Lock()
			h.authorizer.caller.Rate, h.authorizer.refusal = tt.rate, tt.refusal
			h.authorizer.mu.Unlock()
			w.send(balanceRequest)
			g := w.expect(StatusOf(fault.CodeOf(tt.refusal)), fault.CodeOf(tt.refusal))
			got := strings.Join([]string{
				g.Header.Get("X-RateLimit-Limit"), g.Header.Get("X-RateLimit-Remaining"), g.Header.Get("X-RateLimit-Reset"),
			}, " ")
			if got != tt.want {
				t.Errorf("rate headers = %q; want %q", got, tt.want)
			}
			if g.Code == fault.RateLimited && g.Header.Get("Retry-After") != "30" {
				t.Errorf("Retry-After = %q; want 30", g.Header.Get("Retry-After"))
			}
		})
	}
}

func TestAPI_OrderOfChecksBeforeAuthorizer(t *testing.T) {
	throttle := fault.New(fault.TooManyFailedAttempts, "wait").After(1500 * time.Millisecond)
	const tooLarge = "Content-Length: 16385\r\n"
	tests := []struct {
		name      string
		plain     bool
		throttled error
		request   string
		status    int
		code      fault.Code
	}{
		{"HTTPS comes before the throttle and the path", true, throttle, "PUT /x HTTP/1.1\r\n" + tooLarge, 403, fault.HTTPSRequired},
		{"the throttle comes before the path", false, throttle, "PUT /x HTTP/1.1\r\n" + tooLarge, 429, fault.TooManyFailedAttempts},
		{"the path comes before the size", false, nil, "PUT /x HTTP/1.1\r\n" + tooLarge, 404, fault.NotFound},
		{"the method comes before the size", false, nil, "PUT /api/v1/renew HTTP/1.1\r\n" + tooLarge, 405, fault.MethodNotAllowed},
		{"the size comes before the authorizer", false, nil, "POST /api/v1/renew HTTP/1.1\r\n" + tooLarge, 413, fault.PayloadTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestEnv(t)
			h.authorizer.throttled = tt.throttled
			h.authorizer.refusal = fault.New(fault.MissingAuthHeaders, "nobody asked")
			w := h.dialTLS()
			if tt.plain {
				w = h.dialPlain(h.plain)
			}
			w.send("%sHost: coax\r\n\r\n", tt.request)
			g := w.expect(tt.status, tt.code)
			if asked := h.authorizer.requests(); len(asked) > 0 {
				t.Error("the authorizer was called; no credentials are needed here")
			}
			if tt.status == 429 && g.Header.Get("Retry-After") != "2" {
				t.Errorf("Retry-After = %q; want 2", g.Header.Get("Retry-After"))
			}
			w.expectClosed() // an announced body was not read
		})
	}
}

func TestAPI_PathsMatchByteForByte(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	for _, target := range []string{
		"/", "*", "/api/v1/%62alance", "//api/v1/balance", "/api/v1/balance/", "/api/v2/balance", "/api/v1/Balance",
		"/api/v1/./balance", "/api/v1/x/../balance", "/api/v1/balance;a=b", "/api/v1/balance%3Fa", "/api/v1/balance%0A",
		"/api/v1/balance%00", "/api/v1/", "/api/v1", "/balance", "https://coax", "https://coax/", "ftp://coax/api/v1/balance",
		"https://coax/api/v1/%62alance", "/api/v1/balance#here",
	} {
		w.send("GET %s HTTP/1.1\r\nHost: coax\r\n\r\n", target)
		if g := w.receive(); g.StatusCode != 404 || g.Code != fault.NotFound {
			t.Errorf("%s: %d %s; want 404 NOT_FOUND", target, g.StatusCode, g.Code)
		}
	}
	for _, target := range []string{
		"/api/v1/balance", "/api/v1/balance?", "/api/v1/balance?a=/x?y", "https://coax/api/v1/balance", "HTTP://coax:1/api/v1/balance?a=://",
	} {
		w.send("GET %s HTTP/1.1\r\nHost: coax\r\n\r\n", target)
		if g := w.receive(); g.StatusCode != 200 {
			t.Errorf("%s: %d %s; want 200", target, g.StatusCode, g.Code)
		}
	}
	for _, asked := range h.authorizer.requests() {
		if asked.Path != "/api/v1/balance" {
			t.Errorf("the authorizer was called with the path %q", asked.Path)
		}
	}
}

func TestAPI_WrongMethodNamesTheRightOne(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	for path, right := range map[string]string{
		"/api/v1/activate": "POST", "/api/v1/renew": "POST", "/api/v1/advance-renew": "POST",
		"/api/v1/balance": "GET", "/api/v1/plans": "GET", "/api/v1/subscription": "GET", "/api/v1/transaction": "GET",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "FOO"} {
			if method == right {
				continue
			}
			w.send("%s %s HTTP/1.1\r\nHost: coax\r\n\r\n", method, path)
			g := w.receiveTo(method)
			if g.StatusCode != 405 || method != "HEAD" && g.Code != fault.MethodNotAllowed {
				t.Errorf("%s %s: %d %s; want 405 METHOD_NOT_ALLOWED", method, path, g.StatusCode, g.Code)
			}
			if allow := g.Header.Values("Allow"); len(allow) != 1 || allow[0] != right {
				t.Errorf("%s %s: Allow = %q; want %q", method, path, allow, right)
			}
			if method == "HEAD" && (g.Header.Get("X-Request-Id") == "" || g.body != "") {
				t.Errorf("HEAD %s: body %q; want headers only", path, g.body)
			}
		}
	}
}

func TestAPI_ForwardedHeadersOnlyFromTrustedProxy(t *testing.T) {
	localhost := func(api *Config, _ *ServerConfig) {
		api.Proxies = access.TrustedProxies{netip.MustParsePrefix("127.0.0.1/32")}
	}
	tests := []struct {
		name    string
		trusted bool
		plain   bool
		proto   string
		status  int
		address string
	}{
		{"a trusted proxy's https over plain HTTP counts", true, true, "https", 200, "192.0.2.9"},
		{"a trusted proxy's http over TLS counts", true, false, "http", 403, ""},
		{"another address's https is ignored", false, true, "https", 403, ""},
		{"another address's http and X-Forwarded-For are ignored", false, false, "http", 200, "127.0.0.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var options []option
			if tt.trusted {
				options = append(options, localhost)
			}
			h := newTestEnv(t, options...)
			w := h.dialTLS()
			if tt.plain {
				w = h.dialPlain(h.plain)
			}
			w.send("GET /api/v1/balance HTTP/1.1\r\nHost: coax\r\nX-Forwarded-Proto: %s\r\n"+
				"X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-For: 192.0.2.9\r\n\r\n", tt.proto)
			if g := w.receive(); g.StatusCode != tt.status {
				t.Errorf("answered %d %s; want %d", g.StatusCode, g.Code, tt.status)
			}
			for _, asked := range h.authorizer.requests() {
				if asked.Address.String() != tt.address {
					t.Errorf("the caller is %v; want %s", asked.Address, tt.address)
				}
			}
		})
	}
}

func TestAPI_WithoutServerIsPlainHTTP(t *testing.T) {
	w := httptest.NewRecorder()
	api := New(Config{Now: func() time.Time { return noon }, Authorizer: &fakeAuthorizer{}})
	api.ServeHTTP(w, httptest.NewRequest("POST", "/api/v1/renew", strings.NewReader("{}")))
	contracttest.Check(t, "POST", "/api/v1/renew", w.Code, w.Header(), w.Body.Bytes())
	if w.Code != 403 {
		t.Errorf("answered %d %s; want 403", w.Code, w.Body)
	}
}
