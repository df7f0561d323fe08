package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var operationTests = []test{
	{"an idempotency key is claimed once under concurrency", keyClaimedOnce},
	{"a wallet that covers seven operations allows seven of thirty", walletForSeven},
	{"a mobile number is activated once across operators", mobileActivatedOnce},
	{"a customer has one open operation at a time", oneOpenOperation},
	{"a reservation checks that the customer is unchanged", customerGuards},
	{"a reservation checks the plan's version", planVersionGuards},
	{"a reservation on a stale snapshot leaves no trace", movedLeavesNoTrace},
	{"a reservation is read back whole", reservationReadBack},
	{"a success writes all its rows", successIsWhole},
	{"a failure refunds and removes a new customer", failureRefunds},
	{"an unknown outcome holds the money until it is settled", reviewHolds},
	{"of many concurrent settlements one takes effect", settledOnce},
	{"a stale epoch settles nothing", staleEpochSettlesNothing},
	{"a lease is extended only by its owner", leases},
	{"customers and operations of another operator are not found", tenancy},
	{"a snapshot has a number's open operation and its operator", openOperationInSnapshot},
	{"a preferred id is assigned if it is free", preferredID},
	{"a snapshot has key and plan of one moment", keyAndOffer},
	{"a settlement returns the operation as settled, for any caller", settlementReadBack},
	{"duplicates are successful renewals in the window", duplicates},
	{"an earlier renewal is still a duplicate after one of another plan", duplicateBehindAnother},
	{"a snapshot for an advance renewal has all cycles in order", cyclesInSnapshot},
	{"a subscription lookup shows open operations", subscriptionLookup},
}

// fixture is an operator with money and a plan.
type fixture struct {
	*harness
	operator subscription.Operator
	plan     subscription.Plan
	sold     int
}

func (h *harness) fixture(balance string) *fixture {
	h.Helper()
	h.components("TV-BASIC", "OTT-PLUS")
	saved, err := h.SetPlan(h.Context(), staffAction("plan set"), plan("BASIC-1", "199", "TV-BASIC"))
	h.must(err)
	s := &fixture{harness: h, operator: h.operator("shop"), plan: saved}
	if balance != "0" {
		s.topUp(s.operator, balance)
	}
	return s
}

func (s *fixture) topUp(operator subscription.Operator, amount string) {
	s.Helper()
	s.sold++
	_, _, err := s.TopUp(s.Context(), staffAction("wallet topup"), admin.TopUp{OperatorID: operator.ID, Amount: rupees(amount), Reference: fmt.Sprintf("%s of %d", name("money", s.sold), operator.ID)})
	s.must(err)
}

// activation returns a draft as the processor would make it.
func (s *fixture) activation(key, mobile, subscriberID string) operation.Draft {
	return operation.Draft{
		Operation: operation.Operation{
			ID: "CX" + key, OperatorID: s.operator.ID, IdempotencyKey: key, Fingerprint: operation.Fingerprint{KeyID: 7, Sum: []byte("sum")},
			Kind: operation.Activate, Channel: operation.API, Actor: "api:key 1",
			SubscriberID: subscriberID, CustomerName: "Asha", Mobile: mobile,
			PlanID: s.plan.ID, PlanVersion: s.plan.Version, PlanName: s.plan.Name, PlanMonths: 1, Main: s.plan.Main, Amount: s.plan.Price,
			ExpiryPlanned: noon.Add(30 * 24 * time.Hour), CycleStartsAt: noon,
			State: operation.Processing, Epoch: 1, Node: "node-1", LeaseUntil: noon.Add(25 * time.Second), Provider: "test", CreatedAt: noon,
		},
		Profile: operation.Profile{Email: "a@example.com", Address: "12 Street", ConnectionType: "OTT + Live TV"},
	}
}

// renewal returns a draft for an existing customer, from its present state.
func (s *fixture) renewal(key, subscriberID string) operation.Draft {
	s.Helper()
	snapshot := s.snapshot(operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Renew, SubscriberID: subscriberID, PlanID: s.plan.ID})
	if snapshot.Subscriber == nil {
		s.Fatalf("there is no subscriber %s", subscriberID)
	}
	d := s.activation(key, snapshot.Subscriber.Mobile, subscriberID)
	d.Kind, d.SubscriberVersion, d.ExpiryPrevious = operation.Renew, snapshot.Subscriber.Version, snapshot.Subscriber.Expires
	d.ExpiryPlanned = snapshot.Subscriber.Expires.Add(30 * 24 * time.Hour)
	d.Profile = operation.Profile{}
	return d
}

