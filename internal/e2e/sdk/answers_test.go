package sdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/certify/line"
)

// behaviour is what the tables of BEHAVIOUR.md say.
type behaviour struct {
	retried map[string]string // by the answer, as the table writes it
	class   map[client.Code]string
}

func readBehaviour(t *testing.T) behaviour {
	t.Helper()
	page, err := os.ReadFile(root + "/sdk/BEHAVIOUR.md")
	if err != nil {
		t.Fatal(err)
	}
	read := behaviour{map[string]string{}, map[client.Code]string{}}
	_, table, _ := strings.Cut(string(page), "| answer | retried | pause |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		read.retried[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+Error)` \\| (.+) \\|$").FindAllStringSubmatch(string(page), -1) {
		for _, code := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(row[2], -1) {
			read.class[client.Code(code[1])] = row[1]
		}
	}
	return read
}

// reply is an answer to an operation. Without a code it is not the service's, and with the
// status 0 none comes.
type reply struct {
	status     int
	code       client.Code
	serverTime bool
}

func (r reply) String() string {
	switch {
	case r.status == 0:
		return "no answer"
	case r.code == "":
		return fmt.Sprintf("%d of a proxy", r.status)
	case r.serverTime:
		return fmt.Sprintf("%d %s with server_time", r.status, r.code)
	}
	return fmt.Sprintf("%d %s", r.status, r.code)
}

// row is the row of the table of retries that the answer is in.
func (r reply) row() string {
	switch {
	case r.status == 0:
		return "no answer at all"
	case r.code == "" && (r.status < 300 || r.status == 429 || r.status >= 500):
		return "not the service's: 2xx, 429, 5xx"
	case r.code == "":
		return "not the service's: other statuses"
	case r.code == client.TimestampExpired && r.serverTime:
		return "401 `TIMESTAMP_EXPIRED` with `server_time`"
	case r.code == client.ReplayDetected:
		return "401 `REPLAY_DETECTED`"
	case r.code == client.OperationInProgress:
		return "409 `OPERATION_IN_PROGRESS`"
	case r.code == client.RequestInProgress:
		return "409 `REQUEST_IN_PROGRESS`"
	case r.code == client.PendingReview:
		return "202 `PENDING_REVIEW`"
	case r.status == 429:
		return "429"
	case r.status == 500 || r.status == 503:
		return "500, 503"
	}
	return "everything else"
}

func (r reply) undecided() bool {
	switch r.code {
	case client.ReplayDetected, "":
		return true
	case client.PlansUnavailable, client.ProviderError:
		return false
	}
	return r.status >= 500 || r.status < 300
}

func (b behaviour) classOf(r reply) string {
	known := map[int]string{
		401: "AuthenticationError", 402: "InsufficientBalanceError", 403: "AccessDeniedError", 404: "NotFoundError",
		409: "ConflictError", 429: "RateLimitError",
	}
	switch {
	case r.code == "":
		return "NoAnswerError"
	case b.class[r.code] != "":
		return b.class[r.code]
	case known[r.status] != "":
		return known[r.status]
	case r.status >= 500:
		return "UnavailableError"
	case r.status >= 400:
		return "InvalidRequestError"
	}
	return "PendingError"
}

