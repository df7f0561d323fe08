package pages

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// forgotten has the provider carry out an order that the store knows nothing of.
func forgotten(t *testing.T, w *e2e.Env, order operation.Order) {
	t.Helper()
	provider, err := server.OpenProvider(w.Node.Config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	if reply := provider.Apply(context.Background(), order); reply.Outcome != operation.Confirmed {
		t.Fatalf("the provider answered %+v", reply)
	}
}

// An administrator compares a day, and adopts a renewal that the store has forgotten; the client that repeats it
// gets its result. In Chromium, at every width.
func TestBrowser_ReconcileAdopts(t *testing.T) {
	t.Parallel()
	w := e2e.NewLiveEnv(t)
	me, ids := w.NewSubscribers(1)
	today := time.Now().In(subscription.IST).Format(time.DateOnly)
	keys := operation.ClientKeys(w.Node.Vault.DeriveInOrder(operation.ClientKeyPurpose))
	const id = "CX06D3K9ZR000000000000000001"
	forgotten(t, w, operation.Order{
		Reference: id, ClientKey: keys.Of(me.OperatorID, "forgotten-renewal"), Kind: operation.Renew, SubscriberID: ids[0], Mobile: "9800000000",
		Component: "TV-BASIC", Months: 1, ExpiresAt: time.Now().Add(60 * 24 * time.Hour),
	})

	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Admin)
	tab.Sees("Open tasks")
	tab.Open(w.URL("/console/reconcile"))
	tab.Sees("compared with the ledger")
	tab.Check("console-reconcile")
	tab.Open(w.URL("/console/reconcile?day=" + today))
	tab.Sees("Orders are adopted in maintenance only.")
	maintain(t, w, true)
	tab.Open(w.URL("/console/reconcile?day=" + today))
	tab.Sees("1 order can be adopted")
	tab.Sees(id)
	tab.Check("console-reconcile-differences")
	tab.Fill("Reason", "restored")
	tab.Press("Adopt")
	tab.Sees("Adopted orders: 1.")
	tab.Sees("No difference.")
	tab.Check("console-reconcile-adopted")
	maintain(t, w, false)

	got := w.Operate(me, "renew", "forgotten-renewal", e2e.Order{"subscriber_id": ids[0], "plan_id": "BASIC-1"})
	if got.Code != fault.OK || got.Text("transaction_id") != id || got.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the repeated request is answered %s", got.Raw)
	}
	w.CheckAudit()
}

// An activation that was sold in the panel is forgotten. Its form, sent again in maintenance, tells whose it is and what
// was sold; sent once more after the adoption, it finds its transaction and gives the customer's name.
func TestReconcile_ForgottenPanelOrder(t *testing.T) {
	t.Parallel()
	w := e2e.NewLiveEnv(t)
	me := w.DemoCaller()
	b, staff := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Admin)
	form := b.Get("/panel/activate").Shows(t, http.StatusOK).HiddenFields()
	for name, value := range map[string]string{"full_name": "Asha Rao", "mobile": "9812345678", "plan_id": "FAMILY-1", "step": "preview"} {
		form.Set(name, value)
	}
	confirm := b.Post("/panel/activate", form).Shows(t, http.StatusOK).HiddenFields()
	confirm.Set("step", "confirm")
	keys := operation.ClientKeys(w.Node.Vault.DeriveInOrder(operation.ClientKeyPurpose))
	const id = "CX06D3K9ZR000000000000000001"
	forgotten(t, w, operation.Order{
		Reference: id, ClientKey: keys.Of(me.OperatorID, confirm.Get("key")), Kind: operation.Activate, SubscriberID: "345678", Mobile: "9812345678",
		Component: "TV-FAMILY", Months: 1, ExpiresAt: time.Now().Add(30 * 24 * time.Hour),
	})
	before, orders := w.WalletPaise(me), w.ProviderOrders()

	maintain(t, w, true)
	day := url.QueryEscape(time.Now().In(subscription.IST).Format(time.DateOnly))
	staff.Get("/console/reconcile?day="+day).Shows(t, http.StatusOK, "Nothing here tells whose it is", "Several plans fit, COMBO-1, FAMILY-1", `id="choose-`+id+`"`)
	b.Post("/panel/activate", confirm).Shows(t, http.StatusUnprocessableEntity, "stopped for maintenance")
	if err := w.Node.Requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	staff.Get("/console/reconcile?day="+day).Shows(t, http.StatusOK, "1 order can be adopted", "FAMILY-1", "349.00")
	staff.Post("/console/reconcile", url.Values{"form": {"adopt"}, "day": {day}, "reason": {"restored"}}).RedirectsTo(t, "/console/reconcile?day="+day)
	maintain(t, w, false)

	other := maps.Clone(confirm)
	other.Set("plan_id", "BASIC-1")
	b.Post("/panel/activate", other).Shows(t, http.StatusUnprocessableEntity, "This mobile number is registered already.")
	for range 2 {
		b.Post("/panel/activate", confirm).RedirectsTo(t, "/panel/transactions/"+id)
	}
	b.Get("/panel/transactions/"+id).Shows(t, http.StatusOK, "The subscriber is activated.", "Asha Rao")
	if _, found, err := w.Admin.FindSubscriber(t.Context(), "345678"); err != nil || found.Name != "Asha Rao" {
		t.Errorf("the subscriber is %+v, %v; want the name in the form", found, err)
	}
	if got := w.LookUp(me, confirm.Get("key")); got.Code != fault.OK || got.Text("transaction_id") != id || got.Text("channel") != "web" {
		t.Errorf("its key is looked up as %s; want %s of the panel", got.Raw, id)
	}
	if got, now := w.WalletPaise(me), w.ProviderOrders(); got != [2]int64{before[0] - 34_900, 0} || now != orders {
		t.Errorf("the wallet went from %v to %v, and the provider from %d orders to %d; want one charge and none", before, got, orders, now)
	}
	w.CheckAudit()
}

