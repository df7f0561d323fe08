package pages

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web"
)

// visitor is a role at a stage of signing in.
type visitor struct {
	what    string
	session *login.Session // for the access rules; nil for an anonymous visitor
	browser *e2e.Browser
}

// visitors returns one of each kind, with second factors required.
func visitors(t *testing.T, w *e2e.Env) []visitor {
	t.Helper()
	list := []visitor{{what: "anonymous", browser: w.Browser(t)}}
	add := func(what string, stage login.Stage, role login.Role, operatorID int64, b *e2e.Browser) {
		realm := login.Staff
		if role == login.Owner {
			realm = login.Operator
		}
		list = append(list, visitor{what, &login.Session{ID: what, Stage: stage, Person: login.Person{
			Realm: realm, Role: role, OperatorID: operatorID,
		}}, b})
	}
	owner := w.Browser(t)
	owner.SignIn(w.Demo.Operator.Username, w.Demo.Operator.Password).RedirectsTo(t, "/")
	add("an operator's owner", login.Complete, login.Owner, w.Demo.LCOID, owner)

	for _, role := range []login.Role{login.Viewer, login.Support, login.Finance, login.Administrator} {
		who := w.NewLogin(t, "the-"+string(role), role, 0)
		b := w.Browser(t)
		first := b.SignIn(who.Username, who.Password)
		if role == login.Finance || role == login.Administrator {
			first.RedirectsTo(t, "/account/second-factor")
			b.EnrolTOTP()
			// Another browser, with the same login's password and no code.
			halfway := w.Browser(t)
			halfway.SignIn(who.Username, who.Password).RedirectsTo(t, "/sign-in/code")
			add(string(role)+" without a code yet", login.NeedsCode, role, 0, halfway)
			bare := w.NewLogin(t, "bare-"+string(role), role, 0)
			without := w.Browser(t)
			without.SignIn(bare.Username, bare.Password).RedirectsTo(t, "/account/second-factor")
			add(string(role)+" without a second factor", login.NeedsTOTP, role, 0, without)
		} else {
			first.RedirectsTo(t, "/")
		}
		add(string(role), login.Complete, role, 0, b)
	}

	for _, role := range []login.Role{login.Viewer, login.Owner} {
		made := admin.NewLogin{Username: "new-" + string(role), Name: "New", Role: role}
		if role == login.Owner {
			made.OperatorID = w.Demo.LCOID
		}
		_, password, err := w.Admin.CreateLogin(context.Background(), made)
		if err != nil {
			t.Fatal(err)
		}
		b := w.Browser(t)
		b.SignIn(made.Username, password).RedirectsTo(t, "/account/password")
		add(string(role)+" with a temporary password", login.NeedsPassword, role, made.OperatorID, b)
	}
	return list
}

var pathWildcard = regexp.MustCompile(`\{[^}]+\}`)

