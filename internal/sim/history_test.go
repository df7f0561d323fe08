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

// outcome is the result of a history, or of a job of several.
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

// runHistory runs the history of a seed in fake time.
func runHistory(t *testing.T, seed uint64, plan program, keep bool) outcome {
	t.Helper()
	result := outcome{Seed: seed}
	t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(t *testing.T) {
			env, err := openEnvironment(chance(seed), plan)
			if err != nil {
				t.Fatal(err)
			}
			env.trace.keep = keep
			env.play(plan)
			result.Steps, result.Operations = env.gates.steps, len(env.model.operations)
			result.Trace = fmt.Sprintf("%016x", env.trace.sum.Sum64())
			result.lines = env.trace.String()
			env.close()
			result.Violations, result.Happened = env.model.violations, env.happened
			if env.problem != "" {
				result.Violations = append(result.Violations, env.problem)
			}
		})
	})
	return result
}

// play runs the two parts of a history: first with faults, when no invariant may be
// violated; then without, when every operation must be settled.
func (env *environment) play(plan program) {
	over := env.act(plan)
	if !env.gates.run(over, 30*time.Minute) && !env.broken() {
		env.problem = "liveness: the clients are not done after half an hour"
	}
	if !env.broken() {
		env.audit()
	}
	if !env.broken() {
		env.settleAll()
	}
	if env.broken() {
		return
	}
	env.reconcile()
	env.audit()
}

// act starts everything that clients and staff do, and returns a function that reports
// whether they are done.
func (env *environment) act(plan program) (over func() bool) {
	running := 0
	start := func(do func()) {
		env.mu.Lock()
		running++
		env.mu.Unlock()
		env.background.Go(func() {
			defer func() {
				env.mu.Lock()
				running--
				env.mu.Unlock()
				env.wake()
			}()
			do()
		})
	}
	for _, i := range plan.actions {
		a := env.action(i)
		start(func() {
			env.sleep(a.at)
			a.do()
		})
	}
	if plan.scenario != nil {
		start(func() { plan.scenario.run(scenarioRunner{env}) })
	}
	env.locks.draw(start)
	return func() bool {
		env.mu.Lock()
		defer env.mu.Unlock()
		return running == 0
	}
}

// settleAll ends every fault and requires that everything is settled in ten minutes.
func (env *environment) settleAll() {
	env.stopFaults()
	env.settleOthers(env.gates.run, env.unsettled, othersSettleWithin)
	if !env.gates.run(env.settled, 10*time.Minute) && !env.broken() {
		env.problem = "S4: ten minutes after the last fault these are not settled: " + strings.Join(env.unsettled(), ", ")
		return
	}
	// A late order may still be carried out, and must be noticed.
	began, wait := time.Now(), 40*time.Second
	if env.faults.plan != nil {
		wait = 13 * time.Second // no order of a scenario is later
	}
	env.gates.run(func() bool { return time.Since(began) > wait }, time.Minute)
}

// stopFaults ends every fault.
func (env *environment) stopFaults() {
	env.faults.on.Store(false)
	env.locks.letGo()
	env.provider.set(func() { env.provider.down, env.provider.catalogueDown = false, false; clear(env.provider.withdrawn) })
	for _, n := range env.nodes {
		env.stepClock(n, 0)
		if l := n.running(); l != nil {
			l.pauseUntil(time.Time{})
		}
	}
	if env.everWrong() {
		// What a node with a fast clock postponed is due by that clock.
		env.leap(2 * time.Hour)
	}
}

// reversalLeft begins the name of a reversal without an outcome.
const reversalLeft = "reversal "

func (env *environment) settled() bool { return len(env.unsettled()) == 0 }

func (env *environment) unsettled() []string {
	var left []string
	for _, id := range keys(env.model.operations) {
		if op := env.model.operations[id]; open(op.state) {
			left = append(left, fmt.Sprintf("%s (%s)", env.nickname(id), op.state))
		} else if op.state == "success" && op.Addon != nil && *op.AddonStatus != "success" {
			left = append(left, fmt.Sprintf("%s (add-on %s)", env.nickname(id), *op.AddonStatus))
		}
	}
	for _, reference := range keys(env.model.reversals) {
		if env.model.reversals[reference].open() {
			left = append(left, reversalLeft+env.nickname(reference))
		}
	}
	for _, n := range env.nodes {
		if n.running() == nil {
			left = append(left, n.name+" (down)")
		}
	}
	return left
}

