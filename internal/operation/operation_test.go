package operation

import (
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
)

// The contract's table of transitions, row by row.
func TestState_Transitions(t *testing.T) {
	allowed := map[[2]State]bool{
		{Processing, Success}:     true,
		{Processing, Failed}:      true,
		{Processing, NeedsReview}: true,
		{NeedsReview, Success}:    true,
		{NeedsReview, Failed}:     true,
	}
	states := []State{Processing, Success, Failed, NeedsReview}
	for _, from := range states {
		for _, to := range states {
			if got, want := from.CanBecome(to), allowed[[2]State{from, to}]; got != want {
				t.Errorf("%s → %s: %v; want %v", from, to, got, want)
			}
		}
	}
}

func TestState_OpenHoldsMoney(t *testing.T) {
	for state, want := range map[State]bool{Processing: true, NeedsReview: true, Success: false, Failed: false} {
		if got := state.Open(); got != want {
			t.Errorf("%s open: %v; want %v", state, got, want)
		}
	}
}

// The contract's charging rules, result codes and messages for each state.
func TestOperation_ChargeCodeAndMessage(t *testing.T) {
	rows := []struct {
		state          State
		after, charged string
		code           fault.Code
		says           string
	}{
		{Processing, "801.00", "0.00", fault.RequestInProgress, "is being processed"},
		{NeedsReview, "801.00", "0.00", fault.PendingReview, "the amount is held"},
		{Success, "801.00", "199.00", fault.OK, "was renewed"},
		{Failed, "1000.00", "0.00", fault.ProviderError, "nothing was charged"},
	}
	for _, row := range rows {
		op := Operation{Kind: Renew, SubscriberID: "100001", State: row.state, Amount: money.Paise(19900), WalletBefore: money.Paise(100000)}
		if op.WalletAfter().String() != row.after || op.Charged().String() != row.charged || op.Code() != row.code || !strings.Contains(op.Message(), row.says) {
			t.Errorf("%s: after %s, charged %s, %s, %q; want %s, %s, %s, %q in it",
				row.state, op.WalletAfter(), op.Charged(), op.Code(), op.Message(), row.after, row.charged, row.code, row.says)
		}
	}
	for kind, says := range map[Kind]string{Activate: "100001 was activated", Renew: "100001 was renewed", AdvanceRenew: "100001 was booked"} {
		op := Operation{Kind: kind, SubscriberID: "100001", State: Success}
		if !strings.Contains(op.Message(), says) {
			t.Errorf("%s: %q; want %q in it", kind, op.Message(), says)
		}
	}
}

func TestOperation_AddonMissing(t *testing.T) {
	for _, row := range []struct {
		name string
		op   Operation
		want bool
	}{
		{"no add-on", Operation{State: Success}, false},
		{"main component in review", Operation{State: NeedsReview, Addon: "OTT", AddonState: AddonWaiting}, false},
		{"operation failed", Operation{State: Failed, Addon: "OTT", AddonState: AddonWaiting}, false},
		{"rejected", Operation{State: Success, Addon: "OTT", AddonState: AddonFailed}, true},
		{"outcome unknown", Operation{State: Success, Addon: "OTT", AddonState: AddonUnknown}, true},
		{"closed by a person", Operation{State: Success, Addon: "OTT", AddonState: AddonClosed}, true},
		{"delivered", Operation{State: Success, Addon: "OTT", AddonState: AddonSuccess}, false},
	} {
		if got := row.op.AddonMissing(); got != row.want {
			t.Errorf("%s: missing %t; want %t", row.name, got, row.want)
		}
	}
}
