package operation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/sqlitetest"
	"github.com/coaxhq/coax/internal/subscription"
)

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, subscription.IST)

// fakeProvider confirms every order, unless told otherwise, and counts them.
type fakeProvider struct {
	applied atomic.Int32
	// during runs while an order is being carried out; status are the replies to Status, one
	// after the other.
	during   func(operation.Order)
	status   []operation.Reply
	asked    int
	silent   bool // every order has an unknown outcome
	reject   bool // every order is rejected
	mismatch bool // every reply is about another order
	void     *operation.Reply
	voids    int
}

func (p *fakeProvider) Apply(_ context.Context, order operation.Order) operation.Reply {
	if p.during != nil {
		p.during(order)
	}
	if p.silent {
		return operation.Reply{}
	}
	if p.mismatch {
		return operation.Reply{Mismatch: true, Detail: "it is about CX-OTHER"}
	}
	if p.reject {
		return operation.Reply{Outcome: operation.Rejected, Message: "No."}
	}
	return operation.Reply{Outcome: operation.Confirmed, Transaction: fmt.Sprintf("P-%d", p.applied.Add(1))}
}

func (p *fakeProvider) Status(context.Context, operation.Order) operation.Reply {
	p.asked++
	return p.status[min(p.asked, len(p.status))-1]
}

func (p *fakeProvider) Void(context.Context, operation.Order) operation.Reply {
	p.voids++
	if p.void != nil {
		return *p.void
	}
	return operation.Reply{Outcome: operation.Rejected}
}

// faultyStore is a real store in which faults are injected: a commit outcome can be unknown,
// before or after the commit took effect.
type faultyStore struct {
	*sqlite.DB
	beforeSnapshot func()
	beforeReserve  func()
	reserve        []string // the fault of each call: lost (committed), undone (not committed), or none
	settle         []string
	reserved, set  int
	unavailable    int // how many of the next calls find no server
	unseen         int // how many of the next snapshots are from before the commit
	seen           operation.Snapshot
	// late is how far the clock has advanced; committing is called after a reservation was
	// committed.
	late       time.Duration
	committing func()
	settled    func() // called after a settlement was committed
}

var (
	errCut         = fmt.Errorf("%w: the connection was cut", operation.ErrCommitUnknown)
	errUnavailable = fmt.Errorf("%w: no server", operation.ErrUnavailable)
)

func (s *faultyStore) isUnavailable() bool {
	s.unavailable--
	return s.unavailable >= 0
}

func (s *faultyStore) OperationByKey(ctx context.Context, operatorID int64, key string) (operation.Operation, bool, error) {
	if s.isUnavailable() {
		return operation.Operation{}, false, errUnavailable
	}
	return s.DB.OperationByKey(ctx, operatorID, key)
}

func (s *faultyStore) ExtendLease(ctx context.Context, id string, epoch int64, until time.Time) (bool, error) {
	if s.isUnavailable() {
		return false, errUnavailable
	}
	return s.DB.ExtendLease(ctx, id, epoch, until)
}

func (s *faultyStore) Snapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	if f := s.beforeSnapshot; f != nil {
		s.beforeSnapshot = nil
		f()
	}
	if s.isUnavailable() {
		return operation.Snapshot{}, errUnavailable
	}
	if s.unseen--; s.unseen >= 0 {
		return s.seen, nil
	}
	snapshot, err := s.DB.Snapshot(ctx, q)
	s.seen = snapshot
	return snapshot, err
}

func (s *faultyStore) Reserve(ctx context.Context, d operation.Draft) (operation.Operation, error) {
	if f := s.beforeReserve; f != nil {
		s.beforeReserve = nil
		f()
	}
	if s.isUnavailable() {
		return operation.Operation{}, errUnavailable
	}
	injected := next(s.reserve, &s.reserved)
	if injected, s.unavailable = thenUnavailable(injected); injected == "undone" {
		return operation.Operation{}, errCut
	}
	if injected == "lost, and done late" {
		// The commit is still running when the key is looked up.
		injected, s.unseen = "lost", 1
	}
	op, err := s.DB.Reserve(ctx, d)
	if s.committing != nil {
		s.committing()
	}
	if injected == "lost" && err == nil {
		return operation.Operation{}, errCut
	}
	return op, err
}

