package pages

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
)

func TestSignIn_AndOut(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	b := w.Browser(t)
	b.Get("/").RedirectsTo(t, "/sign-in")
	b.Get("/sign-in").Shows(t, http.StatusOK, `action="/sign-in"`, `name="password"`)
	b.Get("/panel/").RedirectsTo(t, "/sign-in?to=%2Fpanel%2F")

	in := b.SignIn(w.Demo.Operator.Username, w.Demo.Operator.Password).RedirectsTo(t, "/")
	cookie := in.Header.Get("Set-Cookie")
	for _, flag := range []string{"__Host-coax=", "; Path=/", "; HttpOnly", "; Secure", "; SameSite=Lax"} {
		if !strings.Contains(cookie, flag) {
			t.Errorf("the session's cookie is %q; want %s in it", cookie, flag)
		}
	}
	if all := in.Header.Values("Set-Cookie"); strings.Contains(strings.Join(all, "\n"), "Domain") || len(all) != 2 {
		t.Errorf("cookies %q; want the session's and the browser's, for this host alone", all)
	}
	b.Get("/").RedirectsTo(t, "/panel/")
	b.Get("/sign-in").RedirectsTo(t, "/panel/")
	b.Get("/panel/").Shows(t, http.StatusOK, "Demo Operator", "Demo Cable", "₹10,000.00")

	// Signing out ends the session for a copied cookie too.
	stolen := in.Header.Get("Set-Cookie")[len("__Host-coax="):]
	stolen, _, _ = strings.Cut(stolen, ";")
	b.Post("/sign-out", nil).RedirectsTo(t, "/sign-in")
	b.Get("/sign-in").Shows(t, http.StatusOK, "You are signed out.")
	if strings.Contains(b.Get("/sign-in").Body, "You are signed out.") {
		t.Error("the notice is shown twice")
	}
	b.Get("/panel/").RedirectsTo(t, "/sign-in?to=%2Fpanel%2F")
	thief, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL("/panel/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	thief.Header.Set("Cookie", "__Host-coax="+stolen)
	w.Browser(t).Send(thief).RedirectsTo(t, "/sign-in?to=%2Fpanel%2F")
}

// Signing in returns to the requested page if it is one of the service's own.
func TestSignIn_ReturnsToRequestedPage(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	for to, want := range map[string]string{
		"/account/": "/account/", "/panel/?x=1": "/panel/?x=1", "": "/", "/nothing": "/", "panel/": "/",
		"https://evil.example/": "/", "//evil.example/panel/": "/", `/\evil.example`: "/", "/panel/\r\nX: y": "/", "javascript:alert(1)": "/",
	} {
		b := w.Browser(t)
		shown := b.Get("/sign-in?"+url.Values{"to": {to}}.Encode()).Shows(t, http.StatusOK)
		if strings.Contains(shown.Body, "evil") {
			t.Errorf("the page to sign in repeats %q", to)
		}
		b.Post("/sign-in", url.Values{"username": {w.Demo.Operator.Username}, "password": {w.Demo.Operator.Password}, "to": {to}}).RedirectsTo(t, want)
	}
}

func TestSignIn_WrongPasswordIsThrottled(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	b := w.Browser(t)
	wrong := b.SignIn(w.Demo.Operator.Username, "not the password").Shows(t, http.StatusUnprocessableEntity, "The username or the password is wrong.")
	unknown := b.SignIn("nobody-here", "not the password").Shows(t, http.StatusUnprocessableEntity, "The username or the password is wrong.")
	same := func(p e2e.Page, name string) string { return strings.ReplaceAll(p.Body, `value="`+name+`"`, "") }
	if same(wrong, w.Demo.Operator.Username) != same(unknown, "nobody-here") {
		t.Error("the page reveals whether the username exists")
	}
	if strings.Contains(wrong.Body, "not the password") {
		t.Error("the page repeats the password")
	}
	var got e2e.Page
	for range 30 {
		if got = b.SignIn(w.Demo.Operator.Username, "not the password"); got.Status == http.StatusTooManyRequests {
			break
		}
	}
	got.Shows(t, http.StatusTooManyRequests, "Too many attempts")
	if got.Header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	// The right password is refused now too; the API is not affected.
	b.SignIn(w.Demo.Operator.Username, w.Demo.Operator.Password).Shows(t, http.StatusTooManyRequests)
	w.Expect("the operator's API key meanwhile", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}, fault.OK)
	w.Advance(16 * time.Minute)
	b.SignIn(w.Demo.Operator.Username, w.Demo.Operator.Password).RedirectsTo(t, "/")
}

// A form posted from another site's page is refused.
func TestForm_CrossSiteIsRefused(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	b := w.SignIn(t, w.Demo.Operator)
	for name, header := range map[string]http.Header{
		"cross-site":                {"Sec-Fetch-Site": {"cross-site"}},
		"same site":                 {"Sec-Fetch-Site": {"same-site"}},
		"other origin, old browser": {"Origin": {"https://evil.example"}},
		"null origin":               {"Origin": {"null"}},
		"same host, other port":     {"Origin": {"https://127.0.0.1:1"}},
	} {
		request := b.Form("/sign-out", nil)
		for key, values := range header {
			request.Header[key] = values
		}
		b.Send(request).Shows(t, http.StatusForbidden, "another site")
		if got := b.Get("/panel/"); got.Status != http.StatusOK {
			t.Fatalf("%s: the visitor was signed out", name)
		}
	}
}

