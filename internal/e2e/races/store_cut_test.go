package races

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// cutEnv is a service whose connection to its database can be cut.
type cutEnv struct {
	*e2e.Env
	proxy    *pgtest.Proxy
	url      string // of the database, not through the proxy
	me       e2e.Caller
	requests int
}

func newCutEnv(t *testing.T) *cutEnv {
	t.Helper()
	server := pgtest.Start(t)
	server.Exec(t, "postgres", "CREATE DATABASE coax")
	proxy := pgtest.NewProxy(t, server)
	w := &cutEnv{proxy: proxy, url: server.URL("coax")}
	// Disable background commits, so that after the start only the test's requests commit.
	w.Env = e2e.NewEnv(t, "store.url="+proxy.URL("coax"), "provider.timeout=5s", "review.first_check=1s",
		"catalogue.refresh=24h", "catalogue.max_age=48h", "request_log.keep=0s", e2e.WithoutMark)
	w.me = w.NewFundedOperator("me", "10000000")
	commits, since := -1, time.Now()
	w.WaitUntil("background commits have ended", func() bool {
		if now := proxy.Commits(); now != commits {
			commits, since = now, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
	return w
}

// operation sends a request with the connection cut as arm sets up, and repeats it with
// the same key until it is decided, as a client would. It returns the first answer's code.
func (w *cutEnv) operation(what string, arm func()) (first fault.Code, cut bool) {
	w.TB.Helper()
	w.requests++
	o := e2e.Order{"full_name": "Asha", "mobile": fmt.Sprintf("98%08d", w.requests), "plan_id": "BASIC-1"}
	if w.requests%4 == 0 { // the provider rejects this number
		o["mobile"] = fmt.Sprintf("900001%04d", w.requests)
	}
	key := fmt.Sprintf("cut-%06d", w.requests)
	before := w.proxy.Cuts()
	arm()
	got := w.Operate(w.me, "activate", key, o)
	cut = w.proxy.Cuts() > before
	first = got.Code

	id := got.Text("transaction_id")
	w.WaitUntil("the key is decided: "+what, func() bool {
		switch got.Code {
		case fault.OK, fault.ProviderError:
			return true
		case fault.RequestInProgress, fault.PendingReview:
			w.Advance(time.Second) // until its lease has expired and a worker checks it
		case fault.ServiceUnavailable, fault.InternalError:
		default:
			w.TB.Fatalf("%s: %s", what, got.Raw)
		}
		got = w.Operate(w.me, "activate", key, o)
		return false
	})
	if now := got.Text("transaction_id"); id != "" && now != id {
		w.TB.Errorf("%s: answered with %s, and then with %s", what, id, now)
	}
	want := map[fault.Code]int{fault.OK: 1}[got.Code]
	if effects := w.Simulator.Effects()[got.Text("transaction_id")]; effects != want {
		w.TB.Errorf("%s: %s, and carried out %d times", what, got.Code, effects)
	}
	orders := 0
	for _, c := range w.Simulator.Calls(o["mobile"]) {
		if c.Kind == "activate" {
			orders++
		}
	}
	if orders > 1 {
		w.TB.Errorf("%s: the provider was sent the order %d times", what, orders)
	}
	return first, cut
}

// checkAudit checks that the audit finds no violation.
func (w *cutEnv) checkAudit() {
	w.TB.Helper()
	snapshot, done, err := server.OpenSnapshot(context.Background(), server.StoreConfig{Kind: "postgres", URL: w.url})
	if err != nil {
		w.TB.Fatal(err)
	}
	defer done()
	report, err := audit.Run(context.Background(), snapshot, w.Now(), nil)
	if err != nil {
		w.TB.Fatal(err)
	}
	for _, violation := range report.Violations {
		w.TB.Errorf("audit: %+v", violation)
	}
}

// An operation is three commits. The database executes each, and its reply is lost. A lost
// reply to the admission is answered 503; lost replies to the reservation and the
// settlement have no visible effect.
func TestStoreCut_LostCommitReplyIsResolved(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	w := newCutEnv(t)
	for range 8 { // so that each commit is cut for a rejected number too
		for at, want := range []struct {
			commit string
			first  map[fault.Code]bool
		}{
			{"the admission", e2e.CodeSet(fault.ServiceUnavailable)},
			{"the reservation", map[fault.Code]bool{fault.OK: true, fault.ProviderError: true}},
			{"the settlement", map[fault.Code]bool{fault.OK: true, fault.ProviderError: true}},
		} {
			first, cut := w.operation(want.commit, func() { w.proxy.LoseCommit(at) })
			if !cut || !want.first[first] {
				t.Errorf("the reply to %s was lost (%v), and the caller was answered %s", want.commit, cut, first)
			}
		}
	}
	w.checkAudit()
}

// The connection is cut at many byte positions of an operation's traffic to and from the
// database.
func TestStoreCut_AtEveryPoint(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	for way, line := range map[pgtest.Direction]struct {
		name   string
		stride int // bytes; a prime, so that cuts hit all parts of messages
	}{pgtest.ToServer: {"to the database", 97}, pgtest.ToClient: {"from the database", 47}} {
		t.Run(line.name, func(t *testing.T) {
			t.Parallel()
			w := newCutEnv(t)
			w.operation("nothing is cut", func() {})
			codes := map[fault.Code]int{}
			tried, reached := 0, true
			for bytes := 0; reached; bytes += line.stride {
				if tried++; tried > 500 {
					t.Fatal("500 cuts did not reach the end of an operation")
				}
				var first fault.Code
				first, reached = w.operation(fmt.Sprintf("cut after %d bytes", bytes), func() { w.proxy.CutAfter(way, bytes) })
				codes[first]++
			}
			if codes[fault.OK] == 0 || codes[fault.ServiceUnavailable] == 0 || tried < 20 {
				t.Errorf("%d cuts, answered %v; want some successes and some refusals", tried, codes)
			}
			t.Logf("%d cuts, first answered %v", tried, codes)
			w.checkAudit()
		})
	}
}
