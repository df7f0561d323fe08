package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

var errorsAs = errors.As

const balanceRequest = "GET /api/v1/balance HTTP/1.1\r\nHost: coax\r\n\r\n"

func TestBalance(t *testing.T) {
	h := build(t)
	w := h.dialTLS()
	w.send("GET /api/v1/balance?unknown=1&unknown=2 HTTP/1.1\r\nHost: coax\r\n\r\n")
	g := w.expect(200, fault.OK)
	want := `{"lco_id":7,"wallet_balance":1234.50,"currency":"INR","low_balance":false,` +
		`"as_of":"2027-03-01T12:00:00+05:30","note":"` + walletNote + `"}`
	if string(g.Data) != want {
		t.Errorf("data = %s\nwant   %s", g.Data, want)
	}
	if !strings.Contains(g.Message, "1234.50") {
		t.Errorf("message = %q; want it to name the balance", g.Message)
	}
}

func TestBalanceBelowTheThresholdIsLow(t *testing.T) {
	h := build(t, func(api *Config, _ *FrontDoorConfig) {
		api.Wallets = walletFunc(func(context.Context, int64) (subscription.Wallet, error) {
			return subscription.Wallet{Balance: money.Paise(-5), LowBelow: money.Paise(0)}, nil
		})
	})
	w := h.dialTLS()
	w.send(balanceRequest)
	g := w.expect(200, fault.OK)
	for _, part := range []string{`"wallet_balance":-0.05,`, `"low_balance":true,`} {
		if !strings.Contains(string(g.Data), part) {
			t.Errorf("data = %s; want %s in it", g.Data, part)
		}
	}
}

