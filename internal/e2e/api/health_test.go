package api

import (
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
)

func TestHealth_OverdueReviews(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s")
	w.StartReview(w.NewFundedOperator("me", "100000"), "activate", "unknowable", "9000080001", "a-day-old")
	if got := w.Metric("coax_reviews_overdue"); got != 0 {
		t.Errorf("%v are overdue at once; want 0", got)
	}
	w.Advance(admin.ReviewDue - time.Minute)
	if got := w.Metric("coax_reviews_overdue"); got != 0 {
		t.Errorf("%v are overdue within a day; want 0", got)
	}
	w.Advance(2 * time.Minute)
	if got, health := w.Metric("coax_reviews_overdue"), w.Node.Health(t.Context()); got != 1 || health.OverdueReviews != 1 {
		t.Errorf("%v are overdue after a day by the metric, %d by the health page; want 1", got, health.OverdueReviews)
	}
}

func TestHealth_ReportsNodeProviderAudit(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnvAt(t, time.Now(), "audit.every=10ms")
	w.WaitUntil("an audit has run", func() bool { return !w.Node.Health(t.Context()).Audit.EndedAt.IsZero() })
	health := w.Node.Health(t.Context())
	kind := w.Node.Config.Store.Kind
	if health.Node == "" || health.Version == "" || health.Started.IsZero() || health.Store != kind || health.StoreProblem != "" || health.Migrations == 0 {
		t.Errorf("the node is %+v", health)
	}
	if p := health.Provider; p.Name == "" || p.Down || !p.PricesVerified || p.PricesVerifiedAt.IsZero() || p.PricesProblem != "" {
		t.Errorf("the provider is %+v", p)
	}
	if a := health.Audit; a.Every != 10*time.Millisecond || a.Problem != "" || a.Violations != 0 || len(a.First) != 0 {
		t.Errorf("the audit is %+v", a)
	}
	e2e.ExecOnStore(t, w.Node.Config.Store, `UPDATE wallets SET balance_paise = balance_paise - 1 WHERE operator_id = 1`)
	w.WaitUntil("the damage is found", func() bool { return w.Node.Health(t.Context()).Audit.Violations > 0 })
	if first := w.Node.Health(t.Context()).Audit.First; len(first) == 0 || !strings.Contains(first[0], "lco 1") {
		t.Errorf("the violations are %q; want the wallet's", first)
	}
	e2e.ExecOnStore(t, w.Node.Config.Store, `UPDATE wallets SET balance_paise = balance_paise + 1 WHERE operator_id = 1`)
	w.ControlSimulator("status", `{"mode":"down","catalogue":"down"}`)
	w.Advance(w.Node.Config.Catalogue.MaxAge + time.Minute)
	w.WaitUntil("the verified prices have expired", func() bool {
		p := w.Node.Health(t.Context()).Provider
		return !p.PricesVerified && p.PricesProblem != ""
	})
}

func TestHealth_NoAuditConfigured(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	if a := w.Node.Health(t.Context()).Audit; a.Every != 0 || !a.EndedAt.IsZero() {
		t.Errorf("the audit is %+v; want none", a)
	}
}
