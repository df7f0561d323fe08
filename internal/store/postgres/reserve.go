package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

const maxReservations = 128

// reserving is one draft that waits to be made true.
type reserving = entrant[operation.Draft, operation.Operation]

func (db *DB) openReservation(observe Observer) {
	db.reservations = openLane(laneOptions[operation.Draft, operation.Operation]{
		observe: observe, baton: db.committing, most: unlessBreakable(maxReservations), locks: db.locks,
		operator: func(d operation.Draft) int64 { return d.OperatorID },
		together: db.reserveTogether,
	})
}

// unlessBreakable is how many facts may share a transaction that has a crash point
// inside: where turns can break, each fact passes its own.
func unlessBreakable(most int) int {
	if failpoint.Enabled {
		return 1
	}
	return most
}

// Reserve makes a draft true as a whole, in one round trip that it shares with
// whoever else is reserving. Each thing it rests on is a guard of its own: the
// unique key, the subscriber's version, the one open operation, the plan's
// version, the balance, maintenance mode being off. Where one does not hold, the
// server undoes the whole, the neighbours with it; then each operator's drafts are
// made true, or refused, by themselves.
func (db *DB) Reserve(ctx context.Context, d operation.Draft) (operation.Operation, error) {
	op, err := db.reservations.through(ctx, d)
	if moved(err) {
		return operation.Operation{}, operation.ErrMoved
	}
	if err != nil {
		return operation.Operation{}, fmt.Errorf("reserve: %w", err)
	}
	return op, nil
}

// reserveTogether carries a batch through one transaction. Rows are locked in the
// order that every fact keeps: plans, subscribers, wallets, and each kind by its
// keys, so that batches of several nodes wait for each other and never in a circle.
func (db *DB) reserveTogether(all []*reserving, lockTimeout time.Duration) error {
	return db.pipelined(context.Background(), lockTimeout, func(p *pipe) error {
		drafts := column(all, func(r *reserving) *operation.Draft { return &r.asks })
		var known, fresh []*operation.Draft
		for _, d := range drafts {
			if d.Kind == operation.Activate {
				fresh = append(fresh, d)
			} else {
				known = append(known, d)
			}
		}
		batch := &pgx.Batch{}
		guardMaintenance(batch)
		guardPlans(batch, drafts)
		addCustomers(batch, fresh)
		claimCustomers(batch, known)
		record(batch, drafts, all)
		return p.commitAt(batch, func() error { return failpoint.Hit("R.in") })
	})
}

// guardPlans holds if the plans are still those that the drafts were priced from,
// and keeps them so until the commit.
func guardPlans(batch *pgx.Batch, drafts []*operation.Draft) {
	type plan struct {
		id      string
		version int64
	}
	seen := map[plan]bool{}
	var ids []string
	var versions []int64
	for _, d := range drafts {
		if p := (plan{d.PlanID, d.PlanVersion}); !seen[p] {
			seen[p] = true
			ids, versions = append(ids, p.id), append(versions, p.version)
		}
	}
	batch.Queue(guarded(`
		SELECT FROM plans p JOIN unnest($1::text[], $2::bigint[]) AS v (id, version) ON p.id = v.id COLLATE "C" AND p.version = v.version
		 WHERE p.retired = 0
		 ORDER BY p.id
		   FOR SHARE OF p`), ids, versions)
}

