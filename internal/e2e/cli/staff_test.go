package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/provider/simulator"
)

// cliGivenPassword is what a customer's app password is in these tests, where a
// test gives one. Nobody may ever show it.
const cliGivenPassword = "Hidden-Pass-77"

// cliAnswer is what the API said to an operation.
type cliAnswer struct {
	status      int
	code        string
	transaction string
	subscriber  string
	password    string // the one the service made up
}

// cliOperate asks for an operation with coax call.
func cliOperate(t testing.TB, credentials, endpoint, key, body string) cliAnswer {
	t.Helper()
	out := e2e.RequireOK(t, e2e.Run(t, "call", "POST", endpoint, "-i", "--data", body, "--idempotency-key", key, "--credentials", credentials)).Out
	head, text, _ := strings.Cut(out, "\n\n")
	var got cliAnswer
	var envelope struct {
		Code string
		Data struct {
			Transaction string `json:"transaction_id"`
			Customer    struct {
				Subscriber string `json:"subscriber_id"`
				Password   string
			}
		}
	}
	if _, err := fmt.Sscanf(head, "HTTP %d", &got.status); err != nil {
		t.Fatalf("%s: %v\n%s", key, err, out)
	}
	if err := json.Unmarshal([]byte(text), &envelope); err != nil {
		t.Fatalf("%s: %v\n%s", key, err, out)
	}
	customer := envelope.Data.Customer
	got.code, got.transaction, got.subscriber, got.password = envelope.Code, envelope.Data.Transaction, customer.Subscriber, customer.Password
	return got
}

// cliActivate activates somebody, with a password of their own unless the plan
// is a combo, and demands how that goes. While the provider counts as down it
// tries again with the same key, as it is told to.
func cliActivate(t testing.TB, credentials, mobile, plan string, status int) cliAnswer {
	t.Helper()
	password := cliGivenPassword
	if plan == "COMBO-1" {
		password = ""
	}
	body := fmt.Sprintf(`{"full_name":"Asha","mobile":%q,"plan_id":%q,"password":%q}`, mobile, plan, password)
	got := cliOperate(t, credentials, "activate", "activate-"+mobile, body)
	for deadline := time.Now().Add(e2e.Timeout); got.status == http.StatusServiceUnavailable && time.Now().Before(deadline); {
		got = cliOperate(t, credentials, "activate", "activate-"+mobile, body)
	}
	if got.status != status || got.transaction == "" || (got.password != "") != (password == "" && status != http.StatusBadGateway) {
		t.Fatalf("activate %s with %s: %+v; want %d", mobile, plan, got, status)
	}
	return got
}

// cliCaller opens an account beside a demo and returns its id and a file with
// its credentials.
func cliCaller(t testing.TB, h *e2e.Install, line demo.Info, amount string, terms ...string) (lco, credentials string) {
	t.Helper()
	lco = e2e.CheckShape(t, h.JSON(append([]string{"lco", "create", "--name", t.Name(), "--rate-limit", "100000"}, terms...)...), e2e.OperatorShape...)["lco_id"]
	h.JSON("whitelist", "add", "--lco", lco, "127.0.0.1")
	h.JSON("wallet", "topup", "--lco", lco, "--amount", amount, "--reference", "opening")
	issued := e2e.CheckShape(t, h.JSON("key", "issue", "--lco", lco), e2e.IssuedShape...)
	text := fmt.Sprintf(`{"base_url":%q,"ca_cert":%q,"api_key":%s,"api_secret":%s}`, line.BaseURL, line.CACert, issued["api_key"], issued["api_secret"])
	return lco, e2e.WriteFile(t, filepath.Join(t.TempDir(), "credentials.json"), text)
}

var (
	cliLedgerShape     = []string{"id int", "kind text", "amount amount", "balance_after amount", "description text", "transaction_id text?", "created_at moment"}
	cliCommissionShape = []string{"transaction_id text", "lco_id int", "amount amount", "rate_bps int", "created_at moment"}
	cliOperationShape  = []string{
		"transaction_id text", "lco_id int", "operation text", "status text", "channel text", "subscriber_id text", "plan_id text",
		"amount amount", "created_at moment", "completed_at moment?",
	}
	cliHistoryShape = append(slices.Clone(cliOperationShape),
		"idempotency_key text", "actor text", "customer text", "mobile text", "commission_bps int", "wallet_before amount", "expiry_previous moment?",
		"expiry_planned moment", "cycle_starts_at moment", "provider text", "provider_transaction_id text?", "reason text?", "provider_message text?",
		"addon text?", "addon_status text?", "epoch int", "lease_until moment?", "next_check_at moment?", "events any", "provider_calls any")
	cliEventShape = []string{"at moment", "from text?", "to text", "why text", "actor text?", "node text", "epoch int"}
	cliAskedShape = []string{
		"asked_at moment", "answered_at moment?", "kind text", "reference text", "component text", "outcome text", "provider_transaction_id text?",
		"detail any", "node text",
	}
)

