package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

func TestReserve_RefusalKeepsBatch(t *testing.T) {
	t.Parallel()
	s := newStall(t, migrated(t))
	customers := customersOf(t, s.db, s.watch, 3, 12)
	var drafts []operation.Draft
	for i, c := range customers[1:] {
		drafts = append(drafts, c.renewal(keyOf(i), 1))
	}
	drafts[2].SubscriberVersion = 7                       // changed since
	drafts[5].PlanVersion = 7                             // a price that is no longer
	drafts[7].IdempotencyKey = drafts[1].IdempotencyKey   // of two with one key, and one operator, either
	drafts[9].CustomerName = "what no server takes: \x00" // and what has not moved, but is wrong

	got := s.reserveBatch(customers[0].renewal("ahead", 1), drafts)
	if drafts[1].OperatorID != drafts[7].OperatorID || errors.Is(got[1].err, operation.ErrStale) == errors.Is(got[7].err, operation.ErrStale) {
		t.Errorf("of two drafts with one key: %v and %v; want one of them moved", got[1].err, got[7].err)
	}
	for i, r := range got {
		switch {
		case i == 2, i == 5:
			if !errors.Is(r.err, operation.ErrStale) {
				t.Errorf("draft %d came to %v; want that it has moved", i, r.err)
			}
		case i == 9:
			if r.err == nil || errors.Is(r.err, operation.ErrStale) || errors.Is(r.err, operation.ErrCommitUnknown) {
				t.Errorf("what the server does not take came to %v", r.err)
			}
		case r.err != nil && i != 1 && i != 7:
			t.Errorf("draft %d came to %v", i, r.err)
		case r.err == nil && r.op.ID != drafts[i].ID:
			t.Errorf("draft %d became operation %s", i, r.op.ID)
		}
	}
	if n, want := count(t, s.watch, `SELECT count(*) FROM operations`), 1+len(drafts)-4; n != want {
		t.Errorf("%d operations were written; want %d", n, want)
	}
	booksAreWhole(t, s.watch)
}

func TestReserve_BatchNeverOverdraws(t *testing.T) {
	t.Parallel()
	s := newStall(t, migrated(t))
	customers := customersOf(t, s.db, s.watch, 2, 6) // of two operators in turn
	poor, rich := customers[0].record.Operator.ID, customers[1].record.Operator.ID
	exec(t, s.watch, `UPDATE wallets SET balance_paise = 30000, ledger_paise = 30000 WHERE operator_id = $1`, poor)
	got := s.reserveBatch(customers[1].renewal("ahead", 1), []operation.Draft{
		customers[0].renewal("poor-1", 1), customers[3].renewal("rich-1", 1), customers[2].renewal("poor-2", 1), customers[5].renewal("rich-2", 1),
	})
	if got[1].err != nil || got[3].err != nil {
		t.Errorf("who has money got %v and %v", got[1].err, got[3].err)
	}
	if first, second := got[0].err == nil, got[2].err == nil; first == second {
		t.Errorf("of two debits with money for one: %v and %v", got[0].err, got[2].err)
	}
	for _, i := range []int{0, 2} {
		switch r := got[i]; {
		case r.err == nil && r.op.WalletBefore != money.Paise(30000):
			t.Errorf("the wallet held %s before; want 300.00", r.op.WalletBefore)
		case r.err != nil && !errors.Is(r.err, operation.ErrStale):
			t.Errorf("the other came to %v", r.err)
		}
	}
	if left := count(t, s.watch, `SELECT balance_paise FROM wallets WHERE operator_id = $1`, poor); left != 30000-19900 {
		t.Errorf("the poor wallet holds %d", left)
	}
	if n := count(t, s.watch, `SELECT entries FROM wallets WHERE operator_id = $1`, rich); n != 3 {
		t.Errorf("the rich wallet was moved %d times; want 3", n)
	}
	booksAreWhole(t, s.watch)
}

