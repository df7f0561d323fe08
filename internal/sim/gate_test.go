package sim

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// gates is where everything that could happen in either order waits for its turn.
// One goroutine runs at a time: the scheduler lets one through, waits until the
// whole world stands still again, and only then picks the next.
//
// In real time nobody waits for a turn. A gate is then only where somebody meets
// what the seed has in store for them.
type gates struct {
	env *environment

	mu      sync.Mutex
	waiting []*waiter
	visits  map[string]int
	arrived chan struct{} // holds one: somebody came to a gate
	steps   int
	open    bool // nobody waits: the world is being made
	closed  bool // nobody goes on: it is being taken down
}

// waiter is a goroutine that waits at a gate.
type waiter struct {
	who     string   // the task: a client's action, a node's loop, the provider
	where   string   // the gate
	visit   string   // how often this task came to this gate before
	process *process // of the node it belongs to; nil if to none
	since   time.Time
	write   bool // about to ask the store for something durable
	result  chan injection
}

func (s *waiter) name() string { return s.who + " " + s.where + " " + s.visit }

// verdict is what a gate lets a goroutine meet.
type injection int

const (
	proceed    injection = iota
	endProcess           // the node is no more
	failUnavailable
	failAmbiguous
	failPlain
)

func newGates(env *environment) *gates {
	return &gates{env: env, visits: map[string]int{}, arrived: make(chan struct{}, 1)}
}

// shut ends the time in which nobody waits.
func (g *gates) endSetup() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = false
}

// pass waits for a turn. A goroutine whose node has died does not come back.
func (g *gates) pass(who, where string, of *process, write bool) injection {
	s := &waiter{who: who, where: where, process: of, since: time.Now(), write: write, result: make(chan injection, 1)}
	g.mu.Lock()
	if of != nil && of.isDead() {
		g.mu.Unlock()
		runtime.Goexit()
	}
	if g.closed && who != "writer" && !strings.HasPrefix(who, "provider ") {
		g.mu.Unlock()
		runtime.Goexit()
	}
	if g.open || g.closed {
		g.mu.Unlock()
		return proceed
	}
	label := who + " " + where
	s.visit = strconv.Itoa(g.visits[label])
	g.visits[label]++
	if g.env.realTime {
		g.mu.Unlock()
		return g.passAtOnce(s)
	}
	g.waiting = append(g.waiting, s)
	g.mu.Unlock()
	select {
	case g.arrived <- struct{}{}:
	default:
	}
	v := <-s.result
	if v == endProcess {
		runtime.Goexit()
	}
	return v
}

// passAtOnce is pass in real time.
func (g *gates) passAtOnce(s *waiter) injection {
	v := g.env.faults.inject(s)
	g.env.trace.note(s, v)
	if s.process != nil {
		s.process.waitWhilePaused()
	}
	if v == endProcess || s.process != nil && s.process.isDead() {
		runtime.Goexit()
	}
	return v
}

// next takes the stop whose turn it is: the seed gives every stop a number, and
// the highest goes first. Who sleeps is passed over.
func (g *gates) next() *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	best, bestAt, bestRank := (*waiter)(nil), 0, uint64(0)
	now := time.Now()
	for i, s := range g.waiting {
		if s.process != nil && s.process.pausedUntil().After(now) {
			continue
		}
		rank := g.env.chance.of("turn", s.who, s.where, s.visit)
		if best == nil || rank > bestRank || rank == bestRank && s.name() < best.name() {
			best, bestAt, bestRank = s, i, rank
		}
	}
	if best != nil {
		g.waiting = slices.Delete(g.waiting, bestAt, bestAt+1)
	}
	return best
}

// bury ends every goroutine of a node's life that waits at a gate.
func (g *gates) endWaiting(l *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(s *waiter) bool {
		if s.process == l {
			s.result <- endProcess
		}
		return s.process == l
	})
}

// writers are the tasks that have asked the store for something durable and not
// heard yet; the scheduler fills it as it lets them through.
func (env *environment) writers() []string { return keys(env.writing) }

// run lets one after the other through until the condition holds, or until so
// much fake time has passed. It says whether the condition came to hold.
func (g *gates) run(until func() bool, limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		synctest.Wait()
		if until() {
			return true
		}
		if g.env.broken() {
			return false
		}
		s := g.next()
		if s == nil {
			select {
			case <-g.arrived:
				continue
			case <-g.env.woken:
				continue
			case <-deadline.C:
				return false
			}
		}
		g.steps++
		g.release(s)
	}
}

// let lets one through, into whatever the seed has in store for it there.
func (g *gates) release(s *waiter) {
	env := g.env
	v := env.faults.inject(s)
	env.trace.note(s, v)
	if s.write {
		if strings.HasPrefix(s.where, "before ") && v == proceed {
			env.writing[s.who] = true
		} else {
			delete(env.writing, s.who)
		}
	}
	env.model.look(s)
	s.result <- v
	synctest.Wait()
	env.journal.read()
}

type taskKey struct{}

// as names the task that works under a context.
func as(ctx context.Context, task string) context.Context {
	return context.WithValue(ctx, taskKey{}, task)
}

func taskOf(ctx context.Context) string {
	task, _ := ctx.Value(taskKey{}).(string)
	return task
}
