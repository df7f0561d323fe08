//go:build long

package linearizability_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// historiesToFalsify is how many histories are run at most to find something that can
// be falsified. The first has most of it.
const historiesToFalsify = 40

// A checker that accepts everything would also accept a broken service. So a correct
// history is falsified here, each time in one place, and has to be rejected.
func TestChecker_RejectsFalsifiedHistory(t *testing.T) {
	if raced {
		t.Skip("it has no concurrency beyond TestTwoNodes_AreLinearizable; `make linear` runs it without the race detector")
	}
	env := newEnvironment(t, storeKinds[0])
	var recorded []*record
	another := func() {
		h := env.prepare(t, len(recorded), rand.Uint64())
		h.run(t)
		for _, s := range h.subjects() {
			s.mustBeLinearizable(t)
		}
		recorded = append(recorded, h.record)
	}
	for _, falsification := range slices.Concat(walletFalsifications, keyFalsifications, customerFalsifications, admissionFalsifications) {
		t.Run(falsification.about+"/"+falsification.name, func(t *testing.T) {
			for i := range historiesToFalsify {
				if i == len(recorded) {
					another()
				}
				falsified := recorded[i].clone()
				if falsification.apply(falsified) {
					mustBeRejected(t, falsified, falsification.about)
					return
				}
			}
			t.Fatalf("none of %d histories had anything to falsify", historiesToFalsify)
		})
	}
}

func mustBeRejected(t *testing.T, r *record, about string) {
	t.Helper()
	for _, s := range r.subjects() {
		if strings.HasPrefix(s.title(), about) && s.result() == porcupine.Illegal {
			return
		}
	}
	t.Errorf("every %s is found linearizable", about)
}

func TestChecker_RejectsUnexplainedRow(t *testing.T) {
	r := &record{final: map[string]operation.Operation{"CX1": {ID: "CX1", State: operation.Processing}}}
	if err := r.resolve(); err == nil || !strings.Contains(err.Error(), "CX1") {
		t.Errorf("an operation that no client requested is accepted: %v", err)
	}
}

// falsification changes a record so that no order explains it any more. apply returns
// false if the record has nothing to change.
type falsification struct {
	about, name string
	apply       func(*record) bool
}

func (r *record) clone() *record {
	return &record{
		began: r.began, opened: r.opened, imported: r.imported, limit: r.limit, ledger: r.ledger,
		opRequests: slices.Clone(r.opRequests), lookups: slices.Clone(r.lookups), read: slices.Clone(r.read),
		credits: slices.Clone(r.credits), authAttempts: slices.Clone(r.authAttempts), termsChanges: slices.Clone(r.termsChanges),
		storeWrites: slices.Clone(r.storeWrites), effective: slices.Clone(r.effective), final: maps.Clone(r.final),
	}
}

// afterwards returns a span after everything that ended.
func (r *record) afterwards() span {
	last := int64(0)
	for _, seen := range r.read {
		last = max(last, seen.ended)
	}
	return span{clients, last + 1, last + 2}
}

// first returns the index of the first matching item.
func first[T any](list []T, is func(T) bool) (int, bool) {
	i := slices.IndexFunc(list, is)
	return i, i >= 0
}

var keyFalsifications = []falsification{
	{"key", "two transactions under one key", func(r *record) bool {
		i, found := first(r.opRequests, func(a opRequest) bool { return a.replayed })
		if found {
			r.opRequests[i].shownOp.id += "-OTHER"
		}
		return found
	}},
	{"key", "two first answers", func(r *record) bool {
		answered := map[string]bool{}
		for _, a := range r.opRequests {
			answered[a.shownOp.id] = answered[a.shownOp.id] || a.shownOp.id != "" && !a.replayed
		}
		i, found := first(r.opRequests, func(a opRequest) bool { return a.replayed && answered[a.shownOp.id] })
		if found {
			r.opRequests[i].replayed = false
		}
		return found
	}},
	{"key", "another body is shown the result", func(r *record) bool {
		i, found := first(r.opRequests, func(a opRequest) bool { return a.code == fault.IdempotencyKeyReused })
		if !found {
			return false
		}
		for _, op := range r.final {
			if op.OperatorID == r.opRequests[i].operator && op.IdempotencyKey == r.opRequests[i].key {
				r.opRequests[i].code, r.opRequests[i].shownOp, r.opRequests[i].replayed = op.Code(), show(op), true
			}
		}
		return true
	}},
	{"key", "the same body is refused as another", func(r *record) bool {
		i, found := first(r.opRequests, func(a opRequest) bool { return a.replayed })
		if found {
			r.opRequests[i].code, r.opRequests[i].shownOp = fault.IdempotencyKeyReused, shownOp{}
		}
		return found
	}},
	{"key", "a result that changed", func(r *record) bool {
		i, found := first(r.opRequests, func(a opRequest) bool { return a.replayed && !a.shownOp.state.Open() })
		if found {
			r.opRequests[i].shownOp.result += " and more"
		}
		return found
	}},
	{"key", "an end that is taken back", func(r *record) bool {
		for _, op := range r.final {
			op.State = operation.NeedsReview
			r.lookups = append(r.lookups, lookup{r.afterwards(), op.OperatorID, op.IdempotencyKey, fault.OK, show(op)})
			return true
		}
		return false
	}},
	{"key", "still running after its end", func(r *record) bool {
		i, found := first(r.opRequests, func(a opRequest) bool { return a.replayed && !a.shownOp.state.Open() })
		if found {
			again := r.opRequests[i]
			again.span, again.code, again.shownOp = r.afterwards(), fault.RequestInProgress, shownOp{}
			r.opRequests = append(r.opRequests, again)
		}
		return found
	}},
	{"key", "forgotten", func(r *record) bool {
		for _, op := range r.final {
			r.lookups = append(r.lookups, lookup{r.afterwards(), op.OperatorID, op.IdempotencyKey, fault.TransactionNotFound, shownOp{}})
			return true
		}
		return false
	}},
}

var customerFalsifications = []falsification{
	{"customer", "two open operations", func(r *record) bool {
		reserved := map[string]int{}
		for _, op := range r.final {
			reserved[op.Mobile]++
		}
		// If one of several operations never ends, the next cannot have begun.
		before := func(f storeWrite) bool {
			return slices.ContainsFunc(r.effective, func(next storeWrite) bool {
				return next.to == operation.Processing && next.begun > f.ended && r.final[next.id].Mobile == r.final[f.id].Mobile
			})
		}
		i, found := first(r.effective, func(f storeWrite) bool { return !f.to.Open() && reserved[r.final[f.id].Mobile] > 1 && before(f) })
		if found {
			r.effective = slices.Delete(r.effective, i, i+1)
		}
		return found
	}},
	{"customer", "busy with nothing", func(r *record) bool {
		i, found := first(r.opRequests, func(a opRequest) bool { return a.kind == operation.Renew && r.imported[a.mobile] == a.operator })
		if found {
			again := r.opRequests[i]
			again.span, again.code = r.afterwards(), fault.OperationInProgress
			r.opRequests = append(r.opRequests, again)
		}
		return found
	}},
	{"customer", "gone", func(r *record) bool {
		i, found := first(r.opRequests, func(a opRequest) bool { return a.kind == operation.Renew && r.imported[a.mobile] == a.operator })
		if found {
			r.opRequests[i].code = fault.SubscriberNotFound
		}
		return found
	}},
}
