package audit

import (
	"database/sql"
	"strings"
)

// operation is a row of operations, as far as it is audited.
type operation struct {
	id, kind, channel, actor, mobile, plan, planName, main, addon, status string
	operator, planVersion, months, amount, bps, walletBefore              int64
	fingerprint, epoch, created                                           int64
	lease, review, nextCheck, addonNext, completed                        sql.NullInt64
	needsPerson                                                           flag
	addonStatus, reason, transaction                                      sql.NullString

	// carriedOut is when the provider carried out an adopted operation; such a one is
	// compared with the provider's list entry, which is among its calls.
	carriedOut, previous, reversed sql.NullInt64
	planned, starts                int64
	subscriber                     string
	key                            string
}

// adopted reports whether staff recorded the operation from the provider's list.
func (op *operation) adopted() bool { return op.carriedOut.Valid }

// reserved is when the operation was ordered: the price of that time is due.
func (op *operation) reserved() int64 {
	if op.adopted() {
		return op.carriedOut.Int64
	}
	return op.created
}

func (op *operation) subject() string { return "operation " + op.id }
func (op *operation) open() bool      { return op.status == "processing" || op.status == "needs_review" }

// Rows that belong to an operation.
type (
	movement struct { // of a wallet
		kind, actor                                  string
		operator, seq, amount, balanceAfter, created int64
	}
	bookLine struct {
		kind, text                      string
		operator, line, amount, created int64
	}
	commission struct{ operator, amount, rate, created int64 }
	event      struct {
		from              sql.NullString
		to, actor, reason string
		seq, epoch, at    int64
	}
	reference struct{ operation string }
)

// operationRows has the rows that belong to an operation.
type operationRows struct {
	movements   []movement
	lines       []bookLine
	commissions []commission
	events      []event
	cycles      int
	// Provider calls and exceptions, and staff decisions.
	provider callSummary
	settled  []staffAction
	closed   []staffAction
	adopted  []staffAction
	reversed reversalRows
	// The events, or the provider calls, were removed because they were old.
	eventsRemoved, callsRemoved bool
}

// readOperations checks the operations and the rows that belong to them.
func (a *auditor) readOperations() {
	carriedOut := "carried_out_at"
	if !a.has(migrationAdopted) {
		carriedOut = "NULL"
	}
	operations := open(a, "operations", `
		SELECT id, operator_id, length(fingerprint), kind, channel, actor, mobile, plan_id, plan_version, plan_name, plan_months,
		       main, addon, amount_paise, commission_bps, wallet_before_paise, status, epoch, lease_until, review_since,
		       next_check_at, needs_person, addon_status, addon_next_at, provider_transaction_id, reason, created_at, completed_at,
		       `+carriedOut+`, expiry_previous, expiry_planned, cycle_starts_at, subscriber_id, idempotency_key, `+a.reversedAt()+`
		  FROM operations ORDER BY id `+bytewise,
		func(row scanner, op *operation) string {
			var addon sql.NullString
			row(&op.id, &op.operator, &op.fingerprint, &op.kind, &op.channel, &op.actor, &op.mobile, &op.plan, &op.planVersion, &op.planName, &op.months,
				&op.main, &addon, &op.amount, &op.bps, &op.walletBefore, &op.status, &op.epoch, &op.lease, &op.review,
				&op.nextCheck, &op.needsPerson, &op.addonStatus, &op.addonNext, &op.transaction, &op.reason, &op.created, &op.completed,
				&op.carriedOut, &op.previous, &op.planned, &op.starts, &op.subscriber, &op.key, &op.reversed)
			op.addon = addon.String
			return op.id
		})
	movements := open(a, "wallet_entries", `
		SELECT operation_id, kind, operator_id, seq, amount_paise, balance_after, actor, created_at
		  FROM wallet_entries WHERE operation_id IS NOT NULL ORDER BY operation_id `+bytewise,
		func(row scanner, m *movement) (id string) {
			row(&id, &m.kind, &m.operator, &m.seq, &m.amount, &m.balanceAfter, &m.actor, &m.created)
			return id
		})
	lines := open(a, "ledger", `
		SELECT operation_id, kind, operator_id, line, amount_paise, description, created_at
		  FROM ledger WHERE operation_id IS NOT NULL ORDER BY operation_id `+bytewise,
		func(row scanner, l *bookLine) (id string) {
			row(&id, &l.kind, &l.operator, &l.line, &l.amount, &l.text, &l.created)
			return id
		})
	commissions := open(a, "commissions", `
		SELECT operation_id, operator_id, amount_paise, rate_bps, created_at
		  FROM commissions ORDER BY operation_id `+bytewise,
		func(row scanner, c *commission) (id string) {
			row(&id, &c.operator, &c.amount, &c.rate, &c.created)
			return id
		})
	events := open(a, "operation_events", `
		SELECT operation_id, seq, from_status, to_status, epoch, actor, reason, at
		  FROM operation_events ORDER BY operation_id `+bytewise+`, seq`,
		func(row scanner, e *event) (id string) {
			row(&id, &e.seq, &e.from, &e.to, &e.epoch, &e.actor, &e.reason, &e.at)
			return id
		})
	refer := func(row scanner, r *reference) string {
		row(&r.operation)
		return r.operation
	}
	cycles := open(a, "cycles", `SELECT operation_id FROM cycles WHERE operation_id IS NOT NULL ORDER BY operation_id `+bytewise, refer)
	calls, exceptions := a.openCalls(), a.openExceptions()
	settled, closed := a.openDecisions("review settle", settledPrefix), a.openDecisions("addon close", addonPrefix)
	adopted := a.openDecisions("operation adopt", settledPrefix)
	asked, done := a.openDecisions("operation reverse", settledPrefix), a.openDecisions("operation reversed", settledPrefix)
	reversalsSettled := a.openDecisions("reversal settle", settledPrefix)
	reversals, reversalLines := a.openReversals("operation_id"), a.openReversalLines()
	oldEvents, oldCalls := a.openRemoved(oldEvents), a.openRemoved(oldCalls)

	walk(func(id string) {
		ops := operations.take(id)
		d := operationRows{
			movements: movements.take(id), lines: lines.take(id), commissions: commissions.take(id), events: events.take(id),
			cycles: len(cycles.take(id)), provider: callSummary{id: id}, settled: settled.take(id), closed: closed.take(id), adopted: adopted.take(id),
			reversed: reversalRows{reversals: reversals.take(id), lines: reversalLines.take(id), asked: asked.take(id), done: done.take(id), settled: reversalsSettled.take(id)},
		}
		// An operation with an unknown outcome may have months of status calls: they are
		// summarised, not stored.
		calls.each(id, d.provider.addCall)
		exceptions.each(id, d.provider.addException)
		if len(ops) == 0 {
			a.reportOrphans(id, d)
			return
		}
		if len(ops) > 1 {
			a.found("M5", "operation "+id, "there are %d operations of this id; expected 1", len(ops))
		}
		if covered := oldEvents.reach(id); covered && len(d.events) == 0 {
			d.eventsRemoved = true
			oldEvents.add(&ops[0])
		}
		// Before the first call there is none, and what a person decided may never have had one.
		if covered := oldCalls.reach(id); covered && d.provider.calls == 0 && !ops[0].open() && settledBy(d.events) == "" {
			d.callsRemoved = true
			oldCalls.add(&ops[0])
		}
		a.checkOperation(&ops[0], d)
	}, operations, movements, lines, commissions, events, cycles, calls, exceptions, settled, closed, adopted, asked, done, reversalsSettled, reversals, reversalLines)

	oldEvents.finish()
	oldCalls.finish()

	counts := &a.report.Counts
	counts.Operations.Total, counts.Commissions, counts.Events = operations.count, commissions.count, events.count
	counts.ProviderCalls, counts.Exceptions = calls.count, exceptions.count
	counts.Reversals = reversals.count
}

