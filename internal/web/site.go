// Package web is the server of pages: it finds the route, knows who is asking,
// holds that against the route's rule, and renders what the route has to show. It
// has the pages by which people sign in and look after their own account; what an
// operator's people and the MSO's staff do beyond that is panel's and console's.
// It never sees a store, and takes no API key.
package web

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/internal/web/look"
)

//go:embed pages parts words
var ownPages embed.FS

// OperatorNames tells whose world a page shows.
type OperatorNames interface {
	Operator(ctx context.Context, id int64) (subscription.Operator, error)
}

// Config is what a Site is made of. Login, Now and Pages are required.
type Config struct {
	Login *login.Service
	Now   func() time.Time
	// Routes are those of panel and console; the site has its own besides. Pages
	// are what they show, from ReadPages.
	Routes []Route
	Pages  *look.Look
	// Operators names operators at the head of their pages.
	Operators OperatorNames
	// Badges counts what waits behind an item of the navigation; nil counts nothing.
	Badges func(v *Visit, path string) int
	// Maintenance is what stands at the head of every page while maintenance mode is
	// on: nil while it is off. Without it, it is never on.
	Maintenance func(context.Context) (*look.Maintenance, error)

	// Origin is where people reach the pages, such as https://panel.example.com, for passkeys;
	// empty takes the host that a request names.
	Origin string

	Proxies access.TrustedProxies
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	// Security is where refused visits are told; nil tells nobody.
	Security *telemetry.Security
}

// Site answers for every page.
type Site struct {
	login     *login.Service
	now       func() time.Time
	look      *look.Look
	static    http.Handler
	table     *table
	operators OperatorNames
	badges    func(*Visit, string) int
	maintains func(context.Context) (*look.Maintenance, error)
	origin    string
	proxies   access.TrustedProxies
	crossSite *http.CrossOriginProtection
	log       *slog.Logger
	metrics   *telemetry.Metrics
	security  *telemetry.Security
}

// ReadPages reads the site's own pages and those of others, or says what is wrong with
// one of them. Sites may share what it returns.
func ReadPages(others ...fs.FS) (*look.Look, error) {
	pages, err := look.Load(slices.Concat([]fs.FS{ownPages}, others)...)
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	return pages, nil
}

// New returns the site, or what is wrong with its routes.
func New(config Config) (*Site, error) {
	s := &Site{
		login: config.Login, now: config.Now, look: config.Pages, static: look.Static(), operators: config.Operators, badges: config.Badges,
		maintains: config.Maintenance, origin: config.Origin,
		proxies: config.Proxies, crossSite: http.NewCrossOriginProtection(), log: config.Log, metrics: config.Metrics, security: config.Security,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.metrics == nil {
		s.metrics = telemetry.NewMetrics()
	}
	var err error
	if s.table, err = newTable(slices.Concat(s.doorRoutes(), s.accountRoutes(), s.factorRoutes(), config.Routes)); err != nil {
		return nil, err
	}
	return s, nil
}

// Routes are all there are, the site's own included, for whoever checks them.
func (s *Site) Routes() []Route { return slices.Clone(s.table.routes) }

// Owns reports whether a path is a page's rather than the API's.
func (s *Site) Owns(path string) bool { return owned(path) }

func owned(path string) bool {
	switch path {
	case "/", "/sign-in", "/sign-out", "/step-up", "/account", "/panel", "/console", "/favicon.ico":
		return true
	}
	return slices.ContainsFunc(
		[]string{"/sign-in/", "/account/", "/panel/", "/console/", "/static/"},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// ServeHTTP answers one request and writes one line about it.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := s.begin(w, r)
	protect(v.W.Header())
	v.W.Header().Set("X-Request-Id", v.RequestID)
	cause := s.contained(v, s.serve)
	if cause != nil {
		if failed := s.contained(v, func(v *Visit) error { return v.fail(cause) }); failed != nil {
			cause = errors.Join(cause, failed)
			v.failPlainly()
		}
	}
	s.record(v, cause)
}

func (s *Site) begin(w http.ResponseWriter, r *http.Request) *Visit {
	a := &answer{ResponseWriter: w}
	v := &Visit{
		W: a, R: r, Look: s.look, Now: s.now(), RequestID: telemetry.NewRequestID(),
		site: s, method: r.Method, path: r.URL.EscapedPath(), watch: telemetry.StartStopwatch(), answer: a,
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // one that cannot be read is nobody's
	defer func() { v.noteVisitor() }()
	v.Address = s.proxies.Caller(peer.Addr().Unmap().WithZone(""), r.Header["X-Forwarded-For"])
	return v
}

// contained keeps a panic to the visit it happened in.
func (s *Site) contained(v *Visit, do func(*Visit) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value: value, stack: debug.Stack()}
		}
	}()
	return do(v)
}

