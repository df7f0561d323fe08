package pages

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/passkey/passkeytest"
)

// copied returns a browser with a copy of another's cookies.
func copied(t *testing.T, b *e2e.Browser) *e2e.Browser {
	t.Helper()
	thief := b.Env.Browser(t)
	at, err := url.Parse(b.Env.URL("/"))
	if err != nil {
		t.Fatal(err)
	}
	thief.HTTP.Jar.SetCookies(at, b.HTTP.Jar.Cookies(at))
	return thief
}

// attack tries to change the second factors with a copied cookie: with nothing, with the
// password alone, and with a wrong code. Failed tries are purged in between, so that none is
// refused by the throttle.
func attack(t *testing.T, b *e2e.Browser, password string, more ...string) {
	t.Helper()
	thief := copied(t, b)
	thief.Get("/account/").Shows(t, http.StatusOK)
	for _, path := range append(more, "/account/second-factor/offer", "/account/second-factor/remove", "/account/recovery-codes", "/account/passkeys/new") {
		for _, form := range []url.Values{{}, {"password": {password}}} {
			form.Set("name", "Stolen")
			got := thief.Post(path, form)
			if got.Status != http.StatusUnprocessableEntity {
				t.Errorf("%s with %v: %d to %q; want it refused\n%s", path, form, got.Status, got.Location, got.Body)
			}
			if strings.Contains(got.Body, "secret=") || strings.Contains(got.Body, "data-passkey-create") {
				t.Errorf("%s with %v offers a second factor", path, form)
			}
		}
		if _, err := b.Env.Node.Store.PurgeTries(t.Context(), b.Env.Now().Add(time.Hour), 1000); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/account/second-factor", "/account/passkeys"} {
		thief.Post(path, url.Values{"code": {"123456"}, "ticket": {""}, "credential": {"{}"}}).Shows(t, http.StatusUnprocessableEntity, "Start again")
	}
	if page := thief.Get("/account/second-factor"); strings.Contains(page.Body, "secret=") {
		t.Error("the page offers a second factor without a proof")
	}
}

var (
	passkeyOptions = regexp.MustCompile(`data-passkey-(?:create|use)="([^"]+)"`)
	passkeyRemove  = regexp.MustCompile(`/account/passkeys/\d+/remove`)
)

// options returns the WebAuthn options of a page.
func options(t *testing.T, page e2e.Page) string {
	t.Helper()
	found := passkeyOptions.FindStringSubmatch(page.Body)
	if found == nil {
		t.Fatalf("the page has no passkey options:\n%s", page.Body)
	}
	return html.UnescapeString(found[1])
}

