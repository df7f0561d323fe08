package nodes

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// Maintenance is switched on while three nodes serve orders. Once the call has returned,
// no node reserves anything, and each answers with the reason.
func TestMaintenance_EveryNodeAtOnce(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newCluster(t, 3)
	me := c.NewFundedOperator("me", "1000000")
	var activated atomic.Int64
	enough := make(chan struct{})
	var once sync.Once
	var group sync.WaitGroup
	for worker := range 6 {
		group.Go(func() {
			for i := 0; ; i++ {
				got := c.operateAt(worker, me, "activate", fmt.Sprintf("maintenance-%d-%04d", worker, i), e2e.Activation(fmt.Sprintf("981%d%06d", worker, i)))
				switch {
				case got.Code == fault.ServiceUnavailable && strings.Contains(got.Message, "maintenance"):
					return
				case got.Code != fault.OK:
					t.Errorf("node %d: %s", worker%3, got.Raw)
					return
				case activated.Add(1) >= 60:
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	<-enough
	if _, err := c.Admin.StartMaintenance(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	balance := func() string {
		t.Helper()
		return c.at(0, e2e.Call{As: me, Path: e2e.Balance}).Text("wallet_balance")
	}
	at := balance()
	group.Wait()
	if after := balance(); after != at {
		t.Errorf("the wallet had %s when maintenance was on and has %s now: something was reserved after it", at, after)
	}
	for node := range 3 {
		if got := c.operateAt(node, me, "activate", "maintenance-0-0000", e2e.Activation("9810000000")); got.Code != fault.OK {
			t.Errorf("node %d answers a known key with %s", node, got.Raw)
		}
	}
	if err := c.Admin.EndMaintenance(t.Context(), false, ""); err != nil {
		t.Fatal(err)
	}
	for node := range 3 {
		if got := c.operateAt(node, me, "activate", fmt.Sprintf("maintenance-over-%d", node), e2e.Activation(fmt.Sprintf("98290000%02d", node))); got.Code != fault.OK {
			t.Errorf("node %d after maintenance: %s", node, got.Raw)
		}
	}
}
