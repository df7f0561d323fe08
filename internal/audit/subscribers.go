package audit

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

type (
	subscriber struct {
		id, mobile                  string
		operator, created           int64
		expires, activated, renewed sql.NullInt64
		transaction                 sql.NullString // the provider's last
		reversing                   string         // the operation that is being reversed
	}
	cycle struct {
		seq, starts, ends, created int64
		operation                  sql.NullString
		plan                       string
	}
	// purchase is an operation of a subscriber.
	purchase struct {
		id, kind, plan, mobile, status             string
		operator, months, planned, starts, created int64
		previous, completed, carriedOut, reversed  sql.NullInt64
		transaction                                sql.NullString
		cycle                                      int64 // the number of its cycle; 0 if it has none
	}
)

func (p *purchase) open() bool    { return p.status == "processing" || p.status == "needs_review" }
func (p *purchase) where() string { return "operation " + p.id }

// readSubscribers reads subscribers, cycles and operations side by side and recomputes every
// expiry.
func (a *auditor) readSubscribers() {
	reversing := "coalesce(reversing, '')"
	if !a.has(migrationReversals) {
		reversing = "''"
	}
	subscribers := open(a, "subscribers", `
		SELECT id, operator_id, mobile, expires_at, activated_at, renewed_at, last_provider_transaction, created_at, `+reversing+`
		  FROM subscribers ORDER BY id `+bytewise,
		func(row scanner, s *subscriber) string {
			row(&s.id, &s.operator, &s.mobile, &s.expires, &s.activated, &s.renewed, &s.transaction, &s.created, &s.reversing)
			return s.id
		})
	cycles := open(a, "cycles", `
		SELECT subscriber_id, seq, operation_id, plan_id, starts_at, ends_at, created_at
		  FROM cycles ORDER BY subscriber_id `+bytewise+`, seq`,
		func(row scanner, c *cycle) (id string) {
			row(&id, &c.seq, &c.operation, &c.plan, &c.starts, &c.ends, &c.created)
			return id
		})
	carriedOut := "carried_out_at"
	if !a.has(migrationAdopted) {
		carriedOut = "NULL"
	}
	purchases := open(a, "operations", `
		SELECT subscriber_id, id, operator_id, kind, plan_id, plan_months, mobile, expiry_previous, expiry_planned,
		       cycle_starts_at, status, provider_transaction_id, created_at, completed_at, `+carriedOut+`, `+a.reversedAt()+`
		  FROM operations ORDER BY subscriber_id `+bytewise,
		func(row scanner, p *purchase) (id string) {
			row(&id, &p.id, &p.operator, &p.kind, &p.plan, &p.months, &p.mobile, &p.previous, &p.planned,
				&p.starts, &p.status, &p.transaction, &p.created, &p.completed, &p.carriedOut, &p.reversed)
			return id
		})
	forgotten := a.openDecisions("subscriber forget", "subscriber ")
	reversals := a.openReversals("subscriber_id")
	walk(func(id string) {
		actions := forgotten.take(id)
		life := life{a: a, subject: "subscriber " + id, cycles: cycles.take(id)}
		present := subscribers.take(id)
		for _, p := range purchases.take(id) {
			switch {
			case p.status == "success" && p.reversed.Valid:
				a.checkSpan(p, p.previous) // nothing is left of it
			case p.status == "success":
				life.bought = append(life.bought, p)
			case p.open():
				life.open = append(life.open, p)
			}
			life.all = append(life.all, p)
		}
		if len(present) > 1 {
			a.found("S3", life.subject, "%d subscribers have this id; expected 1", len(present))
			// They come in no order, and the report should be the same each time.
			slices.SortFunc(present, func(a, b subscriber) int { return cmp.Compare(a.mobile, b.mobile) })
		}
		life.checkOneAtATime()
		life.checkDuplicates()
		undone := reversals.take(id)
		if len(present) == 0 {
			life.checkMissing()
			return
		}
		a.requireOperator(present[0].operator, life.subject)
		life.who = present[0]
		life.checkForgotten(actions)
		life.checkReversing(undone)
		life.checkOperation()
	}, subscribers, cycles, purchases, forgotten, reversals)
	for _, id := range slices.Sorted(maps.Keys(a.operators)) {
		if o := a.operators[id]; o.imported != o.imports {
			a.found("A9", fmt.Sprintf("lco %d", id), "%d of its subscribers came from elsewhere; expected %d, as staff actions say", o.imported, o.imports)
		}
	}
	a.report.Counts.Subscribers, a.report.Counts.Cycles = subscribers.count, cycles.count
}

