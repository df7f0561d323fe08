package torture

import (
	"sync"
	"sync/atomic"
)

// steps is how many actions each client takes in a cycle at most.
const steps = 40

// traffic is all the clients at work.
type traffic struct {
	stopped atomic.Bool
	over    chan struct{}
}

func (env *environment) begin() *traffic {
	tr := &traffic{over: make(chan struct{})}
	var working sync.WaitGroup
	for _, s := range env.clients {
		working.Go(func() {
			// If no node is up, the client stops for this cycle.
			for step := 0; step < steps && !tr.stopped.Load() && env.anyNodeUp(); step++ {
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

// end lets the clients finish their requests.
func (tr *traffic) end() {
	tr.stopped.Store(true)
	<-tr.over
}

func (env *environment) anyNodeUp() bool {
	for _, n := range env.nodes {
		if n.address.Load() != nil {
			return true
		}
	}
	return false
}

// after waits until a number of further answers have come, or the clients are done.
func (env *environment) after(tr *traffic, more int) {
	env.t.Helper()
	target := env.record.answers.Load() + int64(more)
	until(env.t, "clients are answered", func() bool { return env.record.answers.Load() >= target || tr.isOver() })
}
