package subscription

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coaxhq/coax/internal/money"
)

// at reads a moment in Indian time, as the contract writes them.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if moment, err := time.ParseInLocation(layout, text, IST); err == nil {
			return moment
		}
	}
	t.Fatalf("%q is no moment", text)
	return time.Time{}
}

// The other tests write moments in IST; this one says what IST is.
func TestMidnight_IsIndian(t *testing.T) {
	expired := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		now  time.Time
		want string
	}{
		{time.Date(2027, 3, 1, 18, 29, 59, 0, time.UTC), "2027-02-28T18:30:00Z"},
		{time.Date(2027, 3, 1, 18, 30, 0, 0, time.UTC), "2027-03-01T18:30:00Z"},
	} {
		if got := AdvanceStart(expired, row.now).UTC().Format(time.RFC3339); got != row.want {
			t.Errorf("today began at %s at %s; want %s", got, row.now, row.want)
		}
	}
	if got := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC).In(IST).Format(time.RFC3339); got != "2027-03-01T17:30:00+05:30" {
		t.Errorf("noon of UTC is %s in India", got)
	}
}

func TestActivatedUntil(t *testing.T) {
	now := at(t, "2027-03-01 10:15:30")
	rows := []struct {
		name   string
		term   ActivationTerm
		months int
		want   string
	}{
		{"one month", ThirtyDays, 1, "2027-03-31 10:15:30"},
		{"three months bought, thirty days given", ThirtyDays, 3, "2027-03-31 10:15:30"},
		{"the plan's term: three months are ninety days", PlanTerm, 3, "2027-05-30 10:15:30"},
	}
	for _, row := range rows {
		if got := ActivatedUntil(now, row.term, row.months); !got.Equal(at(t, row.want)) {
			t.Errorf("%s: %s; want %s", row.name, got, row.want)
		}
	}
}

func TestRenewedUntil(t *testing.T) {
	rows := []struct {
		name, expires, now string
		months             int
		want               string
	}{
		{"running: days are added to the end", "2027-03-10 08:00", "2027-03-01 12:00", 1, "2027-04-09 08:00"},
		{"lapsed: the term starts now", "2027-02-01 08:00", "2027-03-01 12:00", 1, "2027-03-31 12:00"},
		{"on the second of expiry both give the same", "2027-03-01 12:00", "2027-03-01 12:00", 1, "2027-03-31 12:00"},
		{"three months are ninety days", "2027-03-10 08:00", "2027-03-01 12:00", 3, "2027-06-08 08:00"},
		{"a leap February counts like any other days", "2028-02-20 00:00", "2028-02-10 00:00", 1, "2028-03-21 00:00"},
	}
	for _, row := range rows {
		got := RenewedUntil(at(t, row.expires), at(t, row.now), row.months)
		if !got.Equal(at(t, row.want)) {
			t.Errorf("%s: %s; want %s", row.name, got.In(IST), row.want)
		}
	}
}

func TestAdvanceStart_DayAfterExpiryWithinLimit(t *testing.T) {
	rows := []struct {
		name, expires, now string
		months             int
		start, until       string
	}{
		{"nine days left: the day after", "2027-03-10 08:00", "2027-03-01 12:00", 1, "2027-03-11", "2027-04-10 00:00"},
		{"ends today, later: tomorrow", "2027-03-01 20:00", "2027-03-01 12:00", 1, "2027-03-02", "2027-04-01 00:00"},
		{"ended today, earlier: today, from now", "2027-03-01 08:00", "2027-03-01 12:00", 1, "2027-03-01", "2027-03-31 12:00"},
		{"expired long ago: today, from now", "2027-01-01 08:00", "2027-03-01 12:00", 1, "2027-03-01", "2027-03-31 12:00"},
		{"28 days left: the cap is not felt", "2027-03-29 23:59:59", "2027-03-01 00:00:00", 1, "2027-03-30", "2027-04-29 00:00"},
		{"29 days left: the cap and the day after are one", "2027-03-29 12:00", "2027-03-01 00:00", 1, "2027-03-30", "2027-04-29 00:00"},
		{"40 days left: capped, and no paid day is lost", "2027-04-10 09:00", "2027-03-01 12:00", 1, "2027-03-30", "2027-05-10 09:00"},
		{"the day is India's, not UTC's", "2027-03-10 02:00", "2027-03-01 02:00", 3, "2027-03-11", "2027-06-09 00:00"},
	}
	for _, row := range rows {
		expires, now := at(t, row.expires), at(t, row.now)
		// The stores keep UTC; the rule must not depend on the zone it is handed.
		start := AdvanceStart(expires.UTC(), now.UTC())
		if !start.Equal(at(t, row.start)) {
			t.Errorf("%s: starts %s; want %s", row.name, start, row.start)
		}
		if from := AdvanceCycleStart(expires, now); from.Before(now) || from.Before(start) || from.After(latest(start, now)) {
			t.Errorf("%s: the plan holds from %s; want the start, but not before now", row.name, from)
		}
		if until := AdvancedUntil(expires, start, now, row.months); !until.Equal(at(t, row.until)) {
			t.Errorf("%s: until %s; want %s", row.name, until.In(IST), row.until)
		}
	}
}

