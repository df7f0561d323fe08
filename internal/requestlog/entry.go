// Package requestlog stores every API request with a known key, and every order from a
// page, for a configured time: the request, its address and the result. Operators search it
// for their own requests, and it explains why a signature was refused.
//
// It never delays a request: Record does not wait, and what cannot be stored is dropped and
// counted. No charge, limit or audit depends on it; after a restore
// it helps staff to find out what was sold. It stores no secret: only the hash of a
// body, and the beginning of a signature.
package requestlog

import (
	"net/netip"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/telemetry"
)

// Entry is one call of the API, or an order from a page.
type Entry struct {
	// ID identifies the entry. It is set in entries that were read from the log.
	ID string

	At         time.Time
	OperatorID int64
	// CredentialID is the key's id; zero for an order from a page.
	CredentialID int64
	// KeyHint is the beginning of the key, or the user of the page.
	KeyHint      string
	Method, Path string
	Status       int
	Code         fault.Code
	Address      netip.Addr
	RequestID    string
	Took         time.Duration
	// IdempotencyKey is the key as sent; empty if none was.
	IdempotencyKey string
	// PlanID is the plan of an order that was refused because of maintenance: after a restore it may
	// be one that was carried out before, and tells what was sold. Empty for all others.
	PlanID string
	// Signature is set if the signature, its timestamp or its nonce was refused.
	Signature *SignatureDetails
}

// SignatureDetails is what a signature was checked against.
type SignatureDetails struct {
	// StringToSign has the six lines that the server computed from what arrived.
	StringToSign string
	// SignatureStart is the beginning of the signature that was sent.
	SignatureStart string
	SignatureForm  SignatureForm
}

// SignatureForm is what the signature that was sent looks like.
type SignatureForm string

const (
	// SixtyFourHex is what a signature has to be: 64 lower-case hex characters.
	SixtyFourHex SignatureForm = "hex"
	// UpperCaseHex would be right but for its capitals.
	UpperCaseHex SignatureForm = "upper-case"
	// WrongLength is hex, but not 64 characters of it.
	WrongLength SignatureForm = "length"
	// NotHex has other characters, as base64 has.
	NotHex SignatureForm = "not hex"
)

// signatureKept is how much of a sent signature is stored.
const signatureKept = 8

// Strings that a caller chooses are cut at these lengths, so that a caller cannot fill the
// log with other data.
const (
	longestKey    = 100
	longestPlan   = 400 // 100 characters
	longestString = 4 << 10
)

// NewSignatureDetails returns what may be stored of a string to sign and of the signature
// that was sent with it.
func NewSignatureDetails(stringToSign, signature string) *SignatureDetails {
	e := &SignatureDetails{
		StringToSign:   cut(maskQuery(telemetry.Scrub(stringToSign)), longestString),
		SignatureStart: cut(signature, signatureKept),
		SignatureForm:  formOf(signature),
	}
	if e.SignatureForm == NotHex {
		// The caller may have sent the secret itself.
		e.SignatureStart = cut(telemetry.Scrub(signature), len("cxs_"))
	}
	return e
}

func formOf(signature string) SignatureForm {
	form := SixtyFourHex
	for i := range len(signature) {
		switch c := signature[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f':
		case 'A' <= c && c <= 'F':
			form = UpperCaseHex
		default:
			return NotHex
		}
	}
	if len(signature) != 64 {
		return WrongLength
	}
	return form
}

// maskQuery masks query parameters whose name suggests a secret. No API method has such a
// parameter, but some callers send one.
func maskQuery(stringToSign string) string {
	lines := strings.Split(stringToSign, "\n")
	if len(lines) < 3 || lines[2] == "" {
		return stringToSign
	}
	pairs := strings.Split(lines[2], "&")
	for i, pair := range pairs {
		if name, value, _ := strings.Cut(pair, "="); value != "" && secretName(name) {
			pairs[i] = name + "=" + masked
		}
	}
	lines[2] = strings.Join(pairs, "&")
	return strings.Join(lines, "\n")
}

// masked replaces the value of a secret parameter.
const masked = "[masked]"

func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, secret := range []string{"password", "passwd", "secret", "token", "signature"} {
		if strings.Contains(name, secret) {
			return true
		}
	}
	return false
}

func cut(text string, limit int) string {
	if len(text) > limit {
		return text[:limit]
	}
	return text
}

// FromPage reports whether the order came from a page, not from the API.
func (e Entry) FromPage() bool { return e.CredentialID == 0 }

// Refused reports whether the response is an error.
func (e Entry) Refused() bool { return e.Status >= firstRefusal }

// firstRefusal is the lowest status of an error.
const firstRefusal = 400

// Proven reports whether the call was signed with the key's secret: a key alone proves
// nothing.
func (e Entry) Proven() bool {
	switch e.Code {
	case fault.CredentialRevoked, fault.CredentialExpired, fault.TimestampExpired, fault.InvalidSignature,
		fault.InvalidNonce, fault.ReplayDetected:
		return false
	}
	return true
}