func TestCredentials_PagesAndAPISeparate(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	b := w.Browser(t)
	b.SignIn(w.Demo.APIKey, w.Demo.APISecret).Shows(t, http.StatusUnprocessableEntity)
	signed := w.Request(e2e.Call{As: w.DemoCaller(), Path: "/panel/"})
	b.Send(signed).RedirectsTo(t, "/sign-in?to=%2Fpanel%2F")

	in := w.SignIn(t, w.Demo.Operator)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL(e2e.Balance), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := in.HTTP.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Receive(request, e2e.Balance, response)
	if err != nil || got.Code != fault.MissingAuthHeaders {
		t.Errorf("the API answers a signed-in browser with %s (%v); want %s", got.Code, err, fault.MissingAuthHeaders)
	}
}

func TestSession_IdleAndAbsoluteTimeout(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.idle=10m", "panel.absolute=1h")
	idle := w.SignIn(t, w.Demo.Operator)
	w.Advance(11 * time.Minute)
	idle.Get("/panel/").RedirectsTo(t, "/sign-in?to=%2Fpanel%2F")

	busy := w.SignIn(t, w.Demo.Operator)
	for range 7 {
		busy.Get("/panel/").Shows(t, http.StatusOK)
		w.Advance(8 * time.Minute)
	}
	w.Advance(8 * time.Minute)
	busy.Get("/panel/").RedirectsTo(t, "/sign-in?to=%2Fpanel%2F")
}

func TestOperator_SeesOwnDataOnly(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	other := w.NewOperator("Other Cable", access.AllPermissions)
	b := w.SignIn(t, w.NewLogin(t, "other-owner", login.Owner, other.OperatorID))
	got := b.Get("/panel/").Shows(t, http.StatusOK, "Other Cable", "₹0.00")
	if strings.Contains(got.Body, "Demo Cable") || strings.Contains(got.Body, "10,000") {
		t.Errorf("another operator's page shows the demo's:\n%s", got.Body)
	}
	b.Get("/console/").Shows(t, http.StatusForbidden)
	w.SignIn(t, w.Demo.Admin).Get("/console/").Shows(t, http.StatusOK, "Demo Administrator", ">2<")
}

func TestSecondFactor_SetUpAndRequired(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=true")
	b := w.Browser(t)
	b.SignIn(w.Demo.Admin.Username, w.Demo.Admin.Password).RedirectsTo(t, "/account/second-factor")
	b.Get("/console/").RedirectsTo(t, "/account/second-factor")

	// After a wrong code the same QR code stays valid.
	b.Get("/account/second-factor").Shows(t, http.StatusOK, "Your login requires a second factor.")
	b.Post("/account/second-factor/offer", nil).Shows(t, http.StatusUnprocessableEntity, "The password is wrong.")
	offer := b.Post("/account/second-factor/offer", url.Values{"password": {w.Demo.Admin.Password}}).Shows(t, http.StatusOK)
	ticket := offer.HiddenFields().Get("ticket")
	key := e2e.TOTPKeyPattern.FindStringSubmatch(offer.Body)[1]
	offered := regexp.MustCompile(`name="offered" value="([^"]+)"`).FindStringSubmatch(offer.Body)[1]
	b.Post("/account/second-factor", url.Values{"code": {e2e.TOTPCode(t, key, w.Now())}}).Shows(t, http.StatusUnprocessableEntity, "Start again")
	again := b.Post("/account/second-factor", url.Values{"code": {"000000"}, "ticket": {ticket}, "offered": {strings.ReplaceAll(offered, "&amp;", "&")}})
	again.Shows(t, http.StatusUnprocessableEntity, "The code is wrong", key)
	codes := b.Post("/account/second-factor", url.Values{"ticket": {again.HiddenFields().Get("ticket")}, "code": {e2e.TOTPCode(t, key, w.Now())}}).Shows(t, http.StatusOK, `download="coax-recovery-codes.txt"`)
	recovery := regexp.MustCompile(`<code>([^<]+)</code>`).FindAllStringSubmatch(codes.Body, -1)
	if len(recovery) != 10 {
		t.Fatalf("%d recovery codes are shown; want 10\n%s", len(recovery), codes.Body)
	}
	b.Get("/console/").Shows(t, http.StatusOK)

	w.Advance(time.Minute)
	next := w.Browser(t)
	next.SignIn(w.Demo.Admin.Username, w.Demo.Admin.Password).RedirectsTo(t, "/sign-in/code")
	next.Get("/console/").RedirectsTo(t, "/sign-in/code")
	next.Post("/sign-in/code", url.Values{"code": {"000000"}}).Shows(t, http.StatusUnprocessableEntity, "The code is wrong")
	next.Post("/sign-in/code", url.Values{"code": {e2e.TOTPCode(t, key, w.Now())}}).RedirectsTo(t, "/")
	next.Get("/console/").Shows(t, http.StatusOK)

	// Without the phone: a recovery code, once.
	for i, want := range []string{"/", ""} {
		lost := w.Browser(t)
		lost.SignIn(w.Demo.Admin.Username, w.Demo.Admin.Password).RedirectsTo(t, "/sign-in/code")
		got := lost.Post("/sign-in/code", url.Values{"code": {recovery[0][1]}})
		if got.Location != want {
			t.Errorf("a recovery code, use %d: %d to %q; want %q", i+1, got.Status, got.Location, want)
		}
	}
	// It is required for this role and cannot be removed.
	next.Post("/account/second-factor/remove", url.Values{"password": {w.Demo.Admin.Password}, "code": {recovery[1][1]}}).
		Shows(t, http.StatusUnprocessableEntity, "A second factor is required for your login.")
}
