package storetest

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	benchOperators   = 64
	benchSubscribers = 100 // of each operator
	benchPlans       = 16
)

// Benchmark measures a renewal's store calls, by a number of concurrent callers:
// admission, snapshot, reservation and settlement.
func Benchmark(b *testing.B, newOpener func(testing.TB) Opener) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { measureNew(b, newOpener, callers, (*ground).renew, nil) })
	}
}

// BenchmarkReads measures a balance request's store calls: admission, and a read of the
// wallet beside other admissions. Subtract an admission alone for the read. server returns the
// processor time of the database's own processes; nil if it has none.
func BenchmarkReads(b *testing.B, newOpener func(testing.TB) Opener, server func() time.Duration) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("admission/callers=%d", callers), func(b *testing.B) { measureNew(b, newOpener, callers, (*ground).admit, server) })
		b.Run(fmt.Sprintf("balance/callers=%d", callers), func(b *testing.B) { measureNew(b, newOpener, callers, (*ground).balanceRequest, server) })
	}
}

// BenchmarkLookups measures what the requests that read look up in the store, without
// their admission. server is that of BenchmarkReads.
func BenchmarkLookups(b *testing.B, newOpener func(testing.TB) Opener, server func() time.Duration) {
	g := newGround(b, newOpener(b).Open(b))
	const renewals = 2 * benchOperators * benchSubscribers // two of each subscriber
	b.Logf("making %d renewals", renewals)
	if err := byCallers(benchOperators, renewals, g.renew); err != nil {
		b.Fatal(err)
	}
	for _, lookup := range []struct {
		name string
		do   func(n int) error
	}{
		{"balance", g.balance}, {"subscription", g.subscription}, {"transaction", g.transaction}, {"plans", g.plans},
	} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", lookup.name, callers), func(b *testing.B) {
				if err := byCallers(callers, 10*callers, lookup.do); err != nil { // statements are prepared
					b.Fatal(err)
				}
				measure(b, callers, lookup.do, server)
			})
		}
	}
}

// measureNew measures what callers do to a new store.
func measureNew(b *testing.B, newOpener func(testing.TB) Opener, callers int, do func(g *ground, n int) error, server func() time.Duration) {
	g := newGround(b, newOpener(b).Open(b))
	defer g.Store.Close()
	measure(b, callers, func(n int) error { return do(g, n) }, server)
}

// measure has a number of callers do something b.N times, and reports the processor
// time of one, here and in the database server, if there is one: on a shared machine that
// says more than elapsed time.
func measure(b *testing.B, callers int, do func(n int) error, server func() time.Duration) {
	if server == nil {
		server = func() time.Duration { return 0 }
	}
	b.ReportAllocs()
	b.ResetTimer()
	here, there := processorTime(b), server()
	err := byCallers(callers, b.N, do)
	here, there = processorTime(b)-here, server()-there
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(here.Microseconds())/float64(b.N), "cpu-µs/op")
	if there > 0 {
		b.ReportMetric(float64(there.Microseconds())/float64(b.N), "server-µs/op")
	}
}

// byCallers has a number of callers do something a number of times in all.
func byCallers(callers, times int, do func(n int) error) error {
	next := make(chan int, callers)
	go func() {
		defer close(next)
		for n := range times {
			next <- n
		}
	}()
	done := make(chan error, callers)
	for range callers {
		go func() {
			var err error
			for n := range next {
				if err == nil {
					err = do(n)
				}
			}
			done <- err
		}()
	}
	var first error
	for range callers {
		if err := <-done; first == nil {
			first = err
		}
	}
	return first
}

// processorTime returns the processor time of this process so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// ground is a store with operators that have subscribers and money.
type ground struct {
	testing.TB
	Store
	plan      subscription.Plan
	operators []subscription.Operator
	keys      []access.Credential
	requests  atomic.Int64
	// renewed are some of the operations that renew has made.
	renewed [1024]atomic.Pointer[operation.Operation]
}

func newGround(b testing.TB, store Store) *ground {
	b.Cleanup(func() { _ = store.Close() })
	h := &harness{TB: b, Store: store}
	h.components("TV-BASIC")
	g := &ground{TB: b, Store: store}
	for i := range benchPlans {
		var err error
		g.plan, err = h.SetPlan(b.Context(), staffAction("plan set"), plan(name("BASIC", i), "199", "TV-BASIC"))
		h.must(err)
	}
	for i := range benchOperators {
		operator := h.operator(name("operator", i))
		_, _, err := h.TopUp(b.Context(), staffAction("wallet topup"), admin.TopUp{OperatorID: operator.ID, Amount: rupees("100000000"), Reference: name("payment", i)})
		h.must(err)
		var rows []admin.ImportRow
		for k := range benchSubscribers {
			rows = append(rows, admin.ImportRow{
				Line: k + 1, OperatorID: operator.ID, SubscriberID: g.subscriber(i, k), Mobile: fmt.Sprintf("98%04d%04d", i, k), Name: "Asha",
				PlanID: g.plan.ID, Expires: noon.Add(time.Hour),
			})
		}
		_, err = h.ImportSubscribers(b.Context(), staffAction("subscriber import"), rows)
		h.must(err)
		g.operators, g.keys = append(g.operators, operator), append(g.keys, h.key(operator))
	}
	return g
}

func (g *ground) subscriber(operator, n int) string { return fmt.Sprintf("%02d%04d", operator+10, n) }

