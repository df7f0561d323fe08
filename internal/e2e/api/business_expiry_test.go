package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// advanceTo moves the clock to the next such time of day in India.
func (b *bizEnv) advanceTo(hour, minute, second int) {
	now := b.Now().In(bizIST)
	next := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, second, 0, bizIST)
	if !next.After(now) {
		next = next.AddDate(0, 0, 1)
	}
	b.advance(next.Sub(now))
}

// expiry checks an operation's expiry and that of the subscription.
func (b *bizEnv) expiry(what string, got e2e.Answer, previous, until time.Time, start string) {
	b.TB.Helper()
	b.must(what, got, fault.OK)
	want := map[string]string{"expiry.previous": "", "expiry.new": bizTime(until), "expiry.start_date": start}
	if !previous.IsZero() {
		want["expiry.previous"] = bizTime(previous)
	}
	b.mustShow(what, got, want)
	b.mustShow(what+", looked up", b.get(b.me, "transaction?transaction_id="+got.Text("transaction_id")), want)
	sub := b.get(b.me, "subscription?subscriber_id="+got.Text("customer.subscriber_id"))
	b.mustShow(what+", as a subscription", sub, map[string]string{"expiry_date": bizTime(until), "status": "active", "active": "true"})
}

func TestExpiry_Rules(t *testing.T) {
	b := newBiz(t)
	b.run(t, "an activation lasts thirty days whatever the plan", bizActivationTerm)
	b.run(t, "a renewal adds the plan's months to the expiry, or to now", bizRenewalTerm)
	b.run(t, "an advance renewal starts the day after the expiry, at most 29 days ahead", bizAdvanceStart)
	b.run(t, "an advance renewal of an expired subscriber starts today", bizAdvanceOfExpired)
	b.run(t, "further bookings lose no paid day", bizFurtherBookings)
	b.run(t, "status and days remaining follow the clock", bizStatusAndDays)
	b.run(t, "expiry and start date are those of the reservation", bizExpiryFixedAtReserve)
	b.CheckAudit()
}

func bizActivationTerm(t *testing.T, b *bizEnv) {
	for _, plan := range []string{"BASIC-1", "FAMILY-3", "COMBO-1"} {
		got := b.post(b.me, "activate", b.key(), b.good("activate").with("plan_id", plan).json())
		b.expiry(plan, got, time.Time{}, b.Now().Add(30*bizDay), "")
		b.mustShow(plan, got, map[string]string{"created_at": bizTime(b.Now()), "completed_at": bizTime(b.Now())})
		b.mustShow(plan, b.get(b.me, "subscription?mobile="+got.Text("customer.mobile")), map[string]string{
			"plan.id": plan, "created_at": bizTime(b.Now()), "renewed_at": "", "days_remaining": "30",
			"last_provider_transaction": got.Text("provider_transaction_id"),
		})
	}
}

func TestExpiry_ActivationTermFromPlan(t *testing.T) {
	b := newBiz(t, "rules.activation_term=plan")
	for plan, days := range map[string]time.Duration{"BASIC-1": 30, "FAMILY-3": 90} {
		got := b.post(b.me, "activate", b.key(), b.good("activate").with("plan_id", plan).json())
		b.expiry(plan, got, time.Time{}, b.Now().Add(days*bizDay), "")
	}
}

