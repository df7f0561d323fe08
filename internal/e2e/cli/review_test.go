package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

func TestExceptionCommands_ListAndResolve(t *testing.T) {
	t.Parallel()
	p := e2e.Start(t, "demo", "--dir", t.TempDir(), "--addr", "127.0.0.1:0", "--json", "--set", "provider.timeout=2s", "--set", "review.first_check=1h")
	h := p.Install(t)
	for _, list := range []string{"exception", "addon"} {
		if got := h.JSON(list, "list"); strings.TrimSpace(got) != "[]" {
			t.Errorf("%s list is %s; want an empty array", list, got)
		}
	}
	w := e2e.NewRemoteEnv(t, p)
	got, _ := w.TryOperate(w.DemoCaller(), "activate", "combo-order", e2e.Order{"full_name": "Asha", "mobile": "9000060001", "plan_id": "COMBO-1"})
	if got.Code != fault.OK || len(got.Data["warnings"].([]any)) != 1 {
		t.Fatalf("a combo whose add-on fails: %s", got.Raw)
	}
	id := got.Text("transaction_id")
	if listed := h.JSON("addon", "list"); !strings.Contains(listed, id) || !strings.Contains(listed, `"addon_status":"failed"`) {
		t.Errorf("the list is %s", listed)
	}
	h.JSON("addon", "close", "--transaction", id, "--reason", "not wanted")
	for _, refused := range [][]string{
		{"addon", "close", "--transaction", id, "--reason", "again"}, {"exception", "close", "--id", "4711", "--reason", "r"},
	} {
		if got := h.Admin(refused...); got.Code != e2e.ExitRefused {
			t.Errorf("%v: exit %d; want 1", refused, got.Code)
		}
	}
}

// SIGTERM during an operation: it is answered, and the process exits with 0.
func TestSigterm_OperationFinishes(t *testing.T) {
	t.Parallel()
	p := e2e.Start(t, "demo", "--dir", t.TempDir(), "--addr", "127.0.0.1:0", "--json")
	w := e2e.NewRemoteEnv(t, p)
	answered := make(chan e2e.Answer, 1)
	go func() {
		got, _ := w.TryOperate(w.DemoCaller(), "activate", "slow-order", e2e.Order{"full_name": "Asha", "mobile": "9000070001", "plan_id": "BASIC-1"})
		answered <- got
	}()
	w.WaitUntil("the operation is under way", func() bool { return strings.Contains(p.Install(t).JSON("operation", "list"), `"processing"`) })
	if status := p.Terminate(); status != e2e.ExitDone {
		t.Errorf("it ended with %d", status)
	}
	if got := <-answered; got.Code != fault.OK {
		t.Errorf("the operation under way: %s; want it answered", got.Raw)
	}
}

