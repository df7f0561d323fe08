package telemetry

import (
	"errors"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestMetrics_Handler(t *testing.T) {
	m := NewMetrics()
	m.RequestAnswered("/api/v1/balance", "OK", 700*time.Microsecond)
	m.RequestAnswered("/api/v1/balance", "OK", 2*time.Second)
	m.MalformedRequest("-", "BAD_REQUEST")
	m.ConnectionOpened()
	m.ConnectionOpened()
	m.ConnectionClosed()
	m.ConnectionRefused("total")
	m.BatchCommitted(64, 3*time.Millisecond)
	m.BatchCommitted(1, time.Millisecond)
	m.StoreQueue(func() int { return 5 })
	m.CertificateExpires(func() time.Time { return time.Unix(1_800_000_000, 0) })
	m.RowsPurged(500)
	m.BulkRowSettled("done")
	m.BulkRowSettled("done")
	m.BulkRowSettled("refused")
	m.BulkJobsOpen(func() (int, error) { return 3, nil })
	m.BulkJobsInterrupted(func() (int, error) { return 2, nil })
	m.Maintenance(func() (int, error) { return 1, nil })
	m.ReviewsOverdue(func() (int, error) { return 0, errors.New("the store is away") })

	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`coax_http_requests_total{code="OK",endpoint="/api/v1/balance"} 2`,
		`coax_http_requests_total{code="BAD_REQUEST",endpoint="-"} 1`,
		`coax_http_request_seconds_bucket{endpoint="/api/v1/balance",le="0.001"} 1`,
		`coax_http_request_seconds_count{endpoint="/api/v1/balance"} 2`,
		`coax_http_connections 1`,
		`coax_http_connections_refused_total{reason="total"} 1`,
		`coax_http_malformed_requests_total 1`,
		`coax_store_batches_total 2`,
		`coax_store_writes_total 65`,
		`coax_store_batch_seconds_count 2`,
		`coax_store_queue 5`,
		`coax_tls_certificate_expiry_timestamp_seconds 1.8e+09`,
		`coax_purged_rows_total 500`,
		`coax_bulk_rows_total{outcome="done"} 2`,
		`coax_bulk_rows_total{outcome="refused"} 1`,
		`coax_bulk_jobs_open 3`,
		`coax_bulk_jobs_interrupted 2`,
		`coax_maintenance 1`,
		`coax_reviews_overdue NaN`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("the metrics do not say %s", want)
		}
	}
	for _, name := range []string{"go_goroutines", "process_open_fds"} {
		if !strings.Contains(w.Body.String(), name) {
			t.Errorf("the metrics do not have %s", name)
		}
	}
}

func TestAuditMetrics(t *testing.T) {
	m := NewMetrics()
	audits := m.Audits([]string{"M1", "S4"})
	served := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	if before := served(); strings.Contains(before, "coax_audit_violations{") || strings.Contains(before, "coax_audit_last_success_timestamp_seconds ") {
		t.Error("something is told before anything was audited")
	}
	at := time.UnixMilli(1_800_000_000_500)
	audits.Audited(nil, at, 2*time.Second)
	audits.Audited(map[string]int{"S4": 3, "made up": 1}, at.Add(time.Minute), time.Second)
	audits.Failed(time.Second)
	text := served()
	for _, want := range []string{
		`coax_audit_runs_total{result="clean"} 1`,
		`coax_audit_runs_total{result="violated"} 1`,
		`coax_audit_runs_total{result="failed"} 1`,
		`coax_audit_violations{invariant="M1"} 0`,
		`coax_audit_violations{invariant="S4"} 3`,
		`coax_audit_last_success_timestamp_seconds 1.8000000605e+09`,
		`coax_audit_duration_seconds_sum 4`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics do not say %s", want)
		}
	}
	if strings.Contains(text, "made up") {
		t.Error("an invariant that was not named beforehand has made a series of its own")
	}
}

func TestMetrics_SeparateRegistries(t *testing.T) {
	NewMetrics().ConnectionOpened() // a registry they shared would panic here
	NewMetrics().ConnectionOpened()
}

func TestNewRequestID_FormatAndUnique(t *testing.T) {
	form := regexp.MustCompile(`^req_[0-9a-f]{32}$`)
	seen := map[string]bool{}
	for range 1000 {
		id := NewRequestID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("NewRequestID() = %q; want a new req_ and 32 hex characters", id)
		}
		seen[id] = true
	}
}

func TestStopwatch_OnlyGoesForward(t *testing.T) {
	watch := StartStopwatch()
	first := watch.Elapsed()
	if second := watch.Elapsed(); first < 0 || second < first {
		t.Errorf("elapsed %v, then %v", first, second)
	}
}