func bizRenewalTerm(t *testing.T, b *bizEnv) {
	rows := []struct {
		what   string
		after  time.Duration // since the activation, which lasts thirty days
		plan   string
		months time.Duration
	}{
		{"at once", 0, "BASIC-1", 1},
		{"while it runs", 10*bizDay + 5*time.Hour, "FAMILY-3", 3},
		{"in its last millisecond", 30*bizDay - time.Millisecond, "FAMILY-1", 1},
		{"at its very end", 30 * bizDay, "FAMILY-3", 3},
		{"a millisecond late", 30*bizDay + time.Millisecond, "BASIC-1", 1},
		{"a year late", 395*bizDay + 7*time.Hour, "COMBO-1", 1},
	}
	for _, row := range rows {
		c := b.customer(b.me, "BASIC-1")
		expires := b.Now().Add(30 * bizDay)
		b.advance(row.after)
		from := expires
		if b.Now().After(expires) {
			from = b.Now()
		}
		got := b.post(b.me, "renew", b.key(), bizRenewal(c, row.plan))
		b.expiry("renewed "+row.what, got, expires, from.Add(row.months*30*bizDay), "")
		sub := b.get(b.me, "subscription?subscriber_id="+c.id)
		b.mustShow("renewed "+row.what, sub, map[string]string{"plan.id": row.plan, "renewed_at": bizTime(b.Now())})
	}
	// Twice in a row adds up.
	c := b.customer(b.me, "BASIC-1")
	expires := b.Now().Add(30 * bizDay)
	b.expiry("once", b.post(b.me, "renew", b.key(), bizRenewal(c, "BASIC-1")), expires, expires.Add(30*bizDay), "")
	b.expiry("twice", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-3")), expires.Add(30*bizDay), expires.Add(120*bizDay), "")
}

// The start date is in Indian time: at 02:30 there it is still the day before in UTC.
func bizAdvanceStart(t *testing.T, b *bizEnv) {
	rows := []struct {
		what                 string
		hour, minute, second int           // of the activation, in India
		after                time.Duration // since the activation
		startsIn             int           // days from today
	}{
		{"on the day of the activation, capped", 14, 0, 0, time.Hour, 29},
		{"a day later, capped", 14, 0, 0, bizDay, 29},
		{"two days later, the cap reached exactly", 14, 0, 0, 2 * bizDay, 29},
		{"three days later, below the cap", 14, 0, 0, 3 * bizDay, 28},
		{"after ten days", 14, 0, 0, 10 * bizDay, 21},
		{"on the day it expires", 14, 0, 0, 30*bizDay - time.Hour, 1},
		{"in the last millisecond", 14, 0, 0, 30*bizDay - time.Millisecond, 1},
		{"the evening before, expiring at night", 2, 30, 0, 29*bizDay + 21*time.Hour, 2},
		{"at night, expiring in the evening", 23, 30, 0, 29*bizDay + 3*time.Hour, 1},
		{"in the last second before an expiry at midnight", 0, 0, 0, 30*bizDay - time.Second, 2},
		{"expiring at midnight, on the evening before", 0, 0, 0, 29*bizDay + 23*time.Hour, 2},
		{"in the last second of the day", 23, 59, 59, 20 * bizDay, 11},
	}
	for _, row := range rows {
		b.advanceTo(row.hour, row.minute, row.second)
		c := b.customer(b.me, "BASIC-1")
		expires := b.Now().Add(30 * bizDay)
		b.advance(row.after)
		today := b.Now().In(bizIST)
		start := time.Date(today.Year(), today.Month(), today.Day()+row.startsIn, 0, 0, 0, 0, bizIST)
		from := start // the day after the expiry, or a capped day before it
		if expires.After(start) {
			from = expires // no paid day is lost to the cap
		}
		got := b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "FAMILY-3"))
		b.expiry(row.what, got, expires, from.Add(90*bizDay), start.Format("2006-01-02"))
		sub := b.get(b.me, "subscription?subscriber_id="+c.id)
		b.mustShow(row.what, sub, map[string]string{"plan.id": "BASIC-1", "renewed_at": bizTime(b.Now())})
	}
}

func bizAdvanceOfExpired(t *testing.T, b *bizEnv) {
	for _, late := range []time.Duration{0, time.Millisecond, 3 * time.Hour, 100*bizDay + 5*time.Hour} {
		b.advanceTo(2, 30, 0)
		c := b.customer(b.me, "BASIC-1")
		expires := b.Now().Add(30 * bizDay)
		b.advance(30*bizDay + late)
		got := b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "FAMILY-1"))
		what := fmt.Sprintf("expired for %s", late)
		b.expiry(what, got, expires, b.Now().Add(30*bizDay), b.Now().In(bizIST).Format("2006-01-02"))
		b.mustShow(what, b.get(b.me, "subscription?subscriber_id="+c.id), map[string]string{"plan.id": "FAMILY-1"})
	}
}

func bizFurtherBookings(t *testing.T, b *bizEnv) {
	c := b.customer(b.me, "BASIC-1")
	expires := b.Now().Add(30 * bizDay)
	capped := b.Now().In(bizIST).AddDate(0, 0, 29).Format("2006-01-02")
	for i, plan := range []string{"FAMILY-1", "FAMILY-3", "COMBO-1"} {
		until := expires.Add([]time.Duration{30, 90, 30}[i] * bizDay)
		b.expiry("booking "+plan, b.post(b.me, "advance-renew", b.key(), bizRenewal(c, plan)), expires, until, capped)
		expires = until
	}
	b.mustShow("three bookings", b.get(b.me, "subscription?subscriber_id="+c.id), map[string]string{"plan.id": "BASIC-1", "days_remaining": "180"})
}

