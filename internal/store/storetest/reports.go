package storetest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

var reportTests = []test{
	{"subscribers are found by prefixes of words, numbers and ids", searches},
	{"subscribers are listed by status, in order, in pages", standings},
	{"a failed activation is not found", forgottenTerms},
	{"amounts due are summed by Indian days at the last plan's price", dues},
	{"counts, lists and forecasts of who expires within some days agree", expiringWithin},
	{"trade is summed by kind and state", trades},
	{"statement ranges follow each other without a gap", statements},
	{"statement lines are filtered by side, text and transaction", ledgerFilters},
	{"transactions are filtered and paged", transactions},
	{"subscribers and transactions are found by one text", textSearches},
	{"keys are found by the beginning of their hint", keySearches},
	{"accounts are listed with their money, and searched", accounts},
	{"totals cover the whole service", totals},
	{"commissions are summed by plan and month, and listed", commissionReports},
	{"the review queue is ordered by waiting time", reviewQueues},
	{"reports contain nothing of another operator", reportTenancy},
}

const oneDay = 24 * time.Hour

// service returns a report service on the harness's store, at a time.
func (h *harness) service(now time.Time) *report.Service {
	return report.New(h.Store, report.Config{Now: func() time.Time { return now }})
}

// imported is an imported subscriber.
type imported struct {
	id, mobile, name string
	expires          time.Time
}

func (s *fixture) importAll(operator subscription.Operator, all ...imported) {
	s.Helper()
	var rows []admin.ImportRow
	for i, one := range all {
		rows = append(rows, admin.ImportRow{
			Line: i + 1, OperatorID: operator.ID, SubscriberID: one.id, Mobile: one.mobile, Name: one.name, PlanID: s.plan.ID, Expires: one.expires,
		})
	}
	_, err := s.ImportSubscribers(s.Context(), staffAction("subscriber import"), rows)
	s.must(err)
}

// pages reads a list to its end, in pages of a given size.
func (s *fixture) pages(f report.SubscriberFilter, limit int) (ids []string) {
	s.Helper()
	f.Limit = limit
	for {
		found, err := s.service(noon).Subscribers(s.Context(), s.operator.ID, f)
		s.must(err)
		for _, row := range found.Rows {
			ids = append(ids, row.ID)
		}
		if found.Next == "" {
			return ids
		}
		if len(found.Rows) != limit {
			s.Fatalf("a page of %d rows has a next one; want %d rows", len(found.Rows), limit)
		}
		f.After = found.Next
	}
}

// listed checks a list, for several page sizes.
func (s *fixture) listed(what string, f report.SubscriberFilter, want ...string) {
	s.Helper()
	for _, limit := range []int{1, 2, 50} {
		if got := s.pages(f, limit); !slices.Equal(got, want) {
			s.Errorf("%s, %d a page: %v; want %v", what, limit, got, want)
		}
	}
}

func searches(h *harness) {
	s := h.fixture("1000")
	s.importAll(s.operator,
		imported{"100001", "9800000001", "Asha Sharma", noon.Add(oneDay)},
		imported{"100002", "9800000002", "ASHOK kumar ashtekar", noon.Add(-oneDay)},
		imported{"100003", "9811111111", "आशा शर्मा", noon.Add(oneDay)},
		imported{"ASHRAM", "9822222222", "S.K. Rao-Patil (Shop)", noon.Add(oneDay)},
		imported{"100005", "9833333333", `O"Brien \ "x y"`, noon.Add(oneDay)},
	)
	s.listed("the whole word", report.SubscriberFilter{Search: "Asha"}, "100001")
	s.listed("a beginning, once for who has two such words", report.SubscriberFilter{Search: "ASH"}, "100001", "100002", "ASHRAM")
	s.listed("words in any order", report.SubscriberFilter{Search: "sha ash"}, "100001")
	s.listed("a word of no name", report.SubscriberFilter{Search: "sharma kumar"})
	s.listed("the middle of a word", report.SubscriberFilter{Search: "harma"})
	s.listed("Devanagari", report.SubscriberFilter{Search: "शर्"}, "100003")
	s.listed("Devanagari, both words", report.SubscriberFilter{Search: "शर्मा आशा"}, "100003")
	s.listed("a number", report.SubscriberFilter{Search: "98000"}, "100001", "100002")
	s.listed("a whole number", report.SubscriberFilter{Search: "9811111111"}, "100003")
	s.listed("an id", report.SubscriberFilter{Search: "10000"}, "100001", "100002", "100003", "100005")
	s.listed("initials", report.SubscriberFilter{Search: "S.K."}, "ASHRAM")
	s.listed("behind a bracket and a hyphen", report.SubscriberFilter{Search: "shop patil"}, "ASHRAM")
	s.listed("quotes and backslashes", report.SubscriberFilter{Search: `o"b`}, "100005")
	s.listed("signs that SQL has meanings for", report.SubscriberFilter{Search: `% _ ' --`})
	s.listed("of who is active", report.SubscriberFilter{Search: "ash", Status: report.Active}, "100001", "ASHRAM")
	s.listed("of who has expired", report.SubscriberFilter{Search: "ash", Status: report.Expired}, "100002")
	s.listed("nothing but signs is no search", report.SubscriberFilter{Search: " . "}, "100002", "100001", "100003", "100005", "ASHRAM")
	if _, err := s.service(noon).Subscribers(s.Context(), s.operator.ID, report.SubscriberFilter{After: "!!"}); err != report.ErrCursor {
		s.Errorf("an invalid cursor: %v; want %v", err, report.ErrCursor)
	}
}

