package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/requestlog"
)

const (
	// waitingOrders is how many of one operator wait for what is locked.
	waitingOrders = 40
	// neighbourTimeout is far above what another operator's call takes, 2 s at most,
	// and below what it took when it waited for the first one's rows.
	neighbourTimeout = 8 * time.Second
)

// lockFixture is one node with two operators: the first one's rows get locked by
// another session, the second one goes on.
type lockFixture struct {
	*testing.T
	db      *DB
	session pgx.Tx    // holds the locks
	watch   *pgx.Conn // sees who waits for them
	// ours are subscribers of the first operator, theirs of the second.
	ours, theirs []customer
	used         int
}

func newLockFixture(t *testing.T, parameters string, customers int) *lockFixture {
	t.Helper()
	address := migrated(t)
	db, err := Open(t.Context(), address+parameters, Options{})
	ok(t, err)
	t.Cleanup(func() { _ = db.Close() })
	f := &lockFixture{T: t, db: db, watch: raw(t, address)}
	for i, c := range customersOf(t, db, f.watch, 2, 2*customers) {
		if i%2 == 0 {
			f.ours = append(f.ours, c)
		} else {
			f.theirs = append(f.theirs, c)
		}
	}
	holder := raw(t, address)
	f.session, err = holder.Begin(t.Context())
	ok(t, err)
	return f
}

// fresh takes customers whom no case has used.
func (f *lockFixture) fresh(n int) []customer {
	f.used += n
	return f.ours[f.used-n : f.used]
}

// lock has the other session lock something, in a savepoint.
func (f *lockFixture) lock(statement string, args ...any) (release func()) {
	f.Helper()
	savepoint, err := f.session.Begin(f.Context())
	ok(f, err)
	tag, err := savepoint.Exec(f.Context(), statement, args...)
	ok(f, err)
	if tag.RowsAffected() == 0 {
		f.Fatalf("nothing is locked by %s", statement)
	}
	return func() { ok(f, savepoint.Rollback(f.Context())) }
}