// cliLedger is an operator's ledger as "kind amount sum description".
func cliLedger(t testing.TB, h *e2e.Install, lco string) []string {
	t.Helper()
	var lines []string
	for _, raw := range e2e.JSONArray(t, h.JSON("ledger", "--lco", lco)) {
		l := e2e.CheckShape(t, raw, cliLedgerShape...)
		lines = append(lines, e2e.JoinUnquoted(l["kind"], l["amount"], l["balance_after"], l["description"]))
	}
	return lines
}

func TestWalletAdjust_IsInLedger(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	adjust := func(amount, reason, want string) {
		t.Helper()
		got := e2e.CheckShape(t, h.JSON("wallet", "adjust", "--lco", "1", "--amount", amount, "--reason", reason), e2e.WalletShape...)
		if e2e.JoinUnquoted(got["wallet_balance"], got["held"], got["is_low"]) != want {
			t.Errorf("adjusted by %s: %v; want %s", amount, got, want)
		}
	}
	adjust("-250.5", "NEFT-17 was entered twice", "9749.50 0.00 false")
	adjust("+0.01", "  a rounding  ", "9749.51 0.00 false")
	adjust("7", strings.Repeat("ब", 500), "9756.51 0.00 false")
	// The same again is another correction: there is no reference to tell.
	adjust("7", strings.Repeat("ब", 500), "9763.51 0.00 false")
	adjust("-9763.51", "closed", "0.00 0.00 true")

	want := []string{
		"credit 10000.00 10000.00 Top-up demo opening balance", "debit 250.50 9749.50 Adjustment: NEFT-17 was entered twice",
		"credit 0.01 9749.51 Adjustment: a rounding", "credit 7.00 9756.51 Adjustment: " + strings.Repeat("ब", 500),
		"credit 7.00 9763.51 Adjustment: " + strings.Repeat("ब", 500), "debit 9763.51 0.00 Adjustment: closed",
	}
	if got := cliLedger(t, h, "1"); !slices.Equal(got, want) {
		t.Errorf("the ledger is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	acts := e2e.JSONArray(t, h.JSON("log", "--lco", "1"))
	last := e2e.CheckShape(t, acts[len(acts)-1], "id int", "at moment", "actor text", "action text", "lco_id int?", "subject text", "before any", "after any", "reason string", "origin text?")
	if last["action"] != `"wallet adjust"` || last["reason"] != `"closed"` || !strings.Contains(last["before"], `"wallet_balance":9763.51`) || !strings.Contains(last["after"], `"wallet_balance":0.00`) {
		t.Errorf("the act is kept as %v", last)
	}
	e2e.CheckMentions(t, "the wallet for people", e2e.RequireOK(t, h.Admin("wallet", "adjust", "--lco", "1", "--amount", "1.5", "--reason", "x")).Out, "wallet_balance", "1.50")
	cliAudited(t, h)
}

// Two who both saw enough money must not both take it.
func TestWalletAdjust_Race(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	const many = 7 // of which 5 find money
	ended := make(chan e2e.Result, many)
	for range many {
		go func() {
			ended <- e2e.Run(t, "admin", "--config", h.Config, "wallet", "adjust", "--lco", "1", "--amount", "-2000", "--reason", "x")
		}()
	}
	refused := 0
	for range many {
		if got := <-ended; got.Code != e2e.ExitDone {
			refused++
			e2e.CheckRefused(t, got, "holds 0.00", "2000.00")
		}
	}
	if got := e2e.CheckShape(t, h.JSON("wallet", "show", "--lco", "1"), e2e.WalletShape...); refused != 2 || got["wallet_balance"] != "0.00" {
		t.Errorf("%d were refused and %s is left; want 2, and nothing", refused, got["wallet_balance"])
	}
	cliAudited(t, h)
}

func TestStaffCommands_RefusalChangesNothing(t *testing.T) {
	t.Parallel()
	h := cliRefusingHouse(t) // operator 2 is deleted, operator 1 has 10100.00
	before := h.Dump()
	adjust := func(lco, amount, reason string) []string {
		return []string{"wallet", "adjust", "--lco", lco, "--amount", amount, "--reason", reason}
	}
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"a paisa more than there is", adjust("1", "-10100.01", "x"), []string{"10100.00", "10100.01"}},
		{"all the money in the world", adjust("1", "-10000000000000", "x"), []string{"10100.00"}},
		{"nothing", adjust("1", "0", "x"), []string{"0.00", "nothing"}},
		{"nothing below zero", adjust("1", "-0.00", "x"), []string{"0.00", "nothing"}},
		{"no reason", adjust("1", "5", ""), []string{"reason", "1 to 500"}},
		{"a reason of blanks", adjust("1", "5", " \t "), []string{"reason", "1 to 500"}},
		{"a reason of 501 characters", adjust("1", "5", strings.Repeat("ब", 501)), []string{"reason", "501", "500"}},
		{"a reason of two lines", adjust("1", "5", "a\nb"), []string{"reason", "U+000A"}},
		{"a reason that is no text", adjust("1", "5", "a\xffb"), []string{"reason"}},
		{"an unknown operator", adjust("99", "5", "x"), []string{"no operator 99"}},
		{"operator 0", adjust("0", "5", "x"), []string{"no operator 0"}},
		{"a deleted operator", adjust("2", "5", "x"), []string{"operator 2", "deleted"}},
		{"half a paisa", adjust("1", "0.005", "x"), []string{"--amount", "two decimals"}},
		{"an amount in words", adjust("1", "five", "x"), []string{"--amount", `"five"`}},
		{"only a sign", adjust("1", "-", "x"), []string{"--amount"}},
		{"two signs", adjust("1", "+-5", "x"), []string{"--amount"}},
		{"a sign as people print it", adjust("1", "−5", "x"), []string{"--amount"}},
		{"a wallet that would be too full", adjust("1", "10000000000000", "x"), []string{"more than"}},

		{"an unknown operator's commission", []string{"commission", "--lco", "99"}, []string{"no operator 99"}},
		{"the commission of operator 0", []string{"commission", "--lco", "0"}, []string{"no operator 0"}},
		{"an unknown operator's operations", []string{"operation", "list", "--lco", "99"}, []string{"no operator 99"}},
		{"the operations of operator -1", []string{"operation", "list", "--lco", "-1"}, []string{"no operator -1"}},
		{"an unknown transaction", []string{"operation", "show", "--transaction", "CX0"}, []string{"no transaction CX0"}},
		{"no transaction", []string{"operation", "show", "--transaction", ""}, []string{"no transaction"}},
		{"an unknown subscriber", []string{"subscriber", "show", "--subscriber", "100001"}, []string{"no subscriber 100001"}},
		{"no subscriber", []string{"subscriber", "show", "--subscriber", ""}, []string{"no subscriber"}},
		{"a file that is not there", []string{"subscriber", "import", "/none/customers.csv"}, []string{"/none/customers.csv"}},
	} {
		t.Run(test.name, func(t *testing.T) { e2e.CheckRefused(t, h.WithTB(t).Admin(test.args...), test.want...) })
	}
	e2e.CheckRefused(t, h.Admin(append(adjust("1", "0", "x"), "--json")...), "0.00")
	if diff := e2e.Diff(before, h.Dump()); diff != "" {
		t.Errorf("what was refused changed the store all the same:\n%s", diff)
	}
}

