package requestlog

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/signing"
)

// Cause is the kind of mistake that a hint is about.
type Cause string

// Mistakes of integrators that a string to sign can show.
const (
	WrongSecret        Cause = "wrong secret"
	CarriageReturns    Cause = "carriage returns"
	TrailingNewline    Cause = "trailing newline"
	NewlinesSpelledOut Cause = "newlines spelled out"
	LineLeftOut        Cause = "line left out"
	LinesTooMany       Cause = "lines too many"
	LinesTooFew        Cause = "lines too few"
	SpacesAround       Cause = "spaces around"
	LowerCaseMethod    Cause = "lower-case method"
	OtherMethod        Cause = "other method"
	PathWithHost       Cause = "path with host"
	PathWithQuery      Cause = "path with query"
	PathTrailingSlash  Cause = "trailing slash"
	PathIncomplete     Cause = "path incomplete"
	OtherPath          Cause = "other path"
	QuestionMark       Cause = "question mark"
	QueryOfPost        Cause = "query of a POST"
	QueryNotSigned     Cause = "query not signed"
	QueryNotSent       Cause = "query not sent"
	QueryPlus          Cause = "plus for a space"
	QueryOrder         Cause = "order of the query"
	QueryEncoding      Cause = "encoding of the query"
	OtherQuery         Cause = "other query"
	Milliseconds       Cause = "milliseconds"
	TimestampNotNumber Cause = "timestamp is no number"
	OtherTimestamp     Cause = "other timestamp"
	OtherNonce         Cause = "other nonce"
	UpperCaseHash      Cause = "upper-case hash"
	HashInBase64       Cause = "hash in base64"
	BodyInsteadOfHash  Cause = "body instead of its hash"
	EmptyBodyNotHashed Cause = "empty body not hashed"
	BodyNotSigned      Cause = "body not signed"
	BodyNotSent        Cause = "body not sent"
	BodyReencoded      Cause = "body re-encoded"
	UpperCaseSignature Cause = "upper-case signature"
	SignatureLength    Cause = "length of the signature"
	SignatureNotHex    Cause = "signature not in hex"
	ClockOff           Cause = "clock off"
	NonceForm          Cause = "form of the nonce"
	NonceUsed          Cause = "nonce used"
)

// hints returns all mistakes found: those of the whole string first, then line by line.
func (s sides) hints() []Hint {
	found := s.wholeHints()
	for kind, look := range []func(server, theirs string) *Hint{
		methodLine: s.methodHint, pathLine: s.pathHint, queryLine: s.queryHint,
		timestampLine: timestampHint, nonceLine: nonceHint, bodyLine: s.bodyHint,
	} {
		if len(s.theirs) < len(lineNames) {
			break // the lines cannot be matched
		}
		server, theirs := s.line(kind)
		if server == theirs {
			continue
		}
		if trimmed := strings.TrimSpace(theirs); trimmed == server && server != "" {
			found = append(found, Hint{SpacesAround, "There are spaces or tabs before or after the %s. Remove them before signing.", []any{lineNames[kind]}})
		} else if hint := look(server, theirs); hint != nil {
			found = append(found, *hint)
		}
	}
	if len(found) == 0 {
		found = append(found, Hint{Cause: WrongSecret, Text: "All six lines match, so the secret or its use is wrong: HMAC-SHA256 over these lines, " +
			"with the whole secret as the key, from cxs_ to its last character and without quotes or a newline, written as 64 lower-case hex characters."})
	}
	return found
}

// wholeHints checks how the lines are joined.
func (s sides) wholeHints() (found []Hint) {
	if strings.Contains(s.whole, "\r") {
		found = append(found, Hint{Cause: CarriageReturns, Text: "Lines end with CR LF. Join them with a single line feed, \\n."})
	}
	if s.newline {
		found = append(found, Hint{Cause: TrailingNewline, Text: "There is a newline at the end. The last line, the body's hash, ends the string."})
	}
	switch lines := s.count; {
	case lines == 1 && strings.Contains(s.whole, `\n`):
		found = append(found, Hint{Cause: NewlinesSpelledOut, Text: "The lines are joined by a backslash and an n. Join them with a real line feed, one byte of the value 10."})
	case s.absent == queryLine:
		found = append(found, Hint{Cause: LineLeftOut, Text: "The query line is missing. Without a query it is empty, but still required."})
	case lines < len(lineNames):
		found = append(found, Hint{LinesTooFew, "There are %d lines instead of 6: method, path, query, timestamp, nonce and body hash.", []any{lines}})
	case lines > len(lineNames) && !(s.newline && lines == len(lineNames)+1):
		found = append(found, Hint{LinesTooMany, "There are %d lines instead of 6: method, path, query, timestamp, nonce and body hash.", []any{lines}})
	}
	return found
}