func TestPlans(t *testing.T) {
	sold := planList{
		{ID: "P2", Name: "Sport <HD> & more", Description: "d2", Price: money.Paise(34_950), Months: 3, Type: subscription.Combo},
		{ID: "P1", Name: "Basic", Price: money.Paise(19_900), Months: 1, Type: subscription.Standard},
	}
	tests := []struct {
		name    string
		sold    planList
		message string
		plans   string
	}{
		{
			"several come in the order of their ids", sold, "2 plans",
			`[{"id":"P1","name":"Basic","description":"","price":199.00,"duration":1,"type":"standard"},` +
				`{"id":"P2","name":"Sport <HD> & more","description":"d2","price":349.50,"duration":3,"type":"combo"}]`,
		},
		{
			"one is a plan", sold[1:], "1 plan ",
			`[{"id":"P1","name":"Basic","description":"","price":199.00,"duration":1,"type":"standard"}]`,
		},
		{"none is an empty list", nil, "0 plans", `[]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := build(t, func(api *Config, _ *FrontDoorConfig) { api.Plans = tt.sold })
			w := h.dialTLS()
			w.send("GET /api/v1/plans HTTP/1.1\r\nHost: coax\r\n\r\n")
			g := w.expect(200, fault.OK)
			if want := `{"provider":"Simulated Provider","currency":"INR","plans":` + tt.plans + `}`; string(g.Data) != want {
				t.Errorf("data = %s\nwant   %s", g.Data, want)
			}
			if !strings.HasPrefix(g.Message, tt.message) {
				t.Errorf("message = %q; want %q at its beginning", g.Message, tt.message)
			}
		})
	}
}

func TestWhatThisReleaseDoesNotServeIsJudgedFirst(t *testing.T) {
	h := build(t)
	w := h.dialTLS()
	for path, needs := range map[string]access.Permission{
		"POST /api/v1/activate":      access.Activate,
		"POST /api/v1/renew":         access.Renew,
		"POST /api/v1/advance-renew": access.AdvanceRenew,
		"GET /api/v1/subscription":   access.CheckSubscription,
		"GET /api/v1/transaction":    access.CheckTransaction,
	} {
		w.send("%s HTTP/1.1\r\nHost: coax\r\n\r\n", path)
		g := w.expect(503, fault.ServiceUnavailable)
		if !strings.Contains(g.Message, "this release") {
			t.Errorf("%s: message = %q; want it to say that this release does not serve it", path, g.Message)
		}
		if asked := h.gate.requests(); len(asked) != 1 || asked[0].Needs != needs {
			t.Errorf("%s: the gate was asked %v; want once, for %v", path, asked, needs)
		}
		if g.Header.Get("X-RateLimit-Limit") != "60" {
			t.Errorf("%s: no rate limit headers on an authenticated response", path)
		}
	}
}

func TestTheGateSeesTheRequestAsItWasSent(t *testing.T) {
	h := build(t)
	w := h.dialTLS()
	w.send("GET /api/v1/balance?b=%%32&a=+&a HTTP/1.1\r\nHost: coax\r\nContent-Length: 4\r\n" +
		"x-api-key: k\r\nX-Timestamp: 1\r\nX-Timestamp: 2\r\nX-Nonce: n\r\nX-Signature:  s \r\nX_API_KEY: no\r\n\r\nbody")
	g := w.expect(200, fault.OK)
	w.send("POST /api/v1/renew?x=1 HTTP/1.1\r\nHost: coax\r\nContent-Length: 2\r\n\r\n{}")
	w.expect(503, fault.ServiceUnavailable)

	asked := h.gate.requests()
	if len(asked) != 2 {
		t.Fatalf("the gate was asked %d times; want 2", len(asked))
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

func TestRateHeadersGoWithEveryAnswerFromTheRateOn(t *testing.T) {
	tests := []struct {
		name    string
		rate    access.Rate
		refusal error
		want    string
	}{
		{"a request that was let in", access.Rate{Limit: 60, Remaining: 12, ResetAt: noon}, nil, "60 12 1803882600"},
		{
			"a request over the limit", access.Rate{Limit: 60, ResetAt: noon},
			fault.New(fault.RateLimited, "wait").After(30 * time.Second), "60 0 1803882600",
		},
		{
			"a request without the permission", access.Rate{Limit: 5, Remaining: 1, ResetAt: noon},
			fault.New(fault.PermissionDenied, "no"), "5 1 1803882600",
		},
		{"a request that did not get so far", access.Rate{}, fault.New(fault.InvalidSignature, "no"), "  "},
	}
	h := build(t)
	w := h.dialTLS()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h.gate.mu.Lock()
			h.gate.caller.Rate, h.gate.refusal = tt.rate, tt.refusal
			h.gate.mu.Unlock()
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

func TestTheOrderOfTheChecksBeforeTheGate(t *testing.T) {
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
		{"the size comes before the gate", false, nil, "POST /api/v1/renew HTTP/1.1\r\n" + tooLarge, 413, fault.PayloadTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := build(t)
			h.gate.throttled = tt.throttled
			h.gate.refusal = fault.New(fault.MissingAuthHeaders, "nobody asked")
			w := h.dialTLS()
			if tt.plain {
				w = h.dialPlain(h.plain)
			}
			w.send("%sHost: coax\r\n\r\n", tt.request)
			g := w.expect(tt.status, tt.code)
			if asked := h.gate.requests(); len(asked) > 0 {
				t.Error("the gate was asked; no credentials are needed here")
			}
			if tt.status == 429 && g.Header.Get("Retry-After") != "2" {
				t.Errorf("Retry-After = %q; want 2", g.Header.Get("Retry-After"))
			}
			w.expectClosed() // a body was announced and not read
		})
	}
}

func TestPathsMatchByteForByte(t *testing.T) {
	h := build(t)
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
	for _, asked := range h.gate.requests() {
		if asked.Path != "/api/v1/balance" {
			t.Errorf("the gate was asked about the path %q", asked.Path)
		}
	}
}

func TestAWrongMethodIsToldTheRightOne(t *testing.T) {
	h := build(t)
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

func TestAProxysWordCountsWhereItIsTrusted(t *testing.T) {
	localhost := func(api *Config, _ *FrontDoorConfig) {
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
		{"https over plain HTTP is HTTPS", true, true, "https", 200, "192.0.2.9"},
		{"http over TLS is not", true, false, "http", 403, ""},
		{"a stranger's https over plain HTTP is nothing", false, true, "https", 403, ""},
		{"a stranger's http over TLS is nothing, and so is the address", false, false, "http", 200, "127.0.0.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var plans []plan
			if tt.trusted {
				plans = append(plans, localhost)
			}
			h := build(t, plans...)
			w := h.dialTLS()
			if tt.plain {
				w = h.dialPlain(h.plain)
			}
			w.send("GET /api/v1/balance HTTP/1.1\r\nHost: coax\r\nX-Forwarded-Proto: %s\r\n"+
				"X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-For: 192.0.2.9\r\n\r\n", tt.proto)
			if g := w.receive(); g.StatusCode != tt.status {
				t.Errorf("answered %d %s; want %d", g.StatusCode, g.Code, tt.status)
			}
			for _, asked := range h.gate.requests() {
				if asked.Address.String() != tt.address {
					t.Errorf("the caller is %v; want %s", asked.Address, tt.address)
				}
			}
		})
	}
}

func TestAPanicIsAnsweredAndTheConnectionGoesOn(t *testing.T) {
	h := build(t)
	h.gate.panics = "secret cxs_0123456789abcdef of cxk_1a2b3c4d5e6f70819203a4b5c6d7e8f9"
	w := h.dialTLS()
	w.send("GET /api/v1/balance HTTP/1.1\r\nHost: coax\r\nX-Signature: topsecretsignature\r\n\r\n")
	g := w.expect(500, fault.InternalError)
	if strings.Contains(g.body, "cx") {
		t.Errorf("the panic reached the caller: %s", g.body)
	}
	h.gate.mu.Lock()
	h.gate.panics = nil
	h.gate.mu.Unlock()
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
	if strings.Contains(h.journal.String(), "topsecret") {
		t.Errorf("the log has a signature: %s", h.journal)
	}
}

func TestFailuresOfOurOwn(t *testing.T) {
	tests := []struct {
		name   string
		wallet walletFunc
		status int
		code   fault.Code
		cause  string
	}{
		{
			"an error nobody foresaw tells the caller nothing",
			func(context.Context, int64) (subscription.Wallet, error) {
				return subscription.Wallet{}, errors.New("disk on fire")
			},
			500, fault.InternalError, "read the wallet of operator 7: disk on fire",
		},
		{
			"a store out of reach",
			func(context.Context, int64) (subscription.Wallet, error) {
				return subscription.Wallet{}, fault.New(fault.ServiceUnavailable, "Try again.").Because(errors.New("no such host"))
			},
			503, fault.ServiceUnavailable, "no such host",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := build(t, func(api *Config, _ *FrontDoorConfig) { api.Wallets = tt.wallet })
			w := h.dialTLS()
			w.send(balanceRequest)
			g := w.expect(tt.status, tt.code)
			if strings.Contains(g.body, "fire") || strings.Contains(g.body, "host") {
				t.Errorf("the cause reached the caller: %s", g.body)
			}
			line := h.waitForLines(1)[0]
			if text := fmt.Sprint(line["error"]); !strings.Contains(text, tt.cause) || line["level"] != "ERROR" {
				t.Errorf("logged %v; want an error with %q", line, tt.cause)
			}
		})
	}
}

func TestDataThatDoesNotEncodeIsOurFailure(t *testing.T) {
	api := New(Config{Now: func() time.Time { return noon }})
	x := api.begin(&http.Request{})
	answer := x.reply(Answer{Data: []int{1}}, nil)
	if _, err := answer.encode(); err == nil {
		t.Fatal("a list passed for an object")
	}
	answer, body := x.fail(errors.New("no"))
	if answer.status != 500 || !strings.Contains(string(body), `"code":"INTERNAL_ERROR"`) {
		t.Errorf("answered %d %s; want INTERNAL_ERROR", answer.status, body)
	}
}

func TestACallerWhoHangsUpIsNotOurFailure(t *testing.T) {
	entered := make(chan struct{})
	h := build(t, func(api *Config, _ *FrontDoorConfig) {
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

// waitForLines waits for the log: a line is written after the answer was.
func (h *house) waitForLines(n int) []map[string]any {
	h.t.Helper()
	if !eventually(func() bool { return strings.Count(h.journal.String(), "\n") >= n }) {
		h.t.Fatalf("%d log lines did not come; there is\n%s", n, h.journal)
	}
	return h.journal.lines(h.t)
}

func TestOneLineARequestAndNothingOfWhatWasSent(t *testing.T) {
	h := build(t)
	w := h.dialTLS()
	const secrets = "X-API-Key: cxk_1a2b3c4d5e6f70819203a4b5c6d7e8f9\r\nX-Nonce: nonce-of-the-caller\r\n" +
		"X-Signature: 5167a7u2e\r\nAuthorization: Basic hidden\r\nX-Timestamp: 1800000000\r\n"
	body := `{"mobile":"9876543210","password":"hunter2"}`
	w.send("GET /api/v1/balance?mobile=9876543210 HTTP/1.1\r\nHost: coax\r\n%s\r\n", secrets)
	w.expect(200, fault.OK)
	w.send("POST /api/v1/activate HTTP/1.1\r\nHost: coax\r\n%sContent-Length: %d\r\n\r\n%s", secrets, len(body), body)
	w.expect(503, fault.ServiceUnavailable)
	w.send("RUBBISH /9876543210/hunter2 HTTP/1.1\r\nHost: coax\r\n\r\n")
	w.expect(404, fault.NotFound)
	w.send("9876543210 hunter2\r\n\r\n")
	w.expect(400, fault.BadRequest)

	lines := h.waitForLines(4)
	if len(lines) != 4 {
		t.Fatalf("%d lines for 4 requests:\n%s", len(lines), h.journal)
	}
	for i, want := range []string{
		"INFO 7 cxk_1a2b3c4d GET /api/v1/balance OK 200 127.0.0.1",
		"ERROR 7 cxk_1a2b3c4d POST /api/v1/activate SERVICE_UNAVAILABLE 503 127.0.0.1",
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
		if strings.Contains(h.journal.String(), sent) {
			t.Errorf("the log repeats %q:\n%s", sent, h.journal)
		}
	}
	for series, want := range map[string]float64{
		`coax_http_requests_total{code="OK",endpoint="/api/v1/balance"}`:                   1,
		`coax_http_requests_total{code="SERVICE_UNAVAILABLE",endpoint="/api/v1/activate"}`: 1,
		`coax_http_requests_total{code="NOT_FOUND",endpoint="-"}`:                          1,
		`coax_http_requests_total{code="BAD_REQUEST",endpoint="-"}`:                        1,
		`coax_http_request_seconds_count{endpoint="/api/v1/balance"}`:                      1,
		`coax_framework_faults_total`:                                                      1,
	} {
		if got := h.metric(series); got != want {
			t.Errorf("%s = %v; want %v", series, got, want)
		}
	}
}