func TestStaffCommands_WrongUsageExits2(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	before := h.Dump()
	admin := func(args ...string) []string { return append([]string{"admin", "--config", h.Config}, args...) }
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"an adjustment of nobody", admin("wallet", "adjust", "--amount", "1", "--reason", "x"), []string{"lco"}},
		{"an adjustment by nothing", admin("wallet", "adjust", "--lco", "1", "--reason", "x"), []string{"amount"}},
		{"an adjustment without a reason", admin("wallet", "adjust", "--lco", "1", "--amount", "1"), []string{"reason"}},
		{"an adjustment and something left over", admin("wallet", "adjust", "--lco", "1", "--amount", "1", "--reason", "two", "words"), []string{"words"}},
		{"a voucher where there is none", admin("wallet", "adjust", "--lco", "1", "--amount", "1", "--reason", "x", "--voucher", "y"), []string{"--voucher"}},
		{"CSV and JSON at once", admin("ledger", "--lco", "1", "--csv", "--json"), []string{"--csv", "--json"}},
		{"a day that there is not", admin("log", "--from", "2027-02-30"), []string{"--from", "2027-03-01T09:00:00+05:30"}},
		{"a limit of none", admin("subscriber", "list", "--limit", "0"), []string{"--limit"}},
		{"commission of an operator in words", admin("commission", "--lco", "all"), []string{"all", "lco"}},
		{"commission and something left over", admin("commission", "1"), []string{"1"}},
		{"operation alone", admin("operation"), []string{"list", "show"}},
		{"an unknown status", admin("operation", "list", "--status", "done"), []string{"done", "processing", "needs_review"}},
		{"a status in capitals", admin("operation", "list", "--status", "FAILED"), []string{"FAILED", "failed"}},
		{"a list of none", admin("operation", "list", "--most", "0"), []string{"--most"}},
		{"a list and something left over", admin("operation", "list", "CX1"), []string{"CX1"}},
		{"no transaction to show", admin("operation", "show"), []string{"transaction"}},
		{"a transaction without its flag", admin("operation", "show", "CX1"), []string{"CX1"}},
		{"subscriber alone", admin("subscriber"), []string{"import", "show"}},
		{"no subscriber to show", admin("subscriber", "show"), []string{"subscriber"}},
		{"no file to import", admin("subscriber", "import"), []string{"one FILE.csv"}},
		{"two files to import", admin("subscriber", "import", "a.csv", "b.csv"), []string{"one FILE.csv"}},
		{"no configuration for an import", []string{"admin", "subscriber", "import", "-"}, []string{"--config"}},
		{"no configuration for an adjustment", []string{"admin", "wallet", "adjust", "--lco", "1", "--amount", "x", "--reason", "x"}, []string{"--config"}},
		{"an audit of nothing", []string{"audit", "--json"}, []string{"--config"}},
		{"an audit and something left over", []string{"audit", "--config", h.Config, "lco", "1"}, []string{"lco"}},
		{"an audit with a flag of admin's", []string{"audit", "--config", h.Config, "--lco", "1"}, []string{"--lco"}},
	} {
		t.Run(test.name, func(t *testing.T) { e2e.CheckUsageError(t, e2e.Run(t, test.args...), test.want...) })
	}
	if diff := e2e.Diff(before, h.Dump()); diff != "" {
		t.Errorf("wrong usage changed the store:\n%s", diff)
	}
	for command, flags := range map[string][]string{
		"admin wallet adjust": {"--lco", "--amount", "--reason", "--config", "--set", "--json"}, "admin commission": {"--lco"},
		"admin subscriber import": {"FILE.csv", "--check", "lco,subscriber_id,mobile,name,plan_id,expiry"}, "admin subscriber show": {"--subscriber"},
		"admin operation list": {"--lco", "--status", "--subscriber"}, "admin operation show": {"--transaction"},
		"audit": {"--config", "--set", "--json"}, "simulator": {"--addr", "--state"},
	} {
		e2e.CheckMentions(t, command+" --help", e2e.RequireOK(t, e2e.Run(t, append(strings.Fields(command), "--help")...)).Out, flags...)
	}
	for _, list := range [][]string{{"commission"}, {"commission", "--lco", "1"}, {"operation", "list"}, {"operation", "list", "--lco", "1", "--subscriber", "x"}} {
		if got := h.JSON(list...); got != "[]" {
			t.Errorf("%q before anything happened: %s; want []", list, got)
		}
	}
}

