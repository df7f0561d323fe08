package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/sqlitetest"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.StopShared()
	os.Exit(code)
}

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, subscription.IST)

// timeout is how long the gateway waits for the simulator, in real time.
const timeout = 2 * time.Second

// testStore is the store of a testEnv.
type testStore interface {
	admin.Store
	catalogue.Store
	operation.ReviewStore
	bulk.Store
	Close() error
}

// testEnv is a store, a provider and an operator with subscribers. The clock stands still
// unless a test advances it.
type testEnv struct {
	testing.TB
	store     testStore
	reopen    func() testStore
	several   bool // the store takes several nodes
	simulator *simulator.Simulator
	address   string
	gateway   *gateway.Gateway
	breaker   *operation.Breaker
	operator  subscription.Operator
	staff     *admin.Service
	passed    atomic.Int64
	customers int
}

// onBothStores runs a test on each store.
func onBothStores(t *testing.T, run func(*testEnv)) {
	t.Run("SQLite", func(t *testing.T) {
		path := sqlitetest.NewFile(t)
		run(newEnv(t, func() (testStore, error) { return sqlite.Open(t.Context(), path, sqlite.Options{}) }))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		address := pgtest.NewDatabase(t)
		env := newEnv(t, func() (testStore, error) {
			return postgres.Open(t.Context(), address+"&pool_max_conns=8", postgres.Options{})
		})
		env.several = true
		run(env)
	})
}

func newEnv(t testing.TB, open func() (testStore, error)) *testEnv {
	t.Helper()
	env := &testEnv{TB: t}
	env.reopen = func() testStore {
		t.Helper()
		store, err := open()
		env.must(err)
		return store
	}
	env.store = env.reopen()
	t.Cleanup(func() { _ = env.store.Close() })

	var err error
	env.simulator, err = simulator.New(simulator.Config{SlowFor: 100 * time.Millisecond})
	env.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	env.must(err)
	go func() { _ = env.simulator.Serve(listener) }()
	t.Cleanup(func() { _ = env.simulator.Shutdown(context.Background()) })
	env.address = "http://" + listener.Addr().String()
	env.gateway, err = gateway.New(gateway.Config{URL: env.address, Timeout: timeout})
	env.must(err)
	t.Cleanup(env.gateway.Close)
	env.breaker = operation.NewBreaker(env.gateway.Probe)

	components, err := env.gateway.Catalogue(t.Context())
	env.must(err)
	env.must(env.store.RecordComparison(t.Context(), catalogue.Comparison{Provider: "test", At: noon, Components: components}))
	env.staff = admin.NewService(env.store, nil, "test", env.now)
	for id, rupees := range map[string]int64{"BASIC-1": 199, "FAMILY-1": 349} {
		_, err := env.staff.SetPlan(t.Context(), subscription.Plan{ID: id, Name: id, Price: money.Paise(rupees * 100), Months: 1, Type: subscription.Standard, Main: "TV-BASIC"})
		env.must(err)
	}
	env.operator, err = env.staff.CreateOperator(t.Context(), "asha", admin.OperatorChange{})
	env.must(err)
	return env
}

func (env *testEnv) must(err error) {
	env.Helper()
	if err != nil {
		env.Fatal(err)
	}
}

func (env *testEnv) now() time.Time          { return noon.Add(time.Duration(env.passed.Load())) }
func (env *testEnv) advance(d time.Duration) { env.passed.Add(int64(d)) }

func (env *testEnv) topUp(rupees int64, reference string) {
	env.Helper()
	_, _, err := env.staff.TopUp(env.Context(), admin.TopUp{OperatorID: env.operator.ID, Amount: money.Paise(rupees * 100), Reference: reference})
	env.must(err)
}

// subscribers imports subscribers with BASIC-1 and returns their ids. The digit S of a
// mobile 90000Sxxxx selects the simulator's scenario.
func (env *testEnv) subscribers(scenarios ...int) (ids []string) {
	env.Helper()
	file := "lco,subscriber_id,mobile,name,plan_id,expiry\n"
	for _, scenario := range scenarios {
		env.customers++
		id := fmt.Sprintf("%06d", 100000+env.customers)
		ids = append(ids, id)
		file += fmt.Sprintf("%d,%s,90000%d%04d,Customer %d,BASIC-1,2027-03-20\n", env.operator.ID, id, scenario, env.customers, env.customers)
	}
	report, err := env.staff.ImportSubscribers(env.Context(), strings.NewReader(file), false, func(int, int) {})
	if err != nil || report.Added != len(scenarios) {
		env.Fatalf("imported %+v, %v", report, err)
	}
	return ids
}

