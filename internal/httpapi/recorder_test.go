package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/telemetry"
)

func TestAPI_PanicIsAnswered(t *testing.T) {
	h := newTestEnv(t)
	h.authorizer.panics = "secret cxs_0123456789abcdef of cxk_1a2b3c4d5e6f70819203a4b5c6d7e8f9"
	w := h.dialTLS()
	w.send("GET /api/v1/balance HTTP/1.1\r\nHost: coax\r\nX-Signature: topsecretsignature\r\n\r\n")
	g := w.expect(500, fault.InternalError)
	if strings.Contains(g.body, "cx") {
		t.Errorf("the panic reached the caller: %s", g.body)
	}
	h.authorizer.mu.Lock()
	h.authorizer.panics = nil
	h.authorizer.mu.Unlock()
	w.send(balanceRequest)
	w.expect(200, fault.OK)

	lines := h.waitForLines(2)
	broken := lines[0]
	if text := fmt.Sprint(broken["error"]); text != "panic: secret cxs_[redacted] of cxk_1a2b3c4d…" {
		t.Errorf("error = %q; want the panic without its secrets", text)
	}
	if !strings.Contains(fmt.Sprint(broken["stack"]), "Authorize") {
		t.Errorf("stack = %v; want where it came from", broken["stack"])
	}
	if strings.Contains(h.logs.String(), "topsecret") {
		t.Errorf("the log has a signature: %s", h.logs)
	}
}

func TestAPI_InternalFailures(t *testing.T) {
	tests := []struct {
		name   string
		wallet walletFunc
		status int
		code   fault.Code
		cause  string
	}{
		{
			"an unreachable store: 503 without details",
			func(context.Context, int64) (subscription.Wallet, error) {
				return subscription.Wallet{}, errors.New("disk on fire")
			},
			503, fault.ServiceUnavailable, "read the wallet of operator 7: disk on fire",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestEnv(t, func(api *Config, _ *ServerConfig) { api.Wallets = tt.wallet })
			w := h.dialTLS()
			w.send(balanceRequest)
			g := w.expect(tt.status, tt.code)
			if strings.Contains(g.body, "fire") {
				t.Errorf("the cause reached the caller: %s", g.body)
			}
			line := h.waitForLines(1)[0]
			if text := fmt.Sprint(line["error"]); !strings.Contains(text, tt.cause) || line["level"] != "ERROR" {
				t.Errorf("logged %v; want an error with %q", line, tt.cause)
			}
		})
	}
}

func TestAPI_UnencodableDataIs500(t *testing.T) {
	for name, data := range map[string]any{
		"a list":                 []int{1},
		"a function":             map[string]any{"f": func() {}},
		"a panic while encoding": explosive{},
	} {
		j := &logs{}
		api := New(Config{
			Now:        func() time.Time { return noon },
			Authorizer: &fakeAuthorizer{},
			Log:        telemetry.NewLogger(j, slog.LevelInfo, "json"),
		})
		api.byPath["/x"] = route{method: "GET", path: "/x", handle: func(context.Context, Request) (Result, error) {
			return Result{Message: "here", Data: data}, nil
		}}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, overEncrypted(httptest.NewRequest("GET", "/x", nil)))
		contracttest.Check(t, "GET", "/x", w.Code, w.Header(), w.Body.Bytes())
		if w.Code != 500 || !strings.Contains(w.Body.String(), `"code":"INTERNAL_ERROR"`) {
			t.Errorf("%s: answered %d %s; want INTERNAL_ERROR", name, w.Code, w.Body)
		}
		if lines := j.lines(t); len(lines) != 1 || lines[0]["error"] == nil {
			t.Errorf("%s: logged %v; want one line with the cause", name, lines)
		}
	}
}

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("boom") }

// overEncrypted makes a request look as if it came over TLS through a Server.
func overEncrypted(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), connKey{}, &conn{secure: true}))
}

