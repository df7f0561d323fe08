package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy lets a page load what we serve and nothing else: no script or style that
// stands in the page itself, so that a text somebody managed to smuggle into one
// stays a text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// protect sets what every answer of the site carries, whatever it says.
func protect(header http.Header, host string) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("X-Frame-Options", "DENY") // for browsers that do not read frame-ancestors
	// Pages show money and names: no cache keeps them, not the browser's either.
	header.Set("Cache-Control", "no-store")
	if !onLoopback(host) {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// onLoopback reports whether a request named this machine itself. A browser that
// was told to use nothing but HTTPS for localhost would do so for whatever else
// is developed there.
func onLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
