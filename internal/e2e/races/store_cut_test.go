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

// cutWorld is a service whose way to its database can be cut.
type cutWorld struct {
	*e2e.Env
	proxy *pgtest.Proxy
	url   string // of the database, by another way
	me    e2e.Caller
	asked int
}

func newCutWorld(t *testing.T) *cutWorld {
	t.Helper()
	server := pgtest.Start(t)
	server.Exec(t, "postgres", "CREATE DATABASE coax")
	proxy := pgtest.NewProxy(t, server)
	w := &cutWorld{proxy: proxy, url: server.URL("coax")}
	// Nothing but what the test asks for is to be committed, apart from what a
	// node does once when it starts.
	w.Env = e2e.NewEnv(t, "store.url="+proxy.URL("coax"), "provider.timeout=5s", "review.first_check=1s",
		"catalogue.refresh=24h", "catalogue.max_age=48h", "request_log.keep=0s")
	w.me = w.NewFundedOperator("me", "10000000")
	commits, since := -1, time.Now()
	w.WaitUntil("nobody commits anything by himself", func() bool {
		if now := proxy.Commits(); now != commits {
			commits, since = now, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
	return w
}

// operation asks for something with the line cut as arm says, and then goes on
// with the same key until it is decided, as a client would. It returns what the
// first answer was.
func (w *cutWorld) operation(what string, arm func()) (first fault.Code, cut bool) {
	w.TB.Helper()
	w.asked++
	o := e2e.Order{"full_name": "Asha", "mobile": fmt.Sprintf("98%08d", w.asked), "plan_id": "BASIC-1"}
	if w.asked%4 == 0 { // somebody whom the provider rejects
		o["mobile"] = fmt.Sprintf("900001%04d", w.asked)
	}
	key := fmt.Sprintf("cut-%06d", w.asked)
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
			w.Advance(time.Second) // until its lease is over, and somebody asks
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

// audited demands clean books of the database.
func (w *cutWorld) audited() {
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

// An operation is three commits. The database carries each of them out, and the
// answer is lost on the way: of the admission, the caller is told to come again;
// of the reservation and the settlement nothing is to be noticed at all.
func TestStoreCut_LostCommitReplyIsResolved(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	w := newCutWorld(t)
	for range 8 { // so that those who are rejected come to each
		for at, want := range []struct {
			fact  string
			first map[fault.Code]bool
		}{
			{"the admission", e2e.CodeSet(fault.ServiceUnavailable)},
			{"the reservation", map[fault.Code]bool{fault.OK: true, fault.ProviderError: true}},
			{"the settlement", map[fault.Code]bool{fault.OK: true, fault.ProviderError: true}},
		} {
			first, cut := w.operation(want.fact, func() { w.proxy.LoseCommit(at) })
			if !cut || !want.first[first] {
				t.Errorf("the answer to %s was lost (%v), and the caller was told %s", want.fact, cut, first)
			}
		}
	}
	w.audited()
}

// The line is cut at one byte after another of everything an operation says to the
// database and hears from it.
func TestStoreCut_AtEveryPoint(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	for way, line := range map[pgtest.Direction]struct {
		name   string
		stride int // bytes; a prime, so that all parts of messages are met
	}{pgtest.ToServer: {"to the database", 97}, pgtest.ToClient: {"from the database", 47}} {
		t.Run(line.name, func(t *testing.T) {
			t.Parallel()
			w := newCutWorld(t)
			w.operation("nothing is cut", func() {})
			codes := map[fault.Code]int{}
			tried, reached := 0, true
			for bytes := 0; reached; bytes += line.stride {
				if tried++; tried > 500 {
					t.Fatal("there is no end to what an operation says")
				}
				var first fault.Code
				first, reached = w.operation(fmt.Sprintf("cut after %d bytes", bytes), func() { w.proxy.CutAfter(way, bytes) })
				codes[first]++
			}
			if codes[fault.OK] == 0 || codes[fault.ServiceUnavailable] == 0 || tried < 20 {
				t.Errorf("%d cuts, answered %v; want some to be survived and some to be refused", tried, codes)
			}
			t.Logf("%d cuts, first answered %v", tried, codes)
			w.audited()
		})
	}
}
