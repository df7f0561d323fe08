package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

func TestBalanceAndPlansAnswerInTheContractsShapes(t *testing.T) {
	w := newWorld(t)
	got := w.expect("balance", call{as: w.demoCaller(), path: "/api/v1/balance"}, fault.OK)
	if got.status != http.StatusOK || !got.success || got.data["wallet_balance"] != 10000.0 || got.data["currency"] != "INR" {
		t.Errorf("balance: %d %s", got.status, got.raw)
	}
	if got.id == "" || got.header.Get("X-Request-Id") != got.id {
		t.Errorf("request id %q, header %q; want the same", got.id, got.header.Get("X-Request-Id"))
	}
	asOf, _ := got.data["as_of"].(string)
	if at, err := time.Parse(time.RFC3339, asOf); err != nil || !at.Equal(w.now()) || asOf[len(asOf)-6:] != "+05:30" {
		t.Errorf("as_of %q; want the moment of the request at +05:30", asOf)
	}
	plans := w.expect("plans", call{as: w.demoCaller(), path: "/api/v1/plans"}, fault.OK)
	if plans.message != "4 plans are available." {
		t.Errorf("message %q; want the number of plans", plans.message)
	}
}
