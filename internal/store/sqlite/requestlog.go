package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/requestlog"
)

var _ requestlog.Store = (*DB)(nil)

// RecordRequests adds to the request log. While the disk is as good as full it does
// not: what is left belongs to those who pay.
func (db *DB) RecordRequests(ctx context.Context, batch requestlog.Batch) error {
	if err := db.checkRoom(); err != nil {
		return err
	}
	return db.writer.do(ctx, func(tx *tx) error {
		for _, b := range batch.Blocks {
			_, err := tx.exec(`
				INSERT INTO request_log (operator_id, from_at, until_at, refused, packed) VALUES (?1, ?2, ?3, ?4, ?5)`,
				b.OperatorID, b.From.UnixMilli(), b.Until.UnixMilli(), b.Refused, b.Packed)
			if err != nil {
				return fmt.Errorf("add to the request log: %w", err)
			}
		}
		for _, use := range batch.Uses {
			_, err := tx.exec(`
				INSERT INTO key_uses (operator_id, credential_id, last_at) VALUES (?1, ?2, ?3)
				    ON CONFLICT (operator_id, credential_id) DO UPDATE SET last_at = max(last_at, ?3)`,
				use.OperatorID, use.CredentialID, use.At.UnixMilli())
			if err != nil {
				return fmt.Errorf("note the use of a key: %w", err)
			}
		}
		return nil
	})
}

// RequestBlocks reads blocks of the request log.
func (db *DB) RequestBlocks(ctx context.Context, asked requestlog.BlockQuery) ([]requestlog.Block, error) {
	refused := ""
	if asked.Refused {
		refused = ` AND refused = 1` // as the index of refusals says it
	}
	rows, err := db.read(ctx).query(`
		SELECT id, operator_id, from_at, until_at, refused, packed FROM request_log
		 WHERE operator_id = ?1 AND (until_at, id) < (?2, ?3) AND until_at >= ?4`+refused+`
		 ORDER BY until_at DESC, id DESC LIMIT ?5`,
		asked.OperatorID, asked.Before.Until.UnixMilli(), asked.Before.ID, earliest(asked.Since), asked.Limit)
	return collect(rows, err, readBlock)
}

// earliest is a moment in milliseconds; the zero one is before all others.
func earliest(since time.Time) int64 {
	if since.IsZero() {
		return 0
	}
	return since.UnixMilli()
}

func readBlock(row scanner) (b requestlog.Block, err error) {
	var from, until sql.NullInt64
	err = row.Scan(&b.ID, &b.OperatorID, &from, &until, &b.Refused, &b.Packed)
	b.From, b.Until = moment(from), moment(until)
	return b, err
}

// RequestBlock reads one block of the request log.
func (db *DB) RequestBlock(ctx context.Context, operatorID, id int64) (requestlog.Block, bool, error) {
	b, err := readBlock(db.read(ctx).queryRow(`
		SELECT id, operator_id, from_at, until_at, refused, packed FROM request_log WHERE id = ?1 AND operator_id = ?2`, id, operatorID))
	if errors.Is(err, sql.ErrNoRows) {
		return requestlog.Block{}, false, nil
	}
	return b, err == nil, err
}

// KeyUses reads when an operator's keys were last used.
func (db *DB) KeyUses(ctx context.Context, operatorID int64) (map[int64]time.Time, error) {
	rows, err := db.read(ctx).query(`SELECT credential_id, last_at FROM key_uses WHERE operator_id = ?1`, operatorID)
	uses, err := collect(rows, err, func(row scanner) (u requestlog.Use, err error) {
		var at sql.NullInt64
		err = row.Scan(&u.CredentialID, &at)
		u.At = moment(at)
		return u, err
	})
	if err != nil {
		return nil, err
	}
	byKey := make(map[int64]time.Time, len(uses))
	for _, use := range uses {
		byKey[use.CredentialID] = use.At
	}
	return byKey, nil
}

// PurgeRequests removes the oldest blocks, by their ids. Where the clock was set back,
// one that looks younger than it is may stay a while longer.
func (db *DB) PurgeRequests(ctx context.Context, before time.Time, most int) (removed int, err error) {
	err = db.writer.do(ctx, func(tx *tx) error {
		var upTo sql.NullInt64
		err := tx.queryRow(`
			SELECT max(id) FROM (SELECT id FROM request_log WHERE id > 0 ORDER BY id LIMIT ?1)`, most).Scan(&upTo)
		if err != nil || !upTo.Valid {
			return err
		}
		gone, err := tx.exec(`DELETE FROM request_log WHERE id <= ?1 AND until_at < ?2`, upTo.Int64, before.UnixMilli())
		removed = int(gone)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge the request log: %w", err)
	}
	return removed, nil
}
