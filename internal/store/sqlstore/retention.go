package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/retention"
)

// uneventful is the condition that an operation went by the book: nobody had to decide anything about
// it, and nothing is left to do. It counts, because for NOT EXISTS PostgreSQL would read all exceptions. $3 is when it must have been ordered before, $4 settled.
const uneventful = `
	o.status IN ('success', 'failed') AND o.created_at < $3 AND o.completed_at < $4 AND o.carried_out_at IS NULL
	AND o.next_check_at IS NULL AND o.addon_next_at IS NULL AND (o.status = 'failed' OR coalesce(o.addon_status, 'success') = 'success')
	AND (SELECT count(*) FROM exceptions x WHERE x.operation_id = o.id) = 0
	AND (SELECT count(*) FROM operation_events e WHERE e.operation_id = o.id AND e.seq > 1 AND e.actor <> '') = 0`

// explained is the condition that an operation is what its rows say, by the table of the rows.
var explained = map[retention.What]string{
	retention.ProviderCalls: `(SELECT count(*) FROM provider_calls c WHERE c.operation_id = o.id AND c.reference = o.id
		AND c.outcome = CASE o.status WHEN 'success' THEN 'confirmed' ELSE 'rejected' END) > 0`,
	retention.OperationEvents: `(SELECT count(*) FROM operation_events e WHERE e.operation_id = o.id AND e.seq = 1 AND e.from_status IS NULL) = 1
		AND o.status = (SELECT e.to_status FROM operation_events e WHERE e.operation_id = o.id ORDER BY e.seq DESC LIMIT 1)`,
}

// oldOperation is an operation whose turn it is.
type oldOperation struct {
	id      string
	success bool
	amount  int64
	remove  bool
}

// RemoveOperationRows removes the rows of the operations that come next, and records it.
func (db *Store) RemoveOperationRows(ctx context.Context, what retention.What, before, now time.Time, limit int) (removed retention.Removed, err error) {
	// Most of the time there is nothing to do, and no transaction is needed to see that.
	last, err := lastClosed(db.engine.Read(ctx), what)
	if err != nil {
		return removed, err
	}
	var due bool
	err = db.engine.Read(ctx).QueryRow(`SELECT EXISTS (SELECT 1 FROM operations WHERE id > $1 AND id < $2)`, last, operation.FirstID(before)).Scan(&due)
	if err != nil || !due {
		return removed, err
	}
	err = db.engine.Write(ctx, func(tx Tx) error {
		removed = retention.Removed{}
		// Of two nodes the second waits here, and goes on from where the first ended.
		if err := tx.Dialect().LockTable(tx, "retention_closings"); err != nil {
			return err
		}
		last, err := lastClosed(tx, what)
		if err != nil {
			return err
		}
		rows, err := tx.Query(`
			SELECT o.id, o.status = 'success', o.amount_paise, coalesce(`+uneventful+` AND `+explained[what]+`, false)
			  FROM operations o WHERE o.id > $1 AND o.id < $2 ORDER BY o.id LIMIT $5`,
			last, operation.FirstID(before), before.UnixMilli(), before.Add(retention.SettledWithin).UnixMilli(), limit)
		next, err := Collect(rows, err, func(row Row) (o oldOperation, err error) {
			return o, row.Scan(&o.id, &o.success, &o.amount, &o.remove)
		})
		if err != nil {
			return fmt.Errorf("look for old operations: %w", err)
		}
		if len(next) == 0 {
			return nil
		}
		c := integrity.Closing{What: string(what), LastID: next[len(next)-1].id, Before: before.UnixMilli(), MadeAt: now.UnixMilli()}
		hash := integrity.NewRowHash()
		for _, o := range next {
			if !o.remove {
				continue
			}
			gone, err := tx.Exec(`DELETE FROM `+string(what)+` WHERE operation_id = $1`, o.id)
			if err != nil {
				return fmt.Errorf("remove the %s of %s: %w", what, o.id, err)
			}
			hash.AddID(o.id)
			c.Operations++
			c.Removed += gone
			if o.success {
				c.Charged += o.amount
			} else {
				c.Refunded += o.amount
			}
		}
		c.IDsHash = hash.Sum()
		removed = retention.Removed{Rows: int(c.Removed), More: len(next) == limit}
		return addClosing(tx, c)
	})
	return removed, err
}

