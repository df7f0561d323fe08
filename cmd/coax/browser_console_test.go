package main

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// fill types into the empty field that a selector finds, where two have the same label.
func fill(selector, value string) chromedp.Action {
	return chromedp.SendKeys(selector, value, chromedp.ByQuery)
}

// An administrator opens an account and fits it out: terms, money, a key, an
// address, a login. What is above the set amount waits for somebody else.
func TestAnAdministratorFitsOutAnOperatorInABrowser(t *testing.T) {
	w := newWorld(t, "panel.staff_totp=false", "approval.above=50000.00")
	ravi := w.person(t, "ravi", login.Finance, 0)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.line.Admin)
	tab.Sees("What needs a person")
	tab.Check("console-home")

	tab.Press("Operators")
	tab.Sees("₹10,000.00")
	tab.Check("console-operators")
	tab.Press("New operator")
	tab.Fill("Name", "Sagar Cable Vision")
	tab.Fill("Commission rate in percent", "a lot")
	tab.Press("Create the operator")
	tab.Sees("Write a percentage from 0 to 100")
	tab.Check("console-new-operator")
	tab.Fill("Commission rate in percent", "2.5")
	tab.Press("Create the operator")
	tab.Sees("Sagar Cable Vision is there.")
	made := strings.TrimPrefix(tab.URL(), w.at(""))

	tab.Fill("Requests a minute", "120")
	tab.Press("Set the limit")
	tab.Sees("Requests a minute: 120")
	tab.Set("Account", "inactive")
	tab.Press("Set the account")
	tab.Sees("State: inactive")
	tab.Check("console-operator")
	tab.Set("Account", "active")
	tab.Press("Set the account")
	tab.Until("the account is active again", `document.querySelector(".page-head .badge").innerText.includes("Active")`)

	tab.Press("Wallet")
	tab.Sees("Latest lines of the books")
	tab.Do(fill("#topup-amount", "60,000"))
	tab.Fill("Bank reference", "NEFT-0001")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Sees("It now waits for somebody else to approve it.")
	tab.Sees("This is your own proposal")
	tab.Do(fill("#topup-amount", "500.50"))
	tab.Fill("Bank reference", "NEFT-0002")
	tab.Click(`form[action$="/top-up"] button[type="submit"]`)
	tab.Sees("₹500.50 were credited. The wallet now holds ₹500.50.")
	tab.Set("Direction", "take")
	tab.Do(fill("#adjust-amount", "0.50"))
	tab.Fill("Reason", "Rounded down by agreement.")
	tab.Press("Adjust the wallet")
	tab.Sees("It now holds ₹500.00.")
	tab.Check("console-wallet")

	// Somebody else decides.
	second := looktest.New(t)
	tabSignIn(w, second, ravi)
	second.Sees("Top up the wallet")
	second.Open(w.at("/console/approvals"))
	second.Sees("NEFT-0001")
	second.Check("console-approvals")
	second.Press("Approve and carry out")
	second.Sees("Approved, and carried out with that.")
	second.Check("console-approvals-decided")
	tab.Open(w.at(made + "/wallet"))
	tab.Sees("₹60,500.00")

	tab.Press("Keys")
	tab.Sees("No keys yet")
	tab.Press("Issue the key")
	tab.Sees("This is shown once.")
	tab.Check("console-secret")
	tab.Press("I have kept it")
	tab.Press("Look at it")
	tab.Sees("Rotate the key")
	tab.Check("console-key")
	tab.Fill("Hours of grace", "48")
	tab.Press("Rotate the key")
	tab.Sees("The key that it replaces stays valid until")
	tab.Press("I have kept it")
	tab.Sees("In grace")
	tab.Check("console-keys")
	tab.Press("Look at it")
	tab.Press("Revoke the key")
	tab.Sees("it opens nothing any more")

	tab.Press("Whitelist")
	tab.Fill("Address or range", "10.0.0.0/2")
	tab.Press("Add")
	tab.Sees("This was not done")
	tab.Fill("Address or range", "203.0.113.7")
	tab.Press("Add")
	tab.Sees("Calls from 203.0.113.7 are let in from now on.")
	tab.Check("console-whitelist")
	tab.Press("Remove")
	tab.Sees("No address yet")

	tab.Press("Logins")
	tab.Fill("Name", "Meena Patil")
	tab.Fill("Username", "meena@sagar.example")
	tab.Press("Create the login")
	tab.Sees("This is shown once.")
	tab.Check("console-password")
	password := tab.Text(".copyable + .copyable .copyable-value")
	owner := w.browser(t)
	owner.signIn("meena@sagar.example", password).sends(t, "/account/password")
	tab.Press("I have passed it on")
	tab.Sees("Meena Patil")
	tab.Check("console-logins")
	tab.Press("Meena Patil")
	tab.Check("console-login")
	tab.Press("Switch it off")
	tab.Sees("is switched off and signed out everywhere.")
	owner.get("/account/password").sends(t, "/sign-in?to=%2Faccount%2Fpassword")

	tab.Press("Staff")
	tab.Sees("Name of ravi")
	tab.Check("console-staff")
	tab.Press("हिन्दी")
	tab.Sees("कर्मचारी")
	tab.Open(w.at(made))
	tab.Check("console-operator-hindi")
	tab.Open(w.at("/console/"))
	tab.Check("console-home-hindi")
}
