package sim

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/audit"
)

// outcome is what became of a history.
type outcome struct {
	Job        string         `json:"job,omitempty"`
	Runs       int            `json:"runs,omitempty"`
	Seed       uint64         `json:"seed"`
	Trace      string         `json:"trace"`
	Steps      int            `json:"steps"`
	Operations int            `json:"operations"`
	Violations []string       `json:"violations,omitempty"`
	Happened   map[string]int `json:"happened"`
	lines      string
}

// live runs one history from its seed to its end.
func live(t *testing.T, seed uint64, plan program, keep bool) outcome {
	t.Helper()
	result := outcome{Seed: seed}
	t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(t *testing.T) {
			w, err := openWorld(chance(seed), plan)
			if err != nil {
				t.Fatal(err)
			}
			w.trace.keep = keep
			w.play(plan)
			result.Steps, result.Operations = w.gates.steps, len(w.model.operations)
			result.Trace = fmt.Sprintf("%016x", w.trace.sum.Sum64())
			result.lines = w.trace.String()
			w.close()
			result.Violations, result.Happened = w.model.violations, w.happened
			if w.problem != "" {
				result.Violations = append(result.Violations, w.problem)
			}
		})
	})
	return result
}

// play is the two parts of a history: first anything may go wrong, and nothing
// forbidden may come of it; then nothing goes wrong any more, and everything has
// to come to its end.
func (w *world) play(plan program) {
	over := w.act(plan)
	if !w.gates.run(over, 30*time.Minute) && !w.broken() {
		w.problem = "liveness: the clients are not done after half an hour"
	}
	if !w.broken() {
		w.audit()
	}
	if !w.broken() {
		w.heal()
	}
	if w.broken() {
		return
	}
	w.reconcile()
	w.audit()
}

// act begins everything that clients and staff do; what it returns says whether
// they are done.
func (w *world) act(plan program) (over func() bool) {
	running := 0
	start := func(do func()) {
		w.mu.Lock()
		running++
		w.mu.Unlock()
		w.background.Go(func() {
			defer func() {
				w.mu.Lock()
				running--
				w.mu.Unlock()
				w.stir()
			}()
			do()
		})
	}
	for _, i := range plan.actions {
		a := w.action(i)
		start(func() {
			w.sleep(a.at)
			a.do()
		})
	}
	if plan.scenario != nil {
		start(func() { plan.scenario.tell(teller{w}) })
	}
	w.locks.draw(start)
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return running == 0
	}
}

// heal ends every fault and gives the world ten minutes.
func (w *world) heal() {
	w.mend()
	w.settleOthers(w.gates.run, w.unsettled, othersSettleWithin)
	if !w.gates.run(w.settled, 10*time.Minute) && !w.broken() {
		w.problem = "S4: ten minutes after the last fault these are not settled: " + strings.Join(w.unsettled(), ", ")
		return
	}
	// An order that was late may still come, and must be noticed.
	began, wait := time.Now(), 40*time.Second
	if w.faults.plan != nil {
		wait = 13 * time.Second // the latest that an order of a scenario is
	}
	w.gates.run(func() bool { return time.Since(began) > wait }, time.Minute)
}

// mend ends every fault.
func (w *world) mend() {
	w.faults.on.Store(false)
	w.locks.letGo()
	w.provider.set(func() { w.provider.down, w.provider.catalogueDown = false, false; clear(w.provider.withdrawn) })
	for _, n := range w.nodes {
		w.stepClock(n, 0)
		if l := n.running(); l != nil {
			l.sleepUntil(time.Time{})
		}
	}
	if w.everWrong() {
		// What a node with a fast clock put off is due by that clock.
		w.leap(2 * time.Hour)
	}
}

func (w *world) settled() bool { return len(w.unsettled()) == 0 }

func (w *world) unsettled() []string {
	var left []string
	for _, id := range keys(w.model.operations) {
		if op := w.model.operations[id]; open(op.state) {
			left = append(left, fmt.Sprintf("%s (%s)", w.nickname(id), op.state))
		} else if op.state == "success" && op.Addon != nil && *op.AddonStatus != "success" {
			left = append(left, fmt.Sprintf("%s (add-on %s)", w.nickname(id), *op.AddonStatus))
		}
	}
	for _, n := range w.nodes {
		if n.running() == nil {
			left = append(left, n.name+" (down)")
		}
	}
	return left
}

