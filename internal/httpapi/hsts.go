package httpapi

import (
	"net"
	"net/http"
	"strings"
)

const hstsHeader = "Strict-Transport-Security"

// hstsValue makes browsers use only HTTPS with this host for a year.
func hstsValue(includeSubdomains bool) []string {
	if includeSubdomains {
		return []string{"max-age=31536000; includeSubDomains"}
	}
	return []string{"max-age=31536000"}
}

// setHSTS puts the header on the response to a request that came over TLS. RFC 6797,
// section 7.2, forbids it over plain HTTP. localhost is excepted: the browser would
// refuse plain HTTP from every other program on a developer's machine. IP addresses need
// no exception, because browsers apply HSTS to names only.
func (s *Server) setHSTS(header http.Header, c *conn, r *http.Request) {
	if s.proxies.Secure(c.peer, c.secure, r.Header["X-Forwarded-Proto"]) && !namesLocalhost(r.Host) {
		header[hstsHeader] = s.hsts
	}
}

func namesLocalhost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
