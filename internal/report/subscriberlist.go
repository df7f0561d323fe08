package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// StatusFilter selects subscribers by status.
type StatusFilter string

// AnyStatus is the zero value. A subscriber whose first activation is open has no expiry,
// and so is neither active nor expired.
const (
	AnyStatus StatusFilter = ""
	Active    StatusFilter = "active"
	Expiring  StatusFilter = "expiring"
	Expired   StatusFilter = "expired"
	InReview  StatusFilter = "in_review"
	// FallingDue are those whose term ends soon or has ended lately.
	FallingDue StatusFilter = "due"
)

// Order is the order of subscribers.
type Order string

// By expiry, those who have no expiry yet come at the end, in both directions. By plan, they are in the
// order of the plans' names, by price in that of the plans' prices, and of one plan by name. Search results
// are in the order of the terms, and those in review by expiry.
const (
	ByExpiry Order = ""
	ByName   Order = "name"
	ByPlan   Order = "plan"
	ByPrice  Order = "price"
)

// SubscriberFilter selects a page of subscribers. What is set combines.
type SubscriberFilter struct {
	// Search has prefixes of the words of a name, an area or an address, of the mobile number,
	// the box number or the id, or the last digits of either number, in any order.
	Search string
	Status StatusFilter
	// Within is the number of calendar days for Expiring and FallingDue: zero is today. Ended is how many
	// days ago the term of those who are FallingDue may have ended; if it is negative, it has not.
	Within, Ended int
	// Plan is the id of the present plan, or of the last one.
	Plan string
	// Area is an area, in any case.
	Area  string
	Order Order
	// Descending reverses the order.
	Descending bool
	// After is the Next of the page before.
	After string
	Limit int
}

// Source is what a store reads the rows of a list from. It also decides their order, which Descending
// reverses where that is by name or by expiry.
type Source string

const (
	FromTerms        Source = "terms" // those of Value, a prefix
	FromNames        Source = "names"
	FromExpiry       Source = "expiry"
	FromPending      Source = "pending" // those without an expiry
	FromReview       Source = "review"
	FromArea         Source = "area" // those of Value, by name
	FromPlan         Source = "plan" // those who have or had the plan Value, by name
	FromAreaByExpiry Source = "area-by-expiry"
	FromPlanByExpiry Source = "plan-by-expiry"
)

// SubscriberQuery is SubscriberFilter for a store.
type SubscriberQuery struct {
	OperatorID int64
	Source     Source
	Value      string
	// Terms are prefixes of words, in their stored form; a subscriber must have each, or a number
	// that ends with it (see LastDigits).
	Terms  []string
	Status StatusFilter
	Now    time.Time
	// From and Until bound the expiry of FallingDue; Until that of Expiring.
	From, Until time.Time
	Plan        string
	Area        string // in its stored form
	Descending  bool
	After       Cursor
	Last        Cursor // the last row to be scanned; zero is the end
	Limit       int
}

// SubscriberPage is a page of subscribers; Next is empty on the last one.
type SubscriberPage struct {
	Rows []Subscriber
	Next string
	// Truncated: the page ends because of ScanLimit, and not because it is full.
	Truncated bool
}

// listLimit is how many subscribers of an area or of a plan are sorted by expiry. Of those that have
// more, a scan in the order of expiry soon finds a page.
const listLimit = 2_000

// planScanShare is the part of ScanLimit that is scanned where each row's present plan has to be
// looked up, which takes some four times as long.
const planScanShare = 4

// Subscribers reads a page of an operator's subscribers.
func (svc *Service) Subscribers(ctx context.Context, operatorID int64, f SubscriberFilter) (SubscriberPage, error) {
	after, err := ParseCursor(f.After)
	if err != nil {
		return SubscriberPage{}, err
	}
	now := svc.now()
	q := SubscriberQuery{
		OperatorID: operatorID, Terms: Terms(f.Search), Status: f.Status, Now: now, Plan: f.Plan, Area: lowerASCII(f.Area),
		From: now, Until: subscription.LastWithin(f.Within, now), Descending: f.Descending, Limit: pageSize(f.Limit) + 1,
	}
	if f.Ended >= 0 {
		q.From = subscription.LastWithin(-f.Ended-1, now)
	}
	sources, err := svc.sources(ctx, q, f.Order)
	if err != nil {
		return SubscriberPage{}, fmt.Errorf("list the subscribers of operator %d: %w", operatorID, err)
	}
	found, err := svc.readSources(ctx, q, sources, after)
	if err != nil {
		return SubscriberPage{}, fmt.Errorf("list the subscribers of operator %d: %w", operatorID, err)
	}
	return found, nil
}

