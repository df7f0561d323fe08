package audit_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/subscription"
)

// opening is the start of every fixture's time.
var opening = time.Date(2027, 3, 1, 12, 0, 0, 0, subscription.IST).UTC()

// testEnv is a real store with the real processor and staff service. Only the provider and
// the clock are fakes.
type testEnv struct {
	testing.TB
	path      string
	store     testStore
	vault     *access.Vault
	service   *admin.Service
	processor *operation.Processor

	mu      sync.Mutex
	now     time.Time
	tick    time.Duration // how far each reading advances the clock
	outcome func(operation.Order) operation.Outcome
	crashes bool // the node crashes before it can settle
	keys    map[string]string
}

func openEnv(t testing.TB, path string) *testEnv {
	t.Helper()
	store, err := openStore(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	vault, err := access.OpenVault(text)
	if err != nil {
		t.Fatal(err)
	}
	s := &testEnv{TB: t, path: path, store: store, vault: vault, now: opening, keys: map[string]string{}}
	s.service = admin.NewService(store, vault, "cli:asha", s.clock)
	s.processor = operation.NewProcessor(crashableStore{store, s}, s.prices(), s, operation.NewBreaker(nil), s.config(subscription.ThirtyDays))
	return s
}

// prices is a catalogue that was compared once, with a very large MaxAge.
func (s *testEnv) prices() *catalogue.Catalogue {
	return catalogue.New(s.store, nil, catalogue.Config{Now: s.clock, Provider: "test", MaxAge: 100 * 365 * 24 * time.Hour})
}

func (s *testEnv) config(term subscription.ActivationTerm) operation.Config {
	return operation.Config{
		Now: s.clock, Node: "node-1", ProviderName: "test", Timeout: 20 * time.Second, FirstCheck: 10 * time.Second, ActivationTerm: term,
		Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1},
	}
}

// crashableStore is a store whose node may crash between the two commits.
type crashableStore struct {
	operation.Store
	s *testEnv
}

func (m crashableStore) Settle(ctx context.Context, st operation.Settlement) (operation.Operation, bool, error) {
	if m.s.crashes {
		return operation.Operation{}, false, errors.New("the node crashed")
	}
	return m.Store.Settle(ctx, st)
}

func (s *testEnv) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(s.tick)
	return s.now
}

// advance advances the clock.
func (s *testEnv) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *testEnv) Apply(_ context.Context, order operation.Order) operation.Reply {
	if s.tick == 0 {
		s.advance(time.Second)
	}
	answer := operation.Reply{Outcome: s.outcome(order)}
	if answer.Outcome == operation.Confirmed {
		answer.Transaction = "P-" + order.Reference
	}
	if strings.HasSuffix(order.Reference, "-2") {
		answer.Outcome = operation.Rejected // every add-on is rejected here
	}
	return answer
}

func (s *testEnv) Status(context.Context, operation.Order) operation.Reply { return operation.Reply{} }
func (s *testEnv) Void(context.Context, operation.Order) operation.Reply   { return operation.Reply{} }

func must[T any](s *testEnv) func(T, error) T {
	return func(value T, err error) T {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		return value
	}
}

func (s *testEnv) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func rupees(text string) money.Amount {
	amount, err := money.Parse(text)
	if err != nil {
		panic(err)
	}
	return amount
}

// order makes one operation, named by its key, that ends in success, failed or review, or
// whose node crashes.
func (s *testEnv) order(operator int64, kind operation.Kind, key, plan, customer, end string) {
	s.Helper()
	s.orderBy(s.processor, operation.API, operator, kind, key, plan, customer, end)
}

func (s *testEnv) orderBy(processor *operation.Processor, channel operation.Channel, operator int64, kind operation.Kind, key, plan, customer, end string) {
	s.Helper()
	s.crashes = end == "crash"
	s.outcome = func(operation.Order) operation.Outcome {
		return map[string]operation.Outcome{"success": operation.Confirmed, "failed": operation.Rejected}[end]
	}
	result, err := processor.Process(s.Context(), request(channel, operator, kind, key, plan, customer))
	if end != "crash" {
		s.ok(err)
	}
	op, found, err := s.store.OperationByKey(s.Context(), operator, key)
	if err != nil || !found {
		s.Fatalf("%s: %v, %v, %+v", key, found, err, result)
	}
	s.keys[key] = op.ID
	s.advance(5 * time.Minute)
}

func request(channel operation.Channel, operator int64, kind operation.Kind, key, plan, customer string) operation.Request {
	fields := map[string]string{"subscriber_id": customer, "plan_id": plan}
	if kind == operation.Activate {
		fields["full_name"], fields["mobile"] = "Customer "+customer, "9876"+customer
	}
	actor := "api:key 1"
	if channel == operation.Web {
		actor = "web:asha"
	}
	return operation.Request{
		OperatorID: operator, Channel: channel, Actor: actor, IdempotencyKey: key, Kind: kind, Fields: fields, Content: []byte(key),
	}
}

// settle settles an operation in review by hand.
func (s *testEnv) settle(key string, confirm bool) {
	s.Helper()
	must[operation.Operation](s)(s.service.SettleReview(s.Context(), s.keys[key], confirm, "a person looked"))
	s.advance(time.Minute)
}

// fixture is a store's path, the time of its audit, and its operations by their keys.
type fixture struct {
	path string
	now  time.Time
	keys map[string]string
	// settings are those of its audit.
	settings audit.Settings
}

// audited audits the fixture with its settings.
func (s fixture) audited(t testing.TB) (audit.Report, error) {
	t.Helper()
	db := openReadOnly(t, s.path)
	defer db.Close()
	tx := begin(t, db)
	defer tx.Rollback() // it would stand in the way of further damage
	snapshot := audit.Snapshot(tx)
	if pgtest.Chosen() {
		snapshot = audit.Postgres(tx)
	}
	return s.settings.Run(t.Context(), snapshot, s.now, nil)
}

var (
	once     sync.Once
	template fixture
	forget   = func() {}
)

// healthyStore sets up a store once; every test gets a copy.
func healthyStore(t testing.TB) fixture {
	t.Helper()
	once.Do(func() {
		path, remove, err := persistentStore()
		if err != nil {
			t.Fatal(err)
		}
		forget = remove
		s := openEnv(t, path)
		s.setUp()
		s.trade()
		template = fixture{path: path, now: s.clock(), keys: s.keys}
		s.ok(s.store.Close())
	})
	if template.path == "" {
		t.Fatal("the fixture could not be set up")
	}
	copied := template
	copied.path = copyStore(t, template.path)
	return copied
}

// healthyEnv returns a healthyStore and an environment that goes on working in it.
func healthyEnv(t testing.TB) (fixture, *testEnv) {
	t.Helper()
	healthy := healthyStore(t)
	s := openEnv(t, healthy.path)
	healthy.keys = maps.Clone(healthy.keys) // the other stores have them, too
	s.now, s.keys = healthy.now, healthy.keys
	return healthy, s
}

func TestMain(m *testing.M) {
	code := m.Run()
	forget()
	pgtest.StopShared()
	os.Exit(code)
}

// audited audits a store as the command does.
func audited(t testing.TB, path string, now time.Time) (audit.Report, error) {
	t.Helper()
	db := openReadOnly(t, path)
	defer db.Close()
	return audit.Run(t.Context(), snapshot(t, db), now, nil)
}
