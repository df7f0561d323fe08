// Package sdk drives the SDKs in Go, PHP, Node and Python through the same stories, the
// same signing vectors and the same kills.
package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/certify/line"
	"github.com/coaxhq/coax/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// story is a file of sdk/stories, whose README.md describes the fields.
type story struct {
	About     string         `json:"about"`
	Wallet    string         `json:"wallet"`
	Subscribe *bool          `json:"subscribe"`
	Provider  []string       `json:"provider"`
	Options   map[string]any `json:"options"`
	Line      []line.Fault   `json:"line"`
	Calls     []storyCall    `json:"calls"`
	Charged   string         `json:"charged"`
}

type storyCall struct {
	Operation string            `json:"operation"`
	Key       *string           `json:"idempotency_key"`
	Body      json.RawMessage   `json:"body"`
	Arguments map[string]string `json:"arguments"`
	Want      wanted            `json:"want"`
}

type wanted struct {
	Outcome   string            `json:"outcome"`
	Code      string            `json:"code"`
	Status    *int              `json:"status"`
	Class     string            `json:"class"`
	Requests  atLeastAtMost     `json:"requests"`
	Pauses    [][2]float64      `json:"pauses"`
	Undecided bool              `json:"undecided"`
	Replayed  bool              `json:"replayed"`
	Data      map[string]string `json:"data"`
	Fields    []string          `json:"fields"`
	// RetryAfter is the wait that the error names.
	RetryAfter float64 `json:"retry_after"`
}

// atLeastAtMost is a number, or an array of two.
type atLeastAtMost [2]int

func (a *atLeastAtMost) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &a[0]); err == nil {
		a[1] = a[0]
		return nil
	}
	return json.Unmarshal(text, (*[2]int)(a))
}

func readStories(t *testing.T) map[string]story {
	t.Helper()
	files, err := filepath.Glob(root + "/sdk/stories/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no stories: %v", err)
	}
	all := map[string]story{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		var s story
		if err := decoder.Decode(&s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = s
	}
	return all
}

// stage is the service that all stories share.
type stage struct {
	env      *e2e.Env
	contract contracttest.Description
	mu       sync.Mutex // of setting up operators
	n        int
	// watch is given what the lines forward, and the service's answers, if it is not nil.
	watch func(testing.TB, line.Request, line.Answer)
}

func newStage(t *testing.T) *stage {
	return &stage{contract: contracttest.Describe(t), env: e2e.NewLiveEnv(t, "provider.timeout=3s", "review.first_check=50ms", "review.max_interval=100ms", "review.refund_after=200ms")}
}

func TestStories(t *testing.T) {
	stories := readStories(t)
	for _, name := range laterVersion {
		if _, known := stories[name]; !known {
			t.Errorf("there is no story %s", name)
		}
	}
	shared := newStage(t)
	t.Run("sdk", func(t *testing.T) {
		forEach(t, func(t *testing.T, l language) {
			d := l.start(t)
			for name, s := range stories {
				t.Run(name, func(t *testing.T) { shared.play(t, d, l, name, s) })
			}
		})
	})
}

// Stories whose line gives answers of a later version of the service.
var laterVersion = []string{"unknown-code", "unknown-field", "unknown-status"}

// checkForged checks an answer that a story makes up for the service: status, code and body
// have to be in openapi.yaml. Of the headers a story has only those that matter to it.
func (g *stage) checkForged(t testing.TB, r line.Request, answer line.Answer) {
	var envelope struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(answer.Body, &envelope) != nil || envelope.Code == "" {
		return // a proxy's
	}
	path, _, _ := strings.Cut(r.Target, "?")
	if _, documented := g.contract.Endpoints[r.Method+" "+path].Answers[answer.Status][envelope.Code]; !documented {
		t.Errorf("%s %s has no answer %d %s in openapi.yaml", r.Method, path, answer.Status, envelope.Code)
	}
	contracttest.CheckPrinted(t, r.Method, path, answer.Body)
}

func (g *stage) play(t *testing.T, d *driver, l language, name string, s story) {
	me, mobile, subscriber := g.setUp(s)
	before := g.env.WalletPaise(me)
	connection := newLine(t, g.env, me, s.Line)
	connection.watch = g.watch
	if !slices.Contains(laterVersion, name) {
		connection.forged = g.checkForged
	}
	options := map[string]any{"pause": 0.004, "max_pause": 0.02, "total_timeout": 60}
	for name, value := range s.Options {
		options[name] = value
	}
	fill := strings.NewReplacer("SUBSCRIBER", subscriber, "MOBILE", mobile)
	for i, c := range s.Calls {
		key := fmt.Sprintf("story-call-%d", i+1)
		if c.Key != nil {
			key = *c.Key
		}
		arguments := map[string]string{}
		for name, value := range c.Arguments {
			arguments[name] = fill.Replace(value)
		}
		sent := len(connection.taken())
		got := d.do(t, order{
			ID: fmt.Sprint(i), BaseURL: connection.server.URL + "/api/v1", CACert: connection.ca, APIKey: me.Key, APISecret: me.Secret,
			Operation: c.Operation, Key: key, Body: json.RawMessage(fill.Replace(string(c.Body))), Arguments: arguments, Options: options,
		})
		arrived := connection.taken()[sent:]
		checkRequests(t, arrived, got, key, c)
		checkOutcome(t, l, got, c.Want)
		checkSecrecy(t, got, me.Secret, arrived)
	}
	if want := e2e.Rupees(t, orZero(s.Charged)).Paise(); before[0]-g.env.WalletPaise(me)[0] != want {
		t.Errorf("the wallet went from %v to %v paise; want %d charged", before, g.env.WalletPaise(me), want)
	}
}