func (a *auditor) reportOrphans(id string, d operationRows) {
	for _, orphan := range []struct {
		what  string
		count int
	}{
		{"wallet entries", len(d.movements)}, {"ledger lines", len(d.lines)}, {"commissions", len(d.commissions)},
		{"events", len(d.events)}, {"cycles", d.cycles},
		{"provider calls", d.provider.calls}, {"exceptions", d.provider.exceptions}, {"decisions of staff", len(d.settled) + len(d.closed) + len(d.adopted) + len(d.reversed.asked) + len(d.reversed.done) + len(d.reversed.settled)},
		{"reversals", len(d.reversed.reversals) + len(d.reversed.lines)},
	} {
		if orphan.count > 0 {
			a.found("O1", "operation "+id, "%d %s refer to it, and it is missing", orphan.count, orphan.what)
		}
	}
}

// checkOperation compares an operation with the rows that belong to it.
func (a *auditor) checkOperation(op *operation, d operationRows) {
	a.requireOperator(op.operator, op.subject())
	o, counts := a.operatorOf(op.operator), &a.report.Counts.Operations
	switch op.status {
	case "success":
		counts.Success++
		if !op.reversed.Valid {
			o.charged += op.amount
		}
	case "failed":
		counts.Failed++
	case "processing":
		counts.Processing++
		o.held += op.amount
	case "needs_review":
		counts.NeedsReview++
		o.held += op.amount
	}
	a.checkMoney(op, d)
	a.checkPrice(op)
	a.checkCommission(op, d.commissions)
	a.checkPath(op, d)
	a.checkOpen(op)
	a.checkAddon(op)
	a.checkActors(op, d)
	a.checkDecisions(op, d)
	a.checkProvider(op, d)
	a.checkAdoption(op, d)
	a.checkReversals(op, d)
	if unclaimed := op.adopted() && strings.HasPrefix(op.key, adoptedPrefix); op.fingerprint != fingerprintBytes && !(unclaimed && op.fingerprint == 0) {
		a.found("I2", op.subject(), "its fingerprint has %d bytes; expected %d, or no repetition can be told from another request", op.fingerprint, fingerprintBytes)
	}
	expected := shapes[op.status].cycles
	if op.reversed.Valid {
		expected = 0
	}
	if d.cycles != expected {
		a.found("S5", op.subject(), "%d cycles came of it; expected %d, as it is %s, reversed: %v", d.cycles, expected, op.status, op.reversed.Valid)
	}
}

