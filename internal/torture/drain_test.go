//go:build long

package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
)

// A node that is asked to end answers everybody who is inside, lets nobody else
// in, and leaves nothing behind but what only review can find out.
func TestShutdown_AnswersRequestsInProgress(t *testing.T) {
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			w := plainWorld(t, store, 1, "provider.timeout=3s")
			n := w.nodes[0]
			n.start()
			for i := range 10 {
				w.install(w.operators[0], 7, uint64(i))
			}
			var orders []*order
			var inside sync.WaitGroup
			for i, s := range w.software {
				o := &order{key: fmt.Sprintf("drained-%d", i), by: s.by, endpoint: "activate", mobile: s.newMobile(), plan: "BASIC-1", outcome: "slow"}
				if i < 2 {
					o.outcome = "timeout_applied" // its answer will be that nobody knows yet
				}
				o.body = s.activation(o.mobile, o.plan)
				orders, s.orders = append(orders, o), []*order{o}
				w.record.add(o)
				w.provider.script(o.mobile, o.outcome)
				inside.Go(func() { s.send(o) })
			}
			until(t, "the provider has every order", func() bool {
				for _, o := range orders {
					if len(w.provider.calls(o.mobile)) == 0 {
						return false
					}
				}
				return true
			})
			underWay := len(orders) - int(w.record.answers.Load())
			n.process.signal(syscall.SIGTERM)
			if underWay == 0 {
				t.Error("nothing was under way any more")
			}

			stranger := w.speaker(w.operators[0], n)
			until(t, "nobody else is let in", func() bool {
				_, err := stranger.Send(context.Background(), http.MethodGet, "balance", nil, nil)
				return err != nil
			})
			if ready, err := http.Get(n.internal + "/readyz"); err == nil {
				ready.Body.Close()
				if ready.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("while it drains, /readyz is %d", ready.StatusCode)
				}
			}
			inside.Wait()
			n.process.endsWell()
			n.gone()
			for _, o := range orders {
				state, _ := w.record.stateOf(o)
				if len(o.told) != 1 || state != "needs_review" && (state != "success" || o.outcome != "slow") {
					w.record.violation(o, "was under way when the node was asked to end; want it answered, once")
				}
			}
			if left := w.operations(); left.Total != 10 || left.Success+left.NeedsReview != 10 {
				t.Errorf("the node left %+v; want successes, and the rest in review", left)
			}

			n.start()
			until(t, "review has ended the rest", w.settle)
			w.compare(true, true)
			n.terminate()
		})
	}
}

// tally is how many operations there are, as the audit counts them.
type tally struct {
	Total       int `json:"total"`
	Processing  int `json:"processing"`
	NeedsReview int `json:"needs_review"`
	Success     int `json:"success"`
	Failed      int `json:"failed"`
}

func (w *world) operations() tally {
	w.t.Helper()
	out, err := run(w.t, "audit", "--config", w.config, "--json")
	if err != nil {
		w.t.Fatal(err)
	}
	var report struct {
		Counts struct {
			Operations tally `json:"operations"`
		} `json:"counts"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	return report.Counts.Operations
}
