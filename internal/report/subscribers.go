package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
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
)

// Order is the order of subscribers.
type Order string

// By expiry, those who expire next come first; of the expired, those who expired last.
// ByName applies to AnyStatus and Active only: for the others it would read all. Search
// results are in the order of the terms.
const (
	ByExpiry Order = ""
	ByName   Order = "name"
)

// SubscriberFilter selects a page of subscribers.
type SubscriberFilter struct {
	// Search has prefixes of the words of a name, of the mobile number or of the id, in any
	// order.
	Search string
	Status StatusFilter
	// Within is the number of days for Expiring.
	Within int
	Order  Order
	// After is the Next of the page before.
	After string
	Limit int
}

// SubscriberQuery is SubscriberFilter for a store.
type SubscriberQuery struct {
	OperatorID int64
	// Terms are prefixes of words, in their stored form; a subscriber must have each. The
	// first one determines the order.
	Terms  []string
	Status StatusFilter
	Now    time.Time
	// Until is the latest expiry, for Expiring.
	Until time.Time
	Order Order
	After Cursor
	Last  Cursor // the last term to be scanned; zero is the end
	Limit int
}

// Subscriber is one row of a list.
type Subscriber struct {
	ID, Mobile, Name string
	Expires          time.Time // zero before the activation is settled
	// PlanID is the active plan, or the last one; empty before there is one.
	PlanID, PlanName string
	// Price is the plan's present price.
	Price money.Amount
	// Open is the state of the open operation; empty if there is none.
	Open            operation.State
	OpenTransaction string
	// Term is the term by which the subscriber was found or sorted.
	Term string
}

// Status is the subscriber's status.
func (s Subscriber) Status(now time.Time) subscription.SubscriberStatus {
	return subscription.StatusAt(s.Expires, now)
}

// DaysLeft counts started days until the expiry.
func (s Subscriber) DaysLeft(now time.Time) int { return subscription.DaysRemaining(s.Expires, now) }

// cursor is the subscriber's position in a list.
func (s Subscriber) cursor() Cursor {
	p := Cursor{Text: s.Term, ID: s.ID}
	if !s.Expires.IsZero() {
		p.Number = s.Expires.UnixMilli()
	}
	return p
}

// SubscriberPage is a page of subscribers; Next is empty on the last one.
type SubscriberPage struct {
	Rows []Subscriber
	Next string
	// Truncated: the page ends because of ScanLimit, and not because it is full.
	Truncated bool
}

// SubscriberCounts counts an operator's subscribers.
type SubscriberCounts struct {
	All     int
	Active  int
	Expired int
	// In3, In7 and In15 are active and expire within 3, 7 and 15 days.
	In3, In7, In15 int
}

const day = 24 * time.Hour

// Subscribers reads a page of an operator's subscribers.
func (svc *Service) Subscribers(ctx context.Context, operatorID int64, f SubscriberFilter) (SubscriberPage, error) {
	after, err := ParseCursor(f.After)
	if err != nil {
		return SubscriberPage{}, err
	}
	now, limit := svc.now(), pageSize(f.Limit)
	q := SubscriberQuery{
		OperatorID: operatorID, Terms: Terms(f.Search), Status: f.Status, Now: now, Until: now.Add(time.Duration(f.Within) * day),
		Order: f.Order, After: after, Limit: limit + 1,
	}
	if q.Status != AnyStatus && q.Status != Active {
		q.Order = ByExpiry
	}
	var truncated bool
	if q.needsScan() {
		if q.Last, truncated, err = svc.store.TermAtOffset(ctx, q, svc.scanLimit); err != nil {
			return SubscriberPage{}, fmt.Errorf("search the subscribers of operator %d: %w", operatorID, err)
		}
	}
	rows, err := svc.store.ListSubscribers(ctx, q)
	if err != nil {
		return SubscriberPage{}, fmt.Errorf("list the subscribers of operator %d: %w", operatorID, err)
	}
	var found SubscriberPage
	found.Rows, found.Next = page(rows, limit, Subscriber.cursor)
	if truncated && found.Next == "" {
		found.Next, found.Truncated = q.Last.String(), true
	}
	return found, nil
}

// needsScan reports whether subscribers are found by a term and then filtered one by one.
// Those in review are found by an index.
func (q SubscriberQuery) needsScan() bool {
	byTerm := len(q.Terms) > 0 || q.Order == ByName
	return byTerm && q.Status != InReview && (q.Status != AnyStatus || len(q.Terms) > 1)
}

// countsKept is how old counts may be.
const countsKept = time.Minute

// Counts counts an operator's subscribers; the counts of a large operator are cached.
func (svc *Service) Counts(ctx context.Context, operatorID int64) (SubscriberCounts, error) {
	now := svc.now()
	found, err := svc.counts.get(operatorID, now, countsKept, func() (SubscriberCounts, error) {
		return svc.store.CountSubscribers(ctx, operatorID, now)
	})
	if found.All <= svc.sumLimit {
		svc.counts.drop(operatorID)
	}
	return found, err
}

// SubscriberDetail is one subscriber with all operations.
type SubscriberDetail struct {
	operation.Subscription
	// PlanID is the active plan, or the last one.
	PlanID, PlanName string
	Status           subscription.SubscriberStatus
	DaysLeft         int
	// Timeline are all operations, newest first.
	Timeline []operation.Operation
}

// Subscriber reads one of an operator's subscribers.
func (svc *Service) Subscriber(ctx context.Context, operatorID int64, id string) (SubscriberDetail, bool, error) {
	var detail SubscriberDetail
	found, is, err := svc.store.SubscriptionOf(ctx, operatorID, id, "")
	if err != nil || !is {
		return detail, false, err
	}
	now := svc.now()
	detail.Subscription, detail.Status, detail.DaysLeft = found, subscription.StatusAt(found.Expires, now), subscription.DaysRemaining(found.Expires, now)
	detail.PlanID, _ = subscription.LatestPlan(found.Cycles, now)
	detail.PlanName = found.Plans[detail.PlanID]
	if detail.Timeline, err = svc.store.SubscriberTimeline(ctx, operatorID, id); err != nil {
		return detail, false, fmt.Errorf("read the timeline of subscriber %s: %w", id, err)
	}
	return detail, true, nil
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
