//go:build long

package linearizability_test

import (
	"fmt"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// claimed is what an idempotency key stands for: nothing yet, or one operation,
// the body it was first asked for with, and how far it has come.
type claimed struct {
	told
	body string
	// answered: somebody was told that the operation is theirs, and no repetition.
	answered bool
}

// claim is the one request that a key is taken by. What the operation will mean
// is fixed with it.
type claim struct {
	told
	body string
}

func (c claim) from(k claimed) (claimed, bool) {
	return claimed{told: c.told, body: c.body}, k.id == "" && c.state == operation.Processing
}

// advance moves the operation on. Nothing leads back, and nothing leads on from
// an end.
type advance struct{ told }

func (a advance) from(k claimed) (claimed, bool) {
	forward := k.state == operation.Processing || k.state == operation.NeedsReview && a.state != operation.NeedsReview
	if k.id != a.id || !forward {
		return k, false
	}
	k.told = a.told
	return k, true
}

// shown is an answer that shows the operation: to the request that it is the
// first answer to, to a repetition, or to a look-up, which has no body.
type shown struct {
	told
	body  string
	first bool
}

func (s shown) from(k claimed) (claimed, bool) {
	if k.told != s.told || s.body != "" && s.body != k.body || s.first && k.answered {
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

// free is any answer that only an unused key gets: a refusal on other grounds, or
// a look-up that finds nothing.
type free struct{ because fault.Code }

func (f free) from(k claimed) (claimed, bool) { return k, k.id == "" }

// keys are the idempotency keys with every answer that they had a part in.
func (r *record) keys() []subject[claimed] {
	all := map[string]*subject[claimed]{}
	of := func(operator int64, key string) *subject[claimed] {
		name := fmt.Sprintf("key %s of operator %d", key, operator)
		if all[name] == nil {
			all[name] = &subject[claimed]{name: name}
		}
		return all[name]
	}
	for _, f := range r.made {
		op := r.final[f.id]
		op.State = f.to // as it was then
		s := of(op.OperatorID, op.IdempotencyKey)
		if f.to == operation.Processing {
			s.add(f.span, claim{show(op), f.body})
		} else {
			s.add(f.span, advance{show(op)})
		}
	}
	for _, a := range r.asked {
		s := of(a.operator, a.key)
		switch a.code {
		case fault.OK, fault.PendingReview, fault.ProviderError:
			s.add(a.span, shown{a.told, a.body, !a.replayed})
		case fault.RequestInProgress:
			s.add(a.span, stillRunning{a.body})
		case fault.IdempotencyKeyReused:
			s.add(a.span, reused{a.body})
		case fault.ServiceUnavailable, fault.InternalError:
			// It was told nothing.
		default:
			s.add(a.span, free{a.code})
		}
	}
	for _, l := range r.looked {
		switch l.code {
		case fault.OK:
			of(l.operator, l.key).add(l.span, shown{told: l.told})
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
