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
func (w *Env) Operate(as Caller, endpoint, key string, o Order) Answer {
	w.TB.Helper()
	return w.Send(Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: o.JSON(),
		Header: map[string][]string{"Idempotency-Key": {key}},
	})
}

// Transaction looks an operation up by its key.
func (w *Env) LookUp(as Caller, key string) Answer {
	w.TB.Helper()
	return w.Send(Call{As: as, Path: "/api/v1/transaction?idempotency_key=" + key})
}

// Unlimited lets an operator make as many requests as a test likes.
func (w *Env) LiftRateLimit(as Caller) Caller {
	w.TB.Helper()
	limit := 1_000_000
	if _, err := w.Admin.ChangeOperator(context.Background(), as.OperatorID, admin.OperatorChange{RateLimit: &limit}); err != nil {
		w.TB.Fatal(err)
	}
	return as
}

// Rich is a new operator with money and no limit.
func (w *Env) NewFundedOperator(name, amount string) Caller {
	w.TB.Helper()
	me := w.LiftRateLimit(w.NewOperator(name, access.AllPermissions))
	if amount != "0" {
		w.TopUp(me, amount)
	}
	return me
}

func (w *Env) TopUp(as Caller, amount string) {
	w.TB.Helper()
	w.paid++
	_, _, err := w.Admin.TopUp(context.Background(), admin.TopUp{
		OperatorID: as.OperatorID, Amount: Rupees(w.TB, amount), Reference: fmt.Sprintf("payment %d to %d", w.paid, as.OperatorID),
	})
	if err != nil {
		w.TB.Fatal(err)
	}
}

// Activated makes a subscriber and returns its id.
func (w *Env) Activate(as Caller, mobile, plan string) string {
	w.TB.Helper()
	got := w.Operate(as, "activate", "activate-"+mobile, Order{"full_name": "Asha", "mobile": mobile, "plan_id": plan})
	if got.Code != fault.OK {
		w.TB.Fatalf("activate %s: %s", mobile, got.Raw)
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
func (w *Env) ScriptProvider(mobile string, outcomes ...string) {
	w.TB.Helper()
	text, _ := json.Marshal(map[string]any{"mobile": mobile, "outcomes": outcomes})
	response, err := w.HTTP.Post(w.Simulator.URL+"/control/script", "application/json", strings.NewReader(string(text)))
	if err != nil {
		w.TB.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		w.TB.Fatalf("the simulator does not take the script: %d", response.StatusCode)
	}
}

// Orders counts the orders that the provider was sent; whether it is well, and
// what it sells, the service asks by itself.
func (w *Env) ProviderOrders() int {
	count := 0
	for _, c := range w.Simulator.Calls("") {
		switch c.Kind {
		case "activate", "renew", "advance_renew":
			count++
		}
	}
	return count
}

// Audited demands clean books, and a provider that did each thing once.
func (w *Env) CheckAudit() {
	w.TB.Helper()
	snapshot, done, err := server.OpenSnapshot(context.Background(), w.Node.Config.Store)
	if err != nil {
		w.TB.Fatal(err)
	}
	defer done()
	report, err := audit.Run(context.Background(), snapshot, w.Now(), nil)
	if err != nil {
		w.TB.Fatal(err)
	}
	for _, violation := range report.Violations {
		w.TB.Errorf("audit: %+v", violation)
	}
	for reference, effects := range w.Simulator.Effects() {
		if effects > 1 {
			w.TB.Errorf("the provider applied %s %d times", reference, effects)
		}
	}
}

// traces are the tables that a refused request may touch: what admission remembers, and
// what is written of any request, some seconds later.
var traces = []string{"nonces", "nonce_index", "nonce_index_state", "rate_counters", "sqlite_sequence", "request_log", "key_uses"}

// tables hashes every table but those that a refused request may touch.
func (w *Env) tables() map[string]string {
	w.TB.Helper()
	db := OpenReadOnly(w.TB, w.Node.Config.Store)
	defer db.Close()
	hashes := map[string]string{}
	for _, name := range storeTables(w.TB, db) {
		if !slices.Contains(traces, name) {
			rows := QueryRows(w.TB, db, `SELECT * FROM `+name)
			slices.Sort(rows) // they come in no order
			hashes[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(rows, "\n"))))
		}
	}
	return hashes
}

// Untouched demands that something leaves no trace.
func (w *Env) CheckUnchanged(what string, run func()) {
	w.TB.Helper()
	w.CheckUnchangedExcept(nil, what, run)
}

// UntouchedBut does so for all tables but the named ones.
func (w *Env) CheckUnchangedExcept(but []string, what string, run func()) {
	w.TB.Helper()
	before := w.tables()
	run()
	for name, hash := range w.tables() {
		if before[name] != hash && !slices.Contains(but, name) {
			w.TB.Errorf("%s: table %s has changed", what, name)
		}
	}
}

// Money is an operator's balance and holds, in paise.
func (w *Env) WalletPaise(as Caller) [2]int64 {
	w.TB.Helper()
	wallet, err := w.Admin.Wallet(context.Background(), as.OperatorID)
	if err != nil {
		w.TB.Fatal(err)
	}
	return [2]int64{wallet.Balance.Paise(), wallet.Held.Paise()}
}

