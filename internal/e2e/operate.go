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

// Order is the body of an operation's request.
type Order map[string]string

// JSON encodes the body.
func (o Order) JSON() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Operate requests an operation under an idempotency key.
func (e *Env) Operate(as Caller, endpoint, key string, o Order) Answer {
	e.TB.Helper()
	return e.Send(Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: o.JSON(),
		Header: map[string][]string{"Idempotency-Key": {key}},
	})
}

// LookUp looks an operation up by its idempotency key.
func (e *Env) LookUp(as Caller, key string) Answer {
	e.TB.Helper()
	return e.Send(Call{As: as, Path: "/api/v1/transaction?idempotency_key=" + key})
}

// LiftRateLimit gives an operator a rate limit that no test reaches.
func (e *Env) LiftRateLimit(as Caller) Caller {
	e.TB.Helper()
	limit := 1_000_000
	if _, err := e.Admin.ChangeOperator(context.Background(), as.OperatorID, admin.OperatorChange{RateLimit: &limit}); err != nil {
		e.TB.Fatal(err)
	}
	return as
}

// NewFundedOperator creates an operator with a wallet balance and no rate limit.
func (e *Env) NewFundedOperator(name, amount string) Caller {
	e.TB.Helper()
	me := e.LiftRateLimit(e.NewOperator(name, access.AllPermissions))
	if amount != "0" {
		e.TopUp(me, amount)
	}
	return me
}

// TopUp adds money to an operator's wallet.
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

// Activate creates a subscriber and returns its id.
func (e *Env) Activate(as Caller, mobile, plan string) string {
	e.TB.Helper()
	got := e.Operate(as, "activate", "activate-"+mobile, Order{"full_name": "Asha", "mobile": mobile, "plan_id": plan})
	if got.Code != fault.OK {
		e.TB.Fatalf("activate %s: %s", mobile, got.Raw)
	}
	return got.Text("customer.subscriber_id")
}

// Text returns a field of the data by its dotted path; empty if it is missing.
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

// ScriptProvider sets the outcomes of the simulator's next calls for a mobile.
func (e *Env) ScriptProvider(mobile string, outcomes ...string) {
	e.TB.Helper()
	text, _ := json.Marshal(map[string]any{"mobile": mobile, "outcomes": outcomes})
	response, err := e.HTTP.Post(e.Simulator.URL+"/control/script", "application/json", strings.NewReader(string(text)))
	if err != nil {
		e.TB.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		e.TB.Fatalf("the simulator refused the script: %d", response.StatusCode)
	}
}

// ProviderOrders counts the orders sent to the provider. Health and catalogue calls,
// which the service makes by itself, are not counted.
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

// CheckAudit checks that the audit finds no violation and that the provider applied
// nothing twice.
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

// requestTables are the tables that a refused request may change: nonces and counters of
// admission, the request log, which is written seconds later, the store's mark, which moves
// after any write, and the nodes that run.
var requestTables = []string{"nonces", "nonce_index", "nonce_index_state", "rate_counters", "sqlite_sequence", "request_log", "key_uses", "store_mark", "nodes"}

// hashTables hashes every table but those that a refused request may change.
func (e *Env) hashTables() map[string]string {
	e.TB.Helper()
	db := OpenReadOnly(e.TB, e.Node.Config.Store)
	defer db.Close()
	hashes := map[string]string{}
	for _, name := range storeTables(e.TB, db) {
		if !slices.Contains(requestTables, name) {
			rows := QueryRows(e.TB, db, `SELECT * FROM `+name)
			slices.Sort(rows) // the query has no ORDER BY
			hashes[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(rows, "\n"))))
		}
	}
	return hashes
}

// CheckUnchanged checks that run changes no table.
func (e *Env) CheckUnchanged(what string, run func()) {
	e.TB.Helper()
	e.CheckUnchangedExcept(nil, what, run)
}

// CheckUnchangedExcept checks that run changes no table but the named ones.
func (e *Env) CheckUnchangedExcept(except []string, what string, run func()) {
	e.TB.Helper()
	before := e.hashTables()
	run()
	for name, hash := range e.hashTables() {
		if before[name] != hash && !slices.Contains(except, name) {
			e.TB.Errorf("%s: table %s has changed", what, name)
		}
	}
}

// WalletPaise returns an operator's balance and held amount, in paise.
func (e *Env) WalletPaise(as Caller) [2]int64 {
	e.TB.Helper()
	wallet, err := e.Admin.Wallet(context.Background(), as.OperatorID)
	if err != nil {
		e.TB.Fatal(err)
	}
	return [2]int64{wallet.Balance.Paise(), wallet.Held.Paise()}
}

// CheckWallet compares the wallet in an answer with the balances before and after.
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

