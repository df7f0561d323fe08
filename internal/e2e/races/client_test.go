package races

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/e2e"
)

// Every method of the public client works against the real service.
func TestClient_EveryEndpoint(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	c := w.Client(w.DemoCaller(), client.Config{})
	ctx := t.Context()

	activated, err := c.Activate(ctx, "order-activate", client.Activation{
		FullName: "आशा राव <&>", Mobile: "9876543210", PlanID: "BASIC-1", Email: "asha@example.in", Address: "12 Lake Road",
		ConnectionType: "Live TV", SubscriberID: "424242",
	})
	if err != nil {
		t.Fatal(err)
	}
	if activated.Customer.SubscriberID != "424242" || activated.Customer.Name != "आशा राव <&>" || len(activated.Customer.Password) != 12 ||
		activated.Status != client.Success || activated.Wallet != (client.Wallet{Before: 10_000_00, After: 9_801_00, Charged: 199_00}) ||
		!activated.Expiry.New.Equal(w.Now().Truncate(time.Second).AddDate(0, 0, 30)) || !activated.Expiry.Previous.IsZero() || activated.Replayed {
		t.Errorf("activated %+v", activated)
	}
	again, err := c.Activate(ctx, "order-activate", client.Activation{
		FullName: "आशा राव <&>", Mobile: "9876543210", PlanID: "BASIC-1", Email: "asha@example.in", Address: "12 Lake Road",
		ConnectionType: "Live TV", SubscriberID: "424242",
	})
	if err != nil || !again.Replayed || again.TransactionID != activated.TransactionID || again.Customer.Password != "" {
		t.Errorf("the same again is %+v, %v", again, err)
	}
	renewed, err := c.Renew(ctx, "order-renew", client.Renewal{Mobile: "9876543210", PlanID: "COMBO-1"})
	if err != nil || renewed.Amount != 499_00 || renewed.Expiry.Previous != activated.Expiry.New {
		t.Errorf("renewed %+v, %v", renewed, err)
	}
	booked, err := c.AdvanceRenew(ctx, "order-advance", client.Renewal{SubscriberID: "424242", PlanID: "FAMILY-3"})
	if err != nil || booked.Expiry.StartDate == "" || booked.Plan.DurationMonths != 3 {
		t.Errorf("booked %+v, %v", booked, err)
	}
	for name, find := range map[string]func() (*client.Operation, error){
		"by id":  func() (*client.Operation, error) { return c.Transaction(ctx, renewed.TransactionID) },
		"by key": func() (*client.Operation, error) { return c.TransactionByKey(ctx, "order-renew") },
		"await":  func() (*client.Operation, error) { return c.Await(ctx, "order-renew") },
	} {
		found, err := find()
		if err != nil || found.ResultCode != client.OK {
			t.Errorf("%s: %+v, %v", name, found, err)
			continue
		}
		found.ResultCode, found.ResultMessage, found.RequestID = "", "", renewed.RequestID
		if !reflect.DeepEqual(found, renewed) {
			t.Errorf("%s: %+v; want %+v", name, found, renewed)
		}
	}
	balance, err := c.Balance(ctx)
	if err != nil || balance.WalletBalance != booked.Wallet.After || balance.LCOID != w.Demo.LCOID || !balance.AsOf.Equal(w.Now().Truncate(time.Second)) {
		t.Errorf("the balance is %+v, %v", balance, err)
	}
	catalogue, err := c.Plans(ctx)
	if err != nil || len(catalogue.Plans) != 4 || catalogue.Plans[0].Price == 0 {
		t.Errorf("the plans are %+v, %v", catalogue, err)
	}
	for _, of := range []client.Subscriber{{ID: "424242"}, {Mobile: "9876543210"}} {
		if found, err := c.Subscription(ctx, of); err != nil || !found.Active || found.Customer.Email != "asha@example.in" ||
			found.ExpiryDate != booked.Expiry.New || found.Plan.ID != "COMBO-1" {
			t.Errorf("the subscription of %+v is %+v, %v", of, found, err)
		}
	}
	var refusal *client.Error
	if _, err := c.Renew(ctx, "order-again", client.Renewal{SubscriberID: "424242", PlanID: "COMBO-1"}); !errors.As(err, &refusal) ||
		!errors.Is(err, client.DuplicateRequest) || refusal.PreviousTransactionID != renewed.TransactionID {
		t.Errorf("a duplicate is %v", err)
	}
	if _, err := c.Subscription(ctx, client.Subscriber{}); !errors.As(err, &refusal) || refusal.Fields["subscriber_id"] == "" {
		t.Errorf("a subscription without id and mobile is %v", err)
	}
	if _, err := c.Transaction(ctx, "CXNONE"); !errors.Is(err, client.TransactionNotFound) {
		t.Errorf("an unknown transaction is %v", err)
	}
}