// lockWaiters is how many of the node's connections wait for a lock.
func (f *lockFixture) lockWaiters(conn *pgx.Conn) int {
	return count(f, conn, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// reserve reserves for each customer, and returns the operations.
func (f *lockFixture) reserve(customers []customer, key string) []operation.Operation {
	f.Helper()
	var ops []operation.Operation
	for i, c := range customers {
		op, err := f.db.Reserve(f.Context(), c.renewal(fmt.Sprintf("%s-%02d", key, i), 1))
		ok(f, err)
		ops = append(ops, op)
	}
	return ops
}

// trade does everything that a request of the second operator does, and fails if a
// call gets no result in time.
func (f *lockFixture) trade(n int) (slowest time.Duration) {
	f.Helper()
	c, key := f.theirs[n], fmt.Sprintf("theirs-%03d", n)
	call := func(what string, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(f.Context(), neighbourTimeout)
		defer cancel()
		begun := time.Now()
		if err := do(ctx); err != nil {
			f.Errorf("the other operator's %s: %v after %s", what, err, time.Since(begun))
		}
		slowest = max(slowest, time.Since(begun))
	}
	call("admission", func(ctx context.Context) error {
		admitted, err := f.db.Admit(ctx, asking(c.record, "nonce-of-"+key))
		if err == nil && !admitted.Counted {
			err = fmt.Errorf("it was not counted: %+v", admitted)
		}
		return err
	})
	call("read the snapshot", func(ctx context.Context) error {
		_, err := f.db.Snapshot(ctx, operation.SnapshotQuery{
			OperatorID: c.record.Operator.ID, Kind: operation.Renew, SubscriberID: c.subscriber, PlanID: "BASIC-1", IdempotencyKey: key, Provider: "test", DuplicatesSince: noon,
		})
		return err
	})
	var op operation.Operation
	call("reservation", func(ctx context.Context) (err error) {
		op, err = f.db.Reserve(ctx, c.renewal(key, 1))
		return err
	})
	call("settlement", func(ctx context.Context) error {
		_, _, err := f.db.Settle(ctx, confirmed(op))
		return err
	})
	call("look-ups", func(ctx context.Context) error {
		_, _, byKey := f.db.OperationByKey(ctx, c.record.Operator.ID, key)
		_, _, subscription := f.db.SubscriptionOf(ctx, c.record.Operator.ID, c.subscriber, "")
		_, wallet := f.db.Wallet(ctx, c.record.Operator.ID)
		return errors.Join(byKey, subscription, wallet)
	})
	return slowest
}

func TestLockedRows_OtherOperatorsGoOn(t *testing.T) {
	t.Parallel()
	// Whoever waits for a lock waits for as long as the test has it.
	f := newLockFixture(t, "&lock_timeout=6min&idle_in_transaction_session_timeout=5min", 14*waitingOrders)
	a := f.ours[0].record.Operator.ID
	settled := f.reserve(f.fresh(1), "settled")[0]
	_, _, err := f.db.Settle(t.Context(), confirmed(settled))
	ok(t, err)
	_, err = f.db.Admit(t.Context(), asking(f.ours[0].record, "first"))
	ok(t, err)

	reserving := func(customers []customer, key string) func(int) error {
		return func(i int) error {
			_, err := f.db.Reserve(t.Context(), customers[i].renewal(fmt.Sprintf("%s-%02d", key, i), 1))
			return err
		}
	}
	activating := func(key string, id, mobile int) func(int) error {
		return func(i int) error {
			d := f.ours[0].renewal(fmt.Sprintf("%s-%02d", key, i), 0)
			d.Kind, d.SubscriberID, d.Mobile = operation.Activate, fmt.Sprint(id+i), fmt.Sprint(mobile+i)
			_, err := f.db.Reserve(t.Context(), d)
			return err
		}
	}
	admitting := func(nonce string) func(int) error {
		return func(i int) error {
			_, err := f.db.Admit(t.Context(), asking(f.ours[0].record, fmt.Sprintf("%s-%02d", nonce, i)))
			return err
		}
	}
	settling := func(ops []operation.Operation, change func(*operation.Settlement)) func(int) error {
		return func(i int) error {
			s := confirmed(ops[i])
			change(&s)
			_, did, err := f.db.Settle(t.Context(), s)
			if err == nil && !did {
				err = errors.New("it was not settled")
			}
			return err
		}
	}
	ids := func(ops []operation.Operation) []string {
		return column(ops, func(op operation.Operation) string { return op.ID })
	}
	const (
		lockWallet   = `SELECT FROM wallets WHERE operator_id = $1 FOR UPDATE`
		lockOps      = `SELECT FROM operations WHERE id = ANY ($1::text[]) FOR UPDATE`
		insertClient = `INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, created_at)
			SELECT ($2::bigint + n)::text, $1, ($3::bigint + n)::text, 'Asha', 'Live TV', 0 FROM generate_series(0, $4::int - 1) n`
	)
	byWallet, byOperator, bySubscriber, byKey := f.fresh(waitingOrders), f.fresh(waitingOrders), f.fresh(waitingOrders), f.fresh(waitingOrders)
	succeed, refund := f.reserve(f.fresh(waitingOrders), "succeed"), f.reserve(f.fresh(waitingOrders), "refund")
	openOps, looked, leased := f.reserve(f.fresh(waitingOrders), "open"), f.reserve(f.fresh(waitingOrders), "looked"), f.reserve(f.fresh(waitingOrders), "leased")
	cases := []struct {
		name string
		lock string
		args []any
		do   func(i int) error
	}{
		{"wallet, reserving", lockWallet, []any{a}, reserving(byWallet, "by-wallet")},
		{"account, reserving", `SELECT FROM operators WHERE id = $1 FOR UPDATE`, []any{a}, reserving(byOperator, "by-account")},
		{"subscribers, reserving", `SELECT FROM subscribers WHERE operator_id = $1 FOR UPDATE`, []any{a}, reserving(bySubscriber, "by-subscriber")},
		{"idempotency keys, reserving", `
			INSERT INTO operations SELECT (jsonb_populate_record(o, jsonb_build_object('id', 'CX-twin-' || n, 'idempotency_key', 'by-key-' || lpad(n::text, 2, '0')))).*
			  FROM operations o, generate_series(0, $2 - 1) n WHERE o.id = $1`, []any{settled.ID, waitingOrders}, reserving(byKey, "by-key")},
		{"mobile numbers, activating", insertClient, []any{a, 500000, 9500000000, waitingOrders}, activating("by-mobile", 600000, 9500000000)},
		{"subscriber ids, activating", insertClient, []any{a, 510000, 9510000000, waitingOrders}, activating("by-id", 510000, 9610000000)},
		{"rate counter, being admitted", `SELECT FROM rate_counters WHERE operator_id = $1 FOR UPDATE`, []any{a}, admitting("by-counter")},
		{"nonces, being admitted", `
			INSERT INTO nonces SELECT $1, 'by-nonce-' || lpad(n::text, 2, '0'), 'another', 0 FROM generate_series(0, $2 - 1) n`,
			[]any{f.ours[0].record.Credential.ID, waitingOrders}, admitting("by-nonce")},
		{"wallet, settling as success", lockWallet, []any{a}, settling(succeed, func(*operation.Settlement) {})},
		{"wallet, settling as failed", lockWallet, []any{a}, settling(refund, func(s *operation.Settlement) {
			s.To, s.Reason, s.ProviderTransaction = operation.Failed, operation.ProviderRejected, ""
		})},
		{"operations, settling", lockOps, []any{ids(openOps)}, settling(openOps, func(*operation.Settlement) {})},
		{"operations, settling as review does", lockOps, []any{ids(looked)}, settling(looked, func(s *operation.Settlement) { s.LastRead = nil })},
		{"operations, extending leases", lockOps, []any{ids(leased)}, func(i int) error {
			_, err := f.db.ExtendLease(t.Context(), leased[i].ID, leased[i].Epoch, noon.Add(time.Hour))
			return err
		}},
		{"wallet, topped up by staff", lockWallet, []any{a}, func(i int) error {
			_, _, err := f.db.TopUp(t.Context(), act("wallet topup"), admin.TopUp{OperatorID: a, Amount: money.Paise(1_00), Reference: fmt.Sprintf("top-%02d", i)})
			return err
		}},
	}
	for n, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			f.T = t
			release := f.lock(tt.lock, tt.args...)
			var begun atomic.Int32
			var group sync.WaitGroup
			for i := range waitingOrders {
				group.Go(func() {
					begun.Add(1)
					if err := tt.do(i); err != nil {
						t.Errorf("order %d: %v", i, err)
					}
				})
			}
			until(t, "all orders of the first operator wait", func() bool { return begun.Load() == waitingOrders && f.lockWaiters(f.watch) > 0 })
			slowest := f.trade(n)
			t.Logf("the other operator's slowest call took %s", slowest)
			release()
			group.Wait()
		})
	}
	f.T = t
	if n := count(t, f.watch, `SELECT count(*) FROM operations WHERE operator_id = $1 AND status = 'success'`, f.theirs[0].record.Operator.ID); n != len(cases) {
		t.Errorf("the other operator has %d successful operations; want %d", n, len(cases))
	}
	booksAreWhole(t, f.watch)
}

