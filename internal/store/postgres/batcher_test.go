package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
)

// A request whose caller cancels before a batch has taken it never runs; afterwards it
// runs in any case.
func TestBatcher_CancelBeforeAndAfterBatch(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db, conn := open(t, address), raw(t, address)
	db.locks.shared = 5 * time.Minute
	record := operator(t, db, 60)

	// The first batch stands still in the database.
	blocking, err := conn.Begin(t.Context())
	ok(t, err)
	_, err = blocking.Exec(t.Context(), `LOCK TABLE nonces`)
	ok(t, err)
	type result struct {
		admitted access.Admitted
		err      error
	}
	enter := func(nonce string) (hangUp context.CancelFunc, done chan result) {
		ctx, cancel := context.WithCancel(t.Context())
		done = make(chan result, 1)
		go func() {
			admitted, err := db.Admit(ctx, asking(record, nonce))
			done <- result{admitted, err}
		}()
		return cancel, done
	}
	hangUpFirst, first := enter("nonce-taken")
	watch := raw(t, address)
	until(t, "the first batch waits in the database", func() bool {
		return count(t, watch, `SELECT count(*) FROM pg_locks WHERE relation = 'nonces'::regclass AND NOT granted`) > 0
	})
	hangUpSecond, second := enter("nonce-waiting")
	until(t, "the second waits at the door", func() bool { return db.Queued() == 1 })
	hangUpSecond()
	if got := <-second; !errors.Is(got.err, context.Canceled) {
		t.Errorf("a caller that cancelled in the queue got %+v; want it cancelled", got)
	}
	hangUpFirst()
	select {
	case got := <-first:
		t.Errorf("a caller that cancelled after the start got %+v before the batch had ended", got)
	default:
	}
	ok(t, blocking.Rollback(t.Context()))
	if got := <-first; got.err != nil || !got.admitted.Counted || got.admitted.Used != 1 {
		t.Errorf("who was taken got %+v; want to be counted", got)
	}
	_, third := enter("nonce-later")
	if got := <-third; got.err != nil || got.admitted.Used != 2 {
		t.Errorf("who came later got %+v; want the second place", got)
	}
	if got := count(t, watch, `SELECT count(*) FROM nonces WHERE nonce = 'nonce-waiting'`); got != 0 {
		t.Error("the nonce of who was dropped is burned")
	}
}

