package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/server"
)

// Order is a body of an operation's request.
type Order map[string]string

func (o Order) JSON() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Operate asks for an operation under a key.
func (e *Env) Operate(as Caller, endpoint, key string, o Order) Answer {
	e.TB.Helper()
	return e.Send(Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: o.JSON(),
		Header: map[string][]string{"Idempotency-Key": {key}},
	})
}

// Transaction looks an operation up by its key.
func (e *Env) LookUp(as Caller, key string) Answer {
	e.TB.Helper()
	return e.Send(Call{As: as, Path: "/api/v1/transaction?idempotency_key=" + key})
}

// Unlimited lets an operator make as many requests as a test likes.
func (e *Env) LiftRateLimit(as Caller) Caller {
	e.TB.Helper()
	limit := 1_000_000
	if _, err := e.Admin.ChangeOperator(context.Background(), as.OperatorID, admin.OperatorChange{RateLimit: &limit}); err != nil {
		e.TB.Fatal(err)
	}
	return as
}

// Rich is a new operator with money and no limit.
func (e *Env) NewFundedOperator(name, amount string) Caller {
	e.TB.Helper()
	me := e.LiftRateLimit(e.NewOperator(name, access.AllPermissions))
	if amount != "0" {
		e.TopUp(me, amount)
	}
	return me
}

func (e *Env) TopUp(as Caller, amount string) {
	e.TB.Helper()
	e.paid++
	_, _, err := e.Admin.TopUp(context.Background(), admin.TopUp{
		OperatorID: as.OperatorID, Amount: Rupees(e.TB, amount), Reference: fmt.Sprintf("payment %d to %d", e.paid, as.OperatorID),
	})
	if err != nil {
		e.TB.Fatal(err)
	}
}

// Activated makes a subscriber and returns its id.
func (e *Env) Activate(as Caller, mobile, plan string) string {
	e.TB.Helper()
	got := e.Operate(as, "activate", "activate-"+mobile, Order{"full_name": "Asha", "mobile": mobile, "plan_id": plan})
	if got.Code != fault.OK {
		e.TB.Fatalf("activate %s: %s", mobile, got.Raw)
	}
	return got.Text("customer.subscriber_id")
}

// Text is a field of the data by its path; empty if it is not there.
func (a Answer) Text(path string) string {
	var at any = a.Data
	for name := range strings.SplitSeq(path, ".") {
		object, _ := at.(map[string]any)
		at = object[name]
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}

// Script tells the simulator how to treat the next calls for a mobile.
func (e *Env) ScriptProvider(mobile string, outcomes ...string) {
	e.TB.Helper()
	text, _ := json.Marshal(map[string]any{"mobile": mobile, "outcomes": outcomes})
	response, err := e.HTTP.Post(e.Simulator.URL+"/control/script", "application/json", strings.NewReader(string(text)))
	if err != nil {
		e.TB.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		e.TB.Fatalf("the simulator does not take the script: %d", response.StatusCode)
	}
}

// Orders counts the orders that the provider was sent; whether it is well, and
// what it sells, the service asks by itself.
func (e *Env) ProviderOrders() int {
	count := 0
	for _, c := range e.Simulator.Calls("") {
		switch c.Kind {
		case "activate", "renew", "advance_renew":
			count++
		}
	}
	return count
}

// Audited demands clean books, and a provider that did each thing once.
func (e *Env) CheckAudit() {
	e.TB.Helper()
	snapshot, done, err := server.OpenSnapshot(context.Background(), e.Node.Config.Store)
	if err != nil {
		e.TB.Fatal(err)
	}
	defer done()
	report, err := audit.Run(context.Background(), snapshot, e.Now(), nil)
	if err != nil {
		e.TB.Fatal(err)
	}
	for _, violation := range report.Violations {
		e.TB.Errorf("audit: %+v", violation)
	}
	for reference, effects := range e.Simulator.Effects() {
		if effects > 1 {
			e.TB.Errorf("the provider applied %s %d times", reference, effects)
		}
	}
}

// traces are the tables that a refused request may touch: what admission remembers, and
// what is written of any request, some seconds later.
var traces = []string{"nonces", "nonce_index", "nonce_index_state", "rate_counters", "sqlite_sequence", "request_log", "key_uses"}

// tables hashes every table but those that a refused request may touch.
func (e *Env) tables() map[string]string {
	e.TB.Helper()
	db := OpenReadOnly(e.TB, e.Node.Config.Store)
	defer db.Close()
	hashes := map[string]string{}
	for _, name := range storeTables(e.TB, db) {
		if !slices.Contains(traces, name) {
			rows := QueryRows(e.TB, db, `SELECT * FROM `+name)
			slices.Sort(rows) // they come in no order
			hashes[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(rows, "\n"))))
		}
	}
	return hashes
}

