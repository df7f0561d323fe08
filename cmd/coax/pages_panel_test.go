package main

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
)

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// hidden is what the form of a page carries along.
func (p page) hidden() url.Values {
	form := url.Values{}
	for _, field := range hiddenField.FindAllStringSubmatch(p.body, -1) {
		form.Set(field[1], field[2])
	}
	return form
}

func TestARenewalSentTwentyTimesIsChargedOnce(t *testing.T) {
	w := newWorld(t)
	me := w.demoCaller()
	id := w.activated(me, "9812345678", "BASIC-1")
	b := w.as(t, w.line.Operator)
	before := w.money(me)
	form := b.get("/panel/subscribers/"+id+"/renew").shows(t, http.StatusOK, "₹199.00").hidden()
	if form.Get("key") == "" || form.Get("amount") != "199.00" {
		t.Fatalf("the form carries %v", form)
	}
	where := make([]string, 20)
	var sent sync.WaitGroup
	for i := range where {
		sent.Go(func() { where[i] = b.post("/panel/subscribers/"+id+"/renew", form).location })
	}
	sent.Wait()
	for _, one := range where {
		if one != where[0] || !strings.HasPrefix(one, "/panel/transactions/CX") {
			t.Errorf("one was sent to %q, another to %q; want all to the one transaction", where[0], one)
		}
	}
	w.until("the renewal has ended", func() bool { return strings.Contains(b.get(where[0]).body, "The subscriber is renewed.") })
	if got := w.money(me); got != [2]int64{before[0] - 19_900, 0} {
		t.Errorf("the wallet went from %v to %v; want one renewal of 199.00", before, got)
	}
	if w.orders() != 2 {
		t.Errorf("the provider got %d orders; want the activation and one renewal", w.orders())
	}

	// The same form, filled in otherwise, is not taken for the one that was sent.
	other := maps.Clone(form)
	other.Set("plan_id", "FAMILY-1")
	other.Set("amount", "349.00")
	again := b.post("/panel/subscribers/"+id+"/renew", other).shows(t, http.StatusUnprocessableEntity, "This form was sent before")
	if key := again.hidden().Get("key"); key == "" || key == form.Get("key") {
		t.Errorf("the form comes back with the key %q, which stands for another purchase", key)
	}
	w.audited()
}

func TestAnActivationShowsItsPasswordOnceAndIsChargedOnce(t *testing.T) {
	w := newWorld(t)
	me := w.demoCaller()
	b := w.as(t, w.line.Operator)
	form := b.get("/panel/activate").shows(t, http.StatusOK).hidden()
	for name, value := range map[string]string{"full_name": "Asha Rao", "mobile": "9812345678", "plan_id": "BASIC-1", "step": "preview"} {
		form.Set(name, value)
	}
	confirm := b.post("/panel/activate", form).shows(t, http.StatusOK, "₹9,801.00").hidden()
	confirm.Set("step", "confirm")
	first := b.post("/panel/activate", confirm).shows(t, http.StatusOK, "The subscriber is activated.", `class="copyable-value"`)
	again := b.post("/panel/activate", confirm)
	if again.status != http.StatusSeeOther || !strings.Contains(first.body, strings.TrimPrefix(again.location, "/panel/transactions/")) {
		t.Errorf("sent again it leads to %d %q; want the same transaction", again.status, again.location)
	}
	if page := b.get(again.location).shows(t, http.StatusOK, "The subscriber is activated."); strings.Contains(page.body, "copyable-value") {
		t.Error("the password is shown a second time")
	}
	if got := w.money(me); got != [2]int64{1_000_000 - 19_900, 0} {
		t.Errorf("the wallet holds %v after one activation", got)
	}

	// The number is taken now: the form says so beside it, and keeps the rest.
	form.Set("key", b.get("/panel/activate").hidden().Get("key"))
	b.post("/panel/activate", form).shows(t, http.StatusUnprocessableEntity, "This mobile number is registered already", `value="Asha Rao"`)
	w.audited()
}

