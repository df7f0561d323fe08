package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

const maxSettlements = 128

// settling is a settlement of an operation that is open in the right hands.
type settling struct {
	operation.Settlement
	before operation.Operation
}

// settlingEntrant is one settlement that waits to be made true.
type settlingEntrant = entrant[settling, operation.Operation]

func (db *DB) openSettlement(observe Observer) {
	db.settlements = openLane(laneOptions[settling, operation.Operation]{
		observe: observe, baton: db.committing, most: unlessBreakable(maxSettlements), locks: db.locks,
		operator: func(s settling) int64 { return s.before.OperatorID },
		together: db.settleTogether,
	})
}

// Settle moves an operation that is still open in the given hands. Everything
// that follows from it is written in the same stroke: money, books, commission,
// subscriber, history, evidence.
//
// Whoever has the operation in hand says what they know of it. Then it takes one
// round trip, shared with whoever else is settling: the server undoes it if the
// operation has gone into other hands since. Only where it has, or where nothing
// is known of it, is it looked at first.
func (db *DB) Settle(ctx context.Context, s operation.Settlement) (operation.Operation, bool, error) {
	// What has been in review is looked at, for what the provider said meanwhile.
	if s.Held != nil && s.Held.State == operation.Processing && s.Fits(*s.Held) {
		op, err := db.settlements.through(ctx, settling{s, *s.Held})
		if err == nil {
			return op, true, nil
		}
		if !moved(err) {
			return operation.Operation{}, false, fmt.Errorf("settle %s: %w", s.OperationID, err)
		}
		// It was taken out of the caller's hands, who may hang up no more.
		ctx = context.WithoutCancel(ctx)
	}
	return db.settleLooking(ctx, s)
}

// settleTogether carries a batch through one transaction.
func (db *DB) settleTogether(all []*settlingEntrant, lockTimeout time.Duration) error {
	return db.pipelined(context.Background(), lockTimeout, func(p *pipe) error {
		batch := &pgx.Batch{}
		settle(batch, column(all, func(e *settlingEntrant) settling { return e.asks }))
		err := p.commitAt(batch, func() error { return failpoint.Hit("S.in") })
		for _, e := range all {
			e.gets = e.asks.After(e.asks.before)
		}
		return err
	})
}

// settleLooking takes two round trips: the operation is locked and looked at, and
// then everything is written.
func (db *DB) settleLooking(ctx context.Context, s operation.Settlement) (operation.Operation, bool, error) {
	var op operation.Operation
	var settled bool
	err := db.pipelinedAlone(ctx, func(p *pipe) error {
		looking := &pgx.Batch{}
		looking.Queue(`SELECT `+sqlstore.OperationColumns+` FROM operations WHERE id = $1 FOR NO KEY UPDATE`, s.OperationID).
			QueryRow(func(row pgx.Row) (err error) {
				op, err = sqlstore.ReadOperation(row)
				return err
			})
		var said []operation.Reply
		looking.Queue(definiteAnswers, s.OperationID).Query(func(rows pgx.Rows) (err error) {
			said, err = sqlstore.Collect(rows, nil, readAnswer)
			return err
		})
		if err := p.send(looking); err != nil {
			return err
		}
		writing := &pgx.Batch{}
		if settled = s.Fits(op); settled {
			one := settling{s, op}
			settle(writing, []settling{one})
			op = s.After(op)
			for _, e := range s.Contradictions(op, said) {
				raiseException(writing, e)
			}
		} else {
			keepWord(writing, op, s)
		}
		return p.commitAt(writing, func() error { return failpoint.Hit("S.in") })
	})
	if errors.Is(err, sql.ErrNoRows) {
		return operation.Operation{}, false, fmt.Errorf("there is no operation %s", s.OperationID)
	}
	if err != nil {
		return operation.Operation{}, false, fmt.Errorf("settle %s: %w", s.OperationID, err)
	}
	return op, settled, nil
}

// definiteAnswers are what the provider told nodes that had lost the operation by
// then.
const definiteAnswers = `
	SELECT outcome, coalesce(provider_transaction_id, ''), detail FROM provider_calls
	 WHERE operation_id = $1 AND reference = $1 AND outcome <> 'unknown' ORDER BY id`

func readAnswer(row sqlstore.Row) (a operation.Reply, err error) {
	var outcome string
	err = row.Scan(&outcome, &a.Transaction, &a.Message)
	a.Outcome = operation.ParseOutcome(outcome)
	return a, err
}

// keepWord queues what the provider said where somebody else has settled the
// operation, or holds it now: it is evidence all the same.
func keepWord(batch *pgx.Batch, op operation.Operation, s operation.Settlement) {
	if s.Repeats(op) {
		return // it was kept the first time
	}
	for _, e := range s.Contradicts(op) {
		raiseException(batch, e)
	}
	writeCalls(batch, callsOf(s.OperationID, s.Node, s.Calls))
}

// settle queues everything that settlements write. Rows are locked in the order
// that every fact keeps: operations, subscribers, wallets. The operations need not
// be locked in an order of their own: each is in one pair of hands, and who has
// lost it finds another epoch, without waiting.
func settle(batch *pgx.Batch, all []settling) {
	moveOperations(batch, all)
	var confirmed, refunded []settling
	var subscribers []string
	var operators []int64
	var calls []callOf
	for _, s := range all {
		switch s.To {
		case operation.Success:
			confirmed = append(confirmed, s)
		case operation.Failed:
			refunded = append(refunded, s)
		}
		if !s.To.Open() {
			subscribers, operators = append(subscribers, s.before.SubscriberID), append(operators, s.before.OperatorID)
		}
		calls = append(calls, callsOf(s.OperationID, s.Node, s.Calls)...)
	}
	apart := len(refunded) > 0 && len(subscribers) > 1
	if apart {
		lockCustomers(batch, subscribers)
	}
	runSubscriptions(batch, confirmed)
	for _, s := range refunded {
		releaseCustomer(batch, s)
	}
	if apart {
		lockWallets(batch, operators)
	}
	charge(batch, confirmed)
	for _, s := range refunded {
		refund(batch, s)
	}
	writeCalls(batch, calls)
	writeEvents(batch, column(all, func(s settling) happening {
		return happening{s.before.ID, s.before.State, s.To, s.Epoch, s.Node, s.Actor, s.Why, s.At.UnixMilli()}
	}))
}
