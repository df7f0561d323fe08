package nodes

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// Keys, customers, wallets, mobiles, nonces and rate limits hold across nodes.
func TestNodes_BehaveAsOneService(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newCluster(t, 3)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"one key is one charge", nodesOneKey},
		{"one customer is served once", nodesOneCustomer},
		{"a wallet for seven serves seven of thirty", nodesOneWallet},
		{"one mobile is activated by one operator", nodesOneMobile},
		{"a nonce is accepted once", nodesOneNonce},
		{"the rate limit is shared", nodesOneLimit},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := c.withTB(t)
			test.run(t, c)
			c.checkClean()
		})
	}
	for i, node := range c.nodes {
		if status := node.Terminate(); status != e2e.ExitDone {
			t.Errorf("node %d ended with %d", i, status)
		}
	}
}

func nodesOneKey(t *testing.T, c *cluster) {
	me := c.NewFundedOperator("one key", "10000")
	c.ScriptProvider("9811111111", "slow") // so that some requests arrive while it runs
	o := e2e.Activation("9811111111")
	codes, answers := c.Race(30, func(i int) e2e.Answer { return c.operateAt(i, me, "activate", "one-key-for-all", o) })
	if codes[fault.OK]+codes[fault.RequestInProgress] != 30 || codes[fault.OK] == 0 || codes[fault.RequestInProgress] == 0 {
		t.Errorf("answered %v; want the result or REQUEST_IN_PROGRESS", codes)
	}
	first, id := 0, ""
	for i := range c.nodes {
		answers = append(answers, c.operateAt(i, me, "activate", "one-key-for-all", o))
	}
	for _, a := range answers {
		if a.Code != fault.OK {
			continue
		}
		if a.Header.Get("Idempotent-Replayed") == "" {
			first++
		}
		if id == "" {
			id = a.Text("transaction_id")
		}
		if a.Text("transaction_id") != id {
			t.Errorf("two transactions: %s and %s", id, a.Text("transaction_id"))
		}
	}
	if first != 1 {
		t.Errorf("%d first answers; want 1", first)
	}
	if got := c.WalletPaise(me); got != [2]int64{10_000_00 - 199_00, 0} {
		t.Errorf("the wallet is %v; want one charge", got)
	}
	if calls := c.Simulator.Calls("9811111111"); len(calls) != 1 {
		t.Errorf("the provider was called %d times", len(calls))
	}
	// Another body under the key is refused by every node.
	for i := range c.nodes {
		if got := c.operateAt(i, me, "activate", "one-key-for-all", e2e.Activation("9811111119")); got.Code != fault.IdempotencyKeyReused {
			t.Errorf("node %d: another body: %s", i, got.Raw)
		}
	}
}

func nodesOneCustomer(t *testing.T, c *cluster) {
	me := c.NewFundedOperator("one customer", "100000")
	const mobile = "9822222222"
	activated := c.operateAt(0, me, "activate", "customer-activate", e2e.Activation(mobile))
	if activated.Code != fault.OK {
		t.Fatalf("activate: %s", activated.Raw)
	}
	o := e2e.Order{"subscriber_id": activated.Text("customer.subscriber_id"), "plan_id": "FAMILY-1"}
	c.ScriptProvider(mobile, "slow")
	codes, _ := c.Race(30, func(i int) e2e.Answer { return c.operateAt(i, me, "renew", fmt.Sprintf("customer-key-%02d", i), o) })
	if codes[fault.OK] != 1 || codes[fault.OperationInProgress]+codes[fault.DuplicateRequest] != 29 || codes[fault.OperationInProgress] == 0 {
		t.Errorf("answered %v; want one renewal and the rest refused", codes)
	}
	for i := range c.nodes {
		if got := c.operateAt(i, me, "renew", fmt.Sprintf("customer-again-%d", i), o); got.Code != fault.DuplicateRequest {
			t.Errorf("node %d afterwards: %s", i, got.Raw)
		}
	}
	if got := c.WalletPaise(me); got != [2]int64{100_000_00 - 199_00 - 349_00, 0} {
		t.Errorf("the wallet is %v; want an activation and one renewal", got)
	}
}

