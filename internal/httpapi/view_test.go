package httpapi

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// The plan of an open operation is not the subscriber's yet, because the operation may
// fail. Only a subscriber who is being activated has no other plan to show.
func TestViewSubscription_OpenPlanOnlyOfActivation(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	open := func(kind operation.Kind) []operation.Operation {
		return []operation.Operation{{ID: "CX1", Kind: kind, State: operation.NeedsReview, PlanID: "FAMILY-3", PlanName: "Family", CreatedAt: now}}
	}
	cycle := func(starts time.Time) []subscription.Cycle {
		return []subscription.Cycle{{PlanID: "BASIC-1", StartsAt: starts, EndsAt: now.AddDate(0, 0, 30)}}
	}
	for _, c := range []struct {
		name    string
		kind    operation.Kind
		expires time.Time
		cycles  []subscription.Cycle
		want    string
	}{
		{"an activation under way", operation.Activate, time.Time{}, nil, "FAMILY-3"},
		{"a renewal under way", operation.Renew, now.AddDate(0, 0, 30), cycle(now.AddDate(0, 0, -1)), "BASIC-1"},
		{"a renewal under way, on a node whose clock is behind the first cycle", operation.Renew, now.AddDate(0, 0, 30), cycle(now.Add(time.Second)), ""},
	} {
		s := operation.Subscription{Plans: map[string]string{"BASIC-1": "Basic"}, Cycles: c.cycles, Pending: open(c.kind)}
		s.Expires = c.expires
		if got := viewSubscription(s, now, "Sim TV"); got.Plan.ID != c.want || len(got.PendingOperations) != 1 {
			t.Errorf("%s: the plan is %q with %d open operations; want %q with 1", c.name, got.Plan.ID, len(got.PendingOperations), c.want)
		}
	}
}