// cliHistory is operation show: its fields, and events and calls as short texts.
type cliHistory struct {
	fields map[string]string
	events []string // from to
	calls  []string // kind reference component outcome transaction
	raw    string   // everything that was printed, for people too
}

func cliShowOperation(t testing.TB, h *e2e.Install, id string) cliHistory {
	t.Helper()
	raw := h.JSON("operation", "show", "--transaction", id)
	got := cliHistory{fields: e2e.CheckShape(t, raw, cliHistoryShape...)}
	for _, event := range e2e.JSONArray(t, got.fields["events"]) {
		e := e2e.CheckShape(t, event, cliEventShape...)
		got.events = append(got.events, e2e.JoinUnquoted(e["from"], e["to"]))
	}
	for _, call := range e2e.JSONArray(t, got.fields["provider_calls"]) {
		c := e2e.CheckShape(t, call, cliAskedShape...)
		reference := strings.Replace(c["reference"], id, "ID", 1)
		got.calls = append(got.calls, e2e.JoinUnquoted(c["kind"], reference, c["component"], c["outcome"], c["provider_transaction_id"]))
	}
	people := e2e.RequireOK(t, h.Admin("operation", "show", "--transaction", id)).Out
	e2e.CheckMentions(t, "operation show for people", people, id, "to=processing  why=reserved")
	got.raw = raw + people
	return got
}