func (s *fixture) snapshot(q operation.SnapshotQuery) operation.Snapshot {
	s.Helper()
	snapshot, err := s.Snapshot(s.Context(), q)
	s.must(err)
	return snapshot
}

func (s *fixture) reserve(d operation.Draft) operation.Operation {
	s.Helper()
	op, err := s.Reserve(s.Context(), d)
	s.must(err)
	return op
}

func settlement(op operation.Operation, to operation.State) operation.Settlement {
	st := operation.Settlement{
		OperationID: op.ID, LastRead: &op, Epoch: op.Epoch, To: to, At: noon.Add(time.Second), Node: "node-1", Why: "a test",
		Calls: []operation.ProviderCall{{Reference: op.ID, What: "activate", Component: op.Main, AskedAt: noon, AnsweredAt: noon}},
	}
	switch to {
	case operation.Success:
		st.ProviderTransaction = "P-" + op.ID
	case operation.Failed:
		st.Reason, st.ProviderMessage = operation.ProviderRejected, "No."
	case operation.NeedsReview:
		st.NextCheckAt = noon.Add(10 * time.Second)
	}
	return st
}

func (s *fixture) settle(op operation.Operation, to operation.State) operation.Operation {
	s.Helper()
	settled, did, err := s.Settle(s.Context(), settlement(op, to))
	s.must(err)
	if !did || settled.State != to {
		s.Fatalf("settled %v as %s; want %s", did, settled.State, to)
	}
	return settled
}

// subscriber activates a customer.
func (s *fixture) subscriber(id, mobile string) operation.Operation {
	s.Helper()
	return s.settle(s.reserve(s.activation("act-"+id, mobile, id)), operation.Success)
}

// money checks the balance and the held amount.
func (s *fixture) money(what, balance, held string) {
	s.Helper()
	wallet, err := s.Wallet(s.Context(), s.operator.ID)
	s.must(err)
	if wallet.Balance != rupees(balance) || wallet.Held != rupees(held) {
		s.Errorf("%s: the wallet has %s and holds %s; want %s and %s", what, wallet.Balance, wallet.Held, balance, held)
	}
}

func keyClaimedOnce(h *harness) {
	s := h.fixture("10000")
	var claimed, moved atomic.Int32
	concurrently(32, func(i int) {
		d := s.activation("one-key", fmt.Sprintf("98000000%02d", i), fmt.Sprintf("1000%02d", i))
		d.ID = name("CX", i)
		_, err := s.Reserve(s.Context(), d)
		switch {
		case err == nil:
			claimed.Add(1)
		case errors.Is(err, operation.ErrStale):
			moved.Add(1)
		default:
			s.Errorf("reserve: %v", err)
		}
	})
	if claimed.Load() != 1 || moved.Load() != 31 {
		s.Errorf("claimed %d times, moved %d; want 1 and 31", claimed.Load(), moved.Load())
	}
	s.money("after 32 askers", "9801", "199")
	// The key is scoped to the operator: another one can use it.
	other := *s
	other.operator = h.operator("other")
	s.topUp(other.operator, "199")
	d := other.activation("one-key", "9811111111", "200000")
	d.ID = "CX-other"
	other.reserve(d)
}

func walletForSeven(h *harness) {
	s := h.fixture("1393") // 7 × 199
	var made atomic.Int32
	befores := make([]int64, 30)
	concurrently(30, func(i int) {
		op, err := s.Reserve(s.Context(), s.activation(name("key", i), fmt.Sprintf("98000000%02d", i), fmt.Sprintf("1000%02d", i)))
		if err == nil {
			made.Add(1)
			befores[i] = op.WalletBefore.Paise()
		} else if !errors.Is(err, operation.ErrStale) {
			s.Errorf("reserve: %v", err)
		}
	})
	if made.Load() != 7 {
		s.Errorf("%d operations were reserved; want 7", made.Load())
	}
	slices.Sort(befores)
	want := []int64{19900, 39800, 59700, 79600, 99500, 119400, 139300}
	if !slices.Equal(befores[23:], want) {
		s.Errorf("balances before: %v; want each step once", befores[23:])
	}
	s.money("after seven", "0", "1393")
}

