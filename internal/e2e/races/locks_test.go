package races

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// lockEnv is a service on PostgreSQL, and another session of the same database.
type lockEnv struct {
	*e2e.Env
	other, watch *pgx.Conn
}

func newLockEnv(t *testing.T, parameters string) *lockEnv {
	t.Helper()
	server := pgtest.Start(t)
	server.Exec(t, "postgres", "CREATE DATABASE coax")
	w := &lockEnv{}
	for _, conn := range []**pgx.Conn{&w.other, &w.watch} {
		var err error
		if *conn, err = pgx.Connect(t.Context(), server.URL("coax")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*conn).Close(context.Background()) })
	}
	w.Env = e2e.NewEnv(t, "store.url="+server.URL("coax")+parameters, "provider.timeout=20s")
	return w
}

func (w *lockEnv) exec(statement string, args ...any) {
	w.TB.Helper()
	if _, err := w.other.Exec(context.Background(), statement, args...); err != nil {
		w.TB.Fatalf("%s: %v", statement, err)
	}
}

// waitsForLock reports whether the service is waiting for a lock.
func (w *lockEnv) waitsForLock() (waits bool) {
	w.TB.Helper()
	err := w.watch.QueryRow(context.Background(), `
		SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits)
	if err != nil {
		w.TB.Fatal(err)
	}
	return waits
}

// The next line of the operator's ledger is locked when its order is to be settled,
// for several times lock_timeout. The provider has confirmed, so the order succeeds.
func TestSettle_RetriesAfterLockTimeout(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	const lockTimeout = 200 * time.Millisecond
	w := newLockEnv(t, "&lock_timeout=200ms")
	me := w.NewFundedOperator("me", "1000")
	w.exec(`BEGIN`)
	w.exec(`INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, created_at)
		SELECT operator_id, ledger_lines + 1, 'credit', 1, 1, 'another session', 0 FROM wallets WHERE operator_id = $1`, me.OperatorID)
	answered := make(chan e2e.Answer, 1)
	go func() { answered <- w.Operate(me, "activate", "key-of-locked", e2e.Activation("9800000001")) }()
	var since time.Time
	w.WaitUntil("the settlement has waited for long enough to time out several times", func() bool {
		if since.IsZero() && w.waitsForLock() {
			since = time.Now()
		}
		return len(answered) > 0 || !since.IsZero() && time.Since(since) > 10*lockTimeout
	})
	w.exec(`ROLLBACK`)
	if got := <-answered; got.Status != 200 || got.Code != fault.OK {
		t.Errorf("answered %d: %s; want 200", got.Status, got.Raw)
	}
	if orders := w.ProviderOrders(); orders != 1 {
		t.Errorf("the provider was sent %d orders; want one", orders)
	}
	w.CheckAudit()
}

// One operator's wallet is locked, and forty of its orders wait for it. Another operator
// of the same node is served without delay.
func TestLockedWallet_OtherOperatorIsServed(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	w := newLockEnv(t, "")
	locked, free := w.NewFundedOperator("locked", "100000"), w.NewFundedOperator("free", "100000")
	w.exec(`BEGIN`)
	w.exec(`SELECT FROM wallets WHERE operator_id = $1 FOR UPDATE`, locked.OperatorID)
	const orders = 40
	var sent atomic.Int32
	codes := make(chan map[fault.Code]int, 1)
	go func() {
		got, _ := w.Race(orders, func(i int) e2e.Answer {
			sent.Add(1)
			return w.Operate(locked, "activate", fmt.Sprintf("locked-%03d", i), e2e.Activation(fmt.Sprintf("98000001%02d", i)))
		})
		codes <- got
	}()
	w.WaitUntil("the orders wait for the wallet", func() bool { return sent.Load() == orders && w.waitsForLock() })
	for i := range 5 {
		begun := time.Now()
		got := w.Operate(free, "activate", fmt.Sprintf("free-%03d", i), e2e.Activation(fmt.Sprintf("98000002%02d", i)))
		order := time.Since(begun)
		balance := w.Send(e2e.Call{As: free, Path: "/api/v1/balance"})
		// An order is three commits. If one waited for the locked operator's orders, it
		// would take until they time out, 7 s.
		if took := time.Since(begun); got.Code != fault.OK || balance.Code != fault.OK || took > 6*time.Second {
			t.Errorf("the other operator was answered %s after %s, and its balance %s after %s", got.Code, order, balance.Code, took)
		}
	}
	w.exec(`ROLLBACK`)
	// Orders that waited too long were answered 503.
	if got := <-codes; got[fault.OK]+got[fault.ServiceUnavailable] != orders {
		t.Errorf("the orders that waited were answered %v", got)
	}
	w.CheckAudit()
}