// restoredStore lets a function order, and restores the store from a copy that was taken before.
func restoredStore(t *testing.T, w *e2e.Env, order func()) {
	t.Helper()
	data, saved := filepath.Join(w.Folder, "data"), filepath.Join(t.TempDir(), "data")
	w.Stop()
	e2e.CopyDir(t, data, saved)
	w.Start()
	order()
	w.Stop()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	e2e.CopyDir(t, saved, data)
	w.Start()
}

// A restored store has forgotten two activations and a renewal that no client repeats. An administrator chooses their
// operators and plans in the page; in Chromium, without scripts and in both languages.
func TestBrowser_ReconcileChooses(t *testing.T) {
	e2e.StoreIndependent(t) // the CLI's test restores both stores
	t.Parallel()
	w := e2e.NewLiveEnv(t)
	me, _ := w.NewSubscribers(1)
	var basic, family, renewal string
	restoredStore(t, w, func() {
		id := func(endpoint string, order e2e.Order) string {
			got := w.Operate(me, endpoint, "forgotten-"+order["mobile"], order)
			if got.Code != fault.OK {
				t.Fatalf("%s: %s", endpoint, got.Raw)
			}
			return got.Text("transaction_id")
		}
		basic = id("activate", e2e.Order{"full_name": "Asha", "mobile": "9811111100", "plan_id": "BASIC-1"})
		family = id("activate", e2e.Order{"full_name": "Ravi", "mobile": "9811111101", "plan_id": "FAMILY-1"})
		renewal = id("renew", e2e.Order{"mobile": "9800000000", "plan_id": "FAMILY-1"})
	})
	other := w.NewFundedOperator("Sagar Cable Vision", "1000")
	before, orders := w.WalletPaise(me), w.ProviderOrders()
	set := func(tab *looktest.Tab, id string, values map[string]string) {
		tab.Click("#choose-" + id + " summary")
		for field, value := range values {
			tab.Do(chromedp.SetValue("#"+field+"-"+id, value, chromedp.ByQuery, chromedp.NodeVisible))
		}
	}
	adopt := func(tab *looktest.Tab, id string) { tab.Click("#choose-" + id + " button") }

	tab := looktest.WithoutScript(t)
	tabSignIn(w, tab, w.Demo.Admin)
	tab.Sees("Open tasks")
	tab.Open(w.URL("/console/reconcile?restored=yes"))
	tab.Sees("Nothing here tells whose it is: its operator has to be chosen.")
	tab.Sees("Several plans fit, COMBO-1, FAMILY-1: the one that was sold has to be chosen.")
	tab.Check("console-reconcile-choose-closed")

	set(tab, basic, map[string]string{"operator": "Nobody's Cable", "reason": "The operator says so"})
	adopt(tab, basic)
	tab.Sees("There is no such operator. Choose one of the list.")
	tab.Sees("Order " + basic + " was not adopted")
	tab.Check("console-reconcile-choose-refused")
	tab.Do(chromedp.SetValue("#operator-"+basic, fmt.Sprintf("Sagar Cable Vision (%d)", other.OperatorID), chromedp.ByQuery))
	adopt(tab, basic)
	tab.Sees("Adopted orders: 1.")

	tab.Press("हिन्दी")
	tab.Sees("साइन आउट करें")
	tab.Open(w.URL("/console/reconcile?restored=yes"))
	tab.Sees("यहाँ कुछ नहीं बताता कि यह किसका है")
	set(tab, family, map[string]string{"operator": strconv.FormatInt(me.OperatorID, 10), "plan": "FAMILY-1", "reason": "रसीद से"})
	tab.Check("console-reconcile-choose-hindi")
	adopt(tab, family)
	tab.Until("the page no longer asks for an operator", `!document.querySelector("[id^=operator-]")`)
	set(tab, renewal, map[string]string{"plan": "FAMILY-1", "reason": "रसीद से"})
	adopt(tab, renewal)
	tab.Sees("कोई अंतर नहीं।")

	adopted, err := w.Node.Store.OperationsByID(t.Context(), []string{basic, family, renewal})
	if err != nil || len(adopted) != 3 {
		t.Fatalf("the store has %+v, %v; want three operations", adopted, err)
	}
	for _, op := range adopted {
		operator, plan := me.OperatorID, "FAMILY-1"
		if op.ID == basic {
			operator, plan = other.OperatorID, "BASIC-1"
		}
		if op.OperatorID != operator || op.PlanID != plan || op.State != operation.Success {
			t.Errorf("%s is adopted as %+v; want plan %s of operator %d", op.ID, op, plan, operator)
		}
	}
	if got := w.WalletPaise(me); got != [2]int64{before[0] - 2*34_900, 0} {
		t.Errorf("the wallet went from %v to %v; want two orders of 349.00", before, got)
	}
	if got := w.WalletPaise(other); got != [2]int64{100_000 - 19_900, 0} {
		t.Errorf("the other wallet has %v; want one order of 199.00 less than 1000.00", got)
	}
	if now := w.ProviderOrders(); now != orders {
		t.Errorf("the provider got %d orders while they were adopted", now-orders)
	}
	w.CheckAudit()
}