// serve takes a visit through the checks, in their order.
func (s *Site) serve(v *Visit) error {
	if strings.HasPrefix(v.path, "/static/") || v.path == "/favicon.ico" {
		return s.serveStatic(v)
	}
	if err := s.recognise(v); err != nil {
		return err
	}
	route, values, allow := s.table.find(v.R.Method, v.path)
	switch {
	case route != nil:
	case len(allow) > 0:
		v.W.Header().Set("Allow", strings.Join(allow, ", "))
		return problem(http.StatusMethodNotAllowed, look.Word("This address does not take that kind of request."))
	case slices.Contains([]string{"/panel", "/console", "/account"}, v.path):
		return v.See(v.path+"/", nil)
	default:
		return errNoPage
	}
	v.route, v.asked = route, route
	for name, value := range values {
		v.R.SetPathValue(name, value)
	}
	// A form on somebody else's page, posted here with our visitor's cookie.
	if err := s.crossSite.Check(v.R); err != nil {
		v.LogRefused("cross_site_refused", "", "")
		return problem(http.StatusForbidden, look.Word("This came from another site and was not done.")).because(err)
	}
	if err := s.admit(v); err != nil || v.answer.begun() {
		return err
	}
	err := route.Handle(v)
	if errors.Is(err, admin.ErrStepUp) && !v.answer.begun() {
		return v.askToStepUp()
	}
	return err
}

// admit holds the visit against its route's rule, reads the form, and sees to a
// step-up. If the visitor has to go elsewhere first, that is answered.
func (s *Site) admit(v *Visit) error {
	switch v.route.Who.judge(v.session()) {
	case refused:
		v.LogRefused("access_refused", "role", "")
		return errNotYours
	case signIn:
		return v.See(returning("/sign-in", v.comeback()), nil)
	case finish:
		return v.See(nextStep(v.Session.Stage), nil)
	}
	if v.suspended() && v.route.Changes() {
		v.LogRefused("access_refused", "operator suspended", "")
		return errSuspended
	}
	if err := v.readForm(); err != nil {
		return err
	}
	if v.route.StepUp && v.Session.Stage == login.Whole && !v.Session.Fresh(v.Now) {
		return v.askToStepUp()
	}
	return nil
}

// suspended reports whether the visitor's operator is suspended. The session was read
// with this request, so that a suspension holds from the next request on.
func (v *Visit) suspended() bool { return v.SignedIn() && v.Session.Person.OperatorSuspended }

// May reports whether the visitor may use the route of this method and path, which has
// its {name} segments as the route does: a page shows no button that would be refused.
func (v *Visit) May(method, path string) bool {
	for i := range v.site.table.routes {
		if r := &v.site.table.routes[i]; r.Method == method && r.Path == path {
			return r.Who.judge(v.session()) == permitted && !(v.suspended() && r.Changes())
		}
	}
	return false
}

// session is the visitor's, as rules want it.
func (v *Visit) session() *login.Session {
	if !v.SignedIn() {
		return nil
	}
	return &v.Session
}

// recognise finds out whose visit it is. A session that has ended, or that there
// never was, makes a stranger of the visitor.
func (s *Site) recognise(v *Visit) error {
	v.token = cookie(v.R, sessionCookie)
	if v.token == "" {
		return nil
	}
	session, err := s.login.Resume(v.Context(), v.token)
	if errors.Is(err, login.ErrSignedOut) {
		v.token = ""
		dropCookie(v.W, sessionCookie)
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up a session: %w", err)
	}
	v.Session = session
	if session.Stage == login.Whole {
		access.Authenticated(v.Context())
	}
	v.noteVisitor()
	return nil
}

// nextStep is where somebody whose sign-in stands at a stage goes on.
func nextStep(stage login.Stage) string {
	switch stage {
	case login.NeedsCode:
		return "/sign-in/code"
	case login.NeedsTOTP:
		return "/account/second-factor"
	case login.NeedsPassword:
		return "/account/password"
	}
	return "/"
}

// comeback is the page a visitor wanted, or the page whose form was posted.
func (v *Visit) comeback() string {
	if v.R.Method != http.MethodPost {
		return v.R.URL.RequestURI()
	}
	return v.site.table.formPath(v.route, v.R)
}

// returning is an address that remembers where to go from there.
func returning(path, to string) string {
	if to == "" || to == "/" {
		return path
	}
	return path + "?" + url.Values{"to": {to}}.Encode()
}

// within is an address to go to next, if it is one of our pages: an address in a
// link must not lead a visitor from our sign-in to somebody else's site.
func (s *Site) within(to string) string {
	at, err := url.Parse(to)
	if err != nil || at.Scheme != "" || at.Host != "" || at.User != nil || !strings.HasPrefix(to, "/") ||
		strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	route, _, _ := s.table.find(http.MethodGet, at.EscapedPath())
	if route == nil {
		return "/"
	}
	return to
}

func unescape(segment string) (string, bool) {
	value, err := url.PathUnescape(segment)
	return value, err == nil
}

// serveStatic serves what pages are made of, which is the same for everybody.
func (s *Site) serveStatic(v *Visit) error {
	if v.R.Method != http.MethodGet && v.R.Method != http.MethodHead {
		v.W.Header().Set("Allow", "GET")
		return problem(http.StatusMethodNotAllowed, look.Word("This address does not take that kind of request."))
	}
	v.W.Header().Del("Cache-Control") // its own handler knows better
	s.static.ServeHTTP(v.W, v.R)
	return nil
}