// balanceRequest makes the n-th balance request.
func (g *ground) balanceRequest(n int) error {
	if err := g.admit(n); err != nil {
		return err
	}
	return g.balance(n)
}

// balance makes the n-th look-up of a wallet.
func (g *ground) balance(n int) error {
	operator := g.operators[n%benchOperators].ID
	wallet, err := g.Wallet(g.Context(), operator)
	if err == nil && wallet.OperatorID != operator {
		err = fmt.Errorf("the wallet of operator %d, not %d", wallet.OperatorID, operator)
	}
	return err
}

// subscription makes the n-th look-up of a subscriber.
func (g *ground) subscription(n int) error {
	operator, id := g.operators[n%benchOperators].ID, g.subscriber(n%benchOperators, n/benchOperators%benchSubscribers)
	s, found, err := g.SubscriptionOf(g.Context(), operator, id, "")
	if err == nil && (!found || s.ID != id || len(s.Cycles) != 3 || s.Plans[g.plan.ID] != g.plan.Name) {
		err = fmt.Errorf("subscriber %s: %+v", id, s)
	}
	return err
}

// transaction makes the n-th look-up of an operation that renew has made.
func (g *ground) transaction(n int) error {
	op := g.renewed[n%len(g.renewed)].Load()
	got, found, err := g.OperationByID(g.Context(), op.OperatorID, op.ID)
	if err == nil && (!found || got.ID != op.ID || got.State != operation.Success) {
		err = fmt.Errorf("operation %s: %+v", op.ID, got)
	}
	return err
}

// plans makes the n-th look-up of the catalogue.
func (g *ground) plans(int) error {
	plans, _, err := g.SellablePlans(g.Context(), "test")
	if err == nil && len(plans) != benchPlans {
		err = fmt.Errorf("%d plans are sold", len(plans))
	}
	return err
}

func (g *ground) admit(n int) error {
	_, err := g.admitAt(n, noon.Add(time.Duration(n)*time.Minute))
	return err
}

// admitAt admits the n-th request.
func (g *ground) admitAt(n int, now time.Time) (request string, err error) {
	operator, key := g.operators[n%benchOperators], g.keys[n%benchOperators]
	request = fmt.Sprint("request-", g.requests.Add(1))
	admitted, err := g.Admit(g.Context(), access.Admission{
		RequestID: request, CredentialID: key.ID, OperatorID: operator.ID, Nonce: request, Now: now,
		CredentialVersion: key.Version, OperatorVersion: operator.Version, Count: true, Limit: operator.RateLimit,
	})
	if err != nil || !admitted.Counted {
		return "", fmt.Errorf("admitted %+v: %w", admitted, err)
	}
	return request, nil
}

// renew makes the n-th renewal. Two renewals of one subscriber never overlap: all other
// subscribers come between them.
func (g *ground) renew(n int) error {
	ctx, i := g.Context(), n%benchOperators
	operator, now := g.operators[i], noon.Add(time.Duration(n)*time.Minute)
	request, err := g.admitAt(n, now)
	if err != nil {
		return err
	}
	snapshot, err := g.Snapshot(ctx, operation.SnapshotQuery{
		OperatorID: operator.ID, IdempotencyKey: request, AdoptedKeys: []string{"adopted/" + request}, Kind: operation.Renew, PlanID: g.plan.ID, Provider: "test",
		SubscriberID: g.subscriber(i, n/benchOperators%benchSubscribers), DuplicatesSince: now.Add(-2 * time.Minute),
	})
	if err != nil || snapshot.Subscriber == nil {
		return fmt.Errorf("snapshot %+v: %w", snapshot, err)
	}
	op, err := g.Reserve(ctx, operation.Draft{SubscriberVersion: snapshot.Subscriber.Version, AdoptedKeys: []string{"adopted/" + request}, Operation: operation.Operation{
		ID: operation.FirstID(now)[:14] + request, OperatorID: operator.ID, IdempotencyKey: request, Fingerprint: operation.Fingerprint{KeyID: 7, Sum: make([]byte, 32)},
		Kind: operation.Renew, Channel: operation.API, Actor: "api:key 1",
		SubscriberID: snapshot.Subscriber.ID, CustomerName: snapshot.Subscriber.Name, Mobile: snapshot.Subscriber.Mobile,
		PlanID: g.plan.ID, PlanVersion: g.plan.Version, PlanName: g.plan.Name, PlanMonths: 1, Main: g.plan.Main, Amount: g.plan.Price,
		ExpiryPrevious: snapshot.Subscriber.Expires, ExpiryPlanned: snapshot.Subscriber.Expires.Add(30 * 24 * time.Hour), CycleStartsAt: snapshot.Subscriber.Expires,
		State: operation.Processing, Epoch: 1, Node: "node-1", LeaseUntil: now.Add(25 * time.Second), Provider: "test", CreatedAt: now,
	}})
	if err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	_, settled, err := g.Settle(ctx, operation.Settlement{
		OperationID: op.ID, Epoch: 1, To: operation.Success, At: now, Node: "node-1", Why: "the provider confirmed", ProviderTransaction: "P" + request,
		Calls: []operation.ProviderCall{{
			Reference: op.ID, What: "renew", Component: op.Main, AskedAt: now, AnsweredAt: now,
			Reply: operation.Reply{Outcome: operation.Confirmed, Transaction: "P" + request},
		}},
	})
	if err == nil && !settled {
		err = fmt.Errorf("%s was not settled", op.ID)
	}
	g.renewed[n%len(g.renewed)].Store(&op)
	return err
}