func orZero(amount string) string {
	if amount == "" {
		return "0.00"
	}
	return amount
}

func (g *stage) setUp(s story) (me e2e.Caller, mobile, subscriber string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
	mobile = fmt.Sprintf("98765%05d", g.n)
	wallet := s.Wallet
	if wallet == "" {
		wallet = "10000.00"
	}
	me = g.env.NewFundedOperator(fmt.Sprintf("story %d", g.n), "199.00")
	if s.Subscribe == nil || *s.Subscribe {
		subscriber = g.env.Activate(me, mobile, "BASIC-1")
	}
	if wallet != "0.00" {
		g.env.TopUp(me, wallet)
	}
	if len(s.Provider) > 0 {
		g.env.ScriptProvider(mobile, s.Provider...)
	}
	return me, mobile, subscriber
}

// checkRequests compares what arrived with the story and with what the hook saw.
func checkRequests(t *testing.T, arrived []line.Request, got outcome, key string, c storyCall) {
	t.Helper()
	if n := len(arrived); n < c.Want.Requests[0] || n > c.Want.Requests[1] {
		t.Errorf("%d requests arrived; want %v", n, c.Want.Requests)
	}
	var first *line.Request
	for i, r := range arrived {
		if r.Method != "POST" {
			continue
		}
		if r.Key != key {
			t.Errorf("request %d has the key %q; want %q", i+1, r.Key, key)
		}
		if first == nil {
			first = &arrived[i]
		} else if !bytes.Equal(r.Body, first.Body) || r.Target != first.Target {
			t.Errorf("request %d is %s %s; want the bytes of the first, %s", i+1, r.Target, r.Body, first.Body)
		}
	}
	if len(got.Attempts) < len(arrived) {
		t.Errorf("the hook saw %d attempts, and %d requests arrived", len(got.Attempts), len(arrived))
	}
	var pauses []float64
	for i, a := range got.Attempts {
		if a.Call == "" || strings.Contains(a.Call, "?") || a.Number < 1 || a.Duration < 0 || a.Status == 0 && a.Error == "" {
			t.Errorf("the hook was given %+v as attempt %d", a, i+1)
		}
		if a.Pause != nil {
			pauses = append(pauses, *a.Pause)
		}
	}
	if n := len(got.Attempts); n > 0 && got.Attempts[n-1].Pause != nil {
		t.Errorf("the hook was told of a pause after the last attempt")
	}
	for i, want := range c.Want.Pauses {
		if i >= len(pauses) {
			t.Errorf("there were %d pauses; want %d", len(pauses), len(c.Want.Pauses))
			break
		}
		if pauses[i] < want[0] || pauses[i] > want[1] {
			t.Errorf("pause %d was %v s; want between %v and %v", i+1, pauses[i], want[0], want[1])
		}
	}
}

func checkOutcome(t *testing.T, l language, got outcome, want wanted) {
	t.Helper()
	same := got.Outcome == want.Outcome && got.Code == want.Code && got.Undecided == (want.Outcome == "pending") &&
		(got.Replayed == want.Replayed || got.Outcome != "success") && got.RetryAfter == want.RetryAfter && (want.Status == nil || got.Status == *want.Status)
	if !same || l.name != "go" && got.Class != want.Class {
		brief := got
		brief.Shown, brief.Attempts = "", nil
		asked, _ := json.Marshal(want)
		t.Errorf("the call ended with %+v; want %s", brief, asked)
	}
	for path, text := range want.Data {
		switch at := field(got.Data, path); {
		case text == "*" && at == "":
			t.Errorf("the result has no %s: %v", path, got.Data)
		case text != "*" && at != text:
			t.Errorf("the result has %s = %q; want %q", path, at, text)
		}
	}
	for _, name := range want.Fields {
		if got.Fields[name] == "" {
			t.Errorf("the error has no message for field %s: %v", name, got.Fields)
		}
	}
	if answered := got.Status != 0 && got.Code != ""; answered && got.Outcome != "success" && got.RequestID == "" && want.Requests[1] > 0 && got.Status != 200 {
		t.Errorf("the error has no request id: %+v", got)
	}
}

// field returns a value of an object by its dotted path, as text.
func field(of map[string]any, path string) string {
	var at any = of
	for name := range strings.SplitSeq(path, ".") {
		object, _ := at.(map[string]any)
		at = object[name]
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}

// checkSecrecy checks that nothing printable holds the secret, a signature or a
// customer's password.
func checkSecrecy(t *testing.T, got outcome, secret string, arrived []line.Request) {
	t.Helper()
	if got.Shown == "" {
		t.Error("the driver showed nothing of client, result and error")
	}
	hidden := []string{secret}
	for _, r := range arrived {
		hidden = append(hidden, r.Header.Get("X-Signature"))
	}
	if password := field(got.Data, "customer.password"); password != "" {
		hidden = append(hidden, password)
	}
	for _, text := range hidden {
		if strings.Contains(got.Shown, text) {
			t.Errorf("%s shows in %s", text, got.Shown)
		}
	}
}