func (s *faultyStore) Settle(ctx context.Context, st operation.Settlement) (operation.Operation, bool, error) {
	if s.isUnavailable() {
		return operation.Operation{}, false, errUnavailable
	}
	injected := next(s.settle, &s.set)
	if injected, s.unavailable = thenUnavailable(injected); injected == "undone" {
		return operation.Operation{}, false, errCut
	}
	op, did, err := s.DB.Settle(ctx, st)
	if s.settled != nil {
		s.settled()
	}
	if injected == "lost" && err == nil {
		return operation.Operation{}, false, errCut
	}
	return op, did, err
}

// thenUnavailable reads a injected such as "lost, then unavailable": the server that had the answer
// is gone, and the next one takes a moment.
func thenUnavailable(fault string) (string, int) {
	before, unavailable := strings.CutSuffix(fault, ", then unavailable")
	if !unavailable {
		return fault, 0
	}
	return before, 4
}

func next(faults []string, at *int) string {
	*at++
	if *at <= len(faults) {
		return faults[*at-1]
	}
	return ""
}

// fixture is a processor on a real store, with an operator whose wallet holds 1000.
type fixture struct {
	*operation.Processor
	store    *faultyStore
	provider *fakeProvider
	operator int64
	path     string // of the store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	path := sqlitetest.NewFile(t)
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store, provider := &faultyStore{DB: db}, &fakeProvider{}
	now := func() time.Time { return noon.Add(store.late) }
	service := admin.NewService(db, nil, "test", now)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.RecordComparison(t.Context(), catalogue.Comparison{
		Provider: "test", At: noon, Components: []catalogue.Component{{Code: "TV", Name: "TV", Role: catalogue.Main}},
	}))
	_, err = service.SetPlan(t.Context(), subscription.Plan{ID: "P-1", Name: "Plan", Price: money.Paise(19900), Months: 1, Type: subscription.Standard, Main: "TV"})
	must(err)
	operator, err := service.CreateOperator(t.Context(), "operator", admin.OperatorChange{})
	must(err)
	_, _, err = service.TopUp(t.Context(), admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(1000_00), Reference: "r"})
	must(err)
	prices := catalogue.New(db, nil, catalogue.Config{Now: now, Provider: "test", MaxAge: time.Hour})
	return &fixture{
		Processor: operation.NewProcessor(store, prices, provider, operation.NewBreaker(nil), operation.Config{
			Now: now, Node: "node", ProviderName: "test", Timeout: time.Second, FirstCheck: time.Second, ActivationTerm: subscription.ThirtyDays,
			Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1},
		}),
		store: store, provider: provider, operator: operator.ID, path: path,
	}
}

func (s *fixture) request(kind operation.Kind, key string, fields map[string]string) operation.Request {
	return operation.Request{
		OperatorID: s.operator, Channel: operation.API, Actor: "api:key 1", IdempotencyKey: key, Kind: kind,
		Fields: fields, Content: fmt.Append(nil, fields),
	}
}

func (s *fixture) balance(t *testing.T) string {
	t.Helper()
	wallet, err := s.store.Wallet(t.Context(), s.operator)
	if err != nil {
		t.Fatal(err)
	}
	return wallet.Balance.String() + " held " + wallet.Held.String()
}