func (s sides) methodHint(server, theirs string) *Hint {
	if strings.EqualFold(server, theirs) {
		return &Hint{LowerCaseMethod, "The method has to be in upper case: %s.", []any{server}}
	}
	return &Hint{OtherMethod, "The request arrived as %s.", []any{server}}
}

func (s sides) pathHint(server, theirs string) *Hint {
	bare, _, hasQuery := strings.Cut(theirs, "?")
	switch {
	case hasQuery && strings.HasSuffix(bare, server):
		return &Hint{Cause: PathWithQuery, Text: "The query belongs in the line after the path, without its question mark."}
	case strings.HasSuffix(theirs, server) && len(theirs) > len(server):
		return &Hint{PathWithHost, "The path begins with %s. Leave out what is before it: the scheme, the host and the port.", []any{server}}
	case theirs == server+"/" || theirs+"/" == server:
		return &Hint{PathTrailingSlash, "The path has a slash at the end on one side only. The request was sent to %s.", []any{server}}
	case theirs != "" && strings.HasSuffix(server, theirs) || "/"+theirs == server:
		return &Hint{PathIncomplete, "The whole path is signed: %s.", []any{server}}
	}
	return &Hint{OtherPath, "The request was sent to %s.", []any{server}}
}

func (s sides) queryHint(server, theirs string) *Hint {
	method, _ := s.line(methodLine)
	unasked := strings.TrimPrefix(theirs, "?")
	switch {
	case server == "" && method == "POST":
		return &Hint{Cause: QueryOfPost, Text: "A POST is signed without a query: its third line is empty."}
	case server == "":
		return &Hint{Cause: QueryNotSent, Text: "A query was signed, but the request arrived without one."}
	case theirs == "":
		return &Hint{Cause: QueryNotSigned, Text: "The request arrived with a query, which has to be signed in the third line."}
	case unasked != theirs && signing.CanonicalQuery(unasked) == server:
		return &Hint{Cause: QuestionMark, Text: "The query is signed without its question mark."}
	case signing.CanonicalQuery(theirs) != server:
		return &Hint{Cause: OtherQuery, Text: "The query that arrived has other names or values."}
	case strings.Contains(theirs, "+"):
		return &Hint{Cause: QueryPlus, Text: "A space in the query is signed as a percent sign and 20, and not as a plus."}
	case sortedPairs(theirs) == server:
		return &Hint{Cause: QueryOrder, Text: "The pairs of the query have to be sorted by name, and then by value."}
	}
	return &Hint{Cause: QueryEncoding, Text: "The query is encoded in another way: everything but letters, digits, hyphen, underscore, period and tilde is written as " +
		"a percent sign and two upper-case hex digits, and nothing else is."}
}

// sortedPairs sorts the pairs of a query without re-encoding them.
func sortedPairs(query string) string {
	pairs := strings.Split(query, "&")
	slices.SortFunc(pairs, func(a, b string) int {
		aName, aValue, _ := strings.Cut(a, "=")
		bName, bValue, _ := strings.Cut(b, "=")
		if aName != bName {
			return strings.Compare(aName, bName)
		}
		return strings.Compare(aValue, bValue)
	})
	return strings.Join(pairs, "&")
}

func timestampHint(server, theirs string) *Hint {
	switch {
	case inMilliseconds(theirs) || inMilliseconds(server):
		return &Hint{Cause: Milliseconds, Text: "The timestamp is in milliseconds. Use whole seconds, and the same number in X-Timestamp and in the string."}
	case !allDigits(theirs):
		return &Hint{Cause: TimestampNotNumber, Text: "The timestamp is the number of seconds since 1970, in digits and nothing else."}
	}
	return &Hint{Cause: OtherTimestamp, Text: "X-Timestamp differs from the signed value. Use the same time for both."}
}

// inMilliseconds reports whether a timestamp is a present time in milliseconds.
func inMilliseconds(timestamp string) bool { return len(timestamp) == 13 && allDigits(timestamp) }

func allDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func nonceHint(server, _ string) *Hint {
	return &Hint{OtherNonce, "X-Nonce differs from the signed value: %s. Create one nonce per request and use it for both.", []any{Visible(server)}}
}

func (s sides) bodyHint(server, theirs string) *Hint {
	empty := signing.BodySHA256(nil)
	sum, err := base64.StdEncoding.DecodeString(theirs)
	switch {
	case strings.EqualFold(server, theirs):
		return &Hint{Cause: UpperCaseHash, Text: "The body's hash has to be in lower-case hex."}
	case err == nil && hex.EncodeToString(sum) == server:
		return &Hint{Cause: HashInBase64, Text: "The body's hash is written in base64. It has to be in lower-case hex."}
	case theirs == "" && server == empty:
		return &Hint{Cause: EmptyBodyNotHashed, Text: "A request without a body has a hash too, that of no bytes: e3b0c442…b855."}
	case strings.HasPrefix(strings.TrimSpace(theirs), "{"):
		return &Hint{Cause: BodyInsteadOfHash, Text: "The last line is the SHA-256 of the body, in lower-case hex, and not the body itself."}
	case theirs == empty || theirs == "":
		return &Hint{Cause: BodyNotSigned, Text: "The request arrived with a body, but an empty one was signed."}
	case server == empty:
		return &Hint{Cause: BodyNotSent, Text: "A body was signed, but the request arrived without one."}
	}
	if how := changed(s.body, server); how != "" {
		return &Hint{BodyReencoded, "The body that arrived is yours, but %s. Sign exactly the bytes that are sent.", []any{how}}
	}
	return &Hint{Cause: BodyReencoded, Text: "The body that arrived differs from the one that was hashed. Most often an HTTP library re-encodes the JSON with other " +
		"spaces or in another order: create the body's text once, hash it, and send exactly that text."}
}

// Explain returns what is wrong with a refused call, as far as that can be found without the
// caller's own string to sign.
func Explain(e Entry) (found []Hint) {
	if e.Signature == nil {
		return nil
	}
	lines := strings.Split(e.Signature.StringToSign, "\n")
	timestamp, nonce := at(lines, timestampLine), at(lines, nonceLine)
	switch e.Code {
	case fault.InvalidSignature:
		found = signatureHints(e.Signature.SignatureForm)
	case fault.TimestampExpired:
		found = clockHints(timestamp, e)
	case fault.InvalidNonce:
		found = []Hint{{NonceForm, "The nonce has %d characters. It needs 16 to 64, from A-Z, a-z, 0-9, underscore and hyphen.", []any{len(nonce)}}}
	case fault.ReplayDetected:
		found = []Hint{{NonceUsed, "The nonce %s was used before with this key. Each request needs a new one, a retry too; only the Idempotency-Key stays the same.", []any{Visible(nonce)}}}
	}
	return found
}

func signatureHints(form SignatureForm) []Hint {
	switch form {
	case UpperCaseHex:
		return []Hint{{Cause: UpperCaseSignature, Text: "X-Signature was sent in upper case. It has to be in lower-case hex."}}
	case WrongLength:
		return []Hint{{Cause: SignatureLength, Text: "X-Signature does not have the 64 hex characters of an HMAC-SHA256."}}
	case NotHex:
		return []Hint{{Cause: SignatureNotHex, Text: "X-Signature is not in hex. It may be in base64, or not a signature at all."}}
	}
	return nil
}

func clockHints(timestamp string, e Entry) []Hint {
	switch {
	case inMilliseconds(timestamp):
		return []Hint{*timestampHint(timestamp, timestamp)}
	case !allDigits(timestamp):
		return []Hint{{Cause: TimestampNotNumber, Text: "The timestamp is the number of seconds since 1970, in digits and nothing else."}}
	}
	theirs, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return []Hint{{Cause: ClockOff, Text: "The timestamp is far from our clock."}}
	}
	if behind := e.At.Unix() - theirs; behind >= 0 {
		return []Hint{{ClockOff, "The timestamp was %d seconds behind our clock. Set yours by data.server_time, and sign right before sending.", []any{behind}}}
	}
	return []Hint{{ClockOff, "The timestamp was %d seconds ahead of our clock. Set yours by data.server_time.", []any{theirs - e.At.Unix()}}}
}