// reconcile compares the final state with the provider's records: what succeeded was
// carried out, what was carried out succeeded, and every difference has an exception.
func (env *environment) reconcile() {
	m := env.model
	for _, id := range keys(m.operations) {
		op := m.operations[id]
		effects := env.provider.effectsOf(id)
		known := m.exceptions[id+" LATE_SUCCESS"] || m.exceptions[id+" VOID_UNANSWERED"]
		env.provider.mu.Lock()
		o := env.provider.orders[id]
		ignoresVoid := o != nil && o.ignoresVoid
		env.provider.mu.Unlock()
		switch {
		case effects > 1:
			m.violate("M5", id, "the provider did it %d times", effects)
		case op.state == "success" && effects == 0 && !op.person:
			m.violate("S9", id, "it succeeded, and the provider never did it")
		case op.state == "failed" && effects == 1 && !known && !ignoresVoid:
			m.violate("S9", id, "it was refunded, the provider did it, and there is no exception")
		}
		m.checkContradictions(op)
		if op.state == "success" && op.Addon != nil && !op.person {
			if done := env.addonEffects(id); done != 1 {
				m.violate("S9", id, "its add-on was done %d times", done)
			}
		}
	}
	env.checkReversals()
	env.provider.mu.Lock()
	defer env.provider.mu.Unlock()
	for reference, o := range env.provider.orders {
		if o.effects > 0 && !strings.Contains(reference, "-2") && m.operations[reference] == nil {
			m.violate("D1", reference, "the provider did it, and there is no such operation")
		}
	}
	for _, o := range m.operators {
		var charged int64
		for _, op := range m.operations {
			if op.Operator == o.ID && op.state == "success" && op.Reversed == nil {
				charged += op.Amount
			}
		}
		if o.creditedIn != o.balance+charged {
			m.violate("M1", fmt.Sprint("operator ", o.ID), "%d paise came in, %d are there and %d were charged", o.creditedIn, o.balance, charged)
		}
	}
}

func (env *environment) addonEffects(id string) int {
	env.provider.mu.Lock()
	defer env.provider.mu.Unlock()
	n := 0
	for reference, o := range env.provider.orders {
		if strings.HasPrefix(reference, id+"-2") {
			n += o.effects
		}
	}
	return n
}

// audit runs the product's audit on the store.
func (env *environment) audit() {
	tx, err := env.journal.journalDB.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		env.problem = "audit: " + err.Error()
		return
	}
	defer func() { _ = tx.Rollback() }()
	env.auditAt(tx)
}

// auditAt runs the audit on a snapshot.
func (env *environment) auditAt(snapshot audit.Snapshot) {
	report, err := audit.Run(context.Background(), snapshot, env.now().UTC().Truncate(time.Millisecond), nil)
	if err != nil {
		env.problem = "audit: " + err.Error()
		return
	}
	for _, v := range report.Violations {
		if !env.excusedInAudit(v) {
			env.model.violate("audit "+v.Invariant, v.Subject, "%s", v.Detail)
		}
	}
}

// excusedInAudit reports whether a violation comes from wrong clocks, of which the
// audit cannot know. In real time the clocks also advance, between reading the time and
// writing it, by more than the audit allows for; there the model checks the order, from
// the journal.
func (env *environment) excusedInAudit(v audit.Violation) bool {
	if v.Invariant == "S4" && env.faults.on.Load() {
		return true // no node may be running, or time may have leapt
	}
	if env.realTime && (slices.Contains([]string{"T1", "S2", "I5", "M6"}, v.Invariant) || v.Invariant == "P1" && strings.Contains(v.Detail, "holds since")) {
		return true
	}
	if v.Invariant == "A6" && env.timesMoved() > 0 {
		return true // a request during a leap counts in the minute where it began; the model checks it
	}
	return env.everWrong() && slices.Contains([]string{"T1", "S2", "S4", "I5", "M6"}, v.Invariant)
}
