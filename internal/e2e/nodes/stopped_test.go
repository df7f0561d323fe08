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

// A node is stopped (SIGSTOP) at some point of an operation until its lease has expired:
// another node takes over and settles. When the first one continues, nothing happens
// twice, and while it is stopped it blocks others only briefly.
func TestStoppedNode_SettlesNothingTwice(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	type row struct {
		point, outcome string
		want           fault.Code
	}
	rows := []row{
		{"R.in", "success", fault.OK},                // nothing is committed: the key is free
		{"P.before", "success", fault.ProviderError}, // refunded; the order it then sends is void
		{"", "timeout_applied", fault.OK},            // the provider has the order
		{"P.after", "success", fault.OK},
		{"P.after", "reject", fault.ProviderError},
		{"S.in", "success", fault.OK},
		{"S.in", "reject", fault.ProviderError},
		{"V.claimed", "timeout_applied", fault.OK},
		{"V.answered", "timeout_applied", fault.OK},
		{"V.answered", "timeout_not_applied", fault.ProviderError},
	}
	e2e.RunConcurrently(t, rows, func(r row) string { return cmp.Or(r.point, "provider call") + " " + r.outcome }, func(t *testing.T, r row) {
		c := clusterOn(t, e2e.NewMigratedDatabase(t), fastReview...)
		c.setUp()
		stopped, other := c.failpointNode(r.point+"=hold"), c.failpointNode("")
		stopped.await()
		other.await()
		if strings.HasPrefix(r.point, "V.") {
			other.pause() // so that the stopped node does the follow-up
		}
		me := c.NewFundedOperator("me", "10000")
		const mobile, key = "9811111111", "stopped-order"
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
			c.waitSlowly("the provider has the order", func() bool { return len(c.Simulator.Calls(mobile)) > 0 })
		} else if !stopped.Err.WaitFor("failpoint "+r.point+" holds", stopped.Ended) {
			t.Fatalf("the node did not come to %s:\n%s", r.point, stopped.Err)
		}
		stopped.pause()
		other.resume()

		// The stopped node may hold the wallet's lock until the database ends its session.
		began := time.Now()
		// It is served at the first try; on a busy machine the provider call may time out.
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
		var resumed outcome
		c.waitSlowly("the stopped node has answered", func() bool {
			stopped.signal(syscall.SIGCONT)
			select {
			case resumed = <-answered:
				return true
			default:
				return false
			}
		})
		if id := resumed.Text("transaction_id"); !resumed.came || id != "" && id != got.Text("transaction_id") || resumed.Code == fault.OK && got.Code != fault.OK {
			t.Errorf("after SIGCONT it answers %v %s; it was settled as %s", resumed.came, resumed.Raw, got.Raw)
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
		if stored := c.rows(`SELECT id FROM operations`); len(stored) != 2 {
			t.Errorf("%d operations; want 2", len(stored))
		}
		c.checkClean()
		for _, node := range c.nodes {
			if status := node.Terminate(); status != e2e.ExitDone {
				t.Errorf("a node ended with %d", status)
			}
		}
	})
}
