package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/requestlog"
)

// RequestBlocks reads blocks of the request log.
func (db *Store) RequestBlocks(ctx context.Context, asked requestlog.BlockQuery) ([]requestlog.Block, error) {
	refused := ""
	if asked.Refused {
		refused = ` AND ` + db.dialect.Refused
	}
	rows, err := db.engine.Read(ctx).Query(`
		SELECT id, operator_id, from_at, until_at, refused, packed FROM request_log
		 WHERE operator_id = $1 AND (until_at, id) < ($2, $3) AND until_at >= $4`+refused+`
		 ORDER BY until_at DESC, id DESC LIMIT $5`,
		asked.OperatorID, asked.Before.Until.UnixMilli(), asked.Before.ID, earliest(asked.Since), asked.Limit)
	return Collect(rows, err, readBlock)
}

// earliest returns Unix milliseconds, and 0 for the zero time.
func earliest(since time.Time) int64 {
	if since.IsZero() {
		return 0
	}
	return since.UnixMilli()
}

func readBlock(row Row) (b requestlog.Block, err error) {
	var from, until sql.NullInt64
	err = row.Scan(&b.ID, &b.OperatorID, &from, &until, &b.Refused, &b.Packed)
	b.From, b.Until = Time(from), Time(until)
	return b, err
}

// RequestBlock reads one block of the request log.
func (db *Store) RequestBlock(ctx context.Context, operatorID, id int64) (requestlog.Block, bool, error) {
	b, err := readBlock(db.engine.Read(ctx).QueryRow(`
		SELECT id, operator_id, from_at, until_at, refused, packed FROM request_log WHERE id = $1 AND operator_id = $2`, id, operatorID))
	if errors.Is(err, sql.ErrNoRows) {
		return requestlog.Block{}, false, nil
	}
	return b, err == nil, err
}

// LastKeyUses reads when an operator's keys were last used.
func (db *Store) LastKeyUses(ctx context.Context, operatorID int64) (map[int64]time.Time, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT credential_id, last_at FROM key_uses WHERE operator_id = $1`, operatorID)
	uses, err := Collect(rows, err, func(row Row) (u requestlog.Use, err error) {
		var at sql.NullInt64
		err = row.Scan(&u.CredentialID, &at)
		u.At = Time(at)
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
// younger one among them, which is kept until it is old enough.
func (db *Store) PurgeRequests(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		gone, err := tx.Exec(`
			DELETE FROM request_log
			 WHERE id <= (SELECT max(id) FROM (SELECT id FROM request_log WHERE id > 0 ORDER BY id LIMIT $2) AS oldest) AND until_at < $1`,
			before.UnixMilli(), limit)
		removed = int(gone)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge the request log: %w", err)
	}
	return removed, nil
}
