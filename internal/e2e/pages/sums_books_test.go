package pages

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
)

// The rows of a store, read without any of the product's queries.
type (
	booksOperation struct {
		operator            int64
		kind, state, plan   string
		channel, subscriber string
		amount              int64
		created             time.Time
		commission          int64
		succeeded, reversed time.Time // zero if it did not, or was not
	}
	booksLine struct {
		debit           bool
		transaction     bool // and not what staff moved
		amount, balance int64
		at              time.Time
	}
	booksOperator struct {
		name, state   string
		balance, held int64
		lines         []booksLine // in their order
		low           int64
	}
	booksSubscriber struct {
		operator int64
		expires  time.Time
		lastPlan string
		plan     string // the present one, or the last one
		open     bool
	}
	booksAnnouncement struct {
		operator, amount int64
		open             bool
	}
)

// books are the rows of a store, added up row by row in Go, to compare pages with.
type books struct {
	now         time.Time
	operators   map[int64]*booksOperator
	operations  map[string]booksOperation
	subscribers map[string]booksSubscriber
	announced   []booksAnnouncement
	prices      map[string]int64
}

// readBooks reads a store's rows.
func readBooks(t *testing.T, w *e2e.Env) books {
	t.Helper()
	db := e2e.OpenReadOnly(t, w.Node.Config.Store)
	defer db.Close()
	b := books{now: w.Now(), operators: map[int64]*booksOperator{}, operations: map[string]booksOperation{}, subscribers: map[string]booksSubscriber{}, prices: map[string]int64{}}
	each := func(query string, into []any, row func()) {
		t.Helper()
		rows, err := db.Query(query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			row()
		}
		if err := rows.Err(); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	var id, amount, balance, at, low int64
	var text, kind, state, plan, channel, subscriber string
	each(`SELECT id, name, status, low_balance_paise FROM operators`, []any{&id, &text, &state, &low}, func() {
		b.operators[id] = &booksOperator{name: text, state: state, low: low}
	})
	each(`SELECT operator_id, amount_paise FROM wallet_entries`, []any{&id, &amount}, func() { b.operators[id].balance += amount })
	each(`SELECT id, price_paise FROM plans`, []any{&plan, &amount}, func() { b.prices[plan] = amount })
	each(`SELECT id, operator_id, COALESCE(expires_at, 0) FROM subscribers`, []any{&text, &id, &at}, func() {
		s := booksSubscriber{operator: id}
		if at != 0 {
			s.expires = time.UnixMilli(at)
		}
		b.subscribers[text] = s
	})
	each(`SELECT subscriber_id, plan_id FROM cycles ORDER BY subscriber_id, seq`, []any{&subscriber, &plan}, func() {
		s := b.subscribers[subscriber]
		s.lastPlan = plan
		b.subscribers[subscriber] = s
	})
	each(fmt.Sprintf(`SELECT subscriber_id, plan_id FROM cycles WHERE starts_at <= %d ORDER BY subscriber_id, starts_at, seq`, b.now.UnixMilli()), []any{&subscriber, &plan}, func() {
		s := b.subscribers[subscriber]
		s.plan = plan
		b.subscribers[subscriber] = s
	})
	each(`SELECT operator_id, amount_paise, state FROM payment_announcements`, []any{&id, &amount, &state}, func() {
		b.announced = append(b.announced, booksAnnouncement{id, amount, state == "announced" || state == "matched"})
	})
	each(`SELECT id, operator_id, kind, status, plan_id, channel, subscriber_id, amount_paise, created_at, COALESCE(reversed_at, 0) FROM operations`,
		[]any{&text, &id, &kind, &state, &plan, &channel, &subscriber, &amount, &at, &low}, func() {
			op := booksOperation{operator: id, kind: kind, state: state, plan: plan, channel: channel, subscriber: subscriber, amount: amount, created: time.UnixMilli(at)}
			if low != 0 {
				op.state, op.reversed = "reversed", time.UnixMilli(low)
			}
			b.operations[text] = op
			if state == "processing" || state == "needs_review" {
				b.operators[id].held += amount
				s := b.subscribers[subscriber]
				s.open = true
				b.subscribers[subscriber] = s
			}
		})
	each(`SELECT operation_id, amount_paise, created_at FROM commissions`, []any{&text, &amount, &at}, func() {
		op := b.operations[text]
		op.commission, op.succeeded = amount, time.UnixMilli(at)
		b.operations[text] = op
	})
	each(`SELECT operator_id, kind, COALESCE(operation_id, ''), amount_paise, balance_after, created_at FROM ledger ORDER BY operator_id, line`, []any{&id, &kind, &text, &amount, &balance, &at}, func() {
		b.operators[id].lines = append(b.operators[id].lines, booksLine{kind == "debit", text != "", amount, balance, time.UnixMilli(at)})
	})
	return b
}

// compareWithAudit compares the sums of the rows with what the audit adds up.
func (b books) compareWithAudit(t *testing.T, w *e2e.Env) {
	t.Helper()
	snapshot, done, err := server.OpenSnapshot(context.Background(), w.Node.Config.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	proof, err := audit.Run(context.Background(), snapshot, w.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range proof.Violations {
		t.Errorf("audit: %+v", violation)
	}
	var balance, held, commission, ledger int64
	states := map[string]int64{}
	for _, op := range b.operations {
		states[op.state]++
		if op.reversed.IsZero() {
			commission += op.commission
		}
	}
	for _, o := range b.operators {
		balance, held = balance+o.balance, held+o.held
		if n := len(o.lines); n > 0 {
			ledger += o.lines[n-1].balance
		}
	}
	c := proof.Counts
	got := fmt.Sprint(states["success"]+states["reversed"], states["failed"], states["needs_review"], states["processing"], len(b.subscribers), balance, held, ledger, commission)
	want := fmt.Sprint(c.Operations.Success, c.Operations.Failed, c.Operations.NeedsReview, c.Operations.Processing, c.Subscribers,
		c.Sums.Balance.Paise(), c.Sums.Held.Paise(), c.Sums.Ledger.Paise(), c.Sums.Commission.Paise())
	if got != want {
		t.Errorf("the rows add up to %s, the audit to %s", got, want)
	}
}

// totals are a number of operations and their amounts.
type totals struct {
	count int
	paise int64
}

func (b books) sum(selected func(booksOperation) bool) (found totals) {
	for _, op := range b.operations {
		if selected(op) {
			found.count++
			found.paise += op.amount
		}
	}
	return found
}

// indianDay is the day of a moment in India.
func indianDay(at time.Time) time.Time {
	y, m, d := at.In(subscription.IST).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, subscription.IST)
}

// within counts an operator's active subscribers who expire within some calendar days, and
// adds up what their renewal costs.
func (b books) within(operatorID int64, days int) (due totals) {
	last := indianDay(b.now).AddDate(0, 0, days+1)
	for _, s := range b.subscribers {
		if s.operator == operatorID && s.expires.After(b.now) && s.expires.Before(last) {
			due.count++
			due.paise += b.prices[s.lastPlan]
		}
	}
	return due
}

// fallingDue are an operator's subscribers whose term ends within some calendar days or has ended in the
// last ones, and the prices of those who have no operation in progress.
func (b books) fallingDue(operatorID int64, within, ended int) (due totals) {
	first, last := indianDay(b.now).AddDate(0, 0, -ended), indianDay(b.now).AddDate(0, 0, within+1)
	for _, s := range b.subscribers {
		if s.operator != operatorID || s.expires.IsZero() || s.expires.Before(first) || !s.expires.Before(last) {
			continue
		}
		if due.count++; !s.open {
			due.paise += b.prices[s.plan]
		}
	}
	return due
}

// announcements adds up the open announced payments of an operator, or of all if it is zero.
func (b books) announcements(operatorID int64) (open totals) {
	for _, a := range b.announced {
		if a.open && (operatorID == 0 || a.operator == operatorID) {
			open.count, open.paise = open.count+1, open.paise+a.amount
		}
	}
	return open
}

func (b books) countSubscribers(operatorID int64, selected func(booksSubscriber) bool) (n int) {
	for _, s := range b.subscribers {
		if (operatorID == 0 || s.operator == operatorID) && selected(s) {
			n++
		}
	}
	return n
}

// statement adds up an operator's ledger from one Indian day to another, both inclusive.
func (o booksOperator) statement(from, until time.Time) (opening, closing, debits, credits int64, lines int) {
	end := until.AddDate(0, 0, 1)
	for _, l := range o.lines {
		signed := l.amount
		if l.debit {
			signed = -signed
		}
		switch {
		case l.at.Before(from):
			opening += signed
		case l.at.Before(end):
			lines++
			if l.debit {
				debits += l.amount
			} else {
				credits += l.amount
			}
		}
	}
	return opening, opening + credits - debits, debits, credits, lines
}