// Facts of one wallet in one batch follow each other as they would one by one, and
// each gets its balance.
func TestReserve_BatchOfOneWallet(t *testing.T) {
	t.Parallel()
	s := newStall(t, migrated(t))
	customers := customersOf(t, s.db, s.watch, 2, 20)
	var drafts []operation.Draft
	for i, c := range customers[1:] {
		drafts = append(drafts, c.renewal(keyOf(i), 1))
	}
	got := s.reserveBatch(customers[0].renewal("ahead", 1), drafts)
	before := map[int64][]int64{}
	var settled sync.WaitGroup
	for i, r := range got {
		if r.err != nil || r.op.CommissionBPS != 250 {
			t.Fatalf("draft %d came to %v, at a rate of %d", i, r.err, r.op.CommissionBPS)
		}
		before[r.op.OperatorID] = append(before[r.op.OperatorID], r.op.WalletBefore.Paise())
		if kept := count(t, s.watch, `SELECT wallet_before_paise FROM operations WHERE id = $1`, r.op.ID); int64(kept) != r.op.WalletBefore.Paise() {
			t.Errorf("draft %d got %s, and %d is stored", i, r.op.WalletBefore, kept)
		}
	}
	for _, balances := range before {
		for i := 1; i < len(balances); i++ {
			if balances[i] != balances[i-1]-19900 {
				t.Errorf("the wallets held %v before; want each 199.00 less", balances)
			}
		}
	}
	// And so they are settled: some confirmed, some refunded, some left open.
	for i, r := range got {
		settled.Go(func() {
			to := confirmed(r.op)
			switch i % 4 {
			case 1:
				to.To, to.Reason = operation.Failed, operation.ProviderRejected
			case 2:
				to.To, to.NextCheckAt = operation.NeedsReview, noon.Add(time.Minute)
			}
			if op, did, err := s.db.Settle(t.Context(), to); err != nil || !did || op.State != to.To {
				t.Errorf("settled %v as %s, %v", did, op.State, err)
			}
		})
	}
	settled.Wait()
	booksAreWhole(t, s.watch)
}

// The answer to the COMMIT of a batch is lost, though the server has carried it out.
// All of its outcomes are unknown to the callers, who find out by their keys.
func TestReserve_LostCommitReplyIsAmbiguous(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	server.Exec(t, "postgres", `CREATE DATABASE coax`)
	proxy := pgtest.NewProxy(t, server)
	s := newStall(t, proxy.URL("coax"))
	s.conn, s.watch = raw(t, server.URL("coax")), raw(t, server.URL("coax"))
	customers := customersOf(t, s.db, s.watch, 3, 9)
	var drafts []operation.Draft
	for i, c := range customers[1:] {
		drafts = append(drafts, c.renewal(keyOf(i), 1))
	}
	proxy.LoseCommit(1) // the one ahead gets its reply
	for i, r := range s.reserveBatch(customers[0].renewal("ahead", 1), drafts) {
		if !errors.Is(r.err, operation.ErrCommitUnknown) {
			t.Errorf("draft %d came to %v; want an unknown outcome", i, r.err)
		}
	}
	if proxy.Cuts() != 1 {
		t.Fatal("no answer was lost")
	}
	ahead, found, err := s.db.OperationByKey(t.Context(), customers[0].record.Operator.ID, "ahead")
	if err != nil || !found {
		t.Fatalf("the one ahead is %v there, %v", found, err)
	}
	var ops []operation.Operation
	for _, d := range drafts {
		op, found, err := s.db.OperationByKey(t.Context(), d.OperatorID, d.IdempotencyKey)
		if err != nil || !found || op.ID != d.ID {
			t.Fatalf("%s is %v there, %v", d.ID, found, err)
		}
		ops = append(ops, op)
		if _, err := s.db.Reserve(t.Context(), d); !errors.Is(err, operation.ErrStale) {
			t.Errorf("%s once more: %v; want that it has moved", d.ID, err)
		}
	}

	// The same for what they are settled as.
	var first sync.WaitGroup
	first.Add(1)
	s.hold("ledger", func() {
		defer first.Done()
		if _, _, err := s.db.Settle(t.Context(), confirmed(ahead)); err != nil {
			t.Errorf("the one ahead: %v", err)
		}
	})
	errs := make([]error, len(ops))
	var others []func()
	for i, op := range ops {
		others = append(others, func() { _, _, errs[i] = s.db.Settle(context.Background(), confirmed(op)) })
	}
	behind := s.queue(others...)
	proxy.LoseCommit(1)
	s.release()
	first.Wait()
	behind.Wait()
	for i, op := range ops {
		if !errors.Is(errs[i], operation.ErrCommitUnknown) {
			t.Errorf("%s came to %v; want an unknown outcome", op.ID, errs[i])
		}
		again, did, err := s.db.Settle(t.Context(), confirmed(op))
		if err != nil || did || again.State != operation.Success {
			t.Errorf("%s once more: %v, %s, %v; want it found as it was left", op.ID, did, again.State, err)
		}
	}
	if n := count(t, s.watch, `SELECT count(*) FROM provider_calls`); n != len(customers) {
		t.Errorf("%d calls are written down; want one of each", n)
	}
	booksAreWhole(t, s.watch)
}

