package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/login"
)

func sessionOf(realm login.Realm, role login.Role, operatorID int64, stage login.Stage) *login.Session {
	return &login.Session{ID: "1", Stage: stage, Person: login.Person{Realm: realm, Role: role, OperatorID: operatorID}}
}

func TestRule_EveryKindOfVisitor(t *testing.T) {
	owner := sessionOf(login.Operator, login.Owner, 7, login.Complete)
	support := sessionOf(login.Staff, login.Support, 0, login.Complete)
	finance := sessionOf(login.Staff, login.Finance, 0, login.Complete)
	halfway := sessionOf(login.Staff, login.Finance, 0, login.NeedsCode)
	tests := []struct {
		name    string
		rule    Rule
		visitor *login.Session
		want    decision
	}{
		{"anyone is anyone", Anyone, nil, permitted},
		{"anyone is somebody too", Anyone, halfway, permitted},
		{"nobody is asked to sign in", SignedIn, nil, signIn},
		{"an operator is signed in", SignedIn, owner, permitted},
		{"staff is signed in", SignedIn, support, permitted},
		{"halfway is not in", SignedIn, halfway, finish},
		{"operators only", Operators(login.Owner), owner, permitted},
		{"staff is no operator", Operators(OperatorRoles...), finance, refused},
		{"an operator's login that has none", Operators(OperatorRoles...), sessionOf(login.Operator, login.Owner, 0, login.Complete), refused},
		{"an operator's other role", Operators(login.Owner), sessionOf(login.Operator, login.Counter, 7, login.Complete), refused},
		{"a role that is not an operator's", Operators(OperatorRoles...), sessionOf(login.Operator, login.Viewer, 7, login.Complete), refused},
		{"an operator is no staff", Staff(StaffRoles...), owner, refused},
		{"an operator who calls itself finance", Staff(StaffRoles...), sessionOf(login.Operator, login.Finance, 7, login.Complete), refused},
		{"the right role", Staff(login.Finance), finance, permitted},
		{"another role", Staff(login.Finance), support, refused},
		{"the right role, halfway", Staff(login.Finance), halfway, finish},
		{"staff without a role that we know", Staff(StaffRoles...), sessionOf(login.Staff, "janitor", 0, login.Complete), refused},
		{"a realm that we do not know", SignedIn, sessionOf("ghosts", login.Administrator, 0, login.Complete), refused},
		{"a step on the way, for who is there", SignedIn.At(login.NeedsCode), halfway, permitted},
		{"a step on the way, for who is in", SignedIn.At(login.NeedsCode), finance, finish},
		{"the zero rule", Rule{}, owner, finish},
		{"the zero rule, at every stage", Rule{}.At(login.Complete), owner, refused},
	}
	for _, tt := range tests {
		if got := tt.rule.check(tt.visitor); got != tt.want {
			t.Errorf("%s: %d; want %d", tt.name, got, tt.want)
		}
		if tt.rule.Allows(tt.visitor) != (tt.want == permitted) {
			t.Errorf("%s: Allows says otherwise", tt.name)
		}
	}
}

func TestRoutes_MistakesAreRefused(t *testing.T) {
	page := func(change func(*Route)) []Route {
		r := Route{Method: http.MethodGet, Path: "/panel/x", Area: Panel, Allow: Operators(login.Owner), Handle: func(*Visit) error { return nil }}
		change(&r)
		return []Route{r}
	}
	good := page(func(*Route) {})[0]
	for want, routes := range map[string][]Route{
		"":                          {good},
		"has no rule":               page(func(r *Route) { r.Allow = Rule{} }),
		"names no stage":            page(func(r *Route) { r.Allow = Operators(login.Owner).At() }),
		"the panel is for":          page(func(r *Route) { r.Allow = SignedIn }),
		"the console is for":        page(func(r *Route) { r.Path, r.Area, r.Allow = "/console/x", Console, SignedIn }),
		"to change nothing":         page(func(r *Route) { r.ReadOnly = true }),
		"nothing but a form":        page(func(r *Route) { r.Method, r.FormOnly = http.MethodPost, true }),
		"GET or POST":               page(func(r *Route) { r.Method = "PUT" }),
		"does not begin":            page(func(r *Route) { r.Path = "panel/x" }),
		"nothing handles":           page(func(r *Route) { r.Handle = nil }),
		"no area":                   page(func(r *Route) { r.Area = "attic" }),
		"outside its area":          page(func(r *Route) { r.Path = "/account/x" }),
		"in another area":           page(func(r *Route) { r.Area, r.Allow = Account, SignedIn }),
		"to the API":                page(func(r *Route) { r.Path, r.Area, r.Allow = "/api/v1/x", Account, SignedIn }),
		"in the navigation":         page(func(r *Route) { r.Path, r.Menu = "/panel/{id}", "X" }),
		"not in the navigation":     page(func(r *Route) { r.Under = "/panel/y" }),
		"it matches what":           append(page(func(r *Route) { r.Path = "/panel/{id}" }), good),
		"no page with its form":     page(func(r *Route) { r.Method, r.StepUp = http.MethodPost, true }),
		"no page with its form to ": page(func(r *Route) { r.Method, r.StepUp, r.Form = http.MethodPost, true, "/panel/y" }),
	} {
		_, err := newTable(routes)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("the table was made with %v; want %q", err, want)
		}
	}
}

func TestRoute_PathMatchedAsSent(t *testing.T) {
	handle := func(*Visit) error { return nil }
	table, err := newTable([]Route{
		{Method: http.MethodGet, Path: "/panel/", Area: Panel, Allow: Operators(login.Owner), Handle: handle},
		{Method: http.MethodGet, Path: "/panel/people/{id}", Area: Panel, Allow: Operators(login.Owner), Handle: handle},
		{Method: http.MethodPost, Path: "/panel/people/{id}/renew/{plan}", Form: "/panel/people/{id}", StepUp: true, Area: Panel, Allow: Operators(login.Owner), Handle: handle},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ method, path, want, id, allow string }{
		{"GET", "/panel/", "/panel/", "", ""},
		{"HEAD", "/panel/", "/panel/", "", ""},
		{"POST", "/panel/", "", "", "GET"},
		{"GET", "/panel//", "", "", ""},
		{"GET", "/panel/people/7", "/panel/people/{id}", "7", ""},
		{"GET", "/panel/people/a%2Fb%20c", "/panel/people/{id}", "a/b c", ""},
		{"GET", "/panel/people/", "", "", ""},
		{"GET", "/panel/people/7/", "", "", ""},
		{"GET", "/panel/people/%zz", "", "", ""},
		{"GET", "/panel/../people/7", "", "", ""},
		{"DELETE", "/panel/people/7", "", "", "GET"},
		{"POST", "/panel/people/7/renew/A", "/panel/people/{id}/renew/{plan}", "7", ""},
	} {
		found, values, allow := table.find(tt.method, tt.path)
		got := ""
		if found != nil {
			got = found.Path
		}
		if got != tt.want || values["id"] != tt.id || strings.Join(allow, ", ") != tt.allow {
			t.Errorf("%s %s: %q with %v, allowed %v; want %q with %q, allowed %q", tt.method, tt.path, got, values, allow, tt.want, tt.id, tt.allow)
		}
	}
	request := &http.Request{}
	request.SetPathValue("id", "7")
	found, _, _ := table.find("POST", "/panel/people/7/renew/A")
	if got := table.formPath(found, request); got != "/panel/people/7" {
		t.Errorf("the form stands at %q; want /panel/people/7", got)
	}
}
