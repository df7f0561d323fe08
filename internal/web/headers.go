package web

import "net/http"

// policy lets a page load what we serve and nothing else: no script or style that
// stands in the page itself, so that a text somebody managed to smuggle into one
// stays a text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// protect sets what every answer of the site carries, whatever it says. That browsers
// stay with HTTPS is told by the front door, for the API too.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("X-Frame-Options", "DENY") // for browsers that do not read frame-ancestors
	// Pages show money and names: no cache keeps them, not the browser's either.
	header.Set("Cache-Control", "no-store")
}
