package pages

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look"
)

// Every kind of answer has Strict-Transport-Security over TLS, and none over plain HTTP.
func TestHSTS_OnlyOverTLS(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "server.hsts_include_subdomains=true", "limits.failed_auth_per_minute=2")
	const want = "max-age=31536000; includeSubDomains"
	service, err := url.Parse(w.Demo.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(filepath.Join(w.Folder, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	// exchange sends a raw request, and returns the status and the header.
	exchange := func(address string, encrypted bool, message string) (int, string) {
		t.Helper()
		var c net.Conn
		var err error
		if encrypted {
			c, err = tls.Dial("tcp", address, config)
		} else {
			c, err = net.Dial("tcp", address)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, message); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%.40q: %v", message, err)
		}
		response.Body.Close()
		return response.StatusCode, response.Header.Get("Strict-Transport-Security")
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: coax.example\r\n\r\n" }
	for _, row := range []struct {
		what, message string
		status        int
	}{
		{"the root page", get("/"), 303},
		{"sign-in", get("/sign-in"), 200},
		{"a style", get(look.Asset("style.css")), 200},
		{"no such style", get("/static/no-such.css"), 404},
		{"the panel without a session", get("/panel/"), 303},
		{"the console without a session", get("/console/"), 303},
		{"no such page", get("/console/no-such-page"), 404},
		{"a wrong method for a page", "DELETE /sign-in HTTP/1.1\r\nHost: coax.example\r\n\r\n", 405},
		{"a form from elsewhere", "POST /sign-in HTTP/1.1\r\nHost: coax.example\r\nOrigin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 0\r\n\r\n", 403},
		{"an internal path", get("/healthz"), 404},
		{"no such endpoint", get("/api/v1/nothing"), 404},
		{"a wrong method", "DELETE /api/v1/balance HTTP/1.1\r\nHost: coax.example\r\n\r\n", 405},
		{"a body too large", "POST /api/v1/renew HTTP/1.1\r\nHost: coax.example\r\nContent-Length: 99999\r\n\r\n", 413},
		{"not HTTP", "hello\r\n\r\n", 400},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two lengths of one body", "POST / HTTP/1.1\r\nHost: coax.example\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
		{"headers too large", "GET / HTTP/1.1\r\nHost: coax.example\r\nX: " + strings.Repeat("a", 16<<10) + "\r\n\r\n", 431},
		{"an unknown version", "GET / HTTP/3.0\r\nHost: coax.example\r\n\r\n", 505},
		{"an expectation", "POST / HTTP/1.1\r\nHost: coax.example\r\nExpect: nonsense\r\nContent-Length: 3\r\n\r\nabc", 417},
		{"no credentials", get("/api/v1/balance"), 401},
		{"no credentials again", get("/api/v1/balance"), 401},
		{"a throttled address", get("/api/v1/balance"), 429},
	} {
		if status, got := exchange(service.Host, true, row.message); status != row.status || got != want {
			t.Errorf("%s over TLS: %d with Strict-Transport-Security %q; want %d with %q", row.what, status, got, row.status, want)
		}
		for name, address := range map[string]string{
			"the plain listener": strings.TrimPrefix(w.Demo.PlainURL, "http://"), "the TLS listener": service.Host,
		} {
			if status, got := exchange(address, false, row.message); status != http.StatusForbidden || got != "" {
				t.Errorf("%s over plain HTTP to %s: %d with Strict-Transport-Security %q; want 403 without", row.what, name, status, got)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/nothing"} {
		if _, got := exchange(strings.TrimPrefix(w.Demo.InternalURL, "http://"), false, get(path)); got != "" {
			t.Errorf("%s on the internal listener, which is plain HTTP: Strict-Transport-Security %q; want none", path, got)
		}
	}
}