// A draft whose caller cancels in the queue is never reserved; one that a batch has taken is.
func TestReserve_CancelledInQueueNeverRuns(t *testing.T) {
	t.Parallel()
	s := newStall(t, migrated(t))
	customers := customersOf(t, s.db, s.watch, 1, 3)
	ctx, hangUp := context.WithCancel(t.Context())
	taken := make(chan error, 1)
	s.hold("plans", func() {
		_, err := s.db.Reserve(ctx, customers[0].renewal("taken", 1))
		taken <- err
	})
	waiting := make(chan error, 1)
	s.queue(func() {
		_, err := s.db.Reserve(ctx, customers[1].renewal("waiting", 1))
		waiting <- err
	})
	hangUp()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that cancelled in the queue got %v", err)
	}
	select {
	case err := <-taken:
		t.Errorf("who was taken got %v before the batch had ended", err)
	default:
	}
	if _, err := s.db.Reserve(ctx, customers[2].renewal("late", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that had cancelled before got %v", err)
	}
	s.release()
	if err := <-taken; err != nil {
		t.Errorf("who was taken got %v", err)
	}
	ok(t, s.db.Close())
	if n := count(t, s.watch, `SELECT count(*) FROM operations WHERE idempotency_key <> 'taken'`); n != 0 {
		t.Errorf("%d were reserved for callers that had cancelled", n)
	}
}

// Two nodes have batches about the same wallets, one from the first to the last and
// one from the last to the first. They wait for each other, and never in a circle.
func TestBatches_TwoNodesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	server.Exec(t, "postgres", `CREATE DATABASE coax`)
	conn := raw(t, server.URL("coax"))
	nodes := []*DB{open(t, server.URL("coax")), open(t, server.URL("coax"))}
	const wallets, rounds = 40, 30
	customers := customersOf(t, nodes[0], conn, wallets, 2*wallets)
	for round := range rounds {
		var group sync.WaitGroup
		for n, node := range nodes {
			var drafts []*reservationItem
			for i, c := range customers[n*wallets : (n+1)*wallets] {
				drafts = append(drafts, &reservationItem{request: c.renewal(fmt.Sprintf("key-%d-%d-%d", n, round, i), int64(1+2*round))})
			}
			if n == 1 {
				slices.Reverse(drafts)
			}
			group.Go(func() {
				if err := waitedOut(func() error { return node.reserveBatch(drafts, time.Second) }); err != nil {
					t.Errorf("reserve: %v", err)
					return
				}
				settlements := column(drafts, func(r *reservationItem) *settlementItem {
					return &settlementItem{request: pendingSettlement{confirmed(r.result), r.result}}
				})
				if err := waitedOut(func() error { return node.settleBatch(settlements, time.Second) }); err != nil {
					t.Errorf("settle: %v", err)
				}
			})
		}
		group.Wait()
	}
	for _, node := range nodes {
		ok(t, node.Close()) // a server's process counts when it ends
	}
	until(t, "all have left", func() bool {
		return count(t, conn, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`) == 0
	})
	if n := count(t, conn, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("there were %d deadlocks", n)
	}
	if n := count(t, conn, `SELECT count(*) FROM operations WHERE status = 'success'`); n != 2*wallets*rounds {
		t.Errorf("%d were renewed; want %d", n, 2*wallets*rounds)
	}
	booksAreWhole(t, conn)
}

// waitedOut tries a batch until the other's, which has the same rows, is through. One
// that waits waits for a second, and the other may take longer on a busy machine.
func waitedOut(batch func() error) error {
	for {
		err := batch()
		var failure *pgconn.PgError
		if !errors.As(err, &failure) || failure.Code != lockNotAvailable {
			return err
		}
	}
}
