package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
)

func chunked(bodies ...string) string {
	var text strings.Builder
	for _, body := range bodies {
		fmt.Fprintf(&text, "%x\r\n%s\r\n", len(body), body)
	}
	return text.String() + "0\r\n\r\n"
}

func TestBody_Limit(t *testing.T) {
	full := strings.Repeat("x", maxBody)
	const declared, streamed = "Content-Length: %d\r\n\r\n%s", "Transfer-Encoding: chunked\r\n\r\n%s"
	tests := []struct {
		name   string
		method string
		rest   string
		length int // of the body the authorizer sees; -1: too large
		closed bool
	}{
		{"declared, exactly 16,384", "POST", fmt.Sprintf(declared, maxBody, full), maxBody, false},
		{"declared, a byte more", "POST", fmt.Sprintf(declared, maxBody+1, full+"x"), -1, true},
		{"declared, a byte more, and not sent", "POST", fmt.Sprintf(declared, maxBody+1, ""), -1, true},
		{"declared, far more, and not sent", "POST", fmt.Sprintf(declared, 1<<40, ""), -1, true},
		{"declared, more, and sent to the end", "POST", fmt.Sprintf(declared, 12*maxBody, strings.Repeat(full, 12)), -1, true},
		{"streamed, exactly 16,384", "POST", fmt.Sprintf(streamed, chunked(full)), maxBody, true},
		{"streamed, a byte more", "POST", fmt.Sprintf(streamed, chunked(full, "x")), -1, true},
		{"streamed, a byte more, and never ended", "POST", fmt.Sprintf(streamed, "4001\r\n"+full+"x"), -1, true},
		{"streamed, nothing", "POST", fmt.Sprintf(streamed, chunked()), 0, true},
		{"a GET with a body", "GET", fmt.Sprintf(declared, 3, "abc"), 3, false},
		{"a GET with a body too large", "GET", fmt.Sprintf(declared, maxBody+1, ""), -1, true},
		{"with Expect: 100-continue", "POST", "Expect: 100-continue\r\n" + fmt.Sprintf(declared, maxBody+1, ""), -1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestEnv(t)
			w := h.dialTLS()
			path := map[string]string{"POST": "/api/v1/renew", "GET": "/api/v1/balance"}[tt.method]
			w.send("%s %s HTTP/1.1\r\nHost: coax\r\n%s", tt.method, path, tt.rest)
			g := w.receive()
			asked := h.authorizer.requests()
			if tt.length < 0 {
				if g.StatusCode != 413 || g.Code != fault.PayloadTooLarge || len(asked) > 0 {
					t.Errorf("answered %d %s, the authorizer called %d times; want 413 and no more", g.StatusCode, g.Code, len(asked))
				}
			} else if len(asked) != 1 || len(asked[0].Body) != tt.length {
				t.Errorf("answered %d %s; want the authorizer called once about %d bytes", g.StatusCode, g.Code, tt.length)
			}
			if g.Close != tt.closed {
				t.Errorf("Connection: close is %v; want %v", g.Close, tt.closed)
			}
			if tt.closed {
				w.expectClosed()
			}
		})
	}
}

func TestBody_UnreadableIsBadRequest(t *testing.T) {
	tests := []struct{ name, rest, message string }{
		{"chunks without sizes", "Transfer-Encoding: chunked\r\n\r\nhello\r\n0\r\n\r\n", "could not be read"},
		{"a chunk longer than it says", "Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n", "could not be read"},
		{"a chunk size that overflows", "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "could not be read"},
		{"a broken trailer", "Transfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n", "could not be read"},
		{"a body that stalls", "Content-Length: 10\r\n\r\nhello", "in time"},
		{"chunks that stall", "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", "in time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t, func(_ *Config, server *ServerConfig) { server.ReadTimeout = time.Second })
			w := h.dialTLS()
			w.send("POST /api/v1/renew HTTP/1.1\r\nHost: coax\r\n%s", tt.rest)
			g := w.expect(400, fault.BadRequest)
			if !strings.Contains(g.Message, tt.message) {
				t.Errorf("message = %q; want %q in it", g.Message, tt.message)
			}
			w.expectClosed()
			if asked := h.authorizer.requests(); len(asked) > 0 {
				t.Error("the authorizer was called with half a request")
			}
			if lines := h.waitForLines(1); len(lines) != 1 {
				t.Errorf("%d log lines; want 1", len(lines))
			}
		})
	}
}

func TestBody_ExtraBytesAreTheNextRequest(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	w.send("POST /api/v1/renew HTTP/1.1\r\nHost: coax\r\nContent-Length: 2\r\n\r\n{}and more\r\n\r\n")
	w.expect(415, fault.UnsupportedMediaType)
	w.expect(400, fault.BadRequest)
	w.expectClosed()
}

func TestBody_CutOffIsNotAnswered(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	w.send("POST /api/v1/renew HTTP/1.1\r\nHost: coax\r\nContent-Length: 10\r\n\r\nhello")
	w.Close()
	if line := h.waitForLines(1)[0]; line["code"] != "BAD_REQUEST" {
		t.Errorf("logged %v; want BAD_REQUEST", line)
	}
	if asked := h.authorizer.requests(); len(asked) > 0 {
		t.Error("the authorizer was called with half a request")
	}
}

func TestBody_ExpectContinue(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	w.send("POST /api/v1/renew HTTP/1.1\r\nHost: coax\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	if line, err := w.r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("answered %q, %v; want 100 Continue", line, err)
	}
	w.r.ReadString('\n')
	w.send("{}")
	w.expect(415, fault.UnsupportedMediaType)
	w.send(balanceRequest)
	w.expect(200, fault.OK)
}

// A client that waits for 100 Continue sends no body: a refusal must not wait for it.
func TestServer_RefusalDoesNotWaitForExpectedBody(t *testing.T) {
	h := newTestEnv(t, func(_ *Config, server *ServerConfig) {
		server.ReadTimeout = time.Hour
		server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			access.Authenticated(r.Context()) // the second request is on an authenticated connection
			if r.Body = http.MaxBytesReader(w, r.Body, 1<<10); r.ContentLength > 0 {
				w.WriteHeader(http.StatusForbidden)
			}
		})
	})
	for name, before := range map[string]string{"first request": "", "kept connection": "GET / HTTP/1.1\r\nHost: coax\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			w := h.dialTLS()
			if before != "" {
				w.send("%s", before)
				if response, err := http.ReadResponse(w.r, nil); err != nil || response.StatusCode != http.StatusOK {
					t.Fatalf("the request before was answered %v, %v", response, err)
				}
			}
			w.send("POST / HTTP/1.1\r\nHost: coax\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			response, err := http.ReadResponse(w.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != http.StatusForbidden || !response.Close {
				t.Errorf("answered %d, closing is %v; want 403 and the end of the connection", response.StatusCode, response.Close)
			}
		})
	}
}
