// Package web serves the pages: it finds the route, identifies the user by session,
// checks the route's rule and renders the page. It has the pages for signing in and for
// one's own account; packages panel and console have those of operators and of the
// MSO's staff. It never sees a store, and accepts no API key.
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

// OperatorNames looks up the operator that a page's header names.
type OperatorNames interface {
	Operator(ctx context.Context, id int64) (subscription.Operator, error)
}

// Config is what a Site is made of. Login, Now and Pages are required.
type Config struct {
	Login *login.Service
	Now   func() time.Time
	// Routes are those of panel and console, added to the site's own. Pages are their
	// templates, from ReadPages.
	Routes []Route
	Pages  *look.Look
	// Operators is for the operator's name in the header of its pages.
	Operators OperatorNames
	// Badges returns the number shown beside an item of the navigation; nil shows none.
	Badges func(v *Visit, path string) int
	// Maintenance returns the banner that every page shows while maintenance mode is on,
	// nil while it is off. Optional.
	Maintenance func(context.Context) (*look.Maintenance, error)

	// Origin is the pages' public origin, such as https://panel.example.com, for passkeys;
	// if empty, the request's host is used.
	Origin string

	Proxies access.TrustedProxies
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	// Security is the log of refused visits; nil for none.
	Security *telemetry.Security
	// Tracer records visits; nil for none.
	Tracer *telemetry.Tracer
}

// Site is the handler of every page.
type Site struct {
	login       *login.Service
	now         func() time.Time
	look        *look.Look
	static      http.Handler
	table       *table
	operators   OperatorNames
	badges      func(*Visit, string) int
	maintenance func(context.Context) (*look.Maintenance, error)
	origin      string
	proxies     access.TrustedProxies
	crossSite   *http.CrossOriginProtection
	log         *slog.Logger
	metrics     *telemetry.Metrics
	security    *telemetry.Security
	tracer      *telemetry.Tracer
}

// ReadPages parses the site's own page templates and those of others. Sites may share
// the result.
func ReadPages(others ...fs.FS) (*look.Look, error) {
	pages, err := look.Load(slices.Concat([]fs.FS{ownPages}, others)...)
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	return pages, nil
}

