package pages

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
)

var formVoucher = regexp.MustCompile(`name="once" value="([A-Z2-7]{12})"`)

func TestConsole_FormSentTwiceMovesMoneyOnce(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	b := w.SignIn(t, w.NewLogin(t, "fina", login.Finance, 0))
	wallet := w.OperatorPage("/wallet")

	topUp := url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"₹1,250.50"}, "reference": {"NEFT-77"}}
	b.Post(wallet+"/top-up", topUp).RedirectsTo(t, wallet)
	b.Get(wallet).Shows(t, http.StatusOK, "₹1,250.50 credited. The wallet balance is now ₹11,250.50.", "Top-up NEFT-77")
	b.Post(wallet+"/top-up", topUp).RedirectsTo(t, wallet)
	b.Get(wallet).Shows(t, http.StatusOK, "This was already done; no money was moved now.", "₹11,250.50")
	asked := b.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "amount": {"1250.50"}, "reference": {"neft-77"}}).Shows(t, http.StatusOK, "₹1,250.50 was credited under this reference on", "nothing will be credited.")
	if strings.Contains(asked.Body, `value="confirm"`) {
		t.Error("a reference that was credited is offered to be credited")
	}
	topUp.Set("amount", "9.00")
	b.Post(wallet+"/top-up", topUp).Shows(t, http.StatusUnprocessableEntity,
		"reference NEFT-77 was used before, as NEFT-77, for ₹1,250.50 credited to operator Demo Cable on ", ": give this payment its own reference", `value="9.00"`)

	voucher := formVoucher.FindStringSubmatch(b.Get(wallet).Body)
	if voucher == nil {
		t.Fatal("the form for adjustments has no voucher")
	}
	adjust := url.Values{"form": {"adjust"}, "step": {"confirm"}, "direction": {"take"}, "amount": {"250.50"}, "reason": {"Entered too high"}, "once": {voucher[1]}}
	b.Post(wallet+"/adjust", adjust).RedirectsTo(t, wallet)
	b.Post(wallet+"/adjust", adjust).RedirectsTo(t, wallet)
	b.Get(wallet).Shows(t, http.StatusOK, "This form was already sent", "₹11,000.00")
	adjust.Del("once")
	b.Post(wallet+"/adjust", adjust).Shows(t, http.StatusUnprocessableEntity, "The form was incomplete.")
	b.Get(wallet).Shows(t, http.StatusOK, "₹11,000.00", ">Adjustment: Entered too high<")
	w.SignIn(t, w.Demo.Operator).Get("/panel/statement").Shows(t, http.StatusOK, ">Adjustment: Entered too high<")
}

// A top-up and an adjustment are shown once more, and posted when they are agreed to.
func TestConsole_WalletFormAsksOnceMore(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false", "approval.above=20000.00")
	b := w.SignIn(t, w.NewLogin(t, "fina", login.Finance, 0))
	wallet := w.OperatorPage("/wallet")
	ask := func(form url.Values, want ...string) url.Values {
		t.Helper()
		action := wallet + "/" + form.Get("form")
		w.CheckUnchanged("the question about "+form.Get("form"), func() {
			b.Post(action, form).Shows(t, http.StatusOK, append(want, "Nothing is posted yet", `name="step" value="confirm"`)...)
			agreed := maps.Clone(form)
			agreed.Set("step", "edit")
			b.Post(action, agreed).Shows(t, http.StatusOK, `value="`+form.Get("amount")+`"`, "Latest ledger entries")
		})
		return form
	}
	topUp := ask(url.Values{"form": {"top-up"}, "amount": {"₹1,250.50"}, "reference": {"NEFT-77"}},
		"₹1,250.50 to Demo Cable, NEFT-77", "₹11,250.50", "Credit ₹1,250.50", `name="amount" value="1250.50"`)
	topUp.Set("step", "confirm")
	b.Post(wallet+"/top-up", topUp).RedirectsTo(t, wallet)
	b.Get(wallet).Shows(t, http.StatusOK, "₹1,250.50 credited. The wallet balance is now ₹11,250.50.")

	voucher := formVoucher.FindStringSubmatch(b.Get(wallet).Body)
	if voucher == nil {
		t.Fatal("the form for adjustments has no voucher")
	}
	adjust := ask(url.Values{"form": {"adjust"}, "direction": {"take"}, "amount": {"250.50"}, "reason": {"Entered too high"}, "once": {voucher[1]}},
		"₹250.50 from Demo Cable", "Entered too high", "₹11,000.00", "Deduct ₹250.50", `value="`+voucher[1]+`"`)
	adjust.Set("step", "confirm")
	b.Post(wallet+"/adjust", adjust).RedirectsTo(t, wallet)
	b.Get(wallet).Shows(t, http.StatusOK, "The wallet balance is now ₹11,000.00.")

	ask(url.Values{"form": {"top-up"}, "amount": {"20000.01"}, "reference": {"NEFT-78"}},
		"This is above ₹20,000.00. It needs a second approval.", "Propose ₹20,000.01")
	b.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "amount": {"much"}, "reference": {""}}).Shows(t, http.StatusUnprocessableEntity,
		"Enter an amount in rupees", "This is required.")
	w.CheckAudit()
}

