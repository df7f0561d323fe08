package postgres

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/storetest"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestReceipts_NumberWhatAnOlderReleaseSettled(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	storetest.LateReceipts(t, place(address), func(statement string) { exec(t, raw(t, address), statement) })
}

// Two nodes settle at midnight before the first of April, by two clocks, while their
// connections are cut, also in the middle of a commit, and an older node settles beside them.
func TestReceipts_HaveNoGapOnTwoNodes(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	nodes := []*DB{open(t, address), open(t, address)}
	conn, killer := raw(t, address), raw(t, address)
	const operators, sales = 3, 240
	customers := customersOf(t, nodes[0], conn, operators, sales)
	midnight := time.Date(2027, time.April, 1, 0, 0, 0, 0, subscription.IST)

	var cut int64
	killing, killed := make(chan struct{}), sync.WaitGroup{}
	killed.Go(func() {
		for {
			select {
			case <-killing:
				return
			default:
			}
			tag, err := killer.Exec(t.Context(), `
				SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				 WHERE datname = current_database() AND query LIKE '%ledger%' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`)
			if err != nil {
				t.Errorf("cut a connection: %v", err)
				return
			}
			cut += tag.RowsAffected()
			if _, err := killer.Exec(t.Context(), `
				WITH older AS (
				     UPDATE wallets SET ledger_lines = ledger_lines + 1, ledger_paise = ledger_paise + 1, balance_paise = balance_paise + 1, entries = entries + 1
				      WHERE operator_id = (SELECT max(operator_id) FROM wallets) RETURNING operator_id, ledger_lines, ledger_paise, entries, balance_paise),
				entry AS (
				     INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, actor, created_at)
				     SELECT operator_id, entries, 'adjust', 1, balance_paise, 'cli:older', 0 FROM older)
				INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, created_at)
				SELECT operator_id, ledger_lines, 'credit', 1, ledger_paise, 'by an older release', 0 FROM older`); err != nil {
				t.Errorf("write as an older release: %v", err)
				return
			}
		}
	})
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i, c := range customers {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			node := nodes[i%2]
			op, err := untilKnown(func() (operation.Operation, error) { return node.Reserve(t.Context(), c.renewal(keyOf(i), 1)) })
			if errors.Is(err, operation.ErrStale) {
				// A cut connection left it unknown whether it was reserved, and it was.
				op, _, err = node.OperationByID(t.Context(), c.record.Operator.ID, "CX-"+keyOf(i))
			}
			if err != nil {
				t.Errorf("reserve: %v", err)
				return
			}
			s := confirmed(op)
			s.At = midnight.Add(time.Duration(rand.IntN(2)*2-1) * time.Millisecond)
			if i%9 == 0 {
				s.To, s.Reason, s.ProviderTransaction = operation.Failed, operation.ProviderRejected, ""
			}
			if _, err := untilKnown(func() (bool, error) { _, did, err := node.Settle(t.Context(), s); return did, err }); err != nil {
				t.Errorf("settle: %v", err)
			}
		})
	}
	group.Wait()
	close(killing)
	killed.Wait()
	if cut == 0 {
		t.Error("no connection was cut")
	}
	booksAreWhole(t, conn)
	if n := count(t, conn, `SELECT count(*) FROM ledger WHERE receipt IS NOT NULL`); n != sales-(sales+8)/9 {
		t.Errorf("%d purchases have a number; want %d", n, sales-(sales+8)/9)
	}
	for {
		_, more, err := nodes[0].NumberReceipts(t.Context())
		if ok(t, err); !more {
			break
		}
	}
	if n := count(t, conn, `SELECT count(*) FROM wallets WHERE receipt_lines <> ledger_lines`); n != 0 {
		t.Errorf("%d wallets still have lines that were not looked at", n)
	}
}

// untilKnown repeats what a cut connection has left unknown.
func untilKnown[T any](do func() (T, error)) (result T, err error) {
	for range 50 {
		if result, err = do(); err == nil || errors.Is(err, operation.ErrStale) {
			return result, err
		}
	}
	return result, err
}
