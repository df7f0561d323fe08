package sim

import (
	"maps"
	"strings"
	"sync/atomic"
	"time"
)

// faults is what may go wrong in a history, and how often. Which kinds a history
// has is drawn with its seed: one in which everything fails at once finds other
// things than one in which a single kind does.
type faults struct {
	env *environment
	on  atomic.Bool // off in the last part, when everything has to come right
	// plan, for a history whose faults are told and not drawn; nil otherwise.
	plan *planned

	// ways are what the provider does with the orders of each key, where that is
	// told.
	behaviours map[string][]string

	rates      map[string]int // in a thousand
	nextCommit string

	decide    map[string]string // as a scenario tells it
	hanging   map[string]bool   // operations about which questions are told to hang
	hangEnded atomic.Bool       // no question hangs any more
}

// planned are faults that are told: each at the n-th place where its kind is
// possible.
type planned struct{ faults []*plannedFault }

type plannedFault struct {
	kind string
	n    int
	seen int
	// fired: the place came. A history in which none is reached is a clean one.
	fired bool
}

// The kinds of faults, with their rates where a history has them.
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

// connectionsCut is a fault of the real world alone: the server ends all the
// connections of a process, whatever is on them, a commit included.
const connectionsCut = "connections cut"

func (f *faults) has(kind string) bool { return f.on.Load() && f.rates[kind] > 0 }

func (f *faults) drawn(kind string, what ...string) bool {
	if !f.on.Load() || f.rates[kind] == 0 || !f.env.chance.odds(f.rates[kind], append([]string{kind}, what...)...) {
		return false
	}
	f.env.occurred("fault: " + kind)
	return true
}

// scripted is what a scenario says the provider does next with an order.
func (f *faults) scripted(what, name string) string {
	left := f.behaviours[name]
	if what != "order" || len(left) == 0 {
		return ""
	}
	f.behaviours[name] = left[1:]
	return left[0]
}

func (f *faults) provider() bool { return f.has("provider") }

func (f *faults) losesAnswer(fl *flight) bool { return f.drawn("answer lost", fl.task) }

// neverMade: a batch was rolled back before the commit that was to fail.
const commitNeverMade = "a commit that was to fail was never made"

// meet decides what somebody meets at a gate.
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

// meetPlanned is meet for faults that are told.
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

// possible reports whether a kind of fault can happen to somebody at a gate.
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

// failCommit makes the commit that is let through fail, and excuses everybody
// whose fact is in it.
func (f *faults) failCommit(how string) {
	f.nextCommit = how
	f.env.mu.Lock()
	facts := f.env.batch
	f.env.mu.Unlock()
	if facts >= 3 {
		f.env.occurred("the commit of three facts or more fails " + how + " it took hold")
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

// fell: a process died. It comes back after a while.
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

// nod puts a process to sleep for so long, and stirs the scheduler when it wakes.
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