// Every route is requested as every kind of visitor, and its rule applies. Forms are posted
// with a wrong media type: an allowed visitor gets 415, and nothing is done.
func TestRoutes_AccessRules(t *testing.T) {
	e2e.StoreIndependent(t)
	w := e2e.NewEnv(t, "panel.staff_totp=true")
	people := visitors(t, w)
	tried := 0
	for _, route := range w.Node.Site.Routes() {
		path := pathWildcard.ReplaceAllString(route.Path, "1")
		for _, visitor := range people {
			what := route.Method + " " + route.Path + " as " + visitor.what
			request, err := http.NewRequestWithContext(t.Context(), route.Method, w.URL(path), strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			got := visitor.browser.Send(request)
			tried++
			if may := route.Allow.Allows(visitor.session); may {
				if !admitted(route, visitor, got) {
					t.Errorf("%s: %d to %q; its rule (%v) allows it", what, got.Status, got.Location, route.Allow)
				}
				continue
			}
			switch session := visitor.session; {
			case session == nil:
				if got.Status != http.StatusSeeOther || !strings.HasPrefix(got.Location, "/sign-in") {
					t.Errorf("%s: %d to %q; want a redirect to sign in", what, got.Status, got.Location)
				}
			case session.Stage != login.Complete:
				want := map[login.Stage]string{
					login.NeedsCode: "/sign-in/code", login.NeedsTOTP: "/account/second-factor", login.NeedsPassword: "/account/password",
				}[session.Stage]
				if got.Status != http.StatusSeeOther || got.Location != want {
					t.Errorf("%s: %d to %q; want a redirect to %s", what, got.Status, got.Location, want)
				}
			case strings.HasPrefix(route.Path, "/sign-in/"):
				if got.Status != http.StatusSeeOther || got.Location != "/" {
					t.Errorf("%s: %d to %q; want a redirect to /", what, got.Status, got.Location)
				}
			case got.Status != http.StatusForbidden:
				t.Errorf("%s: %d to %q; want 403", what, got.Status, got.Location)
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d requests were made; want at least 100", tried)
	}
}

// admitted reports whether a request got past the rule to the route's handler.
func admitted(route web.Route, v visitor, got e2e.Page) bool {
	if route.Method == http.MethodPost {
		return got.Status == http.StatusUnsupportedMediaType
	}
	switch route.Path {
	case "/": // always redirects
		return got.Status == http.StatusSeeOther
	case "/sign-in": // redirects visitors with a session
		return got.Status == http.StatusOK || v.session != nil && got.Status == http.StatusSeeOther
	}
	return got.Status == http.StatusOK || got.Status == http.StatusNotFound && strings.Contains(route.Path, "{")
}

// Routes for money and secrets require a recent step-up; others do not.
func TestRoutes_StepUp(t *testing.T) {
	e2e.StoreIndependent(t)
	w := e2e.NewEnv(t)
	asked := 0
	people := map[web.Area]*e2e.Browser{
		web.Account: w.SignIn(t, w.Demo.Admin), web.Console: w.SignIn(t, w.Demo.Admin), web.Panel: w.SignIn(t, w.Demo.Operator),
		web.Docs: w.Browser(t),
	}
	w.Advance(6 * time.Minute)
	for _, route := range w.Node.Site.Routes() {
		if !route.Allow.Allows(&login.Session{Stage: login.Complete, Person: personOf(w, route.Area)}) || route.Path == "/sign-out" {
			continue
		}
		b := people[route.Area]
		path := pathWildcard.ReplaceAllString(route.Path, "1")
		var got e2e.Page
		if route.Method == http.MethodGet {
			got = b.Get(path)
		} else if route.StepUp {
			got = b.Post(path, nil)
		} else {
			continue
		}
		stopped := strings.HasPrefix(got.Location, "/step-up") || got.Status == http.StatusForbidden && strings.Contains(got.Body, `action="/step-up"`)
		if stopped != route.StepUp {
			t.Errorf("%s %s: %d to %q; needs a step-up: %v", route.Method, route.Path, got.Status, got.Location, route.StepUp)
		}
		if route.StepUp {
			asked++
		}
	}
	if asked == 0 {
		t.Error("no route needs a step-up: the list of routes is incomplete")
	}
}

func personOf(w *e2e.Env, area web.Area) login.Person {
	if area == web.Panel {
		return login.Person{Realm: login.Operator, Role: login.Owner, OperatorID: w.Demo.LCOID}
	}
	return login.Person{Realm: login.Staff, Role: login.Administrator}
}

// Every page but home belongs to an entry of the navigation, which is marked.
func TestRoutes_NavigationEntry(t *testing.T) {
	e2e.StoreIndependent(t)
	w := e2e.NewEnv(t)
	for _, area := range []web.Area{web.Panel, web.Console} {
		home := "/" + string(area) + "/"
		var entries []string
		for _, route := range w.Node.Site.Routes() {
			if route.Area == area && route.Menu != "" && route.Path != home {
				entries = append(entries, route.Path)
			}
		}
		for _, route := range w.Node.Site.Routes() {
			if route.Area != area || route.Method != http.MethodGet || route.Path == home || route.Under != "" {
				continue
			}
			if !slices.ContainsFunc(entries, func(entry string) bool { return route.Path == entry || strings.HasPrefix(route.Path, entry+"/") }) {
				t.Errorf("%s belongs to no entry of the navigation: set Under", route.Path)
			}
		}
	}
	const here = `<a href="/console/operators" aria-current="page">`
	b := w.SignIn(t, w.Demo.Admin)
	b.Get("/console/new-operator").Shows(t, http.StatusOK, here)
	b.Post("/console/new-operator", nil).Shows(t, http.StatusUnprocessableEntity, here)
}
