package audit_test

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

// reversedStore is a healthyStore in which operations were then reversed: a renewal, after the provider
// had refused once, and an activation; a person settled the reversals of two more activations; the
// reversal of another renewal is open.
func reversedStore(t testing.TB) fixture {
	t.Helper()
	healthy, s := healthyEnv(t)
	s.keys = healthy.keys
	s.topUp(2, "5000", "for reversals")
	s.order(2, operation.Activate, "reversed-1", "BASIC-1", "555551", "success")
	s.order(2, operation.Renew, "reversed-2", "BASIC-1", "555551", "success")
	s.reverse("reversed-2", operation.ReversalRefused)
	s.reverse("reversed-2", operation.Reversed)
	s.order(2, operation.Renew, "reversed-3", "BASIC-1", "555551", "success")
	s.order(2, operation.Activate, "reversed-4", "BASIC-1", "555554", "success")
	s.reverse("reversed-4", operation.Reversed)
	s.order(2, operation.Activate, "reversed-5", "BASIC-1", "555555", "success")
	s.reverse("reversed-5", operation.ReversalAsked)
	s.settleReversal("reversed-5", true)
	s.order(2, operation.Activate, "reversed-6", "BASIC-1", "555556", "success")
	s.reverse("reversed-6", operation.ReversalAsked)
	s.settleReversal("reversed-6", false)
	s.reverse("reversed-3", operation.ReversalAsked)
	s.ok(s.store.Close())
	return healthy
}

// reverse has staff ask for the reversal of an operation, and the provider answer.
func (s *testEnv) reverse(key string, state operation.ReversalState) {
	s.Helper()
	ctx := s.Context()
	outcome := must[admin.ActionResult](s)(s.service.SubmitReversal(ctx, s.keys[key], "wrong customer"))
	s.keys["reversal-of-"+key] = outcome.Reversal.Reference
	s.advance(time.Second)
	now := s.clock()
	if claimed := must[[]operation.Operation](s)(s.store.ClaimReversals(ctx, operation.Claim{Now: now, Until: now.Add(time.Minute), Node: "node-1", Limit: 1})); len(claimed) != 1 {
		s.Fatalf("claimed %d reversals; want 1", len(claimed))
	}
	reply := operation.Reply{Outcome: map[operation.ReversalState]operation.Outcome{
		operation.Reversed: operation.Confirmed, operation.ReversalRefused: operation.Rejected,
	}[state]}
	a := operation.ReversalAnswer{
		Reference: outcome.Reversal.Reference, OperationID: s.keys[key], State: state, At: now, Node: "node-1",
		Calls: []operation.ProviderCall{{Reference: outcome.Reversal.Reference, What: "reverse", Reply: reply, AskedAt: now, AnsweredAt: now}},
	}
	if state.Open() {
		a.NextAt = now.Add(time.Minute)
	}
	s.ok(s.store.SettleReversal(ctx, a))
	s.advance(time.Minute)
}

// settleReversal has a person settle a reversal that the provider leaves unknown.
func (s *testEnv) settleReversal(key string, undone bool) {
	s.Helper()
	s.advance(admin.DefaultReversalWait)
	must[operation.Reversal](s)(s.service.SettleReversal(s.Context(), s.keys["reversal-of-"+key], undone, "ticket 4711"))
	s.advance(time.Minute)
}

func TestAudit_ReversedOperationsAreSound(t *testing.T) {
	s := reversedStore(t)
	report, err := s.audited(t)
	if err != nil || !report.OK || report.Counts.Reversals != 6 {
		t.Errorf("%+v, %v; want no violation in six reversals", report, err)
	}
}

