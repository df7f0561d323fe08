package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Subscriber is one row of a list.
type Subscriber struct {
	ID, Mobile, Name         string
	Area, Address, BoxNumber string
	Expires                  time.Time // zero before the activation is settled
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

// DaysLeft counts calendar days until the expiry.
func (s Subscriber) DaysLeft(now time.Time) int { return subscription.DaysLeft(s.Expires, now) }

// cursor is the subscriber's position in a part of a list.
func (s Subscriber) cursor(part string) Cursor {
	p := Cursor{Text: s.Term, ID: s.ID, Part: part}
	if !s.Expires.IsZero() {
		p.Number = s.Expires.UnixMilli()
	}
	return p
}

// SubscriberCounts counts an operator's subscribers.
type SubscriberCounts struct {
	All     int
	Active  int
	Expired int
	// In3, In7 and In15 are active and expire within 3, 7 and 15
	// calendar days.
	In3, In7, In15 int
}

const day = 24 * time.Hour

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
	DaysLeft         int // calendar days
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
	detail.Subscription, detail.Status, detail.DaysLeft = found, subscription.StatusAt(found.Expires, now), subscription.DaysLeft(found.Expires, now)
	detail.PlanID, _ = subscription.LatestPlan(found.Cycles, now)
	detail.PlanName = found.Plans[detail.PlanID]
	if detail.Timeline, err = svc.store.SubscriberTimeline(ctx, operatorID, id); err != nil {
		return detail, false, fmt.Errorf("read the timeline of subscriber %s: %w", id, err)
	}
	return detail, true, nil
}