// life is the history of one subscriber id. It may concern several customers: an activation
// that failed frees its id.
type life struct {
	a       *auditor
	subject string
	who     subscriber
	cycles  []cycle
	all     []purchase
	bought  []purchase
	open    []purchase
}

// checkOneAtATime checks that no operation began while another was open.
func (l *life) checkOneAtATime() {
	if len(l.open) > 1 {
		l.a.found("S2", l.subject, "operations %s and %s are both open; expected one at most", l.open[0].id, l.open[1].id)
	}
	// Of two that began in the same millisecond the one that is over was first. If both are, it is
	// the one that failed: a renewal with the same plan is refused after one that succeeded.
	end := func(p purchase) int64 {
		if p.completed.Valid {
			return p.completed.Int64
		}
		return math.MaxInt64
	}
	succeeded := func(p purchase) int {
		if p.status == "success" {
			return 1
		}
		return 0
	}
	slices.SortFunc(l.all, func(p, q purchase) int {
		return cmp.Or(cmp.Compare(p.created, q.created), cmp.Compare(end(p), end(q)), cmp.Compare(succeeded(p), succeeded(q)))
	})
	for i := 1; i < len(l.all); i++ {
		before, p := l.all[i-1], l.all[i]
		switch {
		case before.open() && p.open():
			// Reported above.
		case before.open():
			l.a.found("S2", l.subject, "operation %s began at %s, while %s was open; expected one at a time", p.id, moment(p.created), before.id)
		case before.completed.Valid && before.completed.Int64 > p.created+queueSlackMS:
			l.a.found("S2", l.subject, "operation %s began at %s, before %s was completed at %s; expected one at a time",
				p.id, moment(p.created), before.id, moment(before.completed.Int64))
		}
	}
}

// duplicateMS is how long after a renewal the same renewal is refused.
const duplicateMS = 120_000

// checkDuplicates checks each renewal against the state when it was reserved, whatever its
// later outcome. l.all is in the order of creation.
func (l *life) checkDuplicates() {
	last := map[string]purchase{} // the latest success with each plan
	for _, p := range l.all {
		if p.kind == "activate" {
			continue
		}
		// An adopted one was not made when it was recorded, and is not refused: it is done.
		// One that had been reversed by then is no duplicate.
		if before, was := last[p.plan]; was && !p.carriedOut.Valid && !(before.reversed.Valid && before.reversed.Int64 <= p.created+clockSlackMS) && p.created < before.completed.Int64+duplicateMS {
			l.a.found("I5", p.where(), "it renewed subscriber %s with plan %s at %s; expected two minutes since operation %s, completed at %s",
				l.subject[len("subscriber "):], p.plan, moment(p.created), before.id, moment(before.completed.Int64))
		}
		if p.status == "success" {
			last[p.plan] = p
		}
	}
}

// checkMissing requires that a missing subscriber has no purchases, holds or cycles.
func (l *life) checkMissing() {
	for _, p := range slices.Concat(l.bought, l.open) {
		l.a.found("S5", p.where(), "it is %s, and its %s is missing", p.status, l.subject)
	}
	if len(l.cycles) > 0 {
		l.a.found("S5", l.subject, "it has %d cycles, and is missing", len(l.cycles))
	}
}

