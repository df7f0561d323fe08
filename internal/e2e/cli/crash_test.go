package cli

import (
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// startFailpointDemo starts a demo with a failpoint, on a provider in the test's process.
func startFailpointDemo(t *testing.T, folder, provider, failpoint string, sets ...string) *e2e.Process {
	t.Helper()
	args := []string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json"}
	for _, set := range append([]string{
		"provider.url=" + provider, "provider.timeout=2s", "review.first_check=100ms", "review.max_interval=300ms", "review.refund_after=500ms",
		"catalogue.refresh=200ms",
	}, sets...) {
		args = append(args, "--set", set)
	}
	p := e2e.LaunchProgram(t, e2e.FailpointBinary(t), []string{"COAX_FAILPOINT=" + failpoint}, args...)
	t.Cleanup(func() { p.Kill() })
	p.AwaitReady()
	p.Install(t).JSON("lco", "set", "--lco", "1", "--rate-limit", "100000") // the test polls
	return p
}

// The process is killed at each failpoint. After the restart the operation is settled, the
// wallet is exact, the same key gives the result, the audit passes, and the provider has
// applied nothing twice.
func TestCrash_EveryFailpointLosesNothing(t *testing.T) {
	either := map[fault.Code]bool{fault.OK: true, fault.ProviderError: true}
	rows := []struct {
		point, outcome string
		want           map[fault.Code]bool
	}{
		{"N.before", "success", e2e.CodeSet(fault.OK)},
		{"N.after", "success", e2e.CodeSet(fault.OK)},
		{"R.before", "success", e2e.CodeSet(fault.OK)},
		{"R.in", "success", e2e.CodeSet(fault.OK)},
		{"P.before", "success", e2e.CodeSet(fault.ProviderError)}, // reserved, never sent: refunded
		{"P.sent", "timeout_applied", either},                     // sent, perhaps received: the provider's status decides
		{"P.sent", "timeout_not_applied", e2e.CodeSet(fault.ProviderError)},
		{"P.after", "success", e2e.CodeSet(fault.OK)},
		{"P.after", "reject", e2e.CodeSet(fault.ProviderError)},
		{"S.in", "success", e2e.CodeSet(fault.OK)},
		{"S.after", "success", e2e.CodeSet(fault.OK)},
		{"S.after", "reject", e2e.CodeSet(fault.ProviderError)},
		{"V.claimed", "timeout_applied", e2e.CodeSet(fault.OK)},
		{"V.answered", "timeout_applied", e2e.CodeSet(fault.OK)},
		{"V.settled", "timeout_applied", e2e.CodeSet(fault.OK)},
		{"V.answered", "timeout_not_applied", e2e.CodeSet(fault.ProviderError)},
		{"V.settled", "timeout_not_applied", e2e.CodeSet(fault.ProviderError)},
	}
	for _, row := range rows {
		t.Run(row.point+" "+row.outcome, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			provider, err := demo.StartSimulator("127.0.0.1:0", "")
			if err != nil {
				t.Fatal(err)
			}
			defer provider.Stop()
			p := startFailpointDemo(t, folder, provider.URL, row.point+"=kill")
			w := e2e.NewRemoteEnv(t, p)
			w.Simulator = provider
			w.ScriptProvider("9811111111", row.outcome)
			o := e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
			key := "crash-point"
			ask := func() (e2e.Answer, bool) { return w.TryOperate(w.DemoCaller(), "activate", key, o) }
			// The client's connection ends with the process, or the operation is
			// answered and the process is killed during the follow-up.
			if got, answered := ask(); answered && got.Code != fault.PendingReview {
				t.Fatalf("answered %s; want the process to die", got.Raw)
			}
			<-p.Ended

			p = startFailpointDemo(t, folder, provider.URL, "", afterLeases(row.point)...)
			w = e2e.NewRemoteEnv(t, p)
			w.Simulator = provider
			var got e2e.Answer
			w.WaitUntil("the operation is settled", func() bool {
				got, _ = ask()
				return got.Code != fault.RequestInProgress && got.Code != fault.PendingReview && got.Code != ""
			})
			if !row.want[got.Code] {
				t.Errorf("it ended as %s; want %v", got.Raw, row.want)
			}
			money := w.SendNow(e2e.Call{As: w.DemoCaller(), Path: e2e.Balance})
			want := map[fault.Code]string{fault.OK: "9801", fault.ProviderError: "10000"}[got.Code]
			if money.Text("wallet_balance") != want {
				t.Errorf("the wallet holds %s; want %s", money.Text("wallet_balance"), want)
			}
			for reference, effects := range provider.Effects() {
				if effects > 1 {
					t.Errorf("the provider applied %s %d times", reference, effects)
				}
			}
			if carried := len(provider.Effects()); (carried == 1) != (got.Code == fault.OK) {
				t.Errorf("the provider carried out %d orders, the operation is %s", carried, got.Code)
			}
			if got := e2e.Run(t, "audit", "--config", p.Demo.Config); got.Code != e2e.ExitDone {
				t.Errorf("audit: %s", got)
			}
			if status := p.Terminate(); status != e2e.ExitDone {
				t.Errorf("it ended with %d", status)
			}
		})
	}
}

// afterLeases returns settings for a start after a kill. On SQLite a node takes over an
// operation at once; on PostgreSQL it waits for the killed node's lease, seven seconds with
// the timeout above. A follow-up's claim lasts fourteen seconds on both. The settings move
// the clock instead of waiting.
func afterLeases(point string) []string {
	switch {
	case strings.HasPrefix(point, "V."):
		return []string{"clock.offset=15s"}
	case pgtest.Chosen():
		return []string{"clock.offset=8s"}
	}
	return nil
}

// The service's own failures are answered as such and leave the key usable.
func TestStoreFailure_LeavesKeyUsable(t *testing.T) {
	rows := []struct {
		point string
		code  fault.Code
		then  fault.Code
	}{
		{"N.before=error", fault.ServiceUnavailable, fault.OK},
		{"N.after=error", fault.ServiceUnavailable, fault.OK},
		{"R.before=error", fault.InternalError, fault.OK},
		{"R.before=panic", fault.InternalError, fault.OK},
		{"R.in=error", fault.ServiceUnavailable, fault.OK},
		{"R.in=panic", fault.ServiceUnavailable, fault.OK},
		{"P.after=error", fault.InternalError, fault.OK}, // settling finishes it
		{"S.in=error", fault.InternalError, fault.OK},
		{"S.in=panic", fault.InternalError, fault.OK},
	}
	for _, row := range rows {
		t.Run(row.point, func(t *testing.T) {
			t.Parallel()
			provider, err := demo.StartSimulator("127.0.0.1:0", "")
			if err != nil {
				t.Fatal(err)
			}
			defer provider.Stop()
			p := startFailpointDemo(t, t.TempDir(), provider.URL, row.point)
			w := e2e.NewRemoteEnv(t, p)
			w.Simulator = provider
			o := e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
			got, _ := w.TryOperate(w.DemoCaller(), "activate", "own-failure", o)
			if got.Code != row.code {
				t.Errorf("answered %s; want %s", got.Raw, row.code)
			}
			w.WaitUntil("the same key gives a result", func() bool {
				got, _ = w.TryOperate(w.DemoCaller(), "activate", "own-failure", o)
				return got.Code != fault.RequestInProgress && got.Code != fault.PendingReview
			})
			if got.Code != row.then {
				t.Errorf("then %s; want %s", got.Raw, row.then)
			}
			if effects := len(provider.Effects()); effects != 1 {
				t.Errorf("the provider carried out %d orders", effects)
			}
			p.Terminate()
		})
	}
}
