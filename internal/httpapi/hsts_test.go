package httpapi

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
)

// checkHSTS checks every response that the tests of this package receive: over TLS it has
// the header, and the refusal of plain HTTP has not.
func (w *wire) checkHSTS(g got) {
	w.t.Helper()
	_, encrypted := w.Conn.(*tls.Conn)
	is := g.Header["Strict-Transport-Security"]
	switch plain := g.Code == fault.HTTPSRequired; {
	case plain && is != nil:
		w.t.Errorf("Strict-Transport-Security = %q over plain HTTP; want none", is)
	case encrypted && !plain && len(is) != 1:
		w.t.Errorf("Strict-Transport-Security = %q with %d %s over TLS; want it once", is, g.StatusCode, g.Code)
	}
}

func TestHSTS_ByTransportHostAndSetting(t *testing.T) {
	const year = "max-age=31536000"
	behindProxy := newTestEnv(t, func(api *Config, _ *ServerConfig) {
		api.Proxies = access.TrustedProxies{netip.MustParsePrefix("127.0.0.0/8")}
	})
	wide := newTestEnv(t, func(_ *Config, server *ServerConfig) { server.HSTSIncludeSubdomains = true })
	ask := func(w *wire, host, more string) []string {
		t.Helper()
		if _, err := w.Conn.Write([]byte("GET /api/v1/balance HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n")); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(w.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.Header["Strict-Transport-Security"]
	}
	h := newTestEnv(t)
	for host, want := range map[string]string{
		"coax.example": year, "coax.example:8443": year, "192.0.2.7:8443": year, "127.0.0.1:8443": year, "[::1]:8443": year, "notlocalhost": year,
		"localhost": "", "localhost:8443": "", "LOCALHOST.": "", "try.localhost:1": "",
	} {
		var wanted []string
		if want != "" {
			wanted = []string{want}
		}
		if got := ask(h.dialTLS(), host, ""); !slices.Equal(got, wanted) {
			t.Errorf("to %s over TLS: %q; want %q", host, got, wanted)
		}
		if got := ask(h.dialPlain(h.plain), host, ""); got != nil {
			t.Errorf("to %s over plain HTTP: %q; want none", host, got)
		}
		if got := ask(h.dialPlain(h.plain), host, "X-Forwarded-Proto: https\r\n"); got != nil {
			t.Errorf("to %s over plain HTTP that calls itself HTTPS: %q; want none", host, got)
		}
	}
	for proto, want := range map[string][]string{"https": {year}, "http": nil} {
		if got := ask(behindProxy.dialPlain(behindProxy.plain), "coax.example", "X-Forwarded-Proto: "+proto+"\r\n"); !slices.Equal(got, want) {
			t.Errorf("behind a trusted proxy that received %s: %q; want %q", proto, got, want)
		}
	}
	if got, want := ask(wide.dialTLS(), "coax.example", ""), []string{year + "; includeSubDomains"}; !slices.Equal(got, want) {
		t.Errorf("with subdomains: %q; want %q", got, want)
	}
}
