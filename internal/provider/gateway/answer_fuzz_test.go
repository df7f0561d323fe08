package gateway

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// For any response of a provider, the outcome is the one in the table of
// docs/provider-protocol.md: confirmed and rejected for its replies, and for no
// others. The response is parsed by the product's code from its bytes on; the
// expected outcome comes from a second parser, which shares no code with it.
func FuzzProviderAnswer(f *testing.F) {
	const (
		plain = "application/json"
		whole = `{"reference":"CX1-2.3","status":"applied","subscriber_id":"100234","mobile":"9812345678","component":"TV-FAMILY","transaction_id":"1"}`
	)
	f.Add(200, plain, whole)
	f.Add(200, "application/json; charset=utf-8", strings.Replace(whole, "}", `,"message":"\ud83d\ude00 \u0000"}`, 1))
	f.Add(201, plain, whole)
	f.Add(422, plain, whole)
	fields := strings.Split(strings.Trim(whole, "{}"), ",")
	for i, field := range fields {
		others := slices.Delete(slices.Clone(fields), i, i+1)
		f.Add(200, plain, "{"+strings.Join(others, ",")+"}")                // one is missing
		f.Add(200, plain, "{"+strings.Join(append(fields, field), ",")+"}") // one is there twice
	}
	f.Add(200, "text/html", whole)
	f.Add(200, "application/json; charset*1=latin1", whole)
	f.Add(200, plain+"\r\nContent-Encoding: gzip", whole)
	f.Add(200, plain+"\r\nTransfer-Encoding: chunked", "3\r\n{}\n\r\n0\r\n\r\n")
	f.Add(200, plain, strings.Replace(whole, "TV-FAMILY", "tv-family", 1))
	f.Add(200, plain, strings.Replace(whole, `"1"`, `1`, 1))
	f.Add(200, plain, strings.Replace(whole, `}`, `,"status":"rejected"}`, 1))
	f.Add(200, plain, strings.Replace(whole, `}`, `,"more":[{"a":1,"b":[null,true,-1.5e3]}]}`, 1))
	f.Add(404, plain, `{"reference":"CX1-2.3","status":"unknown_reference"}`)
	f.Add(422, plain, `{"reference":"CX1-2.3","status":"rejected","message":"no"}`)
	f.Add(422, plain, `{"reference":"CX1-2.3","status":"rejected","message":" \u0001"}`)
	f.Add(200, plain, `{"reference":"CX1-2.3","status":"voided"}`)
	f.Add(200, plain, `{"reference":"CX1-2.3","status":"pending"}`)

	g, err := New(Config{URL: "https://provider.example", Timeout: timeout, Token: "t0k3n"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, code int, contentType, body string) {
		text := fmt.Sprintf("HTTP/1.1 %03d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", code, contentType, len(body), body)
		response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), nil)
		if err != nil {
			return // an error of net/http is one of the gateway
		}
		defer response.Body.Close()
		got, failed := read(response)
		for call, meanings := range map[string]map[string]meaning{"apply": applyAnswers, "status": statusAnswers, "void": voidAnswers} {
			var answer operation.Reply
			if failed != nil {
				answer = failed.result().answer
			} else {
				answer = g.classify(got, order, meanings).answer
			}
			if plainHead.MatchString(contentType) {
				want, notFound := expectedOutcome(call, response.StatusCode, body)
				if answer.Outcome != want || answer.NotFound != notFound {
					t.Errorf("%s: HTTP %d %q\n%q\nwas classified %+v\nwant outcome %v, not found %t", call, code, contentType, body, answer, want, notFound)
				}
			} else if answer.Outcome == operation.Confirmed && !jsonHead.MatchString(contentType) {
				t.Errorf("%s: HTTP %d %q\n%q\nwas accepted: %+v", call, code, contentType, body, answer)
			}
			kept := answer.Message + answer.Detail + answer.Transaction
			if answer.NotSent || strings.Contains(kept, order.Password) || strings.Contains(kept, "t0k3n") {
				t.Errorf("%s: HTTP %d %q\n%q\nwas classified %+v", call, code, contentType, body, answer)
			}
		}
	})
}

var (
	// With exactly this content type the outcome depends on the body alone.
	plainHead = regexp.MustCompile(`^[Aa]pplication/json(; ?charset=(utf|UTF)-8)?$`)
	// Without this content type no reply is valid.
	jsonHead    = regexp.MustCompile(`(?i)^[ \t]*application/json[ \t]*(;[^*\r\n]*)?(\r?\n|$)`)
	transaction = regexp.MustCompile(`^[!-~]{1,100}$`)
	refusals    = regexp.MustCompile(`^4[0-9][0-9]$`)
	// A text with at least one visible character.
	something = regexp.MustCompile(`[^\pZ\p{Cc}\x{202A}-\x{202E}\x{2066}-\x{2069}\x{FDD0}-\x{FDEF}]`)
)

// expectedOutcome is the table of docs/provider-protocol.md.
func expectedOutcome(call string, code int, body string) (outcome operation.Outcome, notFound bool) {
	said, ok := readStrictly(body)
	if !ok || len(body) > 64<<10 || code != 200 && !refusals.MatchString(fmt.Sprint(code)) {
		return operation.Unknown, false
	}
	known := map[string]string{"reference": order.Reference, "subscriber_id": order.SubscriberID, "mobile": order.Mobile, "component": order.Component}
	texts := map[string]string{}
	for _, name := range append([]string{"status", "transaction_id", "message"}, slices.Collect(maps.Keys(known))...) {
		value, given := said[name]
		text, isText := value.(string)
		if given && !isText {
			return operation.Unknown, false
		}
		if want, echo := known[name]; given && echo && text != want {
			return operation.Unknown, false
		}
		if given {
			texts[name] = text
		}
	}
	number, numbered := texts["transaction_id"]
	if numbered && number != "" && !transaction.MatchString(number) ||
		strings.Contains(number, order.Password) || strings.Contains(number, "t0k3n") || texts["reference"] != order.Reference {
		return operation.Unknown, false
	}
	switch status := texts["status"]; {
	case status == "applied" && code == 200 && number != "" && texts["subscriber_id"] != "" && texts["mobile"] != "" && texts["component"] != "":
		return operation.Confirmed, false
	case status == "rejected" && call != "void" && something.MatchString(withoutNoncharacters(texts["message"])):
		return operation.Rejected, false
	case status == "voided" && call != "apply" && code == 200:
		return operation.Rejected, false
	case status == "unknown_reference" && call == "status":
		return operation.Unknown, true
	}
	return operation.Unknown, false
}

// withoutNoncharacters takes out the last two code points of each plane.
func withoutNoncharacters(text string) string {
	return strings.Map(func(r rune) rune {
		if r%0x10000 >= 0xFFFE {
			return -1
		}
		return r
	}, text)
}
