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

// willing is a provider that confirms everything, and counts.
type willing struct {
	applied atomic.Int32
	// during is what happens while an order is under way; status answers what is
	// asked about one, in turn.
	during func(operation.Order)
	status []operation.Reply
	asked  int
	silent bool // it carries out nothing, and says nothing
	reject bool // it carries out nothing, and says so
	misfit bool // it answers about something else
	void   *operation.Reply
	voids  int
}

func (p *willing) Apply(_ context.Context, order operation.Order) operation.Reply {
	if p.during != nil {
		p.during(order)
	}
	if p.silent {
		return operation.Reply{}
	}
	if p.misfit {
		return operation.Reply{Mismatch: true, Detail: "it is about CX-OTHER"}
	}
	if p.reject {
		return operation.Reply{Outcome: operation.Rejected, Message: "No."}
	}
	return operation.Reply{Outcome: operation.Confirmed, Transaction: fmt.Sprintf("P-%d", p.applied.Add(1))}
}

func (p *willing) Status(context.Context, operation.Order) operation.Reply {
	p.asked++
	return p.status[min(p.asked, len(p.status))-1]
}

func (p *willing) Void(context.Context, operation.Order) operation.Reply {
	p.voids++
	if p.void != nil {
		return *p.void
	}
	return operation.Reply{Outcome: operation.Rejected}
}

// troubled is a real store whose commits can be told to lose their answer, before
// or after they took hold.
type troubled struct {
	*sqlite.DB
	beforeFacts   func()
	beforeReserve func()
	reserve       []string // what befalls each call: lost, undone, or nothing
	settle        []string
	reserved, set int
	away          int // how many calls from now on find nobody
	unseen        int // how many looks from now on come before the commit
	seen          operation.Snapshot
	// late is how far the clock has gone on; committing is called when a
	// reservation has taken hold.
	late       time.Duration
	committing func()
	settled    func() // called when a settlement has taken hold
}

var (
	errCut  = fmt.Errorf("%w: the connection was cut", operation.ErrAmbiguous)
	errAway = fmt.Errorf("%w: nobody is there", operation.ErrUnavailable)
)

func (s *troubled) isAway() bool {
	s.away--
	return s.away >= 0
}

func (s *troubled) OperationByKey(ctx context.Context, operatorID int64, key string) (operation.Operation, bool, error) {
	if s.isAway() {
		return operation.Operation{}, false, errAway
	}
	return s.DB.OperationByKey(ctx, operatorID, key)
}

func (s *troubled) ExtendLease(ctx context.Context, id string, epoch int64, until time.Time) (bool, error) {
	if s.isAway() {
		return false, errAway
	}
	return s.DB.ExtendLease(ctx, id, epoch, until)
}

func (s *troubled) Snapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	if f := s.beforeFacts; f != nil {
		s.beforeFacts = nil
		f()
	}
	if s.isAway() {
		return operation.Snapshot{}, errAway
	}
	if s.unseen--; s.unseen >= 0 {
		return s.seen, nil
	}
	facts, err := s.DB.Snapshot(ctx, q)
	s.seen = facts
	return facts, err
}

func (s *troubled) Reserve(ctx context.Context, d operation.Draft) (operation.Operation, error) {
	if f := s.beforeReserve; f != nil {
		s.beforeReserve = nil
		f()
	}
	if s.isAway() {
		return operation.Operation{}, errAway
	}
	fate := next(s.reserve, &s.reserved)
	if fate, s.away = thenAway(fate); fate == "undone" {
		return operation.Operation{}, errCut
	}
	if fate == "lost, and done late" {
		// The server is still at it when the key is looked up.
		fate, s.unseen = "lost", 1
	}
	op, err := s.DB.Reserve(ctx, d)
	if s.committing != nil {
		s.committing()
	}
	if fate == "lost" && err == nil {
		return operation.Operation{}, errCut
	}
	return op, err
}

func (s *troubled) Settle(ctx context.Context, st operation.Settlement) (operation.Operation, bool, error) {
	if s.isAway() {
		return operation.Operation{}, false, errAway
	}
	fate := next(s.settle, &s.set)
	if fate, s.away = thenAway(fate); fate == "undone" {
		return operation.Operation{}, false, errCut
	}
	op, did, err := s.DB.Settle(ctx, st)
	if s.settled != nil {
		s.settled()
	}
	if fate == "lost" && err == nil {
		return operation.Operation{}, false, errCut
	}
	return op, did, err
}

