package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

func TestCLIExceptionsAndAddons(t *testing.T) {
	t.Parallel()
	p := cliStart(t, "demo", "--dir", t.TempDir(), "--addr", "127.0.0.1:0", "--json", "--set", "provider.timeout=2s", "--set", "review.first_check=1h")
	h := p.house(t)
	for _, list := range []string{"exception", "addon"} {
		if got := h.json(list, "list"); strings.TrimSpace(got) != "[]" {
			t.Errorf("%s list is %s; want an empty array", list, got)
		}
	}
	w := remote(t, p)
	got, _ := w.tryOperate(w.demoCaller(), "activate", "combo-order", order{"full_name": "Asha", "mobile": "9000060001", "plan_id": "COMBO-1"})
	if got.code != fault.OK || len(got.data["warnings"].([]any)) != 1 {
		t.Fatalf("a combo whose add-on fails: %s", got.raw)
	}
	id := got.text("transaction_id")
	if listed := h.json("addon", "list"); !strings.Contains(listed, id) || !strings.Contains(listed, `"addon_status":"failed"`) {
		t.Errorf("the list is %s", listed)
	}
	h.json("addon", "close", "--transaction", id, "--reason", "not wanted")
	for _, refused := range [][]string{
		{"addon", "close", "--transaction", id, "--reason", "again"}, {"exception", "close", "--id", "4711", "--reason", "r"},
	} {
		if got := h.admin(refused...); got.code != exitRefused {
			t.Errorf("%v: exit %d; want 1", refused, got.code)
		}
	}
}

// SIGTERM while an operation is under way: it is answered, and the exit is clean.
func TestCLISigtermLetsTheOperationUnderWayFinish(t *testing.T) {
	t.Parallel()
	p := cliStart(t, "demo", "--dir", t.TempDir(), "--addr", "127.0.0.1:0", "--json")
	w := remote(t, p)
	answered := make(chan answer, 1)
	go func() {
		got, _ := w.tryOperate(w.demoCaller(), "activate", "slow-order", order{"full_name": "Asha", "mobile": "9000070001", "plan_id": "BASIC-1"})
		answered <- got
	}()
	w.until("the operation is under way", func() bool { return strings.Contains(p.house(t).json("operation", "list"), `"processing"`) })
	if status := p.Terminate(); status != exitDone {
		t.Errorf("it ended with %d", status)
	}
	if got := <-answered; got.code != fault.OK {
		t.Errorf("the operation under way: %s; want it answered", got.raw)
	}
}

// A process that sleeps through its lease and wakes up settles nothing twice.
func TestCLIANodeThatSleptThroughItsLeaseSettlesNothingTwice(t *testing.T) {
	t.Parallel()
	provider, err := startSimulator("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer provider.stop()
	p := cliStart(t, "demo", "--dir", t.TempDir(), "--addr", "127.0.0.1:0", "--json", "--set", "provider.url="+provider.url,
		"--set", "provider.timeout=2s", "--set", "review.first_check=100ms", "--set", "review.refund_after=1h")
	w := remote(t, p)
	w.simulator = provider
	w.script("9811111111", "timeout_applied")
	answered := make(chan answer, 1)
	go func() {
		got, _ := w.tryOperate(w.demoCaller(), "activate", "sleepy-order", order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"})
		answered <- got
	}()
	w.until("the provider has the order", func() bool { return len(provider.Calls("9811111111")) >= 1 })
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	asleep := time.Now()
	w.until("its lease has ended", func() bool { return time.Since(asleep) > 2*time.Second+5*time.Second })
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-answered
	var found answer
	w.until("the operation is settled", func() bool {
		w.time.Store(time.Now().UnixMilli())
		found = w.transaction(w.demoCaller(), "sleepy-order")
		return found.text("status") == "success" || found.text("status") == "failed"
	})
	if found.text("status") != "success" {
		t.Errorf("it ended as %s", found.raw)
	}
	h := p.house(t)
	if ledger := h.json("ledger", "--lco", "1"); strings.Count(ledger, `"kind":"debit"`) != 1 {
		t.Errorf("the ledger is %s; want one debit", ledger)
	}
	if wallet := h.json("wallet", "show", "--lco", "1"); !strings.Contains(wallet, `"wallet_balance":9801.00`) || !strings.Contains(wallet, `"held":0.00`) {
		t.Errorf("the wallet is %s", wallet)
	}
	if got := cliRun(t, "audit", "--config", p.line.Config); got.code != exitDone {
		t.Errorf("audit: %s %s", got.out, got.err)
	}
	if effects := fmt.Sprint(provider.Effects()); strings.Count(effects, ":1") != 1 {
		t.Errorf("the provider did %s", effects)
	}
}