// What replaces the mobile number of a subscriber that was forgotten, and that of its operations.
const (
	forgottenHolder = "forgotten:"
	forgottenMobile = "0000000000"
)

// held returns the subscriber's mobile, even if it was released to another subscriber.
func (s *subscriber) held() string {
	return strings.TrimPrefix(s.mobile, fmt.Sprintf("released:%d:", s.operator))
}

func (s *subscriber) forgotten() bool { return strings.HasPrefix(s.held(), forgottenHolder) }

// number returns the mobile that the subscriber's operations have.
func (s *subscriber) number() string {
	if s.forgotten() {
		return forgottenMobile
	}
	return s.held()
}

// checkForgotten requires that a subscriber was forgotten by one staff action, if it was. An action
// from before the subscriber was made concerns another one, whose id was released.
func (l *life) checkForgotten(actions []staffAction) {
	actions = slices.DeleteFunc(actions, func(action staffAction) bool { return action.at < l.who.created })
	if strings.HasPrefix(l.who.id, "released:") {
		return
	}
	if l.who.forgotten() != (len(actions) == 1) {
		l.a.found("A9", l.subject, "it was forgotten: %v; expected what %d staff actions say", l.who.forgotten(), len(actions))
	}
}

func (l *life) checkOperation() {
	if o := l.a.operators[l.who.operator]; o != nil && !o.deleted && l.who.held() != l.who.mobile {
		l.a.found("S3", l.subject, "its mobile was released, and its operator is not deleted; expected that of deleted operators alone")
	}
	for _, p := range slices.Concat(l.bought, l.open) {
		if p.operator != l.who.operator || p.mobile != l.who.number() {
			l.a.found("S5", p.where(), "it is lco %d's, for the mobile ending in %s; expected lco %d's, ending in %s, as %s is",
				p.operator, ending(p.mobile), l.who.operator, ending(l.who.number()), l.subject)
		}
	}
	activating := slices.ContainsFunc(l.open, func(p purchase) bool { return p.kind == "activate" })
	if pending := !l.who.expires.Valid; pending != activating {
		l.a.found("S5", l.subject, "it has an expiry: %v, and an open activation: %v; expected exactly one of them", !pending, activating)
	}
	if activating && len(l.cycles)+len(l.bought) > 0 {
		l.a.found("S5", l.subject, "it is being activated, and had %d cycles and %d purchases before; expected none", len(l.cycles), len(l.bought))
	}
	l.checkCycles()
	l.replay()
}

// checkCycles compares every cycle with its purchase.
func (l *life) checkCycles() {
	for i, c := range l.cycles {
		where := fmt.Sprintf("%s, cycle %d", l.subject, c.seq)
		if c.seq != int64(i)+1 {
			l.a.found("S6", where, "it stands where cycle %d is expected", i+1)
		}
		if !c.operation.Valid {
			if i > 0 {
				l.a.found("S6", where, "no operation bought it; expected one behind every cycle but an imported first")
			}
			if l.a.plans[c.plan] == nil || c.starts != min(c.created, c.ends) {
				l.a.found("S6", where, "it is plan %s from %s; expected a plan that is there, from its import at %s or its end", c.plan, moment(c.starts), moment(c.created))
			}
			continue
		}
		at := slices.IndexFunc(l.bought, func(p purchase) bool { return p.id == c.operation.String })
		if at < 0 {
			l.a.found("S6", where, "operation %s is to have bought it, which is no successful one of this subscriber", c.operation.String)
			continue
		}
		p := &l.bought[at]
		p.cycle = int64(i) + 1
		if c.starts != p.starts || c.ends != p.planned || c.plan != p.plan {
			l.a.found("S6", where, "it is plan %s from %s to %s; expected what operation %s bought, %s from %s to %s",
				c.plan, moment(c.starts), moment(c.ends), p.id, p.plan, moment(p.starts), moment(p.planned))
		}
		l.a.together(where, "it", c.created, p.completed)
	}
}

