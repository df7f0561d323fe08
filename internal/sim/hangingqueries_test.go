package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// queriesHang is a fault: every status query or void of some operations hangs until
// the caller's timeout. It continues after all other faults have ended, until
// everything else is settled.
const queriesHang = "questions hang"

// othersSettleWithin is how long the other operations may take to be settled then.
const othersSettleWithin = 2 * time.Minute

// hangs reports whether queries about a reference, or the name of an operation, hang.
func (f *faults) hangs(reference string) bool {
	if f.hangEnded.Load() {
		return false
	}
	name, _, _ := strings.Cut(f.env.nickname(reference), "-2")
	return f.hanging[name] || f.rates[queriesHang] > 0 && f.env.chance.odds(f.rates[queriesHang], queriesHang, name)
}

// queryBehaviour decides what happens to a query. Only queries about existing orders
// hang; a breaker's probe is about none.
func (p *provider) queryBehaviour(what string, o *order) string {
	if p.orders[o.Reference] != nil && p.env.faults.hangs(o.Reference) {
		return "hangs"
	}
	return p.behaviour(queryBehaviours, what, o)
}

// countHanging adds to the number of queries that hang at present.
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

// settleOthers waits until every operation is settled except those whose queries hang,
// and then ends the hanging.
func (env *environment) settleOthers(run func(until func() bool, limit time.Duration) bool, unsettled func() []string, limit time.Duration) {
	defer env.faults.hangEnded.Store(true)
	hangs := func(left string) bool {
		name, _, _ := strings.Cut(left, " ")
		return !strings.HasPrefix(left, reversalLeft) && env.faults.hangs(name)
	}
	if !slices.ContainsFunc(unsettled(), hangs) {
		return
	}
	env.occurred("an operation hangs to the end")
	others := func() []string { return slices.DeleteFunc(unsettled(), hangs) }
	if !run(func() bool { return len(others()) == 0 }, limit) && !env.broken() {
		env.fail(fmt.Sprintf("S4: %s after the last fault, while queries about others hang, these are not settled: %s", limit, strings.Join(others(), ", ")))
	}
}