// Untouched demands that something leaves no trace.
func (e *Env) CheckUnchanged(what string, run func()) {
	e.TB.Helper()
	e.CheckUnchangedExcept(nil, what, run)
}

// UntouchedBut does so for all tables but the named ones.
func (e *Env) CheckUnchangedExcept(but []string, what string, run func()) {
	e.TB.Helper()
	before := e.tables()
	run()
	for name, hash := range e.tables() {
		if before[name] != hash && !slices.Contains(but, name) {
			e.TB.Errorf("%s: table %s has changed", what, name)
		}
	}
}

// Money is an operator's balance and holds, in paise.
func (e *Env) WalletPaise(as Caller) [2]int64 {
	e.TB.Helper()
	wallet, err := e.Admin.Wallet(context.Background(), as.OperatorID)
	if err != nil {
		e.TB.Fatal(err)
	}
	return [2]int64{wallet.Balance.Paise(), wallet.Held.Paise()}
}

// CheckMoney holds an answer's wallet against what really moved.
func (e *Env) CheckWallet(what string, got Answer, before, after [2]int64, price string) {
	e.TB.Helper()
	cost := Rupees(e.TB, price).Paise()
	want := map[string][2]int64{
		"success": {before[0] - cost, before[1]}, "failed": before, "needs_review": {before[0] - cost, before[1] + cost},
	}[got.Text("status")]
	if after != want {
		e.TB.Errorf("%s: the wallet went from %v to %v; want %v", what, before, after, want)
	}
	wallet, _ := got.Data["wallet"].(map[string]any)
	charged := map[string]int64{"success": cost}[got.Text("status")]
	shown := func(name string) int64 { f, _ := wallet[name].(float64); return int64(f*100 + 0.5) }
	if shown("before") != before[0] || shown("after") != after[0] || shown("charged") != charged ||
		wallet["held"] != (got.Text("status") == "needs_review") || wallet["refunded"] != (got.Text("status") == "failed") {
		e.TB.Errorf("%s: the answer shows %v; it went from %v to %v", what, wallet, before, after)
	}
}

// CheckAgreement holds first answer, replay and look-up against each other,
// field by field, the password aside.
func (e *Env) CheckReplayAndLookup(what string, as Caller, key, endpoint string, o Order, first Answer) {
	e.TB.Helper()
	calls := e.ProviderOrders()
	replay := e.Operate(as, endpoint, key, o)
	if replay.Header.Get("Idempotent-Replayed") != "true" || first.Header.Get("Idempotent-Replayed") != "" {
		e.TB.Errorf("%s: replayed %q, first %q", what, replay.Header.Get("Idempotent-Replayed"), first.Header.Get("Idempotent-Replayed"))
	}
	if replay.Code != first.Code || replay.Status != first.Status || replay.Message != first.Message || replay.ID == first.ID {
		e.TB.Errorf("%s: replayed as %s; first was %s", what, replay.Raw, first.Raw)
	}
	found := e.LookUp(as, key)
	if found.Code != fault.OK || found.Text("result_code") != string(first.Code) || found.Text("result_message") != first.Message {
		e.TB.Errorf("%s: looked up as %s", what, found.Raw)
	}
	byID := e.Send(Call{As: as, Path: "/api/v1/transaction?transaction_id=" + first.Text("transaction_id")})
	plain := func(a Answer, drop ...string) string {
		var data map[string]any
		text, _ := json.Marshal(a.Data)
		_ = json.Unmarshal(text, &data)
		for _, name := range drop {
			delete(data, name)
		}
		if customer, ok := data["customer"].(map[string]any); ok {
			delete(customer, "password")
		}
		text, _ = json.Marshal(data)
		return string(text)
	}
	want := plain(first)
	for name, other := range map[string]string{
		"replay": plain(replay), "look-up": plain(found, "result_code", "result_message"), "look-up by id": plain(byID, "result_code", "result_message"),
	} {
		if other != want {
			e.TB.Errorf("%s: the %s differs\n%s\nfrom\n%s", what, name, other, want)
		}
	}
	if replay.Text("customer.password") != "" || found.Text("customer.password") != "" {
		e.TB.Errorf("%s: the password is given twice", what)
	}
	if now := e.ProviderOrders(); now != calls {
		e.TB.Errorf("%s: replay and look-up called the provider %d times", what, now-calls)
	}
}

const Balance = "/api/v1/balance"

