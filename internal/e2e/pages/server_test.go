package pages

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
)

// Pages have their own paths over HTTPS. Other paths get the API's 404, and plain HTTP is
// refused on every path.
func TestServer_PagesAndAPIPathsSeparate(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	for _, path := range []string{"/", "/sign-in", "/panel/", "/console/", "/account/", "/static/style.css", "/favicon.ico"} {
		w.Expect("plain HTTP to "+path, e2e.Call{Base: w.Demo.PlainURL, Path: path}, fault.HTTPSRequired)
	}
	for _, path := range []string{
		"/sign-inn", "/sign-out/x", "/panels", "/pane", "/consol/", "/staticx", "/step-up/x", "//", "//panel/", "/%70anel/", "/Panel/", "/api/v1", "/index.html",
	} {
		w.Expect("HTTPS to "+path, e2e.Call{As: w.DemoCaller(), Path: path}, fault.NotFound)
	}
	w.Browser(t).Get("/panel/%2e%2e/console/").Shows(t, http.StatusNotFound, "There is no such page.")
}

// An address throttled at the API is not throttled at the pages.
func TestServer_PagesAndAPIThrottledSeparately(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "limits.failed_auth_per_minute=1")
	w.Expect("an unknown key", e2e.Call{As: e2e.Caller{Key: "cxk_" + strings.Repeat("0", 32), Secret: "x"}, Path: e2e.Balance}, fault.InvalidAPIKey)
	w.Expect("the next call from here", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}, fault.TooManyFailedAttempts)
	w.SignIn(t, w.Demo.Operator).Get("/panel/").Shows(t, http.StatusOK)
}

// The forwarded address and scheme count only from a trusted proxy.
func TestServer_PagesBehindProxy(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "server.trusted_proxies=127.0.0.1/32")
	through := func(header http.Header) *http.Request {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.Demo.PlainURL+"/sign-in",
			strings.NewReader(url.Values{"username": {w.Demo.Operator.Username}, "password": {w.Demo.Operator.Password}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return request
	}
	b := w.Browser(t)
	b.Send(through(http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-For": {"198.51.100.9, 203.0.113.7"}})).RedirectsTo(t, "/")
	person, err := w.Admin.LoginNamed(t.Context(), w.Demo.Operator.Username)
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := w.Node.Logins.Sessions(t.Context(), person.ID)
	if err != nil || len(sessions) != 1 || sessions[0].Address.String() != "203.0.113.7" || sessions[0].Stage != login.Complete {
		t.Errorf("the session is %+v (%v); want one from 203.0.113.7", sessions, err)
	}
	response, err := b.HTTP.Do(through(http.Header{"X-Forwarded-Proto": {"http"}}))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		t.Errorf("plain HTTP to the proxy: %d %s; want the API's 403", response.StatusCode, response.Header.Get("Content-Type"))
	}
}
