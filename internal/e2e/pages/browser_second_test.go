package pages

import (
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// A price is lowered by two administrators, and a second large top-up waits, as both
// sides see it.
func TestBrowser_SecondPerson(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	w.NewSubscribers(3)
	asha, ravi := w.NewLogin(t, "asha", login.Administrator, 0), w.NewLogin(t, "ravi", login.Administrator, 0)
	tab := looktest.New(t)
	tabSignIn(w, tab, asha)
	tab.Sees("To approve")

	tab.Open(w.URL("/console/catalogue/plans/BASIC-1/edit"))
	tab.Fill("Price", "99")
	tab.Fill("Months", "2")
	tab.Press("Review change")
	tab.Sees("This needs a second approval.")
	tab.Sees("renew at this price")
	tab.Check("console-plan-preview-second")
	tab.Press("Propose")
	tab.Sees("The catalogue does not change until then.")
	tab.Check("console-plan-proposed")

	tab.Open(w.URL(w.OperatorPage("/wallet")))
	tab.Do(fill("#topup-amount", "40,000"))
	tab.Fill("Bank reference", "NEFT-0001")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Click(`button[value="confirm"]`)
	tab.Sees("₹40,000.00 credited.")
	tab.Do(fill("#topup-amount", "20,000"))
	tab.Fill("Bank reference", "NEFT-0002")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Click(`button[value="confirm"]`)
	tab.Sees("Together with ₹40,000.00 that Name of asha moved alone within 24 hours this is above ₹50,000.00.")
	tab.Check("console-wallet-sum")

	second := looktest.New(t)
	tabSignIn(w, second, ravi)
	second.Sees("To approve")
	second.Open(w.URL("/console/approvals"))
	second.Sees("that Name of asha moved alone within 24 hours")
	second.Sees("renew at this price")
	second.Check("console-approvals-second")
	second.Click(`form[action$="/1/approve"] button[type="submit"]`)
	second.Sees("Approved and carried out.")
	second.Open(w.URL("/console/catalogue/plans/BASIC-1"))
	second.Sees("₹99.00")
	second.Check("console-plan-approved")
}
