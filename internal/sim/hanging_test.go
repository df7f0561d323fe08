package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// questionsHang is a fault: every question about some operations, status or void,
// hangs until the caller's timeout. It goes on when all other faults have ended,
// until everything else is settled.
const questionsHang = "questions hang"

// othersSettleWithin is how long what does not hang may take to be settled then.
const othersSettleWithin = 2 * time.Minute

// hangs reports whether questions about a reference, or the name of an operation,
// get no answer.
func (f *faults) hangs(reference string) bool {
	if f.hangOver.Load() {
		return false
	}
	name, _, _ := strings.Cut(f.w.nickname(reference), "-2")
	return f.hanging[name] || f.rates[questionsHang] > 0 && f.w.chance.odds(f.rates[questionsHang], questionsHang, name)
}

// questionWay is what becomes of a question. Only orders that the provider was
// given hang: a breaker's probe is about none.
func (p *provider) questionWay(what string, o *order) string {
	if p.orders[o.Reference] != nil && p.w.faults.hangs(o.Reference) {
		return "hangs"
	}
	return p.way(questionWays, what, o)
}

// questionHangs counts the questions that hang at present.
func (p *provider) questionHangs(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hanging += by
}

func (p *provider) hangingNow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hanging > 0
}

// settleOthers lets everything come to its end but what hangs, which then ends too.
func (w *world) settleOthers(run func(until func() bool, limit time.Duration) bool, unsettled func() []string, limit time.Duration) {
	defer w.faults.hangOver.Store(true)
	hangs := func(left string) bool {
		name, _, _ := strings.Cut(left, " ")
		return w.faults.hangs(name)
	}
	if !slices.ContainsFunc(unsettled(), hangs) {
		return
	}
	w.sometimes("an operation hangs to the end")
	others := func() []string { return slices.DeleteFunc(unsettled(), hangs) }
	if !run(func() bool { return len(others()) == 0 }, limit) && !w.broken() {
		w.fail(fmt.Sprintf("S4: %s after the last fault, while questions about others hang, these are not settled: %s", limit, strings.Join(others(), ", ")))
	}
}
