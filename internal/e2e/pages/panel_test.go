package pages

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
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestPanel_RenewalSentTwentyTimesChargesOnce(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.DemoCaller()
	id := w.Activate(me, "9812345678", "BASIC-1")
	b := w.SignIn(t, w.Demo.Operator)
	before := w.WalletPaise(me)
	form := b.Get("/panel/subscribers/"+id+"/renew").Shows(t, http.StatusOK, "₹199.00").HiddenFields()
	if form.Get("key") == "" || form.Get("amount") != "199.00" {
		t.Fatalf("the form carries %v", form)
	}
	where := make([]string, 20)
	var sent sync.WaitGroup
	for i := range where {
		sent.Go(func() { where[i] = b.Post("/panel/subscribers/"+id+"/renew", form).Location })
	}
	sent.Wait()
	for _, one := range where {
		if one != where[0] || !strings.HasPrefix(one, "/panel/transactions/CX") {
			t.Errorf("one was redirected to %q, another to %q; want one transaction", where[0], one)
		}
	}
	w.WaitUntil("the renewal has ended", func() bool { return strings.Contains(b.Get(where[0]).Body, "The subscriber is renewed.") })
	if got := w.WalletPaise(me); got != [2]int64{before[0] - 19_900, 0} {
		t.Errorf("the wallet went from %v to %v; want one renewal of 199.00", before, got)
	}
	if w.ProviderOrders() != 2 {
		t.Errorf("the provider got %d orders; want the activation and one renewal", w.ProviderOrders())
	}
	// The same form with other values is not a replay.
	other := maps.Clone(form)
	other.Set("plan_id", "FAMILY-1")
	other.Set("amount", "349.00")
	again := b.Post("/panel/subscribers/"+id+"/renew", other).Shows(t, http.StatusUnprocessableEntity, "This form was sent before")
	if key := again.HiddenFields().Get("key"); key == "" || key == form.Get("key") {
		t.Errorf("the form is returned with the key %q, which is used", key)
	}
	w.CheckAudit()
}

// Two clerks do not charge a customer twice: the form tells the second one of the renewal.
func TestPanel_RecentRenewalIsShownBeforeTheNext(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.DemoCaller()
	id := w.Activate(me, "9812345678", "BASIC-1")
	renew, advance := "/panel/subscribers/"+id+"/renew", "/panel/subscribers/"+id+"/advance-renew?plan_id=FAMILY-1"
	b := w.SignIn(t, w.Demo.Operator)
	b.Get(renew).Shows(t, http.StatusOK, "days left</strong> Renewed again, it expires on ")
	if renewed := w.Operate(me, "renew", "by-a-clerk", e2e.Order{"subscriber_id": id, "plan_id": "BASIC-1"}); renewed.Code != fault.OK {
		t.Fatalf("renew: %s", renewed.Code)
	}
	w.Advance(3 * time.Minute) // until then it is refused as a duplicate
	recent := regexp.MustCompile(`Renewed (today|yesterday) at \d\d:\d\d \(.+, ₹199\.00\)\.</strong> Renewed again, it expires on `)
	for _, path := range []string{renew, advance} {
		if page := b.Get(path).Shows(t, http.StatusOK); !recent.MatchString(page.Body) {
			t.Errorf("%s does not show the renewal just made", path)
		}
	}
	w.Advance(25 * time.Hour)
	if page := w.SignIn(t, w.Demo.Operator).Get(renew).Shows(t, http.StatusOK, "days left</strong>"); recent.MatchString(page.Body) {
		t.Error("a renewal of more than 24 hours ago is shown as recent")
	}
}

func TestPanel_ActivationShowsPasswordOnce(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.DemoCaller()
	b := w.SignIn(t, w.Demo.Operator)
	form := b.Get("/panel/activate").Shows(t, http.StatusOK).HiddenFields()
	for name, value := range map[string]string{"full_name": "Asha Rao", "mobile": "+91 98123-45678", "plan_id": "BASIC-1", "address": "12 Lake Road\r\nKochi", "step": "preview"} {
		form.Set(name, value)
	}
	confirm := b.Post("/panel/activate", form).Shows(t, http.StatusOK, "₹9,801.00", "12 Lake Road\nKochi").HiddenFields()
	confirm.Set("step", "confirm")
	confirm.Set("address", "12 Lake Road\r\nKochi") // as a browser sends the line break of a hidden field
	first := b.Post("/panel/activate", confirm).Shows(t, http.StatusOK, "The subscriber is activated.")
	password := regexp.MustCompile(`class="copyable-value">([^<]+)<`).FindStringSubmatch(first.Body)
	if password == nil {
		t.Fatalf("the page shows no password\n%s", first.Body)
	}
	again := b.Post("/panel/activate", confirm)
	if again.Status != http.StatusSeeOther || !strings.Contains(first.Body, strings.TrimPrefix(again.Location, "/panel/transactions/")) {
		t.Errorf("sent again it leads to %d %q; want the same transaction", again.Status, again.Location)
	}
	if page := b.Get(again.Location).Shows(t, http.StatusOK, "The subscriber is activated."); strings.Contains(page.Body, password[1]) {
		t.Error("the password is shown a second time")
	}
	if got := w.WalletPaise(me); got != [2]int64{1_000_000 - 19_900, 0} {
		t.Errorf("the wallet holds %v after one activation", got)
	}
	id := w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?mobile=9812345678"}).Text("customer.subscriber_id")
	if _, found, err := w.Admin.FindSubscriber(t.Context(), id); err != nil || found.Address != "12 Lake Road\nKochi" {
		t.Errorf("the address is stored as %q, %v; want two lines", found.Address, err)
	}
	b.Get("/panel/subscribers/"+id).Shows(t, http.StatusOK, "12 Lake Road\nKochi")

	// The number is taken now: the form shows the error and keeps the rest.
	form.Set("key", b.Get("/panel/activate").HiddenFields().Get("key"))
	taken := b.Post("/panel/activate", form).Shows(t, http.StatusUnprocessableEntity,
		"This mobile number is registered already", `value="Asha Rao"`, `href="/panel/subscribers/`+id+`"`)
	if strings.Count(taken.Body, "This mobile number is registered already") != 1 {
		t.Error("the form says twice that the number is taken")
	}
	w.CheckAudit()
}

