package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// snapshotItem is one query that waits for a batch.
type snapshotItem = item[operation.SnapshotQuery, snapshotResult]

// snapshotResult is a snapshot; found is false if there is no such operator.
type snapshotResult struct {
	snapshot operation.Snapshot
	found    bool
}

func snapshotOperator(q operation.SnapshotQuery) int64 { return q.OperatorID }

// Snapshot reads everything that a request is checked against, in one statement that
// starts after the call. Renewals come in bursts, and share the statement.
func (db *DB) Snapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	if q.Kind == operation.Activate {
		return db.activationSnapshot(ctx, q)
	}
	got, err := db.snapshots.do(ctx, q)
	if err == nil && !got.found {
		err = fmt.Errorf("there is no operator %d", q.OperatorID)
	}
	if err != nil {
		return operation.Snapshot{}, fmt.Errorf("read the snapshot: %w", err)
	}
	return got.snapshot, nil
}

// snapshotColumns are what every request is checked against: the balance of a wallet w,
// the operation of a query q's idempotency key, the offer of a plan p, a subscriber s.
//
// The key is searched as the first one in the order of (operator_id, idempotency_key),
// which only the index on both has. With a plain comparison a server that has no statistics
// yet may scan all operations of the operator. An adopted operation is found by an index
// of its own, which is nearly always empty.
const snapshotColumns = `w.balance_paise, EXISTS (SELECT FROM maintenance m WHERE m.one = 1),
	coalesce((SELECT k.id
	   FROM (SELECT o.id, o.operator_id, o.idempotency_key FROM operations o
	          WHERE (o.operator_id, o.idempotency_key) >= (q.operator_id, q.idempotency_key COLLATE "C")
	          ORDER BY o.operator_id, o.idempotency_key LIMIT 1) AS k
	  WHERE k.operator_id = q.operator_id AND k.idempotency_key = q.idempotency_key COLLATE "C"),
	  (SELECT a.id FROM operations a
	    WHERE a.carried_out_at IS NOT NULL AND a.operator_id = q.operator_id
	      AND a.idempotency_key = ANY (string_to_array(q.adopted_keys, ' ') COLLATE "C") LIMIT 1)),
	(SELECT v.verified_at FROM catalogue_comparisons v WHERE v.provider = q.provider COLLATE "C"),
	` + offerColumns + `, ` + subscriberColumns

// nullableSnapshot is scanned from snapshotColumns.
type nullableSnapshot struct {
	balance     int64
	maintenance bool
	known       sql.NullString
	verified    sql.NullInt64
	plan        nullablePlan
	subscriber  nullableSubscriber
}

func (p *nullableSnapshot) targets() []any {
	targets := append([]any{&p.balance, &p.maintenance, &p.known, &p.verified}, p.plan.targets()...)
	return append(targets, p.subscriber.targets()...)
}

// found returns the snapshot: only the operation if the key is known, and nothing else in
// maintenance mode.
func (p *nullableSnapshot) found() (snapshot operation.Snapshot, fresh bool) {
	if p.known.Valid {
		return operation.Snapshot{KnownID: p.known.String}, false
	}
	if p.maintenance {
		return operation.Snapshot{Maintenance: true}, false
	}
	snapshot.Offer.Plan, snapshot.Offer.Sellable = p.plan.found()
	snapshot.Offer.VerifiedAt = sqlstore.Time(p.verified)
	snapshot.Balance, snapshot.Subscriber = money.Paise(p.balance), p.subscriber.found()
	return snapshot, true
}

var queryColumns = columns[*snapshotItem]{
	intColumn("operator_id", func(q *snapshotItem) int64 { return q.request.OperatorID }),
	textColumn("subscriber_id", func(q *snapshotItem) string { return q.request.SubscriberID }),
	textColumn("mobile", func(q *snapshotItem) string { return q.request.Mobile }),
	textColumn("plan_id", func(q *snapshotItem) string { return q.request.PlanID }),
	timeColumn("duplicates_since", func(q *snapshotItem) time.Time { return q.request.DuplicatesSince }),
	textColumn("idempotency_key", func(q *snapshotItem) string { return q.request.IdempotencyKey }),
	textColumn("provider", func(q *snapshotItem) string { return q.request.Provider }),
	textColumn("adopted_keys", func(q *snapshotItem) string { return strings.Join(q.request.AdoptedKeys, " ") }),
	boolColumn("in_advance", func(q *snapshotItem) bool { return q.request.Kind == operation.AdvanceRenew }),
}

