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

// historiesToFalsify is how many are run in search of what can be falsified. The
// first has most of it.
const historiesToFalsify = 40

// A judge who never objects would be as content with a broken service. So what
// was recorded of a sound one is falsified here, each time in one place, and has
// to be found out.
func TestChecker_RejectsFalsifiedHistory(t *testing.T) {
	if raced {
		t.Skip("nothing here is done at once that the other test does not do too; `make linear` runs it unraced")
	}
	w := newWorld(t, storeKinds[0])
	var recorded []*record
	another := func() {
		h := w.prepare(t, len(recorded), rand.Uint64())
		h.run(t)
		for _, s := range h.subjects() {
			s.mustBeInOrder(t)
		}
		recorded = append(recorded, h.record)
	}
	for _, lie := range slices.Concat(liesAboutMoney, liesAboutKeys, liesAboutCustomers, liesAtTheGate) {
		t.Run(lie.about+"/"+lie.name, func(t *testing.T) {
			for i := range historiesToFalsify {
				if i == len(recorded) {
					another()
				}
				falsified := recorded[i].clone()
				if lie.tell(falsified) {
					mustBeFoundOut(t, falsified, lie.about)
					return
				}
			}
			t.Fatalf("none of %d histories had anything to falsify", historiesToFalsify)
		})
	}
}

func mustBeFoundOut(t *testing.T, r *record, about string) {
	t.Helper()
	for _, s := range r.subjects() {
		if strings.HasPrefix(s.title(), about) && s.verdict() == porcupine.Illegal {
			return
		}
	}
	t.Errorf("every %s is found in order", about)
}

func TestChecker_RejectsUnexplainedRow(t *testing.T) {
	r := &record{final: map[string]operation.Operation{"CX1": {ID: "CX1", State: operation.Processing}}}
	if err := r.resolve(); err == nil || !strings.Contains(err.Error(), "CX1") {
		t.Errorf("an operation that nobody asked for is explained: %v", err)
	}
}

// lie falsifies a record so that nothing explains it any more; false if the record
// has nothing of the kind.
type lie struct {
	about, name string
	tell        func(*record) bool
}

func (r *record) clone() *record {
	return &record{
		began: r.began, opened: r.opened, imported: r.imported, limit: r.limit, ledger: r.ledger,
		asked: slices.Clone(r.asked), looked: slices.Clone(r.looked), read: slices.Clone(r.read),
		credits: slices.Clone(r.credits), knocked: slices.Clone(r.knocked), switched: slices.Clone(r.switched),
		facts: slices.Clone(r.facts), made: slices.Clone(r.made), final: maps.Clone(r.final),
	}
}

// afterwards is a moment after everything that ended.
func (r *record) afterwards() span {
	last := int64(0)
	for _, seen := range r.read {
		last = max(last, seen.ended)
	}
	return span{clients, last + 1, last + 2}
}

// first finds an item of a list, and says where.
func first[T any](list []T, is func(T) bool) (int, bool) {
	i := slices.IndexFunc(list, is)
	return i, i >= 0
}

var liesAboutKeys = []lie{
	{"key", "two transactions under one key", func(r *record) bool {
		i, found := first(r.asked, func(a asked) bool { return a.replayed })
		if found {
			r.asked[i].told.id += "-OTHER"
		}
		return found
	}},
	{"key", "two first answers", func(r *record) bool {
		answered := map[string]bool{}
		for _, a := range r.asked {
			answered[a.told.id] = answered[a.told.id] || a.told.id != "" && !a.replayed
		}
		i, found := first(r.asked, func(a asked) bool { return a.replayed && answered[a.told.id] })
		if found {
			r.asked[i].replayed = false
		}
		return found
	}},
	{"key", "another body is shown the result", func(r *record) bool {
		i, found := first(r.asked, func(a asked) bool { return a.code == fault.IdempotencyKeyReused })
		if !found {
			return false
		}
		for _, op := range r.final {
			if op.OperatorID == r.asked[i].operator && op.IdempotencyKey == r.asked[i].key {
				r.asked[i].code, r.asked[i].told, r.asked[i].replayed = op.Code(), show(op), true
			}
		}
		return true
	}},
	{"key", "the same body is refused as another", func(r *record) bool {
		i, found := first(r.asked, func(a asked) bool { return a.replayed })
		if found {
			r.asked[i].code, r.asked[i].told = fault.IdempotencyKeyReused, told{}
		}
		return found
	}},
	{"key", "a result that changed", func(r *record) bool {
		i, found := first(r.asked, func(a asked) bool { return a.replayed && !a.told.state.Open() })
		if found {
			r.asked[i].told.result += " and more"
		}
		return found
	}},
	{"key", "an end that is taken back", func(r *record) bool {
		for _, op := range r.final {
			op.State = operation.NeedsReview
			r.looked = append(r.looked, looked{r.afterwards(), op.OperatorID, op.IdempotencyKey, fault.OK, show(op)})
			return true
		}
		return false
	}},
	{"key", "still running after its end", func(r *record) bool {
		i, found := first(r.asked, func(a asked) bool { return a.replayed && !a.told.state.Open() })
		if found {
			again := r.asked[i]
			again.span, again.code, again.told = r.afterwards(), fault.RequestInProgress, told{}
			r.asked = append(r.asked, again)
		}
		return found
	}},
	{"key", "forgotten", func(r *record) bool {
		for _, op := range r.final {
			r.looked = append(r.looked, looked{r.afterwards(), op.OperatorID, op.IdempotencyKey, fault.TransactionNotFound, told{}})
			return true
		}
		return false
	}},
}

var liesAboutCustomers = []lie{
	{"customer", "in two pairs of hands", func(r *record) bool {
		reserved := map[string]int{}
		for _, op := range r.final {
			reserved[op.Mobile]++
		}
		// If one of several is never let go of, the next cannot have begun.
		before := func(f fact) bool {
			return slices.ContainsFunc(r.made, func(next fact) bool {
				return next.to == operation.Processing && next.begun > f.ended && r.final[next.id].Mobile == r.final[f.id].Mobile
			})
		}
		i, found := first(r.made, func(f fact) bool { return !f.to.Open() && reserved[r.final[f.id].Mobile] > 1 && before(f) })
		if found {
			r.made = slices.Delete(r.made, i, i+1)
		}
		return found
	}},
	{"customer", "busy with nothing", func(r *record) bool {
		i, found := first(r.asked, func(a asked) bool { return a.kind == operation.Renew && r.imported[a.mobile] == a.operator })
		if found {
			again := r.asked[i]
			again.span, again.code = r.afterwards(), fault.OperationInProgress
			r.asked = append(r.asked, again)
		}
		return found
	}},
	{"customer", "gone", func(r *record) bool {
		i, found := first(r.asked, func(a asked) bool { return a.kind == operation.Renew && r.imported[a.mobile] == a.operator })
		if found {
			r.asked[i].code = fault.SubscriberNotFound
		}
		return found
	}},
}
