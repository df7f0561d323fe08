package server

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/telemetry"
)

// watchedStore is the configuration of an empty store, audited every minute.
func watchedStore(t *testing.T) Config {
	t.Helper()
	config, err := LoadConfig(Sources{Sets: []string{"audit.every=1m", "store.url=sqlite:" + filepath.Join(t.TempDir(), "coax.db")}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(t.Context(), config, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return config
}

// watched returns the watch of a store; open runs before the store is opened and can fail it.
func watched(config Config, open func(ctx context.Context) error) (*auditWatch, *telemetry.Metrics, *bytes.Buffer) {
	metrics, logged := telemetry.NewMetrics(), &bytes.Buffer{}
	watch := newAuditWatch(config, func() *audit.Keys { return nil }, telemetry.NewLogger(logged, nil, "json"), func() time.Time { return time.Now().UTC() }, metrics)
	really := watch.open
	watch.open = func(ctx context.Context) (audit.Snapshot, func(), error) {
		if err := open(ctx); err != nil {
			return nil, nil, err
		}
		return really(ctx)
	}
	return watch, metrics, logged
}

func TestAuditWatch_PausesAfterEachAudit(t *testing.T) {
	config := watchedStore(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var begins []time.Duration
		watch, _, _ := watched(config, func(context.Context) error {
			begins = append(begins, time.Since(began))
			time.Sleep(90 * time.Second) // of synctest's clock: a slow store
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

func TestAuditWatch_StopsWithNode(t *testing.T) {
	config := watchedStore(t)
	synctest.Test(t, func(t *testing.T) {
		watch, metrics, logged := watched(config, func(ctx context.Context) error {
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
			if got := sample(t, text, `coax_audit_runs_total{result="`+result+`"}`); got != 0 {
				t.Errorf("%v audits are %s; want none", got, result)
			}
		}
		if logged.String() != "" || !math.IsNaN(sample(t, text, `coax_audit_violations{invariant="M1"}`)) || sample(t, text, "coax_audit_last_success_timestamp_seconds") != 0 {
			t.Errorf("an interrupted audit was logged or counted: %s", logged)
		}
	})
}

func TestAuditWatch_RetriesUnreadableStore(t *testing.T) {
	config := watchedStore(t)
	synctest.Test(t, func(t *testing.T) {
		times := 0
		watch, metrics, logged := watched(config, func(context.Context) error {
			if times++; times == 1 {
				return errors.New("the store is unreachable")
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		watch.run(ctx)
		text := scraped(t, metrics)
		if failed, clean := sample(t, text, `coax_audit_runs_total{result="failed"}`), sample(t, text, `coax_audit_runs_total{result="clean"}`); failed != 1 || clean != 1 {
			t.Errorf("%v audits failed and %v are clean; want 1 and 1", failed, clean)
		}
		if got := sample(t, text, `coax_audit_duration_seconds_count`); got != 2 {
			t.Errorf("%v audits are timed; want 2", got)
		}
		mentions(t, logged.String(), `"level":"WARN","msg":"the books could not be audited","error":"the store is unreachable"`)
	})
}

// mentions fails the test unless a log contains all of these.
func mentions(t *testing.T, log string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(log, w) {
			t.Errorf("the log does not mention %q:\n%s", w, log)
		}
	}
}

// sample returns a metric's value; -1 if there is none.
func sample(t *testing.T, metrics, name string) float64 {
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

func scraped(t *testing.T, metrics *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestAuditWatch_LogsNewViolationsOnce(t *testing.T) {
	t.Parallel()
	logged := &bytes.Buffer{}
	watch := &auditWatch{log: telemetry.NewLogger(logged, nil, "json")}
	report := audit.Report{LeftOut: 7}
	for i := range maxAuditLines + 5 {
		report.Violations = append(report.Violations, audit.Violation{Invariant: "M1", Subject: "lco " + strconv.Itoa(i), Detail: "x"})
	}
	for range 3 {
		watch.logChanges(report)
	}
	text := logged.String()
	if got := strings.Count(text, `"the books do not agree"`); got != maxAuditLines {
		t.Errorf("%d lines; want %d", got, maxAuditLines)
	}
	mentions(t, text, `more places; `, `"more":12}`)
	if got := strings.Count(text, "\n"); got != maxAuditLines+1 {
		t.Errorf("%d lines in all; want %d", got, maxAuditLines+1)
	}
	another := audit.Violation{Invariant: "S4", Subject: "operation CX1", Detail: "y"}
	watch.logChanges(audit.Report{Violations: append(report.Violations, another)})
	mentions(t, logged.String(), `"invariant":"S4","subject":"operation CX1","detail":"y"`)
}