// The same request is processed concurrently: before the snapshot, which then shows the other's
// operation, or between snapshot and reservation, which then finds the key taken. Both times the
// result is a replay.
func TestProcess_ConcurrentTwinIsReplayed(t *testing.T) {
	s := newFixture(t)
	for i, when := range []*func(){&s.store.beforeSnapshot, &s.store.beforeReserve} {
		mobile := fmt.Sprintf("980000000%d", i)
		activate := s.request(operation.Activate, "twin-activate-"+mobile, map[string]string{"full_name": "A", "mobile": mobile, "plan_id": "P-1"})
		renew := s.request(operation.Renew, "twin-renew-"+mobile, map[string]string{"mobile": mobile, "plan_id": "P-1"})
		for _, r := range []operation.Request{activate, renew} {
			var first operation.Result
			*when = func() {
				var err error
				if first, err = s.Process(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			second, err := s.Process(t.Context(), r)
			if err != nil || !second.Replayed || second.ID != first.ID {
				t.Errorf("%s: %v, replayed %v as %s; want a replay of %s", r.Kind, err, second.Replayed, second.ID, first.ID)
			}
		}
	}
	if got := s.balance(t); got != "204.00 held 0.00" || s.provider.applied.Load() != 4 {
		t.Errorf("%s, %d applied; want four charges", got, s.provider.applied.Load())
	}
}

// source is a provider's catalogue that runs before first.
type source struct{ before func() }

func (s source) Catalogue(context.Context) ([]catalogue.Component, error) {
	s.before()
	return []catalogue.Component{{Code: "TV", Name: "TV", Role: catalogue.Main}}, nil
}

// While prices are being verified, the wallet is topped up and the plan's price changes. The old
// balance must not be compared with the new price.
func TestProcess_ReadsSnapshotAgainAfterPriceCheck(t *testing.T) {
	s := newFixture(t)
	s.store.late = 2 * time.Hour // the last comparison is too old
	now := func() time.Time { return noon.Add(s.store.late) }
	service := admin.NewService(s.store.DB, nil, "test", now)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := service.Adjust(t.Context(), s.operator, money.Paise(-850_00), "all but 150")
	must(err)
	prices := catalogue.New(s.store.DB, source{func() {
		_, err := service.SetPlan(t.Context(), subscription.Plan{ID: "P-1", Name: "Plan", Price: money.Paise(300_00), Months: 1, Type: subscription.Standard, Main: "TV"})
		must(err)
		_, _, err = service.TopUp(t.Context(), admin.TopUp{OperatorID: s.operator, Amount: money.Paise(200_00), Reference: "more"})
		must(err)
	}}, catalogue.Config{Now: now, Provider: "test", MaxAge: time.Hour})
	processor := operation.NewProcessor(s.store, prices, s.provider, operation.NewBreaker(nil), operation.Config{
		Now: now, Node: "node", ProviderName: "test", Timeout: time.Second, FirstCheck: time.Second, ActivationTerm: subscription.ThirtyDays,
		Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1},
	})
	r := s.request(operation.Activate, "stale", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"})
	result, err := processor.Process(t.Context(), r)
	if err != nil || result.Amount != money.Paise(300_00) || s.balance(t) != "50.00 held 0.00" {
		t.Errorf("%v, charged %s, %s left; want 300.00 of the 350.00 that were there by then", err, result.Amount, s.balance(t))
	}
}

// Unknown commit outcomes, before or after the commit took effect: one charge and one order, or an
// error and none.
func TestProcess_UnknownCommitChargesOnce(t *testing.T) {
	rows := []struct {
		name            string
		reserve, settle []string
		want            fault.Code
		balance         string
		applied         int32
	}{
		{"reserve, committed", []string{"lost"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, committed late", []string{"lost, and done late"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, not committed", []string{"undone"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, not committed twice, then committed", []string{"undone", "undone", "lost"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, never committed", []string{"undone", "undone", "undone", "undone"}, nil, fault.ServiceUnavailable, "1000.00 held 0.00", 0},
		{"settle, committed", nil, []string{"lost"}, fault.OK, "801.00 held 0.00", 1},
		{"settle, not committed", nil, []string{"undone", "undone"}, fault.OK, "801.00 held 0.00", 1},
		{"settle, never committed", nil, []string{"undone", "undone", "undone"}, fault.InternalError, "801.00 held 199.00", 1},
		{"reserve and settle, committed", []string{"lost"}, []string{"lost"}, fault.OK, "801.00 held 0.00", 1},
		{"reserve, committed, failover", []string{"lost, then unavailable"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, not committed, failover", []string{"undone, then unavailable"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"settle, committed, failover", nil, []string{"lost, then unavailable"}, fault.OK, "801.00 held 0.00", 1},
		{"settle, not committed, failover", nil, []string{"undone, then unavailable"}, fault.OK, "801.00 held 0.00", 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newFixture(t)
			s.store.reserve, s.store.settle = row.reserve, row.settle
			r := s.request(operation.Activate, "unknown-commit-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"})
			result, err := s.Process(t.Context(), r)
			if fault.CodeOf(err) != row.want {
				t.Errorf("answered %v; want %s", err, row.want)
			}
			if got := s.balance(t); got != row.balance || s.provider.applied.Load() != row.applied {
				t.Errorf("the wallet has %s after %d orders; want %s after %d", got, s.provider.applied.Load(), row.balance, row.applied)
			}
			again, err := s.Process(t.Context(), r)
			switch row.want {
			case fault.OK:
				if err != nil || !again.Replayed || again.ID != result.ID {
					t.Errorf("again: %v, %+v; want a replay", err, again)
				}
			case fault.ServiceUnavailable:
				if err != nil || again.State != operation.Success {
					t.Errorf("again: %v; want the key to be usable", err)
				}
			default:
				if !fault.Is(err, fault.RequestInProgress) {
					t.Errorf("again: %v; want it in progress", err)
				}
			}
		})
	}
}

// If the commit of a reservation takes longer than the lease, another node may own the operation
// by then: the provider is called only by the owner.
func TestProcess_SlowReserveIsConfirmedFirst(t *testing.T) {
	for name, row := range map[string]struct {
		taken   bool
		want    fault.Code
		applied int32
	}{
		"still owned":        {false, fault.OK, 1},
		"claimed by another": {true, fault.RequestInProgress, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.store.committing = func() {
				s.store.late = time.Minute
				if !row.taken {
					return
				}
				later := noon.Add(s.store.late)
				claimed, err := s.store.ClaimReviews(t.Context(), operation.Claim{Now: later, Node: "other", Until: later.Add(time.Minute), Limit: 1})
				if err != nil || len(claimed) != 1 {
					t.Errorf("claimed %v, %v", claimed, err)
				}
			}
			_, err := s.Process(t.Context(), s.request(operation.Activate, "slow-commit-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
			if fault.CodeOf(err) != row.want || s.provider.applied.Load() != row.applied {
				t.Errorf("answered %v after %d orders; want %s after %d", err, s.provider.applied.Load(), row.want, row.applied)
			}
		})
	}
}

// A caller who hangs up while a reservation takes longer than its lease cancels nothing: the money
// has moved, and the node still owns the operation.
func TestProcess_HangUpDuringSlowReserve(t *testing.T) {
	s := newFixture(t)
	ctx, hangUp := context.WithCancel(t.Context())
	s.store.committing = func() {
		s.store.late = time.Minute
		hangUp()
	}
	_, err := s.Process(ctx, s.request(operation.Activate, "slow-hang-up-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
	if got := s.balance(t); err != nil || got != "801.00 held 0.00" {
		t.Errorf("the wallet has %s after %v; want 801.00 and nothing held", got, err)
	}
}

// After an unknown commit of the reservation the request is processed even if its caller hangs up:
// the money may have moved.
func TestProcess_HangUpAfterUnknownCommit(t *testing.T) {
	s := newFixture(t)
	ctx, hangUp := context.WithCancel(t.Context())
	s.store.reserve = []string{"lost"}
	s.store.beforeSnapshot = func() { defer hangUp() }
	r := s.request(operation.Activate, "hang-up-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"})
	if _, err := s.Process(ctx, r); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := s.balance(t); got != "801.00 held 0.00" && got != "1000.00 held 0.00" {
		t.Errorf("the wallet has %s; want the money charged or untouched, never left held", got)
	}
}

// While a node waits for the provider, its lease expires and another node settles the operation.
// Nothing is settled twice; if the first node's reply contradicts the settlement, an exception is
// raised.
func TestProcess_ExpiredLeaseSettlesNothing(t *testing.T) {
	rows := []struct {
		name   string
		to     operation.State
		as     string // the transaction number of the other node's settlement
		reject bool   // the reply to the first node
		want   []operation.ExceptionKind
	}{
		{"same outcome", operation.Success, "P-1", false, nil},
		{"another transaction number", operation.Success, "P-other", false, []operation.ExceptionKind{operation.DuplicateEffect}},
		{"refunded", operation.Failed, "", false, []operation.ExceptionKind{operation.LateSuccess}},
		{"charged, and rejected", operation.Success, "P-1", true, []operation.ExceptionKind{operation.RejectedAfterSuccess}},
		{"refunded, and rejected", operation.Failed, "", true, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newFixture(t)
			s.provider.reject = row.reject
			s.provider.during = func(order operation.Order) {
				later := noon.Add(time.Hour)
				claimed, err := s.store.ClaimReviews(t.Context(), operation.Claim{Now: later, Node: "other", Until: later.Add(time.Minute), Limit: 1})
				if err != nil || len(claimed) != 1 {
					t.Fatalf("claimed %v, %v", claimed, err)
				}
				settlement := operation.Settlement{OperationID: order.Reference, Epoch: claimed[0].Epoch, To: row.to, At: later, Node: "other", ProviderTransaction: row.as}
				if row.to == operation.Failed {
					settlement.Reason, settlement.ProviderMessage = operation.NotConfirmed, "No."
				}
				if _, settled, err := s.store.DB.Settle(t.Context(), settlement); err != nil || !settled {
					t.Fatalf("settled %v, %v", settled, err)
				}
			}
			result, err := s.Process(t.Context(), s.request(operation.Activate, "expired-lease-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
			if err != nil || result.State != row.to || result.Password != "" && row.to == operation.Failed {
				t.Errorf("the first node returns %s, %v; want the other's settlement", result.State, err)
			}
			entries, err := s.store.Exceptions(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []operation.ExceptionKind
			for _, e := range entries {
				kinds = append(kinds, e.Kind)
			}
			if fmt.Sprint(kinds) != fmt.Sprint(row.want) {
				t.Errorf("exceptions %v; want %v", kinds, row.want)
			}
			want := map[operation.State]string{operation.Success: "801.00 held 0.00", operation.Failed: "1000.00 held 0.00"}[row.to]
			if got := s.balance(t); got != want {
				t.Errorf("the wallet has %s; want %s", got, want)
			}
		})
	}
}

// An operation that the provider does not know is refunded only after RefundAfter, and voided
// before. If the provider knows it by then, that reply counts.
func TestReviewer_NotFoundCountsAfterRefundAfter(t *testing.T) {
	unknown := operation.Reply{NotFound: true}
	for name, row := range map[string]struct {
		answers []operation.Reply
		want    operation.State
		checks  int
	}{
		"not known, then carried out": {[]operation.Reply{unknown, unknown, {Outcome: operation.Confirmed, Transaction: "P-9"}}, operation.Success, 3},
		"never known":                 {[]operation.Reply{unknown}, operation.Failed, 4},
		"silent, then rejected":       {[]operation.Reply{{}, {Outcome: operation.Rejected, Message: "No."}}, operation.Failed, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.provider.status, s.provider.silent = row.answers, true
			result, err := s.Process(t.Context(), s.request(operation.Activate, "unknown-commit-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
			if err != nil || result.State != operation.NeedsReview {
				t.Fatalf("%s, %v; want it in review", result.State, err)
			}
			now, op := noon, result.Operation
			reviewer := operation.NewReviewer(s.store, s.provider, operation.ReviewConfig{
				Now: func() time.Time { return now }, Node: "node", Timeout: time.Second, FirstCheck: 10 * time.Second,
				MaxInterval: 10 * time.Minute, RefundAfter: 2 * time.Minute, OnError: func(err error) { t.Error(err) },
			})
			settledAt := time.Duration(0)
			for settledAt == 0 && now.Sub(noon) < time.Hour {
				now = now.Add(time.Second)
				if _, err := reviewer.RunOnce(t.Context()); err != nil {
					t.Fatal(err)
				}
				found, _, err := s.store.OperationByID(t.Context(), s.operator, op.ID)
				if err != nil {
					t.Fatal(err)
				}
				if op = found; !op.State.Open() {
					settledAt = now.Sub(noon)
				}
			}
			if op.State != row.want || s.provider.asked != row.checks {
				t.Errorf("settled as %s after %s and %d questions; want %s after %d", op.State, settledAt, s.provider.asked, row.want, row.checks)
			}
			if op.Reason == operation.NotConfirmed && settledAt < 2*time.Minute {
				t.Errorf("refunded after %s", settledAt)
			}
		})
	}
}

// The store is closed right after the settlement's commit: the generated password is returned all
// the same, and the mismatch is in the store.
func TestProcess_MismatchDoesNotLoseThePassword(t *testing.T) {
	s := newFixture(t)
	s.provider.mismatch = true
	s.store.settled = func() { _ = s.store.Close() }
	result, err := s.Process(t.Context(), s.request(operation.Activate, "mismatch-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
	if err != nil || result.State != operation.NeedsReview || result.Password == "" {
		t.Fatalf("answered %s with the password %q, %v; want it in review, with a password", result.State, result.Password, err)
	}
	db, err := sqlite.Open(t.Context(), s.path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	entries, err := db.Exceptions(t.Context(), false)
	if err != nil || len(entries) != 1 || entries[0].TransactionID != result.ID || entries[0].Kind != operation.WrongAnswer {
		t.Errorf("exceptions %+v, %v; want the mismatch of %s", entries, err, result.ID)
	}
}
