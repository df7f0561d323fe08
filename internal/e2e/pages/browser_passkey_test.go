package pages

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// authenticator adds a virtual passkey device to a tab.
func authenticator(tab *looktest.Tab) {
	tab.Do(webauthn.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := webauthn.AddVirtualAuthenticator(&webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}).Do(ctx)
		return err
	}))
}

// A passkey is added, used to sign in and to step up, and removed: by staff, who need a
// second factor, and by an operator's owner.
func TestBrowser_Passkeys(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=true")
	at := func(path string) string { return strings.Replace(w.URL(path), "127.0.0.1", "localhost", 1) }
	signIn := func(tab *looktest.Tab, who demo.Login) {
		tab.Open(at("/sign-in"))
		tab.Fill("Username", who.Username)
		tab.Fill("Password", who.Password)
		tab.Press("Sign in")
	}
	const usePasskey = "Use a passkey instead of a code"

	for _, test := range []struct {
		who              demo.Login
		area, home, open string
		required         bool
	}{
		{w.Demo.Admin, "console", "Open tasks", "/console/operators/1/whitelist", true},
		{w.Demo.Operator, "panel", "₹10,000.00", "/panel/people", false},
	} {
		tab := looktest.New(t)
		authenticator(tab)
		signIn(tab, test.who)
		if test.required {
			tab.Sees("Your login requires a second factor.")
			tab.Press("Use a passkey instead")
		} else {
			tab.Sees(test.home)
			tab.Open(at("/account/"))
			tab.Press("Add a passkey")
		}
		tab.Sees("Name of the passkey")
		tab.Check(test.area + "-passkey-new")
		tab.Fill("Name of the passkey", "My laptop")
		tab.Fill("Password", test.who.Password)
		tab.Press("Continue")
		tab.Sees("Create the passkey")
		tab.Check(test.area + "-passkey-create")
		tab.Press("Create the passkey")
		tab.Sees("Save your recovery codes")
		tab.Open(at("/account/"))
		tab.Sees("My laptop")
		tab.Check(test.area + "-passkey-account")

		tab.Click(`.main form[action="/sign-out"] button`)
		tab.Sees("You are signed out.")
		signIn(tab, test.who)
		tab.Sees(usePasskey)
		tab.Check(test.area + "-passkey-code")
		tab.Press(usePasskey)
		tab.Sees("Your sign-in settings were changed since you last signed in.")
		tab.Sees("The passkey My laptop was added on")
		tab.Check(test.area + "-passkey-told")
		tab.Press("Dismiss")
		tab.Until("the notice is gone", `!document.body.innerText.includes("since you last signed in")`)

		w.Advance(6 * time.Minute)
		tab.Open(at("/step-up?to=%2Faccount%2F"))
		tab.Sees("Confirm it is you")
		tab.Fill("Password", test.who.Password)
		tab.Check(test.area + "-passkey-step-up")
		tab.Press(usePasskey)
		tab.Sees("Your account")
		if test.required {
			tab.Until("the last second factor cannot be removed", `!document.body.innerText.includes("Remove")`)
			tab.Press("हिन्दी")
			tab.Sees("पासकी")
			tab.Check("console-passkey-account-hindi")
			tab.Open(at("/account/passkeys/new"))
			tab.Check("console-passkey-new-hindi")
			continue
		}
		tab.Press("Remove")
		tab.Sees("Remove a passkey")
		tab.Check(test.area + "-passkey-remove")
		tab.Fill("Password", test.who.Password)
		tab.Press(usePasskey)
		tab.Sees("Passkey removed. Your other devices were signed out.")
		tab.Sees("Not set up.")
	}
}
