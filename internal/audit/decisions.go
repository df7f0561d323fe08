package audit

import (
	"database/sql"
	"fmt"
)

// What staff decide about single operations: each decision has its staff action, and each
// action its decision. They are read in parallel, because there are too many to store.

const (
	settledPrefix = "operation "
	addonPrefix   = "addon of "
)

// openDecisions reads the staff actions of one kind, by the operation that their subject
// names after a prefix.
func (a *auditor) openDecisions(action, prefix string) *stream[string, staffAction] {
	id := fmt.Sprintf("substr(subject, %d)", len(prefix)+1)
	return open(a, "staff_acts", `
		SELECT `+id+`, id, operator_id, actor, subject, after_state, reason, at
		  FROM staff_acts WHERE action = '`+action+`' ORDER BY `+id+` `+bytewise,
		func(row scanner, action *staffAction) (operation string) {
			row(&operation, &action.id, &action.operator, &action.actor, &action.subject, &action.after, &action.reason, &action.at)
			return operation
		})
}

// settledBy returns the person who decided an operation; empty if none did.
func settledBy(events []event) string {
	if len(events) < 2 {
		return ""
	}
	return events[len(events)-1].actor
}

// checkDecisions compares what people decided about an operation with the staff actions.
func (a *auditor) checkDecisions(op *operation, d operationRows) {
	subject, person := op.subject(), settledBy(d.events)
	expected := 0
	if person != "" && !op.open() && !op.adopted() {
		expected = 1
	}
	if len(d.settled) != expected {
		a.found("A9", subject, "%d staff actions decided it; expected %d, as its history says that %s", len(d.settled), expected, byWhom(person))
	}
	if (op.reason.String == "REJECTED_BY_REVIEW") != (op.status == "failed" && person != "") {
		a.found("A9", subject, "it is %s with the reason %q; expected REJECTED_BY_REVIEW where a person let it fail, and only there: %s",
			op.status, op.reason.String, byWhom(person))
	}
	for _, action := range d.settled {
		last := d.events[max(0, len(d.events)-1):]
		if len(last) == 0 {
			break // reported elsewhere
		}
		if e := last[0]; action.actor != e.actor || action.at != e.at || action.reason != e.reason || action.operator != op.operator {
			a.found("A9", subject, "it was decided by %q at %s, %q; expected what staff action %d says, by %q at %s, %q",
				e.actor, moment(e.at), e.reason, action.id, action.actor, moment(action.at), action.reason)
		}
		if status := fieldsOf(action.after)["status"]; status != op.status {
			a.found("A9", subject, "it is %s; expected %q, as staff action %d left it", op.status, status, action.id)
		}
	}
	closings := 0
	if op.addonStatus.String == "closed" {
		closings = 1
	}
	if len(d.closed) != closings {
		a.found("A9", subject, "%d staff actions closed its add-on; expected %d, as that is %q", len(d.closed), closings, op.addonStatus.String)
	}
}

func byWhom(person string) string {
	if person == "" {
		return "nobody did"
	}
	return person + " did"
}

// checkActors requires that an operation's money was moved by the actor that made the
// operation, or by the person who decided it.
func (a *auditor) checkActors(op *operation, d operationRows) {
	if len(d.events) > 0 && !d.events[0].from.Valid && d.events[0].actor != op.actor {
		a.found("M8", op.subject(), "it was made by %q; expected %q, as its first event says", op.actor, d.events[0].actor)
	}
	for _, m := range d.movements {
		if m.kind == "reversal" {
			continue // see checkCarriedOut
		}
		expected := op.actor
		if person := settledBy(d.events); m.kind == "refund" && person != "" {
			expected = person
		}
		if m.actor != expected {
			a.found("M8", op.subject(), "its %s, wallet entry %d of lco %d, is by %q; expected %q", m.kind, m.seq, m.operator, m.actor, expected)
		}
	}
}

// readClosings compares the closed exceptions with the staff actions.
func (a *auditor) readClosings() {
	type closing struct {
		operation, kind string
		at              int64
		by, reason      sql.NullString
	}
	closings := open(a, "exceptions", `
		SELECT 'exception ' || id, operation_id, kind, closed_at, closed_by, close_reason
		  FROM exceptions WHERE closed_at IS NOT NULL ORDER BY ('exception ' || id) `+bytewise,
		func(row scanner, c *closing) (subject string) {
			row(&subject, &c.operation, &c.kind, &c.at, &c.by, &c.reason)
			return subject
		})
	actions := open(a, "staff_acts", `
		SELECT subject, id, actor, after_state, reason, at FROM staff_acts WHERE action = 'exception close' ORDER BY subject `+bytewise,
		func(row scanner, action *staffAction) string {
			row(&action.subject, &action.id, &action.actor, &action.after, &action.reason, &action.at)
			return action.subject
		})
	walk(func(subject string) {
		closed, said := closings.take(subject), actions.take(subject)
		if len(closed) > 1 || len(said) != len(closed) {
			a.found("A9", subject, "it was closed %d times, and %d staff actions say so; expected as many, and once at most", len(closed), len(said))
			return
		}
		c, action := closed[0], said[0]
		state := fieldsOf(action.after)
		if c.by.String != action.actor || c.reason.String != action.reason || c.at != action.at || c.operation != state["transaction_id"] || c.kind != state["kind"] {
			a.found("A9", subject, "%s of operation %s was closed by %q at %s, %q; expected what staff action %d says, %s of operation %s by %q at %s, %q",
				c.kind, c.operation, c.by.String, moment(c.at), c.reason.String,
				action.id, state["kind"], state["transaction_id"], action.actor, moment(action.at), action.reason)
		}
	}, closings, actions)
}