func TestPanel_Refusals(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.DemoCaller()
	id := w.Activate(me, "9812345678", "BASIC-1")
	b := w.SignIn(t, w.Demo.Operator)
	renew := "/panel/subscribers/" + id + "/renew"
	form := b.Get(renew).HiddenFields()

	w.CheckUnchanged("a price that was not shown", func() {
		cheap := maps.Clone(form)
		cheap.Set("amount", "1.00")
		b.Post(renew, cheap).Shows(t, http.StatusUnprocessableEntity, "The price has changed since it was shown.")
	})
	w.CheckUnchanged("a key that no form has", func() {
		foreign := maps.Clone(form)
		foreign.Set("key", "activate-9812345678")
		b.Post(renew, foreign).Shows(t, http.StatusUnprocessableEntity, "Check it again before you pay.")
	})
	w.CheckUnchanged("a plan that is not sold", func() {
		unsold := maps.Clone(form)
		unsold.Set("plan_id", "NO-SUCH")
		b.Post(renew, unsold).Shows(t, http.StatusUnprocessableEntity, "This plan is not on sale.")
	})
	status := subscription.OperatorInactive
	if _, err := w.Admin.ChangeOperator(context.Background(), me.OperatorID, admin.OperatorChange{Status: &status}); err != nil {
		t.Fatal(err)
	}
	w.CheckUnchanged("a renewal by an account that is suspended", func() {
		b.Post(renew, form).Shows(t, http.StatusForbidden, "account is suspended")
	})
}

func TestPanel_LowWalletWarning(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.DemoCaller()
	w.Activate(me, "9812345678", "BASIC-1")
	low := w.NewFundedOperator("Low Cable", "300")
	w.Activate(low, "9812345679", "BASIC-1")
	who := w.NewLogin(t, "low", login.Owner, low.OperatorID)
	w.Advance(25 * 24 * time.Hour)

	// Enough for the subscriber who expires in five days.
	calm := w.SignIn(t, w.Demo.Operator).Get("/panel/").Shows(t, http.StatusOK, "₹199.00 due in 7 days", "Asha", "/renew")
	if strings.Contains(calm.Body, "The wallet is low.") || strings.Contains(calm.Body, "the wallet lasts until") {
		t.Errorf("there is a warning for a sufficient wallet:\n%s", calm.Body)
	}
	until := w.Now().Add(5 * 24 * time.Hour).In(subscription.IST).Format("2 Jan 2006")
	if !strings.Contains(calm.Body, "5 days left") {
		t.Errorf("the subscriber who expires in five days is shown otherwise:\n%s", calm.Body)
	}
	w.SignIn(t, who).Get("/panel/").Shows(t, http.StatusOK, "The wallet is low.", "stat-warn",
		"₹199.00 due in 7 days; the wallet lasts until "+until+". ₹98.00 short for the next 30 days.")
}

func TestPanel_ShortWalletShownBeforeOrder(t *testing.T) {
	w := e2e.NewEnv(t)
	poor := w.NewFundedOperator("Poor Cable", "100")
	b := w.SignIn(t, w.NewLogin(t, "poor", login.Owner, poor.OperatorID))
	form := b.Get("/panel/activate").HiddenFields()
	for name, value := range map[string]string{"full_name": "Asha Rao", "mobile": "9812345678", "plan_id": "BASIC-1"} {
		form.Set(name, value)
	}
	w.CheckUnchanged("an activation that the wallet does not cover", func() {
		for _, step := range []string{"preview", "confirm"} {
			form.Set("step", step)
			b.Post("/panel/activate", form).Shows(t, http.StatusUnprocessableEntity, "The wallet is ₹99.00 short.", `value="9812345678"`)
		}
	})
}

