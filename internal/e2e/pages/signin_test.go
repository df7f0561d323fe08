package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

// from posts a form as if from another address, through a trusted proxy.
func from(b *e2e.Browser, address, path string, form url.Values) e2e.Page {
	request := b.Form(path, form)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("X-Forwarded-For", address)
	request.Header.Set("X-Forwarded-Proto", "https")
	return b.Send(request)
}

func signInFrom(b *e2e.Browser, address string, who demo.Login) e2e.Page {
	return from(b, address, "/sign-in", url.Values{"username": {who.Username}, "password": {who.Password}})
}

// An attacker tries passwords for a known name from many networks, among them the login's own.
func TestSignIn_WrongTriesDoNotLockOut(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "server.trusted_proxies=127.0.0.1/32")
	const home, neighbour = "203.0.113.7", "203.0.113.200"
	for _, who := range []demo.Login{w.NewLogin(t, "asha", login.Support, 0), w.NewLogin(t, "owner", login.Owner, w.Demo.LCOID)} {
		wrong := demo.Login{Username: who.Username, Password: "not the password"}
		known := w.Browser(t)
		cookies := strings.Join(signInFrom(known, home, who).RedirectsTo(t, "/").Header["Set-Cookie"], "\n")
		for _, want := range []string{"__Host-coax-browser=", "Path=/; Max-Age=31536000; HttpOnly; Secure; SameSite=Lax"} {
			if !strings.Contains(cookies, want) {
				t.Errorf("%s: the cookies have no %q:\n%s", who.Username, want, cookies)
			}
		}

		for _, attacker := range []string{"198.51.100.1", "2001:db8:1:2::1", neighbour} {
			for range 10 {
				signInFrom(w.Browser(t), attacker, wrong).Shows(t, http.StatusUnprocessableEntity, "The username or the password is wrong.")
			}
			refused := signInFrom(w.Browser(t), attacker, who).Shows(t, http.StatusTooManyRequests, "Too many attempts.")
			if refused.Header.Get("Retry-After") != "900" {
				t.Errorf("Retry-After is %q; want 900", refused.Header.Get("Retry-After"))
			}
		}
		for address, want := range map[string]int{
			"198.51.100.99": http.StatusTooManyRequests, "::ffff:198.51.100.2": http.StatusTooManyRequests, "2001:db8:1:2:ffff::9": http.StatusTooManyRequests,
			"198.51.101.1": http.StatusUnprocessableEntity, "2001:db8:1:3::1": http.StatusUnprocessableEntity,
		} {
			signInFrom(w.Browser(t), address, wrong).Shows(t, want)
		}
		if delays := w.SignInDelays(); len(delays) != 22 || slices.Max(delays) != 4*time.Second {
			t.Errorf("the answers were delayed by %v; want 22 delays of at most 4 s: all counted tries but the first ten", delays)
		}

		// The session steps up, and the known browser signs in again, without delay.
		from(known, home, "/step-up", url.Values{"password": {who.Password}, "to": {"/account/"}}).RedirectsTo(t, "/account/")
		from(known, home, "/sign-out", nil)
		signInFrom(known, home, wrong).Shows(t, http.StatusUnprocessableEntity)
		signInFrom(known, home, who).RedirectsTo(t, "/")
		if delays := w.SignInDelays(); len(delays) != 0 {
			t.Errorf("a known browser was delayed by %v", delays)
		}
		// An unknown browser can sign in from a network without failed tries.
		signInFrom(w.Browser(t), "192.0.2.1", who).RedirectsTo(t, "/")
		if delays := w.SignInDelays(); !slices.Equal(delays, []time.Duration{4 * time.Second}) {
			t.Errorf("another browser was delayed by %v", delays)
		}
		signInFrom(w.Browser(t), home, who).Shows(t, http.StatusTooManyRequests)

		// A password change forgets the known browsers, except the one that made it.
		other := w.Browser(t)
		signInFrom(other, "192.0.2.1", who).RedirectsTo(t, "/")
		from(other, "192.0.2.1", "/account/password", url.Values{
			"password": {who.Password}, "new_password": {"a kite over Kochi"}, "repeated_password": {"a kite over Kochi"},
		}).RedirectsTo(t, "/account/")
		who.Password = "a kite over Kochi"
		signInFrom(known, home, who).Shows(t, http.StatusTooManyRequests)
		signInFrom(other, home, who).RedirectsTo(t, "/")
		w.Advance(15 * time.Minute)
		w.SignInDelays()
	}
}

func TestStepUp_TenWrongTriesEndTheSession(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	who := w.NewLogin(t, "asha", login.Support, 0)
	found, own := w.SignIn(t, who), w.SignIn(t, who)
	guess := url.Values{"password": {"not the password"}}
	for range 9 {
		found.Post("/step-up", guess).Shows(t, http.StatusUnprocessableEntity, "The password is wrong.")
	}
	found.Post("/step-up", guess).RedirectsTo(t, "/sign-in")
	found.Get("/sign-in").Shows(t, http.StatusOK, "You were signed out after too many wrong attempts.")
	found.Get("/account/").RedirectsTo(t, "/sign-in?to=%2Faccount%2F")
	own.Post("/step-up", url.Values{"password": {who.Password}}).RedirectsTo(t, "/")
}

func TestTemporaryPassword_ExpiryShownToItsHolder(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	made, password, err := w.Admin.CreateLogin(t.Context(), admin.NewLogin{Username: "ravi", Name: "Ravi", Role: login.Counter, OperatorID: w.Demo.LCOID})
	if err != nil {
		t.Fatal(err)
	}
	const ended = "This temporary password has expired."
	w.SignIn(t, w.Demo.Operator).Get("/panel/people/"+strconv.FormatInt(made.ID, 10)).Shows(t, http.StatusOK, "Temporary password expires", made.PasswordEnds.In(subscription.IST).Format("2 Jan 2006, 15:04"))
	w.Advance(72*time.Hour - time.Second)
	w.Browser(t).SignIn("ravi", password).RedirectsTo(t, "/account/password")
	w.Advance(time.Second)
	w.Browser(t).SignIn("ravi", password).Shows(t, http.StatusUnprocessableEntity, ended)
	if page := w.Browser(t).SignIn("ravi", "not the password"); strings.Contains(page.Body, ended) {
		t.Error("a wrong password shows that the right one has expired")
	}
	reset := w.SignIn(t, w.Demo.Admin).Get(w.OperatorPage("/logins/") + strconv.FormatInt(made.ID, 10))
	reset.Shows(t, http.StatusOK, "Temporary password expires")
}

func TestPasswordRules_ExplainRefusal(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	b := w.SignIn(t, w.Demo.Operator)
	for _, row := range [][3]string{
		{"elevenchars", "at least 12 characters", "कम से कम 12 अक्षरों का चुनें"},
		{"aaaaaaaaaaaa", "simple sequence or repeats itself", "एक सीधा क्रम है"},
		{"123456789012", "simple sequence or repeats itself", "एक सीधा क्रम है"},
		{"Password2026!", "one of the most common ones", "सबसे आम पासवर्डों में से एक"},
		{"operator-coax-1", "made of your name", "आपके नाम, यूज़रनेम"},
	} {
		for i, language := range []string{"en", "hi"} {
			b.Post("/account/language", url.Values{"language": {language}})
			b.Post("/account/password", url.Values{
				"password": {w.Demo.Operator.Password}, "new_password": {row[0]}, "repeated_password": {row[0]},
			}).Shows(t, http.StatusUnprocessableEntity, row[1+i])
		}
	}
}