// reconcile compares the end with the provider's books: what succeeded was done,
// what was done succeeded, and where they differ a person is told.
func (w *world) reconcile() {
	m := w.model
	for _, id := range keys(m.operations) {
		op := m.operations[id]
		effects := w.provider.effectsOf(id)
		known := m.exceptions[id+" LATE_SUCCESS"] || m.exceptions[id+" VOID_UNANSWERED"]
		w.provider.mu.Lock()
		o := w.provider.orders[id]
		treacherous := o != nil && o.treacherous
		w.provider.mu.Unlock()
		switch {
		case effects > 1:
			m.violate("M5", id, "the provider did it %d times", effects)
		case op.state == "success" && effects == 0 && !op.person:
			m.violate("S9", id, "it succeeded, and the provider never did it")
		case op.state == "failed" && effects == 1 && !known && !treacherous:
			m.violate("S9", id, "it was refunded, the provider did it, and nobody was told")
		}
		m.judgeContradictions(op)
		if op.state == "success" && op.Addon != nil && !op.person {
			if done := w.addonEffects(id); done != 1 {
				m.violate("S9", id, "its add-on was done %d times", done)
			}
		}
	}
	w.provider.mu.Lock()
	defer w.provider.mu.Unlock()
	for reference, o := range w.provider.orders {
		if o.effects > 0 && !strings.Contains(reference, "-2") && m.operations[reference] == nil {
			m.violate("D1", reference, "the provider did it, and nobody knows of it")
		}
	}
	for _, o := range m.operators {
		var charged int64
		for _, op := range m.operations {
			if op.Operator == o.ID && op.state == "success" {
				charged += op.Amount
			}
		}
		if o.creditedIn != o.balance+charged {
			m.violate("M1", fmt.Sprint("operator ", o.ID), "%d paise came in, %d are there and %d were charged", o.creditedIn, o.balance, charged)
		}
	}
}

func (w *world) addonEffects(id string) int {
	w.provider.mu.Lock()
	defer w.provider.mu.Unlock()
	n := 0
	for reference, o := range w.provider.orders {
		if strings.HasPrefix(reference, id+"-2") {
			n += o.effects
		}
	}
	return n
}

// audit lets the product's own audit look at the store.
func (w *world) audit() {
	tx, err := w.journal.eyes.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		w.problem = "audit: " + err.Error()
		return
	}
	defer func() { _ = tx.Rollback() }()
	w.auditAt(tx)
}

// auditAt is audit at one moment of the store.
func (w *world) auditAt(snapshot audit.Snapshot) {
	report, err := audit.Run(context.Background(), snapshot, w.now().UTC().Truncate(time.Millisecond), nil)
	if err != nil {
		w.problem = "audit: " + err.Error()
		return
	}
	for _, v := range report.Violations {
		if !w.lawfulForAudit(v) {
			w.model.violate("audit "+v.Invariant, v.Subject, "%s", v.Detail)
		}
	}
}

// lawfulForAudit: what an audit objects to because of clocks that were wrong,
// which it cannot know of. In real time the clocks also leap, or just run on, under
// whoever has taken the time and not written it down yet, by more than an audit
// allows for; what came before what is then the model's to judge, by the journal.
func (w *world) lawfulForAudit(v audit.Violation) bool {
	if v.Invariant == "S4" && w.faults.on.Load() {
		return true // there may be nobody to look, or time may have leapt
	}
	if w.real && (slices.Contains([]string{"T1", "S2", "I5", "M6"}, v.Invariant) || v.Invariant == "P1" && strings.Contains(v.Detail, "holds since")) {
		return true
	}
	if v.Invariant == "A6" && w.timesMoved() > 0 {
		return true // a request that time leapt over counts where it began; the model has looked
	}
	return w.everWrong() && slices.Contains([]string{"T1", "S2", "S4", "I5", "M6"}, v.Invariant)
}
