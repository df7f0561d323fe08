package main

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

func TestSomebodyElsesPasswordIsReplacedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, made, err := w.desk.CreateLogin(context.Background(), admin.NewLogin{Username: "asha", Name: "Asha", Role: login.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	b := w.browser(t)
	b.signIn("asha", made).sends(t, "/account/password")
	b.get("/console/").sends(t, "/account/password")
	b.get("/account/password").shows(t, http.StatusOK, "made by somebody else")
	change := func(old, new, repeated string) page {
		return b.post("/account/password", url.Values{"password": {old}, "new_password": {new}, "repeated_password": {repeated}})
	}
	change(made, "monsoon ferry lamp", "monsoon ferry lump").shows(t, http.StatusUnprocessableEntity, "not the same")
	change("wrong", "monsoon ferry lamp", "monsoon ferry lamp").shows(t, http.StatusUnprocessableEntity, "The password is wrong.")
	change(made, "short", "short").shows(t, http.StatusUnprocessableEntity, "too short")
	change(made, "monsoon ferry lamp", "monsoon ferry lamp").sends(t, "/")
	b.get("/console/").shows(t, http.StatusOK, "Asha")
	w.browser(t).signIn("asha", made).shows(t, http.StatusUnprocessableEntity)
}

func TestAChangedPasswordSignsOutEverywhereElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.as(t, w.line.Operator), w.as(t, w.line.Operator)
	here.post("/account/password", url.Values{
		"password": {w.line.Operator.Password}, "new_password": {"a kite over Kochi"}, "repeated_password": {"a kite over Kochi"},
	}).sends(t, "/account/")
	here.get("/account/").shows(t, http.StatusOK, "Your password is changed")
	there.get("/account/").sends(t, "/sign-in?to=%2Faccount%2F")
}

func TestOnesOwnSessionsAreShownAndCanBeEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.as(t, w.line.Operator), w.as(t, w.line.Operator)
	stranger := w.as(t, w.line.Admin)
	ends := regexp.MustCompile(`action="(/account/sessions/[0-9a-f]+/end)"`)
	shown := ends.FindAllStringSubmatch(here.get("/account/").shows(t, http.StatusOK, "This device").body, -1)
	if len(shown) != 1 {
		t.Fatalf("%d sessions can be ended; want the other one", len(shown))
	}
	// Somebody else who knows the session's name changes nothing by it.
	stranger.post(shown[0][1], nil)
	there.get("/panel/").shows(t, http.StatusOK)
	here.post(shown[0][1], nil).sends(t, "/account/")
	there.get("/panel/").sends(t, "/sign-in?to=%2Fpanel%2F")
	here.get("/panel/").shows(t, http.StatusOK)
}

func TestPagesSpeakHindiToWhoeverChoosesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	b.get("/sign-in").shows(t, http.StatusOK, `lang="en"`, "Sign in")
	b.post("/sign-in/language", url.Values{"language": {"hi"}}).sends(t, "/sign-in")
	b.get("/sign-in").shows(t, http.StatusOK, `lang="hi"`, "साइन इन")
	b.signIn(w.line.Operator.Username, "wrong password").shows(t, http.StatusUnprocessableEntity, "पासवर्ड ग़लत है")

	b.signIn(w.line.Operator.Username, w.line.Operator.Password).sends(t, "/")
	b.post("/account/language", url.Values{"language": {"hi"}, "back": {"/panel/"}}).sends(t, "/panel/")
	b.get("/panel/").shows(t, http.StatusOK, `lang="hi"`, "नमस्ते")
	// It is the person's, wherever they sign in next.
	w.as(t, w.line.Operator).get("/panel/").shows(t, http.StatusOK, `lang="hi"`)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.at("/sign-in"), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept-Language", "mr-IN, hi;q=0.8, en;q=0.5")
	w.browser(t).send(request).shows(t, http.StatusOK, `lang="hi"`)

	b.post("/account/theme", url.Values{"theme": {"dark"}}).sends(t, "/account/")
	b.get("/account/").shows(t, http.StatusOK, `data-theme="dark"`)
	b.post("/account/theme", url.Values{"theme": {"pink"}}).shows(t, http.StatusUnprocessableEntity)
}

// What was posted without a fresh proof is not done, and not forgotten either.
func TestAStepUpComesBackToWhatOneWasDoing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(t, w.line.Operator)
	key, _ := b.enrol()
	w.pass(6 * time.Minute)

	b.get("/account/second-factor").sends(t, "/step-up?to=%2Faccount%2Fsecond-factor")
	asked := b.post("/account/second-factor/remove", url.Values{"why": {"a new <telephone>"}, "password": {"never repeated"}})
	asked.shows(t, http.StatusForbidden, `action="/step-up"`, `name="form.why"`, "a new &lt;telephone&gt;", `value="/account/"`, `name="code"`)
	if strings.Contains(asked.body, "never repeated") {
		t.Error("a password is repeated in the page")
	}
	b.get("/account/").shows(t, http.StatusOK, "Remove it") // so it is still there

	give := func(password, code string) page {
		return b.post("/step-up", url.Values{"password": {password}, "code": {code}, "to": {"/account/"}, "form.why": {"a new <telephone>"}})
	}
	give("wrong password", codeAt(t, key, w.now())).shows(t, http.StatusUnprocessableEntity, "The password is wrong.", "a new &lt;telephone&gt;")
	give(w.line.Operator.Password, "000000").shows(t, http.StatusUnprocessableEntity, "The code is wrong")
	give(w.line.Operator.Password, codeAt(t, key, w.now())).shows(t, http.StatusOK, "Your account", "Remove it")
	b.post("/account/second-factor/remove", nil).sends(t, "/account/")
	b.get("/account/").shows(t, http.StatusOK, "The second factor is removed.", "It is not set up.")
}

func TestADisabledLoginIsOutAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(t, w.line.Operator)
	person, err := w.desk.LoginNamed(context.Background(), w.line.Operator.Username)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.desk.ChangeLogin(context.Background(), person.ID, admin.LoginChange{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	b.get("/panel/").sends(t, "/sign-in?to=%2Fpanel%2F")
	b.signIn(w.line.Operator.Username, w.line.Operator.Password).shows(t, http.StatusUnprocessableEntity)
}
