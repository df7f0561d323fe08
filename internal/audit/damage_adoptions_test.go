package audit_test

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// adoptedStore is a healthyStore in which two forgotten orders were then adopted: the activation of a
// combo, with its add-on, and a renewal, whose request has come again.
func adoptedStore(t testing.TB) fixture {
	t.Helper()
	healthy, s := healthyEnv(t)
	ctx := s.Context()
	_, err := s.service.StartMaintenance(ctx, "restored")
	s.ok(err)
	plans := map[string]subscription.Plan{}
	for _, plan := range must[[]subscription.Plan](s)(s.store.AllPlans(ctx)) {
		plans[plan.ID] = plan
	}
	order := func(id string, kind operation.Kind, component string, ends time.Duration) operation.ListedOrder {
		return operation.ListedOrder{
			Reference: id, ClientKey: "0123456789abcdef" + id, Kind: kind, SubscriberID: "777777", Mobile: "9777777777", Component: component, Months: 1,
			ExpiresAt: s.now.Add(ends), CarriedOutAt: s.now.Add(-time.Hour), Transaction: "P-" + id,
		}
	}
	addon := order("CX-adopted-1-2", operation.Activate, "OTT", 30*24*time.Hour)
	first := operation.Adoption{
		Main: order("CX-adopted-1", operation.Activate, "TV", 30*24*time.Hour), Addon: &addon, Source: "a test", OperatorID: 1, Provider: "test",
		Plan: plans["COMBO-1"], Term: subscription.ThirtyDays,
	}
	_, _, err = s.service.Adopt(ctx, first, "restored")
	s.ok(err)
	_, customer, err := s.store.FindSubscriber(ctx, "777777")
	s.ok(err)
	second := operation.Adoption{Main: order("CX-adopted-2", operation.Renew, "TV", 61*24*time.Hour), Source: "a test", OperatorID: 1, Provider: "test", Plan: plans["BASIC-1"], Subscriber: &customer.Subscriber}
	op, _, err := s.service.Adopt(ctx, second, "restored")
	s.ok(err)
	_, err = s.store.ClaimAdopted(ctx, operation.KeyClaim{
		OperationID: op.ID, Adopted: op.IdempotencyKey, IdempotencyKey: "came-again", Fingerprint: operation.Fingerprint{KeyID: 1, Sum: make([]byte, 32)},
	})
	s.ok(err)
	s.ok(s.service.EndMaintenance(ctx, false, ""))
	s.keys["adopted-1"], s.keys["adopted-2"] = "CX-adopted-1", "CX-adopted-2"
	healthy.now = s.now
	s.ok(s.store.Close())
	return healthy
}

func TestAudit_AdoptedOperationsAreSound(t *testing.T) {
	s := adoptedStore(t)
	report, err := s.audited(t)
	if err != nil || !report.OK {
		t.Errorf("%+v, %v; want no violation", report.Violations, err)
	}
}

var adoptionDamage = []damage{
	{
		name: "an adopted operation that was carried out at another time", want: []string{"A13"}, subject: "operation {adopted-1}", store: adoptedStore,
		sql: `UPDATE operations SET carried_out_at = carried_out_at + 1 WHERE id = '{adopted-1}'`,
	}, {
		name: "an adopted operation without its list entry", want: []string{"A13"}, subject: "operation {adopted-2}", store: adoptedStore,
		sql: `DELETE FROM provider_calls WHERE operation_id = '{adopted-2}'`,
	}, {
		name: "an adopted operation whose list entry has another expiry", want: []string{"A13"}, subject: "operation {adopted-2}", store: adoptedStore,
		sql: `UPDATE provider_calls SET detail = replace(detail, '"expires_at":"20', '"expires_at":"21') WHERE operation_id = '{adopted-2}'`,
	}, {
		name: "an adopted operation that waits for another key", want: []string{"A13"}, subject: "operation {adopted-1}", store: adoptedStore,
		sql: `UPDATE operations SET idempotency_key = 'adopted/other' WHERE id = '{adopted-1}'`,
	}, {
		name: "an adopted operation that looks like any other", want: []string{"A13", "A9", "I2", "S6"}, subject: "operation {adopted-1}", store: adoptedStore,
		sql: `UPDATE operations SET carried_out_at = NULL WHERE id = '{adopted-1}'`,
	}, {
		name: "an adoption that no staff action made", want: []string{"A13"}, subject: "operation {renew-1}", store: adoptedStore,
		sql: `INSERT INTO provider_calls (operation_id, reference, kind, component, outcome, detail, node, asked_at)
		      SELECT id, id, 'list', main, 'confirmed', '{}', '', created_at FROM operations WHERE id = '{renew-1}'`,
	},
}
