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

// Visit is one request to a page, by somebody whom its route's rule let in.
type Visit struct {
	W http.ResponseWriter
	R *http.Request
	// Session is whose visit it is; zero where anyone may come and nobody is
	// signed in (SignedIn tells).
	Session login.Session
	Look    *look.Look
	Now     time.Time
	// Address is the visitor's, which behind a proxy is not the connection's.
	Address   netip.Addr
	RequestID string
	// Status is what Show and ShowPart answer with; 200 unless a handler sets it.
	Status int

	site   *Site
	route  *Route // nil where there is no such page
	asked  *Route // the one that was asked for, where another page is shown in its place
	method string
	path   string // as it was sent, without the query
	token  string
	watch  telemetry.Stopwatch
	filled url.Values
	notice *look.Notice // shown on this page, rather than what the page before left
	atDoor bool         // shown at the door, whatever area the route is of
	answer *answer
}

// Context is the request's: it ends when the visitor hangs up. What moves money
// must not rely on it.
func (v *Visit) Context() context.Context { return v.R.Context() }

// SignedIn reports whether somebody has signed in, wholly or in part.
func (v *Visit) SignedIn() bool { return v.Session.ID != "" }

// Operator is the operator whose world the visitor may see. Every question of the
// panel to a store carries it; no page takes it from a form or an address.
func (v *Visit) Operator() int64 { return v.Session.Person.OperatorID }

// Actor is how the log of acts names the visitor.
func (v *Visit) Actor() string { return "web:" + v.Session.Person.Username }

// Elapsed is how long the visit has taken so far.
func (v *Visit) Elapsed() time.Duration { return v.watch.Elapsed() }

// Field is what was filled into a field of the posted form, without blanks around it.
func (v *Visit) Field(name string) string { return strings.TrimSpace(v.R.PostForm.Get(name)) }

// Query is a parameter of the address, without blanks around it.
func (v *Visit) Query(name string) string { return strings.TrimSpace(v.R.URL.Query().Get(name)) }

// Filled is what a form that is shown should have in a field: what the visitor
// had filled in before stepping up, or what was posted and refused, else standard.
func (v *Visit) Filled(name, standard string) string {
	for _, values := range []url.Values{v.filled, v.R.PostForm} {
		if values.Has(name) {
			return values.Get(name)
		}
	}
	return standard
}

// FilledAll is what a form that is shown should have in fields of one name, such as
// check boxes; nil if it was not filled in before.
func (v *Visit) FilledAll(name string) []string {
	for _, values := range []url.Values{v.filled, v.R.PostForm} {
		if values.Has(name) {
			return values[name]
		}
	}
	return nil
}

// ByHTMX reports whether a script asked, which wants a part of a page.
func (v *Visit) ByHTMX() bool { return v.R.Header.Get("Hx-Request") == "true" }

// Show answers with a whole page.
func (v *Visit) Show(page string, data any) error {
	frame, err := v.frame()
	if err != nil {
		return err
	}
	return v.write(func(out *bytes.Buffer) error { return v.Look.Page(out, page, frame, data) })
}

// ShowPart answers with one block of a page, for a script that puts it in place.
func (v *Visit) ShowPart(page, block string, data any) error {
	frame, err := v.frame()
	if err != nil {
		return err
	}
	return v.write(func(out *bytes.Buffer) error { return v.Look.Fragment(out, page, block, frame, data) })
}

// write renders first and sends then, so that a page that cannot be rendered is
// an error and not half a page.
func (v *Visit) write(render func(*bytes.Buffer) error) error {
	var out bytes.Buffer
	if err := render(&out); err != nil {
		return err
	}
	v.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.Status != 0 {
		v.W.WriteHeader(v.Status)
	}
	_, _ = v.W.Write(out.Bytes()) // whoever hung up does not want to know
	return nil
}

// See sends the visitor to another page of the site, which shows the notice if
// there is one.
func (v *Visit) See(other string, notice *look.Notice) error {
	if notice != nil {
		if err := keepNotice(v.W, *notice); err != nil {
			return err
		}
	}
	if v.ByHTMX() {
		// A script would follow a redirect and put the whole page into its part.
		v.W.Header().Set("Hx-Redirect", other)
		v.W.WriteHeader(http.StatusNoContent)
		return nil
	}
	v.W.Header().Set("Location", other)
	v.W.WriteHeader(http.StatusSeeOther)
	return nil
}