var selectSnapshots = `
	SELECT q.n, ` + snapshotColumns + `,
	       (SELECT o.id FROM operations o
	         WHERE o.subscriber_id = s.id AND o.plan_id = q.plan_id COLLATE "C" AND o.completed_at > q.duplicates_since
	           AND o.status = 'success' AND o.kind IN ('renew', 'advance_renew') AND o.reversed_at IS NULL
	         ORDER BY o.completed_at DESC LIMIT 1),
	       CASE WHEN q.in_advance THEN ` + subscriberCycles + ` END
	  FROM ` + unnest(1, queryColumns) + ` WITH ORDINALITY AS q (` + names(queryColumns) + `, n)
	  JOIN wallets w ON w.operator_id = q.operator_id
	  LEFT JOIN LATERAL (` + sqlstore.Sellable + ` AND p.id = q.plan_id COLLATE "C") AS p ON true
	  LEFT JOIN subscribers s ON s.operator_id = q.operator_id
	       AND s.id = coalesce(nullif(q.subscriber_id, ''), (SELECT m.id FROM subscribers m WHERE m.mobile = q.mobile COLLATE "C")) COLLATE "C"`

// readSnapshots reads the snapshots of renewals, of the operator's own subscribers, by id
// or else by mobile number.
func readSnapshots(from sqlstore.Querier, all []*snapshotItem) error {
	rows, err := from.Query(selectSnapshots, queryColumns.args(all)...)
	for _, e := range all {
		e.result = snapshotResult{} // a batch may run again
	}
	_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
		var n int64
		var snapshot nullableSnapshot
		var duplicate sql.NullString
		var cycles nullableCycles
		err := row.Scan(append(append([]any{&n}, snapshot.targets()...), &duplicate, &cycles)...)
		if err == nil {
			got, fresh := snapshot.found()
			if fresh {
				got.Duplicate, got.Cycles = duplicate.String, cycles.found()
			}
			all[n-1].result = snapshotResult{got, true}
		}
		return struct{}{}, err
	})
	return err
}

// activationSnapshot reads the snapshot of an activation, after releasing its mobile
// number or id if it belongs to a subscriber of an operator that was deleted long ago.
func (db *DB) activationSnapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	snapshot, err := db.readActivation(ctx, q)
	if err != nil || snapshot.KnownID != "" || snapshot.Subscriber == nil && (q.SubscriberID == "" || snapshot.FreeID == q.SubscriberID) {
		return snapshot, err
	}
	if released, err := db.ReleaseLapsed(ctx, []subscription.Claim{{Mobile: q.Mobile, SubscriberID: q.SubscriberID}}, q.Now); err != nil || released == 0 {
		return snapshot, err
	}
	return db.readActivation(ctx, q)
}

// readActivation reads the snapshot of an activation, with the subscriber that has the
// mobile number, of any operator: the number is unique in the service.
func (db *DB) readActivation(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	var row nullableSnapshot
	var free sql.NullString
	err := db.read(ctx).QueryRow(`
		SELECT `+snapshotColumns+`,
		       (SELECT c.id FROM unnest($3::text[]) WITH ORDINALITY AS c (id, n)
		         WHERE NOT EXISTS (SELECT 1 FROM subscribers x WHERE x.id = c.id COLLATE "C") ORDER BY c.n LIMIT 1)
		  FROM (SELECT $1::bigint AS operator_id, $5::text AS idempotency_key, $6::text AS provider, $7::text AS adopted_keys) AS q
		  JOIN wallets w ON w.operator_id = q.operator_id
		  LEFT JOIN (`+sqlstore.Sellable+` AND p.id = $4) AS p ON true
		  LEFT JOIN subscribers s ON s.mobile = $2`,
		q.OperatorID, q.Mobile, slices.Collect(db.ids.Candidates(q.SubscriberID)), q.PlanID, q.IdempotencyKey, q.Provider,
		strings.Join(q.AdoptedKeys, " "),
	).Scan(append(row.targets(), &free)...)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("there is no operator %d", q.OperatorID)
	}
	if err != nil {
		return operation.Snapshot{}, fmt.Errorf("read the snapshot: %w", err)
	}
	snapshot, fresh := row.found()
	switch {
	case !fresh || snapshot.Subscriber != nil:
	case free.Valid:
		snapshot.FreeID = free.String
	default:
		snapshot.FreeID, err = db.ids.Search(idRecords{db.read(ctx)})
	}
	return snapshot, err
}
