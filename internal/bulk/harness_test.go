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

// books is all that a world asks of its store.
type books interface {
	admin.Store
	catalogue.Store
	operation.ReviewStore
	bulk.Store
	Close() error
}

// world is a store, a provider and an operator with subscribers. Time stands still
// unless a test moves it.
type world struct {
	testing.TB
	store     books
	reopen    func() books
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

// onBothStores runs a test in a world on each store.
func onBothStores(t *testing.T, run func(*world)) {
	t.Run("SQLite", func(t *testing.T) {
		path := sqlitetest.NewFile(t)
		run(newWorld(t, func() (books, error) { return sqlite.Open(t.Context(), path, sqlite.Options{}) }))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		address := pgtest.NewDatabase(t)
		w := newWorld(t, func() (books, error) {
			return postgres.Open(t.Context(), address+"&pool_max_conns=8", postgres.Options{})
		})
		w.several = true
		run(w)
	})
}

func newWorld(t testing.TB, open func() (books, error)) *world {
	t.Helper()
	w := &world{TB: t}
	w.reopen = func() books {
		t.Helper()
		store, err := open()
		w.must(err)
		return store
	}
	w.store = w.reopen()
	t.Cleanup(func() { _ = w.store.Close() })

	var err error
	w.simulator, err = simulator.New(simulator.Config{SlowFor: 100 * time.Millisecond})
	w.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	go func() { _ = w.simulator.Serve(listener) }()
	t.Cleanup(func() { _ = w.simulator.Shutdown(context.Background()) })
	w.address = "http://" + listener.Addr().String()
	w.gateway, err = gateway.New(gateway.Config{URL: w.address, Timeout: timeout})
	w.must(err)
	t.Cleanup(w.gateway.Close)
	w.breaker = operation.NewBreaker(w.gateway.Probe)

	components, err := w.gateway.Catalogue(t.Context())
	w.must(err)
	w.must(w.store.RecordComparison(t.Context(), catalogue.Comparison{Provider: "test", At: noon, Components: components}))
	w.staff = admin.NewService(w.store, nil, "test", w.now)
	for id, rupees := range map[string]int64{"BASIC-1": 199, "FAMILY-1": 349} {
		_, err := w.staff.SetPlan(t.Context(), subscription.Plan{ID: id, Name: id, Price: money.Paise(rupees * 100), Months: 1, Type: subscription.Standard, Main: "TV-BASIC"})
		w.must(err)
	}
	w.operator, err = w.staff.CreateOperator(t.Context(), "asha", admin.OperatorChange{})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) now() time.Time          { return noon.Add(time.Duration(w.passed.Load())) }
func (w *world) advance(d time.Duration) { w.passed.Add(int64(d)) }

func (w *world) topUp(rupees int64, reference string) {
	w.Helper()
	_, _, err := w.staff.TopUp(w.Context(), admin.TopUp{OperatorID: w.operator.ID, Amount: money.Paise(rupees * 100), Reference: reference})
	w.must(err)
}

// subscribers brings in subscribers with BASIC-1 and returns their ids. A mobile's
// digit S in 90000Sxxxx says how the provider treats its owner.
func (w *world) subscribers(scenarios ...int) (ids []string) {
	w.Helper()
	file := "lco,subscriber_id,mobile,name,plan_id,expiry\n"
	for _, scenario := range scenarios {
		w.customers++
		id := fmt.Sprintf("%06d", 100000+w.customers)
		ids = append(ids, id)
		file += fmt.Sprintf("%d,%s,90000%d%04d,Customer %d,BASIC-1,2027-03-20\n", w.operator.ID, id, scenario, w.customers, w.customers)
	}
	report, err := w.staff.ImportSubscribers(w.Context(), strings.NewReader(file), false, func(int, int) {})
	if err != nil || report.Added != len(scenarios) {
		w.Fatalf("imported %+v, %v", report, err)
	}
	return ids
}

// processor is a node's, on a store that may be one in trouble.
func (w *world) processor(on operation.Store) *operation.Processor {
	prices := catalogue.New(w.store, w.gateway, catalogue.Config{Now: w.now, Provider: "test", MaxAge: 1000 * time.Hour})
	return operation.NewProcessor(on, prices, w.gateway, w.breaker, operation.Config{
		Now: w.now, Node: "node", ProviderName: "test", Timeout: timeout, FirstCheck: time.Second, ActivationTerm: subscription.ThirtyDays,
		Fingerprints: operation.Fingerprints{Keys: map[uint32][]byte{1: []byte("key")}, Current: 1},
	})
}

func (w *world) service() *bulk.Service { return bulk.NewService(w.store, w.processor(w.store), w.now) }

func (w *world) worker(name string, on books) *bulk.Worker {
	return bulk.NewWorker(on, w.processor(on), bulk.WorkerConfig{
		Now: w.now, Node: name, Timeout: timeout, Problem: func(err error) { w.Logf("%s: %v", name, err) },
	})
}

func (w *world) order(ids ...string) bulk.Order {
	return bulk.Order{OperatorID: w.operator.ID, Actor: "web:asha", Title: "list", Kind: operation.Renew, Wishes: bulk.FromSubscribers(ids)}
}

// started is a job of renewals that runs as soon as a worker does.
func (w *world) started(ids ...string) bulk.Job {
	w.Helper()
	job, err := w.service().Prepare(w.Context(), w.order(ids...))
	w.must(err)
	job, err = w.service().Start(w.Context(), w.operator.ID, job.ID)
	w.must(err)
	return job
}

func (w *world) job(id string) bulk.Job {
	w.Helper()
	job, err := w.service().Job(w.Context(), w.operator.ID, id)
	w.must(err)
	return job
}

func (w *world) rows(id string) (rows []bulk.Row) {
	w.Helper()
	for row, err := range w.service().Results(w.Context(), w.operator.ID, id) {
		w.must(err)
		rows = append(rows, row)
	}
	return rows
}

// finish lets a worker and the review work, minute by minute, until nothing is left
// to do of a job.
func (w *world) finish(id string, worker *bulk.Worker) bulk.Job {
	w.Helper()
	reviewer := operation.NewReviewer(w.store, w.gateway, operation.ReviewConfig{
		Now: w.now, Node: "node", Timeout: timeout, FirstCheck: time.Second, MaxInterval: time.Minute, RefundAfter: 2 * time.Minute,
		Problem: func(err error) { w.Error(err) },
	})
	for range 60 {
		for worked := true; worked; {
			var err error
			if worked, err = worker.RunOnce(w.Context()); err != nil {
				w.Logf("the worker: %v", err)
			}
		}
		if _, err := reviewer.RunOnce(w.Context()); err != nil {
			w.Fatalf("review: %v", err)
		}
		if job := w.job(id); job.State == bulk.Finished && job.DueAt.IsZero() {
			return job
		}
		w.advance(time.Minute)
	}
	w.Fatalf("job %s does not come to an end: %+v", id, w.job(id))
	return bulk.Job{}
}

// balanced holds the books against the rows of all jobs: each row that is done has
// one operation, one line of the ledger and one effect at the provider, and nothing
// else cost anything.
func (w *world) balanced(before money.Amount, jobs ...string) {
	w.Helper()
	done := map[string]bool{}
	spent := money.Amount{}
	for _, id := range jobs {
		for _, row := range w.rows(id) {
			if row.State != bulk.RowDone {
				continue
			}
			if done[row.OperationID] {
				w.Errorf("operation %s is of two rows", row.OperationID)
			}
			done[row.OperationID] = true
			spent = spent.Add(row.Amount)
		}
	}
	lines := map[string]int{}
	ledger, err := w.staff.LedgerPage(w.Context(), admin.ListQuery{OperatorID: w.operator.ID})
	w.must(err)
	for _, entry := range ledger {
		if entry.TransactionID != "" {
			lines[entry.TransactionID]++
		}
	}
	if len(lines) != len(done) {
		w.Errorf("%d operations are in the ledger; %d rows are done", len(lines), len(done))
	}
	effects := w.simulator.Effects()
	for id := range done {
		if lines[id] != 1 || effects[id] != 1 {
			w.Errorf("operation %s has %d lines and %d effects; want one of each", id, lines[id], effects[id])
		}
	}
	for id, times := range effects {
		if times > 0 && !done[id] {
			w.Errorf("the provider carried out %s, of which no row is done", id)
		}
	}
	wallet, err := w.store.Wallet(w.Context(), w.operator.ID)
	w.must(err)
	if want := before.Sub(spent); wallet.Balance != want || !wallet.Held.IsZero() {
		w.Errorf("the wallet has %s and holds %s; want %s and nothing", wallet.Balance, wallet.Held, want)
	}
}

// control tells the simulator how to behave.
func (w *world) control(path, body string) {
	w.Helper()
	response, err := http.Post(w.address+"/control/"+path, "application/json", strings.NewReader(body))
	w.must(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		w.Fatalf("%s %s: %s", path, body, response.Status)
	}
}

// until polls a condition, for longer than anything takes on a machine that is merely
// busy.
func (w *world) until(what string, condition func() bool) {
	w.Helper()
	patience := time.After(5 * time.Minute)
	for pause := 2 * time.Millisecond; !condition(); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-patience:
			w.Fatalf("gave up waiting until %s", what)
		case <-time.After(pause):
		}
	}
}

