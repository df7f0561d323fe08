package postgres

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/bulk"
)

// SaveBulkJob saves a draft and its rows.
func (db *DB) SaveBulkJob(ctx context.Context, job bulk.Job, rows []bulk.Row) error {
	err := db.do(ctx, func(tx *tx) error {
		_, err := tx.Exec(`INSERT INTO bulk_jobs (operator_id, id, actor, title, state, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			job.OperatorID, job.ID, job.Actor, job.Title, job.State, job.CreatedAt.UnixMilli())
		if err != nil {
			return err
		}
		text := func(of func(bulk.Row) string) []string { return column(rows, of) }
		number := func(of func(bulk.Row) int64) []int64 { return column(rows, of) }
		_, err = tx.Exec(`
			INSERT INTO bulk_rows (operator_id, job_id, number, line, subscriber_id, mobile, customer_name, plan_id, kind, idempotency_key,
			       quoted_paise, expiry_quoted, state, code, message, not_renewed_since)
			SELECT $1, $2, v.number, v.line, v.subscriber_id, v.mobile, v.customer_name, v.plan_id, v.kind, v.idempotency_key,
			       v.quoted_paise, v.expiry_quoted, v.state, v.code, v.message, v.not_renewed_since
			  FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
			              $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::bigint[])
			       AS v (number, line, subscriber_id, mobile, customer_name, plan_id, kind, idempotency_key, quoted_paise, expiry_quoted, state, code, message,
			             not_renewed_since)`,
			job.OperatorID, job.ID,
			number(func(r bulk.Row) int64 { return int64(r.Number) }), number(func(r bulk.Row) int64 { return int64(r.Line) }),
			text(func(r bulk.Row) string { return r.SubscriberID }), text(func(r bulk.Row) string { return r.Mobile }),
			text(func(r bulk.Row) string { return r.CustomerName }), text(func(r bulk.Row) string { return r.PlanID }),
			text(func(r bulk.Row) string { return string(r.Kind) }), text(func(r bulk.Row) string { return r.IdempotencyKey }),
			number(func(r bulk.Row) int64 { return r.Quoted.Paise() }), column(rows, func(r bulk.Row) *int64 { return nullMillis(r.ExpiryQuoted) }),
			text(func(r bulk.Row) string { return string(r.State) }), text(func(r bulk.Row) string { return string(r.Code) }),
			text(func(r bulk.Row) string { return r.Message }), column(rows, func(r bulk.Row) *int64 { return nullMillis(r.NotRenewedSince) }))
		return err
	})
	if err != nil {
		return fmt.Errorf("save bulk renewal %s: %w", job.ID, err)
	}
	return nil
}