func bizStatusAndDays(t *testing.T, b *bizEnv) {
	c := b.customer(b.me, "BASIC-1")
	began := b.Now()
	rows := []struct {
		after        time.Duration
		days, status string
	}{
		{0, "30", "active"}, {time.Millisecond, "30", "active"}, {bizDay - time.Millisecond, "30", "active"}, {bizDay, "29", "active"},
		{29 * bizDay, "1", "active"}, {30*bizDay - time.Millisecond, "1", "active"}, {30 * bizDay, "0", "expired"}, {31 * bizDay, "0", "expired"}, {400 * bizDay, "0", "expired"},
	}
	for _, row := range rows {
		b.advance(began.Add(row.after).Sub(b.Now()))
		got := b.must("subscription", b.get(b.me, "subscription?subscriber_id="+c.id), fault.OK)
		b.mustShow(fmt.Sprintf("after %s", row.after), got, map[string]string{
			"days_remaining": row.days, "status": row.status, "active": fmt.Sprint(row.status == "active"),
			"plan.id": "BASIC-1", "expiry_date": bizTime(began.Add(30 * bizDay)), "created_at": bizTime(began),
		})
	}
	b.must("renewed late", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-3")), fault.OK)
	b.mustShow("renewed late", b.get(b.me, "subscription?subscriber_id="+c.id), map[string]string{
		"days_remaining": "90", "status": "active", "active": "true", "plan.id": "FAMILY-3", "created_at": bizTime(began), "renewed_at": bizTime(b.Now()),
	})
}

// Expiry and start date are computed at the reservation and applied at the
// settlement, however much later that is; until then nothing changes.
func bizExpiryFixedAtReserve(t *testing.T, b *bizEnv) {
	for _, endpoint := range bizEndpoints {
		what := endpoint + " in review"
		body := b.good(endpoint)
		c, before := bizCustomer{}, time.Time{}
		if endpoint == "activate" {
			c.mobile = body["mobile"].(string)
		} else {
			c.id, before = body["subscriber_id"].(string), b.Now().Add(30*bizDay)
			c.mobile = b.get(b.me, "subscription?subscriber_id="+c.id).Text("customer.mobile")
		}
		b.advance(25 * bizDay)
		until, start := b.Now().Add(30*bizDay), ""
		switch endpoint {
		case "renew":
			until = before.Add(30 * bizDay)
		case "advance-renew":
			day := before.In(bizIST)
			midnight := time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, bizIST)
			until, start = midnight.Add(30*bizDay), midnight.Format("2006-01-02")
		}
		inReview := b.leaveInReview(b.me, endpoint, c.mobile, body)
		pending := map[string]string{"expiry.new": "", "expiry.start_date": start, "completed_at": "", "status": "needs_review", "result_code": "PENDING_REVIEW"}
		b.mustShow(what, b.get(b.me, "transaction?transaction_id="+inReview), pending)
		standing := map[string]string{"status": "pending", "active": "false", "expiry_date": "", "created_at": "", "days_remaining": "0"}
		if endpoint != "activate" {
			standing = map[string]string{"status": "active", "expiry_date": bizTime(before), "plan.id": "BASIC-1", "renewed_at": "", "days_remaining": "5"}
		}
		sub := b.get(b.me, "subscription?mobile="+c.mobile)
		b.mustShow(what, sub, standing)
		if list, _ := sub.Data["pending_operations"].([]any); len(list) != 1 || list[0].(map[string]any)["transaction_id"] != inReview {
			t.Errorf("%s: pending are %v; want %s", what, list, inReview)
		}
		b.advance(23 * time.Hour)
		b.settle(b.me, inReview, operation.Success)
		b.expiry(what+", confirmed", b.replayOf(inReview, endpoint, body), before, until, start)
		b.mustShow(what+", confirmed", b.get(b.me, "transaction?transaction_id="+inReview), map[string]string{
			"completed_at": bizTime(b.Now()), "created_at": bizTime(b.Now().Add(-23 * time.Hour)), "result_code": "OK",
		})
	}
}

// replayOf sends a request again, under the key of the transaction it made.
func (b *bizEnv) replayOf(transaction, endpoint string, body bizBody) e2e.Answer {
	b.TB.Helper()
	key := b.get(b.me, "transaction?transaction_id="+transaction).Text("idempotency_key")
	return b.post(b.me, endpoint, key, body.json())
}