// place is a source with its value, such as one of the plans of a list by plan.
type place struct {
	source Source
	value  string
}

// part names a place in a cursor.
func (p place) part() string { return string(p.source) + " " + p.value }

// sources chooses what the rows are read from, one after the other. None has a subscriber that
// another one has.
func (svc *Service) sources(ctx context.Context, q SubscriberQuery, order Order) ([]place, error) {
	switch {
	case q.Status == InReview:
		return []place{{source: FromReview}}, nil
	case len(q.Terms) > 0:
		places := []place{{FromTerms, q.Terms[0]}}
		if backwards, is := LastDigits(q.Terms[0]); is {
			places = append(places, place{FromTerms, backwards})
		}
		return places, nil
	case order == ByName && q.Area != "":
		return []place{{FromArea, q.Area}}, nil
	case order != ByExpiry && q.Plan != "":
		return []place{{FromPlan, q.Plan}}, nil
	case order == ByName:
		return []place{{source: FromNames}}, nil
	case order == ByPlan, order == ByPrice:
		return svc.planPlaces(ctx, q, order)
	}
	for _, list := range []struct{ list, sorted place }{
		{place{FromArea, q.Area}, place{FromAreaByExpiry, q.Area}}, {place{FromPlan, q.Plan}, place{FromPlanByExpiry, q.Plan}},
	} {
		if list.list.value == "" {
			continue
		}
		all := q
		all.Source, all.Value = list.list.source, list.list.value
		_, _, more, err := svc.store.SubscriberAtOffset(ctx, all, listLimit)
		if err != nil {
			return nil, err
		}
		if !more {
			return withPending(q, list.sorted), nil
		}
	}
	return withPending(q, place{source: FromExpiry}), nil
}

// withPending adds those without an expiry, who have no plan either.
func withPending(q SubscriberQuery, places ...place) []place {
	if q.Status == AnyStatus && q.Plan == "" {
		places = append(places, place{source: FromPending})
	}
	return places
}

// planPlaces lists the plans by name or by price.
func (svc *Service) planPlaces(ctx context.Context, q SubscriberQuery, order Order) ([]place, error) {
	plans, err := svc.store.PlanNames(ctx)
	if err != nil {
		return nil, err
	}
	if order == ByPrice {
		slices.SortStableFunc(plans, func(a, b PlanName) int { return cmp.Compare(a.Price.Paise(), b.Price.Paise()) })
	}
	if q.Descending {
		slices.Reverse(plans)
	}
	var places []place
	for _, plan := range plans {
		places = append(places, place{FromPlan, plan.ID})
	}
	return withPending(q, places...), nil
}

// PlanName is a plan's id, present name and present price.
type PlanName struct {
	ID, Name string
	Price    money.Amount
}

// PlanNames lists all plans by name, those that are sold no more included.
func (svc *Service) PlanNames(ctx context.Context) ([]PlanName, error) {
	return svc.store.PlanNames(ctx)
}

// areasListed is how many areas are offered to choose from.
const areasListed = 500

// Areas lists the areas of an operator's subscribers, in the order of their stored form.
func (svc *Service) Areas(ctx context.Context, operatorID int64) ([]string, error) {
	return svc.store.SubscriberAreas(ctx, operatorID, areasListed)
}

