package docstest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/signing"
)

// reply is the response to one request of the example. Without a status the connection is
// cut instead.
type reply struct {
	status int
	after  string // Retry-After
	body   string
}

func says(status int, code, data string) reply {
	return reply{status: status, body: fmt.Sprintf(
		`{"success":%t,"request_id":"req_%032x","code":%q,"message":"It is so.","data":%s}`, status == 200, 7, code, cmp.Or(data, "{}"))}
}

func (r reply) wait(after string) reply { r.after = after; return r }

const (
	billingSecret = "cxs_published_test_secret_never_issued_0001"
	billingBody   = `{"full_name":"Asha Rao","mobile":"9812345678","plan_id":"BASIC-1"}`
	settledData   = `"transaction_id":"CX1","wallet":{"charged":199.10},"currency":"INR","expiry":{"new":"2027-01-01 00:00:00"}`
)

var (
	cut      = reply{}
	done     = says(200, "OK", `{`+settledData+`,"customer":{"password":"TfK7mRwq4Zpb"}}`)
	replayed = says(200, "OK", `{`+settledData+`,"customer":{}}`)
	pending  = says(202, "PENDING_REVIEW", `{"status":"needs_review","customer":{"password":"TfK7mRwq4Zpb"}}`)
	inReview = says(200, "OK", `{"status":"needs_review","result_code":"PENDING_REVIEW","result_message":"Not yet."}`)
	success  = says(200, "OK", `{"status":"success","result_code":"OK","result_message":"Activated.",`+settledData+`}`)
	failed   = says(200, "OK", `{"status":"failed","result_code":"PROVIDER_ERROR","result_message":"Not carried out."}`)
	unknown  = says(503, "SERVICE_UNAVAILABLE", "")
	empty    = says(402, "INSUFFICIENT_BALANCE", "")
)

