package races

import (
	"context"
	"fmt"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

func TestRace_OneKeyIsOneCharge(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.NewFundedOperator("me", "10000")
	w.ScriptProvider("9811111111", "slow") // so that some requests arrive while it runs
	o := e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
	codes, answers := w.Race(50, func(int) e2e.Answer { return w.Operate(me, "activate", "one-key-for-all", o) })
	if codes[fault.OK]+codes[fault.RequestInProgress] != 50 || codes[fault.OK] == 0 || codes[fault.RequestInProgress] == 0 {
		t.Errorf("answered %v; want the result or REQUEST_IN_PROGRESS", codes)
	}
	first, id := 0, ""
	for _, a := range answers {
		if a.Code != fault.OK {
			continue
		}
		if a.Header.Get("Idempotent-Replayed") == "" {
			first++
		}
		if id == "" {
			id = a.Text("transaction_id")
		}
		if a.Text("transaction_id") != id {
			t.Errorf("two transactions: %s and %s", id, a.Text("transaction_id"))
		}
	}
	if first != 1 {
		t.Errorf("%d first answers; want 1", first)
	}
	if got := w.WalletPaise(me); got != [2]int64{9801_00, 0} {
		t.Errorf("the wallet is %v; want one charge", got)
	}
	if calls := w.Simulator.Calls("9811111111"); len(calls) != 1 {
		t.Errorf("the provider was called %d times", len(calls))
	}
	w.CheckAudit()
}

func TestRace_OneCustomerOneOperation(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.NewFundedOperator("me", "100000")
	subscriber := w.Activate(me, "9811111111", "BASIC-1")
	plans := []string{"BASIC-1", "FAMILY-1", "FAMILY-3", "COMBO-1"}
	codes, answers := w.Race(50, func(i int) e2e.Answer {
		return w.Operate(me, "renew", fmt.Sprintf("customer-key-%02d", i), e2e.Order{"subscriber_id": subscriber, "plan_id": plans[i%len(plans)]})
	})
	// The clock does not advance, so a plan is renewed at most once.
	if codes[fault.OK]+codes[fault.OperationInProgress]+codes[fault.DuplicateRequest] != 50 || codes[fault.OK] == 0 || codes[fault.OK] > len(plans) {
		t.Errorf("answered %v; want one at a time and the rest refused", codes)
	}
	if codes[fault.OperationInProgress] == 0 {
		t.Errorf("answered %v; want some OPERATION_IN_PROGRESS", codes)
	}
	// One effect for the activation, one for each renewal, and one more for each
	// combo's add-on.
	effects := 1 + codes[fault.OK]
	for _, a := range answers {
		if a.Code == fault.OK && a.Text("plan.id") == "COMBO-1" {
			effects++
		}
	}
	if got := len(w.Simulator.Effects()); got != effects {
		t.Errorf("the provider carried out %d orders; want %d", got, effects)
	}
	w.CheckAudit()
}

func TestRace_WalletIsNotOverdrawn(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.NewFundedOperator("me", "1393") // 7 × 199
	codes, _ := w.Race(30, func(i int) e2e.Answer {
		return w.Operate(me, "activate", fmt.Sprintf("wallet-key-%02d", i), e2e.Order{
			"full_name": "Asha", "mobile": fmt.Sprintf("98000000%02d", i), "plan_id": "BASIC-1",
		})
	})
	if codes[fault.OK] != 7 || codes[fault.InsufficientBalance] != 23 {
		t.Errorf("answered %v; want 7 successes and 23 INSUFFICIENT_BALANCE", codes)
	}
	if got := w.WalletPaise(me); got != [2]int64{0, 0} {
		t.Errorf("the wallet is %v; want it empty", got)
	}
	w.CheckAudit()
}

func TestRace_OneMobileOneOperator(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	one, two := w.NewFundedOperator("one", "10000"), w.NewFundedOperator("two", "10000")
	for round := range 10 {
		mobile := fmt.Sprintf("98000000%02d", round)
		codes, _ := w.Race(2, func(i int) e2e.Answer {
			return w.Operate([]e2e.Caller{one, two}[i], "activate", fmt.Sprintf("mobile-key-%02d", round), e2e.Order{"full_name": "Asha", "mobile": mobile, "plan_id": "BASIC-1"})
		})
		if codes[fault.OK] != 1 || codes[fault.OperationInProgress]+codes[fault.SubscriberExists] != 1 {
			t.Errorf("round %d: answered %v; want one winner", round, codes)
		}
	}
	first, second := w.WalletPaise(one), w.WalletPaise(two)
	if first[0]+second[0] != 20_000_00-10*199_00 || first[1]+second[1] != 0 {
		t.Errorf("the wallets are %v and %v; want ten charges in all", first, second)
	}
	w.CheckAudit()
}

// A client that disconnects changes nothing: a reserved operation is completed.
func TestDisconnect_OperationStillCompletes(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.NewFundedOperator("me", "10000")
	w.ScriptProvider("9811111111", "slow")
	o := e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
	request := w.Request(e2e.Call{
		As: me, Method: "POST", Path: "/api/v1/activate", Body: o.JSON(), Header: map[string][]string{"Idempotency-Key": {"disconnect-1"}},
	})
	ctx, disconnect := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if response, err := w.HTTP.Do(request.WithContext(ctx)); err == nil {
			response.Body.Close()
			t.Error("the answer came before the client disconnected")
		}
	}()
	w.WaitUntil("the provider has the order", func() bool { return len(w.Simulator.Calls("9811111111")) == 1 })
	disconnect()
	<-done
	var found e2e.Answer
	w.WaitUntil("the operation is settled", func() bool {
		found = w.LookUp(me, "disconnect-1")
		return found.Text("status") != "processing"
	})
	if found.Text("result_code") != "OK" {
		t.Errorf("it ended as %s", found.Raw)
	}
	w.CheckAudit()
}
