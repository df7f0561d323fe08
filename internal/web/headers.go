package web

import (
	"crypto/rand"
	"net/http"
	"strings"
)

// policy lets a page load only what we serve, and no inline script or style, so that
// injected text cannot run.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// AllowRedoc extends the policy of this one response for Redoc, which inserts styles and
// runs its search in a worker that it makes from a blob. It returns the nonce that the
// styles need.
func (v *Visit) AllowRedoc() (nonce string) {
	nonce = rand.Text()
	v.W.Header().Set("Content-Security-Policy",
		strings.Replace(policy, "style-src 'self'", "style-src 'self' 'nonce-"+nonce+"'", 1)+"; worker-src blob:")
	return nonce
}

// AllowOwnStyles replaces the policy of this one response for a picture with styles of its own.
func (v *Visit) AllowOwnStyles() {
	v.W.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
}

// protect sets the security headers of every response. Strict-Transport-Security is set
// by httpapi.Server, for the API too.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("X-Frame-Options", "DENY") // for browsers without frame-ancestors
	// Pages show money and names, so no cache may store them.
	header.Set("Cache-Control", "no-store")
}