// A wrong choice is refused and changes nothing; who may not adopt is not asked to choose.
func TestReconcile_WrongChoice(t *testing.T) {
	t.Parallel()
	w := e2e.NewLiveEnv(t)
	me, ids := w.NewSubscribers(1)
	day := time.Now().In(subscription.IST).Format(time.DateOnly)
	const activation, renewal = "CX06D3K9ZR000000000000000001", "CX06D3K9ZR000000000000000002"
	end := time.Now().Add(60 * 24 * time.Hour)
	forgotten(t, w, operation.Order{
		Reference: activation, Kind: operation.Activate, SubscriberID: "345678", Mobile: "9812345678", Component: "TV-BASIC", Months: 1, ExpiresAt: end,
	})
	forgotten(t, w, operation.Order{
		Reference: renewal, Kind: operation.Renew, SubscriberID: ids[0], Mobile: "9800000000", Component: "TV-FAMILY", Months: 1, ExpiresAt: end,
	})
	gone := w.NewOperator("Gone Cable", access.AllPermissions)
	if err := w.Admin.DeleteOperator(t.Context(), gone.OperatorID); err != nil {
		t.Fatal(err)
	}
	staff := w.SignIn(t, w.Demo.Admin)
	page := staff.Get("/console/reconcile?day="+day).Shows(t, http.StatusOK, "Orders are adopted in maintenance only.", "Several plans fit")
	hasNo(t, page, `id="choose-`, "--plan", "--lco")
	maintain(t, w, true)
	page = staff.Get("/console/reconcile?day="+day).Shows(t, http.StatusOK, `id="choose-`+activation+`"`, `id="choose-`+renewal+`"`, "(COMBO-1), ₹", "(FAMILY-1), ₹349.00")
	hasNo(t, page, "--plan", "--lco", "Gone Cable")
	viewer := w.SignIn(t, w.NewLogin(t, "vera", login.Viewer, 0))
	hasNo(t, viewer.Get("/console/reconcile?day="+day).Shows(t, http.StatusOK, "Several plans fit"), `id="choose-`, "Gone Cable")

	rows := []struct {
		name, order, plan, operator, reason string
		want                                string
	}{
		{"an operator that there is not", activation, "", "99999", "restored", "There is no such operator."},
		{"an operator that was deleted", activation, "", strconv.FormatInt(gone.OperatorID, 10), "restored", "There is no such operator."},
		{"no operator", activation, "", "", "restored", "There is no such operator."},
		{"no operator's number", activation, "", "-1", "restored", "There is no such operator."},
		{"a plan that was not to choose", activation, "COMBO-1", "1", "restored", "Order " + activation + " has changed since you chose"},
		{"a plan that there is not", renewal, "NONE", "", "restored", "Choose one of the plans that fit."},
		{"a plan that does not fit", renewal, "BASIC-1", "", "restored", "Choose one of the plans that fit."},
		{"no plan", renewal, "", "", "restored", "Choose one of the plans that fit."},
		{"an operator that was not to choose", renewal, "FAMILY-1", "1", "restored", "Order " + renewal + " has changed since you chose"},
		{"no reason", renewal, "FAMILY-1", "", "", "This is required."},
		{"an order that is not there", "CX06D3K9ZR000000000000000003", "FAMILY-1", "", "restored", "has changed since you chose"},
	}
	for _, row := range rows {
		w.CheckUnchangedExcept([]string{"web_sessions"}, row.name, func() {
			staff.Post("/console/reconcile", url.Values{
				"form": {"choose-" + row.order}, "day": {day}, "plan": {row.plan}, "operator": {row.operator}, "reason": {row.reason},
			}).Shows(t, http.StatusUnprocessableEntity, row.want)
		})
	}
	w.CheckUnchangedExcept([]string{"web_sessions"}, "a reference that is not there", func() {
		staff.Post("/console/reconcile", url.Values{"form": {"adopt"}, "day": {day}, "reference": {"CX1"}, "reason": {"restored"}}).
			Shows(t, http.StatusUnprocessableEntity, "There is no missing order with the number CX1.")
	})

	before := w.WalletPaise(me)
	right := url.Values{"form": {"choose-" + renewal}, "day": {day}, "plan": {"FAMILY-1"}, "reason": {"restored"}}
	staff.Post("/console/reconcile", right).RedirectsTo(t, "/console/reconcile?day="+day)
	staff.Post("/console/reconcile", right).Shows(t, http.StatusUnprocessableEntity, "Order "+renewal+" has changed since you chose")
	if got := w.WalletPaise(me); got != [2]int64{before[0] - 34_900, 0} {
		t.Errorf("the wallet went from %v to %v; want one order of 349.00", before, got)
	}
	w.CheckAudit()
}

