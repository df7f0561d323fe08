package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// bulkChunk is how many rows of a draft share a commit. Larger commits would delay
// requests.
const bulkChunk = 200

// SaveBulkJob saves a draft and its rows, in several commits. The caller uses the draft's
// id only after the last one.
func (db *DB) SaveBulkJob(ctx context.Context, job bulk.Job, rows []bulk.Row) error {
	err := db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.Exec(`INSERT INTO bulk_jobs (operator_id, id, actor, title, state, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`,
			job.OperatorID, job.ID, job.Actor, job.Title, job.State, job.CreatedAt.UnixMilli())
		return err
	})
	if err != nil {
		return fmt.Errorf("save bulk renewal %s: %w", job.ID, err)
	}
	for chunk := range slices.Chunk(rows, bulkChunk) {
		err := db.writer.do(ctx, func(tx *tx) error {
			for _, r := range chunk {
				_, err := tx.Exec(`
					INSERT INTO bulk_rows (operator_id, job_id, number, line, subscriber_id, mobile, customer_name, plan_id, kind, idempotency_key,
					       quoted_paise, expiry_quoted, state, code, message, not_renewed_since)
					VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)`,
					job.OperatorID, job.ID, r.Number, r.Line, r.SubscriberID, r.Mobile, r.CustomerName, r.PlanID, r.Kind, r.IdempotencyKey,
					r.Quoted.Paise(), sqlstore.Millis(r.ExpiryQuoted), r.State, r.Code, r.Message, sqlstore.Millis(r.NotRenewedSince))
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("save the rows of bulk renewal %s: %w", job.ID, err)
		}
	}
	return nil
}
