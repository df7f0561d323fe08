package web

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Area is the part of the site a route belongs to. It decides the layout.
type Area string

// The areas.
const (
	Account Area = "account" // sign-in, sign-out and one's own account
	Panel   Area = "panel"   // an operator's people
	Console Area = "console" // the MSO's staff
	Docs    Area = "docs"    // the API reference and the guide, in English for everyone
)

// keysPattern is the form of a route's keys.
var keysPattern = regexp.MustCompile(`^[a-z]( [a-z])?$`)

// home is the first page of an area and the prefix of its paths.
var home = map[Area]string{Panel: "/panel/", Console: "/console/"}

// Route is one page or one form action.
type Route struct {
	Method string
	// Path is matched exactly, except for {name} segments, which match one non-empty
	// segment each; Visit.R.PathValue returns what they matched.
	Path string
	Area Area
	// Allow says who may use it.
	Allow Rule
	// ReadOnly marks a form of the panel that changes nothing, such as a comparison: the
	// users of a suspended operator may send it. See Changes.
	ReadOnly bool
	// FormOnly marks a page of the panel that consists of a form that changes something.
	// It is hidden from the users of a suspended operator.
	FormOnly bool
	// StepUp is for money and secrets: the visitor must have entered the password (and
	// the code, if one is set up) within the last minutes.
	StepUp bool
	// Form is the page whose form is posted here, if its path differs: a visitor who has
	// to step up, or whose session has ended, returns to it. Its {name} segments must be
	// among the route's own.
	Form string
	// Upload is the size limit in bytes of a form with files; without it a form has at
	// most 64 KiB and no files.
	Upload int64
	// Menu and Icon are the page's entry in its area's navigation; none if empty.
	Menu, Icon string
	// Keys are what opens the page from the keyboard: one letter, or two with a blank between
	// them. KeysText says what they do if that is not Menu.
	Keys, KeysText string
	// Under is the navigation entry that this page belongs to, if its path does not
	// show that.
	Under string
	// Handle writes the response. If it returns admin.ErrStepUp, the visitor is asked to
	// step up as if the route had StepUp.
	Handle func(*Visit) error
}

// Changes reports whether the route changes an operator's data, or is only a form for
// that. Such a route is refused to the users of a suspended operator.
func (r *Route) Changes() bool {
	if r.Area != Panel {
		return false
	}
	return r.Method == http.MethodPost && !r.ReadOnly || r.FormOnly
}

// table holds all routes for lookup.
type table struct {
	routes  []Route
	literal map[string][]*Route // by path, of those without {name}
	pattern map[int][]*Route    // by number of segments, of those with
}

// newTable checks all routes. A mistake in one must show when the program starts, not
// when a user clicks.
func newTable(routes []Route) (*table, error) {
	t := &table{routes: slices.Clone(routes), literal: map[string][]*Route{}, pattern: map[int][]*Route{}}
	for i := range t.routes {
		r := &t.routes[i]
		if why := r.problem(); why != "" {
			return nil, fmt.Errorf("route %s %s: %s", r.Method, r.Path, why)
		}
		for j := range t.routes[:i] {
			other := &t.routes[j]
			if other.Method == r.Method && overlap(other.Path, r.Path) {
				return nil, fmt.Errorf("route %s %s: it matches what %s does", r.Method, r.Path, other.Path)
			}
			if r.Keys != "" && other.Keys == r.Keys && other.Area == r.Area {
				return nil, fmt.Errorf("route %s %s: %s has the same keys", r.Method, r.Path, other.Path)
			}
		}
		if strings.Contains(r.Path, "{") {
			n := strings.Count(r.Path, "/")
			t.pattern[n] = append(t.pattern[n], r)
		} else {
			t.literal[r.Path] = append(t.literal[r.Path], r)
		}
	}
	for i := range t.routes {
		if under := t.routes[i].Under; under != "" && !slices.ContainsFunc(t.routes, func(r Route) bool { return r.Path == under && r.Menu != "" }) {
			return nil, fmt.Errorf("route %s %s: it stands under %s, which is not in the navigation", t.routes[i].Method, t.routes[i].Path, under)
		}
		if r := &t.routes[i]; r.Method == http.MethodPost && (r.StepUp || r.Area == Console) && t.formOf(r) == nil {
			return nil, fmt.Errorf("route %s %s: it may need a step-up, and there is no page with its form to come back to", r.Method, r.Path)
		}
	}
	return t, nil
}

