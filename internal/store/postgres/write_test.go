package postgres

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// undo has the server undo the next so many writes that write to a table, as it
// does for the sake of others. A sequence is not undone with them.
func undo(t *testing.T, conn *pgx.Conn, table, code string, times int) {
	t.Helper()
	exec(t, conn, `DROP SEQUENCE IF EXISTS undone CASCADE`)
	exec(t, conn, `CREATE SEQUENCE undone`)
	exec(t, conn, fmt.Sprintf(`
		CREATE OR REPLACE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('undone') <= %d THEN RAISE EXCEPTION 'undone for a test' USING ERRCODE = '%s'; END IF;
			RETURN NEW; END $$`, times, code))
	exec(t, conn, fmt.Sprintf(`CREATE OR REPLACE TRIGGER undo BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION undo()`, table))
}

func TestWrite_RetriedWithSameIDs(t *testing.T) {
	t.Parallel()
	for _, code := range []string{serializationFailure, deadlockDetected} {
		address := migrated(t)
		db, conn := open(t, address), raw(t, address)
		record := operator(t, db, 60)
		draft := activation(t, db, record.Operator.ID, "key-1")

		undo(t, conn, "operations", code, 2)
		op, err := db.Reserve(t.Context(), draft)
		if err != nil || op.ID != draft.ID || count(t, conn, `SELECT count(*) FROM operations WHERE id = $1`, draft.ID) != 1 {
			t.Errorf("%s: reserved as %s, %v; want %s", code, op.ID, err, draft.ID)
		}
		undo(t, conn, "ledger", code, 2)
		settled, did, err := db.Settle(t.Context(), operation.Settlement{
			OperationID: op.ID, Epoch: op.Epoch, To: operation.Success, At: noon.Add(time.Second), Node: "node-1", ProviderTransaction: "P-1",
			Calls: []operation.ProviderCall{{Reference: op.ID, What: "activate", Component: "TV", AskedAt: noon, AnsweredAt: noon}},
		})
		if err != nil || !did || settled.State != operation.Success {
			t.Errorf("%s: settled %v as %s, %v", code, did, settled.State, err)
		}
		undo(t, conn, "ledger", code, 2)
		wallet, credited, err := db.TopUp(t.Context(), act("wallet topup"), admin.TopUp{OperatorID: record.Operator.ID, Amount: money.Paise(1_00), Reference: "again"})
		if err != nil || !credited || wallet.Balance != money.Paise(9_802_00) {
			t.Errorf("%s: topped up to %s, %v, %v; want 9802.00", code, wallet.Balance, credited, err)
		}
		undo(t, conn, "nonces", code, 2)
		if admitted, err := db.Admit(t.Context(), asking(record, "nonce-1")); err != nil || !admitted.Counted || admitted.Used != 1 {
			t.Errorf("%s: admitted %+v, %v; want it counted once", code, admitted, err)
		}
		for query, want := range map[string]int{
			`SELECT count(*) FROM wallet_entries`: 3, `SELECT count(*) FROM ledger`: 3, `SELECT count(*) FROM operation_events`: 2,
			`SELECT count(*) FROM provider_calls`: 1, `SELECT count(*) FROM cycles`: 1, `SELECT used FROM rate_counters`: 1,
		} {
			if got := count(t, conn, query); got != want {
				t.Errorf("%s: %s is %d; want %d", code, query, got, want)
			}
		}
	}
}

func TestWrite_FailsAfterMaxTries(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db, conn := open(t, address), raw(t, address)
	record := operator(t, db, 60)
	draft := activation(t, db, record.Operator.ID, "key-1")
	undo(t, conn, "operations", deadlockDetected, 1_000)
	_, err := db.Reserve(t.Context(), draft)
	if sqlState(err) != deadlockDetected || errors.Is(err, operation.ErrCommitUnknown) || errors.Is(err, operation.ErrStale) {
		t.Errorf("reserving came to %v; want what the server said", err)
	}
	if got := count(t, conn, `SELECT nextval('undone')::int - 1`); got != maxTries {
		t.Errorf("it was tried %d times; want %d", got, maxTries)
	}
	if got := count(t, conn, `SELECT (SELECT count(*) FROM subscribers) + (SELECT count(*) FROM operations) + (SELECT count(*) FROM wallet_entries WHERE kind = 'reserve')`); got != 0 {
		t.Errorf("%d rows were left behind", got)
	}
}

// A real deadlock: two writes that take two rows in opposite order.
func TestWrite_DeadlockIsRetried(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db := open(t, address)
	first, second := operator(t, db, 60).Operator.ID, operator(t, db, 60).Operator.ID
	var group, locked sync.WaitGroup
	locked.Add(2)
	var runs [2]int
	for i, order := range [][2]int64{{first, second}, {second, first}} {
		group.Go(func() {
			err := db.do(t.Context(), func(tx *tx) error {
				runs[i]++
				for step, id := range order {
					if _, err := tx.Exec(`UPDATE wallets SET entries = entries + 1 WHERE operator_id = $1`, id); err != nil {
						return err
					}
					if step == 0 && runs[i] == 1 {
						locked.Done()
						locked.Wait()
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	group.Wait()
	// The one that starts again may be quicker than the other wakes up, and deadlock again.
	if runs[0]+runs[1] < 3 {
		t.Errorf("the writes ran %v times; want one of them again", runs)
	}
	conn := raw(t, address)
	if got := count(t, conn, `SELECT sum(entries) FROM wallets`); got != 2+4 {
		t.Errorf("the wallets were moved %d times; want 6", got)
	}
}

func TestWrite_PanicIsRolledBack(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db, err := Open(t.Context(), unhurried(address)+"&pool_max_conns=1", Options{})
	ok(t, err)
	defer db.Close()
	id := operator(t, db, 60).Operator.ID
	for range 3 {
		err := db.do(t.Context(), func(tx *tx) error {
			if _, err := tx.Exec(`UPDATE wallets SET balance_paise = 0, ledger_paise = 0 WHERE operator_id = $1`, id); err != nil {
				return err
			}
			panic("on purpose")
		})
		if err == nil || !strings.Contains(err.Error(), "on purpose") || !strings.Contains(err.Error(), "write_test.go") {
			t.Errorf("a write that panics returned %v; want the panic and its file", err)
		}
		err = db.pipelined(t.Context(), time.Second, func(p *pipe) error {
			batch := &pgx.Batch{}
			batch.Queue(`UPDATE wallets SET balance_paise = 0, ledger_paise = 0 WHERE operator_id = $1`, id)
			if err := p.send(batch); err != nil {
				return err
			}
			panic("on purpose")
		})
		if err == nil || !strings.Contains(err.Error(), "on purpose") {
			t.Errorf("a pipelined write that panics returned %v; want the panic", err)
		}
	}
	if wallet, err := db.Wallet(t.Context(), id); err != nil || wallet.Balance != money.Paise(10_000_00) {
		t.Errorf("the wallet holds %s, %v; want it untouched", wallet.Balance, err)
	}
}
