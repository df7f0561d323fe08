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

// pendingSettlement is a settlement and its operation, which is open under the settlement's epoch.
type pendingSettlement struct {
	operation.Settlement
	before operation.Operation
}

// settlementItem is one settlement that waits for a batch.
type settlementItem = item[pendingSettlement, operation.Operation]

func (db *DB) openSettlement(observe Observer) {
	db.settlements = newBatcher(batcherOptions[pendingSettlement, operation.Operation]{
		observe: observe, name: settlements, order: db.commitOrder, maxItems: batchLimit(maxSettlements), locks: db.locks,
		operator: func(s pendingSettlement) int64 { return s.before.OperatorID },
		run:      db.settleBatch,
	})
}

// Settle moves an operation that is still open under the given epoch. Wallet, ledger,
// commission, subscriber, history and provider calls are written in the same commit.
//
// If the caller passes the operation that it owns, that takes one round trip, shared
// with other settlements: the server rolls it back if the epoch has changed since. In that
// case, or if no operation was passed, the operation is locked and read first.
func (db *DB) Settle(ctx context.Context, s operation.Settlement) (operation.Operation, bool, error) {
	// An operation in review is read first, with the replies that other nodes got meanwhile.
	if s.LastRead != nil && s.LastRead.State == operation.Processing && s.AppliesTo(*s.LastRead) {
		op, err := db.settlements.do(ctx, pendingSettlement{s, *s.LastRead})
		if err == nil {
			return op, true, nil
		}
		if !guardFailed(err) {
			return operation.Operation{}, false, fmt.Errorf("settle %s: %w", s.OperationID, err)
		}
		// Another node owns the operation now. This node's calls must be saved even if the
		// caller cancels.
		ctx = context.WithoutCancel(ctx)
	}
	return db.settleLocked(ctx, s)
}

// settleBatch commits a batch in one transaction.
func (db *DB) settleBatch(all []*settlementItem, lockTimeout time.Duration) error {
	return db.pipelined(context.Background(), lockTimeout, func(p *pipe) error {
		batch := &pgx.Batch{}
		settle(batch, column(all, func(e *settlementItem) pendingSettlement { return e.request }))
		err := p.commitAt(batch, func() error { return failpoint.Hit("S.in") })
		for _, e := range all {
			e.result = e.request.Apply(e.request.before)
		}
		return err
	})
}

// settleLocked takes two round trips: it locks and reads the operation, and then writes
// everything.
func (db *DB) settleLocked(ctx context.Context, s operation.Settlement) (operation.Operation, bool, error) {
	var op operation.Operation
	var settled bool
	err := db.pipelinedAlone(ctx, func(p *pipe) error {
		reading := &pgx.Batch{}
		reading.Queue(`SELECT `+sqlstore.OperationColumns+` FROM operations WHERE id = $1 FOR NO KEY UPDATE`, s.OperationID).
			QueryRow(func(row pgx.Row) (err error) {
				op, err = sqlstore.ReadOperation(row)
				return err
			})
		var replies []operation.Reply
		reading.Queue(definiteReplies, s.OperationID).Query(func(rows pgx.Rows) (err error) {
			replies, err = sqlstore.Collect(rows, nil, readReply)
			return err
		})
		if err := p.send(reading); err != nil {
			return err
		}
		writing := &pgx.Batch{}
		if settled = s.AppliesTo(op); settled {
			one := pendingSettlement{s, op}
			settle(writing, []pendingSettlement{one})
			op = s.Apply(op)
			for _, e := range s.ReplyExceptions(op, replies) {
				raiseException(writing, e)
			}
		} else {
			saveCalls(writing, op, s)
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

// definiteReplies reads the provider's replies with a known outcome, including those to
// nodes that no longer owned the operation.
const definiteReplies = `
	SELECT outcome, coalesce(provider_transaction_id, ''), detail FROM provider_calls
	 WHERE operation_id = $1 AND reference = $1 AND outcome <> 'unknown' ORDER BY id`

func readReply(row sqlstore.Row) (a operation.Reply, err error) {
	var outcome string
	err = row.Scan(&outcome, &a.Transaction, &a.Message)
	a.Outcome = operation.ParseOutcome(outcome)
	return a, err
}

// saveCalls saves the provider calls of a settlement that came too late: another node has
// settled the operation, or holds it now.
func saveCalls(batch *pgx.Batch, op operation.Operation, s operation.Settlement) {
	if s.AlreadyApplied(op) {
		return // they were saved the first time
	}
	for _, e := range s.LateExceptions(op) {
		raiseException(batch, e)
	}
	writeCalls(batch, callsOf(s.OperationID, s.Node, s.Calls))
}

// settle queues everything that settlements write. All writes lock rows in the same order:
// operations, subscribers, wallets. Operations need no order among themselves: each has
// one owner, and a former owner finds another epoch without waiting.
func settle(batch *pgx.Batch, all []pendingSettlement) {
	moveOperations(batch, all)
	var confirmed, refunded []pendingSettlement
	var subscribers []string
	var operators []int64
	var calls []callRow
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
	lockFirst := len(refunded) > 0 && len(subscribers) > 1
	if lockFirst {
		lockSubscribers(batch, subscribers)
	}
	extendSubscriptions(batch, confirmed)
	for _, s := range refunded {
		releaseSubscriber(batch, s)
	}
	if lockFirst {
		lockWallets(batch, operators)
	}
	charge(batch, confirmed)
	for _, s := range refunded {
		refund(batch, s)
	}
	writeCalls(batch, calls)
	writeEvents(batch, column(all, func(s pendingSettlement) event {
		return event{s.before.ID, s.before.State, s.To, s.Epoch, s.Node, s.Actor, s.Why, s.At.UnixMilli()}
	}))
}
