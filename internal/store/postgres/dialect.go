package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

var (
	_ admin.Store      = (*DB)(nil)
	_ bulk.Store       = (*DB)(nil)
	_ catalogue.Store  = (*DB)(nil)
	_ login.Store      = (*DB)(nil)
	_ report.Store     = (*DB)(nil)
	_ requestlog.Store = (*DB)(nil)
)

// sqlEngine runs the statements of sqlstore.
type sqlEngine struct{ db *DB }

func (e sqlEngine) Write(ctx context.Context, run func(sqlstore.Tx) error) error {
	return e.db.do(ctx, func(tx *tx) error { return run(tx) })
}

func (e sqlEngine) Read(ctx context.Context) sqlstore.Querier { return e.db.read(ctx) }

func (e sqlEngine) Lookup(ctx context.Context) sqlstore.RowQuerier { return e.db.read(ctx) }

func (e sqlEngine) Snapshot(ctx context.Context, read func(sqlstore.Querier) error) error {
	return e.db.snapshot(ctx, read)
}

// Page makes the planner read in the order of an index. A generic plan does not know the
// LIMIT of a page, and might read and sort all rows.
func (e sqlEngine) Page(ctx context.Context, read func(sqlstore.Querier) error) error {
	return e.db.snapshot(ctx, func(from sqlstore.Querier) error {
		var sorts, bitmaps string
		if err := from.QueryRow(`SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)`).Scan(&sorts, &bitmaps); err != nil {
			return fmt.Errorf("read a page in order: %w", err)
		}
		return read(from)
	})
}

func (e sqlEngine) SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error) {
	return e.db.SubscriptionOf(ctx, operatorID, id, mobile)
}

func (e sqlEngine) UseKeys(keys *integrity.Keys) { e.db.keys.Store(keys) }

func (e sqlEngine) IsDuplicate(err error) bool { return violates(err) }

// dialect is the SQL of sqlstore that is specific to PostgreSQL.
var dialect = &sqlstore.Dialect{
	OrderedJoin: `JOIN`,
	// id + 0 keeps the planner from scanning the whole log in the order of the primary key.
	ActionOrder: `id + 0`,
	VoucherIs:   `right(reason, 22) = $1 AND left(right(reason, 22), 9) = '(voucher '`,
	ChainEnd:    `SELECT last_id, head, mac FROM staff_chain FOR NO KEY UPDATE`,
	InsertAction: `
		WITH chained AS (UPDATE staff_chain SET last_id = $1, head = $10, mac = $12, mac_id = $1)
		INSERT INTO staff_acts (id, operator_id, actor, action, subject, before_state, after_state, reason, at, hash, origin, mac, mac_key)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
	LatestPlanName: `(array_agg(o.plan_name ORDER BY l.line DESC))[1]`,
	Refused:        `refused`,
	// OFFSET 0 keeps the planner from reading all subscribers first.
	JoinSubscribers: ` CROSS JOIN LATERAL (
		       SELECT b.id, b.operator_id, b.mobile, b.name, b.area, b.address, b.box_number, b.expires_at FROM subscribers b WHERE b.id = t.subscriber_id OFFSET 0) s`,
	// Without a LIMIT the planner would read all open operations of all operators.
	CurrentPlan: `
		  LEFT JOIN plans p ON p.id = (
		       SELECT (array_agg(c.plan_id ORDER BY c.starts_at DESC, c.seq DESC))[1] FROM cycles c WHERE c.subscriber_id = s.id AND c.starts_at <= ?)
		  LEFT JOIN LATERAL (
		       SELECT n.id, n.status FROM operations n WHERE n.subscriber_id = s.id AND n.status IN ('processing', 'needs_review') LIMIT 1) o ON true`,
	LiveNodes: liveNodes,
	LockTable: func(tx sqlstore.Tx, table string) error {
		_, err := tx.Exec(`LOCK TABLE ` + table + ` IN SHARE ROW EXCLUSIVE MODE`)
		return err
	},
	LockMaintenance: lockMaintenance,
	ChainStarted:    startChain,
	SettleReview:    settleReview,
	TakeBulkRows:    takeBulkRows,
}

// startChain also fills in the references that an older binary has credited since the
// store was opened: after this commit older binaries cannot write staff actions, and so
// cannot credit wallets.
func startChain(tx sqlstore.Tx, mac []byte) error {
	if _, err := tx.Exec(`UPDATE staff_chain SET mac = $1, mac_id = last_id`, mac); err != nil {
		return err
	}
	return fillLastReferences(tx)
}

func settleReview(t sqlstore.Tx, before operation.Operation, s operation.Settlement) (operation.Operation, error) {
	if !s.AppliesTo(before) {
		return before, fmt.Errorf("operation %s cannot be settled under its current epoch", before.ID)
	}
	rows, err := t.Query(definiteReplies, before.ID)
	replies, err := sqlstore.Collect(rows, err, readReply)
	if err != nil {
		return before, fmt.Errorf("read the provider's replies for %s: %w", before.ID, err)
	}
	batch := &pgx.Batch{}
	settle(batch, []pendingSettlement{{s, before}})
	op := s.Apply(before)
	for _, e := range s.ReplyExceptions(op, replies) {
		raiseException(batch, e)
	}
	if err := t.(*tx).send(batch); err != nil {
		return op, fmt.Errorf("settle %s: %w", before.ID, err)
	}
	return op, nil
}

// takeBulkRows needs one statement: the job's row is locked until the commit, so that no
// other node takes any of them.
func takeBulkRows(tx sqlstore.Tx, h bulk.Lease, condition string, limit int) ([]bulk.Row, error) {
	rows, err := tx.Query(`
		UPDATE bulk_rows SET state = 'running', epoch = $3, begun_at = coalesce(begun_at, $5)
		 WHERE operator_id = $1 AND job_id = $2
		   AND number = ANY (ARRAY(SELECT number FROM bulk_rows WHERE operator_id = $1 AND job_id = $2 AND `+condition+` ORDER BY number LIMIT $4))
		RETURNING `+sqlstore.BulkRowColumns, h.OperatorID, h.JobID, h.Epoch, limit, h.Now.UnixMilli())
	return sqlstore.Collect(rows, err, sqlstore.ReadBulkRow)
}
