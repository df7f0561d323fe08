// Package signing computes the string to sign of a request, and its signature.
// Server, client and command line share it, so that there is one implementation of
// the contract in Go.
//
// It is pure: it takes strings and bytes, never an http.Request, a clock or a
// store. It does not check whether a timestamp is fresh, a nonce new or well
// formed, or a key known. It normalizes nothing: the path and the body are signed
// exactly as they are sent.
//
// The same rules, with every intermediate value, are published for other
// languages in contract/vectors.
package signing

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Request is everything that a signature covers. It covers neither the host nor
// any header other than the two named here.
type Request struct {
	Method    string
	Path      string // as sent: from /api/v1/ on, without host and query
	RawQuery  string // as sent, without the '?'; not signed for POST
	Timestamp string // exactly the value of X-Timestamp
	Nonce     string // exactly the value of X-Nonce
	Body      []byte // the exact bytes; nil and empty are the same
}

// StringToSign returns the six lines the contract names, joined by line feeds
// and without one at the end.
func (r Request) StringToSign() string { return string(r.appendTo(nil)) }

// appendTo appends the string to sign to b.
func (r Request) appendTo(b []byte) []byte {
	start := len(b)
	b = appendUpper(b, r.Method)
	query := ""
	if string(b[start:]) != "POST" {
		query = CanonicalQuery(r.RawQuery)
	}
	for _, line := range [...]string{r.Path, query, r.Timestamp, r.Nonce} {
		b = append(b, '\n')
		b = append(b, line...)
	}
	b = append(b, '\n')
	if len(r.Body) == 0 {
		return append(b, emptySHA256...)
	}
	sum := sha256.Sum256(r.Body)
	return hex.AppendEncode(b, sum[:])
}

// Sign returns the request's signature: 64 lower-case hex characters. The HMAC key
// is the whole secret, including its prefix. To sign many requests, use a Key.
func (r Request) Sign(secret string) string { return NewKey(secret).Sign(r) }

// Verify reports whether signature is the request's signature under secret.
//
// It rejects an empty secret, so that a credential that failed to load verifies
// nothing, and a request with a line feed in a field, because two such requests can
// have the same string to sign. HTTP and a healthy store prevent both; this is the
// last check.
func (r Request) Verify(secret, signature string) bool { return NewKey(secret).Verify(r, signature) }

// BodySHA256 returns the last line of the string to sign: the lower-case hex
// SHA-256 of the body's bytes. An empty body has a sum too.
func BodySHA256(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// emptySHA256 is the last line of every request without a body.
var emptySHA256 = BodySHA256(nil)

// hasLineFeed checks the fields that enter the string unchanged. The query is
// escaped and the body is hashed, so they cannot add a line feed.
func (r Request) hasLineFeed() bool {
	for _, field := range [...]string{r.Method, r.Path, r.Timestamp, r.Nonce} {
		if strings.Contains(field, "\n") {
			return true
		}
	}
	return false
}

// appendUpper converts a-z only. strings.ToUpper handles all of Unicode and would
// turn "poſt", written with a long s, into POST, whose query is not signed.
func appendUpper(b []byte, method string) []byte {
	for i := range len(method) {
		c := method[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}
