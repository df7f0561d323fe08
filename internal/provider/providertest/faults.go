package providertest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// Link is the address of a provider, and how to connect to it.
type Link struct {
	URL string
	// CAFile is the only authority to trust, for https.
	CAFile  string
	Timeout time.Duration
}

// Connect makes the provider under test for a link.
type Connect func(t testing.TB, link Link) operation.Provider

const (
	// longTimeout does not expire, even on a busy machine.
	longTimeout = 2 * time.Minute
	// shortTimeout is for replies that never come. On a very busy machine it may
	// expire before the request arrives.
	shortTimeout = time.Second
)

// Faults tests a provider's client with everything that a provider, or a proxy
// before it, can do wrong in one call. An order is sent at most once, and only a
// valid reply confirms or rejects it.
func Faults(t *testing.T, connect Connect) {
	t.Run("Malformed", func(t *testing.T) { malformedReplies(t, connect) })
	t.Run("Definite", func(t *testing.T) { definiteReplies(t, connect) })
	t.Run("Silence", func(t *testing.T) { silence(t, connect) })
	t.Run("Cuts", func(t *testing.T) { cuts(t, connect) })
	t.Run("Connections", func(t *testing.T) { connections(t, connect) })
	t.Run("Certificates", func(t *testing.T) { certificates(t, connect) })
	t.Run("Resending", func(t *testing.T) { resending(t, connect) })
}

// malformed is a reply that would confirm the order but for one defect.
type malformed struct {
	name string
	raw  func(operation.Order) string
	// only is the one call that gets this reply; empty means all.
	only string
}

// body changes the fields of the reply.
func body(name string, change func(fields) fmt.Stringer) malformed {
	return malformed{name: name, raw: func(order operation.Order) string {
		return good(change(appliedTo(order)).String()).bytes()
	}}
}

// text changes the body's text.
func text(name string, change func(string) string) malformed {
	return malformed{name: name, raw: func(order operation.Order) string {
		return good(change(appliedTo(order).String())).bytes()
	}}
}

// whole changes the HTTP response around the body.
func whole(name string, change func(response) response) malformed {
	return malformed{name: name, raw: func(order operation.Order) string {
		return change(good(appliedTo(order).String())).bytes()
	}}
}