func mobileActivatedOnce(h *harness) {
	s := h.fixture("10000")
	other := *s
	other.operator = h.operator("other")
	s.topUp(other.operator, "10000")
	var made atomic.Int32
	concurrently(16, func(i int) {
		from := s
		if i%2 == 1 {
			from = &other
		}
		_, err := from.Reserve(s.Context(), from.activation(name("key", i), "9800000000", fmt.Sprintf("1000%02d", i)))
		if err == nil {
			made.Add(1)
		} else if !errors.Is(err, operation.ErrStale) {
			s.Errorf("reserve: %v", err)
		}
	})
	if made.Load() != 1 {
		s.Errorf("one mobile was activated %d times", made.Load())
	}
}

func oneOpenOperation(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	drafts := make([]operation.Draft, 16)
	for i := range drafts {
		drafts[i] = s.renewal(name("key", i), "100001")
	}
	var made atomic.Int32
	var winner atomic.Value
	concurrently(len(drafts), func(i int) {
		if op, err := s.Reserve(s.Context(), drafts[i]); err == nil {
			made.Add(1)
			winner.Store(op.ID)
		} else if !errors.Is(err, operation.ErrStale) {
			s.Errorf("reserve: %v", err)
		}
	})
	if made.Load() != 1 {
		s.Errorf("%d operations are open for one customer", made.Load())
	}
	// Even with a fresh snapshot there is no second one.
	if _, err := s.Reserve(s.Context(), s.renewal("late", "100001")); !errors.Is(err, operation.ErrStale) {
		s.Errorf("a second operation beside the open one: %v", err)
	}
	snapshot := s.snapshot(operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Renew, SubscriberID: "100001"})
	if open := snapshot.Subscriber.OpenOperation; open != winner.Load() {
		s.Errorf("the customer's open operation is %q; want %v, which was reserved", open, winner.Load())
	}
}

// openOperationInSnapshot: an activation is checked against the number's customer of
// any operator, and the snapshot says whose it is.
func openOperationInSnapshot(h *harness) {
	s := h.fixture("10000")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	of := func(operatorID int64) operation.Subscriber {
		return *s.snapshot(operation.SnapshotQuery{OperatorID: operatorID, Kind: operation.Activate, Mobile: "9800000001"}).Subscriber
	}
	for _, asks := range []int64{s.operator.ID, h.operator("other").ID} {
		if got := of(asks); got.OpenOperation != op.ID || got.OperatorID != s.operator.ID {
			s.Errorf("asked by operator %d: %+v; want %s open, operator %d's", asks, got, op.ID, s.operator.ID)
		}
	}
	s.settle(op, operation.NeedsReview)
	if got := of(s.operator.ID); got.OpenOperation != op.ID {
		s.Errorf("in review: %+v; want %s open", got, op.ID)
	}
	op.State = operation.NeedsReview
	s.settle(op, operation.Success)
	if got := of(s.operator.ID); got.OpenOperation != "" {
		s.Errorf("after its success: %+v; want none open", got)
	}
}

// customerGuards: a draft made beside an open operation would compute from an expiry
// that the operation changes.
func customerGuards(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	for _, outcome := range []operation.State{operation.Success, operation.Failed} {
		early := s.renewal("early-"+string(outcome), "100001")
		op := s.reserve(s.renewal("key-"+string(outcome), "100001"))
		if _, err := s.Reserve(s.Context(), early); !errors.Is(err, operation.ErrStale) {
			s.Errorf("a draft from before, while the operation is open: %v; want it moved", err)
		}
		s.settle(op, outcome)
		if _, err := s.Reserve(s.Context(), early); !errors.Is(err, operation.ErrStale) {
			s.Errorf("a draft from before an operation that ended as %s: %v; want it moved", outcome, err)
		}
	}
	s.money("after all that", "9602", "0")
}

func planVersionGuards(h *harness) {
	s := h.fixture("10000")
	old := s.activation("key-1", "9800000001", "100001")
	_, err := s.SetPlan(s.Context(), staffAction("plan set"), plan("BASIC-1", "299", "TV-BASIC"))
	s.must(err)
	if _, err := s.Reserve(s.Context(), old); !errors.Is(err, operation.ErrStale) {
		s.Errorf("at the old price: %v; want it moved", err)
	}
	s.must(s.RetirePlan(s.Context(), staffAction("plan retire"), "BASIC-1"))
	old.PlanVersion = 3
	if _, err := s.Reserve(s.Context(), old); !errors.Is(err, operation.ErrStale) {
		s.Errorf("a retired plan: %v; want it moved", err)
	}
}