var reversalDamage = []damage{
	{
		name: "a reversal of more than was charged", want: []string{"V1"}, subject: "reversal {reversal-of-reversed-2}", store: reversedStore,
		sql: `UPDATE reversals SET amount_paise = amount_paise + 100 WHERE reference = '{reversal-of-reversed-2}'`,
	}, {
		name: "a commission taken back in part", want: []string{"C3"}, subject: "reversal {reversal-of-reversed-2}", store: reversedStore,
		sql: `UPDATE reversals SET commission_paise = commission_paise - 1 WHERE reference = '{reversal-of-reversed-2}'`,
	}, {
		name: "a success that was never reversed and says so", want: []string{"V1", "M1", "S5", "S6"}, subject: "operation {reversed-1}", store: reversedStore,
		sql: `UPDATE operations SET reversed_at = completed_at WHERE id = '{reversed-1}'`,
	}, {
		name: "a reversal that its operation does not know", want: []string{"V1", "M1", "S5", "S6"}, subject: "operation {reversed-2}", store: reversedStore,
		sql: `UPDATE operations SET reversed_at = NULL WHERE id = '{reversed-2}'`,
	}, {
		name: "a ledger line that is no reversal any more", want: []string{"V1", "L4"}, subject: "operation {reversed-2}", store: reversedStore,
		sql: `UPDATE ledger SET reversal_of = NULL WHERE reversal_of = '{reversed-2}'`,
	}, {
		name: "a reversal at another time than its money", want: []string{"T1"}, subject: "operation {reversed-4}", store: reversedStore,
		sql: `UPDATE wallet_entries SET created_at = created_at + 1000 WHERE operation_id = '{reversed-4}' AND kind = 'reversal'`,
	}, {
		name: "a reversal without the provider's reply", want: []string{"S9"}, subject: "reversal {reversal-of-reversed-2}", store: reversedStore,
		sql: `DELETE FROM provider_calls WHERE reference = '{reversal-of-reversed-2}'`,
	}, {
		name: "a reversal for somebody else", want: []string{"A9", "V1", "M8"}, subject: "reversal {reversal-of-reversed-2}", store: reversedStore,
		sql: `UPDATE reversals SET actor = 'web:mallory' WHERE reference = '{reversal-of-reversed-2}'`,
	}, {
		name: "a reversal that nobody asked for", want: []string{"A9"}, subject: "reversal {reversal-of-reversed-3}", store: reversedStore,
		sql: `UPDATE reversals SET requested_at = requested_at - 1000 WHERE reference = '{reversal-of-reversed-3}'`,
	}, {
		name: "a reversal that is put off for a month", want: []string{"S4"}, subject: "reversal {reversal-of-reversed-3}", store: reversedStore,
		sql: `UPDATE reversals SET next_at = next_at + 2592000000 WHERE reference = '{reversal-of-reversed-3}'`,
	}, {
		name: "a subscriber that is free while its renewal is reversed", want: []string{"V1"}, subject: "subscriber 555551", store: reversedStore,
		sql: `UPDATE subscribers SET reversing = NULL WHERE id = '555551'`,
	}, {
		name: "a settled reversal that no person settled", want: []string{"A9", "V1", "S9"}, subject: "reversal {reversal-of-reversed-5}X", store: reversedStore,
		sql: `UPDATE reversals SET reference = reference || 'X' WHERE reference = '{reversal-of-reversed-5}'`,
	}, {
		name: "a settled reversal at another time", want: []string{"A9", "T1"}, subject: "reversal {reversal-of-reversed-5}", store: reversedStore,
		sql: `UPDATE reversals SET completed_at = completed_at + 1000 WHERE reference = '{reversal-of-reversed-5}'`,
	}, {
		name: "a settled reversal whose money went back for another person", want: []string{"M8"}, subject: "reversal {reversal-of-reversed-5}", store: reversedStore,
		sql: `UPDATE wallet_entries SET actor = 'web:mallory' WHERE operation_id = '{reversed-5}' AND kind = 'reversal'`,
	}, {
		name: "the provider's opposite answer without an exception", want: []string{"S9"}, subject: "reversal {reversal-of-reversed-6}", store: reversedStore,
		sql: `UPDATE provider_calls SET outcome = 'confirmed' WHERE reference = '{reversal-of-reversed-6}'`,
	}, {
		name: "a cycle that outlived its reversal", want: []string{"S5", "S6"}, subject: "operation {reversed-2}", store: reversedStore,
		sql: `UPDATE cycles SET operation_id = '{reversed-2}' WHERE operation_id = '{reversed-1}'`,
	},
}
