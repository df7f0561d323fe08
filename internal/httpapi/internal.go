package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
)

// Internal answers on the internal listener, which only the house itself can
// reach: is the process alive, may it be sent requests, what has it counted. It
// never serves the API.
type Internal struct {
	ready    func(context.Context) error
	metrics  http.Handler
	draining atomic.Bool
}

// NewInternal returns the internal handler. Ready says whether the store can be
// reached; metrics is served as it is.
func NewInternal(ready func(context.Context) error, metrics http.Handler) *Internal {
	return &Internal{ready: ready, metrics: metrics}
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
	switch r.URL.Path {
	case "/healthz":
		state(w, http.StatusOK, "")
	case "/readyz":
		i.readyz(w, r)
	case "/metrics":
		i.metrics.ServeHTTP(w, r)
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
