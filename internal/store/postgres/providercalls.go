package postgres

import (
	"cmp"
	"time"

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

var eventColumns = columns[happening]{
	textColumn("operation_id", func(h happening) string { return h.operationID }),
	textColumn("from_status", func(h happening) string { return string(h.from) }),
	textColumn("to_status", func(h happening) string { return string(h.to) }),
	intColumn("epoch", func(h happening) int64 { return h.epoch }),
	textColumn("node", func(h happening) string { return h.node }),
	textColumn("actor", func(h happening) string { return h.actor }),
	textColumn("reason", func(h happening) string { return h.why }),
	intColumn("at", func(h happening) int64 { return h.at }),
}

var insertEvents = `
	INSERT INTO operation_events (seq, ` + names(eventColumns) + `)
	SELECT coalesce((SELECT max(e.seq) FROM operation_events e WHERE e.operation_id = v.operation_id COLLATE "C"), 0) + 1, v.*
	  FROM ` + unnest(1, eventColumns) + ` AS v (` + names(eventColumns) + `)`

// writeEvents adds an event to each operation's history. The operations' rows are
// locked by the transaction, so their numbers have no gaps and no duplicates.
func writeEvents(batch *pgx.Batch, all []happening) {
	if len(all) > 0 {
		batch.Queue(insertEvents, eventColumns.args(all)...)
	}
}

// callOf is what the provider was asked about an operation, and by whom.
type callOf struct {
	operation.ProviderCall
	operationID, node string
}

func callsOf(operationID, node string, calls []operation.ProviderCall) []callOf {
	return column(calls, func(call operation.ProviderCall) callOf { return callOf{call, operationID, node} })
}

var callColumns = columns[callOf]{
	textColumn("operation_id", func(c callOf) string { return c.operationID }),
	textColumn("reference", func(c callOf) string { return c.Reference }),
	textColumn("kind", func(c callOf) string { return c.What }),
	textColumn("component", func(c callOf) string { return c.Component }),
	textColumn("outcome", func(c callOf) string { return c.Reply.Outcome.String() }),
	nullTextColumn("provider_transaction_id", func(c callOf) string { return c.Reply.Transaction }),
	// Our own text for staff, or else the provider's for customers.
	textColumn("detail", func(c callOf) string { return cmp.Or(c.Reply.Detail, c.Reply.Message) }),
	textColumn("node", func(c callOf) string { return c.node }),
	timeColumn("asked_at", func(c callOf) time.Time { return c.AskedAt }),
	nullTimeColumn("answered_at", func(c callOf) time.Time { return c.AnsweredAt }),
}

var insertCalls = `INSERT INTO provider_calls (` + names(callColumns) + `) SELECT * FROM ` + unnest(1, callColumns)

// writeCalls saves the calls to the provider and its replies.
func writeCalls(batch *pgx.Batch, all []callOf) {
	if len(all) == 0 {
		return
	}
	batch.Queue(insertCalls, callColumns.args(all)...)
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
