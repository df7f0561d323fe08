package sqlite

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/requestlog"
)

// RecordRequests adds to the request log. While the disk is nearly full it returns an
// error: the remaining space is for payments.
func (db *DB) RecordRequests(ctx context.Context, batch requestlog.Batch) error {
	if err := db.checkSpace(); err != nil {
		return err
	}
	return db.writer.do(ctx, func(tx *tx) error {
		for _, b := range batch.Blocks {
			_, err := tx.Exec(`
				INSERT INTO request_log (operator_id, from_at, until_at, refused, packed) VALUES (?1, ?2, ?3, ?4, ?5)`,
				b.OperatorID, b.From.UnixMilli(), b.Until.UnixMilli(), b.Refused, b.Packed)
			if err != nil {
				return fmt.Errorf("add to the request log: %w", err)
			}
		}
		for _, use := range batch.Uses {
			_, err := tx.Exec(`
				INSERT INTO key_uses (operator_id, credential_id, last_at) VALUES (?1, ?2, ?3)
				    ON CONFLICT (operator_id, credential_id) DO UPDATE SET last_at = max(last_at, ?3)`,
				use.OperatorID, use.CredentialID, use.At.UnixMilli())
			if err != nil {
				return fmt.Errorf("record a key use: %w", err)
			}
		}
		return nil
	})
}