func nodesOneWallet(t *testing.T, c *cluster) {
	me := c.NewFundedOperator("one wallet", "1393") // 7 × 199
	codes, _ := c.Race(30, func(i int) e2e.Answer {
		return c.operateAt(i, me, "activate", fmt.Sprintf("wallet-key-%02d", i), e2e.Activation(fmt.Sprintf("98330000%02d", i)))
	})
	if codes[fault.OK] != 7 || codes[fault.InsufficientBalance] != 23 {
		t.Errorf("answered %v; want 7 successes and 23 INSUFFICIENT_BALANCE", codes)
	}
	if got := c.WalletPaise(me); got != [2]int64{0, 0} {
		t.Errorf("the wallet is %v; want it empty", got)
	}
}

func nodesOneMobile(t *testing.T, c *cluster) {
	callers := []e2e.Caller{c.NewFundedOperator("one", "10000"), c.NewFundedOperator("two", "10000")}
	for round := range 10 {
		o := e2e.Activation(fmt.Sprintf("98440000%02d", round))
		codes, _ := c.Race(2, func(i int) e2e.Answer {
			return c.operateAt(round+i, callers[i], "activate", fmt.Sprintf("mobile-key-%02d", round), o)
		})
		if codes[fault.OK] != 1 || codes[fault.OperationInProgress]+codes[fault.SubscriberExists] != 1 {
			t.Errorf("round %d: answered %v; want one winner", round, codes)
		}
	}
	first, second := c.WalletPaise(callers[0]), c.WalletPaise(callers[1])
	if first[0]+second[0] != 20_000_00-10*199_00 || first[1]+second[1] != 0 {
		t.Errorf("the wallets are %v and %v; want ten charges in all", first, second)
	}
}

func nodesOneNonce(t *testing.T, c *cluster) {
	me := c.NewFundedOperator("one nonce", "0")
	for i := range c.nodes {
		request := e2e.Call{As: me, Path: e2e.Balance, Nonce: client.NewNonce()}
		if got := c.at(i, request); got.Code != fault.OK {
			t.Fatalf("node %d: %s", i, got.Raw)
		}
		for j := range c.nodes {
			if got := c.at(j, request); got.Code != fault.ReplayDetected {
				t.Errorf("used on node %d, then on node %d: %s; want REPLAY_DETECTED", i, j, got.Code)
			}
		}
	}
	for round := range 20 {
		request := e2e.Call{As: me, Path: e2e.Balance, Nonce: client.NewNonce(), Timestamp: fmt.Sprint(time.Now().Unix())}
		codes, _ := c.Race(3, func(i int) e2e.Answer { return c.at(i, request) })
		if codes[fault.OK] != 1 || codes[fault.ReplayDetected] != 2 {
			t.Errorf("round %d: sent to all three at once: %v; want it accepted once", round, codes)
		}
	}
}

// The limit is checked per minute, using the minute that the answers name: the test may
// run across the end of one.
func nodesOneLimit(t *testing.T, c *cluster) {
	const limit = 20
	for range 3 {
		me := c.NewOperator("one limit", access.AllPermissions)
		rateLimit := limit
		if _, err := c.Admin.ChangeOperator(t.Context(), me.OperatorID, admin.OperatorChange{RateLimit: &rateLimit}); err != nil {
			t.Fatal(err)
		}
		_, answers := c.Race(3*limit, func(i int) e2e.Answer { return c.at(i, e2e.Call{As: me, Path: e2e.Balance}) })
		requests, served, remaining := map[string]int{}, map[string]int{}, map[string]bool{}
		for _, a := range answers {
			minute := a.Header.Get("X-RateLimit-Reset")
			requests[minute]++
			switch a.Code {
			case fault.OK:
				served[minute]++
				left := minute + " " + a.Header.Get("X-RateLimit-Remaining")
				if remaining[left] {
					t.Errorf("two requests of one minute have the same X-RateLimit-Remaining: %s", left)
				}
				remaining[left] = true
			case fault.RateLimited:
			default:
				t.Errorf("answered %s", a.Raw)
			}
		}
		for minute, n := range requests {
			if served[minute] != min(n, limit) {
				t.Errorf("%d of %d were served within a minute; want %d", served[minute], n, min(n, limit))
			}
			reset, err := strconv.ParseInt(minute, 10, 64)
			if err != nil {
				t.Fatalf("X-RateLimit-Reset is %q", minute)
			}
			stored := c.rows(fmt.Sprintf(`SELECT used FROM rate_counters WHERE operator_id = %d AND minute = %d`, me.OperatorID, reset/60-1))
			if len(stored) != 1 || stored[0] != fmt.Sprint(served[minute]) {
				t.Errorf("the store counted %v; want %d", stored, served[minute])
			}
		}
	}
}
