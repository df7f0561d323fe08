package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/server"
)

// Every order that a node sends is in the provider's list with the client key of its operation: main
// component, add-on, and the add-on's later order by the reviewer.
func TestClientKey_IsInTheProvidersList(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "review.first_check=1s")
	me, other := w.NewFundedOperator("me", "100000"), w.NewFundedOperator("other", "100000")
	keys := operation.ClientKeys(w.Node.Vault.DeriveInOrder(operation.ClientKeyPurpose))
	began := time.Now() // the simulator's clock is the system's

	want := map[string]string{} // client keys by reference
	ordered := func(as e2e.Caller, endpoint, key string, o e2e.Order) string {
		t.Helper()
		got := w.Operate(as, endpoint, key, o)
		if got.Code != fault.OK {
			t.Fatalf("%s: %s", endpoint, got.Raw)
		}
		want[got.Text("transaction_id")] = keys.Of(as.OperatorID, key)
		return got.Text("transaction_id")
	}
	ordered(me, "activate", "same-key-1", e2e.Order{"full_name": "Asha", "mobile": "9800000001", "plan_id": "BASIC-1"})
	ordered(other, "activate", "same-key-1", e2e.Order{"full_name": "Ravi", "mobile": "9800000002", "plan_id": "BASIC-1"})
	ordered(me, "advance-renew", "advance-1", e2e.Order{"mobile": "9800000001", "plan_id": "FAMILY-1"})
	w.ScriptProvider("9800000002", "success", "reject")
	combo := ordered(other, "renew", "combo-key-1", e2e.Order{"mobile": "9800000002", "plan_id": "COMBO-1"})
	w.Advance(time.Minute)
	w.WaitUntil("the add-on is ordered again", func() bool {
		return slices.ContainsFunc(w.Simulator.Calls("9800000002"), func(call simulator.Call) bool {
			return call.Applied && strings.HasPrefix(call.Reference, combo+"-2")
		})
	})

	provider, err := server.OpenProvider(w.Node.Config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	page, err := provider.ListOrders(t.Context(), began, "")
	if err != nil || page.Next != "" {
		t.Fatalf("ListOrders = %+v, %v; want one page", page, err)
	}
	seen := map[string]bool{}
	for _, order := range page.Orders {
		id, _, _ := strings.Cut(order.Reference, "-")
		if order.ClientKey == "" || order.ClientKey != want[id] {
			t.Errorf("%s is listed with the client key %q; want %q", order.Reference, order.ClientKey, want[id])
		}
		seen[order.ClientKey] = true
	}
	if len(page.Orders) != 5 || len(seen) != 4 {
		t.Errorf("%d orders with %d client keys; want 5 with 4: %+v", len(page.Orders), len(seen), page.Orders)
	}
	w.CheckAudit()
}
