package access

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/signing"
)

const (
	nonceLenMin = 16
	nonceLenMax = 64
)

// claim is a request with the value of each authentication header: a claim to own a key that is
// yet to be checked.
type claim struct {
	req Request

	key, timestamp, nonce, signature string
	hash                             KeyHash
}

// readClaim reads the four headers. A header sent twice is refused, because a proxy may have read
// the other value.
func readClaim(req Request) (claim, error) {
	c := claim{req: req}
	var wrong []string
	c.key, wrong = onlyOne("X-API-Key", req.Key, wrong)
	c.timestamp, wrong = onlyOne("X-Timestamp", req.Timestamp, wrong)
	c.nonce, wrong = onlyOne("X-Nonce", req.Nonce, wrong)
	c.signature, wrong = onlyOne("X-Signature", req.Signature, wrong)
	if wrong != nil {
		return claim{}, fault.New(fault.MissingAuthHeaders,
			"%s. Send X-API-Key, X-Timestamp, X-Nonce and X-Signature, each exactly once.", strings.Join(wrong, ", "))
	}
	c.hash = HashKey(c.key)
	return c, nil
}

// onlyOne returns a header's only value, or appends the problem to wrong.
func onlyOne(name string, values, wrong []string) (string, []string) {
	switch {
	case len(values) == 0:
		return "", append(wrong, name+" is missing")
	case len(values) > 1:
		return "", append(wrong, fmt.Sprintf("%s is there %d times", name, len(values)))
	case values[0] == "":
		return "", append(wrong, name+" is empty")
	}
	return values[0], wrong
}

// signed is what the signature must cover.
func (c claim) signed() signing.Request {
	return signing.Request{
		Method:    c.req.Method,
		Path:      c.req.Path,
		RawQuery:  c.req.RawQuery,
		Timestamp: c.timestamp,
		Nonce:     c.nonce,
		Body:      c.req.Body,
	}
}

// parseTimestamp parses decimal digits only, without the signs that strconv accepts. A number too
// large for int64 becomes the largest one, which is far from any clock too.
func parseTimestamp(text string) (seconds int64, ok bool) {
	if !allDigits(text) {
		return 0, false
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return math.MaxInt64, true // digits can only be out of range
	}
	return seconds, true
}

// wellFormedNonce reports whether a nonce is 16 to 64 of A-Z, a-z, 0-9, _ and -.
func wellFormedNonce(nonce string) bool {
	if len(nonce) < nonceLenMin || len(nonce) > nonceLenMax {
		return false
	}
	for i := range len(nonce) {
		switch c := nonce[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
