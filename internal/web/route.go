package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Area is the part of the site a route belongs to. It decides the layout.
type Area string

// The three parts.
const (
	Door    Area = "door"    // signing in and out, and one's own account
	Panel   Area = "panel"   // an operator's people
	Console Area = "console" // the MSO's staff
)

// home is where each area begins; whatever belongs to it lies beneath.
var home = map[Area]string{Panel: "/panel/", Console: "/console/"}

// Route is one page, or one thing that a page can have done.
type Route struct {
	Method string
	// Path is exact, but for {name} segments, which match one segment each that is
	// not empty; Visit.R.PathValue has what they matched.
	Path string
	Area Area
	// Who may use it.
	Who Rule
	// ReadOnly is for a form of the panel that changes nothing, such as a comparison: a
	// suspended operator's people may send it. See Changes.
	ReadOnly bool
	// FormOnly is for a page of the panel that is nothing but a form that changes
	// something. A suspended operator's people do not get it, nor its menu entry.
	FormOnly bool
	// StepUp is for money and secrets: the visitor must have given the password
	// (and the code, if one is set up) within the last minutes.
	StepUp bool
	// Form is the page whose form is posted here, if it is not the same path: a
	// visitor who has to step up, or whose session has ended, comes back to it.
	// Its {name} segments are among the route's own.
	Form string
	// Upload is how many bytes a form with files may have; without it a form has
	// at most 64 KiB, and no files.
	Upload int64
	// Menu is the words under which the page stands in its area's navigation,
	// with an icon; empty keeps it out.
	Menu, Icon string
	// Under is the page of the navigation that this one belongs to, where its
	// address does not say so.
	Under string
	// Handle answers. Where it returns admin.ErrStepUp, the visitor is asked to step up
	// as if the route had StepUp.
	Handle func(*Visit) error
}

// Changes reports whether the route changes something of an operator, or is only a form
// for that. Such a route is refused to the people of a suspended operator.
func (r *Route) Changes() bool {
	if r.Area != Panel {
		return false
	}
	return r.Method == http.MethodPost && !r.ReadOnly || r.FormOnly
}

// table is every route there is, ready to be searched.
type table struct {
	routes  []Route
	literal map[string][]*Route // by path, of those without {name}
	pattern map[int][]*Route    // by number of segments, of those with
}

// newTable checks the routes as a whole. What is wrong here is a mistake of ours,
// which should show when the program starts and not when somebody clicks.
func newTable(routes []Route) (*table, error) {
	t := &table{routes: slices.Clone(routes), literal: map[string][]*Route{}, pattern: map[int][]*Route{}}
	for i := range t.routes {
		r := &t.routes[i]
		if why := r.problem(); why != "" {
			return nil, fmt.Errorf("route %s %s: %s", r.Method, r.Path, why)
		}
		for j := range t.routes[:i] {
			if other := &t.routes[j]; other.Method == r.Method && overlap(other.Path, r.Path) {
				return nil, fmt.Errorf("route %s %s: it matches what %s does", r.Method, r.Path, other.Path)
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

// problem says what is wrong with a route by itself.
func (r *Route) problem() string {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		return "pages are got and forms are posted"
	case !strings.HasPrefix(r.Path, "/"):
		return "the path does not begin with a slash"
	case r.Handle == nil:
		return "nothing handles it"
	case r.Area != Door && r.Area != Panel && r.Area != Console:
		return "it belongs to no area"
	case r.Area != Door && !strings.HasPrefix(r.Path, home[r.Area]):
		return "it lies outside its area, which is " + home[r.Area]
	case r.Area == Door && (strings.HasPrefix(r.Path, home[Panel]) || strings.HasPrefix(r.Path, home[Console])):
		return "it lies in another area"
	case !owned(r.Path):
		return "the front door would give it to the API"
	case r.ReadOnly && (r.Method != http.MethodPost || r.Area != Panel):
		return "only a form of the panel can be declared to change nothing"
	case r.FormOnly && (r.Method != http.MethodGet || r.Area != Panel):
		return "only a page of the panel can be nothing but a form"
	case r.Menu != "" && (r.Method != http.MethodGet || strings.Contains(r.Path, "{")):
		return "only a page with a fixed address can stand in the navigation"
	}
	return r.Who.problem(r.Area)
}

// formOf is the page that has the form of a route; nil if there is none.
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

// formPath is where the form of a request to this route stands.
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

// find returns the route for a request and what its {name} segments are. Without
// one it says which methods the path does know; none: there is no such path.
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

// match holds a path against a pattern, segment by segment, as it was sent: a
// slash that was escaped is no slash, and nothing is cleaned.
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
