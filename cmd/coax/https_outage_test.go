package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// steer tells the simulator how it is doing as a whole.
func (w *world) steer(path, text string) {
	w.t.Helper()
	response, err := w.http.Post(w.simulator.url+"/control/"+path, "application/json", strings.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s: %d", path, text, response.StatusCode)
	}
}

// Prices count as verified for catalogue.max_age after the last good comparison,
// over a restart too; then nothing is sold, and what is wrong with the request
// still comes first.
func TestPricesThatCannotBeVerifiedSellNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "catalogue.max_age=30m", "catalogue.refresh=5m")
	me := w.rich("me", "10000")
	o := order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
	expect := func(what string, code fault.Code) {
		t.Helper()
		if got := w.send(call{as: me, path: "/api/v1/plans"}); got.code != code {
			t.Errorf("%s: /plans is %s; want %s", what, got.code, code)
		}
	}
	w.steer("status", `{"catalogue":"down"}`)
	w.pass(30 * time.Minute)
	expect("at thirty minutes", fault.OK)
	w.pass(time.Millisecond)
	expect("a moment later", fault.PlansUnavailable)
	w.untouchedBut([]string{"catalogue_comparisons"}, "an operation meanwhile", func() {
		if got := w.operate(me, "activate", "unverified-1", o); got.code != fault.PlansUnavailable || got.status != http.StatusServiceUnavailable {
			t.Errorf("an operation meanwhile: %s", got.raw)
		}
		if got := w.operate(me, "activate", "unverified-1", order{"full_name": "Asha", "mobile": "98", "plan_id": "BASIC-1"}); got.code != fault.ValidationError {
			t.Errorf("a bad field meanwhile: %s", got.code)
		}
		if got := w.operate(me, "activate", "unverified-1", order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "NONE-1"}); got.code != fault.PlansUnavailable {
			t.Errorf("an unknown plan meanwhile: %s", got.code)
		}
	})
	w.restart() // the simulator of the restarted world is up again
	w.steer("status", `{"catalogue":"down"}`)
	expect("over a restart", fault.PlansUnavailable)
	w.steer("status", `{"catalogue":"up"}`)
	w.until("prices are verified again", func() bool { return w.send(call{as: me, path: "/api/v1/plans"}).code == fault.OK })
	if got := w.operate(me, "activate", "unverified-1", o); got.code != fault.OK {
		t.Errorf("with the same key afterwards: %s", got.raw)
	}
	w.audited()
}

func TestAWithdrawnComponentTakesItsPlansOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.rich("me", "10000")
	w.steer("components", `{"code":"TV-FAMILY","sellable":false}`)
	w.pass(6 * time.Minute)
	plans := ""
	w.until("the catalogue was compared", func() bool {
		plans = string(w.send(call{as: me, path: "/api/v1/plans"}).raw)
		return !strings.Contains(plans, "FAMILY-1")
	})
	if !strings.Contains(plans, "BASIC-1") || strings.Contains(plans, "COMBO-1") || strings.Contains(plans, "FAMILY-3") {
		t.Errorf("without TV-FAMILY: %s", plans)
	}
	if got := w.operate(me, "activate", "withdrawn-1", order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "COMBO-1"}); got.code != fault.InvalidPlan {
		t.Errorf("a plan of it: %s", got.raw)
	}
	if got := w.operate(me, "activate", "withdrawn-2", order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}); got.code != fault.OK {
		t.Errorf("another plan: %s", got.raw)
	}
}

// An outage of the provider as a whole is refused before any reservation; what
// was in doubt when it began is found out when it ends.
func TestAnOutageIsRefusedBeforeAnyReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "provider.timeout=2s", "review.first_check=1s", "review.refund_after=2m")
	me := w.rich("me", "1000000")
	w.steer("status", `{"mode":"down"}`)
	tries := 0
	w.until("the outage is noticed", func() bool {
		tries++
		got := w.operate(me, "activate", fmt.Sprintf("outage-%03d", tries), order{"full_name": "Asha", "mobile": fmt.Sprintf("98%08d", tries), "plan_id": "BASIC-1"})
		if got.code != fault.PendingReview && got.code != fault.ServiceUnavailable {
			t.Fatalf("during the outage: %s", got.raw)
		}
		return got.code == fault.ServiceUnavailable
	})
	w.untouched("an operation during the outage", func() {
		if got := w.operate(me, "activate", "outage-refused", order{"full_name": "Asha", "mobile": "9711111111", "plan_id": "BASIC-1"}); got.code != fault.ServiceUnavailable {
			t.Errorf("during the outage: %s", got.raw)
		}
	})
	w.steer("status", `{"mode":"up"}`)
	w.until("it is over", func() bool {
		return w.operate(me, "activate", "outage-refused", order{"full_name": "Asha", "mobile": "9711111111", "plan_id": "BASIC-1"}).code == fault.OK
	})
	w.pass(3 * time.Minute)
	for i := 1; i < tries; i++ {
		w.settled(me, fmt.Sprintf("outage-%03d", i))
	}
	if got := w.money(me); got != [2]int64{1_000_000_00 - 199_00, 0} {
		t.Errorf("the wallet is %v; want one charge and nothing held", got)
	}
	w.audited()
}