func TestAPI_HangUpIsNotAFailure(t *testing.T) {
	entered := make(chan struct{})
	h := newTestEnv(t, func(api *Config, _ *ServerConfig) {
		api.Wallets = walletFunc(func(ctx context.Context, _ int64) (subscription.Wallet, error) {
			close(entered)
			<-ctx.Done()
			return subscription.Wallet{}, ctx.Err()
		})
	})
	w := h.dialTLS()
	w.send(balanceRequest)
	<-entered
	w.Close()
	line := h.waitForLines(1)[0]
	if line["code"] != "BAD_REQUEST" || line["level"] != "INFO" || line["error"] != nil {
		t.Errorf("logged %v; want no failure of ours", line)
	}
}

func TestRecorder_OneLineWithoutClientInput(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	const secrets = "X-API-Key: cxk_1a2b3c4d5e6f70819203a4b5c6d7e8f9\r\nX-Nonce: nonce-of-the-caller\r\n" +
		"X-Signature: 5167a7u2e\r\nAuthorization: Basic hidden\r\nX-Timestamp: 1800000000\r\n"
	body := `{"mobile":"9876543210","password":"hunter2"}`
	w.send("GET /api/v1/balance?mobile=9876543210 HTTP/1.1\r\nHost: coax\r\n%s\r\n", secrets)
	w.expect(200, fault.OK)
	w.send("POST /api/v1/activate HTTP/1.1\r\nHost: coax\r\n%sContent-Length: %d\r\n\r\n%s", secrets, len(body), body)
	w.expect(415, fault.UnsupportedMediaType)
	w.send("RUBBISH /9876543210/hunter2 HTTP/1.1\r\nHost: coax\r\n\r\n")
	w.expect(404, fault.NotFound)
	w.send("9876543210 hunter2\r\n\r\n")
	w.expect(400, fault.BadRequest)

	lines := h.waitForLines(4)
	if len(lines) != 4 {
		t.Fatalf("%d lines for 4 requests:\n%s", len(lines), h.logs)
	}
	for i, want := range []string{
		"INFO 7 cxk_1a2b3c4d GET /api/v1/balance OK 200 127.0.0.1",
		"INFO 7 cxk_1a2b3c4d POST /api/v1/activate UNSUPPORTED_MEDIA_TYPE 415 127.0.0.1",
		"INFO 0  - - NOT_FOUND 404 127.0.0.1",
		"INFO 0  - - BAD_REQUEST 400 127.0.0.1",
	} {
		l := lines[i]
		got := fmt.Sprintln(l["level"], l["operator"], l["key"], l["method"], l["path"], l["code"], l["status"], l["ip"])
		if got != want+"\n" {
			t.Errorf("line %d = %swant     %s", i, got, want)
		}
		if id := fmt.Sprint(l["request_id"]); !strings.HasPrefix(id, "req_") {
			t.Errorf("line %d: request_id = %q", i, id)
		}
		if _, isNumber := l["ms"].(float64); !isNumber {
			t.Errorf("line %d: ms = %v; want a number", i, l["ms"])
		}
	}
	for _, sent := range []string{"9876543210", "hunter2", "5e6f7081", "nonce-of", "5167a7u2e", "hidden", "RUBBISH", "1800000000"} {
		if strings.Contains(h.logs.String(), sent) {
			t.Errorf("the log repeats %q:\n%s", sent, h.logs)
		}
	}
	for series, want := range map[string]float64{
		`coax_http_requests_total{code="OK",endpoint="/api/v1/balance"}`:                      1,
		`coax_http_requests_total{code="UNSUPPORTED_MEDIA_TYPE",endpoint="/api/v1/activate"}`: 1,
		`coax_http_requests_total{code="NOT_FOUND",endpoint="-"}`:                             1,
		`coax_http_requests_total{code="BAD_REQUEST",endpoint="-"}`:                           1,
		`coax_http_request_seconds_count{code="OK",endpoint="/api/v1/balance"}`:               1,
		`coax_http_malformed_requests_total`:                                                  1,
	} {
		if got := h.metric(series); got != want {
			t.Errorf("%s = %v; want %v", series, got, want)
		}
	}
}
