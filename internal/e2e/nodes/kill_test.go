package nodes

import (
	"strings"
	"syscall"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// fastReview are settings that make nodes check unknown outcomes soon.
var fastReview = []string{
	"provider.timeout=2s", "review.first_check=100ms", "review.max_interval=300ms", "review.refund_after=500ms",
}

// failpointNode launches a node built with failpoints.
func (c *cluster) failpointNode(failpoint string) *clusterNode {
	c.TB.Helper()
	return c.launch(e2e.FailpointBinary(c.TB), []string{"COAX_FAILPOINT=" + failpoint})
}

// A node is killed at each failpoint and never comes back. Another node settles its
// operation, the wallet is exact, and every node has the same result for the key.
func TestKilledNode_AnotherFinishesItsWork(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	type row struct {
		point, outcome string
		want           map[fault.Code]bool
	}
	either := map[fault.Code]bool{fault.OK: true, fault.ProviderError: true}
	rows := []row{
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
		{"S.in", "reject", e2e.CodeSet(fault.ProviderError)},
		{"S.after", "success", e2e.CodeSet(fault.OK)},
		{"S.after", "reject", e2e.CodeSet(fault.ProviderError)},
		{"V.claimed", "timeout_applied", e2e.CodeSet(fault.OK)},
		{"V.answered", "timeout_applied", e2e.CodeSet(fault.OK)},
		{"V.settled", "timeout_applied", e2e.CodeSet(fault.OK)},
		{"V.answered", "timeout_not_applied", e2e.CodeSet(fault.ProviderError)},
		{"V.settled", "timeout_not_applied", e2e.CodeSet(fault.ProviderError)},
	}
	e2e.RunConcurrently(t, rows, func(r row) string { return r.point + " " + r.outcome }, func(t *testing.T, r row) {
		c := clusterOn(t, e2e.NewMigratedDatabase(t), fastReview...)
		c.setUp()
		victim, survivor := c.failpointNode(r.point+"=kill"), c.failpointNode("")
		victim.await()
		survivor.await()
		if strings.HasPrefix(r.point, "V.") {
			// Any node may do the follow-up; pause the other so that the victim does.
			survivor.pause()
		}
		me := c.NewFundedOperator("me", "10000")
		const mobile, key = "9811111111", "crash-point"
		c.ScriptProvider(mobile, r.outcome)
		// The client's connection ends with the node, or the operation is answered and
		// the node is killed during the follow-up.
		if got, answered := c.tryAt(0, me, "activate", key, e2e.Activation(mobile)); answered && got.Code != fault.PendingReview {
			t.Fatalf("answered %s; want the node to die", got.Raw)
		}
		<-victim.Ended
		survivor.resume()

		got := c.awaitSettled([]int{1}, me, "activate", key, e2e.Activation(mobile))
		if !r.want[got.Code] {
			t.Errorf("it ended as %s; want %v", got.Raw, r.want)
		}
		want := map[fault.Code][2]int64{fault.OK: {10_000_00 - 199_00, 0}, fault.ProviderError: {10_000_00, 0}}[got.Code]
		if money := c.WalletPaise(me); money != want {
			t.Errorf("the wallet is %v; want %v", money, want)
		}
		if carried := len(c.Simulator.Effects()); (carried == 1) != (got.Code == fault.OK) {
			t.Errorf("the provider carried out %d orders, the operation is %s", carried, got.Code)
		}
		c.failpointNode("").await()
		c.awaitSettled([]int{2, 1}, me, "activate", key, e2e.Activation(mobile))
		if stored := c.rows(`SELECT id FROM operations`); len(stored) != 1 {
			t.Errorf("%d operations; want 1", len(stored))
		}
		c.checkClean()
		for _, node := range c.nodes[1:] {
			if status := node.Terminate(); status != e2e.ExitDone {
				t.Errorf("a survivor ended with %d", status)
			}
		}
	})
}

// pause stops a node with SIGSTOP, as a swapping or migrating machine would; resume lets
// it continue.
func (n *clusterNode) pause() { n.signal(syscall.SIGSTOP) }

func (n *clusterNode) resume() { n.signal(syscall.SIGCONT) }

func (n *clusterNode) signal(s syscall.Signal) {
	n.TB.Helper()
	if err := n.Cmd.Process.Signal(s); err != nil {
		n.TB.Fatal(err)
	}
}
