package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/telemetry"
)

func TestInternal_Endpoints(t *testing.T) {
	var store error
	internal := NewInternal(func(context.Context) error { return store }, telemetry.NewMetrics().Handler(), nil)
	ask := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		internal.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	expect := func(method, path string, status int, body string) {
		t.Helper()
		if got, text := ask(method, path); got != status || !strings.Contains(text, body) {
			t.Errorf("%s %s: %d %s; want %d with %s", method, path, got, text, status, body)
		}
	}

	expect("GET", "/healthz", 200, `{"ok":true}`)
	expect("GET", "/readyz", 200, `{"ok":true}`)
	expect("GET", "/metrics", 200, "go_goroutines")
	expect("GET", "/", 404, `"path"`)
	expect("GET", "/api/v1/balance", 404, `"path"`)
	expect("GET", "/debug/pprof/", 404, `"path"`)
	expect("GET", "/debug/pprof/profile?seconds=1", 404, `"path"`)
	expect("POST", "/readyz", 405, `"method"`)

	store = errors.New("no such host: db.internal")
	expect("GET", "/readyz", 503, `{"ok":false,"reason":"store"}`)
	expect("GET", "/healthz", 200, `{"ok":true}`)

	internal.Drain()
	store = nil
	expect("GET", "/readyz", 503, `{"ok":false,"reason":"draining"}`)
	expect("GET", "/healthz", 200, `{"ok":true}`)
}

func TestInternal_ProfilesOnlyIfConfigured(t *testing.T) {
	ready := func(context.Context) error { return nil }
	internal := NewInternal(ready, telemetry.NewMetrics().Handler(), Profiles())
	for _, test := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"GET", "/debug/pprof/heap?debug=1", 200, "heap profile"},
		{"GET", "/healthz", 200, `{"ok":true}`},
		{"GET", "/debug", 404, `"path"`},
		{"GET", "/debug/pprof/cmdline", 404, "Unknown profile"},
		{"POST", "/debug/pprof/symbol", 405, `"method"`},
	} {
		w := httptest.NewRecorder()
		internal.ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
		if text := w.Body.String(); w.Code != test.status || !strings.Contains(text, test.body) {
			t.Errorf("%s %s: %d %.200s; want %d with %s", test.method, test.path, w.Code, text, test.status, test.body)
		}
	}
}