func TestExpiry_NeverShortened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(1_700_000_000_000, 2_000_000_000_000).Draw(t, "now"))
		expires := now.Add(time.Duration(rapid.Int64Range(-400, 400).Draw(t, "hours")) * time.Hour)
		months := rapid.IntRange(1, 24).Draw(t, "months")
		paid := latest(expires, now).Add(Term(months))

		if got := RenewedUntil(expires, now, months); !got.Equal(paid) {
			t.Fatalf("a renewal ends %s; want %s", got, paid)
		}
		start := AdvanceStart(expires, now)
		if until := AdvancedUntil(expires, start, now, months); until.Before(paid) {
			t.Fatalf("an advance renewal ends %s, before %s: days were lost", until, paid)
		}
		if cap := now.Add(29 * day); start.After(cap) {
			t.Fatalf("starts %s, after the cap %s", start, cap)
		}
	})
}

func TestPlanAt_ChangesWithCycle(t *testing.T) {
	cycles := []Cycle{
		{PlanID: "BASIC-1", StartsAt: at(t, "2027-03-01 10:00")},
		{PlanID: "FAMILY-1", StartsAt: at(t, "2027-04-01")},
	}
	expires := at(t, "2027-05-01")
	rows := []struct {
		name, now, want string
		cycles          []Cycle
	}{
		{"before the scheduled day the present plan stays", "2027-03-31 23:59:59", "BASIC-1", cycles},
		{"on the day it changes", "2027-04-01 00:00", "FAMILY-1", cycles},
		{"expired: none", "2027-05-01 00:00", "", cycles},
		{"before anything began: none", "2027-02-01 00:00", "", cycles},
		{"a renewal changes the plan at once, until the booked cycle starts", "2027-03-20 00:00", "SPORT-1",
			append(cycles[:2:2], Cycle{PlanID: "SPORT-1", StartsAt: at(t, "2027-03-15")})},
		{"and then the booked one takes over", "2027-04-02 00:00", "FAMILY-1",
			append(cycles[:2:2], Cycle{PlanID: "SPORT-1", StartsAt: at(t, "2027-03-15")})},
		{"of two that begin together the later bought counts", "2027-04-02 00:00", "SPORT-1",
			append(cycles[:2:2], Cycle{PlanID: "SPORT-1", StartsAt: at(t, "2027-04-01")})},
	}
	for _, row := range rows {
		plan, active := PlanAt(row.cycles, expires, at(t, row.now))
		if plan != row.want || active != (row.want != "") {
			t.Errorf("%s: %q, %v; want %q", row.name, plan, active, row.want)
		}
	}
}

func TestStatusAndDaysRemaining(t *testing.T) {
	now := at(t, "2027-03-01 12:00")
	rows := []struct {
		name    string
		expires time.Time
		status  SubscriberStatus
		days    int
	}{
		{"not settled yet", time.Time{}, SubscriberPending, 0},
		{"a second left is a day", now.Add(time.Second), SubscriberActive, 1},
		{"exactly a day", now.Add(day), SubscriberActive, 1},
		{"a day and a second are two", now.Add(day + time.Second), SubscriberActive, 2},
		{"at the very moment it is over", now, SubscriberExpired, 0},
		{"long ago", now.Add(-400 * day), SubscriberExpired, 0},
	}
	for _, row := range rows {
		if got := StatusAt(row.expires, now); got != row.status {
			t.Errorf("%s: %s; want %s", row.name, got, row.status)
		}
		if got := DaysRemaining(row.expires, now); got != row.days {
			t.Errorf("%s: %d days; want %d", row.name, got, row.days)
		}
	}
}

func TestCommission_RoundsHalfUp(t *testing.T) {
	rows := []struct {
		price string
		bps   int
		want  string
	}{
		{"349.00", 250, "8.73"}, {"199.00", 1000, "19.90"}, {"0.01", 4999, "0.00"}, {"0.01", 5000, "0.01"}, {"999.00", 0, "0.00"},
	}
	for _, row := range rows {
		price, err := money.Parse(row.price)
		if err != nil {
			t.Fatal(err)
		}
		if got := Commission(price, row.bps).String(); got != row.want {
			t.Errorf("%s at %d bps = %s; want %s", row.price, row.bps, got, row.want)
		}
	}
}

func TestWallet_Low(t *testing.T) {
	wallet := Wallet{Balance: money.Paise(500_00), LowBelow: DefaultLowBalance}
	if wallet.Low() {
		t.Error("exactly the threshold is not low")
	}
	wallet.Balance = money.Paise(499_99)
	if !wallet.Low() {
		t.Error("a paisa below the threshold is low")
	}
}