func TestPanel_ForeignIDIs404(t *testing.T) {
	w := e2e.NewEnv(t)
	id := w.Activate(w.DemoCaller(), "9812345678", "BASIC-1")
	transaction := w.LookUp(w.DemoCaller(), "activate-9812345678").Text("transaction_id")
	other := w.NewFundedOperator("Other Cable", "1000")
	b := w.SignIn(t, w.NewLogin(t, "stranger", login.Owner, other.OperatorID))
	for _, path := range []string{"/panel/subscribers/" + id, "/panel/subscribers/" + id + "/renew", "/panel/subscribers/" + id + "/advance-renew",
		"/panel/subscribers/" + id + "/password", "/panel/transactions/" + transaction} {
		text := "There is no such subscriber."
		if strings.HasPrefix(path, "/panel/transactions/") {
			text = "There is no such page."
		}
		b.Get(path).Shows(t, http.StatusNotFound, text)
	}
	w.CheckUnchanged("forms for another operator's subscriber", func() {
		for _, path := range []string{"/renew", "/advance-renew", "/password"} {
			b.Post("/panel/subscribers/"+id+path, url.Values{"plan_id": {"BASIC-1"}, "amount": {"199.00"}, "key": {"web-ABCDEFGHIJKLMNOPQRSTUVWXYZ"}}).
				Shows(t, http.StatusNotFound, "There is no such subscriber.", `href="/panel/subscribers"`)
		}
	})
	if found := b.Get("/panel/subscribers?q=9812345678").Shows(t, http.StatusOK, "No subscribers match this search"); strings.Contains(found.Body, id) {
		t.Error("a search shows another operator's subscriber")
	}
	w.SignIn(t, w.Demo.Operator).Get("/panel/transactions/"+transaction).Shows(t, http.StatusOK, transaction)
}

// An order on a page is in the request log beside the API calls, with the answer that the API
// would give. It does not count as a use of a key.
func TestPanel_OrderIsInRequestLog(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.DemoCaller()
	id := w.Activate(me, "9812345678", "BASIC-1")
	b := w.SignIn(t, w.Demo.Operator)
	renew := "/panel/subscribers/" + id + "/renew"
	form, unsold := b.Get(renew).HiddenFields(), b.Get(renew).HiddenFields()
	b.Post(renew, form)
	b.Post(renew, form)
	unsold.Set("plan_id", "NO-SUCH")
	b.Post(renew, unsold)
	w.ScriptProvider("9812345678", "reject")
	failed := b.Get("/panel/subscribers/" + id + "/advance-renew?plan_id=FAMILY-1").HiddenFields()
	b.Post("/panel/subscribers/"+id+"/advance-renew", failed)

	search := func(q requestlog.Query) []requestlog.Entry {
		t.Helper()
		found, err := w.Node.Requests.Search(t.Context(), me.OperatorID, q)
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
	by := w.Demo.Operator.Username
	if want := []seen{
		{"/panel/subscribers/" + id + "/advance-renew", failed.Get("key"), by, http.StatusBadGateway, fault.ProviderError},
		{renew, unsold.Get("key"), by, http.StatusUnprocessableEntity, fault.InvalidPlan},
		{renew, form.Get("key"), by, http.StatusOK, fault.OK},
		{renew, form.Get("key"), by, http.StatusOK, fault.OK},
	}; !slices.Equal(got, want) {
		t.Errorf("the log has\n%v\nwant\n%v", got, want)
	}
	if calls := search(requestlog.Query{CredentialID: me.ID}); len(calls) != 1 {
		t.Errorf("%d calls are by the key; want the activation", len(calls))
	}
	uses, err := w.Node.Requests.LastUse(t.Context(), me.OperatorID)
	if err != nil || len(uses) != 1 || uses[me.ID].IsZero() {
		t.Errorf("the keys' last uses are %v, %v; want that of the one key", uses, err)
	}
	b.Get("/panel/requests?key=pages").Shows(t, http.StatusOK, "Panel: Demo Operator", "502 PROVIDER_ERROR", renew)
}

func TestPanel_RequestLogRetentionIsShown(t *testing.T) {
	for keep, want := range map[string]string{
		"720h": "in the last 30 days", "36h": "in the last 36 hours", "0s": "The request log is turned off.",
	} {
		w := e2e.NewEnv(t, "request_log.keep="+keep)
		b := w.SignIn(t, w.Demo.Operator)
		page := b.Get("/panel/requests").Shows(t, http.StatusOK, want)
		for _, path := range []string{"/panel/keys", "/panel/signature"} {
			if off := strings.Contains(b.Get(path).Shows(t, http.StatusOK).Body, "The request log is turned off."); off != (keep == "0s") {
				t.Errorf("with request_log.keep=%s, %s says that the log is off: %v", keep, path, off)
			}
		}
		if keep != "720h" && strings.Contains(page.Body, "30 days") {
			t.Errorf("with request_log.keep=%s the page has 30 days", keep)
		}
	}
}