// New returns the site, or an error if a route is invalid.
func New(config Config) (*Site, error) {
	s := &Site{
		login: config.Login, now: config.Now, look: config.Pages, static: look.Static(), operators: config.Operators, badges: config.Badges,
		maintenance: config.Maintenance, origin: config.Origin,
		proxies: config.Proxies, crossSite: http.NewCrossOriginProtection(), log: config.Log, metrics: config.Metrics, security: config.Security,
		tracer: config.Tracer,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.metrics == nil {
		s.metrics = telemetry.NewMetrics()
	}
	var err error
	if s.table, err = newTable(slices.Concat(s.signInRoutes(), s.accountRoutes(), s.factorRoutes(), config.Routes)); err != nil {
		return nil, err
	}
	for _, route := range s.table.routes {
		s.metrics.ExpectResponses(route.Path, "500") // also before the first one: an alert rests on it
	}
	return s, nil
}

// Routes returns all routes, the site's own included, for tests.
func (s *Site) Routes() []Route { return slices.Clone(s.table.routes) }

// Owns reports whether a path belongs to the pages rather than to the API.
func (s *Site) Owns(path string) bool { return owned(path) }

func owned(path string) bool {
	switch path {
	case "/", "/sign-in", "/sign-out", "/step-up", "/account", "/panel", "/console", "/favicon.ico", "/docs", "/openapi.yaml", "/openapi.json":
		return true
	}
	return slices.ContainsFunc(
		[]string{"/sign-in/", "/account/", "/panel/", "/console/", "/docs/", "/static/", "/r/"},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// ServeHTTP answers one request and logs one line about it.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := s.begin(w, r)
	protect(v.W.Header())
	v.W.Header().Set("X-Request-Id", v.RequestID)
	cause := s.recovered(v, s.serve)
	if cause != nil {
		if failed := s.recovered(v, func(v *Visit) error { return v.fail(cause) }); failed != nil {
			cause = errors.Join(cause, failed)
			v.failPlainly()
		}
	}
	s.record(v, cause)
}

func (s *Site) begin(w http.ResponseWriter, r *http.Request) *Visit {
	rec := &responseRecorder{ResponseWriter: w}
	v := &Visit{
		W: rec, R: r, Look: s.look, Now: s.now(), RequestID: telemetry.NewRequestID(),
		site: s, method: r.Method, path: r.URL.EscapedPath(), watch: telemetry.StartStopwatch(), response: rec,
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // zero if it cannot be parsed
	if s.tracer != nil && !strings.HasPrefix(v.path, "/static/") {
		var ctx context.Context
		ctx, v.span = s.tracer.Request(r.Context(), r.Header)
		v.R = r.WithContext(ctx)
	}
	defer func() { v.setVisitor() }()
	v.Address = s.proxies.Caller(peer.Addr().Unmap().WithZone(""), r.Header["X-Forwarded-For"])
	return v
}

// recovered turns a panic into an error.
func (s *Site) recovered(v *Visit, do func(*Visit) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return do(v)
}

// serve runs the checks in order and calls the route's handler.
func (s *Site) serve(v *Visit) error {
	if strings.HasPrefix(v.path, "/static/") || v.path == "/favicon.ico" {
		return s.serveStatic(v)
	}
	if err := s.authenticate(v); err != nil {
		return err
	}
	route, values, allow := s.table.find(v.R.Method, v.path)
	switch {
	case route != nil:
	case len(allow) > 0:
		v.W.Header().Set("Allow", strings.Join(allow, ", "))
		return problem(http.StatusMethodNotAllowed, look.Text("This page does not accept that kind of request."))
	case slices.Contains([]string{"/panel", "/console", "/account"}, v.path):
		return v.Redirect(v.path+"/", nil)
	case v.path == "/docs/":
		return v.Redirect("/docs", nil)
	default:
		return errNoPage
	}
	v.route, v.asked = route, route
	for name, value := range values {
		v.R.SetPathValue(name, value)
	}
	// A form on another site, posted here with our visitor's cookie.
	if err := s.crossSite.Check(v.R); err != nil {
		v.LogRefused("cross_site_refused", "", "")
		return problem(http.StatusForbidden, look.Text("This request came from another site and was blocked.")).because(err)
	}
	if err := s.authorize(v); err != nil || v.response.begun() {
		return err
	}
	err := route.Handle(v)
	if errors.Is(err, admin.ErrStepUp) && !v.response.begun() {
		return v.askToStepUp()
	}
	return err
}

// authorize checks the route's rule, reads the form and asks for a step-up if the route
// needs one. It may write a response that sends the visitor elsewhere first.
func (s *Site) authorize(v *Visit) error {
	switch v.route.Allow.check(v.session()) {
	case refused:
		v.LogRefused("access_refused", "role", "")
		return errNotYours
	case signIn:
		return v.Redirect(withReturn("/sign-in", v.returnPath()), nil)
	case finish:
		return v.Redirect(nextStep(v.Session.Stage), nil)
	}
	if v.suspended() && v.route.Changes() {
		v.LogRefused("access_refused", "operator suspended", "")
		return errSuspended
	}
	if err := v.readForm(); err != nil {
		return err
	}
	if v.route.StepUp && v.Session.Stage == login.Complete && !v.Session.Fresh(v.Now) {
		return v.askToStepUp()
	}
	return nil
}

// suspended reports whether the visitor's operator is suspended. The session is read
// with every request, so a suspension applies from the next request on.
func (v *Visit) suspended() bool { return v.SignedIn() && v.Session.Person.OperatorSuspended }

// May reports whether the visitor may use the route with this method and path pattern.
// Pages use it to leave out buttons that would be refused.
func (v *Visit) May(method, path string) bool {
	for i := range v.site.table.routes {
		if r := &v.site.table.routes[i]; r.Method == method && r.Path == path {
			return r.Allow.check(v.session()) == permitted && !(v.suspended() && r.Changes())
		}
	}
	return false
}

// session returns the visitor's session; nil if not signed in.
func (v *Visit) session() *login.Session {
	if !v.SignedIn() {
		return nil
	}
	return &v.Session
}

// authenticate looks up the visit's session. A session that has ended, or never existed,
// makes the visitor anonymous.
func (s *Site) authenticate(v *Visit) error {
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
	if session.Stage == login.Complete {
		access.Authenticated(v.Context())
	}
	v.setVisitor()
	return nil
}

// nextStep returns the page that continues a sign-in at a stage.
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

// returnPath returns the page that was requested, or the page whose form was posted.
func (v *Visit) returnPath() string {
	if v.R.Method != http.MethodPost {
		return v.R.URL.RequestURI()
	}
	return v.site.table.formPath(v.route, v.R)
}

// withReturn adds the page to return to as a query parameter.
func withReturn(path, to string) string {
	if to == "" || to == "/" {
		return path
	}
	return path + "?" + url.Values{"to": {to}}.Encode()
}

// localPath returns to if it is one of our pages, else "/": a crafted link must not
// redirect a visitor from our sign-in to another site.
func (s *Site) localPath(to string) string {
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

// serveStatic serves scripts, styles and images.
func (s *Site) serveStatic(v *Visit) error {
	if v.R.Method != http.MethodGet && v.R.Method != http.MethodHead {
		v.W.Header().Set("Allow", "GET")
		return problem(http.StatusMethodNotAllowed, look.Text("This page does not accept that kind of request."))
	}
	v.W.Header().Del("Cache-Control") // the static handler sets its own
	s.static.ServeHTTP(v.W, v.R)
	return nil
}