// processor returns a node's processor, on a store that may be failing.
func (env *testEnv) processor(on operation.Store) *operation.Processor {
	prices := catalogue.New(env.store, env.gateway, catalogue.Config{Now: env.now, Provider: "test", MaxAge: 1000 * time.Hour})
	return operation.NewProcessor(on, prices, env.gateway, env.breaker, operation.Config{
		Now: env.now, Node: "node", ProviderName: "test", Timeout: timeout, FirstCheck: time.Second, ActivationTerm: subscription.ThirtyDays,
		Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1},
	})
}

func (env *testEnv) service() *bulk.Service {
	return bulk.NewService(env.store, env.processor(env.store), env.now)
}

func (env *testEnv) worker(name string, on testStore) *bulk.Worker {
	return bulk.NewWorker(on, env.processor(on), bulk.WorkerConfig{
		Now: env.now, Node: name, Timeout: timeout, Problem: func(err error) { env.Logf("%s: %v", name, err) },
	})
}

func (env *testEnv) order(ids ...string) bulk.Order {
	return bulk.Order{OperatorID: env.operator.ID, Actor: "web:asha", Title: "list", Kind: operation.Renew, Selections: bulk.SelectSubscribers(ids)}
}

// started returns a started job of renewals.
func (env *testEnv) started(ids ...string) bulk.Job {
	env.Helper()
	job, err := env.service().Prepare(env.Context(), env.order(ids...))
	env.must(err)
	job, err = env.service().Start(env.Context(), env.operator.ID, job.ID)
	env.must(err)
	return job
}

func (env *testEnv) job(id string) bulk.Job {
	env.Helper()
	job, err := env.service().Job(env.Context(), env.operator.ID, id)
	env.must(err)
	return job
}

func (env *testEnv) rows(id string) (rows []bulk.Row) {
	env.Helper()
	for row, err := range env.service().Results(env.Context(), env.operator.ID, id) {
		env.must(err)
		rows = append(rows, row)
	}
	return rows
}

func (env *testEnv) reviewer() *operation.Reviewer {
	return operation.NewReviewer(env.store, env.gateway, operation.ReviewConfig{
		Now: env.now, Node: "node", Timeout: timeout, FirstCheck: time.Second, MaxInterval: time.Minute, RefundAfter: 2 * time.Minute,
		OnError: func(err error) { env.Error(err) },
	})
}

// finish runs a worker and the review, minute by minute, until a job has nothing left to
// do.
func (env *testEnv) finish(id string, worker *bulk.Worker) bulk.Job {
	env.Helper()
	reviewer := env.reviewer()
	for range 60 {
		for worked := true; worked; {
			var err error
			if worked, err = worker.RunOnce(env.Context()); err != nil {
				env.Logf("the worker: %v", err)
			}
		}
		if _, err := reviewer.RunOnce(env.Context()); err != nil {
			env.Fatalf("review: %v", err)
		}
		if job := env.job(id); job.State == bulk.Finished && job.DueAt.IsZero() {
			return job
		}
		env.advance(time.Minute)
	}
	env.Fatalf("job %s does not end: %+v", id, env.job(id))
	return bulk.Job{}
}