// thenAway reads a fate such as "lost, then away": the server that had the answer
// is gone, and the next one takes a moment.
func thenAway(fate string) (string, int) {
	before, away := strings.CutSuffix(fate, ", then away")
	if !away {
		return fate, 0
	}
	return before, 4
}

func next(fates []string, at *int) string {
	*at++
	if *at <= len(fates) {
		return fates[*at-1]
	}
	return ""
}

// shop is a processor on a real store, with an operator who has money.
type shop struct {
	*operation.Processor
	store    *troubled
	provider *willing
	operator int64
	path     string // of the store
}

func newShop(t *testing.T) *shop {
	t.Helper()
	path := sqlitetest.NewFile(t)
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store, provider := &troubled{DB: db}, &willing{}
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
	operator, err := service.CreateOperator(t.Context(), "shop", admin.OperatorChange{})
	must(err)
	_, _, err = service.TopUp(t.Context(), admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(1000_00), Reference: "r"})
	must(err)
	prices := catalogue.New(db, nil, catalogue.Config{Now: now, Provider: "test", MaxAge: time.Hour})
	return &shop{
		Processor: operation.NewProcessor(store, prices, provider, operation.NewBreaker(nil), operation.Config{
			Now: now, Node: "node", ProviderName: "test", Timeout: time.Second, FirstCheck: time.Second, ActivationTerm: subscription.ThirtyDays,
			Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1},
		}),
		store: store, provider: provider, operator: operator.ID, path: path,
	}
}

func (s *shop) request(kind operation.Kind, key string, fields map[string]string) operation.Request {
	return operation.Request{
		OperatorID: s.operator, Channel: operation.API, Actor: "api:key 1", IdempotencyKey: key, Kind: kind,
		Fields: fields, Content: fmt.Append(nil, fields),
	}
}

func (s *shop) balance(t *testing.T) string {
	t.Helper()
	wallet, err := s.store.Wallet(t.Context(), s.operator)
	if err != nil {
		t.Fatal(err)
	}
	return wallet.Balance.String() + " held " + wallet.Held.String()
}

