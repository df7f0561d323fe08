package audit

import (
	"cmp"
	"database/sql"
	"slices"
	"time"
)

// reversal is a request to undo an operation. The operation stays a success; reversals that were
// refused changed nothing.
type reversal struct {
	reference, operation, subscriber, status, actor, reason string
	operator, amount, commission, requested                 int64
	next, completed                                         sql.NullInt64
}

func (r *reversal) open() bool { return r.status == "requested" || r.status == "asked" }

// openReversals reads the reversals in the order of a column; nothing in a store that has none.
func (a *auditor) openReversals(by string) *stream[string, reversal] {
	query := `
		SELECT ` + by + `, reference, operation_id, subscriber_id, status, actor, reason, operator_id, amount_paise, commission_paise,
		       requested_at, next_at, completed_at
		  FROM reversals ORDER BY ` + by + ` ` + bytewise + `, requested_at`
	if !a.has(migrationReversals) {
		query = `SELECT '', '', '', '', '', '', '', 0, 0, 0, 0, NULL, NULL FROM operations WHERE 1 = 0`
	}
	return open(a, "reversals", query, func(row scanner, r *reversal) (key string) {
		row(&key, &r.reference, &r.operation, &r.subscriber, &r.status, &r.actor, &r.reason, &r.operator, &r.amount, &r.commission,
			&r.requested, &r.next, &r.completed)
		return key
	})
}

// openReversalLines reads the ledger lines that take a charge back, by its operation.
func (a *auditor) openReversalLines() *stream[string, bookLine] {
	query := `
		SELECT reversal_of, kind, operator_id, line, amount_paise, description, created_at
		  FROM ledger WHERE reversal_of IS NOT NULL ORDER BY reversal_of ` + bytewise
	if !a.has(migrationReversals) {
		query = `SELECT '', '', 0, 0, 0, '', 0 FROM operations WHERE 1 = 0`
	}
	return open(a, "ledger", query, func(row scanner, l *bookLine) (id string) {
		row(&id, &l.kind, &l.operator, &l.line, &l.amount, &l.text, &l.created)
		return id
	})
}

// reversedAt is the column of operations; NULL in a store that lacks it.
func (a *auditor) reversedAt() string {
	if a.has(migrationReversals) {
		return "reversed_at"
	}
	return "NULL"
}

// reversalRows has what belongs to the reversals of an operation.
type reversalRows struct {
	reversals []reversal
	lines     []bookLine
	// asked are the staff actions that requested one, done those that a node wrote when it was
	// carried out, settled those of people who settled one that the provider left unknown.
	asked, done, settled []staffAction
}

// reversalActions are the staff actions about one reversal. One that was settled as not undone may be
// asked for again, under its reference.
type reversalActions struct {
	// asked are those that requested it, the last one last; settled those that settled it since;
	// before those that settled it before the last request.
	asked, settled, before []staffAction
}

func (d *reversalRows) actionsOf(r *reversal) (of reversalActions) {
	about := func(actions []staffAction) (found []staffAction) {
		for _, action := range actions {
			if fieldsOf(action.after)["reference"] == r.reference {
				found = append(found, action)
			}
		}
		slices.SortFunc(found, func(a, b staffAction) int { return cmp.Compare(a.id, b.id) })
		return found
	}
	of.asked = about(d.asked)
	for _, action := range about(d.settled) {
		if n := len(of.asked); n > 0 && action.id < of.asked[n-1].id {
			of.before = append(of.before, action)
		} else {
			of.settled = append(of.settled, action)
		}
	}
	return of
}