var errDead = errors.New("the process has died")

// dying is a store whose process dies at one of its steps: before it was taken, or
// after it took hold and before anybody heard of it. Nothing comes after that.
type dying struct {
	books
	steps, last *atomic.Int64
	after       bool
}

func dyingAt(store books, step int64, after bool) dying {
	d := dying{books: store, steps: &atomic.Int64{}, last: &atomic.Int64{}, after: after}
	d.last.Store(step)
	return d
}

// step does something, if the process is still alive.
func (d dying) step(do func() error) error {
	n := d.steps.Add(1)
	if n > d.last.Load() || n == d.last.Load() && !d.after {
		return errDead
	}
	err := do()
	if n == d.last.Load() {
		return errDead
	}
	return err
}

// died reports whether the step came.
func (d dying) died() bool { return d.steps.Load() >= d.last.Load() }

func (d dying) ClaimBulkJob(ctx context.Context, c bulk.Claim) (job bulk.Job, found bool, err error) {
	err = d.step(func() (err error) { job, found, err = d.books.ClaimBulkJob(ctx, c); return err })
	return job, found, err
}

func (d dying) TakeBulkRows(ctx context.Context, h bulk.Hold, most int) (job bulk.Job, rows []bulk.Row, held bool, err error) {
	err = d.step(func() (err error) { job, rows, held, err = d.books.TakeBulkRows(ctx, h, most); return err })
	return job, rows, held, err
}

func (d dying) SettleBulkRow(ctx context.Context, h bulk.Hold, o bulk.Outcome) (settled bool, err error) {
	err = d.step(func() (err error) { settled, err = d.books.SettleBulkRow(ctx, h, o); return err })
	return settled, err
}

func (d dying) ReleaseBulkJob(ctx context.Context, h bulk.Hold, r bulk.Release) error {
	return d.step(func() error { return d.books.ReleaseBulkJob(ctx, h, r) })
}

func (d dying) Snapshot(ctx context.Context, q operation.SnapshotQuery) (facts operation.Snapshot, err error) {
	err = d.step(func() (err error) { facts, err = d.books.Snapshot(ctx, q); return err })
	return facts, err
}

func (d dying) Reserve(ctx context.Context, draft operation.Draft) (op operation.Operation, err error) {
	err = d.step(func() (err error) { op, err = d.books.Reserve(ctx, draft); return err })
	return op, err
}

func (d dying) Settle(ctx context.Context, s operation.Settlement) (op operation.Operation, did bool, err error) {
	err = d.step(func() (err error) { op, did, err = d.books.Settle(ctx, s); return err })
	return op, did, err
}
