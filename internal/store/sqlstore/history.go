package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/retention"
)

// ListOperations reads operations, newest first unless the filter says otherwise.
func (db *Store) ListOperations(ctx context.Context, filter admin.OperationFilter) ([]operation.Operation, error) {
	if filter.OperatorID != 0 {
		if _, err := operatorByID(db.engine.Read(ctx), filter.OperatorID); err != nil {
			return nil, err
		}
	}
	// Only the requested filters are in the condition, so that an index can serve it.
	conditions, args := []string{"1 = 1"}, []any{filter.Limit}
	for _, wanted := range []struct {
		column string
		value  any
		given  bool
	}{
		{"operator_id", filter.OperatorID, filter.OperatorID != 0},
		{"status", string(filter.State), filter.State != ""},
		{"subscriber_id", filter.Subscriber, filter.Subscriber != ""},
	} {
		if wanted.given {
			args = append(args, wanted.value)
			conditions = append(conditions, fmt.Sprintf("%s = $%d", wanted.column, len(args)))
		}
	}
	order, beyond := "created_at DESC, id DESC", "<"
	if filter.OldestFirst {
		order, beyond = "created_at, id", ">"
	}
	if filter.After.ID != "" {
		args = append(args, filter.After.At.UnixMilli(), filter.After.ID)
		conditions = append(conditions, fmt.Sprintf("(created_at, id) %s ($%d, $%d)", beyond, len(args)-1, len(args)))
	}
	if !filter.From.IsZero() {
		args = append(args, filter.From.UnixMilli())
		conditions = append(conditions, fmt.Sprintf("created_at >= $%d", len(args)))
	}
	if !filter.To.IsZero() {
		args = append(args, filter.To.UnixMilli())
		conditions = append(conditions, fmt.Sprintf("created_at < $%d", len(args)))
	}
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+OperationColumns+` FROM operations WHERE `+strings.Join(conditions, " AND ")+`
		 ORDER BY `+order+` LIMIT $1`, args...)
	return Collect(rows, err, ReadOperation)
}

// OperationHistory reads an operation with its events.
func (db *Store) OperationHistory(ctx context.Context, id string) (admin.OperationHistory, error) {
	var history admin.OperationHistory
	err := db.engine.Snapshot(ctx, func(from Querier) error {
		op, found, err := OneOperation(from, `operations WHERE id = $1`, id)
		if err != nil {
			return err
		}
		if !found {
			return admin.Refuse("there is no transaction %s", id)
		}
		history.Operation = op
		rows, err := from.Query(`
			SELECT coalesce(from_status, ''), to_status, epoch, node, actor, reason, at
			  FROM operation_events WHERE operation_id = $1 ORDER BY seq`, id)
		history.Events, err = Collect(rows, err, func(row Row) (admin.OperationEvent, error) {
			var e admin.OperationEvent
			var at sql.NullInt64
			err := row.Scan(&e.From, &e.To, &e.Epoch, &e.Node, &e.Actor, &e.Why, &at)
			e.At = Time(at)
			return e, err
		})
		if err != nil {
			return fmt.Errorf("read the events of %s: %w", id, err)
		}
		rows, err = from.Query(`
			SELECT reference, kind, component, outcome, coalesce(provider_transaction_id, ''), detail, node, asked_at, answered_at
			  FROM provider_calls WHERE operation_id = $1 ORDER BY id`, id)
		history.Calls, err = Collect(rows, err, func(row Row) (admin.OperationCall, error) {
			var c admin.OperationCall
			var asked, answered sql.NullInt64
			err := row.Scan(&c.Reference, &c.What, &c.Component, &c.Outcome, &c.Transaction, &c.Detail, &c.Node, &asked, &answered)
			c.CalledAt, c.RepliedAt = Time(asked), Time(answered)
			return c, err
		})
		if err != nil {
			return fmt.Errorf("read the provider calls of %s: %w", id, err)
		}
		if history.Reversals, err = reversalsOf(from, id); err != nil {
			return err
		}
		if err := addSettlers(from, op, history.Reversals); err != nil {
			return err
		}
		if len(history.Events) == 0 {
			if history.EventsRemoved, err = removedAt(from, retention.OperationEvents, id); err != nil {
				return err
			}
		}
		if len(history.Calls) == 0 {
			history.CallsRemoved, err = removedAt(from, retention.ProviderCalls, id)
		}
		return err
	})
	return history, err
}

// addSettlers adds to reversals of an operation who settled them, from the audit log.
func addSettlers(from Querier, op operation.Operation, reversals []operation.Reversal) error {
	if !slices.ContainsFunc(reversals, func(r operation.Reversal) bool { return r.ByPerson }) {
		return nil
	}
	rows, err := from.Query(`SELECT actor, reason, after_state FROM staff_acts WHERE operator_id = $1 AND action = $2 AND subject = $3 ORDER BY id`,
		op.OperatorID, string(admin.ReversalSettle), admin.ReversalSubject(op.ID))
	entries, err := Collect(rows, err, func(row Row) (e admin.AuditEntry, err error) {
		return e, row.Scan(&e.Actor, &e.Reason, &e.After)
	})
	if err != nil {
		return fmt.Errorf("read who settled the reversals of %s: %w", op.ID, err)
	}
	for _, e := range entries {
		var after struct {
			Reference string `json:"reference"`
		}
		if err := json.Unmarshal([]byte(e.After), &after); err != nil {
			return fmt.Errorf("read who settled the reversals of %s: %w", op.ID, err)
		}
		for i, r := range reversals {
			if r.Reference == after.Reference && r.ByPerson { // the last, if it was settled more than once
				reversals[i].SettledBy, reversals[i].Evidence = e.Actor, e.Reason
			}
		}
	}
	return nil
}