// Download answers with a file under that name. The caller writes it to v.W.
func (v *Visit) Download(name, contentType string) {
	v.W.Header().Set("Content-Type", contentType)
	v.W.Header().Set("Content-Disposition", `attachment; filename="`+fileName(name)+`"`)
}

// fileName keeps of a name what every system takes.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, name)
}

// Language is the one the visitor reads.
func (v *Visit) Language() string {
	chosen := v.Session.Person.Language
	if !v.SignedIn() {
		chosen = cookie(v.R, languageCookie)
	}
	if slices.Contains(languages, chosen) {
		return chosen
	}
	return askedLanguage(v.R.Header.Get("Accept-Language"))
}

// T says an English text in the visitor's language, with what is to be put into it.
func (v *Visit) T(english string, args ...any) string {
	return v.Look.T(v.Language(), english, args...)
}

// Good is a notice of something that was done, in the visitor's language.
func (v *Visit) Good(english string, args ...any) *look.Notice {
	return &look.Notice{Kind: "good", Text: v.T(english, args...)}
}

// Bad is a notice of something that was not done, in the visitor's language.
func (v *Visit) Bad(english string, args ...any) *look.Notice {
	return &look.Notice{Kind: "bad", Text: v.T(english, args...)}
}

// Info is a notice of something worth knowing, in the visitor's language.
func (v *Visit) Info(english string, args ...any) *look.Notice {
	return &look.Notice{Kind: "info", Text: v.T(english, args...)}
}

// theme is how the visitor wants pages to look.
func (v *Visit) theme() string {
	if chosen := cookie(v.R, themeCookie); slices.Contains(themes, chosen) {
		return chosen
	}
	return auto
}

// frame is what surrounds every page: who is here, where they are, where they can go.
func (v *Visit) frame() (look.Frame, error) {
	frame := look.Frame{Lang: v.Language(), Area: string(v.area()), Path: v.path, Now: v.Now}
	if theme := v.theme(); theme != auto {
		frame.Theme = theme
	}
	if !v.ByHTMX() {
		frame.Notice = cmp.Or(v.notice, takeNotice(v.W, v.R))
	}
	if v.atDoor || !v.SignedIn() || v.Session.Stage != login.Whole {
		frame.Area = string(Door)
		return frame, nil
	}
	person := v.Session.Person
	frame.Person, frame.Suspended, frame.Allowed = person.Name, v.suspended(), v.May
	if person.OperatorID != 0 && v.site.operators != nil {
		operator, err := v.site.operators.Operator(v.Context(), person.OperatorID)
		if err != nil {
			return frame, err
		}
		frame.Operator = operator.Name
	}
	if v.site.maintains != nil && !v.ByHTMX() {
		var err error
		if frame.Maintenance, err = v.site.maintains(v.Context()); err != nil {
			return frame, err
		}
	}
	frame.Changes = v.changesText()
	frame.Nav, frame.Here = v.navigation()
	return frame, nil
}

// area is whose layout a page has: its route's own, but for the account and for
// pages that do not exist, which look like the rest of what the visitor knows.
func (v *Visit) area() Area {
	switch {
	case v.route != nil && v.route.Area != Door:
		return v.route.Area
	case !v.SignedIn() || v.Session.Stage != login.Whole:
		return Door
	case v.Session.Person.Realm == login.Staff:
		return Console
	}
	return Panel
}

// navigation lists the pages that the visitor may use, and which one this is or
// lies beneath.
func (v *Visit) navigation() (items []look.NavItem, here string) {
	area, path := v.area(), v.path
	// A form that is shown again stands where its page does.
	if v.route != nil {
		if page := v.site.table.formOf(v.route); page != nil && page.Under != "" {
			path = page.Under
		}
	}
	for i := range v.site.table.routes {
		r := &v.site.table.routes[i]
		if r.Menu == "" || r.Area != area || r.Who.judge(&v.Session) != permitted || v.suspended() && r.Changes() {
			continue
		}
		item := look.NavItem{Href: r.Path, Text: r.Menu, Icon: r.Icon}
		if v.site.badges != nil {
			item.Badge = v.site.badges(v, r.Path)
		}
		items = append(items, item)
		// An area's first page is above all others and beneath it lies everything,
		// so the longest address wins.
		if (path == r.Path || strings.HasPrefix(path, strings.TrimSuffix(r.Path, "/")+"/")) && len(r.Path) > len(here) {
			here = r.Path
		}
	}
	return items, here
}