// CheckReplayAndLookup checks that a replay and the look-ups of an operation agree with
// its first answer in every field but the password.
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
		e.TB.Errorf("%s: the password is returned twice", what)
	}
	if now := e.ProviderOrders(); now != calls {
		e.TB.Errorf("%s: replay and look-up called the provider %d times", what, now-calls)
	}
}

// Balance is the path of the simplest authenticated request.
const Balance = "/api/v1/balance"

// ControlSimulator posts to one of the simulator's control endpoints.
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

// StartReview starts an operation whose outcome stays unknown. After an outage it waits
// until the node's breaker has closed.
func (e *Env) StartReview(me Caller, endpoint, outcome, mobile, key string) (Order, Answer) {
	e.TB.Helper()
	o := Order{"full_name": "Asha", "mobile": mobile, "plan_id": "FAMILY-1"}
	if endpoint != "activate" {
		o = Order{"subscriber_id": e.Activate(me, mobile, "BASIC-1"), "plan_id": "FAMILY-1"}
	}
	e.ScriptProvider(mobile, outcome)
	var got Answer
	e.WaitUntil("the breaker has closed", func() bool {
		got = e.Operate(me, endpoint, key, o)
		return got.Code != fault.ServiceUnavailable
	})
	if got.Code != fault.PendingReview {
		e.TB.Fatalf("%s %s: %s; want it in review", endpoint, outcome, got.Raw)
	}
	return o, got
}

// AwaitSettled waits until an operation has left review.
func (e *Env) AwaitSettled(me Caller, key string) Answer {
	e.TB.Helper()
	var found Answer
	polls := 0
	e.WaitUntil("the operation "+key+" is settled", func() bool {
		// On a busy machine a status call may time out. The next one comes later by the
		// service's clock, which only the test moves.
		if polls++; polls%200 == 0 {
			e.Advance(10 * time.Second)
		}
		found = e.LookUp(me, key)
		return found.Text("status") != "needs_review" && found.Text("status") != "processing"
	})
	return found
}

// ProviderCalls counts the provider's calls of a kind for a mobile.
func (e *Env) ProviderCalls(mobile, kind string) int {
	count := 0
	for _, c := range e.Simulator.Calls(mobile) {
		if c.Kind == kind {
			count++
		}
	}
	return count
}

// Race sends n calls at once and counts the codes.
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

// NewRemoteEnv returns an Env whose service is another process, on the machine's clock.
func NewRemoteEnv(t *testing.T, p *Process) *Env {
	t.Helper()
	e := &Env{TB: t, Demo: p.Demo, HTTP: NewHTTPClient(t, p.Demo.CACert)}
	t.Cleanup(e.HTTP.CloseIdleConnections)
	return e
}

// SendNow sends a call signed with the machine's time, for a service in another process.
func (e *Env) SendNow(c Call) Answer {
	e.TB.Helper()
	e.Time.Store(time.Now().UnixMilli())
	return e.Send(c)
}

// TryOperate requests an operation of a process that may die meanwhile. It returns
// false if no answer came.
func (e *Env) TryOperate(as Caller, endpoint, key string, o Order) (Answer, bool) {
	e.TB.Helper()
	return e.Try(Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: o.JSON(), Header: map[string][]string{"Idempotency-Key": {key}},
	})
}

// Try sends a call, signed with the machine's time, to a process that may die meanwhile. It
// returns false if no answer came.
func (e *Env) Try(c Call) (Answer, bool) {
	e.TB.Helper()
	e.Time.Store(time.Now().UnixMilli())
	request := e.Request(c)
	response, err := e.HTTP.Do(request)
	if err != nil {
		return Answer{}, false
	}
	got, err := e.Receive(request, request.URL.Path, response)
	return got, err == nil
}

// Activation is the body of an activation.
func Activation(mobile string) Order {
	return Order{"full_name": "Asha", "mobile": mobile, "plan_id": "BASIC-1"}
}

// RunConcurrently runs subtests that mostly wait, all at once, regardless of the number
// of processors.
func RunConcurrently[R any](t *testing.T, rows []R, name func(R) string, run func(*testing.T, R)) {
	t.Helper()
	var group sync.WaitGroup
	for _, row := range rows {
		group.Go(func() { t.Run(name(row), func(t *testing.T) { run(t, row) }) })
	}
	group.Wait()
}

// Readiness returns the HTTP status of a node's /readyz.
func Readiness(t testing.TB, internal string) int {
	t.Helper()
	status, _ := HTTPGet(t, internal+"/readyz")
	return status
}

// Metric reads one of the node's metrics; -1 if it is missing.
func (e *Env) Metric(name string) float64 {
	e.TB.Helper()
	_, text := HTTPGet(e.TB, e.Demo.InternalURL+"/metrics")
	return metricValue(e.TB, text, name)
}

func metricValue(t testing.TB, metrics, name string) float64 {
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
