//go:build long

package torture

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// runCycles runs the cycles of one environment.
func (c *campaign) runCycles(t *testing.T, number, cycles int) {
	nodes := map[string]int{"sqlite": 1, "postgres": 3}[c.store]
	env := newEnvironment(t, c.store, nodes)
	env.rand = rand.New(rand.NewPCG(c.seed, uint64(number+1)))
	env.openAccount("Rich Cable", "9000000.00")
	env.openAccount("Poor Cable", "2000.00")
	env.topUp(env.operators[0], "9000000.00", true)
	for i := range 6 {
		env.addClient(env.operators[i%len(env.operators)], c.seed, uint64(1000*(number+1)+i))
	}
	for cycle := range cycles {
		answers, orders, violations := env.record.answers.Load(), len(env.record.all()), env.record.violations.Load()
		disruption, again := c.next()
		c.note(disruption, env.cycle(c, disruption, again))
		last := cycle == cycles-1
		// What a dead node had claimed is free only when its claim has expired. That
		// takes ten seconds, so it is awaited only in the last cycle.
		settled := env.recover(c, last)
		c.noteSettled(settled)
		env.compare(settled, last)
		if last && !settled {
			for _, s := range env.clients {
				for _, o := range s.orders {
					if s.pending(o) {
						env.record.violation(o, "it is never settled")
					}
				}
			}
		}
		c.report(t, env.record.answers.Load()-answers, len(env.record.all())-orders, env.record.violations.Load()-violations)
		if t.Failed() {
			t.Logf("cycle %d of environment %d, %s", cycle+1, number+1, disruption)
			return
		}
	}
	for _, n := range env.nodes {
		n.terminate()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for code, times := range env.record.codes {
		c.codes[code] += times
	}
}

// cycle applies one disruption while the clients work, and reports whether it took
// effect. Nodes that are down afterwards stay down.
func (env *environment) cycle(c *campaign, disruption string, again bool) (hit bool) {
	env.t.Helper()
	if strings.Contains(disruption, ".") {
		return env.crashAt(disruption, again)
	}
	for _, n := range env.nodes {
		if !n.running() {
			n.start()
		}
	}
	tr := env.begin()
	defer tr.end()
	env.pay()
	env.after(tr, 10+env.rand.IntN(100))
	jitter(env.rand, 5*time.Millisecond)
	hit = !tr.isOver() // or nothing was under way
	switch disruption {
	case "kill", "kill one", "kill two", "kill all":
		victims := map[string]int{"kill": 1, "kill one": 1, "kill two": 2, "kill all": 3}[disruption]
		for _, i := range env.rand.Perm(len(env.nodes))[:victims] {
			env.nodes[i].kill()
		}
	case "terminate":
		n := env.nodes[0]
		n.address.Store(nil) // clients who come now would only be refused
		n.terminate()
	default:
		hit = env.disruptDatabase(tr, disruption) && hit
	}
	env.after(tr, 10+env.rand.IntN(30))
	return hit
}

// crashAt arms nodes to crash at a crash point, and runs the clients until they do.
func (env *environment) crashAt(point string, again bool) bool {
	env.t.Helper()
	// Frequent points are passed a number of times before the crash. Review can run on
	// any node, so for its points all are armed.
	turns := map[byte]int{'N': 60, 'R': 25, 'P': 20, 'S': 20, 'V': 3}[point[0]]
	armed := 1 + env.rand.IntN(2)
	if point[0] == 'V' {
		armed = len(env.nodes)
	}
	var victims []*node
	for placeOrder, i := range env.rand.Perm(len(env.nodes)) {
		n := env.nodes[i]
		if placeOrder >= armed {
			if !n.running() {
				n.start()
			}
			continue
		}
		if n.running() {
			n.kill()
		}
		turn := 1 + env.rand.IntN(turns)/len(env.nodes)
		if again {
			turn = 1
		}
		n.launch(armedFor(point, turn))
		victims = append(victims, n)
	}
	for _, n := range victims {
		n.await()
	}
	tr := env.begin()
	env.pay()
	died := func() bool {
		some := false
		for _, n := range victims {
			if n.process.over() {
				n.gone()
				some = true
			}
		}
		return some
	}
	until(env.t, "a node dies or the clients are done", func() bool { return died() || tr.isOver() })
	hit := died()
	if hit {
		env.after(tr, 10+env.rand.IntN(30)) // with those that are left
	}
	tr.end()
	hit = died() || hit
	for _, n := range victims {
		if !n.process.over() {
			n.kill()
		}
	}
	return hit
}

func armedFor(point string, turn int) string { return fmt.Sprintf("%s=kill@%d", point, turn) }

// recover starts the nodes that are down and has the clients query all open orders.
// Some nodes crash again meanwhile. It reports whether every order is settled; with
// fully it waits for that.
func (env *environment) recover(c *campaign, fully bool) bool {
	env.t.Helper()
	armed := map[*node]string{}
	var started []*node
	for _, n := range env.nodes {
		if n.running() {
			continue
		}
		started = append(started, n)
		if env.rand.IntN(3) > 0 {
			n.launch("")
			continue
		}
		armed[n] = crashPoints[env.rand.IntN(len(crashPoints))]
		n.launch(armedFor(armed[n], 1+env.rand.IntN(2)))
	}
	for _, n := range started {
		n.await()
	}
	limit := 1500 * time.Millisecond
	if fully {
		limit = timeout
	}
	settled := within(limit, pollPause, func() bool {
		env.restartCrashed(c, armed)
		return env.settle()
	})
	env.restartCrashed(c, armed)
	for n := range armed {
		n.kill()
		n.start()
	}
	return settled
}

// restartCrashed restarts nodes that crashed during recovery.
func (env *environment) restartCrashed(c *campaign, armed map[*node]string) {
	env.t.Helper()
	for _, n := range env.nodes {
		if !n.process.over() {
			continue
		}
		n.gone()
		if armed[n] == "" {
			env.record.violation(nil, "%s died by itself:\n%s", n.name(), tail(n.process.err.String(), 20))
		} else {
			c.noteWhileRecovering(armed[n])
		}
		delete(armed, n)
		n.start()
	}
}

// pay tops up the operator that is always short of money, during traffic; sometimes
// the command is killed and repeated.
func (env *environment) pay() {
	env.t.Helper()
	env.topUp(env.operators[2], "1500.00", env.rand.IntN(3) == 0)
}
