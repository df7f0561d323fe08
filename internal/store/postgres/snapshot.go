package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

const maxQuestions = 128

// questioning is one question that waits to be answered.
type questioning = entrant[operation.SnapshotQuery, answered]

// answered is what there is to a question; found, if there is such an operator.
type answered struct {
	facts operation.Snapshot
	found bool
}

func (db *DB) openFacts() {
	db.questions = openLane(laneOptions[operation.SnapshotQuery, answered]{
		most: maxQuestions, locks: db.locks, fleeting: true, // nothing comes of a question
		operator: func(q operation.SnapshotQuery) int64 { return q.OperatorID },
		// A read waits for no row, only for a migration that has the table.
		together: func(all []*questioning, _ time.Duration) error { return db.answerTogether(all) },
	})
}

// Snapshot reads what a request is judged on, in one statement and so at one moment,
// which comes after the question. Renewals come in bursts, and share the statement.
func (db *DB) Snapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	if q.Kind == operation.Activate {
		return db.activationFacts(ctx, q)
	}
	got, err := db.questions.through(ctx, q)
	if err == nil && !got.found {
		err = fmt.Errorf("there is no operator %d", q.OperatorID)
	}
	if err != nil {
		return operation.Snapshot{}, fmt.Errorf("read the facts: %w", err)
	}
	return got.facts, nil
}

// factColumns are what every request is judged on: the balance of a wallet w, what
// the key of a question q stands for, the offer of a plan p, a subscriber s.
//
// The key is looked for as the first one from there on, because only the index of
// keys has them in order. Asked for plainly, a server that knows little of the table
// yet as soon goes through all operations of the operator.
const factColumns = `w.balance_paise, EXISTS (SELECT FROM maintenance m WHERE m.one = 1),
	(SELECT k.id
	   FROM (SELECT o.id, o.operator_id, o.idempotency_key FROM operations o
	          WHERE (o.operator_id, o.idempotency_key) >= (q.operator_id, q.idempotency_key COLLATE "C")
	          ORDER BY o.operator_id, o.idempotency_key LIMIT 1) AS k
	  WHERE k.operator_id = q.operator_id AND k.idempotency_key = q.idempotency_key COLLATE "C"),
	(SELECT v.verified_at FROM catalogue_comparisons v WHERE v.provider = q.provider COLLATE "C"),
	` + offerColumns + `, ` + subscriberColumns

// possibleFacts is read by factColumns.
type possibleFacts struct {
	balance    int64
	stopped    bool // for maintenance
	known      sql.NullString
	verified   sql.NullInt64
	plan       possiblePlan
	subscriber possibleSubscriber
}

func (p *possibleFacts) targets() []any {
	targets := append([]any{&p.balance, &p.stopped, &p.known, &p.verified}, p.plan.targets()...)
	return append(targets, p.subscriber.targets()...)
}

// found is what was read; nothing but the operation, where the key is known, and
// nothing else in maintenance.
func (p *possibleFacts) found() (facts operation.Snapshot, fresh bool) {
	if p.known.Valid {
		return operation.Snapshot{KnownID: p.known.String}, false
	}
	if p.stopped {
		return operation.Snapshot{Maintenance: true}, false
	}
	facts.Offer.Plan, facts.Offer.Sellable = p.plan.found()
	facts.Offer.VerifiedAt = sqlstore.Time(p.verified)
	facts.Balance, facts.Subscriber = money.Paise(p.balance), p.subscriber.found()
	return facts, true
}

