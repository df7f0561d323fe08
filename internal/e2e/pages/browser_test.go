package pages

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// tabSignIn signs in through the page.
func tabSignIn(w *e2e.Env, tab *looktest.Tab, who demo.Login) {
	tab.Open(w.URL("/"))
	tab.Fill("Username", who.Username)
	tab.Fill("Password", who.Password)
	tab.Press("Sign in")
}

// An administrator's first sign-in: password, second factor, recovery codes.
func TestBrowser_SignIn(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=true")
	_, made, err := w.Admin.CreateLogin(context.Background(), admin.NewLogin{Username: "asha", Name: "Asha Rao", Role: login.Administrator})
	if err != nil {
		t.Fatal(err)
	}
	tab := looktest.New(t)
	tab.Open(w.URL("/"))
	tab.Sees("Sign in")
	tab.Check("sign-in")
	tabSignIn(w, tab, demo.Login{Username: "asha", Password: "not the password"})
	tab.Sees("The username or the password is wrong.")
	tab.Check("sign-in-wrong")

	tabSignIn(w, tab, demo.Login{Username: "asha", Password: made})
	tab.Sees("Choose your password")
	tab.Press("हिन्दी")
	tab.Sees("अपना पासवर्ड चुनें")
	tab.Sees("साइन आउट करें")
	tab.Check("first-password-hindi")
	tab.Press("English")
	tab.Sees("Choose your password")
	tab.Check("sign-in-password")
	tab.Fill("Current password", made)
	tab.Fill("New password", "monsoon ferry lamp")
	tab.Fill("Confirm new password", "monsoon ferry lamp")
	tab.Press("Change password")

	tab.Sees("Your login requires a second factor.")
	tab.Check("sign-in-second-factor-password")
	tab.Fill("Password", "monsoon ferry lamp")
	tab.Press("Continue")
	tab.Sees("Enter the six digits that the app shows.")
	tab.Check("sign-in-second-factor")
	var shown string
	tab.Do(chromedp.Value(`input[name="offered"]`, &shown, chromedp.ByQuery))
	offered, err := url.Parse(shown)
	if err != nil {
		t.Fatal(err)
	}
	key := offered.Query().Get("secret")
	tab.Fill("Code", e2e.TOTPCode(t, key, w.Now()))
	tab.Press("Set up now")
	tab.Sees("Save your recovery codes")
	tab.Check("sign-in-recovery-codes")
	tab.Press("I have saved them")
	tab.Sees("Welcome, Asha Rao")
	tab.Check("console-home-first")

	tab.Open(w.URL("/account/"))
	tab.Sees("Signed-in devices")
	tab.Check("account")
	w.Advance(time.Minute)
	tab.Press("Set up again")
	tab.Sees("This signs out your other devices.")
	tab.Check("account-second-factor-password")
	tab.Fill("Password", "monsoon ferry lamp")
	tab.Fill("Code", e2e.TOTPCode(t, key, w.Now()))
	tab.Press("Continue")
	tab.Sees("Enter the six digits that the app shows.")
	tab.Check("account-second-factor")

	w.Advance(time.Minute)
	next := looktest.WithoutScript(t)
	tabSignIn(w, next, demo.Login{Username: "asha", Password: "monsoon ferry lamp"})
	next.Sees("Enter your code")
	next.Fill("Code", e2e.TOTPCode(t, key, w.Now()))
	next.Press("Continue")
	next.Sees("Welcome, Asha Rao")
	next.Open(w.URL("/console/nothing"))
	next.Sees("There is no such page.")
}

// The sign-in and account pages in Hindi.
func TestBrowser_Hindi(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	tab := looktest.New(t)
	tab.Open(w.URL("/sign-in"))
	tab.Press("हिन्दी")
	tab.Sees("साइन इन करें")
	tab.Check("sign-in-hindi")
	tab.Fill("यूज़रनेम", w.Demo.Operator.Username)
	tab.Fill("पासवर्ड", w.Demo.Operator.Password)
	tab.Press("साइन इन करें")
	tab.Sees("₹10,000.00")
	tab.Open(w.URL("/account/"))
	tab.Sees("आपका खाता")
	tab.Check("account-hindi")
	tab.Open(w.URL("/panel/nothing"))
	tab.Sees("ऐसा कोई पेज नहीं है।")
	tab.Check("not-found-hindi")
}