// checkReversals requires that an operation was reversed once at most, for a member of staff and as
// the provider answered or a person settled, and that exactly its charge and its commission went back.
func (a *auditor) checkReversals(op *operation, d operationRows) {
	subject, carriedOut, undecided := op.subject(), 0, 0
	// done is how many were carried out without a person, asked and settled are the staff actions about
	// those that are there.
	done, asked, settled := 0, 0, 0
	for i := range d.reversed.reversals {
		r := &d.reversed.reversals[i]
		a.checkReversal(op, r, d)
		actions := d.reversed.actionsOf(r)
		byPerson := len(actions.settled) > 0
		asked, settled = asked+len(actions.asked), settled+len(actions.settled)+len(actions.before)
		switch {
		case r.status == "reversed":
			carriedOut++
			if !byPerson {
				done++
			}
			a.checkCarriedOut(op, r, d)
		case r.open():
			undecided++
		}
	}
	if carriedOut+undecided > 1 {
		a.found("V1", subject, "%d reversals of it were carried out and %d are open; expected one in all", carriedOut, undecided)
	}
	if op.reversed.Valid != (carriedOut == 1) {
		a.found("V1", subject, "it is marked as reversed: %v, and %d reversals were carried out; expected both or neither", op.reversed.Valid, carriedOut)
	}
	if len(d.reversed.asked) != asked {
		a.found("A9", subject, "%d staff actions asked for its reversal, and %d of them for one that is there; expected all", len(d.reversed.asked), asked)
	}
	if len(d.reversed.settled) != settled {
		a.found("A9", subject, "%d staff actions settled its reversals, and %d of them one that is there; expected all", len(d.reversed.settled), settled)
	}
	if len(d.reversed.done) != done || len(d.reversed.lines) != carriedOut {
		a.found("V1", subject, "%d reversals were carried out, %d of them by the provider's answer, with %d entries in the audit log and %d ledger lines; expected an entry for each answer and a line for each",
			carriedOut, done, len(d.reversed.done), len(d.reversed.lines))
	}
}

// checkReversal compares a reversal with its operation, its staff action and the provider's replies.
func (a *auditor) checkReversal(op *operation, r *reversal, d operationRows) {
	subject := "reversal " + r.reference
	if r.operator != op.operator || r.subscriber != op.subscriber || r.amount != op.amount || op.status != "success" {
		a.found("V1", subject, "it gives %s back to lco %d for subscriber %s; expected what operation %s charged, %s of lco %d for %s",
			rupees(r.amount), r.operator, r.subscriber, op.id, rupees(op.amount), op.operator, op.subscriber)
	}
	if len(d.commissions) == 1 && r.commission != d.commissions[0].amount {
		a.found("C3", subject, "it takes back a commission of %s; expected that of operation %s, %s", rupees(r.commission), op.id, rupees(d.commissions[0].amount))
	}
	actions := d.reversed.actionsOf(r)
	for _, action := range actions.asked[max(0, len(actions.asked)-1):] {
		if action.actor != r.actor || action.at != r.requested || action.reason != r.reason || action.operator != r.operator {
			a.found("A9", subject, "it was asked for by %q at %s, %q; expected what staff action %d says, by %q at %s, %q",
				r.actor, moment(r.requested), r.reason, action.id, action.actor, moment(action.at), action.reason)
		}
	}
	if asked, before := len(actions.asked), len(actions.before); asked != 1+before {
		a.found("A9", subject, "%d staff actions asked for it; expected 1, and 1 more for each of the %d that settled it before", asked, before)
	}
	for _, action := range actions.before {
		if state := fieldsOf(action.after)["status"]; state != "refused" {
			a.found("A9", subject, "it was asked for again, after staff action %d had settled it as %s; expected only after refused", action.id, state)
		}
	}
	settled := actions.settled
	for _, action := range settled {
		if state := fieldsOf(action.after)["status"]; state != r.status || action.at != r.completed.Int64 || action.operator != r.operator {
			a.found("A9", subject, "it is %s since %s; expected what staff action %d says, %s by %q at %s", r.status, moment(r.completed.Int64), action.id, state, action.actor, moment(action.at))
		}
	}
	if len(settled) > 1 {
		a.found("A9", subject, "%d staff actions settled it; expected one at most", len(settled))
	}
	if r.open() {
		if r.next.Valid && r.next.Int64 > a.now+a.longestWait+stuckAfterMS {
			a.found("S4", subject, "the provider is asked next at %s; expected within %s", moment(r.next.Int64), a.maxWait())
		}
		return
	}
	if d.callsRemoved {
		return
	}
	if len(settled) == 0 && !d.provider.answered(r, r.status) {
		a.found("S9", subject, "it is %s, and neither a reply of the provider nor a person says so", r.status)
	}
	opposite := map[string]string{"reversed": "refused", "refused": "reversed"}[r.status]
	if d.provider.answered(r, opposite) && !d.provider.reversalContradiction {
		a.found("S9", subject, "it is %s, and the provider says that it is %s; expected an exception REVERSAL_CONTRADICTION", r.status, opposite)
	}
}

