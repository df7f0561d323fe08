//go:build long

package linearizability_test

import (
	"fmt"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// claimed is the state of an idempotency key: unused, or one operation with the body of
// its first request and its present state.
type claimed struct {
	shownOp
	body string
	// answered: a request got the operation as its own result, not as a replay.
	answered bool
}

// claim is the request that creates the key's operation.
type claim struct {
	shownOp
	body string
}

func (c claim) from(k claimed) (claimed, bool) {
	return claimed{shownOp: c.shownOp, body: c.body}, k.id == "" && c.state == operation.Processing
}

// advance is a state transition of the operation. None leads back, and none leads out
// of a final state.
type advance struct{ shownOp }

func (a advance) from(k claimed) (claimed, bool) {
	forward := k.state == operation.Processing || k.state == operation.NeedsReview && a.state != operation.NeedsReview
	if k.id != a.id || !forward {
		return k, false
	}
	k.shownOp = a.shownOp
	return k, true
}

// shown is an answer that shows the operation: to its own request, to a replay, or to a
// lookup, which has no body.
type shown struct {
	shownOp
	body  string
	first bool
}

func (s shown) from(k claimed) (claimed, bool) {
	if k.shownOp != s.shownOp || s.body != "" && s.body != k.body || s.first && k.answered {
		return k, false
	}
	k.answered = k.answered || s.first
	return k, true
}

// stillRunning is REQUEST_IN_PROGRESS.
type stillRunning struct{ body string }

func (s stillRunning) from(k claimed) (claimed, bool) {
	return k, k.state == operation.Processing && k.body == s.body
}

// reused is IDEMPOTENCY_KEY_REUSED.
type reused struct{ body string }

func (u reused) from(k claimed) (claimed, bool) { return k, k.id != "" && k.body != u.body }

// free is an answer that only an unused key gets: a refusal for another reason, or a
// lookup that finds nothing.
type free struct{ because fault.Code }

func (f free) from(k claimed) (claimed, bool) { return k, k.id == "" }

// keys returns the idempotency keys with every answer about them.
func (r *record) keys() []subject[claimed] {
	all := map[string]*subject[claimed]{}
	of := func(operator int64, key string) *subject[claimed] {
		name := fmt.Sprintf("key %s of operator %d", key, operator)
		if all[name] == nil {
			all[name] = &subject[claimed]{name: name}
		}
		return all[name]
	}
	for _, f := range r.effective {
		op := r.final[f.id]
		op.State = f.to // as it was then
		s := of(op.OperatorID, op.IdempotencyKey)
		if f.to == operation.Processing {
			s.add(f.span, claim{show(op), f.body})
		} else {
			s.add(f.span, advance{show(op)})
		}
	}
	for _, a := range r.opRequests {
		s := of(a.operator, a.key)
		switch a.code {
		case fault.OK, fault.PendingReview, fault.ProviderError:
			s.add(a.span, shown{a.shownOp, a.body, !a.replayed})
		case fault.RequestInProgress:
			s.add(a.span, stillRunning{a.body})
		case fault.IdempotencyKeyReused:
			s.add(a.span, reused{a.body})
		case fault.ServiceUnavailable, fault.InternalError:
			// The answer shows nothing about the key.
		default:
			s.add(a.span, free{a.code})
		}
	}
	for _, l := range r.lookups {
		switch l.code {
		case fault.OK:
			of(l.operator, l.key).add(l.span, shown{shownOp: l.shownOp})
		case fault.TransactionNotFound:
			of(l.operator, l.key).add(l.span, free{l.code})
		}
	}
	var keys []subject[claimed]
	for _, s := range all {
		keys = append(keys, *s)
	}
	return keys
}
