package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
)

const (
	// largeSubscribers is the number of subscribers of the measured operator,
	// largeOperations the number of renewals within the last thirty days.
	largeSubscribers = 100_000
	largeOperations  = 30_000
	largeCallers     = 32
)

// given and family are the words of names; a few are common.
var (
	given  = []string{"Asha", "Ravi", "Sunita", "Imran", "Lakshmi", "Gurpreet", "Joseph", "आशा", "Mohan", "Farida", "Deepak"}
	family = []string{"Sharma", "Kumar", "Devi", "Khan", "Reddy", "Singh", "Thomas", "शर्मा", "Rao", "Patil", "Nair", "Das", "Gupta"}
)

// BenchmarkReports measures the store calls of each page, with an operator of a hundred
// thousand subscribers.
func BenchmarkReports(b *testing.B, newOpener func(testing.TB) Opener) {
	h := &harness{TB: b, Store: newOpener(b).Open(b)}
	b.Cleanup(func() { _ = h.Store.Close() })
	s := h.fixture("100000000")
	s.large()
	ctx, id, now := b.Context(), s.operator.ID, noon
	for _, query := range []struct {
		name string
		ask  func() error
	}{
		{"home, kept", func() func() error {
			service := h.service(now)
			s.must(first(service.Home(ctx, id, true)))
			return func() error { return first(service.Home(ctx, id, true)) }
		}()},
		{"wallet", func() error { return first(h.Wallet(ctx, id)) }},
		{"due in 7 days, by operator", func() error { return first(h.DueByOperator(ctx, now, now.Add(7*oneDay))) }},
		{"due in 30 days", func() error { return first(h.DueByDay(ctx, id, now, now.Add(30*oneDay))) }},
		{"trade of a day", func() error { return first(h.OperationTotals(ctx, id, report.Day(now).Add(-oneDay), report.Day(now))) }},
		{"count", func() error { return first(h.CountSubscribers(ctx, id, now)) }},
		{"by expiry", s.asking(report.SubscriberFilter{})},
		{"by expiry, in the middle", s.asking(report.SubscriberFilter{After: report.Cursor{Number: now.Add(15 * oneDay).UnixMilli(), ID: "1"}.String()})},
		{"by name", s.asking(report.SubscriberFilter{Order: report.ByName})},
		{"active by name", s.asking(report.SubscriberFilter{Order: report.ByName, Status: report.Active})},
		{"expiring in 7 days", s.asking(report.SubscriberFilter{Status: report.Expiring, Within: 7})},
		{"expired", s.asking(report.SubscriberFilter{Status: report.Expired, Descending: true})},
		{"active by name, from the end", s.asking(report.SubscriberFilter{Order: report.ByName, Status: report.Active, Descending: true})},
		{"in review", s.asking(report.SubscriberFilter{Status: report.InReview})},
		{"search of one letter", s.asking(report.SubscriberFilter{Search: "s"})},
		{"search of a common word", s.asking(report.SubscriberFilter{Search: "sharma"})},
		{"search of two words", s.asking(report.SubscriberFilter{Search: "asha kumar"})},
		{"search of a mobile", s.asking(report.SubscriberFilter{Search: "98000555"})},
		{"search of nobody", s.asking(report.SubscriberFilter{Search: "zzz"})},
		{"search of last digits", s.asking(report.SubscriberFilter{Search: "777"})},
		{"search of an address", s.asking(report.SubscriberFilter{Search: "lake asha"})},
		{"search of expired by address", s.asking(report.SubscriberFilter{Search: "road", Status: report.Expired})},
		{"of a small area by name", s.asking(report.SubscriberFilter{Area: "ward 7", Order: report.ByName})},
		{"of a small area by expiry", s.asking(report.SubscriberFilter{Area: "ward 7"})},
		{"of a large area by expiry", s.asking(report.SubscriberFilter{Area: "centre"})},
		{"of a small plan by expiry", s.asking(report.SubscriberFilter{Plan: "RARE-1"})},
		{"of a small plan, expired, by name", s.asking(report.SubscriberFilter{Plan: "RARE-1", Status: report.Expired, Order: report.ByName})},
		{"of a large plan, expired, by name", s.asking(report.SubscriberFilter{Plan: s.plan.ID, Status: report.Expired, Order: report.ByName})},
		{"of a small plan in a large area by expiry", s.asking(report.SubscriberFilter{Plan: "RARE-1", Area: "centre"})},
		{"of a large plan in a large area by name", s.asking(report.SubscriberFilter{Plan: s.plan.ID, Area: "centre", Order: report.ByName})},
		{"of a plan nobody has any more", s.asking(report.SubscriberFilter{Plan: "GONE-1", Order: report.ByPlan})},
		{"by plan", s.asking(report.SubscriberFilter{Order: report.ByPlan})},
		{"by price, from the end", s.asking(report.SubscriberFilter{Order: report.ByPrice, Descending: true})},
		{"expired by plan", s.asking(report.SubscriberFilter{Order: report.ByPlan, Status: report.Expired})},
		{"due, 1000 lines", s.asking(report.SubscriberFilter{Status: report.FallingDue, Within: 7, Ended: 7, Limit: 1000})},
		{"due in a large area, 1000 lines", s.asking(report.SubscriberFilter{Status: report.FallingDue, Within: 7, Ended: 7, Area: "centre", Limit: 1000})},
		{"due in a small area", s.asking(report.SubscriberFilter{Status: report.FallingDue, Within: 7, Ended: 7, Area: "ward 7", Limit: 1000})},
		{"areas", func() error { return first(h.SubscriberAreas(ctx, id, 500)) }},
		{"contact data", func() error { return second(h.Contact(ctx, id, largeID(4711), 30)) }},
		{"subscriber", func() error { return second(h.service(now).Subscriber(ctx, id, largeID(4711))) }},
		{"statement of a month", func() error {
			return first(h.service(now).Statement(ctx, id, report.StatementFilter{From: now.Add(-30 * oneDay), Until: now}))
		}},
		{"statement, newest first", func() error {
			return first(h.service(now).Statement(ctx, id, report.StatementFilter{From: now.Add(-30 * oneDay), Until: now, NewestFirst: true}))
		}},
		{"transactions", func() error { return first(h.service(now).Transactions(ctx, id, report.TransactionFilter{})) }},
		{"transactions of a day", func() error {
			return first(h.service(now).Transactions(ctx, id, report.TransactionFilter{From: now.Add(-9 * oneDay), Until: now.Add(-9 * oneDay), State: operation.Success}))
		}},
		{"holds", func() error { return first(h.service(now).Holds(ctx, id)) }},
		{"accounts", func() error { return first(h.ListAccounts(ctx, report.AccountQuery{Limit: 50})) }},
		{"totals", func() error { return first(h.SystemTotals(ctx)) }},
		{"reviews", func() error { return first(h.ReviewQueue(ctx, report.Cursor{}, 50)) }},
		{"commission of a month", func() error { return first(h.CommissionSums(ctx, id, report.Month(now), now)) }},
	} {
		b.Run(query.name, func(b *testing.B) {
			for b.Loop() {
				if err := query.ask(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func (s *fixture) asking(f report.SubscriberFilter) func() error {
	return func() error { return first(s.service(noon).Subscribers(s.Context(), s.operator.ID, f)) }
}

func largeID(n int) string { return fmt.Sprintf("%06d", 100_000+n) }

// large creates the subscribers, which expire one after the other within a month, one
// in fifty some time ago, and their renewals.
func (s *fixture) large() {
	s.Helper()
	const batch = 1000
	for _, id := range []string{"RARE-1", "GONE-1"} {
		plan := s.plan
		plan.ID, plan.Name = id, id
		s.must(first(s.SetPlan(s.Context(), staffAction("plan set"), plan)))
	}
	for begin := 0; begin < largeSubscribers; begin += batch {
		var rows []admin.ImportRow
		for n := begin; n < begin+batch; n++ {
			expires := noon.Add(time.Duration(n%30*24+n%24) * time.Hour)
			if n%50 == 0 {
				expires = noon.Add(-time.Duration(n%2400+1) * time.Hour)
			}
			rows = append(rows, admin.ImportRow{
				Line: n + 1, OperatorID: s.operator.ID, SubscriberID: largeID(n), Mobile: fmt.Sprintf("98%08d", n), PlanID: s.plan.ID, Expires: expires,
				Name: given[n%len(given)] + " " + family[n%len(family)],
				// A third is of one area, the others of a hundred.
				Contact: operation.Contact{
					Area: map[bool]string{true: "Centre", false: fmt.Sprintf("Ward %d", n%100)}[n%3 == 0], Address: fmt.Sprintf("%d Lake Road", n%900), BoxNumber: fmt.Sprintf("STB%06d", n),
				},
			})
			if n%200 == 0 {
				rows[len(rows)-1].PlanID = "RARE-1"
			}
		}
		_, err := s.ImportSubscribers(s.Context(), staffAction("subscriber import"), rows)
		s.must(err)
	}
	errs := make([]error, largeCallers)
	concurrently(largeCallers, func(caller int) {
		for n := caller; n < largeOperations && errs[caller] == nil; n += largeCallers {
			errs[caller] = s.renewLong(n)
		}
	})
	s.must(errors.Join(errs...))
}

// renewLong makes the n-th renewal, some time in the last thirty days. One in a
// thousand is left in review.
func (s *fixture) renewLong(n int) error {
	at := noon.Add(-30*oneDay + time.Duration(n)*30*oneDay/largeOperations)
	snapshot, err := s.Snapshot(s.Context(), operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Renew, SubscriberID: largeID(n), PlanID: s.plan.ID})
	if err != nil {
		return err
	}
	d := s.activation(fmt.Sprint("renewal-", n), snapshot.Subscriber.Mobile, snapshot.Subscriber.ID)
	d.Kind, d.SubscriberVersion, d.CustomerName, d.Profile = operation.Renew, snapshot.Subscriber.Version, snapshot.Subscriber.Name, operation.Profile{}
	d.CreatedAt, d.CycleStartsAt, d.ExpiryPrevious, d.ExpiryPlanned = at, at, snapshot.Subscriber.Expires, snapshot.Subscriber.Expires
	op, err := s.Reserve(s.Context(), d)
	if err != nil {
		return err
	}
	to := operation.Success
	if n%1000 == 0 {
		to = operation.NeedsReview
	}
	st := settlement(op, to)
	st.At = at.Add(time.Second)
	return second(s.Settle(s.Context(), st))
}
