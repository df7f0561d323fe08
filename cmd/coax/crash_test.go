package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// breakableDir is where other builds of the program are; empty if nobody asked.
var breakableDir string

// breakable is the program with its failpoints compiled in, built once.
var breakable = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "coax-breakable-")
	if err != nil {
		return "", err
	}
	breakableDir = folder
	path := filepath.Join(folder, "coax")
	build := exec.Command("go", "build", "-tags", "failpoints", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build with failpoints: %w\n%s", err, out)
	}
	return path, nil
})

// startBreakable runs a demo that breaks at a failpoint, on a provider that is
// outside of it and survives.
func startBreakable(t *testing.T, folder, provider, failpoint string, sets ...string) *cliProcess {
	t.Helper()
	program, err := breakable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json"}
	for _, set := range append([]string{
		"provider.url=" + provider, "provider.timeout=2s", "review.first_check=100ms", "review.max_interval=300ms", "review.refund_after=500ms",
		"catalogue.refresh=200ms",
	}, sets...) {
		args = append(args, "--set", set)
	}
	p := cliLaunchProgram(t, program, []string{"COAX_FAILPOINT=" + failpoint}, args...)
	t.Cleanup(func() { p.Kill() })
	p.awaitReady()
	p.house(t).json("lco", "set", "--lco", "1", "--rate-limit", "100000") // it is asked often
	return p
}

// Whatever the moment the process dies at, after the restart the operation ends
// settled, the wallet is right to the paisa, the same key gives the result, and
// the books are clean; the provider has done each thing once at most.
func TestKilledAtEveryCrashPointNothingIsLost(t *testing.T) {
	either := map[fault.Code]bool{fault.OK: true, fault.ProviderError: true}
	rows := []struct {
		point, outcome string
		want           map[fault.Code]bool
	}{
		{"N.before", "success", only(fault.OK)},
		{"N.after", "success", only(fault.OK)},
		{"R.before", "success", only(fault.OK)},
		{"R.in", "success", only(fault.OK)},
		{"P.before", "success", only(fault.ProviderError)}, // reserved, never sent: refunded
		{"P.sent", "timeout_applied", either},              // sent, and perhaps received: the provider knows
		{"P.sent", "timeout_not_applied", only(fault.ProviderError)},
		{"P.after", "success", only(fault.OK)},
		{"P.after", "reject", only(fault.ProviderError)},
		{"S.in", "success", only(fault.OK)},
		{"S.after", "success", only(fault.OK)},
		{"S.after", "reject", only(fault.ProviderError)},
		{"V.claimed", "timeout_applied", only(fault.OK)},
		{"V.answered", "timeout_applied", only(fault.OK)},
		{"V.settled", "timeout_applied", only(fault.OK)},
		{"V.answered", "timeout_not_applied", only(fault.ProviderError)},
		{"V.settled", "timeout_not_applied", only(fault.ProviderError)},
	}
	for _, row := range rows {
		t.Run(row.point+" "+row.outcome, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			provider, err := startSimulator("127.0.0.1:0", "")
			if err != nil {
				t.Fatal(err)
			}
			defer provider.stop()
			p := startBreakable(t, folder, provider.url, row.point+"=kill")
			w := remote(t, p)
			w.simulator = provider
			w.script("9811111111", row.outcome)
			o := order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
			key := "crash-point"
			ask := func() (answer, bool) { return w.tryOperate(w.demoCaller(), "activate", key, o) }
			// The client's connection dies with the process, or the operation
			// is answered and the process dies following it up.
			if got, answered := ask(); answered && got.code != fault.PendingReview {
				t.Fatalf("answered %s; want the process to die", got.raw)
			}
			<-p.ended

			p = startBreakable(t, folder, provider.url, "", afterTheLeases()...)
			w = remote(t, p)
			w.simulator = provider
			var got answer
			w.until("the operation is settled", func() bool {
				got, _ = ask()
				return got.code != fault.RequestInProgress && got.code != fault.PendingReview && got.code != ""
			})
			if !row.want[got.code] {
				t.Errorf("it ended as %s; want %v", got.raw, row.want)
			}
			money := w.sendNow(call{as: w.demoCaller(), path: balance})
			want := map[fault.Code]string{fault.OK: "9801", fault.ProviderError: "10000"}[got.code]
			if money.text("wallet_balance") != want {
				t.Errorf("the wallet holds %s; want %s", money.text("wallet_balance"), want)
			}
			for reference, effects := range provider.Effects() {
				if effects > 1 {
					t.Errorf("the provider applied %s %d times", reference, effects)
				}
			}
			if carried := len(provider.Effects()); (carried == 1) != (got.code == fault.OK) {
				t.Errorf("the provider carried out %d orders, the operation is %s", carried, got.code)
			}
			var out, errs bytes.Buffer
			if status := run(t.Context(), []string{"audit", "--config", p.line.Config}, &out, &errs, nil); status != exitDone {
				t.Errorf("audit: %s%s", out.String(), errs.String())
			}
			if status := p.Terminate(); status != exitDone {
				t.Errorf("it ended with %d", status)
			}
		})
	}
}

// afterTheLeases are settings for a start after a kill. Alone with its file, a
// node takes over at once; of a database it cannot know that it is alone, and
// waits for the lease of the dead one to end. That is six seconds with the
// timeout above, for which nobody has to wait: its clock is that much later.
func afterTheLeases() []string {
	if !pgtest.Chosen() {
		return nil
	}
	return []string{"clock.offset=7s"}
}

func only(code fault.Code) map[fault.Code]bool { return map[fault.Code]bool{code: true} }

// Failures of our own are answered as such, and leave the key usable.
func TestFailuresOfOurOwnLeaveTheKeyUsable(t *testing.T) {
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
			provider, err := startSimulator("127.0.0.1:0", "")
			if err != nil {
				t.Fatal(err)
			}
			defer provider.stop()
			p := startBreakable(t, t.TempDir(), provider.url, row.point)
			w := remote(t, p)
			w.simulator = provider
			o := order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "BASIC-1"}
			got, _ := w.tryOperate(w.demoCaller(), "activate", "own-failure", o)
			if got.code != row.code {
				t.Errorf("answered %s; want %s", got.raw, row.code)
			}
			w.until("the same key gives a result", func() bool {
				got, _ = w.tryOperate(w.demoCaller(), "activate", "own-failure", o)
				return got.code != fault.RequestInProgress && got.code != fault.PendingReview
			})
			if got.code != row.then {
				t.Errorf("then %s; want %s", got.raw, row.then)
			}
			if effects := len(provider.Effects()); effects != 1 {
				t.Errorf("the provider carried out %d orders", effects)
			}
			p.Terminate()
		})
	}
}
