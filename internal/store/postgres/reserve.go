package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

const maxReservations = 128

// reservationItem is one reservation that waits for a batch.
type reservationItem = item[operation.Draft, operation.Operation]

func (db *DB) openReservation(observe Observer) {
	db.reservations = newBatcher(batcherOptions[operation.Draft, operation.Operation]{
		observe: observe, name: reservations, order: db.commitOrder, maxItems: batchLimit(maxReservations), locks: db.locks,
		operator: func(d operation.Draft) int64 { return d.OperatorID },
		run:      db.reserveBatch,
	})
}

// batchLimit returns how many items may share a transaction that has a failpoint inside: if
// failpoints are built in, each item has its own.
func batchLimit(limit int) int {
	if failpoint.Enabled {
		return 1
	}
	return limit
}

// Reserve commits a draft, in one round trip that it shares with other reservations.
// Everything that the draft depends on is checked by the same statements: the unique
// idempotency key, the subscriber's version, that no other operation is open, the plan's
// version, the balance, and that maintenance mode is off. If a check fails, the server
// rolls the whole batch back; then each operator's drafts are committed or refused
// separately.
func (db *DB) Reserve(ctx context.Context, d operation.Draft) (operation.Operation, error) {
	op, err := db.reservations.do(ctx, d)
	if guardFailed(err) {
		return operation.Operation{}, operation.ErrStale
	}
	if err != nil {
		return operation.Operation{}, fmt.Errorf("reserve: %w", err)
	}
	return op, nil
}

// reserveBatch commits a batch in one transaction. All writes lock rows in the same order:
// plans, subscribers, wallets, and each table by key, so that batches of several nodes do
// not deadlock.
func (db *DB) reserveBatch(all []*reservationItem, lockTimeout time.Duration) error {
	return db.pipelined(context.Background(), lockTimeout, func(p *pipe) error {
		drafts := column(all, func(r *reservationItem) *operation.Draft { return &r.request })
		var existing, activations []*operation.Draft
		for _, d := range drafts {
			if d.Kind == operation.Activate {
				activations = append(activations, d)
			} else {
				existing = append(existing, d)
			}
		}
		batch := &pgx.Batch{}
		guardMaintenance(batch, drafts)
		guardPlans(batch, drafts)
		addSubscribers(batch, activations)
		claimSubscribers(batch, existing)
		record(batch, drafts, all)
		return p.commitAt(batch, func() error { return failpoint.Hit("R.in") })
	})
}

// guardPlans checks that the plans are still the versions that the drafts were priced
// from, and locks them until the commit.
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

var newSubscriberColumns = columns[*operation.Draft]{
	textColumn("id", func(d *operation.Draft) string { return d.SubscriberID }),
	intColumn("operator_id", func(d *operation.Draft) int64 { return d.OperatorID }),
	textColumn("mobile", func(d *operation.Draft) string { return d.Mobile }),
	textColumn("name", func(d *operation.Draft) string { return d.CustomerName }),
	textColumn("email", func(d *operation.Draft) string { return d.Profile.Email }),
	textColumn("address", func(d *operation.Draft) string { return d.Profile.Address }),
	textColumn("connection_type", func(d *operation.Draft) string { return d.Profile.ConnectionType }),
	timeColumn("created_at", func(d *operation.Draft) time.Time { return d.CreatedAt }),
	textColumn("area", func(d *operation.Draft) string { return d.Profile.Area }),
	textColumn("box_number", func(d *operation.Draft) string { return d.Profile.BoxNumber }),
	textColumn("notes", func(d *operation.Draft) string { return d.Profile.Notes }),
}

var insertSubscribers = `
	INSERT INTO subscribers (` + names(newSubscriberColumns) + `)
	SELECT * FROM ` + unnest(1, newSubscriberColumns) + ` AS v (` + names(newSubscriberColumns) + `)
	 ORDER BY v.mobile`

// addSubscribers inserts the new subscribers, whose mobile numbers and ids must be free.
func addSubscribers(batch *pgx.Batch, drafts []*operation.Draft) {
	if len(drafts) > 0 {
		batch.Queue(insertSubscribers, newSubscriberColumns.args(drafts)...)
	}
}

var claimColumns = columns[*operation.Draft]{
	textColumn("id", func(d *operation.Draft) string { return d.SubscriberID }),
	intColumn("operator_id", func(d *operation.Draft) int64 { return d.OperatorID }),
	intColumn("version", func(d *operation.Draft) int64 { return d.SubscriberVersion }),
}

var updateClaimed = `
	WITH claimed AS (
	     UPDATE subscribers s SET version = s.version + 1
	       FROM ` + unnest(1, claimColumns) + ` AS v (` + names(claimColumns) + `)
	      WHERE s.id = v.id COLLATE "C" AND s.operator_id = v.operator_id AND s.version = v.version
	     RETURNING s.id)
	` + guarded(`SELECT FROM claimed`)

// claimSubscribers increments the version of existing subscribers, which must not have
// changed since the drafts were made. That they have no other open operation is
// checked by the unique index of operations.
func claimSubscribers(batch *pgx.Batch, drafts []*operation.Draft) {
	if len(drafts) > 0 {
		batch.Queue(updateClaimed, claimColumns.args(bySubscriber(drafts, func(d *operation.Draft) string { return d.SubscriberID }))...)
	}
}