// The example that people copy from the page meets every kind of network and service
// failure. It may take long, but it must never report an open operation as settled or a
// settled one as open, and it must not lose the password.
func TestBillingExample_SurvivesFailures(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs python3 to run docs/examples/billing.py: %v", err)
		}
		t.Skipf("python3 is not installed, so docs/examples/billing.py cannot be run: %v", err)
	}
	const (
		isDone, isRefused, isOpen = 0, 2, 1
		password                  = "app password for the customer: TfK7mRwq4Zpb\n"
		charged                   = "charged 199.10 INR, runs until 2027-01-01 00:00:00\nstore with the order: CX1\n"
		keepIt                    = "keep the key order-1001 and run the same again later; never take a new one"
	)
	for _, tt := range []struct {
		name    string
		base    string // in front of /api/v1 and behind it, with … between
		replies []reply
		exits   int
		pauses  string
		prints  string // all of the standard output
		warns   string // some of the standard error
	}{
		{"done at once", "", []reply{done}, isDone, "", password + "OK: It is so.\n" + charged, ""},
		{"a slash at the end of the base address", "…/", []reply{done}, isDone, "", password + "OK: It is so.\n" + charged, ""},
		{"a proxy's prefix, which is not signed", "/billing…", []reply{pending, success}, isDone, "2", password + "OK: Activated.\n" + charged, ""},
		{"refused", "", []reply{empty}, isRefused, "", "INSUFFICIENT_BALANCE: It is so.\n", ""},
		{"refused by the provider", "", []reply{says(502, "PROVIDER_ERROR", "")}, isRefused, "", "PROVIDER_ERROR: It is so.\n", ""},

		{"no answer, then a replay", "", []reply{cut, replayed}, isDone, "2", "OK: It is so.\n" + charged, ""},
		{"no answer, ever", "", []reply{cut, cut, cut, cut, cut, cut}, isOpen, "2 4 8 16 32", "", keepIt},
		{"half an answer", "", []reply{{status: 200, body: done.body[:60]}, replayed}, isDone, "2", "OK: It is so.\n" + charged, ""},
		{"a proxy's page", "", []reply{{status: 502, body: "<h1>Bad gateway</h1>"}, replayed}, isDone, "2", "OK: It is so.\n" + charged, ""},
		{"a proxy's JSON", "", []reply{{status: 504, body: `{"message":"upstream timed out"}`}, replayed}, isDone, "2", "OK: It is so.\n" + charged, ""},
		{"a proxy's page that says 403", "", []reply{{status: 403, body: "<h1>No</h1>"}, replayed}, isDone, "2", "OK: It is so.\n" + charged, ""},
		{"null", "", []reply{{status: 502, body: `null`}, replayed}, isDone, "2", "OK: It is so.\n" + charged, ""},
		{"a list", "", []reply{{status: 200, body: `["code"]`}, replayed}, isDone, "2", "OK: It is so.\n" + charged, ""},

		{"no answer, then an empty wallet", "", []reply{cut, empty}, isOpen, "2", "", keepIt},
		{"no answer, then no permission", "", []reply{cut, says(403, "API_DISABLED", "")}, isOpen, "2", "", "API_DISABLED: It is so. And earlier: "},
		{"no answer, then refused by the provider", "", []reply{cut, says(502, "PROVIDER_ERROR", "")}, isRefused, "2", "PROVIDER_ERROR: It is so.\n", ""},
		{"a fault, then an empty wallet", "", []reply{says(500, "INTERNAL_ERROR", ""), empty}, isOpen, "2", "", "earlier: INTERNAL_ERROR"},
		{"unavailable, then an empty wallet", "", []reply{unknown, empty}, isOpen, "2", "", "earlier: SERVICE_UNAVAILABLE"},
		{"no prices, then an empty wallet", "", []reply{says(503, "PLANS_UNAVAILABLE", ""), empty}, isRefused, "2", "INSUFFICIENT_BALANCE: It is so.\n", ""},

		{"a nonce that was seen", "", []reply{cut, says(401, "REPLAY_DETECTED", ""), replayed}, isDone, "2 4", "OK: It is so.\n" + charged, ""},
		{"a clock that is wrong", "", []reply{says(401, "TIMESTAMP_EXPIRED", `{"server_time":4000000000}`), done}, isDone, "", password + "OK: It is so.\n" + charged, ""},
		{"a clock that stays wrong", "", []reply{says(401, "TIMESTAMP_EXPIRED", `{"server_time":4000000000}`), says(401, "TIMESTAMP_EXPIRED", `{"server_time":5000000000}`)}, isRefused, "", "TIMESTAMP_EXPIRED: It is so.\n", ""},
		{"another operation's turn", "", []reply{says(409, "OPERATION_IN_PROGRESS", ""), done}, isDone, "2", password + "OK: It is so.\n" + charged, ""},
		{"the minute is used up", "", []reply{says(429, "RATE_LIMITED", "").wait("37"), done}, isDone, "37", password + "OK: It is so.\n" + charged, ""},
		{"a date to wait for", "", []reply{unknown.wait("Wed, 21 Oct 2026 07:28:00 GMT"), done}, isDone, "2", password + "OK: It is so.\n" + charged, ""},
		{"nothing to wait for", "", []reply{unknown.wait("0"), unknown.wait("-5"), done}, isDone, "2 4", password + "OK: It is so.\n" + charged, ""},

		{"in review, then refunded", "", []reply{pending, inReview, failed}, isRefused, "2 3.0", password + "PROVIDER_ERROR: Not carried out.\n", ""},
		{"still running, then done", "", []reply{cut, says(409, "REQUEST_IN_PROGRESS", ""), success}, isDone, "2 2", "OK: Activated.\n" + charged, ""},
		{"followed through everything", "", []reply{
			pending, cut, {status: 504, body: `{"message":"upstream timed out"}`}, {status: 200, body: `null`}, unknown,
			says(429, "RATE_LIMITED", "").wait("37"), says(401, "REPLAY_DETECTED", ""), inReview, success,
		}, isDone, "2 3.0 4.5 6.75 10.125 37 55.5 60", password + "OK: Activated.\n" + charged, ""},
		{"a look-up that is refused says nothing", "", []reply{pending, says(401, "CREDENTIAL_REVOKED", "")}, isOpen, "2", password, "CREDENTIAL_REVOKED: It is so."},
		{"in review for long", "", slices.Concat([]reply{pending}, slices.Repeat([]reply{inReview}, 60)), isOpen, "2 3.0 4.5 6.75 10.125 15.1875 22.78125 34.171875 51.2578125" + strings.Repeat(" 60", 51), password, keepIt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before, behind, _ := strings.Cut(tt.base, "…")
			service := &badService{t: t, prefix: before, replies: tt.replies}
			server := httptest.NewTLSServer(service)
			defer server.Close()
			folder := t.TempDir()
			ca := filepath.Join(folder, "ca.pem")
			service.write(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
			credentials, err := json.Marshal(map[string]string{
				"base_url": server.URL + before + "/api/v1" + behind, "api_key": "cxk_1", "api_secret": billingSecret, "ca_cert": ca,
			})
			if err != nil {
				t.Fatal(err)
			}
			service.write(filepath.Join(folder, "credentials.json"), credentials)

			// Pauses are printed instead of slept.
			const hurried = `import runpy, sys, time
time.sleep = lambda seconds: print("pause", seconds, file=sys.stderr)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")`
			script := filepath.Join(folder, "billing.py")
			copyFile(t, "docs/examples/billing.py", script)
			run := exec.CommandContext(t.Context(), python, "-c", hurried, script,
				filepath.Join(folder, "credentials.json"), "activate", "order-1001", billingBody)
			run.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			var stdout, stderr bytes.Buffer
			run.Stdout, run.Stderr = &stdout, &stderr
			var exit *exec.ExitError
			if err := run.Run(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := run.ProcessState.ExitCode(); got != tt.exits {
				t.Errorf("exits %d; want %d", got, tt.exits)
			}
			if got := stdout.String(); got != tt.prints {
				t.Errorf("printed %q; want %q", got, tt.prints)
			}
			if got := stderr.String(); !strings.Contains(got, tt.warns) || strings.Contains(got, "Traceback") {
				t.Errorf("warned %q; want %q in it", got, tt.warns)
			}
			var pauses []string
			for _, found := range regexp.MustCompile(`(?m)^pause (.*)$`).FindAllStringSubmatch(stderr.String(), -1) {
				pauses = append(pauses, found[1])
			}
			if got := strings.Join(pauses, " "); got != tt.pauses {
				t.Errorf("waited %s; want %s", got, tt.pauses)
			}
			service.finish()
			if t.Failed() {
				t.Logf("the standard error:\n%s", stderr.String())
			}
		})
	}
}

