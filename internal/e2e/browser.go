package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/web"
)

// Browser requests pages as a browser without JavaScript does: it keeps cookies and sends
// forms. It does not follow redirects.
type Browser struct {
	Env  *Env
	t    testing.TB
	HTTP *http.Client
	// password is the one last used to sign in.
	password string
}

// Page is a response to a Browser.
type Page struct {
	Status   int
	Header   http.Header
	Body     string
	Location string
}

// Browser returns a browser that is not signed in.
func (e *Env) Browser(t testing.TB) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Browser{Env: e, t: t, HTTP: &http.Client{
		Transport: e.HTTP.Transport, Jar: jar, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// URL returns the service's address with a path.
func (e *Env) URL(path string) string { return strings.TrimSuffix(e.Demo.BaseURL, "/api/v1") + path }

// Get requests a page.
func (b *Browser) Get(path string) Page {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.Env.URL(path), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.Send(request)
}

// Post sends a form as the service's own pages do.
func (b *Browser) Post(path string, form url.Values) Page {
	b.t.Helper()
	request := b.Form(path, form)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.Send(request)
}

// Form builds the request of a form, without the headers of a same-origin page.
func (b *Browser) Form(path string, form url.Values) *http.Request {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.Env.URL(path), strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return request
}

// Send sends a request and checks the headers that every page must have.
func (b *Browser) Send(request *http.Request) Page {
	b.t.Helper()
	response, err := b.HTTP.Do(request)
	if err != nil {
		b.t.Fatalf("%s %s: %v", request.Method, request.URL.Path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	got := Page{response.StatusCode, response.Header, string(body), response.Header.Get("Location")}
	checkSecurityHeaders(b.t, request, got)
	return got
}

// FindInlineCode returns an inline script, event handler or style, which the pages' content
// security policy forbids; empty if there is none. It runs on every page: under the race
// detector a regular expression would take longer than the page itself.
func FindInlineCode(body string) string {
	body = strings.Join(strings.Fields(strings.ToLower(body)), " ")
	for _, forbidden := range []string{"<style", " style=", "javascript:"} {
		if strings.Contains(body, forbidden) {
			return forbidden
		}
	}
	for rest := body; ; {
		_, after, found := strings.Cut(rest, "<script")
		if !found {
			break
		}
		_, inside, _ := strings.Cut(after, ">")
		if !strings.HasPrefix(inside, "<") {
			return "<script>" + inside[:min(len(inside), 40)]
		}
		rest = inside
	}
	for rest := body; ; {
		_, after, found := strings.Cut(rest, " on")
		if !found {
			return ""
		}
		if event := strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyz"); len(event) < len(after) && strings.HasPrefix(event, "=") {
			return " on" + after[:min(len(after), 40)]
		}
		rest = after
	}
}

// styleNonce finds the nonce in the policy of the API reference.
var styleNonce = regexp.MustCompile(`'nonce-[A-Z2-7]{26}'`)

// checkSecurityHeaders checks the headers that every page must have, and that it has no
// inline code.
func checkSecurityHeaders(t testing.TB, request *http.Request, got Page) {
	t.Helper()
	what := request.Method + " " + request.URL.Path
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
			"manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"X-Content-Type-Options":     "nosniff",
		"Referrer-Policy":            "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin",
		"Cache-Control":              "no-store",
		"Strict-Transport-Security":  "max-age=31536000",
	} {
		switch path := request.URL.Path; {
		case name == "Cache-Control" && strings.HasPrefix(path, "/static/"):
			continue
		case name == "Cache-Control" && (strings.HasPrefix(path, "/openapi.") || path == "/docs/after-each-answer.svg") && got.Status < http.StatusBadRequest:
			want = "no-cache"
		case name == "Referrer-Policy" && strings.HasPrefix(path, "/r/"):
			want = "no-referrer"
		case name == "Content-Security-Policy" && strings.HasSuffix(path, ".svg") && got.Status < http.StatusBadRequest:
			want = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
		case name == "Content-Security-Policy" && path == "/docs" && got.Status == http.StatusOK:
			want = strings.Replace(want, "style-src 'self'", "style-src 'self' "+styleNonce.FindString(got.Header.Get(name)), 1) + "; worker-src blob:"
		}
		if got.Header.Get(name) != want {
			t.Errorf("%s: %s is %q; want %q", what, name, got.Header.Get(name), want)
		}
	}
	if got.Header.Get("Permissions-Policy") == "" || !strings.HasPrefix(got.Header.Get("X-Request-Id"), "req_") {
		t.Errorf("%s: permissions policy %q, request id %q", what, got.Header.Get("Permissions-Policy"), got.Header.Get("X-Request-Id"))
	}
	if strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
		if found := FindInlineCode(got.Body); found != "" {
			t.Errorf("%s: the page has %q, which its content security policy forbids", what, found)
		}
	}
}

// Shows checks the status and that the page contains these texts.
func (p Page) Shows(t testing.TB, status int, want ...string) Page {
	t.Helper()
	if p.Status != status {
		t.Errorf("status %d (to %q); want %d\n%s", p.Status, p.Location, status, p.Body)
	}
	for _, text := range want {
		if !strings.Contains(p.Body, text) {
			t.Errorf("the page does not contain %q:\n%s", text, p.Body)
		}
	}
	if strings.Contains(p.Body, "%!") {
		t.Errorf("the page contains a text with a wrong number of arguments:\n%s", p.Body)
	}
	return p
}

// RedirectsTo checks that the response is a redirect to a path.
func (p Page) RedirectsTo(t testing.TB, where string) Page {
	t.Helper()
	if p.Status != http.StatusSeeOther || p.Location != where {
		t.Errorf("status %d to %q; want 303 to %q\n%s", p.Status, p.Location, where, p.Body)
	}
	return p
}

// SignIn sends a user name and a password; a second factor may be left to do.
func (b *Browser) SignIn(username, password string) Page {
	b.t.Helper()
	b.password = password
	return b.Post("/sign-in", url.Values{"username": {username}, "password": {password}})
}

// SignIn returns a browser in which a login without a second factor is signed in.
func (e *Env) SignIn(t testing.TB, as demo.Login) *Browser {
	t.Helper()
	b := e.Browser(t)
	b.SignIn(as.Username, as.Password).RedirectsTo(t, "/")
	return b
}

// NewLogin creates a login whose password need not be changed at the first sign-in.
func (e *Env) NewLogin(t testing.TB, username string, role login.Role, operatorID int64) demo.Login {
	t.Helper()
	made := demo.Login{Username: username, Password: login.NewPassword()}
	if _, _, err := e.Admin.CreateLogin(context.Background(), admin.NewLogin{
		Username: username, Name: "Name of " + username, Role: role, OperatorID: operatorID, Password: made.Password,
	}); err != nil {
		t.Fatal(err)
	}
	return made
}

// TOTPKeyPattern finds the key in the page that offers it.
var TOTPKeyPattern = regexp.MustCompile(`secret=([A-Z2-7]+)`)

// EnrolTOTP sets up an authenticator app as the second factor, and returns its key and the
// page with the recovery codes.
func (b *Browser) EnrolTOTP() (key string, codes Page) {
	b.t.Helper()
	offer := b.Post("/account/second-factor/offer", url.Values{"password": {b.password}}).Shows(b.t, http.StatusOK, "<svg")
	found := TOTPKeyPattern.FindStringSubmatch(offer.Body)
	if found == nil {
		b.t.Fatalf("the page offers no key:\n%s", offer.Body)
	}
	form := offer.HiddenFields()
	form.Set("code", TOTPCode(b.t, found[1], b.Env.Now()))
	return found[1], b.Post("/account/second-factor", form)
}

// TOTPCode returns the code of a key at a time (RFC 6238). It is implemented independently of
// the product.
func TOTPCode(t testing.TB, key string, at time.Time) string {
	t.Helper()
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, secret)
	_ = binary.Write(mac, binary.BigEndian, at.Unix()/30)
	sum := mac.Sum(nil)
	from := sum[19] & 15
	return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[from:])&0x7fffffff)%1_000_000)
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// HiddenFields returns the hidden fields of the page's form.
func (p Page) HiddenFields() url.Values {
	form := url.Values{}
	for _, field := range hiddenField.FindAllStringSubmatch(p.Body, -1) {
		form.Set(field[1], field[2])
	}
	return form
}