// replies returns every code with its statuses in openapi.yaml, and an unknown code and a
// proxy's page with every status of the contract and some others.
func replies(t *testing.T) []reply {
	all := []reply{{}, {status: 401, code: client.TimestampExpired, serverTime: true}}
	statuses := map[int]bool{200: true, 201: true, 400: true, 502: true, 504: true, 501: true, 307: true}
	for code, of := range contracttest.Describe(t).Statuses {
		for _, status := range of {
			statuses[status] = true
			if code != string(client.OK) {
				all = append(all, reply{status: status, code: client.Code(code)})
			}
		}
	}
	for status := range statuses {
		all = append(all, reply{status: status})
		if status < 300 || status >= 400 {
			all = append(all, reply{status: status, code: "NEW_CODE"})
		}
	}
	slices.SortFunc(all, func(a, b reply) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// Every SDK repeats exactly what BEHAVIOUR.md allows, and gives every code its class.
func TestAnswers_FollowBehaviour(t *testing.T) {
	documented := readBehaviour(t)
	all := replies(t)
	codes, rows := map[client.Code]bool{client.OK: true}, map[string]bool{}
	for _, r := range all {
		codes[r.code], rows[r.row()] = true, true
		if documented.retried[r.row()] == "" {
			t.Errorf("BEHAVIOUR.md has no row %q", r.row())
		}
	}
	for _, code := range client.Codes() {
		if !codes[code] {
			t.Errorf("openapi.yaml has no answer with %s", code)
		}
	}
	if len(rows) != len(documented.retried) {
		t.Errorf("rows of BEHAVIOUR.md without an answer: have %v of %v", slices.Collect(maps.Keys(rows)), documented.retried)
	}
	forEach(t, func(t *testing.T, l language) {
		d := l.start(t)
		for _, r := range all {
			t.Run(r.String(), func(t *testing.T) { checkReply(t, d, l, documented, r) })
		}
	})
}

// checkReply calls a service that answers every operation in one way, and look-ups with the
// success of the operation.
func checkReply(t *testing.T, d *driver, l language, documented behaviour, r reply) {
	const key, attempts = "answer-0001", 3
	const operation = `{"transaction_id":"CX1","idempotency_key":"` + key + `","operation":"renew","status":"success","amount":1.00,"currency":"INR"}`
	var mu sync.Mutex
	posts, polls := 0, 0
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if request.Method == http.MethodGet {
			polls++
			fmt.Fprintf(w, `{"success":true,"request_id":"req_1","code":"OK","message":"","data":%s}`, operation)
			return
		}
		posts++
		switch {
		case r.status == 0:
			panic(http.ErrAbortHandler)
		case r.code == "":
			w.WriteHeader(r.status)
			fmt.Fprint(w, "<h1>A proxy</h1>")
		default:
			var data json.RawMessage
			if r.serverTime {
				data = fmt.Appendf(nil, `{"server_time":%d}`, time.Now().Unix())
			}
			answer := line.Envelope(r.status, string(r.code), "", data)
			w.WriteHeader(answer.Status)
			_, _ = w.Write(answer.Body)
		}
	}))
	defer service.Close()
	got := d.do(t, order{
		ID: r.String(), BaseURL: service.URL + "/api/v1", APIKey: "cxk_1", APISecret: "cxs_published_test_secret", Operation: "renew", Key: key,
		Body: json.RawMessage(`{"subscriber_id":"100001","plan_id":"BASIC-1"}`), Options: map[string]any{"attempts": attempts, "pause": 0.001, "max_pause": 0.002},
	})
	retried := documented.retried[r.row()]
	want := outcome{Outcome: "failed", Code: string(r.code), Status: r.status, Class: documented.classOf(r), Undecided: r.undecided()}
	sent, polled := 1, 0
	switch {
	case strings.HasPrefix(retried, "yes"):
		sent = attempts
	case strings.HasPrefix(retried, "once"):
		sent = 2
	case strings.Contains(retried, "polled"):
		want, polled = outcome{Outcome: "success"}, 1
	case !strings.HasPrefix(retried, "no"):
		t.Fatalf("BEHAVIOUR.md says %q", retried)
	}
	if want.Undecided {
		want.Outcome = "pending"
	}
	if l.name == "go" {
		want.Class = ""
	}
	if posts != sent || polls != polled {
		t.Errorf("it was sent %d times and polled %d times; want %d and %d: %q", posts, polls, sent, polled, retried)
	}
	if got.Outcome != want.Outcome || got.Code != want.Code || got.Status != want.Status && want.Outcome != "success" || got.Class != want.Class || got.Undecided != want.Undecided {
		t.Errorf("it ended as %s with code %q, status %d, class %q, undecided %v; want %s, %q, %d, %q, %v",
			got.Outcome, got.Code, got.Status, got.Class, got.Undecided, want.Outcome, want.Code, want.Status, want.Class, want.Undecided)
	}
}