func movedLeavesNoTrace(h *harness) {
	s := h.fixture("198.99")
	if _, err := s.Reserve(s.Context(), s.activation("key-1", "9800000001", "100001")); !errors.Is(err, operation.ErrStale) {
		s.Fatalf("a paisa short: %v; want it moved", err)
	}
	s.money("after a refusal", "198.99", "0")
	if _, found, err := s.OperationByKey(s.Context(), s.operator.ID, "key-1"); found || err != nil {
		s.Errorf("the key is taken: %v, %v", found, err)
	}
	if snapshot := s.snapshot(operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Activate, Mobile: "9800000001", SubscriberID: "100001"}); snapshot.Subscriber != nil || snapshot.FreeID != "100001" {
		s.Errorf("the number or the id is taken: %+v", snapshot)
	}
	s.topUp(s.operator, "0.01")
	s.reserve(s.activation("key-1", "9800000001", "100001"))
}

func reservationReadBack(h *harness) {
	s := h.fixture("10000")
	d := s.activation("key-1", "9800000001", "100001")
	d.Addon, d.AddonState = "OTT-PLUS", operation.AddonWaiting
	op := s.reserve(d)
	want := d.Operation
	want.WalletBefore, want.CommissionBPS = rupees("10000"), 250
	if fmt.Sprint(op) != fmt.Sprint(want) {
		s.Errorf("reserved\n%+v\nwant\n%+v", op, want)
	}
	h.reopen()
	for what, find := range map[string]func() (operation.Operation, bool, error){
		"by key": func() (operation.Operation, bool, error) {
			return s.OperationByKey(s.Context(), s.operator.ID, "key-1")
		},
		"by id": func() (operation.Operation, bool, error) {
			return s.OperationByID(s.Context(), s.operator.ID, op.ID)
		},
	} {
		read, found, err := find()
		if err != nil || !found || fmt.Sprint(read) != fmt.Sprint(want) {
			s.Errorf("%s: %v, %v\n%+v\nwant\n%+v", what, found, err, read, want)
		}
	}
}

func keyAndOffer(h *harness) {
	s := h.fixture("1000")
	query := operation.SnapshotQuery{
		OperatorID: s.operator.ID, IdempotencyKey: "key-1", Kind: operation.Activate, Mobile: "9800000001", SubscriberID: "100001",
		PlanID: s.plan.ID, Provider: "test",
	}
	snapshot := s.snapshot(query)
	if offer := snapshot.Offer; snapshot.KnownID != "" || !offer.Sellable || fmt.Sprint(offer.Plan) != fmt.Sprint(s.plan) || !offer.VerifiedAt.Equal(noon) {
		s.Errorf("of a new key and a plan on sale: %+v; want %+v verified at %s", snapshot, s.plan, noon)
	}
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	if snapshot := s.snapshot(query); snapshot.KnownID != op.ID {
		s.Errorf("the key stands for %q; want %s", snapshot.KnownID, op.ID)
	}
	stranger := query
	stranger.OperatorID = h.operator("stranger").ID
	if snapshot := s.snapshot(stranger); snapshot.KnownID != "" {
		s.Errorf("another operator's key stands for %s; want it to be new", snapshot.KnownID)
	}
	query.IdempotencyKey, query.Provider = "key-2", "another"
	if snapshot := s.snapshot(query); snapshot.KnownID != "" || !snapshot.Offer.VerifiedAt.IsZero() {
		s.Errorf("with a provider without a comparison: %+v", snapshot)
	}
	h.components("OTT-PLUS") // the provider has withdrawn the plan's component
	if snapshot := s.snapshot(query); snapshot.Offer.Sellable {
		s.Errorf("a plan that the provider no longer sells is on offer: %+v", snapshot.Offer)
	}
	h.components("TV-BASIC", "OTT-PLUS")
	s.must(s.RetirePlan(s.Context(), staffAction("plan retire"), s.plan.ID))
	if snapshot := s.snapshot(query); snapshot.Offer.Sellable {
		s.Errorf("a retired plan is on offer: %+v", snapshot.Offer)
	}
	query.PlanID = "NONE"
	if snapshot := s.snapshot(query); snapshot.Offer.Sellable {
		s.Errorf("an unknown plan is on offer: %+v", snapshot.Offer)
	}
}