func malformedTable() []malformed {
	rows := []malformed{
		body("no status", func(f fields) fmt.Stringer { return f.without("status") }),
		body("status in capitals", func(f fields) fmt.Stringer { return f.set("status", `"APPLIED"`) }),
		body("status with a space", func(f fields) fmt.Stringer { return f.set("status", `"applied "`) }),
		body("status is another word", func(f fields) fmt.Stringer { return f.set("status", `"ok"`) }),
		body("status is true", func(f fields) fmt.Stringer { return f.set("status", `true`) }),
		body("status is pending", func(f fields) fmt.Stringer { return f.set("status", `"pending"`) }),
		body("no transaction number", func(f fields) fmt.Stringer { return f.without("transaction_id") }),
		body("an empty transaction number", func(f fields) fmt.Stringer { return f.set("transaction_id", `""`) }),
		body("a transaction number that is a number", func(f fields) fmt.Stringer { return f.set("transaction_id", `7781`) }),
		body("a transaction number with NUL", func(f fields) fmt.Stringer { return f.set("transaction_id", `"PV\u00001"`) }),
		body("a transaction number without end", func(f fields) fmt.Stringer {
			return f.set("transaction_id", quote(strings.Repeat("7", 101)))
		}),
		body("a message that is no text", func(f fields) fmt.Stringer { return f.and("message", `{"en":"done"}`) }),
		body("two statuses that agree", func(f fields) fmt.Stringer { return f.and("status", `"applied"`) }),
		body("two statuses that differ", func(f fields) fmt.Stringer {
			return append(fields{{"status", `"rejected"`}}, f...)
		}),
		body("a name twice deep inside", func(f fields) fmt.Stringer { return f.and("extra", `[{"a":1,"a":2}]`) }),
		body("a name twice, once escaped", func(f fields) fmt.Stringer { return escaped(f) }),
		body("nested without end", func(f fields) fmt.Stringer {
			return f.and("extra", strings.Repeat("[", 500)+strings.Repeat("]", 500))
		}),
		text("an empty body", func(string) string { return "" }),
		text("null", func(string) string { return "null" }),
		text("a list", func(s string) string { return "[" + s + "]" }),
		text("a string", quote),
		text("half of it", func(s string) string { return s[:len(s)/2] }),
		text("all but the last brace", func(s string) string { return s[:len(s)-1] }),
		text("twice", func(s string) string { return s + s }),
		text("something after it", func(s string) string { return s + " ok" }),
		text("a NUL after it", func(s string) string { return s + "\x00" }),
		text("a byte order mark before it", func(s string) string { return "\uFEFF" + s }),
		text("not UTF-8", func(s string) string { return strings.Replace(s, "PV", "\xff\xfe", 1) }),
		text("single quotes", func(s string) string { return strings.ReplaceAll(s, `"`, `'`) }),
		text("a comma too many", func(s string) string { return strings.TrimSuffix(s, "}") + ",}" }),
		text("one byte too long", func(s string) string { return s + strings.Repeat(" ", 64<<10+1-len(s)) }),
		text("far too long", func(s string) string { return s + strings.Repeat(" ", 1<<20) }),
		text("HTML", func(string) string { return "<html>200 OK</html>" }),
		whole("no content type", func(r response) response { return r.with() }),
		whole("text/plain", func(r response) response { return r.with("Content-Type: text/plain") }),
		whole("text/html", func(r response) response { return r.with("Content-Type: text/html; charset=utf-8") }),
		whole("problem+json", func(r response) response { return r.with("Content-Type: application/problem+json") }),
		whole("another charset", func(r response) response { return r.with("Content-Type: application/json; charset=utf-16") }),
		whole("two content types", func(r response) response {
			return r.with("Content-Type: application/json", "Content-Type: application/json")
		}),
		whole("says gzip and is not", func(r response) response {
			return r.with("Content-Type: application/json", "Content-Encoding: gzip")
		}),
		whole("is gzip", func(r response) response {
			r.body = zipped(r.body)
			return r.with("Content-Type: application/json", "Content-Encoding: gzip")
		}),
		whole("is gzip and does not say so", func(r response) response {
			r.body = zipped(r.body)
			return r
		}),
		whole("a gzip bomb", func(r response) response {
			r.body = zipped(r.body + strings.Repeat(" ", 1<<20))
			return r.with("Content-Type: application/json", "Content-Encoding: gzip")
		}),
		whole("headers without end", func(r response) response {
			return r.with("Content-Type: application/json", "X-Long: "+strings.Repeat("x", 128<<10))
		}),
		whole("a redirect that says applied", func(r response) response {
			return r.as("307 Temporary Redirect").with("Content-Type: application/json", "Location: /v1/renew")
		}),
		{name: "no length, but the connection's end", raw: func(order operation.Order) string {
			return good(appliedTo(order).String()).endless()
		}},
		{name: "one byte too long, in chunks", raw: func(order operation.Order) string {
			text := appliedTo(order).String()
			return good(text + strings.Repeat(" ", 64<<10+1-len(text))).chunked()
		}},
		{name: "a chunk size that is none", raw: func(order operation.Order) string {
			return strings.Replace(good(appliedTo(order).String()).chunked(), "\r\n\r\n", "\r\n\r\nzz", 1)
		}},
		{name: "two lengths", raw: func(order operation.Order) string {
			r := good(appliedTo(order).String())
			return r.with("Content-Type: application/json", "Content-Length: 7").bytes()
		}},
		{name: "not HTTP", raw: func(operation.Order) string { return "+OK applied\r\n" + strings.Repeat("x", 100) + "\r\n\r\n" }},
		{name: "HTTP/9", raw: func(order operation.Order) string {
			return strings.Replace(good(appliedTo(order).String()).bytes(), "HTTP/1.1", "HTTP/9.7", 1)
		}},
	}
	for _, echoed := range []string{"reference", "subscriber_id", "mobile", "component"} {
		rows = append(rows,
			body("no "+echoed, func(f fields) fmt.Stringer { return f.without(echoed) }),
			body("another "+echoed, func(f fields) fmt.Stringer { return f.set(echoed, `"ANOTHER"`) }),
			body("an empty "+echoed, func(f fields) fmt.Stringer { return f.set(echoed, `""`) }),
			body(echoed+" is null", func(f fields) fmt.Stringer { return f.set(echoed, `null`) }),
			body(echoed+" is a number", func(f fields) fmt.Stringer { return f.set(echoed, `9812345678`) }),
			body(echoed+" is a list", func(f fields) fmt.Stringer { return f.set(echoed, `["CX1"]`) }),
			body(echoed+" twice", func(f fields) fmt.Stringer { return f.and(echoed, `"ANOTHER"`) }),
			body(echoed+" in capitals", func(f fields) fmt.Stringer {
				for i := range f {
					if f[i].name == echoed {
						f[i].name = strings.ToUpper(echoed)
					}
				}
				return f
			}),
			repeatsPassword(echoed),
		)
	}
	for _, code := range []string{
		"201 Created", "202 Accepted", "204 No Content", "206 Partial Content",
		"301 Moved Permanently", "302 Found", "303 See Other", "304 Not Modified", "308 Permanent Redirect",
		"400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found", "408 Request Timeout",
		"409 Conflict", "422 Unprocessable Content", "429 Too Many Requests",
		"500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout", "599 Odd",
	} {
		rows = append(rows, whole("says applied with "+code, func(r response) response {
			if code == "204 No Content" || code == "304 Not Modified" {
				r.body = "" // these statuses have none
			}
			return r.as(code)
		}))
	}
	for _, code := range []string{"400 Bad Request", "404 Not Found", "409 Conflict"} {
		rows = append(rows, malformed{name: "no JSON with " + code, raw: func(operation.Order) string {
			return response{code, []string{"Content-Type: text/html"}, "<h1>no</h1>"}.bytes()
		}})
	}
	for _, code := range []string{"500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "302 Found", "201 Created"} {
		rows = append(rows, malformed{name: "rejects with " + code, raw: func(order operation.Order) string {
			return good(rejects(order).String()).as(code).bytes()
		}})
	}
	return append(rows,
		malformed{name: "rejects another reference", raw: func(order operation.Order) string {
			return good(rejects(order).set("reference", `"CX0"`).String()).as("422 Unprocessable Content").bytes()
		}},
		malformed{name: "rejects without a reference", raw: func(order operation.Order) string {
			return good(rejects(order).without("reference").String()).as("422 Unprocessable Content").bytes()
		}},
		malformed{name: "rejects about another component", raw: func(order operation.Order) string {
			return good(rejects(order).set("component", `"TV-OTHER"`).String()).bytes()
		}},
		malformed{name: "rejects without a message", raw: func(order operation.Order) string {
			return good(rejects(order).without("message").String()).bytes()
		}},
		malformed{name: "an error object of its own", raw: func(operation.Order) string {
			return good(`{"error":"no such line"}`).as("400 Bad Request").bytes()
		}},
	)
}

