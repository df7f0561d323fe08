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

// A node that gets SIGTERM answers all requests in progress, accepts no new ones, and
// leaves no operation open except those in review.
func TestShutdown_AnswersRequestsInProgress(t *testing.T) {
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment(t, store, 1, "provider.timeout=3s")
			n := env.nodes[0]
			n.start()
			for i := range 10 {
				env.addClient(env.operators[0], 7, uint64(i))
			}
			var orders []*order
			var inside sync.WaitGroup
			for i, s := range env.clients {
				o := &order{key: fmt.Sprintf("drained-%d", i), by: s.by, endpoint: "activate", mobile: s.newMobile(), plan: "BASIC-1", outcome: "slow"}
				if i < 2 {
					o.outcome = "timeout_applied" // answered with PENDING_REVIEW
				}
				o.body = s.activation(o.mobile, o.plan)
				orders, s.orders = append(orders, o), []*order{o}
				env.record.add(o)
				env.provider.script(o.mobile, o.outcome)
				inside.Go(func() { s.send(o) })
			}
			until(t, "the provider has every order", func() bool {
				for _, o := range orders {
					if len(env.provider.calls(o.mobile)) == 0 {
						return false
					}
				}
				return true
			})
			inProgress := len(orders) - int(env.record.answers.Load())
			n.process.signal(syscall.SIGTERM)
			if inProgress == 0 {
				t.Error("no request was in progress any more")
			}

			stranger := env.apiClient(env.operators[0], n)
			until(t, "new requests are refused", func() bool {
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
			n.process.requireCleanExit()
			n.gone()
			for _, o := range orders {
				state, _ := env.record.stateOf(o)
				if len(o.answers) != 1 || state != "needs_review" && (state != "success" || o.outcome != "slow") {
					env.record.violation(o, "was in progress at SIGTERM; want it answered, once")
				}
			}
			if left := env.operations(); left.Total != 10 || left.Success+left.NeedsReview != 10 {
				t.Errorf("the node left %+v; want successes, and the rest in review", left)
			}

			n.start()
			until(t, "review has ended the rest", env.settle)
			env.compare(true, true)
			n.terminate()
		})
	}
}

// tally is the number of operations by state, from coax audit.
type tally struct {
	Total       int `json:"total"`
	Processing  int `json:"processing"`
	NeedsReview int `json:"needs_review"`
	Success     int `json:"success"`
	Failed      int `json:"failed"`
}

func (env *environment) operations() tally {
	env.t.Helper()
	out, err := run(env.t, "audit", "--config", env.config, "--json")
	if err != nil {
		env.t.Fatal(err)
	}
	var report struct {
		Counts struct {
			Operations tally `json:"operations"`
		} `json:"counts"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		env.t.Fatalf("%v\n%s", err, out)
	}
	return report.Counts.Operations
}
