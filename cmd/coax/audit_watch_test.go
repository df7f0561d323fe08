package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/telemetry"
)

// metric reads a figure of a node's metrics; -1 if there is none.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	_, text := cliGet(w.t, w.line.InternalURL+"/metrics")
	return figure(w.t, text, name)
}

func figure(t testing.TB, metrics, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(metrics)
	if found == nil {
		return -1
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestANodeAuditsItsBooksBesideItsWork(t *testing.T) {
	t.Parallel()
	w := newWorldAt(t, time.Now(), "audit.every=10ms")
	violations := func(invariant string) float64 {
		return w.metric(`coax_audit_violations{invariant="` + invariant + `"}`)
	}
	w.operate(w.demoCaller(), "activate", "first", activation("9876543210"))
	clean := w.metric(`coax_audit_runs_total{result="clean"}`)
	w.until("the books are found to agree", func() bool { return w.metric(`coax_audit_runs_total{result="clean"}`) > clean+1 })
	for _, invariant := range audit.Invariants {
		if got := violations(invariant.ID); got != 0 {
			t.Errorf("%s: %v violations; want 0", invariant.ID, got)
		}
	}
	if got, want := w.metric(`coax_audit_last_success_timestamp_seconds`), float64(w.now().UnixMilli())/1000; got != want {
		t.Errorf("the last audit was at %v; want %v", got, want)
	}

	damageStore(t, w.node.config.Store, `UPDATE wallets SET balance_paise = balance_paise - 1 WHERE operator_id = 1`)
	w.until("the damage is found", func() bool { return violations("M1") == 1 && violations("L3") == 1 && violations("M2w") == 1 })
	violated := w.metric(`coax_audit_runs_total{result="violated"}`)
	w.until("it is found again", func() bool { return w.metric(`coax_audit_runs_total{result="violated"}`) > violated+2 })
	for _, invariant := range []string{"M1", "L3", "M2w"} {
		line := `"level":"ERROR","msg":"the books do not agree","invariant":"` + invariant + `","subject":"lco 1","detail":"`
		if got := strings.Count(w.logged.String(), line); got != 1 {
			t.Errorf("%s is logged %d times; want once", invariant, got)
		}
	}
	w.until("it stays ready, since stopping is a person's decision", func() bool {
		w.time.Store(time.Now().UnixMilli()) // a server's clock goes on, and a node that stands still is not ready
		return readiness(t, w.line.InternalURL) == http.StatusOK
	})

	damageStore(t, w.node.config.Store, `UPDATE wallets SET balance_paise = balance_paise + 1 WHERE operator_id = 1`)
	w.until("the books agree again", func() bool { return violations("M1") == 0 && violations("L3") == 0 && violations("M2w") == 0 })
	w.until("it is told", func() bool { return strings.Contains(w.logged.String(), `"the books agree again"`) })
}

func TestANodeThatAuditsNothingTellsNothingOfAudits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if w.node.auditWatch != nil || w.metric(`coax_audit_runs_total{result="clean"}`) != -1 {
		t.Error("audits are told of where none was asked for")
	}
}

// watched is a watch over a house whose store opens when the test says so.
func watched(t *testing.T, h *cliHouse, open func(ctx context.Context) error) (*auditWatch, *telemetry.Metrics, *synchronised) {
	config, err := loadConfig(sources{file: h.config, sets: []string{"audit.every=1m"}})
	if err != nil {
		t.Fatal(err)
	}
	metrics, logged := telemetry.NewMetrics(), &synchronised{}
	watch := newAuditWatch(config, telemetry.NewLogger(logged, nil, "json"), func() time.Time { return time.Now().UTC() }, metrics)
	really := watch.open
	watch.open = func(ctx context.Context) (audit.Snapshot, func(), error) {
		if err := open(ctx); err != nil {
			return nil, nil, err
		}
		return really(ctx)
	}
	return watch, metrics, logged
}

func TestTheNextAuditBeginsAPauseAfterTheLastHasEnded(t *testing.T) {
	aboutSQLite(t, "the clock is the test's, and no server's")
	h := cliNewHouse(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var begins []time.Duration
		watch, _, _ := watched(t, h, func(context.Context) error {
			begins = append(begins, time.Since(began))
			time.Sleep(90 * time.Second) // of the bubble's time: a store that is slow
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Minute+10*time.Second)
		defer cancel()
		watch.run(ctx)
		for i, want := range []time.Duration{time.Minute, 3*time.Minute + 30*time.Second, 6 * time.Minute} {
			if len(begins) != 3 || begins[i] != want {
				t.Fatalf("audits began after %v; want one at a time, each a minute after the last: 1m, 3m30s, 6m", begins)
			}
		}
	})
}

func TestAnAuditEndsWithItsNodeAndCountsForNothingThen(t *testing.T) {
	aboutSQLite(t, "the clock is the test's, and no server's")
	h := cliNewHouse(t)
	synctest.Test(t, func(t *testing.T) {
		watch, metrics, logged := watched(t, h, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		began := time.Now()
		watch.run(ctx)
		if took := time.Since(began); took != 61*time.Second {
			t.Errorf("it ended after %s; want it to end with its node, after 61s", took)
		}
		text := scraped(t, metrics)
		for _, result := range []string{"clean", "violated", "failed"} {
			if got := figure(t, text, `coax_audit_runs_total{result="`+result+`"}`); got != 0 {
				t.Errorf("%v audits are %s; want none", got, result)
			}
		}
		if logged.String() != "" || strings.Contains(text, "coax_audit_violations{") {
			t.Errorf("something is told of an audit that never was: %s", logged)
		}
	})
}

func TestAnAuditThatCannotReadTheStoreSaysSoAndTriesAgain(t *testing.T) {
	aboutSQLite(t, "the clock is the test's, and no server's")
	h := cliNewHouse(t)
	synctest.Test(t, func(t *testing.T) {
		times := 0
		watch, metrics, logged := watched(t, h, func(context.Context) error {
			if times++; times == 1 {
				return errors.New("the store is away")
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		watch.run(ctx)
		text := scraped(t, metrics)
		if failed, clean := figure(t, text, `coax_audit_runs_total{result="failed"}`), figure(t, text, `coax_audit_runs_total{result="clean"}`); failed != 1 || clean != 1 {
			t.Errorf("%v audits failed and %v are clean; want 1 and 1", failed, clean)
		}
		if got := figure(t, text, `coax_audit_duration_seconds_count`); got != 2 {
			t.Errorf("%v audits are timed; want 2", got)
		}
		cliSays(t, "the log", logged.String(), `"level":"WARN","msg":"the books could not be audited","error":"the store is away"`)
	})
}

func scraped(t *testing.T, metrics *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestWhatIsNewlyWrongIsLoggedOnceAndNotWithoutEnd(t *testing.T) {
	t.Parallel()
	logged := &synchronised{}
	watch := &auditWatch{log: telemetry.NewLogger(logged, nil, "json")}
	report := audit.Report{LeftOut: 7}
	for i := range auditLinesMost + 5 {
		report.Violations = append(report.Violations, audit.Violation{Invariant: "M1", Subject: "lco " + strconv.Itoa(i), Detail: "x"})
	}
	for range 3 {
		watch.tell(report)
	}
	text := logged.String()
	if got := strings.Count(text, `"the books do not agree"`); got != auditLinesMost {
		t.Errorf("%d lines; want %d", got, auditLinesMost)
	}
	cliSays(t, "the log", text, `more places; `, `"more":12}`)
	if got := strings.Count(text, "\n"); got != auditLinesMost+1 {
		t.Errorf("%d lines in all; want %d", got, auditLinesMost+1)
	}
	another := audit.Violation{Invariant: "S4", Subject: "operation CX1", Detail: "y"}
	watch.tell(audit.Report{Violations: append(report.Violations, another)})
	cliSays(t, "the log", logged.String(), `"invariant":"S4","subject":"operation CX1","detail":"y"`)
}
