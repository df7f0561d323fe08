package nodes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// Nodes share the review work without coordination: each claims what is due and not
// claimed.
func TestReview_SharedByNodes(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	const operations = 60
	// All become due at about the same time.
	c := newCluster(t, 3, "provider.timeout=5s", "review.first_check=1s", "review.max_interval=1s", "review.refund_after=1s")
	me := c.NewFundedOperator("me", "100000")
	outcomes := []string{"timeout_applied", "timeout_not_applied", "reset_applied"}
	mobile := func(i int) string { return fmt.Sprintf("98000000%02d", i) }
	key := func(i int) string { return fmt.Sprintf("review-order-%02d", i) }
	for i := range operations {
		c.ScriptProvider(mobile(i), outcomes[i%3])
	}
	if codes, _ := c.Race(operations, func(i int) e2e.Answer {
		return c.operateAt(i, me, "activate", key(i), e2e.Activation(mobile(i)))
	}); codes[fault.PendingReview] != operations {
		t.Fatalf("answered %v; want all in review", codes)
	}
	// Otherwise one node may settle everything before the others start.
	c.ControlSimulator("status", `{"mode":"slow"}`)
	c.WaitUntil("two nodes have settled something", func() bool {
		return len(c.rows(`SELECT DISTINCT node FROM operation_events WHERE from_status = 'needs_review'`)) > 1
	})
	c.ControlSimulator("status", `{"mode":"up"}`)
	for i := range operations {
		got := c.awaitSettled([]int{i, i + 1}, me, "activate", key(i), e2e.Activation(mobile(i)))
		want := fault.OK
		if outcomes[i%3] == "timeout_not_applied" {
			want = fault.ProviderError
		}
		if got.Code != want {
			t.Errorf("%s %s: %s; want %s", mobile(i), outcomes[i%3], got.Raw, want)
		}
		if c.ProviderCalls(mobile(i), "status") == 0 {
			t.Errorf("no status call for %s", mobile(i))
		}
	}
	nodes := c.rows(`SELECT DISTINCT node FROM operation_events WHERE from_status = 'needs_review'`)
	t.Logf("settled by %d nodes: %v", len(nodes), c.rows(`SELECT count(*) FROM operation_events WHERE from_status = 'needs_review' GROUP BY node`))
	if settled := c.rows(`SELECT operation_id FROM operation_events WHERE from_status = 'needs_review'`); len(settled) != operations ||
		len(slices.Compact(settled)) != operations {
		t.Errorf("%d settlements; want one for each of %d", len(settled), operations)
	}
	if got := c.WalletPaise(me); got != [2]int64{100_000_00 - 40*199_00, 0} {
		t.Errorf("the wallet is %v; want 40 charges", got)
	}
	if carried := len(c.Simulator.Effects()); carried != 40 {
		t.Errorf("the provider carried out %d orders; want 40", carried)
	}
	c.checkClean()
}
