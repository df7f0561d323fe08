package sim

import (
	"maps"
	"strings"
	"sync/atomic"
	"time"
)

// faults injects the faults of a history. Which kinds a history has is drawn from its
// seed: a history with all kinds finds other bugs than one with a single kind.
type faults struct {
	env *environment
	on  atomic.Bool // off in the last part, when everything has to be settled
	// plan is nil unless the faults are planned instead of drawn.
	plan *planned

	// behaviours are what the provider does with the orders of each key, as a
	// scenario sets it.
	behaviours map[string][]string

	rates      map[string]int // in a thousand
	nextCommit string

	decide    map[string]string // as a scenario sets it
	hanging   map[string]bool   // operations whose queries hang, as a scenario sets it
	hangEnded atomic.Bool       // no query hangs any more
}

// planned are faults of a scenario, each at the n-th step where its kind is possible.
type planned struct{ faults []*plannedFault }

type plannedFault struct {
	kind string
	n    int
	seen int
	// fired: step n was reached.
	fired bool
}

// faultKinds are the kinds of faults, with their rates in histories that have them.
var faultKinds = []struct {
	name string
	rate int
}{
	{"read fails", 8}, {"write fails before", 15}, {"write fails after", 15}, {"commit fails before", 20}, {"commit fails after", 20},
	{"crash", 3}, {"sleep", 2}, {"answer lost", 40}, {"hang up", 60}, {staffDecides, 200}, {queriesHang, 150}, {rowsHeld, 1000},
	{"provider", 1000}, {"clock", 1000}, {"leap", 1000}, {"outage", 1000}, {"power", 1000},
}

func newFaults(env *environment, plan program) *faults {
	f := &faults{env: env, plan: plan.planned, rates: map[string]int{}, behaviours: map[string][]string{}, hanging: map[string]bool{}, decide: map[string]string{}}
	f.on.Store(true)
	if plan.scenario != nil {
		maps.Copy(f.behaviours, plan.scenario.behaviours)
		maps.Copy(f.decide, plan.scenario.decide)
		for _, name := range plan.scenario.hang {
			f.hanging[name] = true
		}
	}
	if plan.planned != nil || env.chance.odds(100, "a quiet history") {
		return f
	}
	for _, kind := range faultKinds {
		if env.chance.odds(600, "has", kind.name) && !plan.without[kind.name] {
			f.rates[kind.name] = kind.rate
		}
	}
	if env.realTime && env.chance.odds(600, "has", connectionsCut) && !plan.without[connectionsCut] {
		f.rates[connectionsCut] = 2
	}
	return f
}

// connectionsCut is a fault of histories on PostgreSQL: the server ends all
// connections of a process, even during a commit.
const connectionsCut = "connections cut"

func (f *faults) has(kind string) bool { return f.on.Load() && f.rates[kind] > 0 }

func (f *faults) drawn(kind string, what ...string) bool {
	if !f.on.Load() || f.rates[kind] == 0 || !f.env.chance.odds(f.rates[kind], append([]string{kind}, what...)...) {
		return false
	}
	f.env.occurred("fault: " + kind)
	return true
}

// scripted returns what the provider does next with an order, if a scenario sets it.
func (f *faults) scripted(what, name string) string {
	left := f.behaviours[name]
	if what != "order" && what != "reverse" || len(left) == 0 {
		return ""
	}
	f.behaviours[name] = left[1:]
	return left[0]
}

func (f *faults) provider() bool { return f.has("provider") }

func (f *faults) losesAnswer(fl *flight) bool { return f.drawn("answer lost", fl.task) }

// commitNeverMade counts batches that were rolled back before the commit that was to
// fail.
const commitNeverMade = "a commit that was to fail was never made"

