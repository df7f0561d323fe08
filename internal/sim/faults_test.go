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
	w  *world
	on atomic.Bool // off in the last part, when everything has to come right
	// plan, for a history whose faults are told and not drawn; nil otherwise.
	plan *planned

	// ways are what the provider does with the orders of each key, where that is
	// told.
	ways map[string][]string

	rates      map[string]int // in a thousand
	nextCommit string

	decide   map[string]string // as a scenario tells it
	hanging  map[string]bool   // operations about which questions are told to hang
	hangOver atomic.Bool       // no question hangs any more
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
	{"crash", 3}, {"sleep", 2}, {"answer lost", 40}, {"hang up", 60}, {staffMeanwhile, 200}, {questionsHang, 150}, {rowsHeld, 1000},
	{"provider", 1000}, {"clock", 1000}, {"leap", 1000}, {"outage", 1000}, {"power", 1000},
}

func newFaults(w *world, plan program) *faults {
	f := &faults{w: w, plan: plan.planned, rates: map[string]int{}, ways: map[string][]string{}, hanging: map[string]bool{}, decide: map[string]string{}}
	f.on.Store(true)
	if plan.scenario != nil {
		maps.Copy(f.ways, plan.scenario.ways)
		maps.Copy(f.decide, plan.scenario.decide)
		for _, name := range plan.scenario.hang {
			f.hanging[name] = true
		}
	}
	if plan.planned != nil || w.chance.odds(100, "a quiet history") {
		return f
	}
	for _, kind := range faultKinds {
		if w.chance.odds(600, "has", kind.name) && !plan.without[kind.name] {
			f.rates[kind.name] = kind.rate
		}
	}
	if w.real && w.chance.odds(600, "has", connectionsCut) && !plan.without[connectionsCut] {
		f.rates[connectionsCut] = 2
	}
	return f
}

// connectionsCut is a fault of the real world alone: the server ends all the
// connections of a process, whatever is on them, a commit included.
const connectionsCut = "connections cut"

func (f *faults) has(kind string) bool { return f.on.Load() && f.rates[kind] > 0 }

func (f *faults) drawn(kind string, what ...string) bool {
	if !f.on.Load() || f.rates[kind] == 0 || !f.w.chance.odds(f.rates[kind], append([]string{kind}, what...)...) {
		return false
	}
	f.w.sometimes("fault: " + kind)
	return true
}

// told is what a scenario says the provider does next with an order.
func (f *faults) told(what, name string) string {
	left := f.ways[name]
	if what != "order" || len(left) == 0 {
		return ""
	}
	f.ways[name] = left[1:]
	return left[0]
}

func (f *faults) provider() bool { return f.has("provider") }

func (f *faults) losesAnswer(fl *flight) bool { return f.drawn("answer lost", fl.task) }

// neverMade: a batch was rolled back before the commit that was to fail.
const neverMade = "a commit that was to fail was never made"

// meet decides what somebody meets at a gate.
func (f *faults) meet(s *stop) verdict {
	if s.where == "commit" && f.nextCommit != "" {
		f.nextCommit = "" // it was meant for the batch before
		f.w.sometimes(neverMade)
	}
	if f.plan != nil {
		return f.meetPlanned(s)
	}
	if s.life != nil {
		if f.drawn("crash", s.name()) {
			f.w.fell(s.life)
			return die
		}
		if f.drawn("sleep", s.name()) {
			f.w.nod(s.life, f.w.chance.between(time.Second, 20*time.Second, "sleeps", s.name()))
		}
		if f.drawn(connectionsCut, s.name()) {
			f.w.cutConnections(s.life)
		}
	}
	v := goOn
	switch {
	case strings.HasPrefix(s.where, "read ") && f.drawn("read fails", s.name()):
		v = pick(f.w.chance, []verdict{failUnavailable, failPlainly}, "how", s.name())
	case strings.HasPrefix(s.where, "before ") && f.drawn("write fails before", s.name()):
		v = pick(f.w.chance, []verdict{failUnavailable, failAmbiguous, failPlainly}, "how", s.name())
	case strings.HasPrefix(s.where, "after ") && f.drawn("write fails after", s.name()):
		v = failAmbiguous
	case s.where == "commit" && f.drawn("commit fails before", s.name()):
		f.failCommit("before")
	case s.where == "commit" && f.drawn("commit fails after", s.name()):
		f.failCommit("after")
	}
	if v != goOn {
		f.w.witness.excuse(s.who)
	}
	return v
}

// meetPlanned is meet for faults that are told.
func (f *faults) meetPlanned(s *stop) verdict {
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
			f.w.fell(s.life)
			return die
		case "sleep":
			f.w.nod(s.life, leaseLength+5*time.Second)
		case rowsHeld:
			f.w.locks.hold("session", 1, 3*lockTimeout) // scenarios are about operator 1
		case "commit fails before":
			f.failCommit("before")
		case "commit fails after":
			f.failCommit("after")
		default:
			f.w.witness.excuse(s.who)
			return map[string]verdict{
				"read fails": failUnavailable, "write is unavailable": failUnavailable, "write fails before": failAmbiguous, "write fails after": failAmbiguous,
			}[p.kind]
		}
	}
	return goOn
}

// possible reports whether a kind of fault can happen to somebody at a gate.
func possible(kind string, s *stop) bool {
	switch kind {
	case "crash", "sleep":
		return s.life != nil
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
	f.w.mu.Lock()
	facts := f.w.batch
	f.w.mu.Unlock()
	if facts >= 3 {
		f.w.sometimes("the commit of three facts or more fails " + how + " it took hold")
	}
	for _, task := range f.w.writers() {
		f.w.witness.excuse(task)
	}
}

func (f *faults) commit() string {
	fault := f.nextCommit
	f.nextCommit = ""
	return fault
}

// fell: a process died. It comes back after a while.
func (w *world) fell(l *life) {
	n := l.node
	if !l.crash() {
		return
	}
	w.sometimes("a node crashes")
	w.background.Go(func() {
		w.sleep(w.chance.between(100*time.Millisecond, 4*time.Second, "down", l.name()))
		w.gates.pass(n.name+" restart", "restart", nil, false)
		if n.running() == nil {
			w.startAgain(n)
		}
	})
}

// nod puts a process to sleep for so long, and stirs the scheduler when it wakes.
func (w *world) nod(l *life, wait time.Duration) {
	wait = w.paced(wait)
	l.sleepUntil(time.Now().Add(wait))
	l.setTroubled()
	w.background.Go(func() {
		select {
		case <-time.After(wait):
			w.stir()
		case <-l.ended:
		}
	})
}