func standings(h *harness) {
	s := h.fixture("10000")
	s.importAll(s.operator,
		imported{"100001", "9800000001", "delta", noon.Add(2 * oneDay)},
		imported{"100002", "9800000002", "Charlie", noon.Add(2 * oneDay)},
		imported{"100003", "9800000003", "bravo", noon.Add(10 * oneDay)},
		imported{"100004", "9800000004", "Alpha", noon.Add(40 * oneDay)},
		imported{"100005", "9800000005", "echo", noon},
		imported{"100006", "9800000006", "foxtrot", noon.Add(-oneDay)},
	)
	pending := s.settle(s.reserve(s.activation("act-7", "9800000007", "100007")), operation.NeedsReview) // Asha
	renewal := s.settle(s.reserve(s.renewal("renew-6", "100006")), operation.NeedsReview)
	s.reserve(s.renewal("renew-1", "100001")) // open, and not in review
	s.listed("everybody by expiry, who has none last", report.SubscriberFilter{}, "100006", "100005", "100001", "100002", "100003", "100004", "100007")
	s.listed("everybody by name", report.SubscriberFilter{Order: report.ByName}, "100004", "100007", "100003", "100002", "100001", "100005", "100006")
	s.listed("active", report.SubscriberFilter{Status: report.Active}, "100001", "100002", "100003", "100004")
	s.listed("active by name", report.SubscriberFilter{Status: report.Active, Order: report.ByName}, "100004", "100003", "100002", "100001")
	s.listed("within three days", report.SubscriberFilter{Status: report.Expiring, Within: 3}, "100001", "100002")
	s.listed("within two days", report.SubscriberFilter{Status: report.Expiring, Within: 2}, "100001", "100002")
	s.listed("within one day", report.SubscriberFilter{Status: report.Expiring, Within: 1})
	s.listed("within fifteen days by name", report.SubscriberFilter{Status: report.Expiring, Within: 15, Order: report.ByName}, "100003", "100002", "100001")
	s.listed("everybody by plan", report.SubscriberFilter{Order: report.ByPlan}, "100004", "100003", "100002", "100001", "100005", "100006", "100007")
	s.listed("expired, the last first", report.SubscriberFilter{Status: report.Expired, Descending: true}, "100005", "100006")
	s.listed("in review", report.SubscriberFilter{Status: report.InReview}, "100007", "100006")
	s.listed("in review, by a word", report.SubscriberFilter{Status: report.InReview, Search: "fox"}, "100006")

	counts, err := s.CountSubscribers(s.Context(), s.operator.ID, noon)
	s.must(err)
	if want := (report.SubscriberCounts{All: 7, Active: 4, Expired: 2, In3: 2, In7: 2, In15: 3}); counts != want {
		s.Errorf("counted %+v; want %+v", counts, want)
	}
	rows, err := s.service(noon).Subscribers(s.Context(), s.operator.ID, report.SubscriberFilter{Order: report.ByName})
	s.must(err)
	alpha, asha, foxtrot := rows.Rows[0], rows.Rows[1], rows.Rows[6]
	if alpha.Name != "Alpha" || alpha.Mobile != "9800000004" || alpha.PlanName != s.plan.Name || alpha.PlanID != s.plan.ID ||
		alpha.Price != s.plan.Price || !alpha.Expires.Equal(noon.Add(40*oneDay)) || alpha.Open != "" {
		s.Errorf("a row is %+v", alpha)
	}
	if asha.PlanID != "" || !asha.Expires.IsZero() || asha.Open != operation.NeedsReview || asha.OpenTransaction != pending.ID {
		s.Errorf("who is being activated is %+v", asha)
	}
	if foxtrot.Open != operation.NeedsReview || foxtrot.OpenTransaction != renewal.ID {
		s.Errorf("who is being renewed is %+v", foxtrot)
	}
	detail, found, err := s.service(noon).Subscriber(s.Context(), s.operator.ID, "100006")
	s.must(err)
	if !found || detail.PlanID != s.plan.ID || detail.Status != subscription.SubscriberExpired || detail.DaysLeft != 0 ||
		len(detail.Timeline) != 1 || detail.Timeline[0].ID != renewal.ID || len(detail.Pending) != 1 || len(detail.Cycles) != 1 {
		s.Errorf("one of them is %v, %+v", found, detail)
	}
}

