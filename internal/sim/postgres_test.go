package sim

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
)

// postgresPace is how much faster simulated time runs than the machine's clock in a
// history in real time.
const postgresPace = 20

// How long the parts of a history in real time may take, by the machine's clock.
const (
	clientsTimeout   = 3 * time.Minute
	settleTimeout    = 30 * time.Second
	lateOrderTimeout = 15 * time.Second
)

// postgresTemplate makes a database with the product's schema and the simulation's
// journal. Every history gets a copy.
func postgresTemplate(t *testing.T) string {
	address := pgtest.NewDatabase(t)
	db, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	journalDB, err := postgres.OpenSQL(address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = journalDB.Exec(pgJournalSchema())
	if err := errors.Join(err, journalDB.Close()); err != nil {
		t.Fatal(err)
	}
	return address
}

// runOnPostgres runs one history on PostgreSQL: actions and faults follow from the seed
// as in fake time; their order does not.
func runOnPostgres(t *testing.T, seed uint64, plan program, template string) outcome {
	t.Helper()
	result := outcome{Seed: seed}
	t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		env, r, err := openPostgresEnvironment(chance(seed), plan, pgtest.CopyDatabase(t, template))
		if err != nil {
			t.Fatal(err)
		}
		env.playOnPostgres(plan)
		env.stop()
		r.conclude()
		if err := errors.Join(env.db.Close(), r.pgJournal.journalDB.Close()); err != nil {
			t.Error(err)
		}
		result.Operations, result.Happened, result.Violations = len(env.model.operations), env.happened, env.model.violations
		result.Steps = len(env.trace.all)
		if env.problem != "" {
			result.Violations = append(result.Violations, env.problem)
		}
		if len(result.Violations) > 0 {
			result.lines = env.trace.about(result.Violations)
		}
	})
	return result
}

func openPostgresEnvironment(c chance, plan program, address string) (*environment, *record, error) {
	env := newEnvironment(c, plan, newClock(postgresPace), true)
	env.trace.keep = true
	journalDB, err := openPGJournal(named(address, "eyes"))
	if err != nil {
		return nil, nil, err
	}
	r := newRecord(env, journalDB)
	env.observer = r
	env.openStore = func(process string) (backend, func(), error) {
		db, err := postgres.Open(context.Background(), named(address, process), postgres.Options{Observe: batches{env}})
		if err != nil {
			return nil, nil, err
		}
		return db, func() { _ = db.Close() }, nil
	}
	db, err := postgres.Open(context.Background(), named(address, "service"), postgres.Options{Role: postgres.Tool})
	if err != nil {
		return nil, nil, err
	}
	env.db = db
	if err := env.setUpData(); err != nil {
		return nil, nil, err
	}
	if err := env.startNodes(); err != nil {
		return nil, nil, err
	}
	env.gates.endSetup()
	return env, r, nil
}

// named returns an address whose connections have an application name, so that they
// can be found and ended.
func named(address, name string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		panic(err) // it came from pgtest
	}
	query := parsed.Query()
	query.Set("application_name", name)
	query.Set("pool_max_conns", "8")
	query.Set("connect_timeout", "30") // the machine may be busy
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// batches counts large batches of admissions.
type batches struct{ env *environment }

func (b batches) Batch(_ string, writes int) func() {
	if writes >= 3 {
		b.env.occurred("a batch of three writes or more")
	}
	return func() {}
}

// cutConnections makes the server end every connection of a process.
func (env *environment) cutConnections(l *process) {
	l.setDisturbed()
	r := env.observer.(*record)
	env.background.Go(func() {
		_, err := r.pgJournal.journalDB.Exec(`
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, l.name())
		if err != nil {
			env.fail("cut the connections of " + l.name() + ": " + err.Error())
		}
	})
}

// playOnPostgres is play in real time. Commits are checked at the end.
func (env *environment) playOnPostgres(plan program) {
	over := env.act(plan)
	if !env.await(over, clientsTimeout) {
		env.fail("liveness: the clients are not done after " + clientsTimeout.String())
		return
	}
	env.stopFaults()
	r := env.observer.(*record)
	env.settleOthers(env.await, r.unsettled, settleTimeout)
	if !env.await(func() bool { return len(r.unsettled()) == 0 }, settleTimeout) {
		env.fail(fmt.Sprintf("S4: %s after the last fault these are not settled: %s", settleTimeout, strings.Join(r.unsettled(), ", ")))
		return
	}
	// A late order may still be carried out, and must be noticed; reconcile reports
	// it if it is not.
	if !env.await(env.provider.idle, lateOrderTimeout) {
		env.fail("the provider is not done")
	}
	env.await(func() bool { return len(r.unreported()) == 0 }, lateOrderTimeout)
}

// await polls until a condition holds or the timeout has passed.
func (env *environment) await(holds func() bool, timeout time.Duration) bool {
	deadline := time.After(timeout)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		switch {
		case env.broken():
			return true // there is no point in waiting
		case holds():
			return true
		}
		select {
		case <-again.C:
		case <-deadline:
			return holds()
		}
	}
}

// idle reports whether no order is still to be carried out.
func (p *provider) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outstanding == 0
}

// unsettled lists operations that are not settled and nodes that are down.
func (r *record) unsettled() []string {
	open, err := r.pgJournal.texts(`
		SELECT concat(idempotency_key, ' (', status, ', add-on ', coalesce(addon_status, 'none'), ')') FROM operations
		 WHERE status IN ('processing', 'needs_review') OR status = 'success' AND addon_status NOT IN ('success', 'closed')
		 UNION ALL SELECT concat('` + reversalLeft + `', reference) FROM reversals WHERE next_at IS NOT NULL`)
	if err != nil {
		r.env.fail("look at the store: " + err.Error())
	}
	for _, n := range r.env.nodes {
		if n.running() == nil {
			open = append(open, n.name+" (down)")
		}
	}
	return open
}

// unreported lists operations that were refunded and carried out, without an
// exception.
func (r *record) unreported() []string {
	refunded, err := r.pgJournal.texts(`
		SELECT id FROM operations o WHERE status = 'failed'
		   AND NOT EXISTS (SELECT 1 FROM exceptions e WHERE e.operation_id = o.id AND e.kind IN ('LATE_SUCCESS', 'VOID_UNANSWERED'))`)
	if err != nil {
		r.env.fail("look at the store: " + err.Error())
	}
	var unreported []string
	for _, id := range refunded {
		r.env.provider.set(func() {
			if o := r.env.provider.orders[id]; o != nil && o.effects > 0 && !o.ignoresVoid {
				unreported = append(unreported, id)
			}
		})
	}
	return unreported
}

// conclude checks a history that has ended.
func (r *record) conclude() {
	env := r.env
	if err := r.checkAll(); err != nil {
		env.fail("read the journal: " + err.Error())
		return
	}
	if env.problem != "" {
		return // it did not end, so there is nothing to reconcile
	}
	env.reconcile()
	tx, err := r.pgJournal.journalDB.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		env.fail("audit: " + err.Error())
		return
	}
	defer func() { _ = tx.Rollback() }()
	env.auditAt(audit.Postgres(tx))
}