// inject decides which fault, if any, a goroutine meets at a gate.
func (f *faults) inject(s *waiter) injection {
	if s.where == "commit" && f.nextCommit != "" {
		f.nextCommit = "" // it was meant for the batch before
		f.env.occurred(commitNeverMade)
	}
	if f.plan != nil {
		return f.injectPlanned(s)
	}
	if s.process != nil {
		if f.drawn("crash", s.name()) {
			f.env.crashAndRestart(s.process)
			return endProcess
		}
		if f.drawn("sleep", s.name()) {
			f.env.pause(s.process, f.env.chance.between(time.Second, 20*time.Second, "sleeps", s.name()))
		}
		if f.drawn(connectionsCut, s.name()) {
			f.env.cutConnections(s.process)
		}
	}
	v := proceed
	switch {
	case strings.HasPrefix(s.where, "read ") && f.drawn("read fails", s.name()):
		v = pick(f.env.chance, []injection{failUnavailable, failPlain}, "how", s.name())
	case strings.HasPrefix(s.where, "before ") && f.drawn("write fails before", s.name()):
		v = pick(f.env.chance, []injection{failUnavailable, failAmbiguous, failPlain}, "how", s.name())
	case strings.HasPrefix(s.where, "after ") && f.drawn("write fails after", s.name()):
		v = failAmbiguous
	case s.where == "commit" && f.drawn("commit fails before", s.name()):
		f.failCommit("before")
	case s.where == "commit" && f.drawn("commit fails after", s.name()):
		f.failCommit("after")
	}
	if v != proceed {
		f.env.observer.excuse(s.who)
	}
	return v
}

// injectPlanned is inject for planned faults.
func (f *faults) injectPlanned(s *waiter) injection {
	for _, p := range f.plan.faults {
		if p.fired || !f.on.Load() || !possible(p.kind, s) {
			continue
		}
		if p.seen++; p.seen <= p.n {
			continue
		}
		p.fired = true
		switch p.kind {
		case "crash":
			f.env.crashAndRestart(s.process)
			return endProcess
		case "sleep":
			f.env.pause(s.process, leaseLength+5*time.Second)
		case rowsHeld:
			f.env.locks.hold("session", 1, 3*lockTimeout) // scenarios are about operator 1
		case "commit fails before":
			f.failCommit("before")
		case "commit fails after":
			f.failCommit("after")
		default:
			f.env.observer.excuse(s.who)
			return map[string]injection{
				"read fails": failUnavailable, "write is unavailable": failUnavailable, "write fails before": failAmbiguous, "write fails after": failAmbiguous,
			}[p.kind]
		}
	}
	return proceed
}

// possible reports whether a kind of fault can happen at a gate.
func possible(kind string, s *waiter) bool {
	switch kind {
	case "crash", "sleep":
		return s.process != nil
	case "read fails":
		return strings.HasPrefix(s.where, "read ")
	case rowsHeld, "write is unavailable", "write fails before":
		return strings.HasPrefix(s.where, "before ")
	case "write fails after":
		return strings.HasPrefix(s.where, "after ")
	}
	return s.where == "commit"
}

// failCommit makes the next commit fail and excuses all tasks whose writes are in it.
func (f *faults) failCommit(how string) {
	f.nextCommit = how
	f.env.mu.Lock()
	writes := f.env.batch
	f.env.mu.Unlock()
	if writes >= 3 {
		f.env.occurred("a commit of three writes or more fails " + how + " it took effect")
	}
	for _, task := range f.env.writers() {
		f.env.observer.excuse(task)
	}
}

func (f *faults) commit() string {
	fault := f.nextCommit
	f.nextCommit = ""
	return fault
}

// crashAndRestart crashes a process and restarts its node after a while.
func (env *environment) crashAndRestart(l *process) {
	n := l.node
	if !l.crash() {
		return
	}
	env.occurred("a node crashes")
	env.background.Go(func() {
		env.sleep(env.chance.between(100*time.Millisecond, 4*time.Second, "down", l.name()))
		env.gates.pass(n.name+" restart", "restart", nil, false)
		if n.running() == nil {
			env.restart(n)
		}
	})
}

// pause stops a process for a while, and wakes the scheduler when it resumes.
func (env *environment) pause(l *process, wait time.Duration) {
	wait = env.paced(wait)
	l.pauseUntil(time.Now().Add(wait))
	l.setDisturbed()
	env.background.Go(func() {
		select {
		case <-time.After(wait):
			env.wake()
		case <-l.ended:
		}
	})
}
