package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// difference is an element of what coax reconcile --json prints.
type difference struct {
	Kind          string  `json:"kind"`
	TransactionID string  `json:"transaction_id"`
	Reference     string  `json:"reference"`
	LCO           *int64  `json:"lco_id"`
	Plan          *string `json:"plan_id"`
	Adoptable     bool    `json:"adoptable"`
	Adopted       bool    `json:"adopted"`
	Suggestion    string  `json:"suggestion"`
}

// reconciled runs coax reconcile and checks its exit status against what it printed.
func reconciled(t *testing.T, config string, args ...string) []difference {
	t.Helper()
	got := e2e.Run(t, append([]string{"reconcile", "--config", config, "--json"}, args...)...)
	all := []difference{}
	if err := json.Unmarshal([]byte(got.Out), &all); err != nil {
		t.Fatalf("reconcile: %v\n%s", err, got)
	}
	want := e2e.ExitDone
	if slices.ContainsFunc(all, func(d difference) bool { return !d.Adopted }) {
		want = e2e.ExitRefused
	}
	if got.Code != want {
		t.Errorf("reconcile found %d differences and ended with %d; want %d", len(all), got.Code, want)
	}
	return all
}

// requireComparedOff requires that maintenance off has ended the maintenance of a restored store. It may
// have had to wait, which it says on stderr.
func requireComparedOff(t *testing.T, got e2e.Result) {
	t.Helper()
	if got.Code != e2e.ExitDone || got.Err != "" && !strings.HasPrefix(got.Err, "no difference so far; waiting ") {
		t.Fatalf("maintenance off: %s", got)
	}
}

// saveStore saves a copy of a stopped demo's store, and returns a function that puts it back, and the
// settings to start the demo with afterwards.
func saveStore(t *testing.T, folder, config string) (restore func() []string) {
	t.Helper()
	if store := e2e.LoadStoreConfig(t, config); store.Kind == "postgres" {
		saved := pgtest.CopyDatabase(t, store.URL)
		return func() []string { return []string{"--set", "store.url=" + saved} }
	}
	saved := filepath.Join(t.TempDir(), "data")
	e2e.CopyDir(t, filepath.Join(folder, "data"), saved)
	return func() []string {
		if err := os.RemoveAll(filepath.Join(folder, "data")); err != nil {
			t.Fatal(err)
		}
		e2e.CopyDir(t, saved, filepath.Join(folder, "data"))
		return nil
	}
}

