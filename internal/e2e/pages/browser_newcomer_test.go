//go:build long

package pages

import (
	"net/url"
	"path"
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/demo"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// A first-time user starts the demo as `make demo` does, opens the printed address, and
// signs in with each of the three printed logins.
func TestBrowser_FirstHour(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	running, line := e2e.StartDemo(t, folder, "--history")
	tab := looktest.New(t)
	signIn := func(who demo.Login) {
		t.Helper()
		tab.Open(line.PanelURL)
		tab.Fill("Username", who.Username)
		tab.Fill("Password", who.Password)
		tab.Press("Sign in")
	}

	signIn(line.Operator)
	tab.Sees("₹10,000.00")
	tab.Sees("Expiring next")
	tab.Check("newcomer-home")
	tab.Click(`main a[href$="/renew"]`)
	tab.Sees("The plan begins now")
	at, err := url.Parse(tab.URL())
	if err != nil {
		t.Fatal(err)
	}
	tab.Click(`#order form[method="post"] button`)
	tab.Sees("The subscriber is renewed.")
	tab.Check("newcomer-renewed")
	transaction := path.Base(tab.URL())
	tab.Press("Statement")
	tab.Sees(transaction)
	tab.Check("newcomer-statement")
	tab.Press("Transactions")
	tab.WaitFor(`main a[href$="` + transaction + `"]`)
	tab.Press("Request log")
	tab.Sees("POST " + at.Path)
	tab.Sees("Panel: Demo Operator")
	tab.Check("newcomer-requests")
	tab.Press("Sign out")
	tab.Sees("You are signed out.")

	signIn(line.Admin)
	tab.Sees("Open tasks")
	tab.Check("newcomer-console")
	tab.Press("Operators")
	tab.Press("Demo Cable")
	tab.Press("Wallet")
	tab.Sees(transaction)
	tab.Do(fill("#topup-amount", "500"))
	tab.Fill("Bank reference", "NEFT-NEWCOMER")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Click(`button[value="confirm"]`)
	tab.Sees("₹500.00 credited.")
	tab.Do(fill("#topup-amount", "60,000"))
	tab.Fill("Bank reference", "NEFT-BOTH-SIDES")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Click(`button[value="confirm"]`)
	tab.Sees("It now needs a second approval.")
	tab.Press("Audit log")
	tab.Sees("NEFT-NEWCOMER")
	tab.Check("newcomer-audit-log")
	tab.Press("Sign out")
	tab.Sees("You are signed out.")

	signIn(line.Finance)
	tab.Press("Approvals")
	tab.Sees("NEFT-BOTH-SIDES")
	tab.Press("Approve")
	tab.Sees("Approved and carried out.")
	tab.Press("Sign out")
	tab.Sees("You are signed out.")

	signIn(line.Operator)
	tab.Press("Statement")
	tab.Sees("NEFT-NEWCOMER")
	tab.Sees("NEFT-BOTH-SIDES")
	proved := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", filepath.Join(folder, "coax.toml")))
	e2e.CheckMentions(t, "the audit", proved.Out, "Everything agrees.")
	if code := running.Terminate(); code != e2e.ExitDone {
		t.Errorf("the demo ended with %d\n%s", code, running.Err)
	}
}
