package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/telemetry"
)

func TestInternalListener(t *testing.T) {
	var store error
	internal := NewInternal(func(context.Context) error { return store }, telemetry.NewMetrics().Handler())
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
	expect("POST", "/readyz", 405, `"method"`)

	store = errors.New("no such host: db.internal")
	expect("GET", "/readyz", 503, `{"ok":false,"reason":"store"}`)
	expect("GET", "/healthz", 200, `{"ok":true}`)

	internal.Drain()
	store = nil
	expect("GET", "/readyz", 503, `{"ok":false,"reason":"draining"}`)
	expect("GET", "/healthz", 200, `{"ok":true}`)
}
