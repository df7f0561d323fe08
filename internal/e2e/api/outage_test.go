package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// Prices count as verified for catalogue.max_age after the last good comparison,
// also across a restart. After that nothing is sold; errors of the request still come
// first.
func TestCatalogue_UnverifiedPricesStopSales(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "catalogue.max_age=30m", "catalogue.refresh=5m")
	me := w.NewFundedOperator("me", "10000")
	o := e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
	expect := func(what string, code fault.Code) {
		t.Helper()
		if got := w.Send(e2e.Call{As: me, Path: "/api/v1/plans"}); got.Code != code {
			t.Errorf("%s: /plans is %s; want %s", what, got.Code, code)
		}
	}
	w.ControlSimulator("status", `{"catalogue":"down"}`)
	w.Advance(30 * time.Minute)
	expect("at thirty minutes", fault.OK)
	w.Advance(time.Millisecond)
	expect("a moment later", fault.PlansUnavailable)
	w.CheckUnchangedExcept([]string{"catalogue_comparisons"}, "an operation meanwhile", func() {
		if got := w.Operate(me, "activate", "unverified-1", o); got.Code != fault.PlansUnavailable || got.Status != http.StatusServiceUnavailable {
			t.Errorf("an operation meanwhile: %s", got.Raw)
		}
		if got := w.Operate(me, "activate", "unverified-1", e2e.Order{"full_name": "Asha", "mobile": "98", "plan_id": "BASIC-1"}); got.Code != fault.ValidationError {
			t.Errorf("a bad field meanwhile: %s", got.Code)
		}
		if got := w.Operate(me, "activate", "unverified-1", e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "NONE-1"}); got.Code != fault.PlansUnavailable {
			t.Errorf("an unknown plan meanwhile: %s", got.Code)
		}
	})
	w.Restart() // the simulator is up again after it
	w.ControlSimulator("status", `{"catalogue":"down"}`)
	expect("over a restart", fault.PlansUnavailable)
	w.ControlSimulator("status", `{"catalogue":"up"}`)
	w.WaitUntil("prices are verified again", func() bool { return w.Send(e2e.Call{As: me, Path: "/api/v1/plans"}).Code == fault.OK })
	if got := w.Operate(me, "activate", "unverified-1", o); got.Code != fault.OK {
		t.Errorf("with the same key afterwards: %s", got.Raw)
	}
	w.CheckAudit()
}

func TestCatalogue_WithdrawnComponentHidesPlans(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.NewFundedOperator("me", "10000")
	w.ControlSimulator("components", `{"code":"TV-FAMILY","sellable":false}`)
	w.Advance(6 * time.Minute)
	plans := ""
	w.WaitUntil("the catalogue was compared", func() bool {
		plans = string(w.Send(e2e.Call{As: me, Path: "/api/v1/plans"}).Raw)
		return !strings.Contains(plans, "FAMILY-1")
	})
	if !strings.Contains(plans, "BASIC-1") || strings.Contains(plans, "COMBO-1") || strings.Contains(plans, "FAMILY-3") {
		t.Errorf("without TV-FAMILY: %s", plans)
	}
	if got := w.Operate(me, "activate", "withdrawn-1", e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "COMBO-1"}); got.Code != fault.InvalidPlan {
		t.Errorf("a plan of it: %s", got.Raw)
	}
	if got := w.Operate(me, "activate", "withdrawn-2", e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}); got.Code != fault.OK {
		t.Errorf("another plan: %s", got.Raw)
	}
}

// During an outage operations are refused before any reservation. Those with an unknown
// outcome when it began are settled when it ends.
func TestOutage_RefusedBeforeReserve(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=1s", "review.refund_after=2m")
	me := w.NewFundedOperator("me", "1000000")
	w.ControlSimulator("status", `{"mode":"down"}`)
	tries := 0
	w.WaitUntil("the outage is noticed", func() bool {
		tries++
		got := w.Operate(me, "activate", fmt.Sprintf("outage-%03d", tries), e2e.Order{"full_name": "Asha", "mobile": fmt.Sprintf("98%08d", tries), "plan_id": "BASIC-1"})
		if got.Code != fault.PendingReview && got.Code != fault.ServiceUnavailable {
			t.Fatalf("during the outage: %s", got.Raw)
		}
		return got.Code == fault.ServiceUnavailable
	})
	w.CheckUnchanged("an operation during the outage", func() {
		if got := w.Operate(me, "activate", "outage-refused", e2e.Order{"full_name": "Asha", "mobile": "9711111111", "plan_id": "BASIC-1"}); got.Code != fault.ServiceUnavailable {
			t.Errorf("during the outage: %s", got.Raw)
		}
	})
	w.ControlSimulator("status", `{"mode":"up"}`)
	w.WaitUntil("the outage is over", func() bool {
		return w.Operate(me, "activate", "outage-refused", e2e.Order{"full_name": "Asha", "mobile": "9711111111", "plan_id": "BASIC-1"}).Code == fault.OK
	})
	w.Advance(3 * time.Minute)
	for i := 1; i < tries; i++ {
		w.AwaitSettled(me, fmt.Sprintf("outage-%03d", i))
	}
	if got := w.WalletPaise(me); got != [2]int64{1_000_000_00 - 199_00, 0} {
		t.Errorf("the wallet is %v; want one charge and nothing held", got)
	}
	w.CheckAudit()
}