func tenancy(h *harness) {
	s := h.fixture("1000")
	op := s.subscriber("100001", "9800000001")
	stranger := h.operator("stranger").ID
	if _, found, err := s.OperationByID(s.Context(), stranger, op.ID); found || err != nil {
		s.Errorf("by id: %v, %v", found, err)
	}
	if _, found, err := s.OperationByKey(s.Context(), stranger, op.IdempotencyKey); found || err != nil {
		s.Errorf("by key: %v, %v", found, err)
	}
	for _, by := range [][2]string{{"100001", ""}, {"", "9800000001"}} {
		if _, found, err := s.SubscriptionOf(s.Context(), stranger, by[0], by[1]); found || err != nil {
			s.Errorf("subscription %v: %v, %v", by, found, err)
		}
		if snapshot := s.snapshot(operation.SnapshotQuery{OperatorID: stranger, Kind: operation.Renew, SubscriberID: by[0], Mobile: by[1]}); snapshot.Subscriber != nil {
			s.Errorf("snapshots %v show another operator's customer", by)
		}
	}
	// The number is unique in the whole service, and an activation sees that.
	if snapshot := s.snapshot(operation.SnapshotQuery{OperatorID: stranger, Kind: operation.Activate, Mobile: "9800000001"}); snapshot.Subscriber == nil {
		s.Error("an activation does not see that the number is taken")
	}
}

func preferredID(h *harness) {
	s := h.fixture("10000")
	ask := func(preferred string) string {
		return s.snapshot(operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Activate, Mobile: "9800000009", SubscriberID: preferred}).FreeID
	}
	if got := ask("123456"); got != "123456" {
		s.Errorf("a free id: %s; want it given", got)
	}
	s.reserve(s.activation("key-1", "9800000001", "123456"))
	for _, preferred := range []string{"123456", ""} {
		if got := ask(preferred); len(got) != 6 || got == "123456" || strings.Trim(got, "0123456789") != "" {
			s.Errorf("preferring %q: %s; want another of six digits", preferred, got)
		}
	}
}

func duplicates(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	query := operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Renew, SubscriberID: "100001", PlanID: s.plan.ID, DuplicatesSince: noon}
	if got := s.snapshot(query).Duplicate; got != "" {
		s.Errorf("an activation counts as a duplicate: %s", got)
	}
	s.settle(s.reserve(s.renewal("failed", "100001")), operation.Failed)
	if got := s.snapshot(query).Duplicate; got != "" {
		s.Errorf("a failed renewal counts as a duplicate: %s", got)
	}
	op := s.settle(s.reserve(s.renewal("renew-1", "100001")), operation.Success)
	if got := s.snapshot(query).Duplicate; got != op.ID {
		s.Errorf("the duplicate is %q; want %s", got, op.ID)
	}
	other := query
	other.PlanID = "OTHER-1"
	if got := s.snapshot(other).Duplicate; got != "" {
		s.Errorf("another plan's renewal counts: %s", got)
	}
	query.DuplicatesSince = op.CompletedAt
	if got := s.snapshot(query).Duplicate; got != "" {
		s.Errorf("one that completed at that very moment counts: %s", got)
	}
}

// renewedWith renews subscriber 100001 with a plan, completed at a time.
func (s *fixture) renewedWith(plan subscription.Plan, key string, at time.Time) operation.Operation {
	s.Helper()
	d := s.renewal(key, "100001")
	d.PlanID, d.PlanVersion, d.PlanName = plan.ID, plan.Version, plan.Name
	st := settlement(s.reserve(d), operation.Success)
	st.At = at
	op, did, err := s.Settle(s.Context(), st)
	s.must(err)
	if !did {
		s.Fatalf("%s was not settled", key)
	}
	return op
}