func TestConsole_LargeAmountTakesTwoPeople(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false", "approval.above=100.00")
	maker, checker := w.SignIn(t, w.NewLogin(t, "maker", login.Finance, 0)), w.SignIn(t, w.NewLogin(t, "checker", login.Finance, 0))
	wallet := w.OperatorPage("/wallet")
	propose := func(reference string) {
		t.Helper()
		maker.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"100.01"}, "reference": {reference}}).RedirectsTo(t, wallet)
	}

	propose("R-1")
	maker.Get(wallet).Shows(t, http.StatusOK, "needs a second approval.", "₹10,000.00", "R-1")
	maker.Post("/console/approvals/1/approve", nil).Shows(t, http.StatusUnprocessableEntity, "somebody else has to approve it")
	maker.Post("/console/approvals/1/decline", url.Values{"reason": {"no"}}).Shows(t, http.StatusUnprocessableEntity, "This could not be done: proposal 1 is your own: withdraw it instead.")
	checker.Post("/console/approvals/1/withdraw", url.Values{"reason": {"no"}}).Shows(t, http.StatusUnprocessableEntity, "This could not be done: proposal 1 is Name of maker&#39;s: decline it instead.")
	checker.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"100.02"}, "reference": {"R-1"}}).Shows(t, http.StatusUnprocessableEntity,
		"reference R-1 waits for approval already: proposal 1 of Name of maker, for ₹100.01 to operator Demo Cable; it has to be decided or withdrawn first")
	if own := maker.Get("/console/approvals"); strings.Contains(own.Body, "/approve") {
		t.Error("the page offers the maker to approve the proposal")
	}
	checker.Get("/console/").Shows(t, http.StatusOK, "Top up the wallet", "₹100.01")
	checker.Post("/console/approvals/1/approve", nil).RedirectsTo(t, "/console/approvals")
	checker.Get("/console/approvals").Shows(t, http.StatusOK, "Approved and carried out.", "R-1", "Name of maker", "Name of checker")
	checker.Post("/console/approvals/1/approve", nil).Shows(t, http.StatusUnprocessableEntity, "This could not be done: proposal 1 was approved already, by Name of checker.")
	maker.Get(wallet).Shows(t, http.StatusOK, "₹10,100.01")

	propose("R-2")
	checker.Post("/console/approvals/2/decline", nil).Shows(t, http.StatusUnprocessableEntity, "Enter a reason")
	checker.Post("/console/approvals/2/decline", url.Values{"reason": {"There is no such payment."}}).RedirectsTo(t, "/console/approvals")
	propose("R-3")
	maker.Post("/console/approvals/3/withdraw", url.Values{"reason": {"Typed it wrong."}}).RedirectsTo(t, "/console/approvals")
	checker.Get("/console/approvals").Shows(t, http.StatusOK, "Declined", "There is no such payment.", "Withdrawn", "Typed it wrong.")
	maker.Get(wallet).Shows(t, http.StatusOK, "₹10,100.01")
}