// addCustomers writes the new subscribers, whose numbers and ids must be free.
func addCustomers(batch *pgx.Batch, drafts []*operation.Draft) {
	if len(drafts) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO subscribers (id, operator_id, mobile, name, email, address, connection_type, created_at)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[]) AS v (id, operator_id, mobile)
		 ORDER BY v.mobile`,
		column(drafts, func(d *operation.Draft) string { return d.SubscriberID }),
		column(drafts, func(d *operation.Draft) int64 { return d.OperatorID }),
		column(drafts, func(d *operation.Draft) string { return d.Mobile }),
		column(drafts, func(d *operation.Draft) string { return d.CustomerName }),
		column(drafts, func(d *operation.Draft) string { return d.Profile.Email }),
		column(drafts, func(d *operation.Draft) string { return d.Profile.Address }),
		column(drafts, func(d *operation.Draft) string { return d.Profile.ConnectionType }),
		column(drafts, func(d *operation.Draft) int64 { return d.CreatedAt.UnixMilli() }))
}

// claimCustomers takes the known subscribers, who must be as the drafts saw them.
// That no other operation of theirs is open is the operations' own unique index.
func claimCustomers(batch *pgx.Batch, drafts []*operation.Draft) {
	if len(drafts) == 0 {
		return
	}
	drafts = bySubscriber(drafts, func(d *operation.Draft) string { return d.SubscriberID })
	batch.Queue(`
		WITH claimed AS (
		     UPDATE subscribers s SET version = s.version + 1
		       FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS v (id, operator_id, version)
		      WHERE s.id = v.id COLLATE "C" AND s.operator_id = v.operator_id AND s.version = v.version
		     RETURNING s.id)
		`+guarded(`SELECT FROM claimed`),
		column(drafts, func(d *operation.Draft) string { return d.SubscriberID }),
		column(drafts, func(d *operation.Draft) int64 { return d.OperatorID }),
		column(drafts, func(d *operation.Draft) int64 { return d.SubscriberVersion }))
}

// record takes the prices from the wallets and writes what follows from it: the
// operations, the entries, the events. A balance is checked in the WHERE clause,
// not read first: two requests that both saw enough money must not both spend it.
// The rate of a commission is the operator's at this moment.
func record(batch *pgx.Batch, drafts []*operation.Draft, all []*reserving) {
	sums, turns := purses(drafts, func(d *operation.Draft) (int64, int64) { return d.OperatorID, d.Amount.Paise() })
	batch.Queue(`
		WITH debited AS (
		     UPDATE wallets w SET balance_paise = w.balance_paise - v.paise, entries = w.entries + v.facts
		       FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (operator_id, paise, facts)
		       JOIN operators o ON o.id = v.operator_id
		      WHERE w.operator_id = v.operator_id AND w.balance_paise >= v.paise
		     RETURNING w.operator_id, w.balance_paise, w.entries, o.commission_bps),
		purses AS (
		     SELECT array_agg(balance_paise ORDER BY operator_id) AS balances, array_agg(entries ORDER BY operator_id) AS entries,
		            array_agg(commission_bps ORDER BY operator_id) AS rates, count(*) AS debited
		       FROM debited),
		drafts AS (
		     SELECT d.*, p.balances[d.purse] + d.later_paise AS balance_after, p.entries[d.purse] - d.later AS seq, p.rates[d.purse] AS commission_bps
		       FROM purses p, unnest($4::text[], $5::bigint[], $6::text[], $7::bytea[], $8::bigint[], $9::text[], $10::text[], $11::text[],
		                   $12::text[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::text[], $18::bigint[], $19::text[], $20::text[],
		                   $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[],
		                   $25::bigint[], $26::text[], $27::bigint[], $28::text[], $29::text[], $30::bigint[], $31::bigint[], $32::bigint[], $33::bigint[])
		         AS d (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		               subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, addon,
		               amount_paise, expiry_previous, expiry_planned, cycle_starts_at,
		               epoch, node, lease_until, addon_status, provider, created_at, purse, later, later_paise)),
		recorded AS (
		     INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		            subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, addon,
		            amount_paise, commission_bps, wallet_before_paise, expiry_previous, expiry_planned, cycle_starts_at,
		            status, epoch, node, lease_until, addon_status, provider, created_at)
		     SELECT id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		            subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, addon,
		            amount_paise, commission_bps, balance_after + amount_paise, expiry_previous, expiry_planned, cycle_starts_at,
		            'processing', epoch, node, lease_until, addon_status, provider, created_at
		       FROM drafts),
		entered AS (
		     INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		     SELECT operator_id, seq, 'reserve', -amount_paise, balance_after, id, actor, created_at FROM drafts),
		happened AS (
		     INSERT INTO operation_events (operation_id, seq, to_status, epoch, node, actor, reason, at)
		     SELECT id, 1, 'processing', epoch, node, actor, 'reserved', created_at FROM drafts)
		SELECT balances, rates, 1 / (debited = cardinality($1))::int FROM purses`,
		column(sums, func(p purse) int64 { return p.operatorID }),
		column(sums, func(p purse) int64 { return p.paise }),
		column(sums, func(p purse) int64 { return p.facts }),
		column(drafts, func(d *operation.Draft) string { return d.ID }),
		column(drafts, func(d *operation.Draft) int64 { return d.OperatorID }),
		column(drafts, func(d *operation.Draft) string { return d.IdempotencyKey }),
		column(drafts, func(d *operation.Draft) []byte { return d.Fingerprint.Sum }),
		column(drafts, func(d *operation.Draft) int64 { return int64(d.Fingerprint.KeyID) }),
		column(drafts, func(d *operation.Draft) string { return string(d.Kind) }),
		column(drafts, func(d *operation.Draft) string { return string(d.Channel) }),
		column(drafts, func(d *operation.Draft) string { return d.Actor }),
		column(drafts, func(d *operation.Draft) string { return d.SubscriberID }),
		column(drafts, func(d *operation.Draft) string { return d.CustomerName }),
		column(drafts, func(d *operation.Draft) string { return d.Mobile }),
		column(drafts, func(d *operation.Draft) string { return d.PlanID }),
		column(drafts, func(d *operation.Draft) int64 { return d.PlanVersion }),
		column(drafts, func(d *operation.Draft) string { return d.PlanName }),
		column(drafts, func(d *operation.Draft) int64 { return int64(d.PlanMonths) }),
		column(drafts, func(d *operation.Draft) string { return d.Main }),
		column(drafts, func(d *operation.Draft) *string { return possibleText(d.Addon) }),
		column(drafts, func(d *operation.Draft) int64 { return d.Amount.Paise() }),
		column(drafts, func(d *operation.Draft) *int64 { return possibleMillis(d.ExpiryPrevious) }),
		column(drafts, func(d *operation.Draft) int64 { return d.ExpiryPlanned.UnixMilli() }),
		column(drafts, func(d *operation.Draft) int64 { return d.CycleStartsAt.UnixMilli() }),
		column(drafts, func(d *operation.Draft) int64 { return d.Epoch }),
		column(drafts, func(d *operation.Draft) string { return d.Node }),
		column(drafts, func(d *operation.Draft) *int64 { return possibleMillis(d.LeaseUntil) }),
		column(drafts, func(d *operation.Draft) *string { return possibleText(string(d.AddonState)) }),
		column(drafts, func(d *operation.Draft) string { return d.Provider }),
		column(drafts, func(d *operation.Draft) int64 { return d.CreatedAt.UnixMilli() }),
		column(turns, func(t turn) int64 { return t.purse }),
		column(turns, func(t turn) int64 { return t.later }),
		column(turns, func(t turn) int64 { return t.laterPaise }),
	).QueryRow(func(row pgx.Row) error { return readReserved(row, all, turns) })
}

// readReserved gives each draft of a batch what became of it: its wallet has come
// to the balance that it has after all of them, and the later ones took theirs
// after this one.
func readReserved(row scanner, all []*reserving, turns []turn) error {
	var balances, rates []int64
	var guard int64
	if err := row.Scan(&balances, &rates, &guard); err != nil {
		return err
	}
	for i, r := range all {
		n := turns[i].purse - 1
		r.gets = r.asks.Operation
		r.gets.CommissionBPS = int(rates[n])
		r.gets.WalletBefore = money.Paise(balances[n] + turns[i].laterPaise).Add(r.asks.Amount)
	}
	return nil
}

func textOrNull(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }
