package requestlog

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/signing"
)

const sentBody = `{"full_name":"रवि / Kumar","mobile":"9876543210"}`

func post() signing.Request {
	return signing.Request{Method: "POST", Path: "/api/v1/activate", Timestamp: "1800000000", Nonce: "nonce-0123456789", Body: []byte(sentBody)}
}

func get() signing.Request {
	return signing.Request{Method: "GET", Path: "/api/v1/subscription", RawQuery: "b=two%20words&a=%C3%A9", Timestamp: "1800000000", Nonce: "nonce-0123456789"}
}

// with changes one line of a string to sign.
func with(text string, line int, to string) string {
	lines := strings.Split(text, "\n")
	lines[line] = to
	return strings.Join(lines, "\n")
}

func TestCompare_NamesMistakes(t *testing.T) {
	posted, asked := post().StringToSign(), get().StringToSign()
	hash := signing.BodySHA256([]byte(sentBody))
	sum, err := hex.DecodeString(hash)
	if err != nil {
		t.Fatal(err)
	}
	otherBody := with(posted, bodyLine, signing.BodySHA256([]byte("{}")))
	emptied := post()
	emptied.Body = nil
	inMillis := with(posted, timestampLine, "1800000000123")
	for _, tt := range []struct {
		name           string
		server, theirs string
		want           []Cause
	}{
		{"nothing differs", posted, posted, []Cause{WrongSecret}},
		{"CR LF between the lines", posted, strings.ReplaceAll(posted, "\n", "\r\n"), []Cause{CarriageReturns}},
		{"a newline at the end", posted, posted + "\n", []Cause{TrailingNewline}},
		{"CR LF at the end, too", posted, strings.ReplaceAll(posted, "\n", "\r\n") + "\r\n", []Cause{CarriageReturns, TrailingNewline}},
		{"newlines spelled out", posted, strings.ReplaceAll(posted, "\n", `\n`), []Cause{NewlinesSpelledOut}},
		{"no line for an empty query", posted, strings.Replace(posted, "\n\n", "\n", 1), []Cause{LineLeftOut}},
		{"no line for an empty query, and another nonce", posted,
			with(strings.Replace(posted, "\n\n", "\n", 1), nonceLine-1, "another"), []Cause{LineLeftOut, OtherNonce}},
		{"no line for an empty query, and a newline at the end", posted, strings.Replace(posted, "\n\n", "\n", 1) + "\n", []Cause{TrailingNewline, LineLeftOut}},
		{"the body's lines in place of its hash", posted, posted + "\n{\n}", []Cause{LinesTooMany}},
		{"three lines", posted, "POST\n/api/v1/activate\n1800000000", []Cause{LinesTooFew}},
		{"nothing at all", posted, "", []Cause{LinesTooFew}},
		{"spaces around the nonce", posted, with(posted, nonceLine, " nonce-0123456789"), []Cause{SpacesAround}},
		{"a method in lower case", posted, with(posted, methodLine, "post"), []Cause{LowerCaseMethod}},
		{"another method", posted, with(posted, methodLine, "PUT"), []Cause{OtherMethod}},
		{"a path with its host", posted, with(posted, pathLine, "https://coax.example/api/v1/activate"), []Cause{PathWithHost}},
		{"a path with its query", asked, with(asked, pathLine, "/api/v1/subscription?b=two+words"), []Cause{PathWithQuery}},
		{"a slash at the end", posted, with(posted, pathLine, "/api/v1/activate/"), []Cause{PathTrailingSlash}},
		{"a path without its beginning", posted, with(posted, pathLine, "/activate"), []Cause{PathIncomplete}},
		{"another path", posted, with(posted, pathLine, "/api/v1/renew"), []Cause{OtherPath}},
		{"a query with a question mark", asked, with(asked, queryLine, "?a=%C3%A9&b=two%20words"), []Cause{QuestionMark}},
		{"a query of a POST", posted, with(posted, queryLine, "a=1"), []Cause{QueryOfPost}},
		{"a query that was not sent", with(asked, queryLine, ""), asked, []Cause{QueryNotSent}},
		{"a query that was not signed", asked, with(asked, queryLine, ""), []Cause{QueryNotSigned}},
		{"a plus for a space", asked, with(asked, queryLine, "a=%C3%A9&b=two+words"), []Cause{QueryPlus}},
		{"a query in the order of sending", asked, with(asked, queryLine, "b=two%20words&a=%C3%A9"), []Cause{QueryOrder}},
		{"escapes in lower case", asked, with(asked, queryLine, "a=%c3%a9&b=two%20words"), []Cause{QueryEncoding}},
		{"a query that is not encoded", asked, with(asked, queryLine, "a=é&b=two words"), []Cause{QueryEncoding}},
		{"another query", asked, with(asked, queryLine, "a=1&b=two%20words"), []Cause{OtherQuery}},
		{"milliseconds in the string", posted, inMillis, []Cause{Milliseconds}},
		{"milliseconds in the header", inMillis, posted, []Cause{Milliseconds}},
		{"a date for a timestamp", posted, with(posted, timestampLine, "2027-01-15T08:00:00Z"), []Cause{TimestampNotNumber}},
		{"a second reading of the clock", posted, with(posted, timestampLine, "1800000001"), []Cause{OtherTimestamp}},
		{"another nonce", posted, with(posted, nonceLine, "nonce-9876543210"), []Cause{OtherNonce}},
		{"a hash in upper case", posted, with(posted, bodyLine, strings.ToUpper(hash)), []Cause{UpperCaseHash}},
		{"a hash in base64", posted, with(posted, bodyLine, base64.StdEncoding.EncodeToString(sum)), []Cause{HashInBase64}},
		{"the body in place of its hash", posted, with(posted, bodyLine, sentBody), []Cause{BodyInsteadOfHash}},
		{"no hash of an empty body", asked, with(asked, bodyLine, ""), []Cause{EmptyBodyNotHashed}},
		{"a body that was not signed", posted, emptied.StringToSign(), []Cause{BodyNotSigned}},
		{"a body that was not sent", emptied.StringToSign(), posted, []Cause{BodyNotSent}},
		{"a body with other bytes", posted, otherBody, []Cause{BodyReencoded}},
		{"two at once", posted, with(otherBody, methodLine, "Post"), []Cause{LowerCaseMethod, BodyReencoded}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Compare(tt.server, tt.theirs)
			var causes []Cause
			for _, hint := range got.Hints {
				causes = append(causes, hint.Cause)
				if text := hint.String(); text == "" || strings.Contains(text, "%") {
					t.Errorf("%s is told as %q", hint.Cause, text)
				}
			}
			if fmt.Sprint(causes) != fmt.Sprint(tt.want) {
				t.Errorf("found %v; want %v", causes, tt.want)
			}
			if same := tt.server == tt.theirs; got.Same != same || (got.First == nil) != same {
				t.Errorf("same: %v, first difference: %+v; want %v", got.Same, got.First, same)
			}
			if len(got.Lines) < 6 {
				t.Errorf("%d lines are shown; want 6", len(got.Lines))
			}
		})
	}
}

