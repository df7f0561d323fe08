//go:build long

package pages

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

func evaluate(script string) chromedp.Action { return chromedp.Evaluate(script, nil) }

// A top-up asks once more before it posts, and posts once.
func TestBrowser_TopUpAsksAgain(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	me := w.DemoCaller()
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Admin)
	tab.Sees("Open tasks")
	tab.Open(w.URL(w.OperatorPage("/wallet")))
	tab.Do(fill("#topup-amount", "20,000"))
	tab.Fill("Bank reference", "NEFT-123")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Sees("Nothing is posted yet")
	tab.Sees("₹20,000.00 to Demo Cable, NEFT-123")
	tab.Sees("₹30,000.00")
	tab.Check("console-topup-confirm")
	tab.Press("Edit")
	tab.Until("what was typed is still there", `document.querySelector("#topup-amount").value.replace(",", "").startsWith("20000") && document.querySelector('[name="reference"]').value === "NEFT-123"`)
	if now := w.WalletPaise(me)[0]; now != 10_000_00 {
		t.Errorf("before the confirmation the wallet holds %d paise; want 1000000", now)
	}
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Press("Credit ₹20,000.00")
	tab.Sees("Latest ledger entries")
	tab.Sees("₹30,000.00")

	// The same payment once more adds nothing.
	tab.Do(fill("#topup-amount", "20,000"))
	tab.Fill("Bank reference", "NEFT-123")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.WaitFor(".form-pays")
	tab.Until("it cannot be credited again", `!document.querySelector('button[value="confirm"]')`)
	tab.Check("console-topup-known")
	if now := w.WalletPaise(me)[0]; now != 30_000_00 {
		t.Errorf("the wallet holds %d paise; want 3000000", now)
	}
	w.CheckAudit()
}

// An unknown subscriber is said to be one, and the page leads to the search.
func TestBrowser_UnknownSubscriber(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	w.NewSubscribers(1)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("Expiring next")
	tab.Forgive("404")
	tab.Open(w.URL("/panel/subscribers/999999"))
	tab.Sees("There is no such subscriber. Search by a mobile number, an id or a name.")
	tab.Check("panel-subscriber-unknown")
	tab.Press("Find a subscriber")
	tab.WaitFor("#list tbody tr")
	tab.Set("Search", "nobody")
	tab.Sees("No subscribers match this search")
	tab.Until("the order of a search cannot be chosen", `!document.querySelector(".sort-order").checkVisibility()`)
	tab.As(looktest.Phone, looktest.Light)
	tab.Click(".fold > summary")
	tab.Until("neither on a phone", `document.querySelector(".fold select").checkVisibility() && !document.querySelector(".sort-order").checkVisibility()`)
	tab.Set("Search", "")
	tab.Until("the order of the list can be chosen on a phone", `document.querySelector(".sort-order").checkVisibility()`)
}

// The wrong customer was renewed: the operator finds out what to do, one member of staff proposes the
// reversal, another one approves it, and the operator has the money back.
func TestBrowser_WrongCustomerTakesTwoPeople(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false", "approval.above=300.00")
	me, subscriber, transaction := renewedByMistake(w, "FAMILY-1")
	wallet := w.WalletPaise(me)
	operator, asha, binu := looktest.New(t), looktest.New(t), looktest.New(t)
	tabSignIn(w, operator, w.Demo.Operator)
	operator.Sees("Expiring next")
	operator.Open(w.URL("/panel/transactions/" + transaction))
	operator.Sees("Ask the MSO's staff to reverse it, and give them this number.")

	tabSignIn(w, asha, w.NewLogin(t, "asha", login.Finance, 0))
	asha.Sees("Open tasks")
	asha.Open(w.URL("/console/review/reversals"))
	asha.Fill("Transaction", transaction)
	asha.Press("Open it")
	asha.Sees("It needs a second approval before anything changes.")
	asha.Fill("Reason", "the operator renewed the neighbour")
	asha.Press("Propose the reversal")
	asha.Sees("Nothing is reversed yet")
	asha.Sees("₹349.00")
	asha.Check("console-reversal-confirm")
	asha.Press("Propose the reversal")
	asha.Sees("The reversal needs a second approval.")
	asha.Open(w.URL("/console/approvals"))
	asha.Sees("This is your own proposal: it needs approval by somebody else.")
	if calls := w.ProviderCalls(reversedMobile, "reverse"); calls != 0 {
		t.Errorf("the provider was asked to reverse %d times before the approval; want none", calls)
	}

	second := w.NewLogin(t, "binu", login.Finance, 0)
	tabSignIn(w, binu, second)
	binu.Sees("Open tasks")
	binu.Press("Approvals")
	binu.Sees("the operator renewed the neighbour")
	binu.Check("console-approvals-reversal")
	binu.Press("Approve")
	binu.Sees("Approved and carried out.")
	page := "/console/review/operations/" + transaction
	awaitText(w, w.SignIn(t, second), page, "was reversed already")
	binu.Open(w.URL(page))
	binu.Sees("The provider confirmed that it was undone.")

	operator.Open(w.URL("/panel/transactions/" + transaction))
	operator.Sees("It was reversed, and the amount was given back.")
	operator.Check("panel-operation-reversed")
	operator.Open(w.URL("/panel/statement"))
	operator.Sees("Reversal: renewal of " + subscriber)
	if got, want := w.WalletPaise(me)[0], wallet[0]+349_00; got != want {
		t.Errorf("the wallet holds %d paise; want %d", got, want)
	}
	w.SignIn(t, w.Demo.Operator).Get("/panel/transactions/"+transaction+"/receipt").Shows(t, http.StatusOK, "This receipt is void.")
	w.CheckAudit()
}
