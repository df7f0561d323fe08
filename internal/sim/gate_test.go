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

// gates schedule everything that could happen in either order. One goroutine runs at a
// time: the scheduler releases one, waits until all goroutines are blocked again, and
// then picks the next.
//
// In real time no goroutine waits. A gate is then only where faults are injected.
type gates struct {
	env *environment

	mu      sync.Mutex
	waiting []*waiter
	visits  map[string]int
	arrived chan struct{} // buffered, 1: a goroutine came to a gate
	steps   int
	open    bool // during setup: no goroutine waits
	closed  bool // during teardown: goroutines that arrive end
}

// waiter is a goroutine at a gate.
type waiter struct {
	who     string   // the task: a client's action, a node's loop, the provider
	where   string   // the gate
	visit   string   // how often this task came to this gate before
	process *process // of the node it belongs to; nil if to none
	since   time.Time
	write   bool // before or after a write to the store
	result  chan injection
}

func (s *waiter) name() string { return s.who + " " + s.where + " " + s.visit }

// injection is what a gate injects into a goroutine.
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

// endSetup makes goroutines wait from now on.
func (g *gates) endSetup() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = false
}

// pass waits until the scheduler releases the goroutine. It does not return if the
// goroutine's process has ended.
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

// next removes and returns the waiter to release: the seed gives each a rank, and the
// highest goes first. Goroutines of paused processes are skipped.
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

// endWaiting ends every goroutine of a process that waits at a gate.
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

// writers returns the tasks with a write in progress.
func (env *environment) writers() []string { return keys(env.writing) }

// run releases one waiter after the other until the condition holds, or until the
// limit of fake time has passed. It reports whether the condition holds.
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

// release releases a waiter, with the fault that the seed injects there.
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