func TestOperationCommands_EveryState(t *testing.T) {
	t.Parallel()
	provider := e2e.Serve(t, nil, "\n", "simulator")
	folder := t.TempDir()
	demo, line := e2e.StartDemo(t, folder, "--set", "provider.url="+cliSimulatorURL(t, provider.Out),
		"--set", "provider.timeout=5m", "--set", "review.first_check=1h")
	h := e2e.InstallAt(t, folder)
	me := filepath.Join(folder, "demo.json")

	ids := map[string]cliAnswer{}
	for _, a := range []struct {
		name, mobile, plan string
		status             int
	}{
		{"success", "9876500001", "BASIC-1", 200}, {"rejected", "9000010001", "BASIC-1", 502}, {"503", "9000040001", "BASIC-1", 202},
		{"wrong reference", "9000050001", "FAMILY-1", 202}, {"dropped", "9000090001", "FAMILY-1", 202},
		{"combo", "9876500002", "COMBO-1", 200}, {"add-on rejected", "9000060001", "COMBO-1", 200},
	} {
		ids[a.name] = cliActivate(t, me, a.mobile, a.plan, a.status)
	}
	ids["renewed"] = cliOperate(t, me, "renew", "key-renew", `{"mobile":"9876500001","plan_id":"FAMILY-1"}`)
	ids["booked"] = cliOperate(t, me, "advance-renew", "key-book", `{"mobile":"9876500001","plan_id":"BASIC-1"}`)

	// One that is under way, whose provider never answers and then dies.
	answered := make(chan cliAnswer, 1)
	go func() {
		defer close(answered)
		answered <- cliActivate(t, me, "9000030001", "BASIC-1", 202)
	}()
	var open []string
	for deadline := time.Now().Add(e2e.Timeout); len(open) == 0 && time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		open = e2e.JSONArray(t, h.JSON("operation", "list", "--status", "processing"))
	}
	if len(open) != 1 {
		t.Fatalf("under way are %v; want one", open)
	}
	id := strings.Trim(e2e.CheckShape(t, open[0], cliOperationShape...)["transaction_id"], `"`)
	running := cliShowOperation(t, h, id)
	if f := running.fields; f["status"] != `"processing"` || f["completed_at"] != "null" || f["lease_until"] == "null" || f["next_check_at"] != "null" ||
		!slices.Equal(running.events, []string{"null processing"}) || len(running.calls) != 0 {
		t.Errorf("under way: %v", running)
	}
	if w := e2e.CheckShape(t, h.JSON("wallet", "show", "--lco", "1"), e2e.WalletShape...); w["held"] != "1096.00" {
		t.Errorf("held is %s; want 199 + 349 + 349 + 199", w["held"])
	}
	provider.Terminate()
	if ids["unanswered"] = <-answered; ids["unanswered"].transaction != id {
		t.Errorf("the answer is about %+v; want %s", ids["unanswered"], id)
	}
	// And one that never left: nobody is where the provider should be.
	demo.Terminate()
	logged := demo.Err.String()
	demo, line = e2e.StartDemo(t, folder, "--set", "provider.url=http://127.0.0.1:9")
	ids["unreachable"] = cliActivate(t, me, "9876500003", "BASIC-1", 502)

	shown := ""
	for _, want := range []struct {
		name, status, reason, addon string
		calls                       []string
		says                        []string
	}{
		{"success", "success", "null", "null", []string{"activate ID TV-BASIC confirmed SIM-00000001"}, []string{`"commission_bps":250`, `"wallet_before":10000.00`}},
		{"rejected", "failed", "PROVIDER_REJECTED", "null", []string{"activate ID TV-BASIC rejected null"}, []string{"The provider does not accept this order."}},
		{"503", "needs_review", "null", "null", []string{"activate ID TV-BASIC unknown null"}, []string{"503"}},
		{"wrong reference", "needs_review", "null", "null", []string{"activate ID TV-FAMILY unknown null"}, []string{"another reference"}},
		{"dropped", "needs_review", "null", "null", []string{"activate ID TV-FAMILY unknown null"}, nil},
		{"combo", "success", "null", "success", []string{"activate ID TV-FAMILY confirmed SIM-00000004", "activate ID-2 OTT-PLUS confirmed SIM-00000005"}, nil},
		{"add-on rejected", "success", "null", "failed", []string{"activate ID TV-FAMILY confirmed SIM-00000006", "activate ID-2 OTT-PLUS rejected null"}, nil},
		{"renewed", "success", "null", "null", nil, []string{`"operation":"renew"`, `"plan_id":"FAMILY-1"`}},
		{"booked", "success", "null", "null", nil, []string{`"operation":"advance_renew"`, `"plan_id":"BASIC-1"`}},
		{"unanswered", "needs_review", "null", "null", []string{"activate ID TV-BASIC unknown null"}, nil},
		{"unreachable", "failed", "PROVIDER_UNREACHABLE", "null", []string{"activate ID TV-BASIC rejected null"}, []string{"refused"}},
	} {
		got := cliShowOperation(t, h, ids[want.name].transaction)
		f := got.fields
		if e2e.JoinUnquoted(f["status"], f["reason"], f["addon_status"]) != want.status+" "+want.reason+" "+want.addon {
			t.Errorf("%s: status %s, reason %s, add-on %s; want %s, %s, %s", want.name, f["status"], f["reason"], f["addon_status"], want.status, want.reason, want.addon)
		}
		if !slices.Equal(got.events, []string{"null processing", "processing " + want.status}) || want.calls != nil && !slices.Equal(got.calls, want.calls) || len(got.calls) == 0 {
			t.Errorf("%s: events %q, calls %q; want them to end in %s, and %q", want.name, got.events, got.calls, want.status, want.calls)
		}
		settled := want.status != "needs_review"
		if (f["completed_at"] != "null") != settled || (f["next_check_at"] == "null") != settled || f["lease_until"] != "null" {
			t.Errorf("%s: completed %s, next check %s, lease %s", want.name, f["completed_at"], f["next_check_at"], f["lease_until"])
		}
		e2e.CheckMentions(t, want.name, got.raw, append(want.says, ids[want.name].transaction)...)
		shown += got.raw
	}

	t.Run("listed", func(t *testing.T) { cliListsOperations(t, h.WithTB(t), line, ids) })
	t.Run("commission", func(t *testing.T) { cliListsCommission(t, h.WithTB(t)) })
	t.Run("no password anywhere", func(t *testing.T) {
		shown += h.JSON("operation", "list") + e2e.RequireOK(t, h.Admin("operation", "list")).Out + h.JSON("ledger", "--lco", "1") + h.JSON("log")
		for _, name := range []string{"success", "503", "combo"} {
			shown += h.JSON("subscriber", "show", "--subscriber", ids[name].subscriber)
		}
		passwords := []string{cliGivenPassword, ids["combo"].password, ids["add-on rejected"].password}
		cliHidden(t, "what staff see", shown, passwords)
		demo.Terminate()
		cliHidden(t, "the log", logged+demo.Err.String(), passwords)
		cliHiddenInFiles(t, folder, passwords)
	})
	cliAudited(t, h)
}