// A cookie copied right after a sign-in or a step-up cannot change a second factor. The
// owner can, and that ends the copy and every other session.
func TestSecondFactor_CopiedCookieCannotChangeIt(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false", "panel.origin=https://panel.example.com")
	for _, who := range []demo.Login{w.Demo.Operator, w.Demo.Admin} {
		b := w.SignIn(t, who)
		attack(t, b, "not the password")
		thief := copied(t, b)
		for range 9 {
			thief.Post("/account/second-factor/offer", url.Values{"password": {"not the password"}}).Shows(t, http.StatusUnprocessableEntity)
		}
		thief.Post("/account/recovery-codes", url.Values{"password": {"not the password"}}).RedirectsTo(t, "/sign-in") // the tenth
		b.Get("/account/").RedirectsTo(t, "/sign-in?to=%2Faccount%2F")
		b = w.SignIn(t, who)
		key, _ := b.EnrolTOTP()
		w.Advance(time.Minute)
		code := func() string { return e2e.TOTPCode(t, key, w.Now()) }

		// The first passkey, by the code.
		device := passkeytest.New(t, "https://panel.example.com")
		offer := b.Post("/account/passkeys/new", url.Values{"name": {"Phone <1>"}, "password": {who.Password}, "code": {code()}}).Shows(t, http.StatusOK, "Phone &lt;1&gt;")
		form := offer.HiddenFields()
		form.Set("credential", string(device.Create(options(t, offer))))
		b.Post("/account/passkeys", form).RedirectsTo(t, "/account/")
		shown := b.Get("/account/").Shows(t, http.StatusOK, "Passkey added.", "Phone &lt;1&gt;", "panel.example.com", "never used")
		remove := passkeyRemove.FindString(shown.Body)

		// A sign-in, and the copy of its cookie while it is fresh.
		w.Advance(time.Minute)
		other := w.Browser(t)
		other.SignIn(who.Username, who.Password).RedirectsTo(t, "/sign-in/code")
		page := other.Get("/sign-in/code").Shows(t, http.StatusOK, "Use a passkey instead of a code")
		other.Post("/sign-in/code", url.Values{"passkey": {string(device.Use(options(t, page)))}}).RedirectsTo(t, "/")
		other.Get("/account/").Shows(t, http.StatusOK, "Your sign-in settings were changed since you last signed in.", "An authenticator app was set up on", "The passkey Phone &lt;1&gt; was added on")
		thief = copied(t, other)
		attack(t, other, who.Password, remove)
		person, err := w.Admin.LoginNamed(context.Background(), who.Username)
		if err != nil || !person.TOTP || person.Passkeys != 1 {
			t.Fatalf("after the attack the login is %+v, %v", person, err)
		}

		// The owner has the password and the passkey.
		page = other.Get("/account/recovery-codes").Shows(t, http.StatusOK)
		other.Post("/account/recovery-codes", url.Values{"password": {who.Password}, "passkey": {string(device.Use(options(t, page)))}}).
			Shows(t, http.StatusOK, "Save your recovery codes")
		for what, gone := range map[string]*e2e.Browser{"the copy": thief, "the session from before": b} {
			if got := gone.Get("/account/"); got.Status != http.StatusSeeOther || !strings.HasPrefix(got.Location, "/sign-in") {
				t.Errorf("%s: %d to %q; want it signed out", what, got.Status, got.Location)
			}
		}
		other.Post("/account/changes/seen", url.Values{"back": {"/account/"}}).RedirectsTo(t, "/account/")
		if strings.Contains(other.Get("/account/").Body, "since you last signed in") {
			t.Error("an acknowledged change is shown again")
		}

		// A step-up by the passkey, and the removal of both.
		w.Advance(6 * time.Minute)
		page = other.Get("/step-up?to=%2Faccount%2F").Shows(t, http.StatusOK)
		other.Post("/step-up", url.Values{"password": {who.Password}, "passkey": {string(device.Use(options(t, page)))}, "to": {"/account/"}}).RedirectsTo(t, "/account/")
		page = other.Get(remove).Shows(t, http.StatusOK, "Phone &lt;1&gt;")
		other.Post(remove, url.Values{"password": {who.Password}, "passkey": {string(device.Use(options(t, page)))}}).RedirectsTo(t, "/account/")
		other.Post("/account/second-factor/remove", url.Values{"password": {who.Password}, "code": {code()}}).RedirectsTo(t, "/account/")
		if person, err := w.Admin.LoginNamed(context.Background(), who.Username); err != nil || person.SecondFactor() {
			t.Errorf("removed, the login is %+v, %v", person, err)
		}
		// The session that made the changes cannot hide them.
		other.Post("/account/changes/seen", url.Values{"back": {"/account/"}}).RedirectsTo(t, "/account/")
		next := w.SignIn(t, who)
		next.Get("/account/").Shows(t, http.StatusOK, "New recovery codes were created on", "The authenticator app was removed on", "The passkey Phone &lt;1&gt; was removed on")
	}
	w.CheckAudit()
}

// Resetting a second factor in the console removes the passkeys, and the login is notified.
func TestSecondFactor_ResetRemovesPasskeys(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false", "panel.origin=https://panel.example.com")
	who := w.NewLogin(t, "meena", login.Viewer, 0)
	b := w.SignIn(t, who)
	device := passkeytest.New(t, "https://panel.example.com")
	offer := b.Post("/account/passkeys/new", url.Values{"name": {"Key"}, "password": {who.Password}}).Shows(t, http.StatusOK)
	form := offer.HiddenFields()
	form.Set("credential", string(device.Create(options(t, offer))))
	b.Post("/account/passkeys", form).Shows(t, http.StatusOK, "Save your recovery codes")
	person, err := w.Admin.LoginNamed(t.Context(), "meena")
	if err != nil {
		t.Fatal(err)
	}
	at := "/console/staff/" + strconv.FormatInt(person.ID, 10)
	staff := w.SignIn(t, w.Demo.Admin)
	staff.Get(at).Shows(t, http.StatusOK, "Remove second factor")
	staff.Post(at+"/reset-second-factor", nil).RedirectsTo(t, at)
	b.Get("/account/").RedirectsTo(t, "/sign-in?to=%2Faccount%2F")
	w.SignIn(t, who).Get("/console/").Shows(t, http.StatusOK, "Your second factor was removed on", "by Demo Administrator.")
	w.CheckAudit()
}

// On an IP address, the page explains why no passkey can be added.
func TestPasskeys_NeedAName(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	b := w.SignIn(t, w.Demo.Operator)
	b.Get("/account/passkeys/new").Shows(t, http.StatusOK, "Passkeys need a host name", "https://localhost:")
	b.Post("/account/passkeys/new", url.Values{"name": {"Key"}, "password": {w.Demo.Operator.Password}}).Shows(t, http.StatusUnprocessableEntity, "Passkeys need a host name")
}
