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

// realPace is how much faster than the machine's the clocks of a history in real
// time are.
const realPace = 20

// How long a history in real time may take over something, by the machine's clock.
const (
	clientsPatience = 3 * time.Minute
	settlePatience  = 30 * time.Second
	latePatience    = 15 * time.Second
)

// realTemplate makes a database with the product's schema and the simulation's
// journal, which every history gets a copy of.
func realTemplate(t *testing.T) string {
	address := pgtest.NewDatabase(t)
	db, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	eyes, err := postgres.OpenSQL(address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = eyes.Exec(chronicleSchema())
	if err := errors.Join(err, eyes.Close()); err != nil {
		t.Fatal(err)
	}
	return address
}

// liveReally runs one history on PostgreSQL: what everybody does and meets follows
// from the seed as it does in fake time, and only the order is the machine's.
func liveReally(t *testing.T, seed uint64, plan program, template string) outcome {
	t.Helper()
	result := outcome{Seed: seed}
	t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		w, r, err := openRealWorld(chance(seed), plan, pgtest.CopyDatabase(t, template))
		if err != nil {
			t.Fatal(err)
		}
		w.playReally(plan)
		w.stop()
		r.conclude()
		if err := errors.Join(w.db.Close(), r.chronicle.eyes.Close()); err != nil {
			t.Error(err)
		}
		result.Operations, result.Happened, result.Violations = len(w.model.operations), w.happened, w.model.violations
		result.Steps = len(w.trace.all)
		if w.problem != "" {
			result.Violations = append(result.Violations, w.problem)
		}
		if len(result.Violations) > 0 {
			result.lines = w.trace.about(result.Violations)
		}
	})
	return result
}

func openRealWorld(c chance, plan program, address string) (*world, *record, error) {
	w := newWorld(c, plan, newClock(realPace), true)
	w.trace.keep = true
	eyes, err := openChronicle(named(address, "eyes"))
	if err != nil {
		return nil, nil, err
	}
	r := newRecord(w, eyes)
	w.witness = r
	w.openStore = func(life string) (backend, func(), error) {
		db, err := postgres.Open(context.Background(), named(address, life), postgres.Options{Observe: batches{w}})
		if err != nil {
			return nil, nil, err
		}
		return db, func() { _ = db.Close() }, nil
	}
	db, err := postgres.Open(context.Background(), named(address, "service"), postgres.Options{Role: postgres.Tool})
	if err != nil {
		return nil, nil, err
	}
	w.db = db
	if err := w.furnish(); err != nil {
		return nil, nil, err
	}
	if err := w.populate(); err != nil {
		return nil, nil, err
	}
	w.gates.shut()
	return w, r, nil
}

// named is an address under which connections bear a name, so that they can be
// cut.
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

// batches notes how many admissions share a commit.
type batches struct{ w *world }

func (b batches) Batch(facts int) func() {
	if facts >= 3 {
		b.w.sometimes("a batch of three facts or more")
	}
	return func() {}
}

// cutConnections makes the server end every connection of a process, while it does
// whatever it does.
func (w *world) cutConnections(l *life) {
	l.setTroubled()
	r := w.witness.(*record)
	w.background.Go(func() {
		_, err := r.chronicle.eyes.Exec(`
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, l.name())
		if err != nil {
			w.fail("cut the connections of " + l.name() + ": " + err.Error())
		}
	})
}

// playReally is play in real time. What was written is judged when all is over.
func (w *world) playReally(plan program) {
	over := w.act(plan)
	if !w.await(over, clientsPatience) {
		w.fail("liveness: the clients are not done after " + clientsPatience.String())
		return
	}
	w.mend()
	r := w.witness.(*record)
	w.settleOthers(w.await, r.unsettled, settlePatience)
	if !w.await(func() bool { return len(r.unsettled()) == 0 }, settlePatience) {
		w.fail(fmt.Sprintf("S4: %s after the last fault these are not settled: %s", settlePatience, strings.Join(r.unsettled(), ", ")))
		return
	}
	// An order that was late may still come, and must be noticed. That it is not
	// is for reconcile to say.
	if !w.await(w.provider.idle, latePatience) {
		w.fail("the provider is not done")
	}
	w.await(func() bool { return len(r.untold()) == 0 }, latePatience)
}

// await looks again and again whether a condition holds.
func (w *world) await(holds func() bool, patience time.Duration) bool {
	deadline := time.After(patience)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		switch {
		case w.broken():
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

// idle: no order is still to be carried out.
func (p *provider) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outstanding == 0
}

// unsettled names what has still to come to its end.
func (r *record) unsettled() []string {
	open, err := r.chronicle.texts(`
		SELECT concat(idempotency_key, ' (', status, ', add-on ', coalesce(addon_status, 'none'), ')') FROM operations
		 WHERE status IN ('processing', 'needs_review') OR status = 'success' AND addon_status NOT IN ('success', 'closed')`)
	if err != nil {
		r.w.fail("look at the store: " + err.Error())
	}
	for _, n := range r.w.nodes {
		if n.running() == nil {
			open = append(open, n.name+" (down)")
		}
	}
	return open
}

// untold are operations that were refunded and carried out, and nobody was told.
func (r *record) untold() []string {
	refunded, err := r.chronicle.texts(`
		SELECT id FROM operations o WHERE status = 'failed'
		   AND NOT EXISTS (SELECT 1 FROM exceptions e WHERE e.operation_id = o.id AND e.kind IN ('LATE_SUCCESS', 'VOID_UNANSWERED'))`)
	if err != nil {
		r.w.fail("look at the store: " + err.Error())
	}
	var untold []string
	for _, id := range refunded {
		r.w.provider.set(func() {
			if o := r.w.provider.orders[id]; o != nil && o.effects > 0 && !o.treacherous {
				untold = append(untold, id)
			}
		})
	}
	return untold
}

// conclude judges a history that is over.
func (r *record) conclude() {
	w := r.w
	if err := r.judge(); err != nil {
		w.fail("read the journal: " + err.Error())
		return
	}
	if w.problem != "" {
		return // it did not come as far as an end that could be reconciled
	}
	w.reconcile()
	tx, err := r.chronicle.eyes.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		w.fail("audit: " + err.Error())
		return
	}
	defer func() { _ = tx.Rollback() }()
	w.auditAt(audit.Postgres(tx))
}