// checkBooks compares the books with the rows of all jobs: each row that is done has one
// operation, one ledger line and one effect at the provider, and nothing else was charged.
func (env *testEnv) checkBooks(before money.Amount, jobs ...string) {
	env.Helper()
	done := map[string]bool{}
	spent := money.Amount{}
	for _, id := range jobs {
		for _, row := range env.rows(id) {
			if row.State != bulk.RowDone {
				continue
			}
			if done[row.OperationID] {
				env.Errorf("operation %s is of two rows", row.OperationID)
			}
			done[row.OperationID] = true
			spent = spent.Add(row.Amount)
		}
	}
	lines := map[string]int{}
	ledger, err := env.staff.LedgerPage(env.Context(), admin.ListQuery{OperatorID: env.operator.ID})
	env.must(err)
	for _, entry := range ledger {
		if entry.TransactionID != "" {
			lines[entry.TransactionID]++
		}
	}
	if len(lines) != len(done) {
		env.Errorf("%d operations are in the ledger; %d rows are done", len(lines), len(done))
	}
	effects := env.simulator.Effects()
	for id := range done {
		if lines[id] != 1 || effects[id] != 1 {
			env.Errorf("operation %s has %d lines and %d effects; want one of each", id, lines[id], effects[id])
		}
	}
	for id, times := range effects {
		if times > 0 && !done[id] {
			env.Errorf("the provider carried out %s, of which no row is done", id)
		}
	}
	wallet, err := env.store.Wallet(env.Context(), env.operator.ID)
	env.must(err)
	if want := before.Sub(spent); wallet.Balance != want || !wallet.Held.IsZero() {
		env.Errorf("the wallet has %s and holds %s; want %s and nothing", wallet.Balance, wallet.Held, want)
	}
}

// control configures the simulator.
func (env *testEnv) control(path, body string) {
	env.Helper()
	response, err := http.Post(env.address+"/control/"+path, "application/json", strings.NewReader(body))
	env.must(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		env.Fatalf("%s %s: %s", path, body, response.Status)
	}
}

// until polls a condition, with a timeout that also suits a busy machine.
func (env *testEnv) until(what string, condition func() bool) {
	env.Helper()
	expired := time.After(5 * time.Minute)
	for pause := 2 * time.Millisecond; !condition(); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-expired:
			env.Fatalf("gave up waiting until %s", what)
		case <-time.After(pause):
		}
	}
}

var errCrashed = errors.New("the process has crashed")

// crashingStore simulates a process that crashes at one of its store calls: before the
// call, or after its commit. Every later call fails, too.
type crashingStore struct {
	testStore
	steps, last *atomic.Int64
	after       bool
}

func crashingAt(store testStore, step int64, after bool) crashingStore {
	d := crashingStore{testStore: store, steps: &atomic.Int64{}, last: &atomic.Int64{}, after: after}
	d.last.Store(step)
	return d
}

// step makes a call, unless the process has crashed.
func (d crashingStore) step(do func() error) error {
	n := d.steps.Add(1)
	if n > d.last.Load() || n == d.last.Load() && !d.after {
		return errCrashed
	}
	err := do()
	if n == d.last.Load() {
		return errCrashed
	}
	return err
}

// crashed reports whether the step was reached.
func (d crashingStore) crashed() bool { return d.steps.Load() >= d.last.Load() }

func (d crashingStore) ClaimBulkJob(ctx context.Context, c bulk.Claim) (job bulk.Job, found bool, err error) {
	err = d.step(func() (err error) { job, found, err = d.testStore.ClaimBulkJob(ctx, c); return err })
	return job, found, err
}

func (d crashingStore) TakeBulkRows(ctx context.Context, h bulk.Lease, most int) (job bulk.Job, rows []bulk.Row, held bool, err error) {
	err = d.step(func() (err error) { job, rows, held, err = d.testStore.TakeBulkRows(ctx, h, most); return err })
	return job, rows, held, err
}

func (d crashingStore) SettleBulkRow(ctx context.Context, h bulk.Lease, o bulk.Outcome) (settled bool, err error) {
	err = d.step(func() (err error) { settled, err = d.testStore.SettleBulkRow(ctx, h, o); return err })
	return settled, err
}

func (d crashingStore) ReleaseBulkJob(ctx context.Context, h bulk.Lease, r bulk.Release) error {
	return d.step(func() error { return d.testStore.ReleaseBulkJob(ctx, h, r) })
}

func (d crashingStore) Snapshot(ctx context.Context, q operation.SnapshotQuery) (snapshot operation.Snapshot, err error) {
	err = d.step(func() (err error) { snapshot, err = d.testStore.Snapshot(ctx, q); return err })
	return snapshot, err
}

func (d crashingStore) Reserve(ctx context.Context, draft operation.Draft) (op operation.Operation, err error) {
	err = d.step(func() (err error) { op, err = d.testStore.Reserve(ctx, draft); return err })
	return op, err
}

func (d crashingStore) Settle(ctx context.Context, s operation.Settlement) (op operation.Operation, did bool, err error) {
	err = d.step(func() (err error) { op, did, err = d.testStore.Settle(ctx, s); return err })
	return op, did, err
}
