package sqlite

import (
	"context"
	"fmt"
	"regexp"
	"strings"

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
	return e.db.writer.do(ctx, func(tx *tx) error { return run(tx) })
}

func (e sqlEngine) Read(ctx context.Context) sqlstore.Querier { return e.db.read(ctx) }

func (e sqlEngine) Lookup(ctx context.Context) sqlstore.RowQuerier { return e.db.lookUpRow(ctx) }

func (e sqlEngine) Snapshot(ctx context.Context, read func(sqlstore.Querier) error) error {
	return e.db.snapshot(ctx, read)
}

func (e sqlEngine) Page(ctx context.Context, read func(sqlstore.Querier) error) error {
	return read(e.db.read(ctx))
}

func (e sqlEngine) SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error) {
	return e.db.SubscriptionOf(ctx, operatorID, id, mobile)
}

func (e sqlEngine) UseKeys(keys *integrity.Keys) { e.db.writer.tx.keys.Store(keys) }

func (e sqlEngine) IsDuplicate(err error) bool { return violates(err) }

// dialect is the SQL of sqlstore that is specific to SQLite. There is one writer, so
// nothing has to be locked.
var dialect = &sqlstore.Dialect{
	OrderedJoin: `CROSS JOIN`,
	ActionOrder: `id`,
	VoucherIs:   `substr(reason, -22) = $1 AND substr(reason, -22, 9) = '(voucher '`,
	ChainEnd:    `SELECT id, hash, mac FROM staff_acts ORDER BY id DESC LIMIT 1`,
	InsertAction: `
		INSERT INTO staff_acts (id, operator_id, actor, action, subject, before_state, after_state, reason, at, hash, origin, mac, mac_key)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
	LatestPlanName:  `o.plan_name`, // SQLite takes it from the row of the max() in the same SELECT
	Refused:         `refused = 1`,
	JoinSubscribers: ` CROSS JOIN subscribers s ON s.id = t.subscriber_id`,
	CurrentPlan: `
		  LEFT JOIN plans p ON p.id = (
		       SELECT c.plan_id FROM cycles c WHERE c.subscriber_id = s.id AND c.starts_at <= ? ORDER BY c.starts_at DESC, c.seq DESC LIMIT 1)
		  LEFT JOIN operations o ON o.subscriber_id = s.id AND o.status IN ('processing', 'needs_review')`,
	OneNode:         true,
	LockTable:       func(sqlstore.Tx, string) error { return nil },
	LockMaintenance: func(sqlstore.Tx) error { return nil },
	ChainStarted:    func(sqlstore.Tx, []byte) error { return nil },
	SettleReview:    settleReview,
	TakeBulkRows:    takeBulkRows,
}

var (
	parameters   = regexp.MustCompile(`\$([0-9]+)`)
	arrays       = regexp.MustCompile(`= ANY \((\?[0-9]+)\)`)
	postgresOnly = regexp.MustCompile("::(bigint|boolean|bytea|int|text)(\\[\\])?| COLLATE \"C\"|\\s+FOR (NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)( OF \\w+)?( SKIP LOCKED)?")
	functions    = strings.NewReplacer("strpos(", "instr(", "greatest(", "max(")
)

// translate rewrites a statement of sqlstore for SQLite when it is prepared: parameters,
// arrays, and the names of functions. It removes what only PostgreSQL needs: casts of
// parameters, COLLATE "C", which is SQLite's default, and row locks.
func translate(query string) string {
	query = postgresOnly.ReplaceAllLiteralString(query, "")
	query = parameters.ReplaceAllString(query, "?$1")
	query = arrays.ReplaceAllString(query, "IN (SELECT value FROM json_each($1))")
	return functions.Replace(query)
}

func settleReview(t sqlstore.Tx, before operation.Operation, s operation.Settlement) (operation.Operation, error) {
	op, settled, err := settle(t.(*tx), before, s)
	if err == nil && !settled {
		err = fmt.Errorf("operation %s was not settled under its current epoch", before.ID)
	}
	return op, err
}

// takeBulkRows changes the rows one by one: a statement that changes and returns several
// would build a table for them.
func takeBulkRows(tx sqlstore.Tx, h bulk.Lease, condition string, limit int) (taken []bulk.Row, err error) {
	rows, err := tx.Query(`
		SELECT number FROM bulk_rows
		 WHERE operator_id = $1 AND job_id = $2 AND `+condition+` ORDER BY number LIMIT $4`, h.OperatorID, h.JobID, h.Epoch, limit)
	numbers, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (number int, err error) {
		err = row.Scan(&number)
		return number, err
	})
	if err != nil {
		return nil, err
	}
	for _, number := range numbers {
		row, err := sqlstore.ReadBulkRow(tx.QueryRow(`
			UPDATE bulk_rows SET state = 'running', epoch = $4, begun_at = coalesce(begun_at, $5)
			 WHERE operator_id = $1 AND job_id = $2 AND number = $3
			RETURNING `+sqlstore.BulkRowColumns, h.OperatorID, h.JobID, number, h.Epoch, h.Now.UnixMilli()))
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", number, err)
		}
		taken = append(taken, row)
	}
	return taken, nil
}
