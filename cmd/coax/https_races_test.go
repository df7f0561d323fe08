package main

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

// race sends many calls at once and counts the codes.
func (w *world) race(n int, ask func(i int) answer) (map[fault.Code]int, []answer) {
	w.t.Helper()
	answers := make([]answer, n)
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
		codes[a.code]++
	}
	return codes, answers
}

func TestOneKeyFromFiftyClientsIsOneCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.rich("me", "10000")
	w.script("9811111111", "slow") // so that some come while it runs
	o := order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
	codes, answers := w.race(50, func(int) answer { return w.operate(me, "activate", "one-key-for-all", o) })
	if codes[fault.OK]+codes[fault.RequestInProgress] != 50 || codes[fault.OK] == 0 || codes[fault.RequestInProgress] == 0 {
		t.Errorf("answered %v; want the result or REQUEST_IN_PROGRESS", codes)
	}
	first, id := 0, ""
	for _, a := range answers {
		if a.code != fault.OK {
			continue
		}
		if a.header.Get("Idempotent-Replayed") == "" {
			first++
		}
		if id == "" {
			id = a.text("transaction_id")
		}
		if a.text("transaction_id") != id {
			t.Errorf("two transactions: %s and %s", id, a.text("transaction_id"))
		}
	}
	if first != 1 {
		t.Errorf("%d first answers; want 1", first)
	}
	if got := w.money(me); got != [2]int64{9801_00, 0} {
		t.Errorf("the wallet is %v; want one charge", got)
	}
	if calls := w.simulator.Calls("9811111111"); len(calls) != 1 {
		t.Errorf("the provider was asked %d times", len(calls))
	}
	w.audited()
}

func TestOneCustomerFromFiftyClientsIsServedOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.rich("me", "100000")
	subscriber := w.activated(me, "9811111111", "BASIC-1")
	plans := []string{"BASIC-1", "FAMILY-1", "FAMILY-3", "COMBO-1"}
	codes, answers := w.race(50, func(i int) answer {
		return w.operate(me, "renew", fmt.Sprintf("customer-key-%02d", i), order{"subscriber_id": subscriber, "plan_id": plans[i%len(plans)]})
	})
	// The world's clock stands still, so a plan is renewed once at most.
	if codes[fault.OK]+codes[fault.OperationInProgress]+codes[fault.DuplicateRequest] != 50 || codes[fault.OK] == 0 || codes[fault.OK] > len(plans) {
		t.Errorf("answered %v; want one at a time, and the rest told so", codes)
	}
	if codes[fault.OperationInProgress] == 0 {
		t.Errorf("answered %v; nobody met an operation in progress", codes)
	}
	// One effect for the activation, one for each renewal, and one more for each
	// combo's add-on.
	effects := 1 + codes[fault.OK]
	for _, a := range answers {
		if a.code == fault.OK && a.text("plan.id") == "COMBO-1" {
			effects++
		}
	}
	if got := len(w.simulator.Effects()); got != effects {
		t.Errorf("the provider did %d things; want %d", got, effects)
	}
	w.audited()
}

func TestAWalletForSevenServesSevenOfThirty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.rich("me", "1393") // 7 × 199
	codes, _ := w.race(30, func(i int) answer {
		return w.operate(me, "activate", fmt.Sprintf("wallet-key-%02d", i), order{
			"full_name": "Asha", "mobile": fmt.Sprintf("98000000%02d", i), "plan_id": "BASIC-1",
		})
	})
	if codes[fault.OK] != 7 || codes[fault.InsufficientBalance] != 23 {
		t.Errorf("answered %v; want 7 served and 23 told of the balance", codes)
	}
	if got := w.money(me); got != [2]int64{0, 0} {
		t.Errorf("the wallet is %v; want it empty", got)
	}
	w.audited()
}

func TestOneMobileActivatedByTwoOperatorsIsWonByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.rich("one", "10000"), w.rich("two", "10000")
	for round := range 10 {
		mobile := fmt.Sprintf("98000000%02d", round)
		codes, _ := w.race(2, func(i int) answer {
			return w.operate([]caller{one, two}[i], "activate", fmt.Sprintf("mobile-key-%02d", round), order{"full_name": "Asha", "mobile": mobile, "plan_id": "BASIC-1"})
		})
		if codes[fault.OK] != 1 || codes[fault.OperationInProgress]+codes[fault.SubscriberExists] != 1 {
			t.Errorf("round %d: answered %v; want one winner", round, codes)
		}
	}
	first, second := w.money(one), w.money(two)
	if first[0]+second[0] != 20_000_00-10*199_00 || first[1]+second[1] != 0 {
		t.Errorf("the wallets are %v and %v; want ten charges in all", first, second)
	}
	w.audited()
}

// A client that hangs up changes nothing: what was reserved is carried through.
func TestAClientThatHangsUpChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.rich("me", "10000")
	w.script("9811111111", "slow")
	o := order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
	request := w.request(call{
		as: me, method: "POST", path: "/api/v1/activate", body: o.json(), header: map[string][]string{"Idempotency-Key": {"hang-up-1"}},
	})
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if response, err := w.http.Do(request.WithContext(ctx)); err == nil {
			response.Body.Close()
			t.Error("the answer came before the client hung up")
		}
	}()
	w.until("the provider has the order", func() bool { return len(w.simulator.Calls("9811111111")) == 1 })
	hangUp()
	<-done
	var found answer
	w.until("the operation is settled", func() bool {
		found = w.transaction(me, "hang-up-1")
		return found.text("status") != "processing"
	})
	if found.text("result_code") != "OK" {
		t.Errorf("it ended as %s", found.raw)
	}
	w.audited()
}
