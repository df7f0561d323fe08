package web

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/internal/web/look"
)

// Visit is one HTTP request to a page, with the session and the route it belongs to.
type Visit struct {
	W http.ResponseWriter
	R *http.Request
	// Session is the visitor's; zero if not signed in (see SignedIn).
	Session login.Session
	Look    *look.Look
	Now     time.Time
	// Address is the visitor's; behind a proxy it is not the connection's.
	Address   netip.Addr
	RequestID string
	// Status is the status that Show and ShowPart send; 200 by default.
	Status int

	site         *Site
	route        *Route // nil for an unknown path
	asked        *Route // the requested route, if another page is shown instead
	method       string
	path         string // as it was sent, without the query
	token        string
	watch        telemetry.Stopwatch
	span         telemetry.Span
	filled       url.Values
	notice       *look.Notice // shown instead of the notice that the previous page set
	singleLayout bool         // use the sign-in layout in any area
	language     string       // instead of the visitor's; see InLanguage
	response     *responseRecorder
	names        map[string]string // of logins, by username; see Who
}

// Context is the request's context: it is cancelled when the visitor disconnects, so
// nothing that moves money may use it.
func (v *Visit) Context() context.Context { return v.R.Context() }

// SignedIn reports whether there is a session, at any stage of the sign-in.
func (v *Visit) SignedIn() bool { return v.Session.ID != "" }

// Operator returns the operator whose data the visitor may see. Every read of the panel
// is limited to it; no page takes it from a form or a URL.
func (v *Visit) Operator() int64 { return v.Session.Person.OperatorID }

// Actor returns the visitor's name in the audit log.
func (v *Visit) Actor() string { return "web:" + v.Session.Person.Username }

// Elapsed returns how long the request has taken so far.
func (v *Visit) Elapsed() time.Duration { return v.watch.Elapsed() }

// Field returns a field of the posted form, trimmed.
func (v *Visit) Field(name string) string { return strings.TrimSpace(v.R.PostForm.Get(name)) }

// Query returns a query parameter, trimmed.
func (v *Visit) Query(name string) string { return strings.TrimSpace(v.R.URL.Query().Get(name)) }

// FormValue returns the value to show in a form's field: what the visitor entered before
// a step-up, or what was posted and refused, else standard.
func (v *Visit) FormValue(name, standard string) string {
	for _, values := range []url.Values{v.filled, v.R.PostForm} {
		if values.Has(name) {
			return values.Get(name)
		}
	}
	return standard
}

// FormValues is FormValue for several fields of one name, such as check boxes; nil if
// they were not filled in before.
func (v *Visit) FormValues(name string) []string {
	for _, values := range []url.Values{v.filled, v.R.PostForm} {
		if values.Has(name) {
			return values[name]
		}
	}
	return nil
}

// ByHTMX reports whether htmx sent the request, which expects a part of a page.
func (v *Visit) ByHTMX() bool { return v.R.Header.Get("Hx-Request") == "true" }

// Show writes a whole page.
func (v *Visit) Show(page string, data any) error {
	frame, err := v.frame()
	if err != nil {
		return err
	}
	return v.write(func(out *bytes.Buffer) error { return v.Look.Page(out, page, frame, data) })
}

// ShowPart writes one block of a page, for htmx.
func (v *Visit) ShowPart(page, block string, data any) error {
	frame, err := v.frame()
	if err != nil {
		return err
	}
	return v.write(func(out *bytes.Buffer) error { return v.Look.Fragment(out, page, block, frame, data) })
}

// write renders the whole page before it sends it, so that a rendering error does not
// leave half a page.
func (v *Visit) write(render func(*bytes.Buffer) error) error {
	var out bytes.Buffer
	if err := render(&out); err != nil {
		return err
	}
	v.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.Status != 0 {
		v.W.WriteHeader(v.Status)
	}
	_, _ = v.W.Write(out.Bytes()) // an error means that the client hung up
	return nil
}

// WithoutNavigation makes the page show nothing of the visitor's own panel or console, as the
// sign-in does.
func (v *Visit) WithoutNavigation() { v.singleLayout = true }

// Origin returns the pages' public address, such as https://panel.example.com: the configured
// one, else the request's host.
func (v *Visit) Origin() string { return cmp.Or(v.site.origin, "https://"+v.R.Host) }

// Redirect sends the visitor to another page of the site, which shows the notice if it is
// not nil.
func (v *Visit) Redirect(other string, notice *look.Notice) error {
	if notice != nil {
		if err := setNotice(v.W, *notice); err != nil {
			return err
		}
	}
	if v.ByHTMX() {
		// htmx would follow a redirect and insert the whole page into the block.
		v.W.Header().Set("Hx-Redirect", other)
		v.W.WriteHeader(http.StatusNoContent)
		return nil
	}
	v.W.Header().Set("Location", other)
	v.W.WriteHeader(http.StatusSeeOther)
	return nil
}

// Download sets the headers of a file with that name. The caller writes it to v.W.
func (v *Visit) Download(name, contentType string) {
	v.W.Header().Set("Content-Type", contentType)
	v.W.Header().Set("Content-Disposition", `attachment; filename="`+fileName(name)+`"`)
}

// fileName replaces the characters that some file system refuses.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, name)
}

// InLanguage shows the page in this language, whoever the visitor is. It does nothing if there is no
// such language.
func (v *Visit) InLanguage(language string) {
	if slices.Contains(look.Languages, language) {
		v.language = language
	}
}