// readSources fills a page from the sources, beginning with the one where the page before ended.
func (svc *Service) readSources(ctx context.Context, q SubscriberQuery, places []place, after Cursor) (found SubscriberPage, err error) {
	begin := 0
	if after != (Cursor{}) {
		// A cursor of a list whose source has changed meanwhile, because an area has grown, has the
		// same order.
		if begin = slices.IndexFunc(places, func(p place) bool { return p.part() == after.Part }); begin < 0 {
			begin = 0
		}
	}
	limit, budget := q.Limit-1, svc.scanLimit
	for i, p := range places[begin:] {
		q.Source, q.Value, q.After, q.Last = p.source, p.value, Cursor{}, Cursor{}
		if i == 0 {
			q.After = after
			q.After.Part = ""
		}
		of := q
		if p.source == FromPlan {
			of.Plan = p.value
		}
		scanned, truncated := 0, false
		if of.needsScan() {
			share := budget
			if of.Plan != "" {
				share = max(1, budget/planScanShare)
			}
			if of.Last, scanned, truncated, err = svc.store.SubscriberAtOffset(ctx, of, share); err != nil {
				return found, err
			}
			if of.Plan != "" {
				scanned *= planScanShare
			}
			budget = max(1, budget-scanned)
		}
		of.Limit = limit + 1 - len(found.Rows)
		rows, err := svc.store.ListSubscribers(ctx, of)
		if err != nil {
			return found, err
		}
		found.Rows = append(found.Rows, rows...)
		part := p.part()
		if len(found.Rows) > limit {
			found.Rows = found.Rows[:limit]
			// The last row that is shown may be of the source before.
			if len(rows) > 1 {
				found.Next = found.Rows[limit-1].cursor(part).String()
			} else {
				found.Next = Cursor{Part: part}.String()
			}
			return found, nil
		}
		if truncated {
			of.Last.Part = part
			found.Next, found.Truncated = of.Last.String(), true
			return found, nil
		}
	}
	return found, nil
}

// needsScan reports whether rows of a source are checked one by one, most of which may not be
// selected. Those in review and those without an expiry are few, and areas and plans that are sorted
// are small.
func (q SubscriberQuery) needsScan() bool {
	switch q.Source {
	case FromTerms:
		return q.Status != AnyStatus || len(q.Terms) > 1 || q.Plan != "" || q.Area != ""
	case FromNames, FromArea:
		return q.Status != AnyStatus || q.Plan != "" || q.Area != "" && q.Source == FromNames
	case FromPlan:
		return true
	case FromExpiry:
		return q.Plan != "" || q.Area != ""
	}
	return false
}

// EachSubscriber calls each for all subscribers that a filter selects, read in pages.
func (svc *Service) EachSubscriber(ctx context.Context, operatorID int64, f SubscriberFilter, each func(Subscriber) error) error {
	f.Limit, f.After = maxPageRows, ""
	for {
		found, err := svc.Subscribers(ctx, operatorID, f)
		if err != nil {
			return err
		}
		if err := eachRow(found.Rows, each); err != nil || found.Next == "" {
			return err
		}
		f.After = found.Next
	}
}

// maxTerms is how many words of a search are used.
const maxTerms = 5

// Terms splits a search into words in their stored form: ASCII letters in lower case, split
// where names are split. The longest comes first, because it is the most selective.
func Terms(search string) []string {
	words := strings.FieldsFunc(search, func(r rune) bool { return strings.ContainsRune(" \t\n\r.,-/()", r) })
	for i, word := range words {
		words[i] = lowerASCII(word)
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	words = slices.Compact(words)
	return words[:min(len(words), maxTerms)]
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// AfterPrefix sorts after every term with a prefix, and before all later terms: no text has
// the last code point.
func AfterPrefix(prefix string) string { return prefix + "\U0010FFFF" }

// minLastDigits is how many digits are looked for at the end of a number.
const minLastDigits = 3

// LastDigits returns the stored form of a term's digits at the end of a mobile or box number: in
// reverse, after a character that no word begins with. It reports false if the term is something
// else.
func LastDigits(term string) (backwards string, is bool) {
	if len(term) < minLastDigits || strings.Trim(term, "0123456789") != "" {
		return "", false
	}
	digits := []byte(term)
	slices.Reverse(digits)
	return "<" + string(digits), true
}
