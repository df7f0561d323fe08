package postgres

import (
	"cmp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/operation"
)

// event is a change of an operation's state, for its history.
type event struct {
	operationID      string
	from, to         operation.State
	epoch            int64
	node, actor, why string
	at               int64
}

var eventColumns = columns[event]{
	textColumn("operation_id", func(e event) string { return e.operationID }),
	textColumn("from_status", func(e event) string { return string(e.from) }),
	textColumn("to_status", func(e event) string { return string(e.to) }),
	intColumn("epoch", func(e event) int64 { return e.epoch }),
	textColumn("node", func(e event) string { return e.node }),
	textColumn("actor", func(e event) string { return e.actor }),
	textColumn("reason", func(e event) string { return e.why }),
	intColumn("at", func(e event) int64 { return e.at }),
}

var insertEvents = `
	INSERT INTO operation_events (seq, ` + names(eventColumns) + `)
	SELECT coalesce((SELECT max(e.seq) FROM operation_events e WHERE e.operation_id = v.operation_id COLLATE "C"), 0) + 1, v.*
	  FROM ` + unnest(1, eventColumns) + ` AS v (` + names(eventColumns) + `)`

// writeEvents adds an event to each operation's history. The operations' rows are
// locked by the transaction, so the events' numbers have no gaps and no duplicates.
func writeEvents(batch *pgx.Batch, all []event) {
	if len(all) > 0 {
		batch.Queue(insertEvents, eventColumns.args(all)...)
	}
}

// callRow is a call to the provider, with its operation and node.
type callRow struct {
	operation.ProviderCall
	operationID, node string
}

func callsOf(operationID, node string, calls []operation.ProviderCall) []callRow {
	return column(calls, func(call operation.ProviderCall) callRow { return callRow{call, operationID, node} })
}

var callColumns = columns[callRow]{
	textColumn("operation_id", func(c callRow) string { return c.operationID }),
	textColumn("reference", func(c callRow) string { return c.Reference }),
	textColumn("kind", func(c callRow) string { return c.What }),
	textColumn("component", func(c callRow) string { return c.Component }),
	textColumn("outcome", func(c callRow) string { return c.Reply.Outcome.String() }),
	nullTextColumn("provider_transaction_id", func(c callRow) string { return c.Reply.Transaction }),
	// Our own text for staff, or else the provider's for customers.
	textColumn("detail", func(c callRow) string { return cmp.Or(c.Reply.Detail, c.Reply.Message) }),
	textColumn("node", func(c callRow) string { return c.node }),
	timeColumn("asked_at", func(c callRow) time.Time { return c.AskedAt }),
	nullTimeColumn("answered_at", func(c callRow) time.Time { return c.AnsweredAt }),
}

var insertCalls = `INSERT INTO provider_calls (` + names(callColumns) + `) SELECT * FROM ` + unnest(1, callColumns)

// writeCalls saves the calls to the provider and its replies.
func writeCalls(batch *pgx.Batch, all []callRow) {
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

// raiseException saves an exception for staff to decide, once for each operation and kind.
func raiseException(batch *pgx.Batch, e operation.Exception) {
	batch.Queue(`
		INSERT INTO exceptions (operation_id, kind, detail, created_at) VALUES ($1, $2, $3, $4)
		    ON CONFLICT (operation_id, kind) DO NOTHING`, e.OperationID, e.Kind, e.Detail, e.At.UnixMilli())
}