// fingerprintBytes is the length of an HMAC with SHA-256.
const fingerprintBytes = 32

// shape is how many rows belong to an operation of a status, besides its one reservation.
type shape struct{ refunds, lines, commissions, cycles int }

var shapes = map[string]shape{
	"success":      {lines: 1, commissions: 1, cycles: 1},
	"failed":       {refunds: 1},
	"processing":   {},
	"needs_review": {},
}

func (a *auditor) checkMoney(op *operation, d operationRows) {
	subject, expected := op.subject(), shapes[op.status]
	reserves, refunds, reversals := 0, 0, 0
	for _, m := range d.movements {
		amount, at := op.amount, op.completed
		switch m.kind {
		case "reserve":
			reserves++
			amount, at = -op.amount, sql.NullInt64{Int64: op.created, Valid: true}
			if before := m.balanceAfter - m.amount; before != op.walletBefore {
				a.found("M7", subject, "it saw %s in the wallet; expected %s, from entry %d", rupees(op.walletBefore), rupees(before), m.seq)
			}
		case "refund":
			refunds++
		case "reversal":
			reversals++
			at = op.reversed
		default:
			a.found("M8", subject, "wallet entry %d of lco %d is a %s for it; expected a reserve, a refund or a reversal", m.seq, m.operator, m.kind)
			continue
		}
		if m.amount != amount || m.operator != op.operator {
			a.found("M4", subject, "wallet entry %d of lco %d, a %s, moves %s; expected %s of lco %d",
				m.seq, m.operator, m.kind, rupees(m.amount), rupees(amount), op.operator)
		}
		a.together(subject, "its "+m.kind, m.created, at)
	}
	if reserves != 1 || refunds != expected.refunds {
		a.found("M4", subject, "it has %d reserves and %d refunds; expected 1 and %d, as it is %s", reserves, refunds, expected.refunds, op.status)
	}
	if refunds+reversals > 1 {
		a.found("M9", subject, "its money was given back %d times; expected once at most", refunds+reversals)
	}
	if (reversals == 1) != op.reversed.Valid {
		a.found("V1", subject, "it is marked as reversed: %v, and %d wallet entries take its charge back; expected one if it is, and none if not", op.reversed.Valid, reversals)
	}
	if len(d.lines) != expected.lines {
		a.found("M4", subject, "it has %d ledger lines; expected %d, as it is %s", len(d.lines), expected.lines, op.status)
	}
	for _, l := range d.lines {
		if l.kind != "debit" || l.amount != op.amount || l.operator != op.operator {
			a.found("M4", subject, "ledger line %d of lco %d is a %s of %s; expected a debit of %s of lco %d",
				l.line, l.operator, l.kind, rupees(l.amount), rupees(op.amount), op.operator)
		}
		if marked := strings.HasSuffix(l.text, "[API]"); marked != (op.channel == "api") {
			a.found("M4", subject, "its ledger line reads %q; expected it to end with [API] only if it came through the API, and it came through %s",
				l.text, op.channel)
		}
		a.together(subject, "its ledger line", l.created, op.completed)
	}
}

func (a *auditor) checkCommission(op *operation, commissions []commission) {
	subject, expected := op.subject(), shapes[op.status].commissions
	if len(commissions) != expected {
		a.found("M4", subject, "it has %d commissions; expected %d, as it is %s", len(commissions), expected, op.status)
	}
	if o := a.operators[op.operator]; o.known && !o.rates[op.bps] {
		a.found("C1", subject, "it pays %d basis points, a rate no staff action ever gave lco %d", op.bps, op.operator)
	}
	for _, c := range commissions {
		// Taken apart, so that no product can outgrow an int64.
		share := op.amount/10_000*op.bps + (op.amount%10_000*op.bps+5_000)/10_000
		if c.amount != share || c.rate != op.bps || c.operator != op.operator {
			a.found("C1", subject, "the commission is %s at %d basis points from lco %d; expected %s at %d from lco %d",
				rupees(c.amount), c.rate, c.operator, rupees(share), op.bps, op.operator)
		}
		if c.rate < 0 || c.rate > 10_000 {
			a.found("C1", subject, "the commission's rate is %d basis points; expected 0 to 10000", c.rate)
		}
		a.report.Counts.Sums.Commission = plus(a.report.Counts.Sums.Commission, c.amount)
		a.earned(c)
		a.together(subject, "its commission", c.created, op.completed)
	}
}

// together requires that the rows of one commit have the same time. Rows that should not
// exist have no expected time, and are reported elsewhere.
func (a *auditor) together(subject, what string, at int64, expected sql.NullInt64) {
	if expected.Valid && at != expected.Int64 {
		a.found("T1", subject, "%s is of %s; expected %s, the operation's own time", what, moment(at), moment(expected.Int64))
	}
}