// answerTogether reads the facts of renewals: of the operator's own subscribers, by
// id or else by number.
func (db *DB) answerTogether(all []*questioning) error {
	questions := column(all, func(q *questioning) operation.SnapshotQuery { return q.asks })
	return db.repeat(context.Background(), func(conn *pgxpool.Conn) error {
		working, cancel := context.WithTimeout(context.Background(), statementTimeout)
		defer cancel()
		rows, err := conn.Query(working, `
			SELECT q.n, `+factColumns+`,
			       (SELECT o.id FROM operations o
			         WHERE o.subscriber_id = s.id AND o.plan_id = q.plan_id COLLATE "C" AND o.completed_at > q.duplicates_since
			           AND o.status = 'success' AND o.kind IN ('renew', 'advance_renew')
			         ORDER BY o.completed_at DESC LIMIT 1),
			       CASE WHEN q.in_advance THEN `+subscriberCycles+` END
			  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::boolean[]) WITH ORDINALITY
			    AS q (operator_id, subscriber_id, mobile, plan_id, duplicates_since, idempotency_key, provider, in_advance, n)
			  JOIN wallets w ON w.operator_id = q.operator_id
			  LEFT JOIN LATERAL (`+sqlstore.Sellable+` AND p.id = q.plan_id COLLATE "C") AS p ON true
			  LEFT JOIN subscribers s ON s.operator_id = q.operator_id
			       AND s.id = coalesce(nullif(q.subscriber_id, ''), (SELECT m.id FROM subscribers m WHERE m.mobile = q.mobile COLLATE "C")) COLLATE "C"`,
			column(questions, func(q operation.SnapshotQuery) int64 { return q.OperatorID }),
			column(questions, func(q operation.SnapshotQuery) string { return q.SubscriberID }),
			column(questions, func(q operation.SnapshotQuery) string { return q.Mobile }),
			column(questions, func(q operation.SnapshotQuery) string { return q.PlanID }),
			column(questions, func(q operation.SnapshotQuery) int64 { return q.DuplicatesSince.UnixMilli() }),
			column(questions, func(q operation.SnapshotQuery) string { return q.IdempotencyKey }),
			column(questions, func(q operation.SnapshotQuery) string { return q.Provider }),
			column(questions, func(q operation.SnapshotQuery) bool { return q.Kind == operation.AdvanceRenew }))
		_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
			var n int64
			var facts possibleFacts
			var duplicate sql.NullString
			var cycles possibleCycles
			err := row.Scan(append(append([]any{&n}, facts.targets()...), &duplicate, &cycles)...)
			if err == nil {
				got, fresh := facts.found()
				if fresh {
					got.Duplicate, got.Cycles = duplicate.String, cycles.found()
				}
				all[n-1].gets = answered{got, true}
			}
			return struct{}{}, err
		})
		return err
	})
}

// activationFacts reads the facts of an activation, after releasing the number or the
// id that it wants if only a deleted operator's subscriber has it, and no longer may.
func (db *DB) activationFacts(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	facts, err := db.factsOfActivation(ctx, q)
	if err != nil || facts.KnownID != "" || facts.Subscriber == nil && (q.SubscriberID == "" || facts.FreeID == q.SubscriberID) {
		return facts, err
	}
	if released, err := db.ReleaseLapsed(ctx, []subscription.Claim{{Mobile: q.Mobile, SubscriberID: q.SubscriberID}}, q.Now); err != nil || released == 0 {
		return facts, err
	}
	return db.factsOfActivation(ctx, q)
}

// factsOfActivation reads the facts of an activation: of whoever has the number, of
// any operator, for it is unique in the service.
func (db *DB) factsOfActivation(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	var possible possibleFacts
	var free sql.NullString
	err := db.read(ctx).QueryRow(`
		SELECT `+factColumns+`,
		       (SELECT c.id FROM unnest($3::text[]) WITH ORDINALITY AS c (id, n)
		         WHERE NOT EXISTS (SELECT 1 FROM subscribers x WHERE x.id = c.id COLLATE "C") ORDER BY c.n LIMIT 1)
		  FROM (SELECT $1::bigint AS operator_id, $5::text AS idempotency_key, $6::text AS provider) AS q
		  JOIN wallets w ON w.operator_id = q.operator_id
		  LEFT JOIN (`+sqlstore.Sellable+` AND p.id = $4) AS p ON true
		  LEFT JOIN subscribers s ON s.mobile = $2`,
		q.OperatorID, q.Mobile, slices.Collect(db.ids.Candidates(q.SubscriberID)), q.PlanID, q.IdempotencyKey, q.Provider,
	).Scan(append(possible.targets(), &free)...)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("there is no operator %d", q.OperatorID)
	}
	if err != nil {
		return operation.Snapshot{}, fmt.Errorf("read the facts: %w", err)
	}
	facts, fresh := possible.found()
	switch {
	case !fresh || facts.Subscriber != nil:
	case free.Valid:
		facts.FreeID = free.String
	default:
		facts.FreeID, err = db.ids.Unguessed(idRecords{db.read(ctx)})
	}
	return facts, err
}