// hasNo checks that a page has none of some texts.
func hasNo(t *testing.T, page e2e.Page, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(page.Body, text) {
			t.Errorf("the page has %q:\n%s", text, page.Body)
		}
	}
}

// Only an administrator adopts, with a reason, and in maintenance.
func TestReconcile_RefusesOnPage(t *testing.T) {
	t.Parallel()
	w := e2e.NewLiveEnv(t)
	_, ids := w.NewSubscribers(1)
	today := time.Now().In(subscription.IST).Format(time.DateOnly)
	forgotten(t, w, operation.Order{
		Reference: "CX06D3K9ZR000000000000000001", Kind: operation.Renew, SubscriberID: ids[0], Mobile: "9800000000", Component: "TV-BASIC", Months: 1,
		ExpiresAt: time.Now().Add(60 * 24 * time.Hour),
	})
	b := w.SignIn(t, w.Demo.Admin)
	b.Get("/console/reconcile?day=soon").Shows(t, http.StatusOK, "Choose a day.")
	b.Get("/console/reconcile?restored=yes").Shows(t, http.StatusOK, "No restore of this store is open")
	b.Post("/console/reconcile", url.Values{"form": {"adopt"}, "day": {today}, "reason": {"restored"}}).Shows(t, http.StatusOK, "0 of 1 orders were adopted.", "in maintenance only")
	maintain(t, w, true)
	b.Post("/console/reconcile", url.Values{"form": {"adopt"}, "day": {today}, "reason": {""}}).Shows(t, http.StatusUnprocessableEntity, "This is required.")
	w.CheckAudit()
}
