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
	m.Batches("write").Committed(64, 3*time.Millisecond)
	m.Batches("write").Committed(1, time.Millisecond)
	m.ProviderCalled("activate", "answered", 30*time.Millisecond)
	m.ProviderOrdered("activate", "confirmed")
	m.ExpectProviderCalls([]string{"activate", "void"}, []string{"answered", "certificate"})
	m.ExpectProviderOrders([]string{"activate"}, []string{"confirmed", "unknown"})
	m.ExpectConnections([]string{"total", "handshake"}, []string{"total"}, []string{"idle"})
	m.ExpectResponses("/api/v1/plans", "OK", "INTERNAL_ERROR")
	m.ExpectDurations("/api/v1/plans", "OK")
	m.BuildInfo("1.2.3", "abcdef", "go1.26", "sqlite")
	holds := m.Holds([]string{"processing", "needs_review"})
	holds.Measured("needs_review", 2, 1200.5, 90*time.Second)
	places := m.Places()
	places.Disk("store", 1<<30, 1<<40)
	places.Backup(1_800_000_000)
	m.StoreQueue(func() int { return 5 })
	m.CertificateExpires(func() time.Time { return time.Unix(1_800_000_000, 0) })
	m.CertificateProblem(func() bool { return true })
	m.RowsPurged("nonces", 500)
	m.BulkRowSettled("done")
	m.BulkRowSettled("done")
	m.BulkRowSettled("refused")
	m.Gauge("coax_maintenance", "on", func() (float64, error) { return 1, nil })
	m.Replica(func() (time.Duration, time.Time, uint64) {
		return 2500 * time.Millisecond, time.UnixMilli(1_800_000_000_500), 7
	})
	m.StoreMarkAge(func() time.Duration { return 1500 * time.Millisecond })
	m.Gauge("coax_reviews_overdue", "count", func() (float64, error) { return 0, errors.New("the store is away") })

	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`coax_http_requests_total{code="OK",endpoint="/api/v1/balance"} 2`,
		`coax_http_requests_total{code="BAD_REQUEST",endpoint="-"} 1`,
		`coax_http_requests_total{code="INTERNAL_ERROR",endpoint="/api/v1/plans"} 0`,
		`coax_http_request_seconds_bucket{code="OK",endpoint="/api/v1/balance",le="0.001"} 1`,
		`coax_http_request_seconds_count{code="OK",endpoint="/api/v1/balance"} 2`,
		`coax_http_request_seconds_count{code="OK",endpoint="/api/v1/plans"} 0`,
		`coax_http_connections 1`,
		`coax_http_connections_refused_total{reason="total"} 1`,
		`coax_http_connections_refused_total{reason="handshake"} 0`,
		`coax_http_connections_dropped_total{reason="total",state="idle"} 0`,
		`coax_http_malformed_requests_total 1`,
		`coax_store_batches_total{batcher="write"} 2`,
		`coax_store_writes_total{batcher="write"} 65`,
		`coax_store_batch_writes_bucket{batcher="write",le="32"} 1`,
		`coax_store_batch_seconds_count{batcher="write"} 2`,
		`coax_provider_calls_total{cause="answered",what="activate"} 1`,
		`coax_provider_calls_total{cause="certificate",what="void"} 0`,
		`coax_provider_call_seconds_bucket{what="activate",le="0.05"} 1`,
		`coax_provider_call_seconds_count{what="void"} 0`,
		`coax_provider_orders_total{outcome="confirmed",what="activate"} 1`,
		`coax_provider_orders_total{outcome="unknown",what="activate"} 0`,
		`coax_build_info{goversion="go1.26",revision="abcdef",store="sqlite",version="1.2.3"} 1`,
		`coax_holds{status="processing"} NaN`,
		`coax_holds{status="needs_review"} 2`,
		`coax_holds_rupees{status="needs_review"} 1200.5`,
		`coax_holds_oldest_age_seconds{status="needs_review"} 90`,
		`coax_disk_free_bytes{place="store"} 1.073741824e+09`,
		`coax_disk_size_bytes{place="store"} 1.099511627776e+12`,
		`coax_backup_last_timestamp_seconds 1.8e+09`,
		`coax_security_events_total{event="sign_in_failed",outcome="refused"} 0`,
		`coax_security_events_total{event="signed_in",outcome="done"} 0`,
		`coax_store_queue 5`,
		`coax_tls_certificate_expiry_timestamp_seconds 1.8e+09`,
		`coax_tls_certificate_problem 1`,
		`coax_purged_rows_total{table="nonces"} 500`,
		`coax_bulk_rows_total{outcome="done"} 2`,
		`coax_bulk_rows_total{outcome="refused"} 1`,
		`coax_maintenance 1`,
		`coax_store_mark_age_seconds 1.5`,
		`coax_replica_lag_seconds 2.5`,
		`coax_replica_last_success_timestamp_seconds 1.8000000005e+09`,
		`coax_replica_errors_total 7`,
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
	for _, want := range []string{`coax_audit_violations{invariant="M1"} NaN`, `coax_audit_last_success_timestamp_seconds 0`} {
		if before := served(); !strings.Contains(before, want+"\n") {
			t.Errorf("before the first audit the metrics do not say %s", want)
		}
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
