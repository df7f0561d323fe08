// Package requestlog stores every API request with a known key, and every order from a
// page, for a configured time: the request, its address and the result. Operators search it
// for their own requests, and it explains why a signature was refused.
//
// It never delays a request: Record does not wait, and what cannot be stored is dropped and
// counted. No charge, limit or audit depends on it. It stores no secret: only the hash of a
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
	// ID finds the entry again. It is given by the log, to what was read from it.
	ID string

	At         time.Time
	OperatorID int64
	// CredentialID is the key's, and zero where a page was used.
	CredentialID int64
	// KeyHint is the beginning of the key, by which people tell keys apart, or who
	// used the page.
	KeyHint      string
	Method, Path string
	Status       int
	Code         fault.Code
	Address      netip.Addr
	RequestID    string
	Took         time.Duration
	// IdempotencyKey is as it was sent; empty where none was.
	IdempotencyKey string
	// Signature is set where the signature, or what goes into it, was refused.
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

// Texts that a caller chooses are cut at these lengths. No header can be much
// longer; they keep a caller from filling the log with something else.
const (
	longestKey    = 100
	longestString = 4 << 10
)

// NewSignatureDetails keeps of a string to sign, and of the signature that was sent with
// it, what may be kept.
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

// maskQuery hides what stands in the third line under a name that promises a
// secret. No call takes such a parameter; some send one all the same.
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

// masked stands where something secret stood.
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

func cut(text string, most int) string {
	if len(text) > most {
		return text[:most]
	}
	return text
}

// FromPage reports whether the order came from a page, not from the API.
func (e Entry) FromPage() bool { return e.CredentialID == 0 }

// Refused reports whether the response is an error.
func (e Entry) Refused() bool { return e.Status >= firstRefusal }

// firstRefusal is the lowest status of an error.
const firstRefusal = 400

// Proven reports whether the call was signed with the key's secret. Anybody can send a
// key.
func (e Entry) Proven() bool {
	switch e.Code {
	case fault.CredentialRevoked, fault.CredentialExpired, fault.TimestampExpired, fault.InvalidSignature,
		fault.InvalidNonce, fault.ReplayDetected:
		return false
	}
	return true
}
