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

// Standing picks subscribers by how they stand.
type Standing string

// Everybody is the zero value. Whoever is being activated for the first time has no
// expiry, and so is neither active nor expired.
const (
	Everybody Standing = ""
	Active    Standing = "active"
	Expiring  Standing = "expiring"
	Expired   Standing = "expired"
	InReview  Standing = "in_review"
)

// Order is what subscribers are sorted by.
type Order string

// By expiry those come first who expire next; of the expired, who expired last. By
// name only everybody and the active can be sorted: for the others it would take a
// look at all. What is searched for comes in the order of what was found by.
const (
	ByExpiry Order = ""
	ByName   Order = "name"
)

// SubscriberFilter is what a page of subscribers is asked for with.
type SubscriberFilter struct {
	// Search is what somebody has typed so far: beginnings of the words of a name,
	// of the mobile number or of the id, in any order.
	Search   string
	Standing Standing
	// Within is in how many days they expire, where they are asked to be expiring.
	Within int
	Order  Order
	// After is the Next of the page before.
	After string
	Limit int
}

// SubscriberQuery is that as a store reads it.
type SubscriberQuery struct {
	OperatorID int64
	// Terms are beginnings of words, each of which a subscriber must have, in the
	// form in which they are kept. Those found by the first come in its order.
	Terms    []string
	Standing Standing
	Now      time.Time
	// Until is the latest expiry of who is expiring.
	Until time.Time
	Order Order
	After Cursor
	Last  Cursor // the last term that is looked at; zero is the end
	Limit int
}

// Subscriber is one row of a list.
type Subscriber struct {
	ID, Mobile, Name string
	Expires          time.Time // zero before the activation is settled
	// PlanID is the plan that holds now, or held last; empty before there is one.
	PlanID, PlanName string
	// Price is what that plan costs now.
	Price money.Amount
	// Open is the state of the operation that is under way; empty if there is none.
	Open            operation.State
	OpenTransaction string
	// Term is what the subscriber was found by, or is sorted by as a name.
	Term string
}

// Status is how the subscriber stands.
func (s Subscriber) Status(now time.Time) subscription.SubscriberStatus {
	return subscription.StatusAt(s.Expires, now)
}

// DaysLeft counts begun days until the expiry.
func (s Subscriber) DaysLeft(now time.Time) int { return subscription.DaysRemaining(s.Expires, now) }

// place is where the subscriber stands in a list.
func (s Subscriber) place() Cursor {
	p := Cursor{Text: s.Term, ID: s.ID}
	if !s.Expires.IsZero() {
		p.Number = s.Expires.UnixMilli()
	}
	return p
}

// SubscriberPage is some of a list, with where it goes on; empty at its end.
type SubscriberPage struct {
	Rows []Subscriber
	Next string
	// Cut: the page ends because enough was looked at, and not because it is full.
	Cut bool
}

// SubscriberCounts are how many of an operator's subscribers there are.
type SubscriberCounts struct {
	All     int
	Active  int
	Expired int
	// In3, In7 and In15 are active and expire within so many days.
	In3, In7, In15 int
}

const day = 24 * time.Hour

// Subscribers reads a page of an operator's subscribers.
func (d *Service) Subscribers(ctx context.Context, operatorID int64, f SubscriberFilter) (SubscriberPage, error) {
	after, err := ParseCursor(f.After)
	if err != nil {
		return SubscriberPage{}, err
	}
	now, most := d.now(), rowsAsked(f.Limit)
	q := SubscriberQuery{
		OperatorID: operatorID, Terms: Terms(f.Search), Standing: f.Standing, Now: now, Until: now.Add(time.Duration(f.Within) * day),
		Order: f.Order, After: after, Limit: most + 1,
	}
	if q.Standing != Everybody && q.Standing != Active {
		q.Order = ByExpiry
	}
	var cut bool
	if q.needsScan() {
		if q.Last, cut, err = d.store.PassTerms(ctx, q, d.lookedAt); err != nil {
			return SubscriberPage{}, fmt.Errorf("search the subscribers of operator %d: %w", operatorID, err)
		}
	}
	rows, err := d.store.ListSubscribers(ctx, q)
	if err != nil {
		return SubscriberPage{}, fmt.Errorf("list the subscribers of operator %d: %w", operatorID, err)
	}
	var found SubscriberPage
	found.Rows, found.Next = page(rows, most, Subscriber.place)
	if cut && found.Next == "" {
		found.Next, found.Cut = q.Last.String(), true
	}
	return found, nil
}

// passedByFew reports whether subscribers are looked for by a term and then held
// against something else, one by one. What is in review is found by that.
func (q SubscriberQuery) needsScan() bool {
	byTerm := len(q.Terms) > 0 || q.Order == ByName
	return byTerm && q.Standing != InReview && (q.Standing != Everybody || len(q.Terms) > 1)
}

// countsKept is how old counts may be.
const countsKept = time.Minute

// Counts counts an operator's subscribers, of very many to the minute.
func (d *Service) Counts(ctx context.Context, operatorID int64) (SubscriberCounts, error) {
	now := d.now()
	found, err := d.counts.recall(operatorID, now, countsKept, func() (SubscriberCounts, error) {
		return d.store.CountSubscribers(ctx, operatorID, now)
	})
	if found.All <= d.addedUpAtOnce {
		d.counts.forget(operatorID)
	}
	return found, err
}

// SubscriberDetail is one subscriber with all that happened.
type SubscriberDetail struct {
	operation.Subscription
	// PlanID is the plan that holds now, or held last.
	PlanID, PlanName string
	Status           subscription.SubscriberStatus
	DaysLeft         int
	// Timeline are all operations, newest first.
	Timeline []operation.Operation
}

// Subscriber reads one of an operator's subscribers.
func (d *Service) Subscriber(ctx context.Context, operatorID int64, id string) (SubscriberDetail, bool, error) {
	var detail SubscriberDetail
	found, is, err := d.store.SubscriptionOf(ctx, operatorID, id, "")
	if err != nil || !is {
		return detail, false, err
	}
	now := d.now()
	detail.Subscription, detail.Status, detail.DaysLeft = found, subscription.StatusAt(found.Expires, now), subscription.DaysRemaining(found.Expires, now)
	detail.PlanID, _ = subscription.LatestPlan(found.Cycles, now)
	detail.PlanName = found.Plans[detail.PlanID]
	if detail.Timeline, err = d.store.SubscriberTimeline(ctx, operatorID, id); err != nil {
		return detail, false, fmt.Errorf("read the timeline of subscriber %s: %w", id, err)
	}
	return detail, true, nil
}

// mostTerms bounds how many words of a search count.
const mostTerms = 5

// Terms are the words of a search as they are kept: in lower case as far as ASCII
// goes, and apart wherever a name is taken apart. The longest comes first, because
// fewest have it.
func Terms(search string) []string {
	words := strings.FieldsFunc(search, func(r rune) bool { return strings.ContainsRune(" \t\n\r.,-/()", r) })
	for i, word := range words {
		words[i] = lowerASCII(word)
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	words = slices.Compact(words)
	return words[:min(len(words), mostTerms)]
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// PastPrefix comes after every term that begins with a prefix, and before all that
// come after those: no text has the last character that there is.
func PastPrefix(prefix string) string { return prefix + "\U0010FFFF" }
