package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/login"
)

// A store of the release before: its logins stay owners, and a bulk renewal of an operator
// that is suspended waits for confirmation from then on.
func TestMigration_OperatorPeople(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
	old := migratedTo(t, path, 17)
	for _, statement := range []string{
		`INSERT INTO operators (id, name, status, api, rate_limit, commission_bps, low_balance_paise, created_at)
		 VALUES (1, 'A', 'inactive', 'enabled', 60, 0, 0, 5), (2, 'B', 'active', 'enabled', 60, 0, 0, 5)`,
		`INSERT INTO logins (realm, operator_id, username, name, role, language, password_hash, password_changed_at, must_change_password, created_at)
		 VALUES ('operator', 1, 'asha', 'Asha', 'owner', 'en', '$', 5, 0, 5)`,
		`INSERT INTO login_recovery_codes (login_id, code_hash) VALUES (1, x'00')`,
		`INSERT INTO bulk_jobs (operator_id, id, actor, title, state, created_at, started_at, due_at)
		 VALUES (1, 'SUSPENDED', 'web:asha', 'x', 'running', 6, 7, 8), (2, 'RUNS', 'web:binu', 'x', 'running', 6, 7, 8)`,
	} {
		if _, err := old.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db := open(t, path, Options{})
	account, found, err := db.AccountByUsername(t.Context(), "asha")
	if err != nil || !found || account.Role != login.Owner || !account.OperatorSuspended || account.OperatorRequiresTOTP {
		t.Errorf("asha is %+v, %v, %v", account, found, err)
	}
	for _, want := range []struct {
		operator    int64
		id          string
		interrupted bulk.Interruption
	}{{1, "SUSPENDED", bulk.BySuspension}, {2, "RUNS", ""}} {
		if job, _, err := db.BulkJob(t.Context(), want.operator, want.id); err != nil || job.Interrupted != want.interrupted || job.InterruptedAt.IsZero() != (want.interrupted == "") {
			t.Errorf("%s is %+v, %v; want it interrupted by %q", want.id, job, err, want.interrupted)
		}
	}
}
