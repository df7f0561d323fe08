package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
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

// A read that panics fails with an error, and the other reads of its batch and the node go on.
func TestSharedRead_PanicFailsOneItem(t *testing.T) {
	t.Parallel()
	db := open(t, migrated(t))
	entered, release := make(chan struct{}, 1), make(chan struct{})
	reads := newReads(db, func(id int64) int64 { return id }, func(from sqlstore.Querier, batch []*item[int64, int64]) error {
		if batch[0].request == 0 {
			entered <- struct{}{}
			<-release
			return nil
		}
		rows, err := from.Query(`SELECT id FROM unnest($1::bigint[]) AS id`, column(batch, func(e *item[int64, int64]) int64 { return e.request }))
		_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (n int64, err error) {
			if err := row.Scan(&n); err != nil {
				return n, err
			}
			if n == 3 {
				panic("on purpose")
			}
			for _, e := range batch {
				if e.request == n {
					e.result = 10 * n
				}
			}
			return n, nil
		})
		return err
	})
	defer reads.stop()
	var group sync.WaitGroup
	group.Go(func() { _, _ = reads.do(t.Context(), 0) })
	<-entered
	results, errs := make([]int64, 6), make([]error, 6)
	for id := 1; id < len(results); id++ {
		group.Go(func() { results[id], errs[id] = reads.do(t.Context(), int64(id)) })
	}
	until(t, "all wait for the next batch", func() bool { return reads.queued() == len(results)-1 })
	close(release)
	group.Wait()
	for id := 1; id < len(results); id++ {
		if id == 3 {
			if errs[id] == nil || errors.Is(errs[id], operation.ErrUnavailable) || !strings.Contains(errs[id].Error(), "on purpose") {
				t.Errorf("the read that panicked: %v; want the panic", errs[id])
			}
		} else if errs[id] != nil || results[id] != int64(10*id) {
			t.Errorf("read %d: %d, %v; want %d", id, results[id], errs[id], 10*id)
		}
	}
}

// Reads behind a locked table wait on one connection for each batcher, hold no slot that writes
// need, are no queue of writes, and get told that the store is not available.
func TestSharedReads_BehindALockedTable(t *testing.T) {
	t.Parallel()
	f := newLockFixture(t, "&lock_timeout=1s", 1)
	_, err := f.session.Exec(t.Context(), `LOCK TABLE wallets IN ACCESS EXCLUSIVE MODE`)
	ok(t, err)
	operators := []int64{f.ours[0].record.Operator.ID, f.theirs[0].record.Operator.ID}
	// The reads are asked for again and again, so that a busy machine misses nothing.
	var group sync.WaitGroup
	var refused atomic.Int64
	stop := make(chan struct{})
	stopped := sync.OnceFunc(func() { close(stop); group.Wait() })
	defer stopped()
	ask := func(operator int64) {
		for {
			if _, err := f.db.Wallet(t.Context(), operator); !errors.Is(err, operation.ErrUnavailable) {
				t.Errorf("a read: %v; want that the store is not available", err)
				return
			}
			refused.Add(1)
			select {
			case <-stop:
				return
			default:
			}
		}
	}
	group.Go(func() { ask(operators[0]) })
	until(t, "a read waits for the table", func() bool { return f.lockWaiters(f.watch) > 0 })
	for i := range 19 {
		group.Go(func() { ask(operators[i%2]) })
	}
	until(t, "a read waits for the table and others for their batch", func() bool { return f.lockWaiters(f.watch) > 0 && f.db.wallets.queued() > 0 })
	var most, slots, writes int
	for begun := refused.Load(); refused.Load() < begun+40 && !t.Failed(); {
		most, slots, writes = max(most, f.lockWaiters(f.watch)), max(slots, len(f.db.locks.queues)), max(writes, f.db.Queued())
	}
	if most != 1 || slots != 0 || writes != 0 {
		t.Errorf("%d connections waited for the table, with %d slots of writes and %d queued writes; want one, with none", most, slots, writes)
	}
	stopped()
	ok(t, f.session.Rollback(t.Context()))
	for _, id := range operators {
		_, err := f.db.Wallet(t.Context(), id)
		ok(t, err)
	}
}
