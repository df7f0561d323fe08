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
const queriesHang = "questions hang"

// othersSettleWithin is how long what does not hang may take to be settled then.
const othersSettleWithin = 2 * time.Minute

// hangs reports whether questions about a reference, or the name of an operation,
// get no answer.
func (f *faults) hangs(reference string) bool {
	if f.hangEnded.Load() {
		return false
	}
	name, _, _ := strings.Cut(f.env.nickname(reference), "-2")
	return f.hanging[name] || f.rates[queriesHang] > 0 && f.env.chance.odds(f.rates[queriesHang], queriesHang, name)
}

// questionWay is what becomes of a question. Only orders that the provider was
// given hang: a breaker's probe is about none.
func (p *provider) queryBehaviour(what string, o *order) string {
	if p.orders[o.Reference] != nil && p.env.faults.hangs(o.Reference) {
		return "hangs"
	}
	return p.behaviour(queryBehaviours, what, o)
}

// questionHangs counts the questions that hang at present.
func (p *provider) countHanging(by int) {
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
func (env *environment) settleOthers(run func(until func() bool, limit time.Duration) bool, unsettled func() []string, limit time.Duration) {
	defer env.faults.hangEnded.Store(true)
	hangs := func(left string) bool {
		name, _, _ := strings.Cut(left, " ")
		return env.faults.hangs(name)
	}
	if !slices.ContainsFunc(unsettled(), hangs) {
		return
	}
	env.occurred("an operation hangs to the end")
	others := func() []string { return slices.DeleteFunc(unsettled(), hangs) }
	if !run(func() bool { return len(others()) == 0 }, limit) && !env.broken() {
		env.fail(fmt.Sprintf("S4: %s after the last fault, while questions about others hang, these are not settled: %s", limit, strings.Join(others(), ", ")))
	}
}