// cliListsOperations holds the list against what was done, newest first.
func cliListsOperations(t *testing.T, h *e2e.Install, line demo.Info, ids map[string]cliAnswer) {
	list := func(args ...string) (found []string) {
		t.Helper()
		for _, raw := range e2e.JSONArray(t, h.JSON(append([]string{"operation", "list"}, args...)...)) {
			found = append(found, strings.Trim(e2e.CheckShape(t, raw, cliOperationShape...)["transaction_id"], `"`))
		}
		return found
	}
	all := list()
	if len(all) != len(ids) || !slices.IsSortedFunc(all, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("listed are %q; want all %d, newest first", all, len(ids))
	}
	limited := h.Admin("operation", "list", "--limit", "2", "--csv")
	if lines := strings.Split(limited.Out, "\r\n"); limited.Code != e2e.ExitDone || len(lines) != 4 || !strings.HasPrefix(lines[0], "transaction_id,lco_id,") ||
		!strings.Contains(lines[1], all[0]) || !strings.Contains(lines[1], "+05:30") || !strings.Contains(limited.Err, "--to ") {
		t.Errorf("--limit 2 --csv prints %+v; want a header, the newest two, and a word on the older ones", limited)
	}
	if got := list("--from", "2001-01-01", "--to", "2001-12-31"); len(got) != 0 {
		t.Errorf("in 2001 there were %q", got)
	}
	if got := list("--most", "2"); !slices.Equal(got, all[:2]) {
		t.Errorf("--most 2 lists %q; want %q", got, all[:2])
	}
	for status, names := range map[string][]string{
		"processing": nil, "failed": {"unreachable", "rejected"}, "needs_review": {"unanswered", "dropped", "wrong reference", "503"},
	} {
		var want []string
		for _, name := range names {
			want = append(want, ids[name].transaction)
		}
		if got := list("--status", status); !slices.Equal(got, want) {
			t.Errorf("--status %s lists %q; want %q", status, got, want)
		}
	}
	if got := list("--subscriber", ids["success"].subscriber, "--lco", "1"); len(got) != 3 || got[2] != ids["success"].transaction {
		t.Errorf("the subscriber's are %q; want its activation and what followed", got)
	}
	lco, _ := cliCaller(t, h, line, "1")
	if got := list("--lco", lco); got != nil {
		t.Errorf("another operator's are %q; want none", got)
	}
	e2e.CheckMentions(t, "the list for people", e2e.RequireOK(t, h.Admin("operation", "list", "--status", "failed")).Out, all[0], "failed", "199.00")
}