// repeatsPassword returns the password of an activation in some field. Only the
// activation's client knows the password and can recognize it.
func repeatsPassword(in string) malformed {
	row := body(in+" repeats the password", func(f fields) fmt.Stringer { return f.set(in, quote(secretPassword)) })
	row.only = "activate"
	return row
}

// escaped repeats a field with its name escaped.
func escaped(f fields) fmt.Stringer {
	return raw(strings.TrimSuffix(f.String(), "}") + `,"\u0073tatus":"applied"}`)
}

type raw string

func (r raw) String() string { return string(r) }

func zipped(text string) string {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write([]byte(text))
	_ = writer.Close()
	return packed.String()
}

// malformedReplies checks that an invalid reply leaves the outcome unknown, for
// orders and for status and void, and that the call is not repeated.
func malformedReplies(t *testing.T, connect Connect) {
	for _, row := range malformedTable() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range calls {
				if row.only != "" && row.only != c.name {
					continue
				}
				order := sample(c.kind, "CX1", "9812345678")
				s := serve(t, nil, func(x *exchange) {
					x.send(row.raw(order))
					x.hangUp()
				})
				got := c.do(connect(t, Link{URL: "http://" + s.address(), Timeout: longTimeout}), order)
				unknown.check(t, c.name, got)
				s.checkSentOnce(t, c, order)
			}
		})
	}
}

func (s *server) checkSentOnce(t testing.TB, c call, order operation.Order) {
	t.Helper()
	effects, requests := s.counts(order.Reference)
	if c.isOrder() && effects != 1 || !c.isOrder() && effects != 0 || requests != 1 {
		t.Errorf("%s: %d effects of %d requests; want one request, and one effect if it is an order", c.name, effects, requests)
	}
}