func forgottenTerms(h *harness) {
	s := h.fixture("1000")
	op := s.reserve(s.activation("act-1", "9800000001", "100001"))
	s.listed("while it is open", report.SubscriberFilter{Search: "asha"}, "100001")
	s.settle(op, operation.Failed)
	s.listed("once it has failed", report.SubscriberFilter{Search: "asha"})
	s.listed("by its number", report.SubscriberFilter{Search: "9800000001"})
	s.subscriber("100001", "9800000001")
	s.listed("when it has come again", report.SubscriberFilter{Search: "asha"}, "100001")
}

func dues(h *harness) {
	s := h.fixture("10000")
	midnight := time.Date(2027, 3, 2, 0, 0, 0, 0, subscription.IST)
	s.importAll(s.operator,
		imported{"100001", "9800000001", "before", noon},
		imported{"100002", "9800000002", "today", midnight.Add(-time.Millisecond)},
		imported{"100003", "9800000003", "tomorrow", midnight},
		imported{"100004", "9800000004", "tomorrow too", midnight.Add(oneDay - time.Millisecond)},
		imported{"100005", "9800000005", "next week", midnight.Add(7 * oneDay)},
		imported{"100006", "9800000006", "too late", midnight.Add(40 * oneDay)},
	)
	// The last plan bought counts, at its present price.
	dear, err := s.SetPlan(s.Context(), staffAction("plan set"), plan("DEAR-1", "500", "TV-BASIC"))
	s.must(err)
	renewal := s.renewal("renew-5", "100005")
	renewal.PlanID, renewal.PlanVersion, renewal.PlanName, renewal.Amount = dear.ID, dear.Version, dear.Name, dear.Price
	renewal.Kind, renewal.CycleStartsAt, renewal.ExpiryPlanned = operation.AdvanceRenew, midnight.Add(8*oneDay), midnight.Add(20*oneDay)
	s.settle(s.reserve(renewal), operation.Success)
	_, err = s.SetPlan(s.Context(), staffAction("plan set"), plan("DEAR-1", "600", "TV-BASIC"))
	s.must(err)

	got, err := s.DueByDay(s.Context(), s.operator.ID, noon, midnight.Add(29*oneDay))
	s.must(err)
	var lines []string
	for _, due := range got {
		lines = append(lines, fmt.Sprintf("%s %d %s", due.Day.In(subscription.IST).Format("02.01. 15:04"), due.Subscribers, due.Amount))
	}
	want := []string{"01.03. 00:00 1 199.00", "02.03. 00:00 2 398.00", "22.03. 00:00 1 600.00"}
	if !slices.Equal(lines, want) {
		s.Errorf("due are %q; want %q", lines, want)
	}
	byOperator, err := s.DueByOperator(s.Context(), noon, midnight.Add(29*oneDay))
	s.must(err)
	if want := map[int64]money.Amount{s.operator.ID: rupees("1197")}; !maps.Equal(byOperator, want) {
		s.Errorf("by operator %v are due; want %v", byOperator, want)
	}
	home, err := s.service(noon).Home(s.Context(), s.operator.ID, false)
	s.must(err)
	if home.Wallet.Balance != rupees("9500") || home.Figures == nil || home.Figures.Forecast.Month.Amount != rupees("1197") ||
		home.Figures.Forecast.Week.Amount != rupees("597") || !home.Figures.Forecast.Covered() ||
		len(home.Soon) != 5 || home.Soon[0].ID != "100002" || home.Counts.Active != 5 || len(home.Figures.Days) != report.HomeDays {
		s.Errorf("at home: %+v", home)
	}
	if count, amount := home.Today.Sum(operation.Success); count != 1 || amount != rupees("500") {
		s.Errorf("today %d for %s; want one for 500", count, amount)
	}
}
