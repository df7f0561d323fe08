package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
)

// Pages have their own paths over HTTPS. Everything else is the API's as it was:
// other paths get its 404, and plain HTTP is refused whatever the path.
func TestPagesTakeNoPathFromTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/", "/sign-in", "/panel/", "/console/", "/account/", "/static/style.css", "/favicon.ico"} {
		w.expect("plain HTTP to "+path, call{base: w.line.PlainURL, path: path}, fault.HTTPSRequired)
	}
	for _, path := range []string{
		"/sign-inn", "/sign-out/x", "/panels", "/pane", "/consol/", "/staticx", "/step-up/x", "//", "//panel/", "/%70anel/", "/Panel/", "/api/v1", "/index.html",
	} {
		w.expect("HTTPS to "+path, call{as: w.demoCaller(), path: path}, fault.NotFound)
	}
	w.browser(t).get("/panel/%2e%2e/console/").shows(t, http.StatusNotFound, "There is no such page.")
}

// Whoever is throttled at one is not at the other.
func TestPagesAndAPIAreThrottledApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "limits.failed_auth_per_minute=1")
	w.expect("a key that is none", call{as: caller{key: "cxk_" + strings.Repeat("0", 32), secret: "x"}, path: balance}, fault.InvalidAPIKey)
	w.expect("the next call from here", call{as: w.demoCaller(), path: balance}, fault.TooManyFailedAttempts)
	w.as(t, w.line.Operator).get("/panel/").shows(t, http.StatusOK)
}

// A proxy that ends TLS is believed about who comes and how; nobody else is.
func TestPagesBehindAProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "server.trusted_proxies=127.0.0.1/32")
	through := func(header http.Header) *http.Request {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.line.PlainURL+"/sign-in",
			strings.NewReader(url.Values{"username": {w.line.Operator.Username}, "password": {w.line.Operator.Password}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return request
	}
	b := w.browser(t)
	b.send(through(http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-For": {"198.51.100.9, 203.0.113.7"}})).sends(t, "/")
	person, err := w.desk.LoginNamed(t.Context(), w.line.Operator.Username)
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := w.node.logins.Sessions(t.Context(), person.ID)
	if err != nil || len(sessions) != 1 || sessions[0].Address.String() != "203.0.113.7" || sessions[0].Stage != login.Whole {
		t.Errorf("the session is %+v (%v); want one from 203.0.113.7", sessions, err)
	}
	response, err := b.http.Do(through(http.Header{"X-Forwarded-Proto": {"http"}}))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		t.Errorf("plain HTTP to the proxy: %d %s; want the API's 403", response.StatusCode, response.Header.Get("Content-Type"))
	}
}
