package main

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
)

func TestSigningInAndOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	b.get("/").sends(t, "/sign-in")
	b.get("/sign-in").shows(t, http.StatusOK, `action="/sign-in"`, `name="password"`)
	b.get("/panel/").sends(t, "/sign-in?to=%2Fpanel%2F")

	in := b.signIn(w.line.Operator.Username, w.line.Operator.Password).sends(t, "/")
	cookie := in.header.Get("Set-Cookie")
	for _, flag := range []string{"__Host-coax=", "; Path=/", "; HttpOnly", "; Secure", "; SameSite=Lax"} {
		if !strings.Contains(cookie, flag) {
			t.Errorf("the session's cookie is %q; want %s in it", cookie, flag)
		}
	}
	if strings.Contains(cookie, "Domain") || len(in.header.Values("Set-Cookie")) != 1 {
		t.Errorf("cookies %q; want one, for this host alone", in.header.Values("Set-Cookie"))
	}
	b.get("/").sends(t, "/panel/")
	b.get("/sign-in").sends(t, "/panel/")
	b.get("/panel/").shows(t, http.StatusOK, "Demo Operator", "Demo Cable", "₹10,000.00")

	// What was a session is none any more, for whoever has copied its cookie too.
	stolen := in.header.Get("Set-Cookie")[len("__Host-coax="):]
	stolen, _, _ = strings.Cut(stolen, ";")
	b.post("/sign-out", nil).sends(t, "/sign-in")
	b.get("/sign-in").shows(t, http.StatusOK, "You are signed out.")
	if strings.Contains(b.get("/sign-in").body, "You are signed out.") {
		t.Error("the notice is shown twice")
	}
	b.get("/panel/").sends(t, "/sign-in?to=%2Fpanel%2F")
	thief, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.at("/panel/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	thief.Header.Set("Cookie", "__Host-coax="+stolen)
	w.browser(t).send(thief).sends(t, "/sign-in?to=%2Fpanel%2F")
}

// Somebody who was going somewhere gets there, if it is a page of ours.
func TestSigningInLeadsWhereOneWasGoing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for to, want := range map[string]string{
		"/account/": "/account/", "/panel/?x=1": "/panel/?x=1", "": "/", "/nothing": "/", "panel/": "/",
		"https://evil.example/": "/", "//evil.example/panel/": "/", `/\evil.example`: "/", "/panel/\r\nX: y": "/", "javascript:alert(1)": "/",
	} {
		b := w.browser(t)
		shown := b.get("/sign-in?"+url.Values{"to": {to}}.Encode()).shows(t, http.StatusOK)
		if strings.Contains(shown.body, "evil") {
			t.Errorf("the page to sign in repeats %q", to)
		}
		b.post("/sign-in", url.Values{"username": {w.line.Operator.Username}, "password": {w.line.Operator.Password}, "to": {to}}).sends(t, want)
	}
}

func TestAWrongPasswordTellsNothingAndIsThrottled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	wrong := b.signIn(w.line.Operator.Username, "not the password").shows(t, http.StatusUnprocessableEntity, "The username or the password is wrong.")
	unknown := b.signIn("nobody-here", "not the password").shows(t, http.StatusUnprocessableEntity, "The username or the password is wrong.")
	same := func(p page, name string) string { return strings.ReplaceAll(p.body, `value="`+name+`"`, "") }
	if same(wrong, w.line.Operator.Username) != same(unknown, "nobody-here") {
		t.Error("the page tells whether there is such a username")
	}
	if strings.Contains(wrong.body, "not the password") {
		t.Error("the page repeats the password")
	}
	var got page
	for range 30 {
		if got = b.signIn(w.line.Operator.Username, "not the password"); got.status == http.StatusTooManyRequests {
			break
		}
	}
	got.shows(t, http.StatusTooManyRequests, "too many attempts")
	if got.header.Get("Retry-After") == "" {
		t.Error("it does not say how long to wait")
	}
	// The right one does not help now; the API is another matter.
	b.signIn(w.line.Operator.Username, w.line.Operator.Password).shows(t, http.StatusTooManyRequests)
	w.expect("the operator's API key meanwhile", call{as: w.demoCaller(), path: balance}, fault.OK)
	w.pass(16 * time.Minute)
	b.signIn(w.line.Operator.Username, w.line.Operator.Password).sends(t, "/")
}

// Another site's page may make our visitor's browser post here; it is not done.
func TestAFormFromAnotherSiteIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(t, w.line.Operator)
	for name, header := range map[string]http.Header{
		"cross-site":                {"Sec-Fetch-Site": {"cross-site"}},
		"a sibling":                 {"Sec-Fetch-Site": {"same-site"}},
		"an old browser elsewhere":  {"Origin": {"https://evil.example"}},
		"from a page without name":  {"Origin": {"null"}},
		"from our host, other port": {"Origin": {"https://127.0.0.1:1"}},
	} {
		request := b.form("/sign-out", nil)
		for key, values := range header {
			request.Header[key] = values
		}
		b.send(request).shows(t, http.StatusForbidden, "another site")
		if got := b.get("/panel/"); got.status != http.StatusOK {
			t.Fatalf("%s: the visitor was signed out all the same", name)
		}
	}
}

func TestPagesAndAPIShareNoCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	b.signIn(w.line.APIKey, w.line.APISecret).shows(t, http.StatusUnprocessableEntity)
	signed := w.request(call{as: w.demoCaller(), path: "/panel/"})
	b.send(signed).sends(t, "/sign-in?to=%2Fpanel%2F")

	in := w.as(t, w.line.Operator)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.at(balance), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := in.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.receive(request, balance, response)
	if err != nil || got.code != fault.MissingAuthHeaders {
		t.Errorf("the API answers a signed-in browser with %s (%v); want %s", got.code, err, fault.MissingAuthHeaders)
	}
}

func TestASessionEndsWhenItIsNotUsedAndAfterItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "panel.idle=10m", "panel.absolute=1h")
	idle := w.as(t, w.line.Operator)
	w.pass(11 * time.Minute)
	idle.get("/panel/").sends(t, "/sign-in?to=%2Fpanel%2F")

	busy := w.as(t, w.line.Operator)
	for range 7 {
		busy.get("/panel/").shows(t, http.StatusOK)
		w.pass(8 * time.Minute)
	}
	w.pass(8 * time.Minute)
	busy.get("/panel/").sends(t, "/sign-in?to=%2Fpanel%2F")
}

func TestAnOperatorSeesNobodyElsesWorld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.newOperator("Other Cable", access.AllPermissions)
	b := w.as(t, w.person(t, "other-owner", login.Owner, other.operatorID))
	got := b.get("/panel/").shows(t, http.StatusOK, "Other Cable", "₹0.00")
	if strings.Contains(got.body, "Demo Cable") || strings.Contains(got.body, "10,000") {
		t.Errorf("another operator's page shows the demo's:\n%s", got.body)
	}
	b.get("/console/").shows(t, http.StatusForbidden)
	w.as(t, w.line.Admin).get("/console/").shows(t, http.StatusOK, "Demo Administrator", ">2<")
}

func TestASecondFactorIsSetUpAndAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "panel.staff_totp=true")
	b := w.browser(t)
	b.signIn(w.line.Admin.Username, w.line.Admin.Password).sends(t, "/account/second-factor")
	b.get("/console/").sends(t, "/account/second-factor")

	// A mistyped code does not make the visitor scan another picture.
	offer := b.get("/account/second-factor").shows(t, http.StatusOK)
	key := offeredKey.FindStringSubmatch(offer.body)[1]
	offered := regexp.MustCompile(`name="offered" value="([^"]+)"`).FindStringSubmatch(offer.body)[1]
	again := b.post("/account/second-factor", url.Values{"code": {"000000"}, "offered": {strings.ReplaceAll(offered, "&amp;", "&")}})
	again.shows(t, http.StatusUnprocessableEntity, "The code is wrong", key)
	codes := b.post("/account/second-factor", url.Values{"code": {codeAt(t, key, w.now())}}).shows(t, http.StatusOK, `download="coax-recovery-codes.txt"`)
	recovery := regexp.MustCompile(`<code>([^<]+)</code>`).FindAllStringSubmatch(codes.body, -1)
	if len(recovery) != 10 {
		t.Fatalf("%d recovery codes are shown; want 10\n%s", len(recovery), codes.body)
	}
	b.get("/console/").shows(t, http.StatusOK)

	w.pass(time.Minute)
	next := w.browser(t)
	next.signIn(w.line.Admin.Username, w.line.Admin.Password).sends(t, "/sign-in/code")
	next.get("/console/").sends(t, "/sign-in/code")
	next.post("/sign-in/code", url.Values{"code": {"000000"}}).shows(t, http.StatusUnprocessableEntity, "The code is wrong")
	next.post("/sign-in/code", url.Values{"code": {codeAt(t, key, w.now())}}).sends(t, "/")
	next.get("/console/").shows(t, http.StatusOK)

	// Without the telephone: a recovery code, once.
	for i, want := range []string{"/", ""} {
		lost := w.browser(t)
		lost.signIn(w.line.Admin.Username, w.line.Admin.Password).sends(t, "/sign-in/code")
		got := lost.post("/sign-in/code", url.Values{"code": {recovery[0][1]}})
		if got.location != want {
			t.Errorf("a recovery code, use %d: %d to %q; want %q", i+1, got.status, got.location, want)
		}
	}
	// It is required of this role, and cannot be taken away.
	next.post("/account/second-factor/remove", nil).sends(t, "/account/")
	next.get("/account/").shows(t, http.StatusOK, "Your role needs a second factor.")
}