// DemoKeys returns the API keys of the demo's operator.
func (e *Env) DemoKeys(t *testing.T) []access.Credential {
	t.Helper()
	keys, err := e.Admin.Keys(t.Context(), e.Demo.LCOID)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// OperatorPage returns the path of a console page of the demo's operator.
func (e *Env) OperatorPage(page string) string {
	return "/console/operators/" + strconv.FormatInt(e.Demo.LCOID, 10) + page
}

// NewSubscribers activates n subscribers of the demo's operator.
func (e *Env) NewSubscribers(n int) (me Caller, ids []string) {
	e.TB.Helper()
	me = e.LiftRateLimit(e.DemoCaller())
	for i := range n {
		ids = append(ids, e.Activate(me, fmt.Sprintf("98%08d", i), "BASIC-1"))
	}
	return me, ids
}

// Upload posts a form with a file in it.
func (b *Browser) Upload(path, field, name, content string) Page {
	b.t.Helper()
	var body strings.Builder
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile(field, name)
	if err != nil {
		b.t.Fatal(err)
	}
	_, _ = part.Write([]byte(content))
	_ = form.Close()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.Env.URL(path), strings.NewReader(body.String()))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", form.FormDataContentType())
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.Send(request)
}

// sampleRoute is a route pattern, up to a wildcard, and a path that matches it.
type sampleRoute struct{ Pattern, Path string }