// A form sent with a stale session is not processed; after the step-up its input is back in
// that form only.
func TestStepUp_KeepsTypedInput(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	who := w.NewLogin(t, "fina", login.Finance, 0)
	b := w.SignIn(t, who)
	w.Advance(6 * time.Minute)
	wallet := w.OperatorPage("/wallet")
	stopped := b.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "amount": {"777.00"}, "reference": {"NEFT-78"}})
	stopped.Shows(t, http.StatusForbidden, `name="form.amount" value="777.00"`)
	again := b.Post("/step-up", url.Values{
		"to": {wallet}, "password": {who.Password}, "form.form": {"top-up"}, "form.amount": {"777.00"}, "form.reference": {"NEFT-78"},
	}).Shows(t, http.StatusOK, `value="NEFT-78"`, "₹10,000.00")
	if n := strings.Count(again.Body, `value="777.00"`); n != 1 {
		t.Errorf("the amount is in %d forms; want only its own", n)
	}
}

func TestConsole_UnknownIDIs404(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	b := w.SignIn(t, w.Demo.Admin)
	for _, path := range []string{
		"/console/operators/4711", "/console/operators/4711/wallet", "/console/operators/one", "/console/operators?after=nowhere",
		w.OperatorPage("/keys/4711"), "/console/staff/4711",
		// The first login is staff, not an operator's.
		w.OperatorPage("/logins/1"),
	} {
		if got := b.Get(path); got.Status != http.StatusNotFound {
			t.Errorf("%s: %d; want 404", path, got.Status)
		}
	}
}

// Each role is offered the forms that it may send. The access matrix checks that others are
// refused.
func TestConsole_OffersPermittedActions(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	pages := []string{"", "/wallet", "/keys", "/keys/1", "/whitelist", "/logins"}
	offers := map[login.Role][]string{
		login.Viewer:  {},
		login.Support: {"/keys/1/revoke", "/whitelist/add", "/whitelist/remove"},
		login.Finance: {"/wallet/top-up", "/wallet/adjust"},
		login.Administrator: {
			"/status", "/api", "/rate-limit", "/low-balance", "/commission", "/second-factor", "/receipt-details", "/wallet/top-up", "/wallet/adjust", "/keys",
			"/keys/1/rotate", "/keys/1/permissions", "/keys/1/revoke", "/whitelist/add", "/whitelist/remove", "/logins",
		},
	}
	form := regexp.MustCompile(`<form[^>]* method="post" action="` + w.OperatorPage("") + `(/[^"]*)"`)
	for role, want := range offers {
		b := w.SignIn(t, w.NewLogin(t, "a-"+string(role), role, 0))
		got := map[string]bool{}
		for _, page := range pages {
			for _, found := range form.FindAllStringSubmatch(b.Get(w.OperatorPage(page)).Shows(t, http.StatusOK).Body, -1) {
				got[found[1]] = true
			}
		}
		for _, action := range want {
			if !got[action] {
				t.Errorf("%s is not offered %s", role, action)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s is offered %v; want %v", role, got, want)
		}
	}
}

// A wallet above its threshold is amber where it does not cover the renewals of the next 7 days.
func TestConsole_WalletBelowWhatFallsDueIsAmber(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, append(longSessions, "panel.staff_totp=false")...)
	me := w.NewFundedOperator("Sagar Cable", "600")
	for i := range 2 {
		w.Activate(me, fmt.Sprintf("98%08d", i), "BASIC-1")
	}
	if _, err := w.Admin.ChangeOperator(t.Context(), me.OperatorID, admin.OperatorChange{LowBalance: new(money.Amount)}); err != nil {
		t.Fatal(err)
	}
	operator := fmt.Sprintf("/console/operators/%d", me.OperatorID)
	const due = "₹398.00 due in 7 days"
	pages := []string{"/console/", "/console/operators", operator, operator + "/wallet"}
	b := w.SignIn(t, w.Demo.Admin)
	b.Get("/console/").Shows(t, http.StatusOK, "No operator is low on balance")
	for _, path := range pages {
		if strings.Contains(b.Get(path).Shows(t, http.StatusOK).Body, due) {
			t.Errorf("%s: 30 days before the expiry, something is due", path)
		}
	}
	w.Advance(25 * 24 * time.Hour)
	b = w.SignIn(t, w.Demo.Admin)
	for _, path := range pages {
		b.Get(path).Shows(t, http.StatusOK, due, "₹202.00")
	}
}