// Steer tells the simulator how it is doing as a whole.
func (e *Env) ControlSimulator(path, text string) {
	e.TB.Helper()
	response, err := e.HTTP.Post(e.Simulator.URL+"/control/"+path, "application/json", strings.NewReader(text))
	if err != nil {
		e.TB.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		e.TB.Fatalf("%s %s: %d", path, text, response.StatusCode)
	}
}

// InReview starts an operation that the provider leaves open. After an outage it
// waits until the node has noticed that the provider answers again.
func (e *Env) StartReview(me Caller, endpoint, outcome, mobile, key string) (Order, Answer) {
	e.TB.Helper()
	o := Order{"full_name": "Asha", "mobile": mobile, "plan_id": "FAMILY-1"}
	if endpoint != "activate" {
		o = Order{"subscriber_id": e.Activate(me, mobile, "BASIC-1"), "plan_id": "FAMILY-1"}
	}
	e.ScriptProvider(mobile, outcome)
	var got Answer
	e.WaitUntil("the provider is known to answer", func() bool {
		got = e.Operate(me, endpoint, key, o)
		return got.Code != fault.ServiceUnavailable
	})
	if got.Code != fault.PendingReview {
		e.TB.Fatalf("%s %s: %s; want it in review", endpoint, outcome, got.Raw)
	}
	return o, got
}

// Settled waits until an operation has left review.
func (e *Env) AwaitSettled(me Caller, key string) Answer {
	e.TB.Helper()
	var found Answer
	polls := 0
	e.WaitUntil("the operation "+key+" is settled", func() bool {
		// On a busy machine the provider may not have answered in its time; it is asked
		// again later, and later has to come.
		if polls++; polls%200 == 0 {
			e.Advance(10 * time.Second)
		}
		found = e.LookUp(me, key)
		return found.Text("status") != "needs_review" && found.Text("status") != "processing"
	})
	return found
}

// Asked counts the questions of a kind that the provider got about a mobile.
func (e *Env) ProviderCalls(mobile, kind string) int {
	count := 0
	for _, c := range e.Simulator.Calls(mobile) {
		if c.Kind == kind {
			count++
		}
	}
	return count
}

// Race sends many calls at once and counts the codes.
func (e *Env) Race(n int, ask func(i int) Answer) (map[fault.Code]int, []Answer) {
	e.TB.Helper()
	answers := make([]Answer, n)
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			answers[i] = ask(i)
		})
	}
	close(start)
	group.Wait()
	codes := map[fault.Code]int{}
	for _, a := range answers {
		codes[a.Code]++
	}
	return codes, answers
}

// Remote is a world whose service is a process of its own, on the machine's
// clock.
func NewRemoteEnv(t *testing.T, p *Process) *Env {
	t.Helper()
	e := &Env{TB: t, Demo: p.Demo, HTTP: NewHTTPClient(t, p.Demo.CACert)}
	t.Cleanup(e.HTTP.CloseIdleConnections)
	return e
}

func (e *Env) SendNow(c Call) Answer {
	e.TB.Helper()
	e.Time.Store(time.Now().UnixMilli())
	return e.Send(c)
}

// TryOperate asks for an operation of a process that may die meanwhile; false if
// no answer came.
func (e *Env) TryOperate(as Caller, endpoint, key string, o Order) (Answer, bool) {
	e.TB.Helper()
	e.Time.Store(time.Now().UnixMilli())
	request := e.Request(Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: o.JSON(), Header: map[string][]string{"Idempotency-Key": {key}},
	})
	response, err := e.HTTP.Do(request)
	if err != nil {
		return Answer{}, false
	}
	got, err := e.Receive(request, request.URL.Path, response)
	return got, err == nil
}

// Activation is the body of a request for a new subscriber.
func Activation(mobile string) Order {
	return Order{"full_name": "Asha", "mobile": mobile, "plan_id": "BASIC-1"}
}

// Together runs subtests that mostly wait, all at once, however few processors
// there are.
func RunConcurrently[R any](t *testing.T, rows []R, name func(R) string, run func(*testing.T, R)) {
	t.Helper()
	var group sync.WaitGroup
	for _, row := range rows {
		group.Go(func() { t.Run(name(row), func(t *testing.T) { run(t, row) }) })
	}
	group.Wait()
}

// Readiness is the status of a node's /readyz.
func Readiness(t testing.TB, internal string) int {
	t.Helper()
	status, _ := HTTPGet(t, internal+"/readyz")
	return status
}

// Metric reads a figure of a node's metrics; -1 if there is none.
func (e *Env) Metric(name string) float64 {
	e.TB.Helper()
	_, text := HTTPGet(e.TB, e.Demo.InternalURL+"/metrics")
	return figure(e.TB, text, name)
}

func figure(t testing.TB, metrics, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(metrics)
	if found == nil {
		return -1
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