// replay computes the expiry from the purchases alone.
func (l *life) replay() {
	// Cycles are numbered in the order of settlement. If one is missing, the times are
	// used.
	numbered := !slices.ContainsFunc(l.bought, func(p purchase) bool { return p.cycle == 0 })
	slices.SortFunc(l.bought, func(p, q purchase) int {
		if numbered {
			return cmp.Compare(p.cycle, q.cycle)
		}
		return cmp.Or(cmp.Compare(p.completed.Int64, q.completed.Int64), cmp.Compare(p.created, q.created))
	})
	var expiry, activatedAt, renewedAt sql.NullInt64
	var transaction sql.NullString
	imported := len(l.cycles) > 0 && !l.cycles[0].operation.Valid
	if imported {
		first := l.cycles[0]
		expiry = sql.NullInt64{Int64: first.ends, Valid: true}
		activatedAt = sql.NullInt64{Int64: first.created, Valid: true}
		l.a.operatorOf(l.who.operator).imported++
	}
	for _, p := range l.bought {
		l.a.checkSpan(p, expiry)
		expiry = sql.NullInt64{Int64: p.planned, Valid: true}
		if p.transaction.Valid {
			transaction = p.transaction
		}
		if p.kind == "activate" {
			activatedAt = p.completed
		} else {
			renewedAt = p.completed
		}
	}
	for _, p := range l.open {
		l.a.checkSpan(p, expiry)
	}
	if l.who.expires != expiry {
		l.a.found("S6", l.subject, "it expires %s; expected %s, from %d purchases", orNever(l.who.expires), orNever(expiry), len(l.bought))
	}
	if l.who.transaction != transaction {
		l.a.found("S5", l.subject, "the provider's last number for it is %q; expected %q, its last purchase's", l.who.transaction.String, transaction.String)
	}
	if l.who.activated != activatedAt {
		l.a.found("S6", l.subject, "it was activated %s; expected %s", orNever(l.who.activated), orNever(activatedAt))
	}
	if l.who.renewed != renewedAt {
		l.a.found("S6", l.subject, "it was last renewed %s; expected %s", orNever(l.who.renewed), orNever(renewedAt))
	}
}

// checkSpan compares the cycle of a purchase with the rules.
func (a *auditor) checkSpan(p purchase, expiry sql.NullInt64) {
	if p.previous != expiry {
		a.found("S6", p.where(), "it found the expiry %s; expected %s", orNever(p.previous), orNever(expiry))
	}
	if (p.kind == "activate") == p.previous.Valid {
		a.found("S6", p.where(), "it is %s and found the expiry %s; expected an activation of somebody new, anything else of somebody known",
			p.kind, orNever(p.previous))
		return
	}
	if p.carriedOut.Valid {
		return // checkAdoption compares it with what the provider was told
	}
	var allowed []span
	switch p.kind {
	case "activate":
		allowed = activated(p.created, p.months)
	case "renew":
		allowed = []span{renewed(p.previous.Int64, p.created, p.months)}
	case "advance_renew":
		allowed = []span{booked(p.previous.Int64, p.created, p.months)}
	default:
		a.found("S6", p.where(), "it is a %q, which is nothing one can buy", p.kind)
		return
	}
	if !slices.Contains(allowed, span{p.starts, p.planned}) {
		expected := allowed[len(allowed)-1]
		a.found("S6", p.where(), "it runs from %s to %s; expected from %s to %s", moment(p.starts), moment(p.planned),
			moment(expected.starts), moment(expected.ends))
	}
}

func orNever(ms sql.NullInt64) string {
	if !ms.Valid {
		return "never"
	}
	return moment(ms.Int64)
}

// ending returns the last four digits of a mobile number.
func ending(mobile string) string {
	if len(mobile) > 4 {
		return mobile[len(mobile)-4:]
	}
	return mobile
}