// SampleRoutes returns existing objects of the demo's operator for the wildcards of the
// routes. The first is a subscriber.
func (e *Env) SampleRoutes(t testing.TB, panel *Browser) []sampleRoute {
	t.Helper()
	ctx, id := context.Background(), e.Demo.LCOID
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	subscribers, err := e.Node.Store.ListSubscribers(ctx, report.SubscriberQuery{OperatorID: id, Source: report.FromExpiry, Status: report.Active, Now: e.Now(), Limit: 100})
	must(err)
	operations, err := e.Node.Store.PageOperations(ctx, report.OperationQuery{OperatorID: id, Limit: 1})
	must(err)
	keys, err := e.Admin.Keys(ctx, id)
	must(err)
	e.Send(Call{As: e.DemoCaller(), Path: "/api/v1/balance"})
	requests, err := e.Node.Requests.Search(ctx, id, requestlog.Query{Limit: 1})
	must(err)
	staff, err := e.Admin.LoginNamed(ctx, e.Demo.Admin.Username)
	must(err)
	owner, err := e.Admin.LoginNamed(ctx, e.Demo.Operator.Username)
	must(err)
	form := url.Values{"within": {"7"}, "kind": {"renew"}}
	for _, s := range subscribers {
		form.Add("subscriber", s.ID)
	}
	job := panel.Post("/panel/bulk", form)
	if !strings.HasPrefix(job.Location, "/panel/bulk/") {
		t.Fatalf("start a bulk renewal: status %d, to %q\n%s", job.Status, job.Location, job.Body)
	}
	operator := fmt.Sprintf("/console/operators/%d", id)
	return append([]sampleRoute{
		{"/panel/subscribers/{id}", "/panel/subscribers/" + subscribers[len(subscribers)/2].ID},
		{"/panel/transactions/{id}", "/panel/transactions/" + operations[0].ID},
		{"/panel/bulk/{id}", job.Location},
		{"/panel/requests/{id}", "/panel/requests/" + requests.Entries[0].ID},
		{"/panel/keys/{key}", fmt.Sprintf("/panel/keys/%d", keys[0].ID)},
		{"/panel/people/{login}", fmt.Sprintf("/panel/people/%d", owner.ID)},
		{"/console/operators/{id}", operator},
		{operator + "/keys/{key}", fmt.Sprintf("%s/keys/%d", operator, keys[0].ID)},
		{operator + "/logins/{login}", fmt.Sprintf("%s/logins/%d", operator, owner.ID)},
		{"/console/staff/{login}", fmt.Sprintf("/console/staff/%d", staff.ID)},
		{"/console/catalogue/plans/{id}", "/console/catalogue/plans/BASIC-1"},
		{"/console/review/operations/{id}", "/console/review/operations/" + operations[0].ID},
		{"/console/audit-log/{entry}", "/console/audit-log/2"},
	}, e.samplePayments(t)...)
}

