package audit_test

import (
	"context"
	"errors"
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

// opening is when every shop opens.
var opening = time.Date(2027, 3, 1, 12, 0, 0, 0, subscription.IST).UTC()

// shop is a store at work: a real one, the real processor, the real service of
// staff. Only the provider and the clock are the test's own.
type shop struct {
	testing.TB
	place     string
	store     shopStore
	vault     *access.Vault
	service   *admin.Service
	processor *operation.Processor

	mu      sync.Mutex
	now     time.Time
	tick    time.Duration // what a look at the clock costs
	verdict func(operation.Order) operation.Outcome
	dies    bool // the node dies before it can write what the provider said
	keys    map[string]string
}

func openShop(t testing.TB, path string) *shop {
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
	s := &shop{TB: t, place: path, store: store, vault: vault, now: opening, keys: map[string]string{}}
	s.service = admin.NewService(store, vault, "cli:asha", s.clock)
	s.processor = operation.NewProcessor(mortal{store, s}, s.prices(), s, operation.NewBreaker(nil), s.config(subscription.ThirtyDays))
	return s
}

// prices is the catalogue as it was once compared; that is long enough ago here.
func (s *shop) prices() *catalogue.Catalogue {
	return catalogue.New(s.store, nil, catalogue.Config{Now: s.clock, Provider: "test", MaxAge: 100 * 365 * 24 * time.Hour})
}

func (s *shop) config(term subscription.ActivationTerm) operation.Config {
	return operation.Config{
		Now: s.clock, Node: "node-1", ProviderName: "test", Timeout: 20 * time.Second, FirstCheck: 10 * time.Second, ActivationTerm: term,
		Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1},
	}
}

// mortal is a store whose node may die between the two commits.
type mortal struct {
	operation.Store
	s *shop
}

func (m mortal) Settle(ctx context.Context, st operation.Settlement) (operation.Operation, bool, error) {
	if m.s.dies {
		return operation.Operation{}, false, errors.New("the node died")
	}
	return m.Store.Settle(ctx, st)
}

func (s *shop) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(s.tick)
	return s.now
}

// pass lets time go by.
func (s *shop) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *shop) Apply(_ context.Context, order operation.Order) operation.Reply {
	if s.tick == 0 {
		s.pass(time.Second)
	}
	answer := operation.Reply{Outcome: s.verdict(order)}
	if answer.Outcome == operation.Confirmed {
		answer.Transaction = "P-" + order.Reference
	}
	if strings.HasSuffix(order.Reference, "-2") {
		answer.Outcome = operation.Rejected // no add-on ever works here
	}
	return answer
}

func (s *shop) Status(context.Context, operation.Order) operation.Reply { return operation.Reply{} }
func (s *shop) Void(context.Context, operation.Order) operation.Reply   { return operation.Reply{} }

func must[T any](s *shop) func(T, error) T {
	return func(value T, err error) T {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		return value
	}
}

func (s *shop) ok(err error) {
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

// order makes one operation, named by its key, that ends in success, failed or
// review, or whose node dies over it.
func (s *shop) order(operator int64, kind operation.Kind, key, plan, customer, end string) {
	s.Helper()
	s.orderBy(s.processor, operation.API, operator, kind, key, plan, customer, end)
}

func (s *shop) orderBy(processor *operation.Processor, channel operation.Channel, operator int64, kind operation.Kind, key, plan, customer, end string) {
	s.Helper()
	s.dies = end == "dies"
	s.verdict = func(operation.Order) operation.Outcome {
		return map[string]operation.Outcome{"success": operation.Confirmed, "failed": operation.Rejected}[end]
	}
	result, err := processor.Process(s.Context(), request(channel, operator, kind, key, plan, customer))
	if end != "dies" {
		s.ok(err)
	}
	op, found, err := s.store.OperationByKey(s.Context(), operator, key)
	if err != nil || !found {
		s.Fatalf("%s: %v, %v, %+v", key, found, err, result)
	}
	s.keys[key] = op.ID
	s.pass(5 * time.Minute)
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

// settle has a person end what was in review.
func (s *shop) settle(key string, confirm bool) {
	s.Helper()
	must[operation.Operation](s)(s.service.SettleReview(s.Context(), s.keys[key], confirm, "a person looked"))
	s.pass(time.Minute)
}

// healthy is a closed shop's place, its moment of closing, and its operations by
// their keys.
type healthy struct {
	path string
	now  time.Time
	keys map[string]string
	// settings is what the audit of it is told.
	settings audit.Settings
}

// audited audits the shop, as it was set up to be.
func (s healthy) audited(t testing.TB) (audit.Report, error) {
	t.Helper()
	db := peek(t, s.path)
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
	template healthy
	forget   = func() {}
)

// closedShop furnishes a shop once; every test gets a copy of its place.
func closedShop(t testing.TB) healthy {
	t.Helper()
	once.Do(func() {
		place, remove, err := keptPlace()
		if err != nil {
			t.Fatal(err)
		}
		forget = remove
		s := openShop(t, place)
		s.furnish()
		s.trade()
		template = healthy{path: place, now: s.clock(), keys: s.keys}
		s.ok(s.store.Close())
	})
	if template.path == "" {
		t.Fatal("the shop could not be furnished")
	}
	copied := template
	copied.path = copyPlace(t, template.path)
	return copied
}

func TestMain(m *testing.M) {
	code := m.Run()
	forget()
	pgtest.StopShared()
	os.Exit(code)
}

// audited audits a place as the command does.
func audited(t testing.TB, path string, now time.Time) (audit.Report, error) {
	t.Helper()
	db := peek(t, path)
	defer db.Close()
	return audit.Run(t.Context(), snapshot(t, db), now, nil)
}
