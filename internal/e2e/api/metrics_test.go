package api

import (
	"net/http"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// A node measures what is on hold when it starts, and then at intervals.
func TestMetrics_Holds(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "review.refund_after=24h", "provider.timeout=1s")
	me := w.NewFundedOperator("me", "10000")
	_, got := w.StartReview(me, "activate", "unknowable", "9000080001", "held-money")
	before := w.Metric(`coax_provider_orders_total{outcome="unknown",what="activate"}`)
	calls := w.Metric(`coax_provider_call_seconds_count{what="activate"}`)
	if before != 1 || calls < 1 || w.Metric("coax_breaker_open") != 0 {
		t.Errorf("%v orders with an unknown outcome, %v calls; want one, and a closed breaker", before, calls)
	}
	ready := e2e.Readiness(t, w.Demo.InternalURL) == http.StatusOK // not on PostgreSQL, whose clock goes on
	if got := w.Metric("coax_ready"); got == 1 != ready {
		t.Errorf("coax_ready is %v; /readyz is 200: %v", got, ready)
	}
	held := e2e.Rupees(t, got.Text("amount"))
	w.Restart()
	w.WaitUntil("the hold is measured", func() bool { return w.Metric(`coax_holds{status="needs_review"}`) == 1 })
	if rupees := w.Metric(`coax_holds_rupees{status="needs_review"}`); rupees != float64(held.Paise())/100 {
		t.Errorf("%v rupees are held; want %s", rupees, held)
	}
	if processing := w.Metric(`coax_holds{status="processing"}`); processing != 0 {
		t.Errorf("%v operations are processing; want none", processing)
	}
}