// checkCarriedOut compares what a reversal wrote.
func (a *auditor) checkCarriedOut(op *operation, r *reversal, d operationRows) {
	subject, at := "reversal "+r.reference, r.completed.Int64
	a.together(subject, "it", at, op.reversed)
	mover := r.actor
	if settled := d.reversed.actionsOf(r).settled; len(settled) > 0 {
		mover = settled[0].actor
	}
	for _, action := range d.reversed.done {
		if action.actor != r.actor || action.at != at || action.reason != r.reason || action.operator != r.operator || fieldsOf(action.after)["reference"] != r.reference {
			a.found("V1", subject, "it was carried out at %s for %q; expected what audit entry %d says, at %s for %q", moment(at), r.actor, action.id, moment(action.at), action.actor)
		}
	}
	for _, l := range d.reversed.lines {
		if l.kind != "credit" || l.amount != op.amount || l.operator != op.operator {
			a.found("V1", subject, "ledger line %d of lco %d is a %s of %s; expected a credit of %s of lco %d",
				l.line, l.operator, l.kind, rupees(l.amount), rupees(op.amount), op.operator)
		}
		a.together(subject, "its ledger line", l.created, r.completed)
	}
	for _, m := range d.movements {
		if m.kind == "reversal" && m.actor != mover {
			a.found("M8", subject, "wallet entry %d of lco %d is by %q; expected %q", m.seq, m.operator, m.actor, mover)
		}
	}
	a.report.Counts.Sums.Commission = plus(a.report.Counts.Sums.Commission, -r.commission)
	month := time.UnixMilli(at).In(india).Format("2006-01")
	if p := a.periods[monthOf{r.operator, month}]; p != nil {
		p.sum -= r.commission
	}
}

// reversalReply is the outcome of one call about a reversal.
type reversalReply struct{ reference, outcome string }

// answered reports whether a reply says that the reversal has an outcome.
func (e *callSummary) answered(r *reversal, status string) bool {
	wanted := map[string]string{"reversed": "confirmed", "refused": "rejected"}[status]
	for _, reply := range e.reversals {
		if reply.reference == r.reference && reply.outcome == wanted {
			return true
		}
	}
	return false
}

// checkReversing requires that a subscriber is marked with the operation whose reversal is open, and
// that no operation began while one was.
func (l *life) checkReversing(reversals []reversal) {
	underWay := ""
	for _, r := range reversals {
		if r.open() {
			underWay = r.operation
		}
		for _, p := range l.all {
			if p.created > r.requested+queueSlackMS && (r.open() || p.created < r.completed.Int64-queueSlackMS) {
				l.a.found("S2", l.subject, "operation %s began at %s, while %s was being reversed; expected one at a time", p.id, moment(p.created), r.operation)
			}
		}
	}
	if l.who.reversing != underWay {
		l.a.found("V1", l.subject, "it is marked with the reversal of %q; expected %q, whose reversal is open", l.who.reversing, underWay)
	}
}
