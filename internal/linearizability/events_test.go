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

// tally counts the events of many histories.
type tally map[string]int

// requiredEvents must all occur in a run of at least forty histories; without them the
// test proves little.
var requiredEvents = []string{
	"request: OK", "request: PROVIDER_ERROR", "request: PENDING_REVIEW",
	"request: REQUEST_IN_PROGRESS", "request: IDEMPOTENCY_KEY_REUSED", "request: a replay",
	"request: INSUFFICIENT_BALANCE", "request: OPERATION_IN_PROGRESS", "request: DUPLICATE_REQUEST",
	"request: SUBSCRIBER_EXISTS", "request: SUBSCRIBER_NOT_FOUND", "request: PLAN_ALREADY_ACTIVE",
	"request: no answer, reserved", "request: no answer, not reserved",
	"settled: success", "settled: PROVIDER_REJECTED", "settled: NOT_CONFIRMED", "settled: REJECTED_BY_REVIEW",
	"settled: success after review", "taken over", "already settled",
	"lookup: nothing", "lookup: processing", "lookup: needs_review", "lookup: success", "lookup: failed",
	"credit: credited", "credit: credited before", "credit: refused", "credit: unknown",
	"auth: OK", "auth: REPLAY_DETECTED", "auth: RATE_LIMITED", "auth: API_ACCESS_BLOCKED", "auth: SERVICE_UNAVAILABLE",
	"terms changed",
}

func (counts tally) requireAll(t testing.TB) {
	t.Helper()
	for _, what := range requiredEvents {
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
	for _, a := range r.opRequests {
		switch unanswered := a.code == fault.ServiceUnavailable || a.code == fault.InternalError; {
		case unanswered && reserved[account{a.operator, a.key}]:
			counts["request: no answer, reserved"]++
		case unanswered:
			counts["request: no answer, not reserved"]++
		case a.replayed:
			counts["request: a replay"]++
		default:
			counts["request: "+string(a.code)]++
		}
	}
	for _, f := range r.effective {
		if f.takenOver {
			counts["taken over"]++
		}
	}
	for _, l := range r.lookups {
		if l.shownOp.id == "" {
			counts["lookup: nothing"]++
		} else {
			counts["lookup: "+string(l.shownOp.state)]++
		}
	}
	for _, c := range r.credits {
		counts["credit: "+string(c.outcome)]++
	}
	for _, k := range r.authAttempts {
		counts["auth: "+string(k.code)]++
	}
	counts["terms changed"] += len(r.termsChanges)
	counts["already settled"] += len(r.tooLate)
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