func TestThePanelRefusesWhatMustNotBeBought(t *testing.T) {
	w := newWorld(t)
	me := w.demoCaller()
	id := w.activated(me, "9812345678", "BASIC-1")
	b := w.as(t, w.line.Operator)
	renew := "/panel/subscribers/" + id + "/renew"
	form := b.get(renew).hidden()

	w.untouched("a price that nobody was shown", func() {
		cheap := maps.Clone(form)
		cheap.Set("amount", "1.00")
		b.post(renew, cheap).shows(t, http.StatusUnprocessableEntity, "The price has changed since it was shown.")
	})
	w.untouched("a key that is not of a form", func() {
		foreign := maps.Clone(form)
		foreign.Set("key", "activate-9812345678")
		b.post(renew, foreign).shows(t, http.StatusUnprocessableEntity, "Look at it again before you agree.")
	})
	w.untouched("a plan that is not sold", func() {
		unsold := maps.Clone(form)
		unsold.Set("plan_id", "NO-SUCH")
		b.post(renew, unsold).shows(t, http.StatusUnprocessableEntity, "This plan is not on sale.")
	})
	status := subscription.OperatorInactive
	if _, err := w.desk.ChangeOperator(context.Background(), me.operatorID, admin.OperatorChange{Status: &status}); err != nil {
		t.Fatal(err)
	}
	w.untouched("a renewal by an account that is suspended", func() {
		b.post(renew, form).shows(t, http.StatusUnprocessableEntity, "account is suspended")
	})
}

func TestHomeWarnsOfAWalletThatDoesNotLast(t *testing.T) {
	w := newWorld(t)
	me := w.demoCaller()
	w.activated(me, "9812345678", "BASIC-1")
	low := w.rich("Low Cable", "300")
	w.activated(low, "9812345679", "BASIC-1")
	who := w.person(t, "low", login.Owner, low.operatorID)
	w.pass(25 * 24 * time.Hour)

	// Enough for the one who expires in five days.
	calm := w.as(t, w.line.Operator).get("/panel/").shows(t, http.StatusOK, "₹199.00 fall due in 7 days", "Asha", "/renew")
	if strings.Contains(calm.body, "The wallet is low.") || strings.Contains(calm.body, "the wallet lasts until") {
		t.Errorf("a wallet that covers everything is warned of:\n%s", calm.body)
	}
	until := w.now().Add(5 * 24 * time.Hour).In(subscription.IST).Format("2 Jan 2006")
	w.as(t, who).get("/panel/").shows(t, http.StatusOK, "The wallet is low.",
		"₹199.00 fall due in 7 days; the wallet lasts until "+until+". For the next 30 days, ₹98.00 are missing.")
}

func TestAWalletThatIsTooSmallIsSaidBeforeAnythingIsBought(t *testing.T) {
	w := newWorld(t)
	poor := w.rich("Poor Cable", "100")
	b := w.as(t, w.person(t, "poor", login.Owner, poor.operatorID))
	form := b.get("/panel/activate").hidden()
	for name, value := range map[string]string{"full_name": "Asha Rao", "mobile": "9812345678", "plan_id": "BASIC-1"} {
		form.Set(name, value)
	}
	w.untouched("an activation that the wallet does not cover", func() {
		for _, step := range []string{"preview", "confirm"} {
			form.Set("step", step)
			b.post("/panel/activate", form).shows(t, http.StatusUnprocessableEntity, "The wallet holds ₹99.00 less than that.", `value="9812345678"`)
		}
	})
}

func TestAnotherOperatorsSubscribersAndTransactionsAreNotThere(t *testing.T) {
	w := newWorld(t)
	id := w.activated(w.demoCaller(), "9812345678", "BASIC-1")
	transaction := w.transaction(w.demoCaller(), "activate-9812345678").text("transaction_id")
	other := w.rich("Other Cable", "1000")
	b := w.as(t, w.person(t, "stranger", login.Owner, other.operatorID))
	for _, path := range []string{"/panel/subscribers/" + id, "/panel/subscribers/" + id + "/renew", "/panel/subscribers/" + id + "/advance-renew",
		"/panel/subscribers/" + id + "/password", "/panel/transactions/" + transaction} {
		b.get(path).shows(t, http.StatusNotFound, "There is no such page.")
	}
	w.untouched("forms about somebody else's subscriber", func() {
		for _, path := range []string{"/renew", "/advance-renew", "/password"} {
			b.post("/panel/subscribers/"+id+path, url.Values{"plan_id": {"BASIC-1"}, "amount": {"199.00"}, "key": {"web-ABCDEFGHIJKLMNOPQRSTUVWXYZ"}}).
				shows(t, http.StatusNotFound, "There is no such page.")
		}
	})
	if found := b.get("/panel/subscribers?q=9812345678").shows(t, http.StatusOK, "Nobody fits this search"); strings.Contains(found.body, id) {
		t.Error("a search shows another operator's subscriber")
	}
	w.as(t, w.line.Operator).get("/panel/transactions/"+transaction).shows(t, http.StatusOK, transaction)
}

