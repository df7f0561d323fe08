package audit_test

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/retention"
)

// agedStore is a healthyStore from which the events (closing 1) and then the provider calls (closing 2)
// of what was ordered before renew-5 were removed.
func agedStore(t testing.TB) fixture {
	t.Helper()
	aged, s := healthyEnv(t)
	ctx := s.Context()
	s.ok(s.store.CheckMasterKeys(ctx, s.vault.CheckValues(), s.vault.PrimaryID(), s.now))
	_, _, err := s.store.UseIntegrityKeys(ctx, integrity.NewKeys(s.vault.PrimaryID(), s.vault.Derive), s.now)
	s.ok(err)
	op, _, err := s.store.OperationByID(ctx, 1, s.keys["renew-5"])
	s.ok(err)
	for _, what := range []retention.What{retention.OperationEvents, retention.ProviderCalls} {
		removed, err := s.store.RemoveOperationRows(ctx, what, op.CreatedAt, op.CreatedAt.Add(90*24*time.Hour), 1000)
		if err != nil || removed.Rows < 10 || removed.More {
			t.Fatalf("%s: removed %+v, %v", what, removed, err)
		}
	}
	s.ok(s.store.Close())
	aged.settings.Keys = auditKeys(s.vault)
	return aged
}

func TestAudit_RemovedRowsAreAccountedFor(t *testing.T) {
	s := agedStore(t)
	report, err := s.audited(t)
	if err != nil || !report.OK || report.Counts.Closings != 2 || report.Counts.Removed < 20 {
		t.Errorf("%+v, %+v, %v; want two closings and no violation", report.Violations, report.Counts, err)
	}
	s.settings.Keys = nil
	if report, err := s.audited(t); err != nil || !report.OK {
		t.Errorf("without the master key: %+v, %v", report.Violations, err)
	}
}

func TestAudit_RowsAreRemovedInBatches(t *testing.T) {
	aged, s := healthyEnv(t)
	ctx := s.Context()
	s.ok(s.store.CheckMasterKeys(ctx, s.vault.CheckValues(), s.vault.PrimaryID(), s.now))
	_, _, err := s.store.UseIntegrityKeys(ctx, integrity.NewKeys(s.vault.PrimaryID(), s.vault.Derive), s.now)
	s.ok(err)
	before := s.now
	total := 0
	for more := true; more; {
		more = false
		for _, what := range []retention.What{retention.ProviderCalls, retention.OperationEvents} {
			removed, err := s.store.RemoveOperationRows(ctx, what, before, before.Add(90*24*time.Hour), 3)
			s.ok(err)
			total += removed.Rows
			more = more || removed.More
			aged.settings.Keys = auditKeys(s.vault)
			if report, err := aged.audited(t); err != nil || !report.OK {
				t.Fatalf("after %d rows: %+v, %v", total, report.Violations, err)
			}
		}
	}
	for _, key := range []string{"open-1", "open-4", "activate-8", "activate-9", "activate-5", "activate-10", "renew-3"} {
		history, err := s.store.OperationHistory(ctx, s.keys[key])
		if err != nil || len(history.Events) == 0 || len(history.Calls) == 0 && history.State != operation.Processing {
			t.Errorf("%s has %d events and %d calls; want all kept", key, len(history.Events), len(history.Calls))
		}
	}
	s.ok(s.store.Close())
}

const (
	closedEvents = "closing 1 of operation_events"
	closedCalls  = "closing 2 of provider_calls"
)

var removalDamage = []damage{
	{
		name: "events deleted of an operation that keeps them", want: []string{"R2"}, subject: closedEvents, store: agedStore,
		sql: `DELETE FROM operation_events WHERE operation_id = '{renew-3}'`,
	}, {
		name: "provider calls deleted of an operation that keeps them", want: []string{"R2"}, subject: closedCalls, store: agedStore,
		sql: `DELETE FROM provider_calls WHERE operation_id = '{renew-3}'`,
	}, {
		name: "events deleted of an operation that is not due", want: []string{"S1"}, subject: "operation {renew-6}", store: agedStore,
		sql: `DELETE FROM operation_events WHERE operation_id = '{renew-6}'`,
	}, {
		name: "provider calls deleted of an operation that is not due", want: []string{"S9"}, subject: "operation {renew-6}", store: agedStore,
		sql: `DELETE FROM provider_calls WHERE operation_id = '{renew-6}'`,
	}, {
		name: "some of the removed events put back", want: []string{"R2", "S1", "T1"}, subject: closedEvents, store: agedStore,
		sql: `INSERT INTO operation_events (operation_id, seq, from_status, to_status, epoch, node, actor, reason, at)
		      SELECT id, 1, NULL, 'processing', 1, 'n', actor, '', created_at FROM operations WHERE id = '{renew-1}'`,
	}, {
		name: "a closing deleted", want: []string{"R1", "S1"}, subject: closedCalls, store: agedStore,
		sql: `DELETE FROM retention_closings WHERE number = 1`,
	}, {
		name: "the last closing deleted", want: []string{"S9"}, subject: "operation {renew-1}", store: agedStore,
		sql: `DELETE FROM retention_closings WHERE number = 2`,
	}, {
		name: "a closing that covers what is younger", want: []string{"R2", "R1"}, subject: "operation {renew-6}", store: agedStore,
		sql: `UPDATE retention_closings SET last_id = '{renew-6}' WHERE number = 1;
		      DELETE FROM operation_events WHERE operation_id = '{renew-6}'`,
	}, {
		name: "a closing with the hash of other operations", want: []string{"R2", "R1"}, subject: closedCalls, store: agedStore,
		sql: `UPDATE retention_closings SET ids_hash = x'00' WHERE number = 2`,
	}, {
		name: "a closing with another amount", want: []string{"R2", "R1"}, subject: closedCalls, store: agedStore,
		sql: `UPDATE retention_closings SET charged_paise = charged_paise + 100 WHERE number = 2`,
	}, {
		name: "rows removed that were too young", want: []string{"R1"}, subject: closedEvents, store: agedStore,
		sql: `UPDATE retention_closings SET made_at = made_at - 1 WHERE number = 1`,
	},
}