// lastClosed returns up to which operation the rows of a table were removed; empty if none were.
func lastClosed(from Querier, what retention.What) (id string, err error) {
	err = from.QueryRow(`SELECT last_id FROM retention_closings WHERE what = $1 ORDER BY last_id DESC LIMIT 1`, string(what)).Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read what was removed last: %w", err)
	}
	return id, nil
}

// removedAt returns when the rows of an operation that has none were removed; zero if they were not.
func removedAt(from Querier, what retention.What, id string) (time.Time, error) {
	var at sql.NullInt64
	err := from.QueryRow(`SELECT made_at FROM retention_closings WHERE what = $1 AND last_id >= $2 ORDER BY last_id LIMIT 1`, string(what), id).Scan(&at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read when rows of %s were removed: %w", id, err)
	}
	return Time(at), nil
}

// addClosing numbers, signs and writes a closing.
func addClosing(tx Tx, c integrity.Closing) error {
	keys := tx.Keys()
	if keys == nil {
		return integrity.ErrNoKey
	}
	var previous []byte
	err := tx.QueryRow(`SELECT number, mac FROM retention_closings WHERE number > 0 ORDER BY number DESC LIMIT 1`).Scan(&c.Number, &previous)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read the last closing: %w", err)
	}
	c.Number++
	mac := keys.SignClosing(previous, c)
	_, err = tx.Exec(`
		INSERT INTO retention_closings (number, what, last_id, before_at, operations, removed, charged_paise, refunded_paise, ids_hash, mac, mac_key, made_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		c.Number, c.What, c.LastID, c.Before, c.Operations, c.Removed, c.Charged, c.Refunded, c.IDsHash, mac.Code, int64(mac.Key), c.MadeAt)
	if err != nil {
		return fmt.Errorf("record what was removed: %w", err)
	}
	return nil
}

// RemoveBulkJob removes the bulk renewal that was finished first, with its rows, and records it.
func (db *Store) RemoveBulkJob(ctx context.Context, before, now time.Time) (removed retention.Removed, err error) {
	var due bool
	err = db.engine.Read(ctx).QueryRow(`SELECT EXISTS (SELECT 1 FROM bulk_jobs WHERE `+endedJob+`)`, before.UnixMilli()).Scan(&due)
	if err != nil || !due {
		return removed, err
	}
	err = db.engine.Write(ctx, func(tx Tx) error {
		removed = retention.Removed{}
		if err := tx.Dialect().LockTable(tx, "retention_closings"); err != nil {
			return err
		}
		var operatorID int64
		var id string
		err := tx.QueryRow(`SELECT operator_id, id FROM bulk_jobs WHERE `+endedJob+` ORDER BY ended_at LIMIT 1`, before.UnixMilli()).Scan(&operatorID, &id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for old bulk renewals: %w", err)
		}
		rows, err := tx.Query(`
			SELECT operation_id, state = 'done', amount_paise FROM bulk_rows
			 WHERE operator_id = $1 AND job_id = $2 AND operation_id IS NOT NULL ORDER BY number`, operatorID, id)
		operations, err := Collect(rows, err, func(row Row) (o oldOperation, err error) {
			return o, row.Scan(&o.id, &o.success, &o.amount)
		})
		if err != nil {
			return fmt.Errorf("read the rows of bulk renewal %s: %w", id, err)
		}
		c := integrity.Closing{What: string(retention.BulkJobs), LastID: fmt.Sprintf("%d/%s", operatorID, id), Before: before.UnixMilli(), MadeAt: now.UnixMilli()}
		hash := integrity.NewRowHash()
		for _, o := range operations {
			hash.AddID(o.id)
			c.Operations++
			if o.success {
				c.Charged += o.amount
			}
		}
		c.IDsHash = hash.Sum()
		if c.Removed, err = tx.Exec(`DELETE FROM bulk_rows WHERE operator_id = $1 AND job_id = $2`, operatorID, id); err != nil {
			return fmt.Errorf("remove the rows of bulk renewal %s: %w", id, err)
		}
		if _, err := tx.Exec(`DELETE FROM bulk_jobs WHERE operator_id = $1 AND id = $2`, operatorID, id); err != nil {
			return fmt.Errorf("remove bulk renewal %s: %w", id, err)
		}
		removed = retention.Removed{Rows: int(c.Removed) + 1, More: true}
		return addClosing(tx, c)
	})
	return removed, err
}

// endedJob is the condition that a bulk renewal was finished before $1 and that no worker looks at it
// any more.
const endedJob = `state = 'finished' AND due_at IS NULL AND ended_at < $1`
