package audit

import (
	"database/sql"
	"fmt"
)

// What staff decide about single operations: each decision has its act, and each
// act its decision. They are held against each other side by side, because over
// the years there are more of them than one wants to keep.

const (
	settledPrefix = "operation "
	addonPrefix   = "addon of "
)

// openDecisions reads the acts of one kind in the order of the operations that
// their subjects name behind a prefix.
func (a *auditor) openDecisions(action, prefix string) *stream[string, act] {
	id := fmt.Sprintf("substr(subject, %d)", len(prefix)+1)
	return open(a, "staff_acts", `
		SELECT `+id+`, id, operator_id, actor, subject, after_state, reason, at
		  FROM staff_acts WHERE action = '`+action+`' ORDER BY `+id+` `+bytewise,
		func(row scanner, act *act) (operation string) {
			row(&operation, &act.id, &act.operator, &act.actor, &act.subject, &act.after, &act.reason, &act.at)
			return operation
		})
}

// settledBy is the person who decided an operation; empty if none did.
func settledBy(events []event) string {
	if len(events) < 2 {
		return ""
	}
	return events[len(events)-1].actor
}

// judgeDecisions holds what persons decided about an operation against the acts
// of staff.
func (a *auditor) judgeDecisions(op *operation, d dossier) {
	subject, person := op.subject(), settledBy(d.events)
	expected := 0
	if person != "" && !op.open() {
		expected = 1
	}
	if len(d.settled) != expected {
		a.found("A9", subject, "%d acts of staff decided it; expected %d, as its history says that %s", len(d.settled), expected, byWhom(person))
	}
	if (op.reason.String == "REJECTED_BY_REVIEW") != (op.status == "failed" && person != "") {
		a.found("A9", subject, "it is %s with the reason %q; expected REJECTED_BY_REVIEW where a person let it fail, and only there: %s",
			op.status, op.reason.String, byWhom(person))
	}
	for _, act := range d.settled {
		last := d.events[max(0, len(d.events)-1):]
		if len(last) == 0 {
			break // told elsewhere
		}
		if e := last[0]; act.actor != e.actor || act.at != e.at || act.reason != e.reason || act.operator != op.operator {
			a.found("A9", subject, "it was decided by %q at %s, %q; expected what act %d says, by %q at %s, %q",
				e.actor, moment(e.at), e.reason, act.id, act.actor, moment(act.at), act.reason)
		}
		if status := fieldsOf(act.after)["status"]; status != op.status {
			a.found("A9", subject, "it is %s; expected %q, as act %d left it", op.status, status, act.id)
		}
	}
	closings := 0
	if op.addonStatus.String == "closed" {
		closings = 1
	}
	if len(d.closed) != closings {
		a.found("A9", subject, "%d acts of staff closed its add-on; expected %d, as that is %q", len(d.closed), closings, op.addonStatus.String)
	}
}

func byWhom(person string) string {
	if person == "" {
		return "nobody did"
	}
	return person + " did"
}

// judgeActors demands that an operation's money is moved by whoever made it, or
// by the person who decided it.
func (a *auditor) judgeActors(op *operation, d dossier) {
	if len(d.events) > 0 && !d.events[0].from.Valid && d.events[0].actor != op.actor {
		a.found("M8", op.subject(), "it was made by %q; expected %q, as its first event says", op.actor, d.events[0].actor)
	}
	for _, m := range d.movements {
		expected := op.actor
		if person := settledBy(d.events); m.kind == "refund" && person != "" {
			expected = person
		}
		if m.actor != expected {
			a.found("M8", op.subject(), "its %s, wallet entry %d of lco %d, is by %q; expected %q", m.kind, m.seq, m.operator, m.actor, expected)
		}
	}
}

// readClosings holds the exceptions that were closed against the acts of staff.
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
	acts := open(a, "staff_acts", `
		SELECT subject, id, actor, after_state, reason, at FROM staff_acts WHERE action = 'exception close' ORDER BY subject `+bytewise,
		func(row scanner, act *act) string {
			row(&act.subject, &act.id, &act.actor, &act.after, &act.reason, &act.at)
			return act.subject
		})
	walk(func(subject string) {
		closed, said := closings.take(subject), acts.take(subject)
		if len(closed) > 1 || len(said) != len(closed) {
			a.found("A9", subject, "it was closed %d times, and %d acts of staff say so; expected as many, and once at most", len(closed), len(said))
			return
		}
		c, act := closed[0], said[0]
		state := fieldsOf(act.after)
		if c.by.String != act.actor || c.reason.String != act.reason || c.at != act.at || c.operation != state["transaction_id"] || c.kind != state["kind"] {
			a.found("A9", subject, "%s of operation %s was closed by %q at %s, %q; expected what act %d says, %s of operation %s by %q at %s, %q",
				c.kind, c.operation, c.by.String, moment(c.at), c.reason.String,
				act.id, state["kind"], state["transaction_id"], act.actor, moment(act.at), act.reason)
		}
	}, closings, acts)
}