// ListQueries returns list pages with cursors, searches and filters, among them some that
// match nothing.
func (e *Env) ListQueries(subscriber string) map[web.Area][]string {
	day := func(back int) string { return e.Now().AddDate(0, 0, -back).Format(time.DateOnly) }
	after := func(p report.Cursor) string { return url.QueryEscape(p.String()) }
	long := e.Now().AddDate(0, 0, -60).UnixMilli()
	return map[web.Area][]string{
		web.Panel: {
			"/panel/?figures=yes",
			"/panel/search?q=s", "/panel/search?q=asha", "/panel/search?q=provider-1", "/panel/search?q=provider-1&provider=yes", "/panel/search?q=26-27/999999", "/panel/search?q=631245999999",
			"/panel/subscribers?after=" + after(report.Cursor{Text: "lakshmi devi", ID: "1"}),
			"/panel/subscribers?q=s", "/panel/subscribers?q=sha", "/panel/subscribers?q=asha+sh", "/panel/subscribers?q=zzz",
			"/panel/subscribers?q=" + subscriber[:3], "/panel/subscribers?q=" + subscriber,
			"/panel/subscribers?show=active", "/panel/subscribers?show=3", "/panel/subscribers?show=7", "/panel/subscribers?show=15",
			"/panel/subscribers?sort=-name", "/panel/subscribers?sort=expiry", "/panel/subscribers?sort=-expiry", "/panel/subscribers?sort=plan", "/panel/subscribers?sort=-price",
			"/panel/subscribers?show=active&sort=-name", "/panel/subscribers?show=expired&sort=price", "/panel/subscribers?plan=BASIC-1", "/panel/subscribers?plan=BASIC-1&show=expired&sort=-name",
			"/panel/subscribers?area=ward+7", "/panel/subscribers?area=ward+7&sort=-expiry", "/panel/subscribers?area=centre&show=active", "/panel/subscribers?area=centre&plan=FAMILY-1&sort=name",
			"/panel/subscribers/list/due?within=0&ended=none", "/panel/subscribers/list/due?within=30&ended=90", "/panel/subscribers/list/due?area=ward+7&within=30&ended=90",
			"/panel/subscribers/list/due?area=centre",
			"/panel/subscribers?show=expired", "/panel/subscribers?show=review", "/panel/subscribers?show=active&q=ra", "/panel/subscribers?show=expired&q=ra",
			"/panel/subscribers?show=15&after=" + after(report.Cursor{Number: e.Now().AddDate(0, 0, 9).UnixMilli(), ID: "1"}),
			"/panel/bulk?within=7", "/panel/bulk?within=expired",
			"/panel/statement?order=oldest", "/panel/statement?from=" + day(89) + "&until=" + day(0), "/panel/statement?from=" + day(60) + "&until=" + day(31),
			"/panel/statement?from=" + day(89) + "&after=" + after(report.Cursor{Number: 200}),
			"/panel/statement?from=" + day(89) + "&side=credit", "/panel/statement?from=" + day(89) + "&q=nothing", "/panel/statement?from=" + day(89) + "&q=renewal",
			"/panel/transactions?after=" + after(report.Cursor{Number: long, ID: "CX"}),
			"/panel/transactions?state=failed", "/panel/transactions?state=needs_review", "/panel/transactions?state=processing",
			"/panel/transactions?kind=advance_renew", "/panel/transactions?channel=web", "/panel/transactions?state=failed&channel=web&kind=advance_renew",
			"/panel/transactions?from=" + day(40) + "&until=" + day(30), "/panel/transactions?subscriber=" + subscriber,
			"/panel/requests?refused=yes", "/panel/requests?q=nothing",
			"/panel/add-money?amount=5000", "/panel/add-money?after=20",
		},
		web.Console: {
			"/console/search?q=s", "/console/search?q=asha", "/console/search?q=98", "/console/search?q=provider-1", "/console/search?q=provider-1&provider=yes", "/console/search?q=26-27/999999", "/console/search?q=631245999999", "/console/search?q=RV0",
			"/console/operators?q=demo", "/console/operators?status=inactive", "/console/catalogue/plans/BASIC-1?count=yes",
			"/console/commission?month=" + e.Now().AddDate(0, 0, -35).Format("2006-01"),
			fmt.Sprintf("/console/commission?operator=%d", e.Demo.LCOID), "/console/commission?sums=yes",
			"/console/audit-log?actor=nobody", "/console/audit-log?action=key+revoke", "/console/audit-log?q=nothing", "/console/audit-log?from=" + day(80) + "&until=" + day(70),
			fmt.Sprintf("/console/audit-log?operator=%d", e.Demo.LCOID), "/console/audit-log?verify=yes", "/console/review/exceptions?closed=yes",
			"/console/payments?show=all", "/console/payments?after=20", "/console/payments/statements/1?kind=unmatched&after=30",
		},
	}
}
