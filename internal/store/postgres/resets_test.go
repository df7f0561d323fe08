package postgres_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/subscription"
)

// The bound on app password resets is one for all nodes.
func TestPasswordResets_BoundHoldsOnTwoNodes(t *testing.T) {
	address := pgtest.NewDatabase(t)
	var nodes [2]*postgres.DB
	for i := range nodes {
		node, err := postgres.Open(t.Context(), address+"&pool_max_conns=4", postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = node.Close() })
		nodes[i] = node
	}
	noon := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	act := func(action string) admin.StaffAction {
		return admin.StaffAction{Actor: "web:asha", Action: action, At: noon}
	}
	err := nodes[0].RecordComparison(t.Context(), catalogue.Comparison{Provider: "test", At: noon, Components: []catalogue.Component{{Code: "TV", Name: "TV", Role: catalogue.Main}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].SetPlan(t.Context(), act("plan set"), subscription.Plan{ID: "A", Name: "A", Price: subscription.MinPrice, Months: 1, Type: subscription.Standard, Main: "TV", UpdatedAt: noon}); err != nil {
		t.Fatal(err)
	}
	operator, err := nodes[0].CreateOperator(t.Context(), act("lco create"), subscription.Operator{
		Name: "Asha", Status: subscription.OperatorActive, API: subscription.APIEnabled, RateLimit: 60, LowBalance: subscription.DefaultLowBalance, CreatedAt: noon,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].ImportSubscribers(t.Context(), act("subscriber import"), []admin.ImportRow{{
		Line: 1, OperatorID: operator.ID, SubscriberID: "100001", Mobile: "9800000001", Name: "Anita", PlanID: "A", Expires: noon.Add(time.Hour),
	}}); err != nil {
		t.Fatal(err)
	}
	var done atomic.Int32
	var group sync.WaitGroup
	for i := range 3 * admin.ResetsAMinute {
		group.Go(func() {
			_, err := nodes[i%2].BeginPasswordReset(t.Context(), act("password reset"), admin.PasswordReset{OperatorID: operator.ID, SubscriberID: "100001", Reference: "PW", ByOperator: true})
			if tooMany := (*admin.TooManyResets)(nil); err == nil {
				done.Add(1)
			} else if !errors.As(err, &tooMany) {
				t.Errorf("reset: %v", err)
			}
		})
	}
	group.Wait()
	if done.Load() != admin.ResetsAMinute {
		t.Errorf("%d resets were done on two nodes; want %d", done.Load(), admin.ResetsAMinute)
	}
}
