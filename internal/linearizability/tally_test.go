//go:build long

package linearizability_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// tally counts what happened in many histories.
type tally map[string]int

// worthSeeing is what histories would be worth little without. Some of it takes
// luck; none of it takes more than forty histories hold.
var worthSeeing = []string{
	"asked: OK", "asked: PROVIDER_ERROR", "asked: PENDING_REVIEW",
	"asked: REQUEST_IN_PROGRESS", "asked: IDEMPOTENCY_KEY_REUSED", "asked: a repetition, shown the result",
	"asked: INSUFFICIENT_BALANCE", "asked: OPERATION_IN_PROGRESS", "asked: DUPLICATE_REQUEST",
	"asked: SUBSCRIBER_EXISTS", "asked: SUBSCRIBER_NOT_FOUND", "asked: PLAN_ALREADY_ACTIVE",
	"asked: not told, and reserved", "asked: not told, and not reserved",
	"settled: success", "settled: PROVIDER_REJECTED", "settled: NOT_CONFIRMED", "settled: REJECTED_BY_REVIEW",
	"settled: success after review", "left by its node, and taken over", "came too late to settle",
	"looked: nothing", "looked: processing", "looked: needs_review", "looked: success", "looked: failed",
	"moved money: credited", "moved money: credited before", "moved money: refused", "moved money: unknown",
	"knocked: OK", "knocked: REPLAY_DETECTED", "knocked: RATE_LIMITED", "knocked: API_ACCESS_BLOCKED", "knocked: SERVICE_UNAVAILABLE",
	"changed the terms",
}

func (counts tally) mustHaveSeenEverything(t testing.TB) {
	t.Helper()
	for _, what := range worthSeeing {
		if counts[what] == 0 {
			t.Errorf("never happened: %s", what)
		}
	}
}

func (counts tally) add(r *record) {
	reserved := map[account]bool{}
	for _, op := range r.final {
		reserved[account{op.OperatorID, op.IdempotencyKey}] = true
		counts.addOperation(op)
	}
	for _, a := range r.asked {
		switch untold := a.code == fault.ServiceUnavailable || a.code == fault.InternalError; {
		case untold && reserved[account{a.operator, a.key}]:
			counts["asked: not told, and reserved"]++
		case untold:
			counts["asked: not told, and not reserved"]++
		case a.replayed:
			counts["asked: a repetition, shown the result"]++
		default:
			counts["asked: "+string(a.code)]++
		}
	}
	for _, f := range r.made {
		if f.takenOver {
			counts["left by its node, and taken over"]++
		}
	}
	for _, l := range r.looked {
		if l.told.id == "" {
			counts["looked: nothing"]++
		} else {
			counts["looked: "+string(l.told.state)]++
		}
	}
	for _, c := range r.credits {
		counts["moved money: "+string(c.outcome)]++
	}
	for _, k := range r.knocked {
		counts["knocked: "+string(k.code)]++
	}
	counts["changed the terms"] += len(r.switched)
	counts["came too late to settle"] += len(r.tooLate)
}

func (counts tally) addOperation(op operation.Operation) {
	switch {
	case op.State == operation.Success && op.ReviewSince.IsZero():
		counts["settled: success"]++
	case op.State == operation.Success:
		counts["settled: success after review"]++
	default:
		counts["settled: "+string(op.Reason)]++
	}
}

func (counts tally) String() string {
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%7d  %s", counts[what], what))
	}
	return strings.Join(lines, "\n")
}
