package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

func TestBalanceAndPlans_ContractShapes(t *testing.T) {
	w := e2e.NewEnv(t)
	got := w.Expect("balance", e2e.Call{As: w.DemoCaller(), Path: "/api/v1/balance"}, fault.OK)
	if got.Status != http.StatusOK || !got.Success || got.Data["wallet_balance"] != 10000.0 || got.Data["currency"] != "INR" {
		t.Errorf("balance: %d %s", got.Status, got.Raw)
	}
	if got.ID == "" || got.Header.Get("X-Request-Id") != got.ID {
		t.Errorf("request id %q, header %q; want the same", got.ID, got.Header.Get("X-Request-Id"))
	}
	asOf, _ := got.Data["as_of"].(string)
	if at, err := time.Parse(time.RFC3339, asOf); err != nil || !at.Equal(w.Now()) || asOf[len(asOf)-6:] != "+05:30" {
		t.Errorf("as_of %q; want the moment of the request at +05:30", asOf)
	}
	plans := w.Expect("plans", e2e.Call{As: w.DemoCaller(), Path: "/api/v1/plans"}, fault.OK)
	if plans.Message != "4 plans are available." {
		t.Errorf("message %q; want the number of plans", plans.Message)
	}
}
