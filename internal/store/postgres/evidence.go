package postgres

import (
	"cmp"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/operation"
)

// happening is one move of an operation, for its history.
type happening struct {
	operationID      string
	from, to         operation.State
	epoch            int64
	node, actor, why string
	at               int64
}

// writeEvents queues one more move of each operation. Its row is locked by whoever
// moves it, so that the numbers have no gap and no twin.
func writeEvents(batch *pgx.Batch, all []happening) {
	if len(all) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO operation_events (operation_id, seq, from_status, to_status, epoch, node, actor, reason, at)
		SELECT v.operation_id, coalesce((SELECT max(e.seq) FROM operation_events e WHERE e.operation_id = v.operation_id COLLATE "C"), 0) + 1,
		       v.from_status, v.to_status, v.epoch, v.node, v.actor, v.reason, v.at
		  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[])
		    AS v (operation_id, from_status, to_status, epoch, node, actor, reason, at)`,
		column(all, func(h happening) string { return h.operationID }),
		column(all, func(h happening) string { return string(h.from) }),
		column(all, func(h happening) string { return string(h.to) }),
		column(all, func(h happening) int64 { return h.epoch }),
		column(all, func(h happening) string { return h.node }),
		column(all, func(h happening) string { return h.actor }),
		column(all, func(h happening) string { return h.why }),
		column(all, func(h happening) int64 { return h.at }))
}

// callOf is what the provider was asked about an operation, and by whom.
type callOf struct {
	operation.ProviderCall
	operationID, node string
}

func callsOf(operationID, node string, calls []operation.ProviderCall) []callOf {
	return column(calls, func(call operation.ProviderCall) callOf { return callOf{call, operationID, node} })
}

// writeCalls queues what the provider was asked and what it said.
func writeCalls(batch *pgx.Batch, all []callOf) {
	if len(all) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO provider_calls (operation_id, reference, kind, component, outcome, provider_transaction_id, detail, node, asked_at, answered_at)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::bigint[])`,
		column(all, func(c callOf) string { return c.operationID }),
		column(all, func(c callOf) string { return c.Reference }),
		column(all, func(c callOf) string { return c.What }),
		column(all, func(c callOf) string { return c.Component }),
		column(all, func(c callOf) string { return c.Reply.Outcome.String() }),
		column(all, func(c callOf) *string { return possibleText(c.Reply.Transaction) }),
		// Our own word for staff, or else the provider's for people.
		column(all, func(c callOf) string { return cmp.Or(c.Reply.Detail, c.Reply.Message) }),
		column(all, func(c callOf) string { return c.node }),
		column(all, func(c callOf) int64 { return c.AskedAt.UnixMilli() }),
		column(all, func(c callOf) *int64 { return possibleMillis(c.AnsweredAt) }))
	for _, c := range all {
		if e, mismatch := c.Mismatch(c.operationID); mismatch {
			raiseException(batch, e)
		}
	}
}

// raiseException queues what only a person can decide, once for each operation and
// kind.
func raiseException(batch *pgx.Batch, e operation.Exception) {
	batch.Queue(`
		INSERT INTO exceptions (operation_id, kind, detail, created_at) VALUES ($1, $2, $3, $4)
		    ON CONFLICT (operation_id, kind) DO NOTHING`, e.OperationID, e.Kind, e.Detail, e.At.UnixMilli())
}
