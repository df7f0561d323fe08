package pages

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
)

func TestAccount_TemporaryPasswordIsReplacedFirst(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	_, made, err := w.Admin.CreateLogin(context.Background(), admin.NewLogin{Username: "asha", Name: "Asha", Role: login.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	b := w.Browser(t)
	b.SignIn("asha", made).RedirectsTo(t, "/account/password")
	b.Get("/console/").RedirectsTo(t, "/account/password")
	b.Get("/account/password").Shows(t, http.StatusOK, "set by somebody else")
	change := func(old, new, repeated string) e2e.Page {
		return b.Post("/account/password", url.Values{"password": {old}, "new_password": {new}, "repeated_password": {repeated}})
	}
	change(made, "monsoon ferry lamp", "monsoon ferry lump").Shows(t, http.StatusUnprocessableEntity, "do not match")
	change("wrong", "monsoon ferry lamp", "monsoon ferry lamp").Shows(t, http.StatusUnprocessableEntity, "The password is wrong.")
	change(made, "short", "short").Shows(t, http.StatusUnprocessableEntity, "too short")
	change(made, "monsoon ferry lamp", "monsoon ferry lamp").RedirectsTo(t, "/")
	b.Get("/console/").Shows(t, http.StatusOK, "Asha")
	w.Browser(t).SignIn("asha", made).Shows(t, http.StatusUnprocessableEntity)
}

func TestAccount_PasswordChangeEndsOtherSessions(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	here, there := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Operator)
	here.Post("/account/password", url.Values{
		"password": {w.Demo.Operator.Password}, "new_password": {"a kite over Kochi"}, "repeated_password": {"a kite over Kochi"},
	}).RedirectsTo(t, "/account/")
	here.Get("/account/").Shows(t, http.StatusOK, "Password changed.")
	there.Get("/account/").RedirectsTo(t, "/sign-in?to=%2Faccount%2F")
}

func TestAccount_SessionsListedAndEnded(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	here, there := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Operator)
	stranger := w.SignIn(t, w.Demo.Admin)
	ends := regexp.MustCompile(`action="(/account/sessions/[0-9a-f]+/end)"`)
	shown := ends.FindAllStringSubmatch(here.Get("/account/").Shows(t, http.StatusOK, "This device").Body, -1)
	if len(shown) != 1 {
		t.Fatalf("%d sessions can be ended; want the other one", len(shown))
	}
	// Another login that knows the session's id cannot end it.
	stranger.Post(shown[0][1], nil)
	there.Get("/panel/").Shows(t, http.StatusOK)
	here.Post(shown[0][1], nil).RedirectsTo(t, "/account/")
	there.Get("/panel/").RedirectsTo(t, "/sign-in?to=%2Fpanel%2F")
	here.Get("/panel/").Shows(t, http.StatusOK)
}

func TestAccount_HindiPages(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	b := w.Browser(t)
	b.Get("/sign-in").Shows(t, http.StatusOK, `lang="en"`, "Sign in")
	b.Post("/sign-in/language", url.Values{"language": {"hi"}}).RedirectsTo(t, "/sign-in")
	b.Get("/sign-in").Shows(t, http.StatusOK, `lang="hi"`, "साइन इन")
	b.SignIn(w.Demo.Operator.Username, "wrong password").Shows(t, http.StatusUnprocessableEntity, "पासवर्ड ग़लत है")

	// What was chosen before the sign-in is stored with the login.
	b.SignIn(w.Demo.Operator.Username, w.Demo.Operator.Password).RedirectsTo(t, "/")
	b.Get("/panel/").Shows(t, http.StatusOK, `lang="hi"`, "नमस्ते")
	b.Post("/account/language", url.Values{"language": {"en"}, "back": {"/panel/"}}).RedirectsTo(t, "/panel/")
	b.Get("/panel/").Shows(t, http.StatusOK, `lang="en"`)
	// The choice was for that sign-in only; a setting of the account outlasts it.
	b.SignIn(w.Demo.Operator.Username, w.Demo.Operator.Password).RedirectsTo(t, "/")
	b.Get("/panel/").Shows(t, http.StatusOK, `lang="en"`)
	b.Post("/account/language", url.Values{"language": {"hi"}, "back": {"/panel/"}}).RedirectsTo(t, "/panel/")
	// The language belongs to the login, in every browser.
	w.SignIn(t, w.Demo.Operator).Get("/panel/").Shows(t, http.StatusOK, `lang="hi"`)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL("/sign-in"), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept-Language", "mr-IN, hi;q=0.8, en;q=0.5")
	w.Browser(t).Send(request).Shows(t, http.StatusOK, `lang="hi"`)

	b.Post("/account/theme", url.Values{"theme": {"dark"}}).RedirectsTo(t, "/account/")
	b.Get("/account/").Shows(t, http.StatusOK, `data-theme="dark"`)
	b.Post("/account/theme", url.Values{"theme": {"pink"}}).Shows(t, http.StatusUnprocessableEntity)
}

// A form posted with a stale session is not processed, and its fields are kept.
func TestStepUp_ReturnsToThePage(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	b := w.SignIn(t, w.Demo.Operator)
	key, _ := b.EnrolTOTP()
	w.Advance(6 * time.Minute)

	asked := b.Post("/panel/people", url.Values{"name": {"a new <clerk>"}, "password": {"never repeated"}})
	asked.Shows(t, http.StatusForbidden, `action="/step-up"`, `name="form.name"`, "a new &lt;clerk&gt;", `value="/panel/people"`, `name="code"`)
	if strings.Contains(asked.Body, "never repeated") {
		t.Error("a password is repeated in the page")
	}

	give := func(password, code string) e2e.Page {
		return b.Post("/step-up", url.Values{"password": {password}, "code": {code}, "to": {"/panel/people"}, "form.name": {"a new <clerk>"}})
	}
	give("wrong password", e2e.TOTPCode(t, key, w.Now())).Shows(t, http.StatusUnprocessableEntity, "The password is wrong.", "a new &lt;clerk&gt;")
	give(w.Demo.Operator.Password, "000000").Shows(t, http.StatusUnprocessableEntity, "The code is wrong")
	give(w.Demo.Operator.Password, e2e.TOTPCode(t, key, w.Now())).Shows(t, http.StatusOK, "Nothing has been done yet", "a new &lt;clerk&gt;")
}

func TestAccount_DisabledLoginIsSignedOut(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	b := w.SignIn(t, w.Demo.Operator)
	person, err := w.Admin.LoginNamed(context.Background(), w.Demo.Operator.Username)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Admin.ChangeLogin(context.Background(), person.ID, admin.LoginChange{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	b.Get("/panel/").RedirectsTo(t, "/sign-in?to=%2Fpanel%2F")
	b.SignIn(w.Demo.Operator.Username, w.Demo.Operator.Password).Shows(t, http.StatusUnprocessableEntity)
}