// Another node's batch may hold an operator's counter for a while. Terms that
// change meanwhile hold for the waiting callers, as for all later ones.
func TestAdmit_ChecksTermsAfterWaiting(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db, conn := open(t, address), raw(t, address)
	record := operator(t, db, 10)
	if first, err := db.Admit(t.Context(), asking(record, "nonce-first")); err != nil || !first.Counted {
		t.Fatalf("admitted %+v, %v; want it counted", first, err)
	}

	blocking, err := conn.Begin(t.Context())
	ok(t, err)
	_, err = blocking.Exec(t.Context(), `SELECT FROM rate_counters FOR UPDATE`)
	ok(t, err)
	type result struct {
		admitted access.Admitted
		err      error
	}
	done := make(chan result, 1)
	go func() {
		admitted, err := db.Admit(context.Background(), asking(record, "nonce-waiting"))
		done <- result{admitted, err}
	}()
	watch := raw(t, address)
	until(t, "the request waits for the counter", func() bool {
		return count(t, watch, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	_, err = db.ChangeOperator(t.Context(), act("lco set"), record.Operator.ID, admin.OperatorChange{RateLimit: new(1)})
	ok(t, err)
	ok(t, blocking.Rollback(t.Context()))

	got := <-done
	if got.err != nil || got.admitted.Fresh == nil || got.admitted.Fresh.Operator.RateLimit != 1 {
		t.Errorf("the waiting caller got %+v, %v; want to be checked again, with a limit of 1", got.admitted, got.err)
	}
	if used := count(t, watch, `SELECT used FROM rate_counters`); used != 1 {
		t.Errorf("%d places are taken; want 1", used)
	}
}

// Two nodes, several operators, small limits: not one too many and not one too
// few, and every place is given once.
func TestAdmit_RateCountExactOnTwoNodes(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	nodes := []*DB{open(t, address), open(t, address)}
	const callers, each = 64, 4
	var records []access.Record
	for _, limit := range []int{1, 7, 20, 33, 60} {
		records = append(records, operator(t, nodes[0], limit))
	}
	var mu sync.Mutex
	places := map[int64][]int{}
	var group sync.WaitGroup
	start := make(chan struct{})
	for caller := range callers {
		group.Go(func() {
			<-start
			for i := range each * len(records) {
				record := records[(caller+i)%len(records)]
				admitted, err := nodes[(caller+i/len(records))%2].Admit(t.Context(), asking(record, fmt.Sprintf("nonce-%d-%d", caller, i)))
				if err != nil || admitted.Replayed || admitted.Fresh != nil {
					t.Errorf("caller %d: %+v, %v", caller, admitted, err)
				}
				if admitted.Counted {
					mu.Lock()
					places[record.Operator.ID] = append(places[record.Operator.ID], admitted.Used)
					mu.Unlock()
				} else if admitted.Used != record.Operator.RateLimit {
					t.Errorf("caller %d was sent away with %d of %d places taken", caller, admitted.Used, record.Operator.RateLimit)
				}
			}
		})
	}
	close(start)
	group.Wait()
	for _, record := range records {
		got := places[record.Operator.ID]
		slices.Sort(got)
		var want []int
		for place := range record.Operator.RateLimit {
			want = append(want, place+1)
		}
		if !slices.Equal(got, want) {
			t.Errorf("an operator with %d places was given %v", record.Operator.RateLimit, got)
		}
	}
}

// One nonce, many callers on two nodes: one of them is let in.
func TestAdmit_NonceUsedOnceOnTwoNodes(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	nodes := []*DB{open(t, address), open(t, address)}
	record := operator(t, nodes[0], 1000)
	for round := range 10 {
		var mu sync.Mutex
		let, replayed := 0, 0
		var group sync.WaitGroup
		for caller := range 16 {
			group.Go(func() {
				admitted, err := nodes[caller%2].Admit(t.Context(), asking(record, fmt.Sprintf("nonce-%d", round)))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Errorf("caller %d: %v", caller, err)
				case admitted.Replayed:
					replayed++
				case admitted.Counted:
					let++
				}
			})
		}
		group.Wait()
		if let != 1 || replayed != 15 {
			t.Errorf("round %d: %d were let in and %d refused; want 1 and 15", round, let, replayed)
		}
	}
}

// A batch that stands still blocks its own batcher, and no other.
func TestCommitOrder_BlockedBatchIsPassed(t *testing.T) {
	t.Parallel()
	shared := newCommitOrder(time.Millisecond)
	holding, release := make(chan struct{}), make(chan struct{})
	stuck := newBatcher(batcherOptions[int, int]{order: shared, maxItems: 1, locks: newLockWaits(4), run: func([]*item[int, int], time.Duration) error {
		close(holding)
		<-release
		return nil
	}})
	free := newBatcher(batcherOptions[int, int]{order: shared, maxItems: 1, locks: newLockWaits(4), run: func([]*item[int, int], time.Duration) error { return nil }})
	var group sync.WaitGroup
	group.Go(func() {
		_, err := stuck.do(t.Context(), 1)
		ok(t, err)
	})
	<-holding
	for range 2 {
		_, err := free.do(t.Context(), 1)
		ok(t, err)
	}
	close(release)
	group.Wait()
	stuck.stop()
	free.stop()
}

// While one batcher commits, another's callers queue up, and share the
// next one.
func TestCommitOrder_GathersWhileOtherCommits(t *testing.T) {
	t.Parallel()
	shared := newCommitOrder(time.Hour)
	var sizes []int
	b := newBatcher(batcherOptions[int, int]{order: shared, maxItems: 8, locks: newLockWaits(4), run: func(batch []*item[int, int], _ time.Duration) error {
		sizes = append(sizes, len(batch))
		return nil
	}})
	release := shared.acquire()
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			_, err := b.do(t.Context(), 1)
			ok(t, err)
		})
	}
	// The first has left the queue and waits for its turn to commit.
	until(t, "two wait behind the first", func() bool { return b.queued() == 2 })
	release()
	group.Wait()
	b.stop()
	if !slices.Equal(sizes, []int{3}) {
		t.Errorf("batches of %v; want one of 3", sizes)
	}
}
