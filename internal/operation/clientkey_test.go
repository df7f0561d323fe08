package operation_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Providers keep client keys for years, so their values are written down here. They were computed with
// Python's hmac.
func TestClientKeys_NeverChange(t *testing.T) {
	first, second := make([]byte, 32), []byte("another key of the ring")
	for i := range first {
		first[i] = byte(i)
	}
	const want = "deb6947af76822393450b22a9a6e671195e908c66b8970f598d0b5d028142bfa"
	for _, keys := range []operation.ClientKeys{{first}, {first, second}} {
		if got := keys.Of(7, "INV-2027-03-0001"); got != want {
			t.Errorf("Of with %d keys = %s; want %s", len(keys), got, want)
		}
	}
	// The lookup finds it whatever the order of the ring.
	if all := (operation.ClientKeys{second, first}).All(7, "INV-2027-03-0001"); len(all) != 2 || all[1] != want || all[0] == want {
		t.Errorf("All = %s; want two, the second %s", all, want)
	}
	if got := operation.ClientKeys(nil).Of(7, "INV-2027-03-0001"); got != "" {
		t.Errorf("Of without keys = %q; want none", got)
	}
}

func TestClientKeys_DifferByOperatorAndKey(t *testing.T) {
	keys := operation.ClientKeys{[]byte("key")}
	seen := map[string]bool{}
	for _, operator := range []int64{1, 2, 12, 1 << 40, '1'} {
		for _, key := range []string{"", "1", "2", "12", "a", "\x00a", "A"} {
			seen[keys.Of(operator, key)] = true
		}
	}
	if len(seen) != 5*7 {
		t.Errorf("35 pairs have %d client keys", len(seen))
	}
}

// recordingProvider confirms main components, rejects the first add-on, and records the orders.
type recordingProvider struct {
	fakeProvider
	orders []operation.Order
}

func (p *recordingProvider) Apply(ctx context.Context, order operation.Order) operation.Reply {
	p.orders = append(p.orders, order)
	p.reject = len(p.orders) == 2
	return p.fakeProvider.Apply(ctx, order)
}

// Main component, add-on and the add-on's second order, by the Reviewer of another node, carry the
// client key of the operation.
func TestProcess_EveryOrderCarriesTheClientKey(t *testing.T) {
	s := newFixture(t)
	now := noon
	clock := func() time.Time { return now }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.store.RecordComparison(t.Context(), catalogue.Comparison{Provider: "test", At: noon, Components: []catalogue.Component{
		{Code: "TV", Name: "TV", Role: catalogue.Main}, {Code: "OTT", Name: "OTT", Role: catalogue.Addon},
	}}))
	_, err := admin.NewService(s.store.DB, nil, "test", clock).SetPlan(t.Context(), subscription.Plan{
		ID: "C-1", Name: "Combo", Price: money.Paise(29900), Months: 1, Type: subscription.Combo, Main: "TV", Addon: "OTT",
	})
	must(err)
	provider := &recordingProvider{}
	prices := catalogue.New(s.store.DB, nil, catalogue.Config{Now: clock, Provider: "test", MaxAge: time.Hour})
	oldest, newest := []byte("the oldest key"), []byte("the newest key")
	processor := operation.NewProcessor(s.store, prices, provider, operation.NewBreaker(nil), operation.Config{
		Now: clock, Node: "node", ProviderName: "test", Timeout: time.Second, FirstCheck: time.Second, ActivationTerm: subscription.ThirtyDays,
		Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1},
		ClientKeys:   operation.ClientKeys{oldest},
	})
	result, err := processor.Process(t.Context(), s.request(operation.Activate, "combo-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "C-1"}))
	if err != nil || result.State != operation.Success || result.AddonState != operation.AddonFailed {
		t.Fatalf("%s, add-on %s, %v; want a success without its add-on", result.State, result.AddonState, err)
	}
	now = now.Add(time.Minute)
	reviewer := operation.NewReviewer(s.store, provider, operation.ReviewConfig{
		Now: clock, Node: "other", Timeout: time.Second, FirstCheck: time.Second, MaxInterval: time.Minute, RefundAfter: time.Minute,
		// The master key was rotated in between.
		ClientKeys: operation.ClientKeys{oldest, newest},
	})
	if _, err := reviewer.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := operation.ClientKeys{oldest}.Of(s.operator, "combo-key")
	var references []string
	for _, order := range provider.orders {
		references = append(references, order.Reference)
		if order.ClientKey != want {
			t.Errorf("%s has the client key %q; want %q", order.Reference, order.ClientKey, want)
		}
	}
	if expected := []string{result.ID, result.ID + "-2", result.ID + "-2.1"}; !slices.Equal(references, expected) {
		t.Errorf("orders %s; want %s", references, expected)
	}
}