// cliListsCommission holds commission against the prices, at 2.5 per cent.
func cliListsCommission(t *testing.T, h *e2e.Install) {
	var amounts []string
	for _, raw := range e2e.JSONArray(t, h.JSON("commission", "--lco", "1")) {
		c := e2e.CheckShape(t, raw, cliCommissionShape...)
		if c["lco_id"] != "1" || c["rate_bps"] != "250" {
			t.Errorf("commission %v; want operator 1's, at 250", c)
		}
		amounts = append(amounts, c["amount"])
	}
	slices.Sort(amounts)
	// 199, 199, 349, 499, 499; 4.975, 8.725 and 12.475 are rounded up.
	if want := []string{"12.48", "12.48", "4.98", "4.98", "8.73"}; !slices.Equal(amounts, want) {
		t.Errorf("commission %q; want %q", amounts, want)
	}
	if all := h.JSON("commission"); all != h.JSON("commission", "--lco", "1") {
		t.Errorf("everybody's commission is %s; want operator 1's", all)
	}
	if got := h.JSON("commission", "--lco", "2"); got != "[]" {
		t.Errorf("the other operator's commission is %s; want none", got)
	}
	e2e.CheckMentions(t, "commission for people", e2e.RequireOK(t, h.Admin("commission")).Out, "12.48", "250")
}

func cliHidden(t testing.TB, what, text string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		if secret == "" || strings.Contains(text, secret) {
			t.Errorf("%s holds the password %q", what, secret)
		}
	}
}

func cliHiddenInFiles(t testing.TB, folder string, secrets []string) {
	t.Helper()
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			cliHidden(t, path, e2e.ReadFile(t, path), secrets)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A provider that repeats the password must not make us keep it.
func TestOperationShow_HidesEchoedPassword(t *testing.T) {
	t.Parallel()
	var say atomic.Value
	well, err := simulator.New(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/activate" {
			well.ServeHTTP(w, r) // or it would count as down
			return
		}
		var order struct{ Reference string }
		_ = json.NewDecoder(r.Body).Decode(&order)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, say.Load().(string), order.Reference)
	}))
	t.Cleanup(provider.Close)
	folder := t.TempDir()
	demo, _ := e2e.StartDemo(t, folder, "--set", "provider.url="+provider.URL, "--set", "review.first_check=1h")
	h := e2e.InstallAt(t, folder)
	for i, test := range []struct {
		answer string
		status int
	}{
		{`{"reference":"%s","status":"rejected","message":"the password ` + cliGivenPassword + ` is too weak"}`, 502},
		{`{"reference":"%s` + cliGivenPassword + `","status":"applied"}`, 202},
		{`{"reference":"%s","status":"` + cliGivenPassword + `"}`, 202},
		{`{"reference":"%s","` + cliGivenPassword + `":1,` + cliGivenPassword, 202},
		{`{"reference":"%s","status":"rejected","message":"no","transaction_id":"` + cliGivenPassword + `"}`, 202},
	} {
		say.Store(test.answer)
		got := cliActivate(t, filepath.Join(folder, "demo.json"), "987650000"+strconv.Itoa(i), "BASIC-1", test.status)
		cliHidden(t, "operation show", cliShowOperation(t, h, got.transaction).raw, []string{cliGivenPassword})
	}
	demo.Terminate()
	cliHidden(t, "the log", demo.Err.String(), []string{cliGivenPassword})
	cliHiddenInFiles(t, folder, []string{cliGivenPassword})
}

// The operation's own provider_message is the main component's.
func TestOperationShow_AddonRejectionReason(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	got := cliActivate(t, filepath.Join(folder, "demo.json"), "9000060001", "COMBO-1", 200)
	e2e.CheckMentions(t, "operation show", cliShowOperation(t, e2e.InstallAt(t, folder), got.transaction).raw, "The add-on cannot be had at the moment.")
}

// A refusal is one line, and plain, whatever was typed.
func TestStaffCommands_RefusalIsOneLine(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	for _, args := range [][]string{{"operation", "show", "--transaction"}, {"subscriber", "show", "--subscriber"}, {"plan", "retire", "--id"}} {
		got := h.Admin(append(args, "CX1\n\x1b[2J")...)
		e2e.CheckRefused(t, got, "CX1")
		if strings.Contains(got.Err, "\x1b") {
			t.Errorf("%q sends the terminal a command: %q", args, got.Err)
		}
	}
}

var (
	cliAuditShape  = []string{"ok bool", "counts object", "acts_head text", "head object", "skipped texts", "violations any"}
	cliCountsShape = []string{
		"operators int", "wallets int", "wallet_entries int", "ledger_lines int", "operations object", "commissions int", "operation_events int",
		"provider_calls int", "exceptions int", "subscribers int", "cycles int", "plans int", "plan_versions int", "keys int", "whitelist_entries int",
		"acts int", "logins int", "proposals int", "closed_months int", "ledger_digests int", "unsealed_rows int",
		"nonces int", "rate_minutes int", "sums object",
	}
	cliHeadShape   = []string{"at text", "actions int", "hash text", "mac string", "digests int", "day string", "digest_mac string"}
	cliAuditStates = []string{"total int", "processing int", "needs_review int", "success int", "failed int"}
	cliAuditSums   = []string{"credited amount", "charged amount", "held amount", "balance amount", "ledger amount", "commission amount"}
)

