package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

// browser is somebody at the pages, without a script: it keeps cookies, sends
// forms as browsers do, and follows a redirect only when told to.
type browser struct {
	w    *world
	t    testing.TB
	http *http.Client
}

// page is what a browser got.
type page struct {
	status   int
	header   http.Header
	body     string
	location string
}

func (w *world) browser(t testing.TB) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{w: w, t: t, http: &http.Client{
		Transport: w.http.Transport, Jar: jar, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (w *world) at(path string) string { return strings.TrimSuffix(w.line.BaseURL, "/api/v1") + path }

func (b *browser) get(path string) page {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.w.at(path), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.send(request)
}

// post sends a form as the site's own pages do.
func (b *browser) post(path string, form url.Values) page {
	b.t.Helper()
	request := b.form(path, form)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.send(request)
}

func (b *browser) form(path string, form url.Values) *http.Request {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.w.at(path), strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return request
}

// send sends a request, and demands of the answer what every page must have.
func (b *browser) send(request *http.Request) page {
	b.t.Helper()
	response, err := b.http.Do(request)
	if err != nil {
		b.t.Fatalf("%s %s: %v", request.Method, request.URL.Path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	got := page{response.StatusCode, response.Header, string(body), response.Header.Get("Location")}
	checkProtection(b.t, request, got)
	return got
}

// inlineThing finds what the policy of pages forbids in one: a script or a style
// that is written into it. Every answer is looked through, and under the race
// detector a regular expression would take longer than the page.
func inlineThing(body string) string {
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

func TestAPageWithAScriptOfItsOwnIsFound(t *testing.T) {
	for _, body := range []string{
		"<p><script>go()</script>", "<SCRIPT type=module>\n go()</SCRIPT>", `<script src="a"></script><script> go()</script>`, `<p style="a">`, "<p\nSTYLE='a'>",
		"<style>", `<a onclick="go()">`, "<a\n\tonClick=go()>", `<p>on and on</p><a once onload="go()">`, `<a href="JavaScript:go()">`,
	} {
		if inlineThing(body) == "" {
			t.Errorf("in %q nothing is found", body)
		}
	}
	for _, body := range []string{`<script src="/static/a.js" defer></script><p>It goes on = and on.</p>`, "<p>style</p>", `<link rel="stylesheet">`} {
		if found := inlineThing(body); found != "" {
			t.Errorf("in %q %q is found", body, found)
		}
	}
}

// checkProtection holds a page against what is promised of all of them.
func checkProtection(t testing.TB, request *http.Request, got page) {
	t.Helper()
	what := request.Method + " " + request.URL.Path
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
			"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"X-Content-Type-Options":     "nosniff",
		"Referrer-Policy":            "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin",
		"Cache-Control":              "no-store",
		"Strict-Transport-Security":  "", // the tests are on loopback
	} {
		if strings.HasPrefix(request.URL.Path, "/static/") && name == "Cache-Control" {
			continue
		}
		if got.header.Get(name) != want {
			t.Errorf("%s: %s is %q; want %q", what, name, got.header.Get(name), want)
		}
	}
	if got.header.Get("Permissions-Policy") == "" || !strings.HasPrefix(got.header.Get("X-Request-Id"), "req_") {
		t.Errorf("%s: permissions policy %q, request id %q", what, got.header.Get("Permissions-Policy"), got.header.Get("X-Request-Id"))
	}
	if strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		if found := inlineThing(got.body); found != "" {
			t.Errorf("%s: the page has %q, which its own policy forbids", what, found)
		}
	}
}

// shows demands a status and texts that a page has.
func (p page) shows(t testing.TB, status int, want ...string) page {
	t.Helper()
	if p.status != status {
		t.Errorf("status %d (to %q); want %d\n%s", p.status, p.location, status, p.body)
	}
	for _, w := range want {
		if !strings.Contains(p.body, w) {
			t.Errorf("the page does not say %q:\n%s", w, p.body)
		}
	}
	return p
}

// sends demands that a page sends the browser on, and where.
func (p page) sends(t testing.TB, where string) page {
	t.Helper()
	if p.status != http.StatusSeeOther || p.location != where {
		t.Errorf("status %d to %q; want 303 to %q\n%s", p.status, p.location, where, p.body)
	}
	return p
}

// signIn signs somebody in as far as the password does.
func (b *browser) signIn(username, password string) page {
	b.t.Helper()
	return b.post("/sign-in", url.Values{"username": {username}, "password": {password}})
}

// as is a browser in which the demo's login is signed in.
func (w *world) as(t testing.TB, who demoLogin) *browser {
	t.Helper()
	b := w.browser(t)
	b.signIn(who.Username, who.Password).sends(t, "/")
	return b
}

// person makes a login whose password is not to be changed first.
func (w *world) person(t testing.TB, username string, role login.Role, operatorID int64) demoLogin {
	t.Helper()
	who := demoLogin{Username: username, Password: login.NewPassword()}
	if _, _, err := w.desk.CreateLogin(context.Background(), admin.NewLogin{
		Username: username, Name: "Name of " + username, Role: role, OperatorID: operatorID, Password: who.Password,
	}); err != nil {
		t.Fatal(err)
	}
	return who
}

var offeredKey = regexp.MustCompile(`secret=([A-Z2-7]+)`)

// enrol sets up a second factor in the pages, and returns its key and the page
// with the recovery codes.
func (b *browser) enrol() (key string, codes page) {
	b.t.Helper()
	offer := b.get("/account/second-factor").shows(b.t, http.StatusOK, "<svg")
	found := offeredKey.FindStringSubmatch(offer.body)
	if found == nil {
		b.t.Fatalf("the page offers no key:\n%s", offer.body)
	}
	return found[1], b.post("/account/second-factor", url.Values{"code": {codeAt(b.t, found[1], b.w.now())}})
}

// codeAt is the code that an app shows at a moment: RFC 6238, written down once
// more, because a test that asked the product would agree with it.
func codeAt(t testing.TB, key string, at time.Time) string {
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
