package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// A migration takes its tables for itself one by one. A read that has the second
// and waits for the first is what the server gives up; it is read again, and
// nobody notices.
func TestRead_RetriedAfterMigration(t *testing.T) {
	address := migrated(t)
	db, err := Open(t.Context(), address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	operator, err := db.CreateOperator(t.Context(), admin.StaffAction{Actor: "test", Action: "lco create", At: time.Now()}, subscription.Operator{
		Name: "one", Status: subscription.OperatorActive, API: subscription.APIEnabled, RateLimit: 60, CreatedAt: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"one statement": func() error {
			_, err := db.Snapshot(context.Background(), operation.SnapshotQuery{OperatorID: operator.ID, Kind: operation.Activate, Mobile: "9811111111", PlanID: "BASIC-1"})
			return err
		},
		"several statements": func() error {
			return db.snapshot(context.Background(), func(from sqlstore.Querier) error {
				var n int
				if err := from.QueryRow(`SELECT count(*) FROM wallets`).Scan(&n); err != nil {
					return err
				}
				return from.QueryRow(`SELECT count(*) FROM operations`).Scan(&n)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				if givenUp(t, address, read) {
					return
				}
			}
			t.Error("the server never gave up the read")
		})
	}
}

// givenUp has a read meet a migration, and says whether it was the read that had
// to stand back: the server decides by who has waited for a second.
func givenUp(t *testing.T, address string, read func() error) bool {
	t.Helper()
	migration, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer migration.Close(context.Background())
	do := func(statement string) error {
		_, err := migration.Exec(context.Background(), statement)
		return err
	}
	for _, statement := range []string{`SET deadlock_timeout = '30s'`, `BEGIN`, `LOCK TABLE operations IN ACCESS EXCLUSIVE MODE`} {
		if err := do(statement); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- read() }()
	for waits := false; !waits; {
		err := migration.QueryRow(context.Background(), `
			SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'operations'::regclass AND NOT granted)
			   AND EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'wallets'::regclass AND granted)`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
	}
	locked := do(`LOCK TABLE wallets IN ACCESS EXCLUSIVE MODE`)
	if err := do(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the read failed: %v", err)
	}
	return locked == nil
}