// A store is restored from a backup that lacks twenty operations of all kinds, six of them of a bulk
// renewal. They are found, adopted, and every client that repeats its request gets its result: nothing is
// carried out or charged twice.
func TestReconcile_RestoredStore(t *testing.T) {
	t.Parallel()
	provider, err := demo.StartSimulator("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Stop)
	folder := t.TempDir()
	sets := []string{"--set", "provider.url=" + provider.URL, "--set", "catalogue.refresh=1s", "--set", "review.first_check=1s", "--set", "provider.timeout=5s", "--set", "review.refund_after=5s"}
	p, info := e2e.StartDemo(t, folder, sets...)
	h := p.Install(t)
	h.JSON("lco", "set", "--lco", "1", "--rate-limit", "100000")
	file, list := "lco,subscriber_id,mobile,name,plan_id,expiry\n", []string{}
	for i := range 12 {
		file += fmt.Sprintf("1,%06d,98000000%02d,Asha,BASIC-1,%s\n", 500000+i, i, time.Now().Add(72*time.Hour).Format(time.DateOnly))
		list = append(list, fmt.Sprintf("%06d", 500000+i))
	}
	if got := h.Admin("subscriber", "import", e2e.WriteCSV(t, file)); got.Code != e2e.ExitDone {
		t.Fatalf("import: %s", got)
	}
	if code := p.Terminate(); code != e2e.ExitDone {
		t.Fatalf("the demo ended with %d", code)
	}
	// The backup has a bulk renewal of which no row has begun.
	var job bulk.Job
	t.Run("begin a bulk renewal", func(t *testing.T) { // its store is closed before the copy
		service := newBulkService(t, info.Config)
		if job, err = service.Prepare(t.Context(), bulk.Order{OperatorID: 1, Actor: "web:asha", Title: "march", Kind: operation.Renew, Selections: bulk.SelectSubscribers(list[6:])}); err == nil {
			job, err = service.Start(t.Context(), 1, job.ID)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	restore := saveStore(t, folder, info.Config)

	p, _ = e2e.StartDemo(t, folder, sets...)
	w := e2e.NewRemoteEnv(t, p)
	me := w.DemoCaller()
	type request struct {
		endpoint, key string
		body          e2e.Order
	}
	var requests []request
	ids := map[string]string{} // by key
	order := func(endpoint string, body e2e.Order) {
		t.Helper()
		r := request{endpoint, fmt.Sprintf("forgotten-%02d", len(requests)), body}
		got := w.SendNow(e2e.Call{As: me, Method: "POST", Path: "/api/v1/" + endpoint, Body: body.JSON(), Header: map[string][]string{"Idempotency-Key": {r.key}}})
		if got.Code != fault.OK {
			t.Fatalf("%s: %s", endpoint, got.Raw)
		}
		requests, ids[r.key] = append(requests, r), got.Text("transaction_id")
	}
	for i, plan := range []string{"BASIC-1", "BASIC-1", "FAMILY-3", "COMBO-1", "COMBO-1"} {
		order("activate", e2e.Order{"full_name": fmt.Sprint("Client ", i), "mobile": fmt.Sprintf("98111111%02d", i), "plan_id": plan, "email": "c@example.com"})
	}
	for i := range 4 {
		order("renew", e2e.Order{"subscriber_id": list[i], "plan_id": "BASIC-1"})
	}
	const half = "9800000004" // whose add-on is rejected, however often it is ordered
	cliControl(t, provider.URL, "script", fmt.Sprintf(`{"mobile":%q,"outcomes":[%s]}`, half, strings.Repeat(`"addon_fails",`, 199)+`"addon_fails"`))
	order("renew", e2e.Order{"mobile": half, "plan_id": "COMBO-1"})
	combo := ids[requests[len(requests)-1].key]
	order("renew", e2e.Order{"mobile": "9811111100", "plan_id": "BASIC-1"}) // whose activation is forgotten, too
	order("advance-renew", e2e.Order{"subscriber_id": list[0], "plan_id": "FAMILY-1"})
	order("advance-renew", e2e.Order{"subscriber_id": list[5], "plan_id": "FAMILY-1"})
	order("advance-renew", e2e.Order{"mobile": "9811111101", "plan_id": "FAMILY-3"})
	finished := func() bool {
		found := bulkJob(t, info.Config, job.ID)
		return found.State == bulk.Finished && found.Progress.Done == 6
	}
	w.WaitUntil("the bulk renewal ends", finished)
	effects := len(provider.Effects())
	wallet := h.JSON("wallet", "show", "--lco", "1")
	if all := reconciled(t, info.Config, "--since", time.Now().Add(-10*time.Minute).Format(time.RFC3339)); len(all) != 0 {
		t.Fatalf("before the restore there are differences: %+v", all)
	}
	if code := p.Terminate(); code != e2e.ExitDone {
		t.Fatalf("the demo ended with %d", code)
	}

	sets = append(sets, restore()...)
	p, _ = e2e.StartDemo(t, folder, sets...)
	w = e2e.NewRemoteEnv(t, p)
	e2e.CheckMentions(t, "after the restore", h.JSON("maintenance", "show"), `"maintenance":true`)
	e2e.CheckRefused(t, h.Admin("maintenance", "off"), "differences")
	repeat := func(r request) e2e.Answer {
		t.Helper()
		return w.SendNow(e2e.Call{As: me, Method: "POST", Path: "/api/v1/" + r.endpoint, Body: r.body.JSON(), Header: map[string][]string{"Idempotency-Key": {r.key}}})
	}
	// The clients repeat all but an activation and an advance renewal of a component that a combo has, too.
	silent, unclear := requests[1], requests[12]
	for _, r := range requests {
		if r.key == silent.key || r.key == unclear.key {
			continue
		}
		if got := repeat(r); got.Code != fault.ServiceUnavailable {
			t.Errorf("in maintenance %s is answered %s", r.key, got.Raw)
		}
	}
	// The repetitions tell whose the activations are and what was sold, once the request log is written.
	// Of those that no client has repeated nothing is guessed, and a renewal waits for its activation.
	var found []difference
	w.WaitUntil("what was repeated is known", func() bool {
		found = reconciled(t, info.Config)
		hindered := slices.DeleteFunc(slices.Clone(found), func(d difference) bool { return d.Adoptable })
		return len(hindered) <= 3
	})
	got := map[string]bool{}
	for _, d := range found {
		plan, want := "", ""
		if d.Plan != nil {
			plan = *d.Plan
		}
		if d.TransactionID == combo {
			want = "COMBO-1"
		}
		switch {
		case d.Kind != "theirs_only":
			t.Errorf("found %+v; want a forgotten order", d)
		case d.TransactionID == ids[silent.key] && !d.Adoptable:
			e2e.CheckMentions(t, "the hint", d.Suggestion, "--lco "+d.Reference+"=ID")
		case d.TransactionID == ids[unclear.key] && !d.Adoptable:
			e2e.CheckMentions(t, "the hint", d.Suggestion, "--plan "+d.Reference+"=COMBO-1 or --plan "+d.Reference+"=FAMILY-1")
		case d.TransactionID == ids[requests[13].key] && !d.Adoptable:
			e2e.CheckMentions(t, "the hint", d.Suggestion, ids[silent.key]+" has to be adopted first")
		case !d.Adoptable || plan == "" || want != "" && plan != want:
			t.Errorf("found %+v with plan %q; want an order that can be adopted, with plan %q if that is not empty", d, plan, want)
		}
		got[d.TransactionID] = true
	}
	for key, id := range ids {
		if !got[id] {
			t.Errorf("%s of %s is not found", id, key)
		}
	}
	if len(found) != 20 || len(got) != 20 {
		t.Errorf("%d differences are found in %d operations; want 20", len(found), len(got))
	}

	reference := func(r request, id string) string { return ids[r.key] + "=" + id }
	mistyped := e2e.Run(t, "reconcile", "--config", info.Config, "--adopt", "--reason", "the backup was restored", "--plan", "CX1=FAMILY-1")
	e2e.CheckRefused(t, mistyped, "reference CX1,")
	e2e.CheckUsageError(t, e2e.Run(t, "reconcile", "--config", info.Config, "--adopt", "--reason", "the backup was restored", "--plan", "FAMILY-1"), "--only")
	adopted := e2e.Run(t, "reconcile", "--config", info.Config, "--adopt", "--reason", "the backup was restored",
		"--lco", reference(silent, "1"), "--plan", reference(unclear, "FAMILY-1"))
	if adopted.Code != e2e.ExitDone {
		t.Fatalf("adopting ended with %d\n%s", adopted.Code, adopted)
	}
	// The add-on that was not carried out is followed up, and was paid with the combo.
	cliControl(t, provider.URL, "script", fmt.Sprintf(`{"mobile":%q,"outcomes":[]}`, half))
	w.WaitUntil("the add-on is carried out", func() bool {
		return strings.Contains(h.JSON("operation", "show", "--transaction", combo), `"addon_status":"success"`)
	})
	effects++
	if left := reconciled(t, info.Config); len(left) != 0 {
		t.Fatalf("after adopting there are differences: %+v", left)
	}
	if now := h.JSON("wallet", "show", "--lco", "1"); now != wallet {
		t.Errorf("the wallet has %s; before the restore it had %s", now, wallet)
	}
	requireComparedOff(t, h.Admin("maintenance", "off"))

	for _, r := range requests {
		if got := w.LookUp(me, r.key); got.Code != fault.OK || got.Text("transaction_id") != ids[r.key] {
			t.Errorf("%s is looked up as %s; want %s", r.key, got.Raw, ids[r.key])
		}
		other := request{r.endpoint, r.key, e2e.Order{"full_name": "Other", "mobile": "9899999999", "plan_id": "BASIC-1"}}
		if got := repeat(other); got.Code != fault.IdempotencyKeyReused {
			t.Errorf("%s with another body is answered %s", r.key, got.Raw)
		}
		for range 2 {
			if got := repeat(r); got.Code != fault.OK || got.Text("transaction_id") != ids[r.key] || got.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s is answered %s; want %s again", r.key, got.Raw, ids[r.key])
			}
		}
	}
	if got := repeat(requests[0]); got.Text("customer.name") != "Client 0" {
		t.Errorf("the client's name is %q after the repetition", got.Text("customer.name"))
	}
	if _, err := newBulkService(t, info.Config).Continue(t.Context(), 1, job.ID, "web:asha"); err != nil {
		t.Fatal(err)
	}
	w.WaitUntil("the bulk renewal ends", finished)
	if now := len(provider.Effects()); now != effects {
		t.Errorf("the provider has carried out %d orders; before the restore it had %d", now, effects)
	}
	if now := h.JSON("wallet", "show", "--lco", "1"); now != wallet {
		t.Errorf("after the repetitions the wallet has %s; want %s", now, wallet)
	}
	proved := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", info.Config))
	e2e.CheckMentions(t, "the audit", proved.Out, "Everything agrees.")
}

// An order was on its way to the provider when the node was killed, and is carried out only after the
// restore. The maintenance of the restored store does not end before that is known.
func TestMaintenanceOff_WaitsForOrdersUnderWay(t *testing.T) {
	t.Parallel()
	provider, err := demo.StartSimulator("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Stop)
	gate := delayActivations(t, provider.URL)
	folder := t.TempDir()
	sets := []string{"--set", "provider.url=" + gate.URL, "--set", "provider.timeout=1s", "--set", "review.refund_after=15s"}
	p, info := e2e.StartDemo(t, folder, sets...)
	h := p.Install(t)
	p.Terminate()
	restore := saveStore(t, folder, info.Config)
	p, _ = e2e.StartDemo(t, folder, sets...)
	w := e2e.NewRemoteEnv(t, p)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = w.TryOperate(w.DemoCaller(), "activate", "late-order", e2e.Activation("9811111111"))
	}()
	<-gate.arrived
	p.Kill()
	<-answered
	e2e.StartDemo(t, folder, append(sets, restore()...)...)

	off := e2e.Launch(t, "admin", "--config", info.Config, "maintenance", "off")
	if !off.Err.WaitFor("waiting", off.Ended) {
		t.Fatalf("maintenance off does not wait:\n%s%s", off.Out, off.Err)
	}
	gate.release()
	w.WaitUntil("the order is carried out", func() bool { return len(provider.Effects()) == 1 })
	<-off.Ended
	e2e.CheckMentions(t, "the refusal", off.Err.String(), "1 difference from the provider")
	e2e.CheckMentions(t, "afterwards", h.JSON("maintenance", "show"), `"maintenance":true`)
	if found := reconciled(t, info.Config); len(found) != 1 || found[0].Kind != "theirs_only" {
		t.Errorf("found %+v; want the late order", found)
	}
}

// activationGate is a provider that carries an activation out when it is released, whether its
// client still waits or not.
type activationGate struct {
	*httptest.Server
	arrived chan struct{} // closed when an activation has arrived
	release func()
}

func delayActivations(t *testing.T, provider string) activationGate {
	t.Helper()
	target, err := url.Parse(provider)
	if err != nil {
		t.Fatal(err)
	}
	open := make(chan struct{})
	g := activationGate{arrived: make(chan struct{}), release: sync.OnceFunc(func() { close(open) })}
	arrived := sync.OnceFunc(func() { close(g.arrived) })
	proxy := httputil.NewSingleHostReverseProxy(target)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/activate" {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			arrived()
			<-open
			// The proxy would give up on it, because its client is gone.
			said, err := http.Post(provider+r.URL.Path, "application/json", bytes.NewReader(body))
			if err != nil {
				t.Errorf("the delayed order: %v", err)
				return
			}
			defer said.Body.Close()
			_, _ = io.Copy(w, said.Body)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { g.release(); g.Close() })
	return g
}

func TestReconcile_Usage(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	config := filepath.Join(h.Folder, "coax.toml")
	for _, row := range []struct {
		want string
		args []string
	}{
		{"--day or --since", []string{"--day", "2027-03-01", "--since", "2027-03-01"}},
		{"is no day", []string{"--day", "yesterday"}},
		{"is no time", []string{"--since", "yesterday"}},
		{"is in the future", []string{"--since", "2999-01-01"}},
		{"--reason", []string{"--since", "2026-01-01", "--adopt"}},
		{"--adopt", []string{"--since", "2026-01-01", "--only", "CX1"}},
		{"REFERENCE=ID", []string{"--since", "2026-01-01", "--plan", "=A"}},
		{"both A and B", []string{"--since", "2026-01-01", "--plan", "CX1=A", "--plan", "CX1=B"}},
		{"is a number", []string{"--since", "2026-01-01", "--lco", "CX1=asha"}},
		{"both 1 and 2", []string{"--since", "2026-01-01", "--lco", "1", "--lco", "2"}},
	} {
		e2e.CheckUsageError(t, e2e.Run(t, append([]string{"reconcile", "--config", config}, row.args...)...), row.want)
	}
	e2e.CheckRefused(t, e2e.Run(t, "reconcile", "--config", config), "--day", "--since")
	bad := e2e.WriteCSV(t, "reference,kind,subscriber_id,mobile,component,carried_out_at,transaction_id,note\nCX1,sell,1,98,TV,today,T1,x\nCX2,renew,1,9800000000,TV,2027-03-01T12:00:00+05:30,T1,x\n")
	refused := e2e.Run(t, "reconcile", "--config", config, "--since", "2026-01-01", "--file", bad)
	if refused.Code != e2e.ExitRefused {
		t.Errorf("a bad file ended with %d", refused.Code)
	}
	e2e.CheckMentions(t, "the refusal of a bad file", refused.Err, "line 2", `kind "sell"`, `mobile "98"`, `carried_out_at "today"`)
	good := e2e.WriteCSV(t, "reference,kind,subscriber_id,mobile,component,carried_out_at,transaction_id,note\nCX2,renew,1,9800000000,TV,2026-03-01T12:00:00+05:30,T1,x\n")
	got := e2e.Run(t, "reconcile", "--config", config, "--day", "2026-03-01", "--file", good)
	if got.Code != e2e.ExitRefused {
		t.Errorf("a difference ended with %d", got.Code)
	}
	e2e.CheckMentions(t, "the table", got.Out, "theirs_only", "CX2", "not one of Coax")
	e2e.CheckMentions(t, "unused columns", got.Err, "note")
}
