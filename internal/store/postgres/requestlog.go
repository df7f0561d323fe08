package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/requestlog"
)

var _ requestlog.Store = (*DB)(nil)

// RecordRequests adds to the request log.
func (db *DB) RecordRequests(ctx context.Context, batch requestlog.Batch) error {
	var blocks struct {
		operators, from, until []int64
		refused                []bool
		packed                 [][]byte
	}
	for _, b := range batch.Blocks {
		blocks.operators = append(blocks.operators, b.OperatorID)
		blocks.from = append(blocks.from, b.From.UnixMilli())
		blocks.until = append(blocks.until, b.Until.UnixMilli())
		blocks.refused = append(blocks.refused, b.Refused)
		blocks.packed = append(blocks.packed, b.Packed)
	}
	var uses struct{ operators, keys, at []int64 }
	for _, use := range batch.Uses {
		uses.operators = append(uses.operators, use.OperatorID)
		uses.keys = append(uses.keys, use.CredentialID)
		uses.at = append(uses.at, use.At.UnixMilli())
	}
	return db.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`
			INSERT INTO request_log (operator_id, from_at, until_at, refused, packed)
			SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bytea[])`,
			blocks.operators, blocks.from, blocks.until, blocks.refused, blocks.packed)
		if err != nil {
			return fmt.Errorf("add to the request log: %w", err)
		}
		if len(uses.keys) == 0 {
			return nil
		}
		// A row that is locked is left as it is: the calls of other operators are not
		// to wait for it, nor to be lost with it.
		_, err = tx.exec(`
			INSERT INTO key_uses (operator_id, credential_id, last_at)
			SELECT v.* FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (operator_id, credential_id, last_at)
			 WHERE (SELECT 1 FROM key_uses k WHERE k.operator_id = v.operator_id AND k.credential_id = v.credential_id) IS NULL
			    OR (SELECT 1 FROM key_uses k WHERE k.operator_id = v.operator_id AND k.credential_id = v.credential_id FOR NO KEY UPDATE SKIP LOCKED) IS NOT NULL
			    ON CONFLICT (operator_id, credential_id) DO UPDATE SET last_at = greatest(key_uses.last_at, excluded.last_at)`,
			uses.operators, uses.keys, uses.at)
		if err != nil {
			return fmt.Errorf("note the uses of keys: %w", err)
		}
		return nil
	})
}

// RequestBlocks reads blocks of the request log.
func (db *DB) RequestBlocks(ctx context.Context, asked requestlog.BlockQuery) ([]requestlog.Block, error) {
	refused := ""
	if asked.Refused {
		refused = ` AND refused` // as the index of refusals says it
	}
	rows, err := db.read(ctx).query(`
		SELECT id, operator_id, from_at, until_at, refused, packed FROM request_log
		 WHERE operator_id = $1 AND (until_at, id) < ($2, $3) AND until_at >= $4`+refused+`
		 ORDER BY until_at DESC, id DESC LIMIT $5`,
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
		SELECT id, operator_id, from_at, until_at, refused, packed FROM request_log WHERE id = $1 AND operator_id = $2`, id, operatorID))
	if errors.Is(err, pgx.ErrNoRows) {
		return requestlog.Block{}, false, nil
	}
	return b, err == nil, err
}

// KeyUses reads when an operator's keys were last used.
func (db *DB) KeyUses(ctx context.Context, operatorID int64) (map[int64]time.Time, error) {
	rows, err := db.read(ctx).query(`SELECT credential_id, last_at FROM key_uses WHERE operator_id = $1`, operatorID)
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

// PurgeRequests removes the oldest blocks, by their ids. Nodes may have written a
// younger one among them, which stays a while longer.
func (db *DB) PurgeRequests(ctx context.Context, before time.Time, most int) (removed int, err error) {
	err = db.do(ctx, func(tx *tx) error {
		gone, err := tx.exec(`
			DELETE FROM request_log WHERE id IN (SELECT id FROM request_log WHERE id > 0 ORDER BY id LIMIT $2) AND until_at < $1`,
			before.UnixMilli(), most)
		removed = int(gone)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge the request log: %w", err)
	}
	return removed, nil
}
