package cli

import (
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// The process is killed at each step of a reversal. After the restart the reversal goes on, or was never
// asked for; the money comes back once, and the provider has undone the order once.
func TestReversal_SurvivesCrash(t *testing.T) {
	for _, point := range []string{"X.requested", "X.claimed", "X.answered", "X.in", "X.settled"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			provider, err := demo.StartSimulator("127.0.0.1:0", "")
			if err != nil {
				t.Fatal(err)
			}
			defer provider.Stop()
			p := startFailpointDemo(t, folder, provider.URL, point+"=kill", "panel.staff_totp=false")
			w := e2e.NewRemoteEnv(t, p)
			w.Simulator = provider
			do := func(endpoint, key string, o e2e.Order) e2e.Answer {
				var got e2e.Answer
				w.WaitUntil(endpoint+" is answered", func() bool {
					got, _ = w.TryOperate(w.DemoCaller(), endpoint, key, o)
					return got.Code == fault.OK
				})
				return got
			}
			subscriber := do("activate", "activation", e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}).Text("customer.subscriber_id")
			transaction := do("renew", "by-mistake", e2e.Order{"subscriber_id": subscriber, "plan_id": "FAMILY-1"}).Text("transaction_id")
			ask := func(p *e2e.Process) {
				staff := w.SignIn(t, p.Demo.Admin)
				request := staff.Form("/console/review/operations/"+transaction+"/reverse", url.Values{"reverse_reason": {"wrong customer"}, "step": {"confirm"}})
				request.Header.Set("Sec-Fetch-Site", "same-origin")
				// The connection may end with the process.
				if response, err := staff.HTTP.Do(request); err == nil {
					_ = response.Body.Close()
				}
			}
			ask(p)
			<-p.Ended

			p = startFailpointDemo(t, folder, provider.URL, "", "panel.staff_totp=false")
			w = e2e.NewRemoteEnv(t, p)
			w.Simulator = provider
			balance := func() string {
				return w.SendNow(e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}).Text("wallet_balance")
			}
			if point == "X.requested" {
				// The transaction was not committed: nothing is under way, and it can be asked for again.
				if got := balance(); got != "9452" {
					t.Errorf("the wallet has %s; want 9452 as before", got)
				}
				ask(p)
			}
			w.WaitUntil("the money is back", func() bool { return balance() == "9801" })
			undone := 0
			for reference, effects := range provider.Effects() {
				if strings.HasPrefix(reference, "RV") {
					undone += effects
				}
			}
			if undone != 1 {
				t.Errorf("the provider has undone the order %d times; want once", undone)
			}
			if got := e2e.Run(t, "audit", "--config", p.Demo.Config); got.Code != e2e.ExitDone {
				t.Errorf("audit: %s", got)
			}
			if got := balance(); got != "9801" {
				t.Errorf("the wallet has %s in the end; want 9801", got)
			}
		})
	}
}
