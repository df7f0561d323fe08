package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"
)

// Internal is the handler of the internal listener, which must not be reachable from
// outside: health, readiness, metrics and, if configured, profiles. It never serves the
// API.
type Internal struct {
	ready    func(context.Context) error
	metrics  http.Handler
	profiles http.Handler
	draining atomic.Bool
}

// NewInternal returns the internal handler. ready returns an error if the node must not
// get requests; profiles may be nil.
func NewInternal(ready func(context.Context) error, metrics, profiles http.Handler) *Internal {
	return &Internal{ready: ready, metrics: metrics, profiles: profiles}
}

// profilesPath is where Go's tools look for profiles.
const profilesPath = "/debug/pprof/"

// Profiles serves Go's profiles. It leaves out the command line, which net/http/pprof
// serves too: it may hold the store's password.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(profilesPath, pprof.Index)
	mux.HandleFunc(profilesPath+"profile", pprof.Profile)
	mux.HandleFunc(profilesPath+"trace", pprof.Trace)
	mux.HandleFunc(profilesPath+"symbol", pprof.Symbol)
	return mux
}

// Drain makes the node not ready for good, so that the load balancer stops sending
// requests before the listeners close.
func (i *Internal) Drain() { i.draining.Store(true) }

func (i *Internal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeState(w, http.StatusMethodNotAllowed, "method")
		return
	}
	switch path := r.URL.Path; {
	case path == "/healthz":
		writeState(w, http.StatusOK, "")
	case path == "/readyz":
		i.readyz(w, r)
	case path == "/metrics":
		i.metrics.ServeHTTP(w, r)
	case i.profiles != nil && strings.HasPrefix(path, profilesPath):
		i.profiles.ServeHTTP(w, r)
	default:
		writeState(w, http.StatusNotFound, "path")
	}
}

func (i *Internal) readyz(w http.ResponseWriter, r *http.Request) {
	reason := i.Ready(r.Context())
	if reason != "" {
		writeState(w, http.StatusServiceUnavailable, reason)
		return
	}
	writeState(w, http.StatusOK, "")
}

// Ready returns in one word why the node must not get requests; "" if it may.
func (i *Internal) Ready(ctx context.Context) string {
	switch {
	case i.draining.Load():
		return "draining"
	case i.ready(ctx) != nil:
		// A load balancer needs no details, and /readyz has no password.
		return "store"
	}
	return ""
}

// writeState writes whether the node is well and, if not, a one-word reason.
func writeState(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(struct {
		OK     bool   `json:"ok"`
		Reason string `json:"reason,omitempty"`
	}{status == http.StatusOK, reason})
}
