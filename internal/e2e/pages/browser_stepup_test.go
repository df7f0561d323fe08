package pages

import (
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// A form with a field and a form with only a button, before, during and after a step-up.
func TestBrowser_StepUp(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	clerk, _, err := w.Admin.CreateLogin(t.Context(), admin.NewLogin{Username: "clerk", Name: "Meena Patil", Role: login.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Admin)
	tab.Sees("Open tasks")

	tab.Open(w.URL(w.OperatorPage("/whitelist")))
	tab.Fill("Address or range", "203.0.113.7")
	w.Advance(6 * time.Minute)
	tab.Press("Add")
	tab.Sees("Confirm it is you")
	tab.Check("console-whitelist-step-up")
	tab.Fill("Password", w.Demo.Admin.Password)
	tab.Press("Continue")
	tab.Sees("Nothing has been done yet: check your form")
	tab.Until("the address is in its field", `document.querySelector('[name="address"]:not([type="hidden"])').value == "203.0.113.7"`)
	tab.Check("console-whitelist-after-step-up")
	tab.Press("Add")
	tab.Sees("Calls from 203.0.113.7 are now accepted.")

	w.Advance(6 * time.Minute)
	tab.Open(w.URL(fmt.Sprintf("/console/staff/%d", clerk.ID)))
	tab.Press("Disable")
	tab.Sees("is disabled and signed out everywhere.")
	tab.Press("Enable")
	tab.Sees("Confirm it is you")
	tab.Fill("Password", w.Demo.Admin.Password)
	tab.Press("Continue")
	tab.Sees("Nothing has been done yet: check your form")
	tab.Check("console-login-after-step-up")
	tab.Press("Enable")
	tab.Sees("clerk can sign in again.")

	w.Advance(6 * time.Minute)
	tab.Open(w.URL(w.OperatorPage("")))
	tab.Set("Account", "inactive")
	tab.Press("Save")
	tab.Sees("State: Suspended")
	tab.Set("Account", "active")
	tab.Press("Save")
	tab.Sees("Confirm it is you")
	tab.Fill("Password", w.Demo.Admin.Password)
	tab.Press("Continue")
	tab.Sees("Nothing has been done yet: check your form")
	tab.Until("the choice is the one that was made", `document.querySelector('[name="status"]').value == "active"`)
	tab.Check("console-operator-after-step-up")
	tab.Press("हिन्दी")
	tab.Sees("ऑपरेटर")
}