// A client whose clock is hours off corrects it by the server_time of the refusal.
func TestClient_WrongClockIsCorrected(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	as := w.DemoCaller()
	c, err := client.New(client.Config{
		BaseURL: w.Demo.BaseURL, Key: as.Key, Secret: client.Secret(as.Secret), HTTP: w.HTTP,
		Now: func() time.Time { return w.Now().Add(-5 * time.Hour) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Balance(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := w.Send(e2e.Call{As: as, Path: "/api/v1/balance"})
	if left := got.Header.Get("X-RateLimit-Remaining"); left != "56" {
		t.Errorf("%s of 60 requests are left; want 56: only the first was refused for its timestamp", left)
	}
}

// action is one operation of an integrator and its result.
type action struct {
	key   client.IdempotencyKey
	run   func(context.Context, *client.Client, client.IdempotencyKey) (*client.Operation, error)
	op    *client.Operation
	err   error
	price client.Amount
}

// do repeats an action with the same key until it is decided, as docs/integrating.md says.
func (e *action) do(ctx context.Context, c *client.Client) {
	for range 20 {
		e.op, e.err = e.run(ctx, c, e.key)
		if !client.Undecided(e.err) || errors.Is(e.err, client.PendingReview) {
			return
		}
	}
}

func renewing(id, plan string) func(context.Context, *client.Client, client.IdempotencyKey) (*client.Operation, error) {
	return func(ctx context.Context, c *client.Client, key client.IdempotencyKey) (*client.Operation, error) {
		return c.Renew(ctx, key, client.Renewal{SubscriberID: id, PlanID: plan})
	}
}

func booking(id, plan string) func(context.Context, *client.Client, client.IdempotencyKey) (*client.Operation, error) {
	return func(ctx context.Context, c *client.Client, key client.IdempotencyKey) (*client.Operation, error) {
		return c.AdvanceRenew(ctx, key, client.Renewal{SubscriberID: id, PlanID: plan})
	}
}

func activating(mobile, plan string) func(context.Context, *client.Client, client.IdempotencyKey) (*client.Operation, error) {
	return func(ctx context.Context, c *client.Client, key client.IdempotencyKey) (*client.Operation, error) {
		return c.Activate(ctx, key, client.Activation{FullName: "Asha Rao", Mobile: mobile, PlanID: plan})
	}
}

// Over a network that drops, delays, duplicates and truncates, with a provider that
// rejects, times out and loses connections, every operation is charged once or not at all,
// and the client knows which.
func TestClient_UnreliableNetworkChargesOnce(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=10s", "review.refund_after=2m", "limits.failed_auth_per_minute=100000")
	me := w.NewFundedOperator("me", "100000")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	proxy := newFaultyProxy(t, w, seed)
	c := w.Client(me, client.Config{
		BaseURL: proxy.server.URL + "/api/v1", HTTP: proxy.client(),
		ReturnPending: true, Retry: client.Retry{Attempts: 8, Pause: 2 * time.Millisecond, MaxPause: 50 * time.Millisecond},
	})
	before := w.WalletPaise(me)

	prices := map[string]client.Amount{"BASIC-1": 199_00, "FAMILY-1": 349_00, "FAMILY-3": 999_00, "COMBO-1": 499_00}
	var mu sync.Mutex
	var actions []*action
	do := func(key, plan string, run func(context.Context, *client.Client, client.IdempotencyKey) (*client.Operation, error)) *action {
		e := &action{key: client.IdempotencyKey(key), run: run, price: prices[plan]}
		e.do(t.Context(), c)
		mu.Lock()
		defer mu.Unlock()
		actions = append(actions, e)
		return e
	}
	var customers sync.WaitGroup
	for i := range 10 {
		customers.Go(func() {
			name := fmt.Sprintf("customer-%d", i)
			first := do(name+"-activate", "BASIC-1", activating(fmt.Sprintf("98765%05d", i), "BASIC-1"))
			if first.err != nil {
				return // checked below
			}
			id := first.op.Customer.SubscriberID
			do(name+"-family", "FAMILY-1", renewing(id, "FAMILY-1"))
			do(name+"-combo", "COMBO-1", renewing(id, "COMBO-1"))
			do(name+"-quarter", "FAMILY-3", booking(id, "FAMILY-3"))
		})
	}
	// The provider's outcomes by number: rejected, late, never, wrong reference, missing
	// add-on, dropped connection.
	for _, scenario := range []int{1, 2, 3, 5, 6, 9} {
		for i := range 2 {
			customers.Go(func() {
				mobile := fmt.Sprintf("90000%d%04d", scenario, i)
				do("odd-"+mobile, "COMBO-1", activating(mobile, "COMBO-1"))
			})
		}
	}
	customers.Wait()

	// Operations in review are awaited, through the same proxy, while time passes.
	var waiting sync.WaitGroup
	for _, e := range actions {
		if errors.Is(e.err, client.PendingReview) {
			waiting.Go(func() {
				for client.Undecided(e.err) && t.Context().Err() == nil {
					e.op, e.err = c.Await(t.Context(), e.key)
				}
			})
		}
	}
	settled := make(chan struct{})
	go func() { defer close(settled); waiting.Wait() }()
	w.WaitUntil("everything in review is settled", func() bool {
		w.Advance(200 * time.Millisecond)
		select {
		case <-settled:
			return true
		default:
			return false
		}
	})
	proxy.repair()
	t.Logf("the proxy: %v", proxy.did)

	var charged client.Amount
	succeeded := 0
	for _, e := range actions {
		found, err := c.TransactionByKey(t.Context(), e.key)
		switch {
		case err != nil:
			t.Errorf("%s: the client says %v; the service says %v", e.key, e.err, err)
		case e.err == nil && found.Status == client.Success && found.Wallet.Charged == e.price:
			succeeded++
			charged += e.price
		case errors.Is(e.err, client.ProviderError) && found.Status == client.Failed && found.Wallet.Refunded && found.Wallet.Charged == 0:
			if !strings.HasPrefix(string(e.key), "odd-900001") && !strings.HasPrefix(string(e.key), "odd-900003") {
				t.Errorf("%s failed, although the provider did not reject it: %v", e.key, e.err)
			}
		default:
			t.Errorf("%s: the client says %v; the service says %s, charged %v", e.key, e.err, found.Status, found.Wallet.Charged)
		}
		if e.op != nil && found != nil && e.op.TransactionID != found.TransactionID {
			t.Errorf("%s is %s to the client and %s to the service", e.key, e.op.TransactionID, found.TransactionID)
		}
	}
	after := w.WalletPaise(me)
	if got := client.Amount(before[0] - after[0]); got != charged || after[1] != 0 {
		t.Errorf("%v left the wallet and %v is held; want %v for %d successes, and nothing", got, client.Amount(after[1]), charged, succeeded)
	}
	if stored := e2e.QueryRows(t, e2e.OpenReadOnly(t, w.Node.Config.Store), `SELECT idempotency_key FROM operations`); len(stored) != len(actions) {
		t.Errorf("%d operations for %d actions: %v", len(stored), len(actions), stored)
	}
	w.CheckAudit()
	if len(actions) < 22 || succeeded < 18 || len(proxy.did) < len(proxyFaults)-3 {
		t.Errorf("%d actions, %d successes, %d kinds of faults: too few to prove anything", len(actions), succeeded, len(proxy.did))
	}
}
