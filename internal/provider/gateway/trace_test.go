package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// Each call is traced once, and its own traceparent does not get into the headers of others.
func TestTrace_EachCallHasItsOwn(t *testing.T) {
	var mu sync.Mutex
	sent := map[string][]string{}
	provider := serving(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent[r.URL.Path] = append(sent[r.URL.Path], strings.Join(r.Header["Traceparent"], " "))
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	var began, ended []string
	g := open(t, Config{URL: provider.URL, Token: "token", Trace: func(_ context.Context, what, reference string) (string, func(Observation)) {
		began = append(began, what+" "+reference)
		if what == "void" {
			return "", nil
		}
		return "trace-" + what, func(o Observation) { ended = append(ended, o.What+" "+string(o.Cause)) }
	}})
	g.Apply(t.Context(), order)
	g.Status(t.Context(), order)
	g.Void(t.Context(), order)
	g.ResetPassword(t.Context(), operation.PasswordReset{Reference: "PW1"})
	_, _ = g.Catalogue(t.Context())
	_ = g.Probe(t.Context())

	for path, want := range map[string][]string{
		paths[operation.Activate]: {"trace-activate"}, pathStatus: {"trace-status", "trace-probe"}, pathVoid: {""},
		pathPassword: {"trace-reset_password"}, pathCatalogue: {"trace-catalogue"},
	} {
		if !slices.Equal(sent["/"+path], want) {
			t.Errorf("%s carried %q; want %q", path, sent[path], want)
		}
	}
	if want := []string{"activate CX1-2.3", "status CX1-2.3", "void CX1-2.3", "reset_password PW1", "catalogue ", "probe probe"}; !slices.Equal(began, want) {
		t.Errorf("began %q; want %q", began, want)
	}
	if want := []string{"activate unavailable", "status unavailable", "reset_password unavailable", "catalogue unavailable", "probe unavailable"}; !slices.Equal(ended, want) {
		t.Errorf("ended %q; want %q", ended, want)
	}
	if len(g.postHeader["Traceparent"])+len(g.getHeader["Traceparent"]) > 0 {
		t.Error("the headers that all calls share have a traceparent")
	}
}

func TestTrace_NoneAllocatesNothing(t *testing.T) {
	g := open(t, Config{URL: "http://127.0.0.1:9"})
	ctx := t.Context()
	if allocated := testing.AllocsPerRun(1000, func() {
		c := g.begin(ctx, "status", "CX1")
		if c.header(g.postHeader) == nil {
			t.Fatal("no header")
		}
		g.conclude(c, result{cause: Answered})
	}); allocated != 0 {
		t.Errorf("%v allocations; want none", allocated)
	}
}
