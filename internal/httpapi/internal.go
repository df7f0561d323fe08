package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"
)

// Internal answers on the internal listener, which only the house itself can
// reach: is the process alive, may it be sent requests, what has it counted and,
// where somebody asked for it, where its time goes. It never serves the API.
type Internal struct {
	ready    func(context.Context) error
	metrics  http.Handler
	profiles http.Handler
	draining atomic.Bool
}

// NewInternal returns the internal handler. Ready says whether the store can be
// reached; metrics is served as it is, and so is profiles, which is nil where
// none are offered.
func NewInternal(ready func(context.Context) error, metrics, profiles http.Handler) *Internal {
	return &Internal{ready: ready, metrics: metrics, profiles: profiles}
}

// profilesPath is where Go's tools look for profiles.
const profilesPath = "/debug/pprof/"

// Profiles shows where the process spends its time and memory. The command line,
// which Go's own pages show too, is not among them: it may hold the password of
// the store.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(profilesPath, pprof.Index)
	mux.HandleFunc(profilesPath+"profile", pprof.Profile)
	mux.HandleFunc(profilesPath+"trace", pprof.Trace)
	mux.HandleFunc(profilesPath+"symbol", pprof.Symbol)
	return mux
}

// Drain makes the node not ready for good, so that whoever spreads the load goes
// elsewhere before the doors are shut.
func (i *Internal) Drain() { i.draining.Store(true) }

func (i *Internal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		state(w, http.StatusMethodNotAllowed, "method")
		return
	}
	switch path := r.URL.Path; {
	case path == "/healthz":
		state(w, http.StatusOK, "")
	case path == "/readyz":
		i.readyz(w, r)
	case path == "/metrics":
		i.metrics.ServeHTTP(w, r)
	case i.profiles != nil && strings.HasPrefix(path, profilesPath):
		i.profiles.ServeHTTP(w, r)
	default:
		state(w, http.StatusNotFound, "path")
	}
}

func (i *Internal) readyz(w http.ResponseWriter, r *http.Request) {
	switch {
	case i.draining.Load():
		state(w, http.StatusServiceUnavailable, "draining")
	case i.ready(r.Context()) != nil:
		// One word is enough for whoever spreads the load. What exactly is
		// wrong is no business of a page without a password.
		state(w, http.StatusServiceUnavailable, "store")
	default:
		state(w, http.StatusOK, "")
	}
}

// state writes whether all is well and, if not, one word on why.
func state(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(struct {
		OK     bool   `json:"ok"`
		Reason string `json:"reason,omitempty"`
	}{status == http.StatusOK, reason})
}
