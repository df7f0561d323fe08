package operation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/sqlitetest"
	"github.com/coaxhq/coax/internal/subscription"
)

// reviewFixture is a SQLite store with operations to follow up.
type reviewFixture struct {
	testing.TB
	db      *sqlite.DB
	service *admin.Service
	plan    subscription.Plan
	made    int
	settled chan struct{}
	byID    map[string]operation.Operation
}

func newReviewFixture(t testing.TB) *reviewFixture {
	t.Helper()
	db := sqlitetest.New(t)
	f := &reviewFixture{TB: t, db: db, service: admin.NewService(db, nil, "test", f0), settled: make(chan struct{}, 100_000), byID: map[string]operation.Operation{}}
	f.must(db.RecordComparison(t.Context(), catalogue.Comparison{
		Provider: "test", At: noon, Components: []catalogue.Component{{Code: "TV", Name: "TV", Role: catalogue.Main}, {Code: "OTT", Name: "OTT", Role: catalogue.Addon}},
	}))
	var err error
	f.plan, err = f.service.SetPlan(t.Context(), subscription.Plan{ID: "P-1", Name: "Plan", Price: money.Paise(100), Months: 1, Type: subscription.Standard, Main: "TV"})
	f.must(err)
	return f
}

func f0() time.Time { return noon }

func (f *reviewFixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *reviewFixture) operator(name string) int64 {
	f.Helper()
	operator, err := f.service.CreateOperator(f.Context(), name, admin.OperatorChange{})
	f.must(err)
	_, _, err = f.service.TopUp(f.Context(), admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(1_000_000), Reference: "opening of " + name})
	f.must(err)
	return operator.ID
}

// reserve makes operations that are processing.
func (f *reviewFixture) reserve(operatorID int64, count int, addon string) []operation.Operation {
	f.Helper()
	made := make([]operation.Operation, count)
	for i := range made {
		f.made++
		d := operation.Draft{Operation: operation.Operation{
			ID: fmt.Sprintf("CX%06d", f.made), OperatorID: operatorID, IdempotencyKey: fmt.Sprintf("key-%06d", f.made),
			Fingerprint: operation.Fingerprint{KeyID: 1, Sum: []byte("sum")}, Kind: operation.Activate, Channel: operation.API, Actor: "api:key 1",
			SubscriberID: fmt.Sprint(100_000 + f.made), CustomerName: "Asha", Mobile: fmt.Sprintf("98%08d", f.made),
			PlanID: f.plan.ID, PlanVersion: f.plan.Version, PlanName: f.plan.Name, PlanMonths: 1, Main: f.plan.Main, Addon: addon, Amount: f.plan.Price,
			ExpiryPlanned: noon.Add(30 * 24 * time.Hour), CycleStartsAt: noon,
			State: operation.Processing, Epoch: 1, Node: "node-1", LeaseUntil: noon.Add(time.Hour), Provider: "test", CreatedAt: noon,
		}}
		if addon != "" {
			d.AddonState = operation.AddonWaiting
		}
		op, err := f.db.Reserve(f.Context(), d)
		f.must(err)
		made[i], f.byID[op.ID] = op, op
	}
	return made
}

func (f *reviewFixture) settle(op operation.Operation, s operation.Settlement) {
	f.Helper()
	s.OperationID, s.LastRead, s.Epoch, s.At, s.Node = op.ID, &op, op.Epoch, noon, "node-1"
	if _, settled, err := f.db.Settle(f.Context(), s); err != nil || !settled {
		f.Fatalf("settled %v, %v", settled, err)
	}
}

// inReview makes operations that are in review and due.
func (f *reviewFixture) inReview(operatorID int64, count int) []operation.Operation {
	f.Helper()
	made := f.reserve(operatorID, count, "")
	for _, op := range made {
		f.settle(op, operation.Settlement{To: operation.NeedsReview, NextCheckAt: noon})
	}
	return made
}

// missingAddons makes successes whose add-on is due.
func (f *reviewFixture) missingAddons(operatorID int64, count int) []operation.Operation {
	f.Helper()
	made := f.reserve(operatorID, count, "OTT")
	for _, op := range made {
		f.settle(op, operation.Settlement{To: operation.Success, AddonState: operation.AddonUnknown, AddonNextAt: noon})
	}
	return made
}

// watchedStore tells what is settled.
type watchedStore struct {
	*sqlite.DB
	settled chan<- struct{}
}

func (s watchedStore) Settle(ctx context.Context, st operation.Settlement) (operation.Operation, bool, error) {
	op, settled, err := s.DB.Settle(ctx, st)
	if settled {
		s.settled <- struct{}{}
	}
	return op, settled, err
}

