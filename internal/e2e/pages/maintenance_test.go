package pages

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

func maintain(t *testing.T, w *e2e.Env, on bool) {
	t.Helper()
	err := w.Admin.EndMaintenance(t.Context(), false, "")
	if on {
		_, err = w.Admin.StartMaintenance(t.Context(), "Restore of the store")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// manyRows are so many that a bulk renewal takes ten seconds with a slow provider: it still runs when
// maintenance begins, also on a busy machine.
const manyRows = 20

// Maintenance interrupts a running bulk renewal, and none can be checked or started.
// Afterwards it waits until its operator continues it, as its page, its file and the console
// show; then every row is renewed once.
func TestMaintenance_BulkRenewalWaitsForItsOperator(t *testing.T) {
	w := e2e.NewEnv(t)
	me, ids := w.NewSubscribers(manyRows + 1)
	before := w.WalletPaise(me)[0]
	b, staff := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Admin)
	draft := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids[manyRows:]}).Location
	list := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids[:manyRows]}).Location
	w.ControlSimulator("status", `{"mode":"slow"}`)
	b.Post(list+"/start", nil).RedirectsTo(t, list)
	maintain(t, w, true)
	w.ControlSimulator("status", `{"mode":"up"}`)

	const stopped = "New operations are stopped for maintenance."
	b.Get("/panel/").Shows(t, http.StatusOK, stopped)
	b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids[manyRows:]}).Shows(t, http.StatusUnprocessableEntity, stopped+" Nothing was charged; try again later.")
	b.Post(draft+"/start", nil).RedirectsTo(t, draft)
	b.Get(draft).Shows(t, http.StatusOK, stopped+" Nothing was charged; try again later.")
	b.Post(list+"/continue", nil).RedirectsTo(t, list)
	b.Get(list).Shows(t, http.StatusOK, stopped+" Nothing was charged; try again later.", "Interrupted, waiting for you")
	staff.Get("/console/health").Shows(t, http.StatusOK, "Maintenance mode is on: new operations are stopped.</strong> Since "+w.Now().In(subscription.IST).Format("2 Jan 2006, 15:04")+", by test: Restore of the store", "Bulk renewals waiting for their operators")
	if got := w.Metric("coax_bulk_jobs_interrupted"); got != 1 {
		t.Errorf("coax_bulk_jobs_interrupted is %v; want 1", got)
	}

	maintain(t, w, false)
	page := b.Get(list).Shows(t, http.StatusOK, "Interrupted, waiting for you", "Continue", "Stop")
	if strings.Contains(page.Body, "&lt;") {
		t.Error("the page shows markup as text")
	}
	if strings.Contains(page.Body, stopped) {
		t.Error("the page still says that operations are stopped")
	}
	b.Get("/panel/bulk").Shows(t, http.StatusOK, "Awaiting confirmation")
	if file := b.Get(list + "/csv").Body; !strings.Contains(file, "Awaiting confirmation") || strings.Contains(file, "Queued") {
		t.Errorf("the file does not say that rows wait:\n%s", file)
	}
	b.Post(list+"/continue", nil).RedirectsTo(t, list)
	w.WaitUntil("it is finished", func() bool { return strings.Contains(b.Get(list).Body, "Finished") })
	b.Get(list).Shows(t, http.StatusOK, "Continued by Demo Operator on ")
	if cost := before - w.WalletPaise(me)[0]; cost != manyRows*199_00 {
		t.Errorf("%d paise were charged; want %d renewals", cost, manyRows)
	}
	w.CheckAudit()
}

// Panel and console in maintenance. A refused form keeps the typed input.
func TestBrowser_Maintenance(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(manyRows)
	b := w.SignIn(t, w.Demo.Operator)
	list := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("Welcome")
	w.ControlSimulator("status", `{"mode":"slow"}`)
	b.Post(list+"/start", nil).RedirectsTo(t, list)
	maintain(t, w, true)
	w.ControlSimulator("status", `{"mode":"up"}`)

	tab.Open(w.URL("/panel/activate"))
	tab.Sees("New operations are stopped for maintenance.")
	tab.Fill("Full name", "Meena Iyer")
	tab.Fill("Mobile", "9812345678")
	tab.Set("Plan", "BASIC-1")
	tab.Click(`main form button[type="submit"]`)
	tab.Sees("Nothing was charged; try again later.")
	var name, mobile, plan string
	tab.Do(chromedp.Value(`[name="full_name"]`, &name, chromedp.ByQuery), chromedp.Value(`[name="mobile"]`, &mobile, chromedp.ByQuery), chromedp.Value(`[name="plan_id"]`, &plan, chromedp.ByQuery))
	if name != "Meena Iyer" || mobile != "9812345678" || plan != "BASIC-1" {
		t.Errorf("the form has %q, %q, %q; want the typed input", name, mobile, plan)
	}
	tab.Check("panel-maintenance-activate")
	tab.Open(w.URL("/panel/subscribers/" + ids[0] + "/renew"))
	tab.Sees("Nothing was charged; try again later.")
	tab.Check("panel-maintenance-renew")
	tab.Open(w.URL(list))
	tab.Sees("Interrupted, waiting for you")
	tab.Check("panel-maintenance-bulk")

	console := looktest.New(t)
	tabSignIn(w, console, w.Demo.Admin)
	console.Sees("Restore of the store")
	console.Check("console-maintenance-home")
	console.Open(w.URL("/console/health"))
	console.Sees("Bulk renewals waiting for their operators")
	console.Check("console-maintenance-health")

	maintain(t, w, false)
	tab.Open(w.URL(list))
	tab.Press("Stop")
	tab.Sees("The remaining rows are cancelled.")
	tab.Open(w.URL("/account/"))
	tab.Press("हिन्दी")
	tab.Sees("आपका खाता")
	maintain(t, w, true)
	tab.Open(w.URL("/panel/activate"))
	tab.Sees("मेंटेनेंस के कारण नए ऑपरेशन रुके हैं।")
	tab.Check("panel-maintenance-hindi")
}

// Every page of the console says that the store was restored, and a session of the copy is over.
func TestConsole_SaysThatTheStoreWasRestored(t *testing.T) {
	w := e2e.NewEnv(t)
	old := w.SignIn(t, w.Demo.Admin)
	_, err := w.Node.Store.RecordRestore(t.Context(), admin.NewRestoreAction(w.Now()), admin.Restore{Since: w.Now().Add(-time.Hour), How: "its mark is 7"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := old.Get("/console/"); got.Status == http.StatusOK {
		t.Errorf("a session from before the restore still opens pages:\n%s", got.Body)
	}
	staff, b := w.SignIn(t, w.Demo.Admin), w.SignIn(t, w.Demo.Operator)
	const said = "The store was restored from a backup: new operations are stopped until it has been compared with the provider."
	staff.Get("/console/").Shows(t, http.StatusOK, said, "the store was restored: its mark is 7")
	staff.Get("/console/health").Shows(t, http.StatusOK, said, "Restored from a backup", "Compare with the provider from")
	b.Get("/panel/").Shows(t, http.StatusOK, "New operations are stopped for maintenance.")
	if err := w.Admin.EndMaintenance(t.Context(), true, "compared"); err != nil {
		t.Fatal(err)
	}
	if got := staff.Get("/console/health"); strings.Contains(got.Body, said) || strings.Contains(got.Body, "Restored from a backup") {
		t.Errorf("the page still says so after it was accepted:\n%s", got.Body)
	}
}
