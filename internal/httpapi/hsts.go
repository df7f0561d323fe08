package httpapi

import (
	"net"
	"net/http"
	"strings"
)

const hstsHeader = "Strict-Transport-Security"

// hstsValue tells browsers to use HTTPS and nothing else with this host for a year.
func hstsValue(includeSubdomains bool) []string {
	if includeSubdomains {
		return []string{"max-age=31536000; includeSubDomains"}
	}
	return []string{"max-age=31536000"}
}

// setHSTS puts the header on the response to a request that came over TLS. RFC 6797,
// section 7.2, forbids it over plain HTTP. A browser that was told so of localhost would
// refuse whatever else is developed on the same machine; addresses need no such
// exception, as browsers keep the rule for names only.
func (f *Server) setHSTS(header http.Header, c *conn, r *http.Request) {
	if f.proxies.Secure(c.peer, c.secure, r.Header["X-Forwarded-Proto"]) && !namesLocalhost(r.Host) {
		header[hstsHeader] = f.hsts
	}
}

func namesLocalhost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
