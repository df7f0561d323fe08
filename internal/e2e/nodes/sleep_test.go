package nodes

import (
	"cmp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// A node stands still, through its lease, wherever it was: another takes over and
// settles. When it wakes up and goes on where it was, nothing happens twice, and
// while it sleeps it is in nobody's way for long.
func TestStoppedNode_SettlesNothingTwice(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	type row struct {
		point, outcome string
		want           fault.Code
	}
	rows := []row{
		{"R.in", "success", fault.OK},                // nothing of it was committed: the key is free
		{"P.before", "success", fault.ProviderError}, // refunded; what it then sends comes too late
		{"", "timeout_applied", fault.OK},            // the provider has the order
		{"P.after", "success", fault.OK},
		{"P.after", "reject", fault.ProviderError},
		{"S.in", "success", fault.OK},
		{"S.in", "reject", fault.ProviderError},
		{"V.claimed", "timeout_applied", fault.OK},
		{"V.answered", "timeout_applied", fault.OK},
		{"V.answered", "timeout_not_applied", fault.ProviderError},
	}
	e2e.RunConcurrently(t, rows, func(r row) string { return cmp.Or(r.point, "the provider's turn") + " " + r.outcome }, func(t *testing.T, r row) {
		c := clusterOn(t, e2e.NewMigratedDatabase(t), impatient...)
		c.furnish()
		sleeper, other := c.breakableNode(r.point+"=hold"), c.breakableNode("")
		sleeper.await()
		other.await()
		if strings.HasPrefix(r.point, "V.") {
			other.stop() // so that the follow-up is the sleeper's
		}
		me := c.NewFundedOperator("me", "10000")
		const mobile, key = "9811111111", "sleepy-order"
		c.ScriptProvider(mobile, r.outcome)
		type outcome struct {
			e2e.Answer
			came bool
		}
		answered := make(chan outcome, 1)
		go func() {
			got, came := c.tryAt(0, me, "activate", key, e2e.Activation(mobile))
			answered <- outcome{got, came}
		}()
		if r.point == "" {
			c.patiently("the provider has the order", func() bool { return len(c.Simulator.Calls(mobile)) > 0 })
		} else if !sleeper.Err.WaitFor("failpoint "+r.point+" holds", sleeper.Ended) {
			t.Fatalf("the node did not come to %s:\n%s", r.point, sleeper.Err)
		}
		sleeper.stop()
		other.wake()

		// The wallet is the sleeper's for as long as the server lets it.
		began := time.Now()
		// It is served at the first try, be the provider as slow as a busy machine makes it.
		another := c.operateAt(1, me, "activate", "another-order", e2e.Activation("9822222222"))
		if another.Code == fault.PendingReview {
			another = c.awaitSettled([]int{1}, me, "activate", "another-order", e2e.Activation("9822222222"))
		}
		if another.Code != fault.OK {
			t.Errorf("another order of the operator, meanwhile: %s", another.Raw)
		}
		t.Logf("another order of the operator took %s", time.Since(began).Round(time.Millisecond))

		got := c.awaitSettled([]int{1}, me, "activate", key, e2e.Activation(mobile))
		if got.Code != r.want {
			t.Errorf("it ended as %s; want %s", got.Raw, r.want)
		}
		var woken outcome
		c.patiently("the sleeper has answered", func() bool {
			sleeper.tell(syscall.SIGCONT)
			select {
			case woken = <-answered:
				return true
			default:
				return false
			}
		})
		if id := woken.Text("transaction_id"); !woken.came || id != "" && id != got.Text("transaction_id") || woken.Code == fault.OK && got.Code != fault.OK {
			t.Errorf("woken, it answers %v %s; it was settled as %s", woken.came, woken.Raw, got.Raw)
		}
		c.awaitSettled([]int{1, 0}, me, "activate", key, e2e.Activation(mobile))
		want := [2]int64{10_000_00 - 199_00, 0}
		if r.want == fault.OK {
			want[0] -= 199_00
		}
		if money := c.WalletPaise(me); money != want {
			t.Errorf("the wallet is %v; want %v", money, want)
		}
		effects := 1
		if r.want == fault.OK {
			effects = 2
		}
		if carried := len(c.Simulator.Effects()); carried != effects {
			t.Errorf("the provider carried out %d orders; want %d", carried, effects)
		}
		if kept := c.rows(`SELECT id FROM operations`); len(kept) != 2 {
			t.Errorf("%d operations; want 2", len(kept))
		}
		c.clean()
		for _, node := range c.nodes {
			if status := node.Terminate(); status != e2e.ExitDone {
				t.Errorf("a node ended with %d", status)
			}
		}
	})
}
