package httpapi

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
)

// faulty are messages that net/http or Server refuses as unreadable, each with the status
// of the response.
var faulty = []struct {
	name    string
	message string
	status  int
}{
	{"no HTTP at all", "hello\r\n\r\n", 400},
	{"a request line without a version", "GET /api/v1/balance\r\n\r\n", 400},
	{"an invalid version", "GET / HTTP/one\r\nHost: coax\r\n\r\n", 400},
	{"an old version", "GET / HTTP/0.9\r\nHost: coax\r\n\r\n", 505},
	{"a newer version", "GET / HTTP/3.0\r\nHost: coax\r\n\r\n", 505},
	{"a method that is no word", "G@T / HTTP/1.1\r\nHost: coax\r\n\r\n", 400},
	{"no target", "GET  HTTP/1.1\r\nHost: coax\r\n\r\n", 400},
	{"a target with a broken escape", "GET /api/v1/%zz HTTP/1.1\r\nHost: coax\r\n\r\n", 400},
	{"a target with a control character", "GET /\x01 HTTP/1.1\r\nHost: coax\r\n\r\n", 400},
	{"no host", "GET / HTTP/1.1\r\n\r\n", 400},
	{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
	{"a host that is none", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
	{"a header without a colon", "GET / HTTP/1.1\r\nHost: coax\r\nX-Nonce\r\n\r\n", 400},
	{"a header name with a space", "GET / HTTP/1.1\r\nHost: coax\r\nX-Nonce : a\r\n\r\n", 400},
	{"a header value with a NUL", "GET / HTTP/1.1\r\nHost: coax\r\nX-Nonce: a\x00\r\n\r\n", 400},
	{"a first header that is folded", "GET / HTTP/1.1\r\n Host: coax\r\n\r\n", 400},
	{"a later header that is folded", "GET / HTTP/1.1\r\nHost: coax\r\nX-Nonce: a\r\n b\r\n\r\n", 400},
	{"a length that is no number", "GET / HTTP/1.1\r\nHost: coax\r\nContent-Length: ten\r\n\r\n", 400},
	{"a negative length", "GET / HTTP/1.1\r\nHost: coax\r\nContent-Length: -1\r\n\r\n", 400},
	{"two lengths", "GET / HTTP/1.1\r\nHost: coax\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
	{"an unknown encoding", "POST / HTTP/1.1\r\nHost: coax\r\nTransfer-Encoding: gzip\r\n\r\nabc", 501},
	{"two encodings", "POST / HTTP/1.1\r\nHost: coax\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501},
	{"an encoding and a length", "POST / HTTP/1.1\r\nHost: coax\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
	{"a length and an encoding", "POST / HTTP/1.1\r\nHost: coax\r\ncontent-length:5\r\ntransfer-encoding:chunked\r\n\r\n0\r\n\r\n", 400},
	{"an unknown expectation", "POST / HTTP/1.1\r\nHost: coax\r\nExpect: nonsense\r\nContent-Length: 3\r\n\r\nabc", 417},
	{"a header too long", "GET / HTTP/1.1\r\nHost: coax\r\nX-Nonce: " + strings.Repeat("a", 16<<10) + "\r\n\r\n", 431},
	{"too many headers", "GET / HTTP/1.1\r\nHost: coax\r\n" + strings.Repeat("X-Nonce: a\r\n", 2_000) + "\r\n", 431},
	{"a target too long", "GET /" + strings.Repeat("a", 16<<10) + " HTTP/1.1\r\nHost: coax\r\n\r\n", 431},
}

func TestFault_AnsweredInEnvelope(t *testing.T) {
	trusting := func(api *Config, _ *ServerConfig) {
		api.Proxies = access.TrustedProxies{netip.MustParsePrefix("127.0.0.0/8")}
	}
	h, behindProxy := newTestEnv(t), newTestEnv(t, trusting)
	for _, tt := range faulty {
		t.Run(tt.name, func(t *testing.T) {
			for _, way := range []struct {
				name   string
				w      *wire
				status int
				code   fault.Code
			}{
				{"over TLS", h.dialTLS(), tt.status, fault.BadRequest},
				{"plain HTTP", h.dialPlain(h.plain), 403, fault.HTTPSRequired},
				{"plain HTTP on the TLS port", h.dialPlain(h.tls), 403, fault.HTTPSRequired},
				{"through a proxy", behindProxy.dialPlain(behindProxy.plain), tt.status, fault.BadRequest},
			} {
				way.w.send("%s", tt.message)
				g := way.w.receive()
				if g.StatusCode != way.status || g.Code != way.code {
					t.Errorf("%s: answered %d %s; want %d %s", way.name, g.StatusCode, g.Code, way.status, way.code)
				}
				if !g.Close {
					t.Errorf("%s: the connection is not announced to close", way.name)
				}
				way.w.expectClosed()
			}
		})
	}
	if got, want := len(h.waitForLines(3*len(faulty))), 3*len(faulty); got != want {
		t.Errorf("%d log lines for %d faults", got, want)
	}
	if got, want := h.metric("coax_http_malformed_requests_total"), float64(3*len(faulty)); got != want {
		t.Errorf("counted %v faults; want %v", got, want)
	}
	if asked := h.authorizer.requests(); len(asked) > 0 {
		t.Error("the authorizer was called with an unreadable message")
	}
}

func TestFault_AfterGoodRequests(t *testing.T) {
	h := newTestEnv(t)
	for _, tt := range faulty {
		t.Run(tt.name, func(t *testing.T) {
			w := h.dialTLS()
			for range 2 {
				w.send(balanceRequest)
				w.expect(200, fault.OK)
			}
			w.send("%s%s", balanceRequest, tt.message) // one of them pipelined
			w.expect(200, fault.OK)
			w.expect(tt.status, fault.BadRequest)
			w.expectClosed()
		})
	}
}

func TestFault_BodyMayLookLikeOne(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	const lookalike = "HTTP/1.1 400 Bad Request\r\n\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"
	for range 3 {
		w.send("POST /api/v1/renew HTTP/1.1\r\nHost: coax\r\nContent-Length: %d\r\n\r\n%s", len(lookalike), lookalike)
		w.expect(415, fault.UnsupportedMediaType)
	}
	if asked := h.authorizer.requests(); len(asked) != 3 || string(asked[2].Body) != lookalike {
		t.Errorf("the authorizer was called %d times; want 3, with the body as sent", len(asked))
	}
}

func TestServer_PipelinedRequestsInOrder(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	w.send("%s%s%s%s", balanceRequest,
		"POST /api/v1/renew HTTP/1.1\r\nHost: coax\r\nContent-Length: 2\r\n\r\n{}\r\n",
		"GET /nowhere HTTP/1.1\r\nHost: coax\r\n\r\n", balanceRequest)
	ids := map[string]bool{}
	for _, want := range []int{200, 415, 404, 200} {
		g := w.receive()
		if g.StatusCode != want {
			t.Errorf("answered %d; want %d", g.StatusCode, want)
		}
		ids[g.ID] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d request ids for 4 requests", len(ids))
	}
}

func TestServer_ClosesAfterHTTP10AndChunked(t *testing.T) {
	tests := []struct{ name, request string }{
		{"HTTP/1.0", "GET /api/v1/balance HTTP/1.0\r\n\r\n"},
		{"HTTP/1.0 that wants to stay", "GET /api/v1/balance HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"},
		{
			"HTTP/1.0 with an encoding, which it does not have",
			"GET /api/v1/balance HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		},
		{"chunked", "GET /api/v1/balance HTTP/1.1\r\nHost: coax\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked("{}")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestEnv(t)
			w := h.dialTLS()
			w.send("%s%s", tt.request, balanceRequest)
			w.expect(200, fault.OK)
			w.expectClosed()
		})
	}
}

func TestServer_HTTP2PrefaceIsUnknownPath(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	w.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	w.expect(404, fault.NotFound)
	w.expectClosed()
}