// Language returns the page's language: the visitor's, unless InLanguage set another.
func (v *Visit) Language() string {
	if v.language != "" {
		return v.language
	}
	chosen := v.Session.Person.Language
	if !v.SignedIn() {
		chosen = cookie(v.R, languageCookie)
	} else if v.Session.Stage == login.NeedsCode {
		chosen = cmp.Or(cookie(v.R, chosenLanguageCookie), chosen)
	}
	if slices.Contains(look.Languages, chosen) {
		return chosen
	}
	return askedLanguage(v.R.Header.Get("Accept-Language"))
}

// T translates an English text into the visitor's language, with args as for fmt.Sprintf.
func (v *Visit) T(english string, args ...any) string {
	return v.Look.T(v.Language(), english, args...)
}

// Success returns a notice that something was done, in the visitor's language.
func (v *Visit) Success(english string, args ...any) *look.Notice {
	return &look.Notice{Kind: "good", Text: v.T(english, args...)}
}

// Failure returns a notice that something was not done, in the visitor's language.
func (v *Visit) Failure(english string, args ...any) *look.Notice {
	return &look.Notice{Kind: "bad", Text: v.T(english, args...)}
}

// Info returns an informational notice in the visitor's language.
func (v *Visit) Info(english string, args ...any) *look.Notice {
	return &look.Notice{Kind: "info", Text: v.T(english, args...)}
}

// theme returns the visitor's choice of theme.
func (v *Visit) theme() string {
	if chosen := cookie(v.R, themeCookie); slices.Contains(themes, chosen) {
		return chosen
	}
	return auto
}

// frame returns what surrounds a page: the visitor's name, the navigation, notices.
func (v *Visit) frame() (look.Frame, error) {
	frame := look.Frame{Lang: v.Language(), Area: string(v.area()), Path: v.path, Now: v.Now}
	if theme := v.theme(); theme != auto {
		frame.Theme = theme
	}
	if v.area() == Docs {
		frame.Lang = look.English
		return frame, nil
	}
	if !v.ByHTMX() {
		frame.Notice = cmp.Or(v.notice, takeNotice(v.W, v.R))
	}
	if v.singleLayout || !v.SignedIn() || v.Session.Stage != login.Complete {
		frame.Area = string(Account)
		frame.Unfinished = v.SignedIn() && v.Session.Stage != login.Complete
		return frame, nil
	}
	person := v.Session.Person
	frame.Person, frame.Suspended, frame.Allowed, frame.Named = person.Name, v.suspended(), v.May, v.Who
	if person.OperatorID != 0 && v.site.operators != nil {
		operator, err := v.site.operators.Operator(v.Context(), person.OperatorID)
		if err != nil {
			return frame, err
		}
		frame.Operator = operator.Name
	}
	if v.site.maintenance != nil && !v.ByHTMX() {
		var err error
		if frame.Maintenance, err = v.site.maintenance(v.Context()); err != nil {
			return frame, err
		}
	}
	frame.Changes = v.changesText()
	frame.Nav, frame.Here = v.navigation()
	frame.Shortcuts = v.shortcuts()
	if search := home[v.area()] + "search"; v.May(http.MethodGet, search) {
		frame.Search = search
		if v.path == search {
			frame.Searched, frame.Here = v.Query("q"), ""
		}
	}
	return frame, nil
}

// area returns the area whose layout a page has: the route's own, except that a signed-in
// visitor sees account pages and error pages in the layout of their panel or console.
func (v *Visit) area() Area {
	switch {
	case v.route != nil && v.route.Area != Account:
		return v.route.Area
	case !v.SignedIn() || v.Session.Stage != login.Complete:
		return Account
	case v.Session.Person.Realm == login.Staff:
		return Console
	}
	return Panel
}

// shortcuts returns the pages of the area that have keys and that the visitor may use.
func (v *Visit) shortcuts() (list []look.Shortcut) {
	for i := range v.site.table.routes {
		r := &v.site.table.routes[i]
		if r.Keys != "" && r.Area == v.area() && v.May(r.Method, r.Path) {
			list = append(list, look.Shortcut{Keys: r.Keys, Href: r.Path, Text: cmp.Or(r.KeysText, r.Menu)})
		}
	}
	return list
}

// navigation returns the entries that the visitor may use, and the one of the current
// page.
func (v *Visit) navigation() (items []look.NavItem, here string) {
	area, path := v.area(), v.path
	// A form that is shown again belongs to the entry of its page.
	if v.route != nil {
		if page := v.site.table.formOf(v.route); page != nil && page.Under != "" {
			path = page.Under
		}
	}
	for i := range v.site.table.routes {
		r := &v.site.table.routes[i]
		if r.Menu == "" || r.Area != area || r.Allow.check(&v.Session) != permitted || v.suspended() && r.Changes() {
			continue
		}
		item := look.NavItem{Href: r.Path, Text: r.Menu, Icon: r.Icon}
		if v.site.badges != nil {
			item.Badge = v.site.badges(v, r.Path)
		}
		items = append(items, item)
		// An area's first page is a prefix of all others, so the longest path wins.
		if (path == r.Path || strings.HasPrefix(path, strings.TrimSuffix(r.Path, "/")+"/")) && len(r.Path) > len(here) {
			here = r.Path
		}
	}
	return items, here
}
