package races

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/e2e"
)

func TestBackgroundAudit_RunsAndReports(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnvAt(t, time.Now(), "audit.every=10ms")
	violations := func(invariant string) float64 {
		return w.Metric(`coax_audit_violations{invariant="` + invariant + `"}`)
	}
	w.Operate(w.DemoCaller(), "activate", "first", e2e.Activation("9876543210"))
	clean := w.Metric(`coax_audit_runs_total{result="clean"}`)
	w.WaitUntil("two more audits are clean", func() bool { return w.Metric(`coax_audit_runs_total{result="clean"}`) > clean+1 })
	for _, invariant := range audit.Invariants {
		if got := violations(invariant.ID); got != 0 {
			t.Errorf("%s: %v violations; want 0", invariant.ID, got)
		}
	}
	if got, want := w.Metric(`coax_audit_last_success_timestamp_seconds`), float64(w.Now().UnixMilli())/1000; got != want {
		t.Errorf("the last audit was at %v; want %v", got, want)
	}

	e2e.ExecOnStore(t, w.Node.Config.Store, `UPDATE wallets SET balance_paise = balance_paise - 1 WHERE operator_id = 1`)
	w.WaitUntil("the damage is found", func() bool { return violations("M1") == 1 && violations("L3") == 1 && violations("M2w") == 1 })
	violated := w.Metric(`coax_audit_runs_total{result="violated"}`)
	w.WaitUntil("three more audits find it", func() bool { return w.Metric(`coax_audit_runs_total{result="violated"}`) > violated+2 })
	for _, invariant := range []string{"M1", "L3", "M2w"} {
		line := `"level":"ERROR","msg":"the books do not agree","invariant":"` + invariant + `","subject":"lco 1","detail":"`
		if got := strings.Count(w.Log.String(), line); got != 1 {
			t.Errorf("%s is logged %d times; want once", invariant, got)
		}
	}
	// The node stays ready: stopping it is a staff decision.
	w.WaitUntil("the node is ready", func() bool {
		w.Time.Store(time.Now().UnixMilli()) // PostgreSQL's clock advances, and a node whose clock differs is not ready
		return e2e.Readiness(t, w.Demo.InternalURL) == http.StatusOK
	})

	e2e.ExecOnStore(t, w.Node.Config.Store, `UPDATE wallets SET balance_paise = balance_paise + 1 WHERE operator_id = 1`)
	w.WaitUntil("the books agree again", func() bool { return violations("M1") == 0 && violations("L3") == 0 && violations("M2w") == 0 })
	w.WaitUntil("the recovery is logged", func() bool { return strings.Contains(w.Log.String(), `"the books agree again"`) })
}

func TestBackgroundAudit_OffHasNoMetrics(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	if w.Node.AuditWatch != nil || w.Metric(`coax_audit_runs_total{result="clean"}`) != -1 {
		t.Error("audits are reported although none is configured")
	}
}
