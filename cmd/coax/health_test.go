package main

import (
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
)

func TestAReviewThatIsADayOldIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "provider.timeout=2s")
	w.inReview(w.rich("me", "100000"), "activate", "unknowable", "9000080001", "a-day-old")
	if got := w.metric("coax_reviews_overdue"); got != 0 {
		t.Errorf("%v are overdue at once; want 0", got)
	}
	w.pass(admin.ReviewDue - time.Minute)
	if got := w.metric("coax_reviews_overdue"); got != 0 {
		t.Errorf("%v are overdue within a day; want 0", got)
	}
	w.pass(2 * time.Minute)
	if got, health := w.metric("coax_reviews_overdue"), w.node.health(t.Context()); got != 1 || health.OverdueReviews != 1 {
		t.Errorf("%v are overdue after a day, and %d for people; want 1", got, health.OverdueReviews)
	}
}

func TestANodeKnowsHowItIs(t *testing.T) {
	t.Parallel()
	w := newWorldAt(t, time.Now(), "audit.every=10ms")
	w.until("something was audited", func() bool { return !w.node.health(t.Context()).Audit.EndedAt.IsZero() })
	health := w.node.health(t.Context())
	kind := w.node.config.Store.Kind
	if health.Node == "" || health.Version == "" || health.Started.IsZero() || health.Store != kind || health.StoreProblem != "" || health.Migrations == 0 {
		t.Errorf("the node is %+v", health)
	}
	if p := health.Provider; p.Name == "" || p.Out || !p.PricesCount || p.PricesVerifiedAt.IsZero() || p.PricesProblem != "" {
		t.Errorf("the provider is %+v", p)
	}
	if a := health.Audit; a.Every != 10*time.Millisecond || a.Problem != "" || a.Violations != 0 || len(a.First) != 0 {
		t.Errorf("the audit is %+v", a)
	}
	damageStore(t, w.node.config.Store, `UPDATE wallets SET balance_paise = balance_paise - 1 WHERE operator_id = 1`)
	w.until("the damage is found", func() bool { return w.node.health(t.Context()).Audit.Violations > 0 })
	if first := w.node.health(t.Context()).Audit.First; len(first) == 0 || !strings.Contains(first[0], "lco 1") {
		t.Errorf("the violations are %q; want the wallet's", first)
	}
	damageStore(t, w.node.config.Store, `UPDATE wallets SET balance_paise = balance_paise + 1 WHERE operator_id = 1`)
	w.steer("status", `{"mode":"down","catalogue":"down"}`)
	w.pass(w.node.config.Catalogue.MaxAge + time.Minute)
	w.until("prices no longer count", func() bool {
		p := w.node.health(t.Context()).Provider
		return !p.PricesCount && p.PricesProblem != ""
	})
}

func TestANodeThatAuditsNothingHasNoAuditToTellOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if a := w.node.health(t.Context()).Audit; a.Every != 0 || !a.EndedAt.IsZero() {
		t.Errorf("the audit is %+v; want none", a)
	}
}