// review runs a reviewer on a provider until as many operations are settled as it
// wants, and releases what hangs.
func (f *reviewFixture) review(provider operation.Provider, want int, release func()) {
	f.Helper()
	reviewer := operation.NewReviewer(watchedStore{f.db, f.settled}, provider, operation.ReviewConfig{
		Now: func() time.Time { return noon.Add(time.Second) }, Node: "node-2", Timeout: 10 * time.Minute, FirstCheck: time.Minute,
		MaxInterval: time.Hour, RefundAfter: time.Hour, OnError: func(err error) { f.Error(err) },
	})
	ctx, stop := context.WithCancel(f.Context())
	var running sync.WaitGroup
	running.Go(func() { reviewer.Run(ctx) })
	// Beyond what a busy machine needs, and far below the provider's timeout.
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for settled := 0; settled < want; {
		select {
		case <-f.settled:
			settled++
		case <-limit.C:
			f.Errorf("%d operations are settled; want %d", settled, want)
			settled = want
		}
	}
	stop()
	release()
	running.Wait()
}

// hanging serves the provider's protocol: everything was applied, and questions
// about some references are not answered before the test ends.
func (f *reviewFixture) hanging(references map[string]bool) (provider operation.Provider, release func()) {
	f.Helper()
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reference := r.URL.Query().Get("reference")
		if references[reference] {
			<-released
		}
		op := f.byID[reference]
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{
			"reference": reference, "status": "applied", "subscriber_id": op.SubscriberID, "mobile": op.Mobile, "component": op.Main,
			"transaction_id": "P-" + reference,
		})
	}))
	f.Cleanup(server.Close)
	g, err := gateway.New(gateway.Config{URL: server.URL, Timeout: 10 * time.Minute})
	f.must(err)
	f.Cleanup(g.Close)
	return g, func() { close(released) }
}

func TestReviewer_HangingQuestionsStopNoOthers(t *testing.T) {
	for _, row := range []struct {
		name string
		make func(f *reviewFixture) (hang, settle []operation.Operation)
	}{
		{"one of 200", func(f *reviewFixture) (hang, settle []operation.Operation) {
			all := f.inReview(f.operator("one"), 200)
			return all[:1], all[1:]
		}},
		{"200 of another operator", func(f *reviewFixture) (hang, settle []operation.Operation) {
			return f.inReview(f.operator("one"), 200), f.inReview(f.operator("two"), 50)
		}},
		{"200 add-ons of the operator", func(f *reviewFixture) (hang, settle []operation.Operation) {
			operator := f.operator("one")
			return f.missingAddons(operator, 200), f.inReview(operator, 50)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := newReviewFixture(t)
			hang, settle := row.make(f)
			references := map[string]bool{}
			for _, op := range hang {
				references[op.ID] = true
				references[op.ID+"-2"] = true
			}
			provider, release := f.hanging(references)
			f.review(provider, len(settle), release)
		})
	}
}

// instantProvider confirms everything at once.
type instantProvider struct{}

func (instantProvider) Apply(_ context.Context, order operation.Order) operation.Reply {
	return operation.Reply{Outcome: operation.Confirmed, Transaction: "P-" + order.Reference}
}
func (i instantProvider) Status(ctx context.Context, order operation.Order) operation.Reply {
	return i.Apply(ctx, order)
}
func (i instantProvider) Void(ctx context.Context, order operation.Order) operation.Reply {
	return i.Apply(ctx, order)
}

// What the reviewer settles a second on SQLite, with a provider that answers at once,
// beside the same number of settlements made without a reviewer in the same run.
func BenchmarkReviewer_Settle(b *testing.B) {
	f := newReviewFixture(b)
	operators := []int64{f.operator("one"), f.operator("two"), f.operator("three"), f.operator("four")}
	count := max(b.N, 1000)
	var direct, reviewed []operation.Operation
	for i := range operators {
		direct = append(direct, f.reserve(operators[i], count/len(operators), "")...)
		reviewed = append(reviewed, f.inReview(operators[i], count/len(operators))...)
	}
	waiting := make(chan operation.Operation, len(direct))
	for _, op := range direct {
		waiting <- op
	}
	close(waiting)
	begun := time.Now()
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for op := range waiting {
				f.settle(op, operation.Settlement{To: operation.Success, ProviderTransaction: "P-" + op.ID})
			}
		})
	}
	workers.Wait()
	directly := float64(len(direct)) / time.Since(begun).Seconds()
	b.ResetTimer()
	begun = time.Now()
	f.review(instantProvider{}, len(reviewed), func() {})
	rate := float64(len(reviewed)) / time.Since(begun).Seconds()
	b.ReportMetric(rate, "settles/s")
	b.ReportMetric(directly, "direct/s")
	b.ReportMetric(rate/directly, "of-direct")
}