// A process that is stopped until its lease has expired settles nothing twice.
func TestStoppedNode_SettlesNothingTwice(t *testing.T) {
	t.Parallel()
	provider, err := demo.StartSimulator("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Stop()
	p := e2e.Start(t, "demo", "--dir", t.TempDir(), "--addr", "127.0.0.1:0", "--json", "--set", "provider.url="+provider.URL,
		"--set", "provider.timeout=2s", "--set", "review.first_check=100ms", "--set", "review.refund_after=1h")
	w := e2e.NewRemoteEnv(t, p)
	w.Simulator = provider
	w.ScriptProvider("9811111111", "timeout_applied")
	answered := make(chan e2e.Answer, 1)
	go func() {
		got, _ := w.TryOperate(w.DemoCaller(), "activate", "sleepy-order", e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"})
		answered <- got
	}()
	w.WaitUntil("the provider has the order", func() bool { return len(provider.Calls("9811111111")) >= 1 })
	if err := p.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stoppedAt := time.Now()
	w.WaitUntil("its lease has ended", func() bool { return time.Since(stoppedAt) > 2*time.Second+5*time.Second })
	if err := p.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-answered
	var found e2e.Answer
	w.WaitUntil("the operation is settled", func() bool {
		w.Time.Store(time.Now().UnixMilli())
		found = w.LookUp(w.DemoCaller(), "sleepy-order")
		return found.Text("status") == "success" || found.Text("status") == "failed"
	})
	if found.Text("status") != "success" {
		t.Errorf("it ended as %s", found.Raw)
	}
	h := p.Install(t)
	if ledger := h.JSON("ledger", "--lco", "1"); strings.Count(ledger, `"kind":"debit"`) != 1 {
		t.Errorf("the ledger is %s; want one debit", ledger)
	}
	if wallet := h.JSON("wallet", "show", "--lco", "1"); !strings.Contains(wallet, `"wallet_balance":9801.00`) || !strings.Contains(wallet, `"held":0.00`) {
		t.Errorf("the wallet is %s", wallet)
	}
	if got := e2e.Run(t, "audit", "--config", p.Demo.Config); got.Code != e2e.ExitDone {
		t.Errorf("audit: %s %s", got.Out, got.Err)
	}
	if effects := fmt.Sprint(provider.Effects()); strings.Count(effects, ":1") != 1 {
		t.Errorf("the provider did %s", effects)
	}
}

func TestReversalSettle_OnCommandLine(t *testing.T) {
	t.Parallel()
	provider, err := demo.StartSimulator("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Stop()
	p := e2e.Start(t, "demo", "--dir", t.TempDir(), "--addr", "127.0.0.1:0", "--json",
		"--set", "provider.url="+provider.URL, "--set", "provider.timeout=1s", "--set", "panel.staff_totp=false", "--set", "review.refund_after=2s")
	h := p.Install(t)
	if got := h.JSON("reversal", "list"); strings.TrimSpace(got) != "[]" {
		t.Errorf("the list is %s; want an empty array", got)
	}
	w := e2e.NewRemoteEnv(t, p)
	w.Simulator = provider
	activated, _ := w.TryOperate(w.DemoCaller(), "activate", "activation", e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"})
	renewed, _ := w.TryOperate(w.DemoCaller(), "renew", "by-mistake", e2e.Order{"subscriber_id": activated.Text("customer.subscriber_id"), "plan_id": "FAMILY-1"})
	transaction := renewed.Text("transaction_id")
	w.ControlSimulator("status", `{"mode":"down"}`)
	staff := w.SignIn(t, p.Demo.Admin)
	page := "/console/review/operations/" + transaction
	staff.Post(page+"/reverse", url.Values{"reverse_reason": {"wrong customer"}, "step": {"confirm"}}).RedirectsTo(t, page)
	w.WaitUntil("the reversal waits for a person", func() bool { return strings.Contains(h.JSON("reversal", "list"), `"needs_person":true`) })
	var open []struct {
		Reference     string      `json:"reference"`
		TransactionID string      `json:"transaction_id"`
		Amount        json.Number `json:"amount"`
	}
	if err := json.Unmarshal([]byte(h.JSON("reversal", "list")), &open); err != nil || len(open) != 1 || open[0].TransactionID != transaction || open[0].Amount != "349.00" {
		t.Fatalf("the list is %+v, %v", open, err)
	}
	settle := []string{"reversal", "settle", "--reference", open[0].Reference, "--reason", "ticket 4711"}
	for _, verdicts := range [][]string{nil, {"--undone", "--not-undone"}} {
		if got := h.Admin(slices.Concat(settle, verdicts)...); got.Code != e2e.ExitUsage {
			t.Errorf("settle %v: exit %d; want %d", verdicts, got.Code, e2e.ExitUsage)
		}
	}
	if got := h.JSON(append(slices.Clone(settle), "--undone")...); !strings.Contains(got, `"status":"reversed"`) {
		t.Errorf("settled: %s", got)
	}
	if got := h.Admin(append(slices.Clone(settle), "--not-undone")...); got.Code != e2e.ExitRefused || !strings.Contains(got.Err, "has an outcome already") {
		t.Errorf("settle it again: exit %d, %s", got.Code, got.Err)
	}
	if got := h.JSON("reversal", "list"); strings.TrimSpace(got) != "[]" {
		t.Errorf("the list is %s; want it empty", got)
	}
	if got := h.JSON("reversal", "list", "--all"); !strings.Contains(got, open[0].Reference) {
		t.Errorf("the whole list is %s; want %s in it", got, open[0].Reference)
	}
	if got := h.JSON("wallet", "show", "--lco", "1"); !strings.Contains(got, `"wallet_balance":9801.00`) {
		t.Errorf("the wallet is %s; want the charge of the renewal back", got)
	}
	if got := h.JSON("operation", "show", "--transaction", transaction); !strings.Contains(got, `"settled_by":"cli:`) || !strings.Contains(got, `"evidence":"ticket 4711"`) {
		t.Errorf("the operation is %s; want who settled its reversal", got)
	}
	if got := h.JSON("commission"); !strings.Contains(got, `"reversal":"`+open[0].Reference+`"`) || !strings.Contains(got, `"amount":-8.73`) {
		t.Errorf("the commission is %s; want what the reversal took back in it", got)
	}
	if got := h.JSON("log"); !strings.Contains(got, `"reversal settle"`) {
		t.Errorf("the log is %s; want the settlement in it", got)
	}
}
