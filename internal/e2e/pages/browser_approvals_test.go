package pages

import (
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// The demo's two staff logins see an approval from both sides; a second administrator
// approves a login.
func TestBrowser_ApprovalFromBothSides(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	tab, other := looktest.New(t), looktest.New(t)
	tabSignIn(w, tab, w.Demo.Admin)
	tab.Sees("There is no second administrator.")
	tab.Sees("Finance can approve amounts above ₹50,000.00.")
	tab.Check("console-single-administrator")
	tab.Open(w.URL(w.OperatorPage("/wallet")))
	tab.Do(fill("#topup-amount", "60,000"))
	tab.Fill("Bank reference", "NEFT-60")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Click(`button[value="confirm"]`)
	tab.Sees("It now needs a second approval.")

	tabSignIn(w, other, w.Demo.Finance)
	other.Sees("Open tasks")
	other.Press("Approvals")
	other.Sees("NEFT-60")
	other.Press("Approve")
	other.Sees("Approved and carried out.")
	tab.Open(w.URL(w.OperatorPage("/wallet")))
	tab.Sees("₹70,000.00")

	// A single administrator creates a login at once. It cannot approve yet, and never this
	// administrator's proposals.
	tab.Open(w.URL("/console/staff"))
	tab.Fill("Name", "Puppet")
	tab.Fill("Username", "puppet")
	tab.Set("Role", "finance")
	tab.Press("Create the login")
	tab.Sees("This is shown once.")

	binu := w.NewLogin(t, "binu", login.Administrator, 0)
	tab.Open(w.URL("/console/staff"))
	tab.Sees("Another administrator has to approve a login of Finance or of an administrator.")
	tab.Check("console-staff-second")
	tab.Fill("Name", "Ravi Kumar")
	tab.Fill("Username", "ravi")
	tab.Set("Role", "finance")
	tab.Press("Create the login")
	tab.Sees("Your proposal needs the approval of another administrator.")
	tab.Open(w.URL("/console/staff/3"))
	tab.Sees("Another administrator has to approve this.")
	tab.Check("console-login-second")
	tab.Set("Role", "administrator")
	tab.Click(`form[action$="/role"] button`)
	tab.Sees("Finance → Administrator")
	tab.Open(w.URL(w.OperatorPage("/wallet")))
	tab.Do(fill("#topup-amount", "70,000"))
	tab.Fill("Bank reference", "NEFT-70")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Click(`button[value="confirm"]`)
	tab.Sees("It now needs a second approval.")
	tab.Open(w.URL("/console/approvals"))
	tab.Sees("NEFT-70")
	tab.Check("console-approvals-maker")

	other.Open(w.URL("/console/approvals"))
	other.Sees("You cannot approve this: the role")
	other.Check("console-approvals-finance")
	other.Press("Sign out")
	other.Sees("You are signed out.")
	tabSignIn(w, other, binu)
	other.Sees("Open tasks")
	other.Press("Approvals")
	other.Sees("Ravi Kumar")
	other.Check("console-approvals-checker")
	other.Click(`form[action="/console/approvals/2/approve"] button`)
	other.Sees("This is shown once.")
	other.Check("console-approved-password")
	w.CheckAudit()
}
