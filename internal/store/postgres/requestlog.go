package postgres

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/requestlog"
)

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
		_, err := tx.Exec(`
			INSERT INTO request_log (operator_id, from_at, until_at, refused, packed)
			SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bytea[])`,
			blocks.operators, blocks.from, blocks.until, blocks.refused, blocks.packed)
		if err != nil {
			return fmt.Errorf("add to the request log: %w", err)
		}
		if len(uses.keys) == 0 {
			return nil
		}
		// A locked row is not updated, so that the log entries of other operators
		// neither wait for its lock nor are lost with a timeout.
		_, err = tx.Exec(`
			INSERT INTO key_uses (operator_id, credential_id, last_at)
			SELECT v.* FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (operator_id, credential_id, last_at)
			 WHERE (SELECT 1 FROM key_uses k WHERE k.operator_id = v.operator_id AND k.credential_id = v.credential_id) IS NULL
			    OR (SELECT 1 FROM key_uses k WHERE k.operator_id = v.operator_id AND k.credential_id = v.credential_id FOR NO KEY UPDATE SKIP LOCKED) IS NOT NULL
			    ON CONFLICT (operator_id, credential_id) DO UPDATE SET last_at = greatest(key_uses.last_at, excluded.last_at)`,
			uses.operators, uses.keys, uses.at)
		if err != nil {
			return fmt.Errorf("record key uses: %w", err)
		}
		return nil
	})
}