func TestCompare_FirstDifference(t *testing.T) {
	posted := post().StringToSign()
	for _, tt := range []struct {
		name, theirs string
		want         Difference
	}{
		{"a carriage return", with(posted, methodLine, "POST\r"), Difference{1, 5, endOfLine, "␍"}},
		{"a space", with(posted, pathLine, "/api/ v1/activate"), Difference{2, 6, "v", "␣"}},
		{"a space that does not break", with(posted, nonceLine, "nonce-\u00a0123456789"), Difference{5, 7, "0", `\xa0`}},
		{"a byte order mark", "\ufeff" + posted, Difference{1, 1, "P", `\ufeff`}},
		{"a line that ends early", with(posted, timestampLine, "180000000"), Difference{4, 10, "0", endOfLine}},
		{"a line that is not there", strings.Replace(posted, "\n\n", "\n", 1), Difference{3, 1, endOfLine, noSuchLine}},
		{"a newline at the end", posted + "\n", Difference{7, 1, endOfLine, endOfLine}},
		{"a byte that is no text", with(posted, nonceLine, "nonce-\xff"), Difference{5, 7, "0", `\xff`}},
	} {
		got := Compare(posted, tt.theirs)
		if got.First == nil || *got.First != tt.want {
			t.Errorf("%s: %+v; want %+v", tt.name, got.First, tt.want)
		}
	}
	shown := Compare(posted, with(posted, pathLine, "/api/v1/renew")).Lines[pathLine]
	if shown.Server != (Shown{"/api/v1/", "activate"}) || shown.Theirs != (Shown{"/api/v1/", "renew"}) || shown.Same {
		t.Errorf("the path is shown as %+v", shown)
	}
	// é and è have their first byte in common, and half a letter is none.
	shown = Compare(with(posted, nonceLine, "é"), with(posted, nonceLine, "è")).Lines[nonceLine]
	if shown.Server != (Shown{"", "é"}) || shown.Theirs != (Shown{"", "è"}) {
		t.Errorf("two letters are shown as %+v", shown)
	}
}

func TestCompareWithBody_ReencodedBody(t *testing.T) {
	const mine = `{"mobile":"9876543210","full_name":"रवि / <Kumar>","note":"a, b: \"c\""}`
	for arrived, want := range map[string]string{
		`{"mobile": "9876543210", "full_name": "रवि / <Kumar>", "note": "a, b: \"c\""}`:                "a space after each comma and colon",
		`{"mobile": "9876543210", "full_name": "\u0930\u0935\u093f / <Kumar>", "note": "a, b: \"c\""}`: "escapes in place of letters",
		`{"mobile":"9876543210","full_name":"\u0930\u0935\u093f \/ <Kumar>","note":"a, b: \"c\""}`:     "slashes and letters",
		`{"mobile":"9876543210","full_name":"रवि / \u003cKumar\u003e","note":"a, b: \"c\""}`:           "<, > and & escaped",
		`{"full_name":"रवि / <Kumar>","mobile":"9876543210","note":"a, b: \"c\""}`:                     "alphabetical order",
		mine + "\n": "a newline at its end",
		"{\n  \"mobile\": \"9876543210\",\n  \"full_name\": \"रवि / <Kumar>\",\n  \"note\": \"a, b: \\\"c\\\"\"\n}": "over several lines",
	} {
		request := post()
		request.Body = []byte(arrived)
		server := request.StringToSign()
		theirs := with(server, bodyLine, signing.BodySHA256([]byte(mine)))
		hints := CompareWithBody(server, theirs, mine).Hints
		if len(hints) != 1 || hints[0].Cause != BodyReencoded || !strings.Contains(hints[0].String(), want) {
			t.Errorf("%s: %v; want %q", arrived, hints, want)
		}
		if blind := Compare(server, theirs).Hints; len(blind) != 1 || strings.Contains(blind[0].String(), want) {
			t.Errorf("without the body: %v; want no more than that it differs", blind)
		}
	}
	for _, body := range []string{"no JSON", `{"a":`, `"`, `{"a":"\`, "😀"} {
		if got := changed(body, signing.BodySHA256([]byte("something else"))); got != "" {
			t.Errorf("%s: %q; want nothing", body, got)
		}
	}
}

func TestExplain(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	lower := strings.Repeat("0123456789abcdef", 4)
	text := post().StringToSign()
	for _, tt := range []struct {
		name      string
		code      fault.Code
		text      string
		signature string
		want      Cause
		words     string
	}{
		{"a signature that looks right", fault.InvalidSignature, text, lower, "", ""},
		{"a signature in upper case", fault.InvalidSignature, text, strings.ToUpper(lower), UpperCaseSignature, "upper case"},
		{"a signature that is too short", fault.InvalidSignature, text, lower[:40], SignatureLength, "64"},
		{"a signature in base64", fault.InvalidSignature, text, "aGVsbG8gd29ybGQ=", SignatureNotHex, "base64"},
		{"milliseconds", fault.TimestampExpired, with(text, timestampLine, "1800000000000"), lower, Milliseconds, "whole seconds"},
		{"a date", fault.TimestampExpired, with(text, timestampLine, "today"), lower, TimestampNotNumber, "digits"},
		{"a clock behind", fault.TimestampExpired, with(text, timestampLine, "1799999000"), lower, ClockOff, "1000 seconds behind"},
		{"a clock ahead", fault.TimestampExpired, with(text, timestampLine, "1800000400"), lower, ClockOff, "400 seconds ahead"},
		{"a number beyond all clocks", fault.TimestampExpired, with(text, timestampLine, strings.Repeat("9", 30)), lower, ClockOff, "far"},
		{"a short nonce", fault.InvalidNonce, with(text, nonceLine, "short"), lower, NonceForm, "5 characters"},
		{"a used nonce", fault.ReplayDetected, text, lower, NonceUsed, "nonce-0123456789"},
	} {
		hints := Explain(Entry{At: at, Code: tt.code, Signature: NewSignatureDetails(tt.text, tt.signature)})
		if tt.want == "" {
			if len(hints) != 0 {
				t.Errorf("%s: %v; want no hint", tt.name, hints)
			}
			continue
		}
		if len(hints) != 1 || hints[0].Cause != tt.want || !strings.Contains(hints[0].String(), tt.words) {
			t.Errorf("%s: %v; want %s with %q", tt.name, hints, tt.want, tt.words)
		}
	}
	if hints := Explain(Entry{Code: fault.InvalidSignature}); hints != nil {
		t.Errorf("without evidence: %v", hints)
	}
}