// A twin of the request gets in before the facts are read, which then show what
// the twin did, or after that and before the reservation, which then finds the key
// taken. It is a replay all the same.
func TestATwinThatGetsInBetweenIsAReplayNotARefusal(t *testing.T) {
	s := newShop(t)
	for i, when := range []*func(){&s.store.beforeFacts, &s.store.beforeReserve} {
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

// source is a provider's catalogue, before whose answer something else happens.
type source struct{ before func() }

func (s source) Catalogue(context.Context) ([]catalogue.Component, error) {
	s.before()
	return []catalogue.Component{{Code: "TV", Name: "TV", Role: catalogue.Main}}, nil
}

// While prices are being verified the wallet gets money and the plan another price.
// A balance from before that is not held against a price from after it.
func TestPricesThatHadToBeVerifiedAreJudgedWithFactsOfTheSameMoment(t *testing.T) {
	s := newShop(t)
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

// Commits that lose their answer, before or after they took hold: one charge,
// one order, or an honest failure.
func TestACommitThatLosesItsAnswerChargesOnce(t *testing.T) {
	rows := []struct {
		name            string
		reserve, settle []string
		want            fault.Code
		balance         string
		applied         int32
	}{
		{"reserve, after it took hold", []string{"lost"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, as it took hold", []string{"lost, and done late"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, before it took hold", []string{"undone"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, twice undone and then lost", []string{"undone", "undone", "lost"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, for good", []string{"undone", "undone", "undone", "undone"}, nil, fault.ServiceUnavailable, "1000.00 held 0.00", 0},
		{"settle, after it took hold", nil, []string{"lost"}, fault.OK, "801.00 held 0.00", 1},
		{"settle, before it took hold", nil, []string{"undone", "undone"}, fault.OK, "801.00 held 0.00", 1},
		{"settle, for good", nil, []string{"undone", "undone", "undone"}, fault.InternalError, "801.00 held 199.00", 1},
		{"both", []string{"lost"}, []string{"lost"}, fault.OK, "801.00 held 0.00", 1},
		{"reserve, after it took hold, and the server with it", []string{"lost, then away"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"reserve, before it took hold, and the server with it", []string{"undone, then away"}, nil, fault.OK, "801.00 held 0.00", 1},
		{"settle, after it took hold, and the server with it", nil, []string{"lost, then away"}, fault.OK, "801.00 held 0.00", 1},
		{"settle, before it took hold, and the server with it", nil, []string{"undone, then away"}, fault.OK, "801.00 held 0.00", 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newShop(t)
			s.store.reserve, s.store.settle = row.reserve, row.settle
			r := s.request(operation.Activate, "doubtful-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"})
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

// A reservation whose commit takes longer than its lease may be somebody else's by
// the time it is there: the provider is called only by who still has it.
func TestAReservationThatOutlastsItsLeaseIsConfirmedFirst(t *testing.T) {
	for name, row := range map[string]struct {
		taken   bool
		want    fault.Code
		applied int32
	}{
		"nobody took it":   {false, fault.OK, 1},
		"another node did": {true, fault.RequestInProgress, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
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

// Who hangs up while a reservation outlasts its lease changes nothing: the money
// has moved, and the node that moved it still has the operation.
func TestHangingUpOnASlowReservationDoesNotLeaveItBehind(t *testing.T) {
	s := newShop(t)
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

// In doubt about its reservation, a request is carried through even if its
// caller hangs up: the money may have moved.
func TestInDoubtTheCallersHangingUpNoLongerCounts(t *testing.T) {
	s := newShop(t)
	ctx, hangUp := context.WithCancel(t.Context())
	s.store.reserve = []string{"lost"}
	s.store.beforeFacts = func() { defer hangUp() }
	r := s.request(operation.Activate, "hang-up-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"})
	if _, err := s.Process(ctx, r); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := s.balance(t); got != "801.00 held 0.00" && got != "1000.00 held 0.00" {
		t.Errorf("the wallet has %s; want the money charged or untouched, never left held", got)
	}
}

// While a node sleeps over a call, another takes its operation over and settles
// it. The sleeper wakes up with a success: nothing is settled twice, and where its
// word goes against what was settled, a person is told.
func TestASleeperSettlesNothingAndItsWordIsKept(t *testing.T) {
	rows := []struct {
		name   string
		to     operation.State
		as     string // the provider's number that the other node was given
		reject bool   // what the sleeper is told
		want   []operation.ExceptionKind
	}{
		{"settled alike", operation.Success, "P-1", false, nil},
		{"settled under another number", operation.Success, "P-other", false, []operation.ExceptionKind{operation.DuplicateEffect}},
		{"refunded", operation.Failed, "", false, []operation.ExceptionKind{operation.LateSuccess}},
		{"charged, and rejected", operation.Success, "P-1", true, []operation.ExceptionKind{operation.RejectedAfterSuccess}},
		{"refunded, and rejected", operation.Failed, "", true, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newShop(t)
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
			result, err := s.Process(t.Context(), s.request(operation.Activate, "sleepy-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
			if err != nil || result.State != row.to || result.Password != "" && row.to == operation.Failed {
				t.Errorf("the sleeper answers %s, %v; want what the other decided", result.State, err)
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

// A provider that first does not know an operation and then does is believed when
// it does; one that keeps not knowing is believed after the set time, and told
// never to carry it out before the refund.
func TestNotKnownIsBelievedOnlyAfterAWhile(t *testing.T) {
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
			s := newShop(t)
			s.provider.status, s.provider.silent = row.answers, true
			result, err := s.Process(t.Context(), s.request(operation.Activate, "doubtful-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
			if err != nil || result.State != operation.NeedsReview {
				t.Fatalf("%s, %v; want it in review", result.State, err)
			}
			now, op := noon, result.Operation
			reviewer := operation.NewReviewer(s.store, s.provider, operation.ReviewConfig{
				Now: func() time.Time { return now }, Node: "node", Timeout: time.Second, FirstCheck: 10 * time.Second,
				MaxInterval: 10 * time.Minute, RefundAfter: 2 * time.Minute, Problem: func(err error) { t.Error(err) },
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
				t.Errorf("believed after %s", settledAt)
			}
		})
	}
}

// The store is gone as soon as the settlement has taken hold: the password that was
// made up is given all the same, and the mismatch is in the store.
func TestProcess_MismatchDoesNotLoseThePassword(t *testing.T) {
	s := newShop(t)
	s.provider.misfit = true
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
