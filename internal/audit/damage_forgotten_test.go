package audit_test

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/integrity"
)

// forgottenStore is a healthyStore with two subscribers that were forgotten: 200002, which was imported
// and renewed, and 100003, of whose operations one is another person's, that failed.
func forgottenStore(t testing.TB) fixture {
	t.Helper()
	healthy, s := healthyEnv(t)
	ctx := s.Context()
	s.ok(s.store.CheckMasterKeys(ctx, s.vault.CheckValues(), s.vault.PrimaryID(), s.now))
	_, _, err := s.store.UseIntegrityKeys(ctx, integrity.NewKeys(s.vault.PrimaryID(), s.vault.Derive), s.now)
	s.ok(err)
	s.advance(1000 * 24 * time.Hour)
	for _, id := range []string{"200002", "100003"} {
		if got, err := s.service.ForgetSubscriber(ctx, id, 0, "asked for it"); err != nil || got.Operations == 0 {
			t.Fatalf("forget %s: %+v, %v", id, got, err)
		}
	}
	healthy.settings.Keys = auditKeys(s.vault)
	s.ok(s.store.Close())
	return healthy
}

func TestAudit_ForgottenSubscribersAreSound(t *testing.T) {
	s := forgottenStore(t)
	report, err := s.audited(t)
	if err != nil || !report.OK {
		t.Errorf("%+v, %v; want no violation", report.Violations, err)
	}
}

var forgottenDamage = []damage{
	{
		name: "a subscriber forgotten by nobody", want: []string{"A9"}, subject: "subscriber 100002", store: forgottenStore,
		sql: `UPDATE subscribers SET mobile = 'forgotten:100002', name = '(forgotten)' WHERE id = '100002';
		      UPDATE operations SET mobile = '0000000000' WHERE subscriber_id = '100002'`,
	}, {
		name: "a forgotten subscriber that has a number again", want: []string{"A9"}, subject: "subscriber 200002", store: forgottenStore,
		sql: `UPDATE subscribers SET mobile = '9811100002' WHERE id = '200002';
		      UPDATE operations SET mobile = '9811100002' WHERE subscriber_id = '200002'`,
	}, {
		name: "an operation of a forgotten subscriber with a number", want: []string{"S5"}, subject: "operation {renew-8}", store: forgottenStore,
		sql: `UPDATE operations SET mobile = '9811100002' WHERE id = '{renew-8}'`,
	},
}