// What is bought on a page is in the request log beside the calls of programs, with
// what a program would have been answered. It is no use of a key.
func TestAnOrderFromAPageIsInTheRequestLog(t *testing.T) {
	w := newWorld(t)
	me := w.demoCaller()
	id := w.activated(me, "9812345678", "BASIC-1")
	b := w.as(t, w.line.Operator)
	renew := "/panel/subscribers/" + id + "/renew"
	form, unsold := b.get(renew).hidden(), b.get(renew).hidden()
	b.post(renew, form)
	b.post(renew, form)
	unsold.Set("plan_id", "NO-SUCH")
	b.post(renew, unsold)
	w.script("9812345678", "reject")
	failed := b.get("/panel/subscribers/" + id + "/advance-renew?plan_id=FAMILY-1").hidden()
	b.post("/panel/subscribers/"+id+"/advance-renew", failed)

	search := func(q requestlog.Query) []requestlog.Entry {
		t.Helper()
		found, err := w.node.requests.Search(t.Context(), me.operatorID, q)
		if err != nil {
			t.Fatal(err)
		}
		return found.Entries
	}
	type seen struct {
		path, key, by string
		status        int
		code          fault.Code
	}
	var got []seen
	for _, e := range search(requestlog.Query{FromPages: true}) {
		got = append(got, seen{e.Path, e.IdempotencyKey, e.KeyHint, e.Status, e.Code})
		if e.Method != http.MethodPost || !e.Address.IsLoopback() || e.RequestID == "" || e.Took <= 0 {
			t.Errorf("an order is in the log as %+v", e)
		}
	}
	by := w.line.Operator.Username
	if want := []seen{
		{"/panel/subscribers/" + id + "/advance-renew", failed.Get("key"), by, http.StatusBadGateway, fault.ProviderError},
		{renew, unsold.Get("key"), by, http.StatusUnprocessableEntity, fault.InvalidPlan},
		{renew, form.Get("key"), by, http.StatusOK, fault.OK},
		{renew, form.Get("key"), by, http.StatusOK, fault.OK},
	}; !slices.Equal(got, want) {
		t.Errorf("the log has\n%v\nwant\n%v", got, want)
	}
	if calls := search(requestlog.Query{CredentialID: me.id}); len(calls) != 1 {
		t.Errorf("%d calls are by the key; want the activation", len(calls))
	}
	uses, err := w.node.requests.LastUse(t.Context(), me.operatorID)
	if err != nil || len(uses) != 1 || uses[me.id].IsZero() {
		t.Errorf("the keys' last uses are %v, %v; want that of the one key", uses, err)
	}
	b.get("/panel/requests?key=pages").shows(t, http.StatusOK, "Panel: "+by, "502 PROVIDER_ERROR", renew)
}

func TestTheRequestLogSaysHowLongItKeeps(t *testing.T) {
	for keep, want := range map[string]string{
		"720h": "in the last 30 days", "36h": "in the last 36 hours", "0s": "The request log is switched off.",
	} {
		w := newWorld(t, "request_log.keep="+keep)
		b := w.as(t, w.line.Operator)
		page := b.get("/panel/requests").shows(t, http.StatusOK, want)
		for _, path := range []string{"/panel/keys", "/panel/signature"} {
			if off := strings.Contains(b.get(path).shows(t, http.StatusOK).body, "The request log is switched off."); off != (keep == "0s") {
				t.Errorf("with request_log.keep=%s, %s says that the log is off: %v", keep, path, off)
			}
		}
		if keep != "720h" && strings.Contains(page.body, "30 days") {
			t.Errorf("with request_log.keep=%s the page speaks of 30 days", keep)
		}
	}
}
