//go:build long

package torture

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// steps is how many things each client does in a cycle at most.
const steps = 40

// live takes one world through its cycles.
func (c *campaign) live(t *testing.T, number, cycles int) {
	nodes := map[string]int{"sqlite": 1, "postgres": 3}[c.store]
	w := plainWorld(t, c.store, nodes)
	w.rand = rand.New(rand.NewPCG(c.seed, uint64(number+1)))
	w.hire("Rich Cable", "9000000.00")
	w.hire("Poor Cable", "2000.00")
	w.topUp(w.operators[0], "9000000.00", true)
	for i := range 6 {
		w.install(w.operators[i%len(w.operators)], c.seed, uint64(1000*(number+1)+i))
	}
	for cycle := range cycles {
		answers, orders, violations := w.record.answers.Load(), len(w.record.all()), w.record.violations.Load()
		blow, again := c.draw()
		c.note(blow, w.cycle(c, blow, again))
		last := cycle == cycles-1
		// What a dead node had claimed is only free when its claim has run out. That
		// takes ten seconds, for which there is time at the end.
		settled := w.recover(c, last)
		c.noteSettled(settled)
		w.compare(settled, last)
		if last && !settled {
			for _, s := range w.software {
				for _, o := range s.orders {
					if s.awaited(o) {
						w.record.violation(o, "it comes to no end")
					}
				}
			}
		}
		c.report(t, w.record.answers.Load()-answers, len(w.record.all())-orders, w.record.violations.Load()-violations)
		if t.Failed() {
			t.Logf("cycle %d of world %d, dealt %s", cycle+1, number+1, blow)
			return
		}
	}
	for _, n := range w.nodes {
		n.terminate()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for code, times := range w.record.codes {
		c.codes[code] += times
	}
}

// traffic is all the clients at work.
type traffic struct {
	stopped atomic.Bool
	over    chan struct{}
}

func (w *world) begin() *traffic {
	tr := &traffic{over: make(chan struct{})}
	var working sync.WaitGroup
	for _, s := range w.software {
		working.Go(func() {
			// Who finds nobody there stops for now, and goes on afterwards.
			for step := 0; step < steps && !tr.stopped.Load() && w.anybody(); step++ {
				s.step()
			}
		})
	}
	go func() {
		working.Wait()
		close(tr.over)
	}()
	return tr
}

func (tr *traffic) isOver() bool {
	select {
	case <-tr.over:
		return true
	default:
		return false
	}
}

// end lets the clients finish what they are at.
func (tr *traffic) end() {
	tr.stopped.Store(true)
	<-tr.over
}

func (w *world) anybody() bool {
	for _, n := range w.nodes {
		if n.address.Load() != nil {
			return true
		}
	}
	return false
}

// after waits until so many more answers have come, or no more will.
func (w *world) after(tr *traffic, more int) {
	w.t.Helper()
	target := w.record.answers.Load() + int64(more)
	until(w.t, "clients are answered", func() bool { return w.record.answers.Load() >= target || tr.isOver() })
}

// cycle has the clients work while one blow is dealt, and reports whether it
// struck. Whatever is down afterwards stays down.
func (w *world) cycle(c *campaign, blow string, again bool) (struck bool) {
	w.t.Helper()
	if strings.Contains(blow, ".") {
		return w.dieAt(blow, again)
	}
	for _, n := range w.nodes {
		if !n.running() {
			n.start()
		}
	}
	tr := w.begin()
	defer tr.end()
	w.pay()
	w.after(tr, 10+w.rand.IntN(100))
	jitter(w.rand, 5*time.Millisecond)
	struck = !tr.isOver() // or nothing was under way
	switch blow {
	case "kill", "kill one", "kill two", "kill all":
		victims := map[string]int{"kill": 1, "kill one": 1, "kill two": 2, "kill all": 3}[blow]
		for _, i := range w.rand.Perm(len(w.nodes))[:victims] {
			w.nodes[i].kill()
		}
	case "terminate":
		n := w.nodes[0]
		n.address.Store(nil) // clients who come now would only be refused
		n.terminate()
	default:
		struck = w.dealToDatabase(tr, blow) && struck
	}
	w.after(tr, 10+w.rand.IntN(30))
	return struck
}

// dieAt arms nodes to die at a point, and has the clients work until they do.
func (w *world) dieAt(point string, again bool) bool {
	w.t.Helper()
	// What is come by often is survived for a while. Follow-ups are anybody's, so
	// that each node waits for some.
	turns := map[byte]int{'N': 60, 'R': 25, 'P': 20, 'S': 20, 'V': 3}[point[0]]
	armed := 1 + w.rand.IntN(2)
	if point[0] == 'V' {
		armed = len(w.nodes)
	}
	var victims []*node
	for place, i := range w.rand.Perm(len(w.nodes)) {
		n := w.nodes[i]
		if place >= armed {
			if !n.running() {
				n.start()
			}
			continue
		}
		if n.running() {
			n.kill()
		}
		turn := 1 + w.rand.IntN(turns)/len(w.nodes)
		if again {
			turn = 1
		}
		n.launch(armedFor(point, turn))
		victims = append(victims, n)
	}
	for _, n := range victims {
		n.await()
	}
	tr := w.begin()
	w.pay()
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
	until(w.t, "a node dies or the clients are done", func() bool { return died() || tr.isOver() })
	struck := died()
	if struck {
		w.after(tr, 10+w.rand.IntN(30)) // with those that are left
	}
	tr.end()
	struck = died() || struck
	for _, n := range victims {
		if !n.process.over() {
			n.kill()
		}
	}
	return struck
}

func armedFor(point string, turn int) string { return fmt.Sprintf("%s=kill@%d", point, turn) }

// recover starts what is down and has the clients ask about everything that is
// open. Some nodes die again while they recover. If it is to be done fully, it
// goes on until every order has its end, and says whether it came to that.
func (w *world) recover(c *campaign, fully bool) bool {
	w.t.Helper()
	armed := map[*node]string{}
	var started []*node
	for _, n := range w.nodes {
		if n.running() {
			continue
		}
		started = append(started, n)
		if w.rand.IntN(3) > 0 {
			n.launch("")
			continue
		}
		armed[n] = points[w.rand.IntN(len(points))]
		n.launch(armedFor(armed[n], 1+w.rand.IntN(2)))
	}
	for _, n := range started {
		n.await()
	}
	limit := 1500 * time.Millisecond
	if fully {
		limit = patience
	}
	settled := within(limit, gently, func() bool {
		w.revive(c, armed)
		return w.settle()
	})
	w.revive(c, armed)
	for n := range armed {
		n.kill()
		n.start()
	}
	return settled
}

// revive starts nodes anew that died while they recovered.
func (w *world) revive(c *campaign, armed map[*node]string) {
	w.t.Helper()
	for _, n := range w.nodes {
		if !n.process.over() {
			continue
		}
		n.gone()
		if armed[n] == "" {
			w.record.violation(nil, "%s died by itself:\n%s", n.name(), tail(n.process.err.String(), 20))
		} else {
			c.noteWhileRecovering(armed[n])
		}
		delete(armed, n)
		n.start()
	}
}

// pay pays something in for the operator who is always short of money, while
// everything goes on; sometimes the command dies at it, and is repeated.
func (w *world) pay() {
	w.t.Helper()
	w.topUp(w.operators[2], "1500.00", w.rand.IntN(3) == 0)
}
