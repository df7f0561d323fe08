package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
)

// Wallet, ledger and commission are rows that are added, so that the operators of a
// service never wait for each other: what they share they only read. An operator's
// own wallet is the one row that its operations queue up for.

// holdup stops one operator's transactions when they have written everything, on
// the threshold of their COMMIT, for as long as the test holds a lock. They look for it
// again and again: a lock that is waited for ends with the lock timeout.
const holdup = `
	CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		WHILE NOT pg_try_advisory_xact_lock(4711) LOOP PERFORM pg_sleep(0.002); END LOOP;
		RETURN NULL; END $$;
	CREATE CONSTRAINT TRIGGER hold_up AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED
	   FOR EACH ROW WHEN (NEW.{column} = {id}) EXECUTE FUNCTION hold_up()`

// trader is an operator that trades through a node of its own.
type trader struct {
	*testing.T
	node        *postgres.DB
	account     growth.Operator
	subscribers []string
	record      access.Record
	deals       *atomic.Int64 // so far, by either node
}

// traders are two operators of one store, and an address to look at it by. Neither
// waits for a lock for long.
func traders(t *testing.T) (slow, quick *trader, look *pgx.Conn) {
	t.Helper()
	masterKey, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	address := pgtest.NewDatabase(t)
	filled, err := growth.FillPostgres(t.Context(), address, 20_000, filledAt, masterKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	if look, err = pgx.Connect(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { look.Close(context.Background()) })
	both := make([]*trader, 2)
	for i, timeout := range []string{"60s", "500ms"} {
		tr := &trader{T: t, deals: new(atomic.Int64), account: filled.Accounts[operator+i*(neighbour-operator)]}
		if tr.node, err = postgres.Open(t.Context(), address+"&pool_max_conns=4&lock_timeout="+timeout+"&idle_in_transaction_session_timeout=60s", postgres.Options{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tr.node.Close() })
		for n := range filled.SubscribersOf() {
			tr.subscribers = append(tr.subscribers, filled.Subscriber(operator+i*(neighbour-operator), n))
		}
		var found bool
		if tr.record, found, err = tr.node.CredentialByHash(t.Context(), access.HashKey(tr.account.Key)); err != nil || !found {
			t.Fatalf("its key: %v, %v", found, err)
		}
		both[i] = tr
	}
	return both[0], both[1], look
}

func (tr *trader) admit() error {
	nonce := fmt.Sprintf("nonce-%d-%d", tr.account.ID, tr.deals.Add(1))
	_, err := tr.node.Admit(tr.Context(), access.Admission{
		RequestID: "req_" + nonce, Nonce: nonce, Now: filledAt.Add(time.Hour),
		CredentialID: tr.record.Credential.ID, CredentialVersion: tr.record.Credential.Version,
		OperatorID: tr.account.ID, OperatorVersion: tr.record.Operator.Version, Count: true, Limit: 1000,
	})
	return err
}

func (tr *trader) reserve() (operation.Operation, error) {
	deal := int(tr.deals.Add(1))
	now := filledAt.Add(time.Hour)
	snapshot, err := tr.node.Snapshot(tr.Context(), operation.SnapshotQuery{
		OperatorID: tr.account.ID, Kind: operation.Renew, SubscriberID: tr.subscribers[deal%len(tr.subscribers)], PlanID: "BASIC-1", DuplicatesSince: now,
	})
	if err != nil {
		return operation.Operation{}, err
	}
	plan := snapshot.Offer.Plan
	return tr.node.Reserve(tr.Context(), operation.Draft{SubscriberVersion: snapshot.Subscriber.Version, Operation: operation.Operation{
		ID: fmt.Sprintf("CXHOT%d-%d", tr.account.ID, deal), OperatorID: tr.account.ID, IdempotencyKey: fmt.Sprintf("hot-%d", deal),
		Fingerprint: operation.Fingerprint{KeyID: 1, Sum: make([]byte, 32)}, Kind: operation.Renew, Channel: operation.API, Actor: "api:key 1",
		SubscriberID: snapshot.Subscriber.ID, CustomerName: "Asha", Mobile: snapshot.Subscriber.Mobile, PlanID: plan.ID, PlanVersion: plan.Version,
		PlanName: plan.Name, PlanMonths: 1, Main: plan.Main, Amount: plan.Price, ExpiryPrevious: snapshot.Subscriber.Expires,
		ExpiryPlanned: snapshot.Subscriber.Expires.Add(30 * 24 * time.Hour), CycleStartsAt: now, State: operation.Processing, Epoch: 1, Node: "node-1",
		LeaseUntil: now.Add(time.Minute), Provider: "simulator", CreatedAt: now,
	}})
}

func (tr *trader) settle(op operation.Operation, to operation.State) error {
	st := operation.Settlement{OperationID: op.ID, Epoch: op.Epoch, To: to, At: filledAt.Add(time.Hour), Node: "node-1", Why: "a test"}
	if to == operation.Failed {
		st.Reason = operation.ProviderRejected
	}
	_, settled, err := tr.node.Settle(tr.Context(), st)
	if err == nil && !settled {
		err = fmt.Errorf("%s was not settled", op.ID)
	}
	return err
}

// trade does everything that an operator's requests do.
func (tr *trader) trade() error {
	for _, end := range []operation.State{operation.Success, operation.Failed} {
		if err := tr.admit(); err != nil {
			return err
		}
		op, err := tr.reserve()
		if err != nil {
			return err
		}
		if err := tr.settle(op, end); err != nil {
			return err
		}
	}
	return nil
}

func TestLockedRow_OtherOperatorsDoNotWait(t *testing.T) {
	slow, quick, look := traders(t)
	open, err := slow.reserve()
	if err != nil {
		t.Fatal(err)
	}
	refused, err := slow.reserve()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, table, column string
		id                  int64
		write               func() error
	}{
		{"is admitted", "nonces", "credential_id", slow.record.Credential.ID, slow.admit},
		{"reserves", "wallet_entries", "operator_id", slow.account.ID, func() error { _, err := slow.reserve(); return err }},
		{"succeeds", "ledger", "operator_id", slow.account.ID, func() error { return slow.settle(open, operation.Success) }},
		{"is refunded", "wallet_entries", "operator_id", slow.account.ID, func() error { return slow.settle(refused, operation.Failed) }},
	} {
		t.Run("while another "+tt.name, func(t *testing.T) {
			exec(t, look, strings.NewReplacer("{table}", tt.table, "{column}", tt.column, "{id}", fmt.Sprint(tt.id)).Replace(holdup))
			exec(t, look, `SELECT pg_advisory_lock(4711)`)
			done := make(chan error, 1)
			go func() { done <- tt.write() }()
			untilHeldUp(t, look, done)
			if err := quick.trade(); err != nil {
				t.Errorf("another operator's requests have to wait: %v", err)
			}
			// Whoever shares the wallet does wait: otherwise nothing was held up.
			if _, err := neighbourOf(slow, quick).reserve(); tt.table != "nonces" && !gaveUpWaiting(err) {
				t.Errorf("another request of the same operator did not wait for its wallet: %v", err)
			}
			exec(t, look, `SELECT pg_advisory_unlock(4711)`)
			if err := <-done; err != nil {
				t.Errorf("what was held up failed: %v", err)
			}
			exec(t, look, `DROP TRIGGER hold_up ON `+tt.table+`; DROP FUNCTION hold_up`)
		})
	}
}

func gaveUpWaiting(err error) bool {
	var failure *pgconn.PgError
	return errors.As(err, &failure) && failure.Code == "55P03"
}

// neighbourOf is the first operator on the second one's node.
func neighbourOf(slow, quick *trader) *trader {
	return &trader{T: quick.T, node: quick.node, account: slow.account, subscribers: slow.subscribers, record: slow.record, deals: slow.deals}
}

// exec runs statements, one after the other.
func exec(t *testing.T, conn *pgx.Conn, statements string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), statements).ReadAll(); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// untilHeldUp returns when a transaction is held up.
func untilHeldUp(t *testing.T, look *pgx.Conn, done <-chan error) {
	t.Helper()
	for {
		var waiting int
		err := look.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting > 0 {
			return
		}
		select {
		case err := <-done:
			t.Fatalf("it was not held up: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}