// CheckMoney holds an answer's wallet against what really moved.
func (w *Env) CheckWallet(what string, got Answer, before, after [2]int64, price string) {
	w.TB.Helper()
	cost := Rupees(w.TB, price).Paise()
	want := map[string][2]int64{
		"success": {before[0] - cost, before[1]}, "failed": before, "needs_review": {before[0] - cost, before[1] + cost},
	}[got.Text("status")]
	if after != want {
		w.TB.Errorf("%s: the wallet went from %v to %v; want %v", what, before, after, want)
	}
	wallet, _ := got.Data["wallet"].(map[string]any)
	charged := map[string]int64{"success": cost}[got.Text("status")]
	shown := func(name string) int64 { f, _ := wallet[name].(float64); return int64(f*100 + 0.5) }
	if shown("before") != before[0] || shown("after") != after[0] || shown("charged") != charged ||
		wallet["held"] != (got.Text("status") == "needs_review") || wallet["refunded"] != (got.Text("status") == "failed") {
		w.TB.Errorf("%s: the answer shows %v; it went from %v to %v", what, wallet, before, after)
	}
}

// CheckAgreement holds first answer, replay and look-up against each other,
// field by field, the password aside.
func (w *Env) CheckReplayAndLookup(what string, as Caller, key, endpoint string, o Order, first Answer) {
	w.TB.Helper()
	calls := w.ProviderOrders()
	replay := w.Operate(as, endpoint, key, o)
	if replay.Header.Get("Idempotent-Replayed") != "true" || first.Header.Get("Idempotent-Replayed") != "" {
		w.TB.Errorf("%s: replayed %q, first %q", what, replay.Header.Get("Idempotent-Replayed"), first.Header.Get("Idempotent-Replayed"))
	}
	if replay.Code != first.Code || replay.Status != first.Status || replay.Message != first.Message || replay.ID == first.ID {
		w.TB.Errorf("%s: replayed as %s; first was %s", what, replay.Raw, first.Raw)
	}
	found := w.LookUp(as, key)
	if found.Code != fault.OK || found.Text("result_code") != string(first.Code) || found.Text("result_message") != first.Message {
		w.TB.Errorf("%s: looked up as %s", what, found.Raw)
	}
	byID := w.Send(Call{As: as, Path: "/api/v1/transaction?transaction_id=" + first.Text("transaction_id")})
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
			w.TB.Errorf("%s: the %s differs\n%s\nfrom\n%s", what, name, other, want)
		}
	}
	if replay.Text("customer.password") != "" || found.Text("customer.password") != "" {
		w.TB.Errorf("%s: the password is given twice", what)
	}
	if now := w.ProviderOrders(); now != calls {
		w.TB.Errorf("%s: replay and look-up called the provider %d times", what, now-calls)
	}
}

const Balance = "/api/v1/balance"

// Steer tells the simulator how it is doing as a whole.
func (w *Env) ControlSimulator(path, text string) {
	w.TB.Helper()
	response, err := w.HTTP.Post(w.Simulator.URL+"/control/"+path, "application/json", strings.NewReader(text))
	if err != nil {
		w.TB.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		w.TB.Fatalf("%s %s: %d", path, text, response.StatusCode)
	}
}

// InReview starts an operation that the provider leaves open. After an outage it
// waits until the node has noticed that the provider answers again.
func (w *Env) StartReview(me Caller, endpoint, outcome, mobile, key string) (Order, Answer) {
	w.TB.Helper()
	o := Order{"full_name": "Asha", "mobile": mobile, "plan_id": "FAMILY-1"}
	if endpoint != "activate" {
		o = Order{"subscriber_id": w.Activate(me, mobile, "BASIC-1"), "plan_id": "FAMILY-1"}
	}
	w.ScriptProvider(mobile, outcome)
	var got Answer
	w.WaitUntil("the provider is known to answer", func() bool {
		got = w.Operate(me, endpoint, key, o)
		return got.Code != fault.ServiceUnavailable
	})
	if got.Code != fault.PendingReview {
		w.TB.Fatalf("%s %s: %s; want it in review", endpoint, outcome, got.Raw)
	}
	return o, got
}

// Settled waits until an operation has left review.
func (w *Env) AwaitSettled(me Caller, key string) Answer {
	w.TB.Helper()
	var found Answer
	polls := 0
	w.WaitUntil("the operation "+key+" is settled", func() bool {
		// On a busy machine the provider may not have answered in its time; it is asked
		// again later, and later has to come.
		if polls++; polls%200 == 0 {
			w.Advance(10 * time.Second)
		}
		found = w.LookUp(me, key)
		return found.Text("status") != "needs_review" && found.Text("status") != "processing"
	})
	return found
}

// Asked counts the questions of a kind that the provider got about a mobile.
func (w *Env) ProviderCalls(mobile, kind string) int {
	count := 0
	for _, c := range w.Simulator.Calls(mobile) {
		if c.Kind == kind {
			count++
		}
	}
	return count
}

// Race sends many calls at once and counts the codes.
func (w *Env) Race(n int, ask func(i int) Answer) (map[fault.Code]int, []Answer) {
	w.TB.Helper()
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
	w := &Env{TB: t, Demo: p.Demo, HTTP: NewHTTPClient(t, p.Demo.CACert)}
	t.Cleanup(w.HTTP.CloseIdleConnections)
	return w
}

func (w *Env) SendNow(c Call) Answer {
	w.TB.Helper()
	w.Time.Store(time.Now().UnixMilli())
	return w.Send(c)
}

// TryOperate asks for an operation of a process that may die meanwhile; false if
// no answer came.
func (w *Env) TryOperate(as Caller, endpoint, key string, o Order) (Answer, bool) {
	w.TB.Helper()
	w.Time.Store(time.Now().UnixMilli())
	request := w.Request(Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: o.JSON(), Header: map[string][]string{"Idempotency-Key": {key}},
	})
	response, err := w.HTTP.Do(request)
	if err != nil {
		return Answer{}, false
	}
	got, err := w.Receive(request, request.URL.Path, response)
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
func (w *Env) Metric(name string) float64 {
	w.TB.Helper()
	_, text := HTTPGet(w.TB, w.Demo.InternalURL+"/metrics")
	return figure(w.TB, text, name)
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