// badService answers from a script and checks the requests.
type badService struct {
	t      *testing.T
	prefix string

	mu      sync.Mutex
	replies []reply
	nonces  []string
	// ahead: the caller got TIMESTAMP_EXPIRED.
	ahead bool
}

func (s *badService) write(file string, text []byte) {
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *badService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.inspect(r, body)
	if len(s.replies) == 0 {
		s.t.Errorf("%s %s came after the end of the script", r.Method, r.URL)
		panic(http.ErrAbortHandler)
	}
	next := s.replies[0]
	s.replies = s.replies[1:]
	if next.status == 0 {
		panic(http.ErrAbortHandler)
	}
	s.ahead = s.ahead || strings.Contains(next.body, "TIMESTAMP_EXPIRED")
	if next.after != "" {
		w.Header().Set("Retry-After", next.after)
	}
	w.WriteHeader(next.status)
	_, _ = io.WriteString(w, next.body)
}

// inspect requires a valid signature, a new nonce, and the same key and body for every
// attempt of one operation.
func (s *badService) inspect(r *http.Request, body []byte) {
	path, proxied := strings.CutPrefix(r.URL.Path, s.prefix)
	request := signing.Request{
		Method: r.Method, Path: path, RawQuery: r.URL.RawQuery, Timestamp: r.Header.Get("X-Timestamp"), Nonce: r.Header.Get("X-Nonce"), Body: body,
	}
	if !proxied || !request.Verify(billingSecret, r.Header.Get("X-Signature")) {
		s.t.Errorf("%s %s is not signed as it should be", r.Method, r.URL)
	}
	if slices.Contains(s.nonces, request.Nonce) {
		s.t.Errorf("the nonce %s was sent twice", request.Nonce)
	}
	s.nonces = append(s.nonces, request.Nonce)
	sent, err := strconv.ParseInt(request.Timestamp, 10, 64)
	if wrong := time.Unix(sent, 0).Before(time.Now().AddDate(50, 0, 0)); err != nil || wrong != !s.ahead {
		s.t.Errorf("the timestamp is %s (%v)", request.Timestamp, err)
	}
	switch r.Method {
	case "POST":
		if path != "/api/v1/activate" || r.Header.Get("Idempotency-Key") != "order-1001" || string(body) != billingBody {
			s.t.Errorf("sent %s under the key %s to %s", body, r.Header.Get("Idempotency-Key"), path)
		}
	case "GET":
		if path != "/api/v1/transaction" || r.URL.RawQuery != "idempotency_key=order-1001" {
			s.t.Errorf("asked %s", r.URL)
		}
	}
}

func (s *badService) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replies) > 0 {
		s.t.Errorf("stopped %d answers before the end of the script", len(s.replies))
	}
}