// cliAudited demands clean books and returns what was counted.
func cliAudited(t testing.TB, h *e2e.Install) (counts, states, sums map[string]string) {
	t.Helper()
	got := e2e.Run(t, "audit", "--config", h.Config, "--json")
	if got.Code != e2e.ExitDone || got.Err != "" || strings.Count(got.Out, "\n") != 1 {
		t.Fatalf("the books are to agree, in one line; %s", got)
	}
	report := e2e.CheckShape(t, got.Out, cliAuditShape...)
	if report["ok"] != "true" || report["violations"] != "[]" || report["skipped"] != "[]" || !regexp.MustCompile(`^"[0-9a-f]{64}"$`).MatchString(report["acts_head"]) {
		t.Errorf("the audit says %s", got.Out)
	}
	if head := e2e.CheckShape(t, report["head"], cliHeadShape...); head["hash"] != report["acts_head"] {
		t.Errorf("the head ends with %s; want %s", head["hash"], report["acts_head"])
	}
	counts = e2e.CheckShape(t, report["counts"], cliCountsShape...)
	return counts, e2e.CheckShape(t, counts["operations"], cliAuditStates...), e2e.CheckShape(t, counts["sums"], cliAuditSums...)
}

func TestAuditCommand_ExitCodes(t *testing.T) {
	t.Parallel()
	good, bad := e2e.NewInstall(t), e2e.NewInstall(t)
	e2e.ExecOnInstall(bad, `UPDATE wallets SET balance_paise = balance_paise - 1`)
	for _, test := range []struct {
		name string
		args []string
		code int
	}{
		{"clean books", []string{"--config", good.Config}, e2e.ExitDone},
		{"clean books in JSON", []string{"--config", good.Config, "--json"}, e2e.ExitDone},
		{"wrong books", []string{"--config", bad.Config}, e2e.ExitRefused},
		{"wrong books in JSON", []string{"--config", bad.Config, "--json"}, e2e.ExitRefused},
		{"no store", []string{"--config", good.Config, "--set", "store.url=sqlite:none.db"}, e2e.ExitRefused},
		{"no configuration", []string{"--config", "/none/coax.toml"}, e2e.ExitRefused},
		{"nothing said", nil, e2e.ExitUsage},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := e2e.Launch(t, append([]string{"audit"}, test.args...)...)
			if code := p.Wait(); code != test.code {
				t.Errorf("exit %d; want %d\n%s%s", code, test.code, p.Out, p.Err)
			}
			if !strings.HasPrefix(test.name, "wrong books") {
				return
			}
			if p.Err.String() != "coax: the books do not agree: 3 violations\n" {
				t.Errorf("stderr %q; want the number of violations in one line", p.Err)
			}
			e2e.CheckMentions(t, "the audit", p.Out.String(), "M1", "M2w", "L3", "lco 1")
			if strings.HasSuffix(test.name, "JSON") {
				report := e2e.CheckShape(t, p.Out.String(), cliAuditShape...)
				violations := e2e.JSONArray(t, report["violations"])
				for _, violation := range violations {
					e2e.CheckShape(t, violation, "invariant text", "subject text", "detail text")
				}
				if report["ok"] != "false" || len(violations) != 3 {
					t.Errorf("the report is %s", p.Out)
				}
			}
		})
	}
}

// One snapshot: whatever a node is in the middle of, the books agree.
func TestAuditCommand_BesideRunningDemo(t *testing.T) {
	t.Parallel()
	p := e2e.SharedDemo(t)
	h := p.Install(t)
	lco, me := cliCaller(t, h, p.Demo, "10000")
	const many = 8
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range many {
			// Every other one is rejected, and its money given back.
			n, _ := strconv.Atoi(lco)
			mobile, status := fmt.Sprintf("97%05d%03d", n, i), http.StatusOK
			if i%2 == 1 {
				mobile, status = fmt.Sprintf("900001%02d%02d", n%100, i), http.StatusBadGateway
			}
			if got := cliOperate(t, me, "activate", "activate-"+mobile, `{"full_name":"Asha","mobile":"`+mobile+`","plan_id":"BASIC-1"}`); got.status != status {
				t.Errorf("activation %d: %+v; want %d", i, got, status)
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		cliAudited(t, h)
	}
	if n := len(e2e.JSONArray(t, h.JSON("operation", "list", "--lco", lco, "--status", "success"))); n != many/2 {
		t.Errorf("%d succeeded; want %d", n, many/2)
	}
}