// While one operator's wallet stays locked for longer than anybody waits, its orders
// are refused, on few connections, and the other operator notices nothing.
func TestLockedWallet_UsesFewConnections(t *testing.T) {
	t.Parallel()
	f := newLockFixture(t, "&lock_timeout=3s", 2*waitingOrders+200)
	settling := f.reserve(f.fresh(waitingOrders), "settling")
	reserving := f.fresh(waitingOrders)
	release := f.lock(`SELECT FROM wallets WHERE operator_id = $1 FOR UPDATE`, f.ours[0].record.Operator.ID)
	var group sync.WaitGroup
	errs := make([]error, 2*waitingOrders)
	for i := range waitingOrders {
		group.Go(func() {
			_, errs[i] = f.db.Reserve(t.Context(), reserving[i].renewal(fmt.Sprintf("reserving-%02d", i), 1))
		})
		group.Go(func() { _, _, errs[waitingOrders+i] = f.db.Settle(t.Context(), confirmed(settling[i])) })
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	most, slowest, trades := 0, time.Duration(0), 0
	for over := false; !over; {
		slowest = max(slowest, f.trade(trades))
		trades++
		most = max(most, f.lockWaiters(f.watch))
		select {
		case <-done:
			over = true
		default:
			over = trades == len(f.theirs)
		}
	}
	<-done
	t.Logf("%d trades of the other operator, the slowest call took %s; up to %d connections waited", trades, slowest, most)
	// One for reservations and one for settlements, and as many in shared batches.
	if most == 0 || most > 4 {
		t.Errorf("%d connections waited for one wallet; want one to four", most)
	}
	for i, err := range errs {
		if !errors.Is(err, operation.ErrUnavailable) || sqlState(err) != lockNotAvailable || errors.Is(err, operation.ErrCommitUnknown) {
			t.Errorf("order %d: %v; want that the store is not available", i, err)
		}
	}
	release()
	// What was refused is undone, and works now.
	for i, c := range reserving {
		_, err := f.db.Reserve(t.Context(), c.renewal(fmt.Sprintf("reserving-%02d", i), 1))
		ok(t, err)
		_, _, err = f.db.Settle(t.Context(), confirmed(settling[i]))
		ok(t, err)
	}
	booksAreWhole(t, f.watch)
}

// The request log of a node is written for all operators at once.
func TestRequestLog_SkipsLockedKeyUse(t *testing.T) {
	t.Parallel()
	f := newLockFixture(t, "", 1)
	ours, theirs := f.ours[0].record, f.theirs[0].record
	record := func(at time.Time) error {
		var batch requestlog.Batch
		for _, r := range []access.Record{ours, theirs} {
			batch.Blocks = append(batch.Blocks, requestlog.Block{OperatorID: r.Operator.ID, From: at, Until: at, Packed: []byte("calls")})
			batch.Uses = append(batch.Uses, requestlog.Use{OperatorID: r.Operator.ID, CredentialID: r.Credential.ID, At: at})
		}
		return f.db.RecordRequests(t.Context(), batch)
	}
	ok(t, record(noon))
	release := f.lock(`SELECT FROM key_uses WHERE operator_id = $1 FOR UPDATE`, ours.Operator.ID)
	later := noon.Add(time.Minute)
	ok(t, record(later))
	release()
	for id, want := range map[int64]time.Time{ours.Operator.ID: noon, theirs.Operator.ID: later} {
		if n := count(t, f.watch, `SELECT count(*) FROM request_log WHERE operator_id = $1`, id); n != 2 {
			t.Errorf("operator %d has %d blocks; want 2", id, n)
		}
		if at := count(t, f.watch, `SELECT last_at FROM key_uses WHERE operator_id = $1`, id); int64(at) != want.UnixMilli() {
			t.Errorf("the key of operator %d was used at %d; want %d", id, at, want.UnixMilli())
		}
	}
	ok(t, record(later))
	if at := count(t, f.watch, `SELECT last_at FROM key_uses WHERE operator_id = $1`, ours.Operator.ID); int64(at) != later.UnixMilli() {
		t.Errorf("the key that was locked was used at %d; want %d", at, later.UnixMilli())
	}
}

// Review goes round an operation that another session has locked.
func TestClaims_SkipLockedOperations(t *testing.T) {
	t.Parallel()
	f := newLockFixture(t, "", 4)
	ours, theirs := f.reserve(f.ours[:3], "ours"), f.reserve(f.theirs[:3], "theirs")
	for _, ops := range [][]operation.Operation{ours, theirs} {
		exec(t, f.watch, `UPDATE operations SET status = 'success', completed_at = 1, lease_until = NULL, addon = 'EXTRA', addon_status = 'failed', addon_next_at = 1 WHERE id = $1`, ops[1].ID)
		exec(t, f.watch, `UPDATE operations SET status = 'failed', completed_at = 1, lease_until = NULL, reason = 'NOT_CONFIRMED', next_check_at = 1 WHERE id = $1`, ops[2].ID)
	}
	release := f.lock(`SELECT FROM operations WHERE operator_id = $1 FOR UPDATE`, ours[0].OperatorID)
	defer release()
	claim := operation.Claim{Now: noon.Add(time.Hour), Node: "node-1", Until: noon.Add(2 * time.Hour), Limit: 8}
	for i, claims := range []func(context.Context, operation.Claim) ([]operation.Operation, error){f.db.ClaimReviews, f.db.ClaimAddons, f.db.ClaimLateChecks} {
		claimed, err := claims(t.Context(), claim)
		if err != nil || len(claimed) != 1 || claimed[0].ID != theirs[i].ID {
			t.Errorf("claimed %v, %v; want %s", column(claimed, func(op operation.Operation) string { return op.ID }), err, theirs[i].ID)
		}
	}
}