func duplicateBehindAnother(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	gold, err := s.SetPlan(s.Context(), staffAction("plan set"), plan("GOLD-1", "199", "TV-BASIC"))
	s.must(err)
	first := s.renewedWith(s.plan, "renew-1", noon.Add(10*time.Second))
	second := s.renewedWith(gold, "renew-2", noon.Add(20*time.Second))
	for _, row := range []struct {
		plan  subscription.Plan
		since time.Time
		want  string
	}{
		{s.plan, noon, first.ID},
		{gold, noon, second.ID},
		{s.plan, noon.Add(10 * time.Second), ""},
		{gold, noon.Add(10 * time.Second), second.ID},
		{gold, noon.Add(20 * time.Second), ""},
	} {
		for _, kind := range []operation.Kind{operation.Renew, operation.AdvanceRenew} {
			got := s.snapshot(operation.SnapshotQuery{
				OperatorID: s.operator.ID, Kind: kind, SubscriberID: "100001", PlanID: row.plan.ID, DuplicatesSince: row.since,
			}).Duplicate
			if got != row.want {
				s.Errorf("%s of %s since %s: %q; want %q", kind, row.plan.ID, row.since, got, row.want)
			}
		}
	}
	// The last one was stamped by a slow clock.
	s.renewedWith(gold, "renew-3", noon.Add(5*time.Second))
	query := operation.SnapshotQuery{
		OperatorID: s.operator.ID, Kind: operation.Renew, SubscriberID: "100001", PlanID: gold.ID, DuplicatesSince: noon.Add(10 * time.Second),
	}
	if got := s.snapshot(query).Duplicate; got != second.ID {
		s.Errorf("behind one of an earlier moment: %q; want %q", got, second.ID)
	}
}

func cyclesInSnapshot(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	gold, err := s.SetPlan(s.Context(), staffAction("plan set"), plan("GOLD-1", "199", "TV-BASIC"))
	s.must(err)
	s.renewedWith(gold, "renew-1", noon.Add(10*time.Second))
	s.renewedWith(s.plan, "renew-2", noon.Add(20*time.Second))
	looked, _, err := s.SubscriptionOf(s.Context(), s.operator.ID, "100001", "")
	s.must(err)
	for _, who := range []operation.SnapshotQuery{{SubscriberID: "100001"}, {Mobile: "9800000001"}} {
		who.OperatorID, who.Kind, who.PlanID, who.DuplicatesSince = s.operator.ID, operation.AdvanceRenew, s.plan.ID, noon
		got := s.snapshot(who).Cycles
		var plans []string
		for _, cycle := range got {
			plans = append(plans, cycle.PlanID)
		}
		if want := []string{"BASIC-1", "GOLD-1", "BASIC-1"}; !slices.Equal(plans, want) || !slices.Equal(got, looked.Cycles) {
			s.Errorf("the cycles are %+v, and %+v to a look-up; want those of %v", got, looked.Cycles, want)
		}
	}
}

func subscriptionLookup(h *harness) {
	s := h.fixture("10000")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	sub, found, err := s.SubscriptionOf(s.Context(), s.operator.ID, "", "9800000001")
	s.must(err)
	if !found || !sub.Expires.IsZero() || !sub.CreatedAt.IsZero() || len(sub.Pending) != 1 || sub.Pending[0].ID != op.ID ||
		sub.Plans["BASIC-1"] != "Plan BASIC-1" || sub.Email != "a@example.com" || sub.Provider != "test" {
		s.Errorf("while it runs: %v %+v", found, sub)
	}
	s.settle(op, operation.Success)
	sub, _, err = s.SubscriptionOf(s.Context(), s.operator.ID, "100001", "ignored")
	s.must(err)
	if len(sub.Pending) != 0 || sub.OpenOperation != "" || len(sub.Cycles) != 1 || sub.Plans["BASIC-1"] != "Plan BASIC-1" || sub.Provider != "test" {
		s.Errorf("after it: %+v", sub)
	}
	gold, err := s.SetPlan(s.Context(), staffAction("plan set"), plan("GOLD-1", "199", "TV-BASIC"))
	s.must(err)
	renewal := s.renewal("renew-1", "100001")
	renewal.PlanID, renewal.PlanVersion, renewal.PlanName, renewal.Provider = gold.ID, gold.Version, gold.Name, "other"
	op = s.reserve(renewal)
	sub, _, err = s.SubscriptionOf(s.Context(), s.operator.ID, "100001", "")
	s.must(err)
	if len(sub.Pending) != 1 || sub.Pending[0].ID != op.ID || sub.OpenOperation != op.ID || len(sub.Cycles) != 1 || sub.Provider != "other" ||
		sub.Plans["BASIC-1"] != "Plan BASIC-1" || sub.Plans["GOLD-1"] != "Plan GOLD-1" {
		s.Errorf("while a renewal runs: %+v", sub)
	}
}
