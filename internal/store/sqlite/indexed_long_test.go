//go:build long

package sqlite_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/coaxhq/coax/internal/store/storetest"
)

func TestRequestStatements_UseIndexes(t *testing.T) {
	path, statements := heard(t)
	if len(statements) < 50 {
		t.Errorf("only %d statements were heard", len(statements))
	}
	t.Run("with statistics", func(t *testing.T) {
		for _, why := range objections(t, path, statements) {
			t.Error(why)
		}
	})
	t.Run("no change of a row builds a table for the purpose", func(t *testing.T) {
		for _, why := range built(t, path, statements) {
			t.Error(why)
		}
	})
	t.Run("every statement in the source was heard", func(t *testing.T) {
		for _, text := range storetest.UnexercisedSQL(t, statements, ofStaff) {
			t.Errorf("no plan is known of it: call it in storetest/methods.go, or say that only staff causes it:\n%s", text)
		}
	})
	// What operators share is added to and never counted up, so that on a store with
	// many writers none would wait for another.
	t.Run("changes only what is somebody's own", func(t *testing.T) {
		changed := map[string]bool{}
		for _, statement := range statements {
			if found := changesRows.FindStringSubmatch(statement); found != nil {
				changed[cmp.Or(found[1], found[2])] = true
			}
		}
		// Of an operation, a subscriber, an operator, a key, a bulk renewal, an announced payment and
		// its lines of the bank, a person who uses the pages; of the provider, when its catalogue is compared; and how far nonces are
		// indexed, for which there is one writer.
		want := []string{
			"bank_columns", "bank_lines", "bank_statements", "bulk_jobs", "bulk_rows", "catalogue_comparisons", "contact_states", "key_uses", "login_challenges", "login_passkeys", "login_recovery_codes", "login_sessions", "login_tries", "logins", "nonce_index_state", "operations", "operators", "payment_announcements", "provider_components", "rate_counters", "reversals", "subscribers", "wallets",
		}
		if got := slices.Sorted(maps.Keys(changed)); !slices.Equal(got, want) {
			t.Errorf("rows are changed in %v; want %v", got, want)
		}
	})
	// No node ever gathers statistics.
	execute(t, path, `DROP TABLE sqlite_stat1`)
	t.Run("without statistics", func(t *testing.T) {
		for _, why := range objections(t, path, statements) {
			t.Error(why)
		}
	})
	// A check that never objects would look just like a tidy store.
	t.Run("without one of its indexes", func(t *testing.T) {
		for _, index := range []string{
			"operations_one_open", "operations_open_by_lease", "operations_open_by_check",
			"operations_late_checks", "operations_addon_due", "operations_of_subscriber", "request_log_of_operator",
			"operations_late_checks", "operations_addon_due", "operations_of_subscriber", "subscribers_by_expiry", "subscriber_terms_of_subscriber",
		} {
			definition := definitionOf(t, path, index)
			execute(t, path, `DROP INDEX `+index)
			if len(objections(t, path, statements)) == 0 {
				t.Errorf("no violation is found when %s is missing", index)
			}
			execute(t, path, definition)
		}
	})
}

func TestPlanCheck_FindsViolations(t *testing.T) {
	for _, tt := range []struct{ name, statement, line, want string }{
		{"a table read whole", `SELECT id FROM operations`, "SCAN operations", "reads all of operations"},
		{"under another name", `SELECT o.id FROM operations AS o`, "SCAN o", "reads all of o"},
		{"a whole index", `SELECT id FROM operations`, "SCAN operations USING COVERING INDEX operations_by_age", "reads all of operations"},
		{"a sort of many", `SELECT id FROM operations WHERE operator_id = ?1 ORDER BY amount_paise`, "USE TEMP B-TREE FOR ORDER BY", "sorts"},
		{"an index for the occasion", `SELECT 1 FROM ledger l JOIN operations o`, "SEARCH l USING AUTOMATIC COVERING INDEX (operation_id=?)", "makes an index each time"},
		{"all that is open, for a page", `SELECT id FROM operations WHERE status = 'needs_review' ORDER BY review_since, id`, "SCAN operations USING INDEX operations_open_by_check", ""},
		{"everything, for that page", `SELECT id FROM operations WHERE status = 'needs_review' ORDER BY review_since, id`, "SCAN operations USING INDEX operations_by_age", "reads all of operations"},
		{"a small table", `SELECT p.id FROM plans p`, "SCAN p", ""},
		{"an index of few", `SELECT count(*) FROM operations WHERE status = 'needs_review' AND review_since <= ?1`,
			"SCAN operations USING INDEX operations_open_by_check", ""},
		{"another index for the same", `SELECT count(*) FROM operations WHERE status = 'needs_review' AND review_since <= ?1`,
			"SCAN operations USING INDEX operations_by_age", "reads all of operations"},
		{"no table at all", `SELECT EXISTS (SELECT 1)`, "SCAN CONSTANT ROW", ""},
		{"an index", `SELECT id FROM operations WHERE id = ?1`, "SEARCH operations USING INDEX sqlite_autoindex_operations_1 (id=?)", ""},
	} {
		if got := objection(tt.statement, tt.line); got != tt.want {
			t.Errorf("%s: %q; want %q", tt.name, got, tt.want)
		}
	}
}