// draftColumns are the columns of operations that come from a draft.
var draftColumns = columns[*operation.Draft]{
	textColumn("id", func(d *operation.Draft) string { return d.ID }),
	intColumn("operator_id", func(d *operation.Draft) int64 { return d.OperatorID }),
	textColumn("idempotency_key", func(d *operation.Draft) string { return d.IdempotencyKey }),
	bytesColumn("fingerprint", func(d *operation.Draft) []byte { return d.Fingerprint.Sum }),
	intColumn("fingerprint_key_id", func(d *operation.Draft) int64 { return int64(d.Fingerprint.KeyID) }),
	textColumn("kind", func(d *operation.Draft) string { return string(d.Kind) }),
	textColumn("channel", func(d *operation.Draft) string { return string(d.Channel) }),
	textColumn("actor", func(d *operation.Draft) string { return d.Actor }),
	textColumn("subscriber_id", func(d *operation.Draft) string { return d.SubscriberID }),
	textColumn("customer_name", func(d *operation.Draft) string { return d.CustomerName }),
	textColumn("mobile", func(d *operation.Draft) string { return d.Mobile }),
	textColumn("plan_id", func(d *operation.Draft) string { return d.PlanID }),
	intColumn("plan_version", func(d *operation.Draft) int64 { return d.PlanVersion }),
	textColumn("plan_name", func(d *operation.Draft) string { return d.PlanName }),
	intColumn("plan_months", func(d *operation.Draft) int64 { return int64(d.PlanMonths) }),
	textColumn("main", func(d *operation.Draft) string { return d.Main }),
	nullTextColumn("addon", func(d *operation.Draft) string { return d.Addon }),
	intColumn("amount_paise", func(d *operation.Draft) int64 { return d.Amount.Paise() }),
	nullTimeColumn("expiry_previous", func(d *operation.Draft) time.Time { return d.ExpiryPrevious }),
	timeColumn("expiry_planned", func(d *operation.Draft) time.Time { return d.ExpiryPlanned }),
	timeColumn("cycle_starts_at", func(d *operation.Draft) time.Time { return d.CycleStartsAt }),
	intColumn("epoch", func(d *operation.Draft) int64 { return d.Epoch }),
	textColumn("node", func(d *operation.Draft) string { return d.Node }),
	nullTimeColumn("lease_until", func(d *operation.Draft) time.Time { return d.LeaseUntil }),
	nullTextColumn("addon_status", func(d *operation.Draft) string { return string(d.AddonState) }),
	textColumn("provider", func(d *operation.Draft) string { return d.Provider }),
	timeColumn("created_at", func(d *operation.Draft) time.Time { return d.CreatedAt }),
}

var reserveAll = `
	WITH debited AS (
	     UPDATE wallets w SET balance_paise = w.balance_paise - v.paise, entries = w.entries + v.items
	       FROM ` + unnest(1, totalColumns) + ` AS v (` + names(totalColumns) + `)
	       JOIN operators o ON o.id = v.operator_id
	      WHERE w.operator_id = v.operator_id AND w.balance_paise >= v.paise
	     RETURNING w.operator_id, w.balance_paise, w.entries, o.commission_bps),
	totals AS (
	     SELECT array_agg(balance_paise ORDER BY operator_id) AS balances, array_agg(entries ORDER BY operator_id) AS entries,
	            array_agg(commission_bps ORDER BY operator_id) AS rates, count(*) AS debited
	       FROM debited),
	drafts AS (
	     SELECT d.*, t.balances[d.wallet] + d.later_paise AS balance_after, t.entries[d.wallet] - d.later AS seq, t.rates[d.wallet] AS commission_bps
	       FROM totals t, ` + unnest(1+len(totalColumns), draftColumns, slotColumns) + `
	         AS d (` + names(draftColumns, slotColumns) + `)),
	recorded AS (
	     INSERT INTO operations (` + names(draftColumns) + `, commission_bps, wallet_before_paise, status)
	     SELECT ` + names(draftColumns) + `, commission_bps, balance_after + amount_paise, 'processing'
	       FROM drafts),
	entered AS (
	     INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
	     SELECT operator_id, seq, 'reserve', -amount_paise, balance_after, id, actor, created_at FROM drafts),
	happened AS (
	     INSERT INTO operation_events (operation_id, seq, to_status, epoch, node, actor, reason, at)
	     SELECT id, 1, 'processing', epoch, node, actor, 'reserved', created_at FROM drafts)
	SELECT balances, rates, 1 / (debited = cardinality($1))::int FROM totals`

// record debits the wallets and inserts the operations, wallet entries and events. The
// balance is checked in the WHERE clause, not read first: two requests that both saw
// enough money must not both spend it. The commission rate is the operator's at this
// moment.
func record(batch *pgx.Batch, drafts []*operation.Draft, all []*reservationItem) {
	totals, slots := walletTotals(drafts, func(d *operation.Draft) (int64, int64) { return d.OperatorID, d.Amount.Paise() })
	args := make([]any, 0, len(totalColumns)+len(draftColumns)+len(slotColumns))
	args = totalColumns.appendArgs(args, totals)
	args = draftColumns.appendArgs(args, drafts)
	args = slotColumns.appendArgs(args, slots)
	batch.Queue(reserveAll, args...).QueryRow(func(row pgx.Row) error { return readReserved(row, all, slots) })
}

// readReserved sets the results of a batch. The balance before an item follows from the
// wallet's balance after all items and the sum of the later ones.
func readReserved(row sqlstore.Row, all []*reservationItem, slots []walletSlot) error {
	var balances, rates []int64
	var guard int64
	if err := row.Scan(&balances, &rates, &guard); err != nil {
		return err
	}
	for i, r := range all {
		n := slots[i].wallet - 1
		r.result = r.request.Operation
		r.result.CommissionBPS = int(rates[n])
		r.result.WalletBefore = money.Paise(balances[n] + slots[i].laterPaise).Add(r.request.Amount)
	}
	return nil
}