// problem returns what is wrong with a route, or "".
func (r *Route) problem() string {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		return "the method must be GET or POST"
	case !strings.HasPrefix(r.Path, "/"):
		return "the path does not begin with a slash"
	case r.Handle == nil:
		return "nothing handles it"
	case r.Area != Account && r.Area != Panel && r.Area != Console && r.Area != Docs:
		return "it belongs to no area"
	case home[r.Area] != "" && !strings.HasPrefix(r.Path, home[r.Area]):
		return "its path is outside its area, " + home[r.Area]
	case home[r.Area] == "" && (strings.HasPrefix(r.Path, home[Panel]) || strings.HasPrefix(r.Path, home[Console])):
		return "its path is in another area"
	case !owned(r.Path):
		return "its path belongs to the API; see owned"
	case r.ReadOnly && (r.Method != http.MethodPost || r.Area != Panel):
		return "only a form of the panel can be declared to change nothing"
	case r.FormOnly && (r.Method != http.MethodGet || r.Area != Panel):
		return "only a page of the panel can be nothing but a form"
	case r.Keys != "" && (r.Method != http.MethodGet || strings.Contains(r.Path, "{") || r.Menu == "" && r.KeysText == "" || !keysPattern.MatchString(r.Keys)):
		return "keys open a page with a fixed address, have a text, and are one letter or two"
	case r.Menu != "" && (r.Method != http.MethodGet || strings.Contains(r.Path, "{")):
		return "only a page with a fixed address can stand in the navigation"
	}
	return r.Allow.problem(r.Area)
}

// formOf returns the page that has the form of a route; nil if there is none.
func (t *table) formOf(r *Route) *Route {
	path := r.Path
	if r.Form != "" {
		path = r.Form
	}
	for i := range t.routes {
		if t.routes[i].Method == http.MethodGet && t.routes[i].Path == path {
			return &t.routes[i]
		}
	}
	return nil
}

// formPath returns the path of the page with the form of a request to this route.
func (t *table) formPath(r *Route, request *http.Request) string {
	form := t.formOf(r)
	if form == nil {
		return ""
	}
	parts := strings.Split(form.Path, "/")
	for i, part := range parts {
		if name, ok := placeholder(part); ok {
			parts[i] = request.PathValue(name)
		}
	}
	return strings.Join(parts, "/")
}

// find returns the route for a request and the values of its {name} segments. If there is
// none, allow lists the methods of the path; it is empty for an unknown path.
func (t *table) find(method, path string) (found *Route, values map[string]string, allow []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, r := range t.literal[path] {
		if r.Method == method {
			return r, nil, nil
		}
		allow = append(allow, r.Method)
	}
	for _, r := range t.pattern[strings.Count(path, "/")] {
		values, ok := match(r.Path, path)
		switch {
		case !ok:
		case r.Method == method:
			return r, values, nil
		default:
			allow = append(allow, r.Method)
		}
	}
	slices.Sort(allow)
	return nil, nil, slices.Compact(allow)
}

// match compares a path with a pattern, segment by segment, as it was sent: an escaped
// slash does not separate segments, and nothing is cleaned.
func match(pattern, path string) (map[string]string, bool) {
	wants, has := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(wants) != len(has) {
		return nil, false
	}
	values := map[string]string{}
	for i, want := range wants {
		name, open := placeholder(want)
		switch {
		case !open && want != has[i]:
			return nil, false
		case !open:
		case has[i] == "":
			return nil, false
		default:
			value, ok := unescape(has[i])
			if !ok {
				return nil, false
			}
			values[name] = value
		}
	}
	return values, true
}

// overlap reports whether some path could match both patterns.
func overlap(a, b string) bool {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		_, openA := placeholder(as[i])
		_, openB := placeholder(bs[i])
		if as[i] != bs[i] && !(openA && bs[i] != "") && !(openB && as[i] != "") {
			return false
		}
	}
	return true
}

func placeholder(segment string) (name string, is bool) {
	inner, opens := strings.CutPrefix(segment, "{")
	name, closes := strings.CutSuffix(inner, "}")
	return name, opens && closes
}
