package providertest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// Fault is one failure of a provider or of the connection to it, for tests of code
// that uses a provider's client. The client itself is tested by Faults, with many
// more.
type Fault struct {
	Name string
	// NotSent: the connection fails, so the order cannot have been carried out.
	NotSent bool
	// Mismatch names the field that is wrong in the reply; a reply without that
	// field is not changed.
	Mismatch string
	// Silent: the call ends with the caller's timeout.
	Silent bool

	begin func(t testing.TB, provider http.Handler) Link
}

// Begin starts a server with the fault in front of a working provider, which
// carries out orders if the fault comes after the effect.
func (fault Fault) Begin(t testing.TB, provider http.Handler) Link {
	link := fault.begin(t, provider)
	link.Timeout = longTimeout
	if fault.Silent {
		link.Timeout = 2 * shortTimeout
	}
	return link
}

// AllFaults lists the faults of a provider call.
func AllFaults() []Fault {
	rows := []Fault{
		connectionFault("refused", func(testing.TB) Link { return Link{URL: "http://127.77.1.9:9"} }),
		silent(connectionFault("no such host", func(testing.TB) Link { return Link{URL: "http://provider.invalid"} })),
		connectionFault("the TLS handshake fails", func(t testing.TB) Link {
			return Link{URL: "https://" + serveRaw(t, reset).address()}
		}),
		connectionFault("an untrusted certificate", func(t testing.TB) Link {
			untrusted := newAuthority(t)
			s := serve(t, &tls.Config{Certificates: []tls.Certificate{untrusted.issue(t, "127.0.0.1", 2100)}}, (*exchange).hangUp)
			return Link{URL: "https://" + s.address(), CAFile: newAuthority(t).file}
		}),
		silent(beforeEffect("silence", (*exchange).wait)),
		silent(afterEffect("silence", func(x *exchange, _ response) { x.wait() })),
		silent(afterEffect("a trickle", func(x *exchange, reply response) {
			text, next := reply.bytes(), 0
			trickle(x, func() error {
				_, err := io.WriteString(x.Conn, text[next:next+1])
				// The last byte is never sent.
				next = min(next+1, len(text)-2)
				return err
			})
		})),
		{Name: "hung up before a byte was read", begin: func(t testing.TB, _ http.Handler) Link {
			return Link{URL: "http://" + serveRaw(t, func(conn net.Conn) { _ = conn.Close() }).address()}
		}},
		beforeEffect("hung up", (*exchange).hangUp),
		beforeEffect("reset", (*exchange).reset),
		afterEffect("hung up", func(x *exchange, _ response) { x.hangUp() }),
		afterEffect("reset", func(x *exchange, _ response) { x.reset() }),
		afterEffect("half an answer", func(x *exchange, reply response) {
			text := reply.bytes()
			x.send(text[:len(text)-len(reply.body)/2])
			x.hangUp()
		}),
		beforeEffect("HTTP 400 without JSON", says(response{"400 Bad Request", []string{"Content-Type: text/html"}, "<h1>no</h1>"})),
		malformedBody("malformed", func(body string) string { return strings.Replace(body, ":", "=", 1) }),
		malformedBody("a name twice", func(body string) string {
			return strings.TrimRight(strings.TrimSpace(body), "}") + `,"status":"applied"}`
		}),
		malformedBody("more than 64 KiB", func(body string) string { return body + strings.Repeat(" ", 64<<10) }),
		afterEffect("a gzip bomb", func(x *exchange, reply response) {
			reply.body = zipped(reply.body + strings.Repeat(" ", 1<<20))
			x.send(reply.with("Content-Type: application/json", "Content-Encoding: gzip").bytes())
		}),
		afterEffect("not JSON by its type", func(x *exchange, reply response) {
			x.send(reply.with("Content-Type: text/plain").bytes())
		}),
		afterEffect("a redirect", func(x *exchange, reply response) {
			x.send(reply.as("307 Temporary Redirect").with("Content-Type: application/json", "Location: "+x.request.URL.Path).bytes())
		}),
	}
	for _, code := range []string{"500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"} {
		rows = append(rows,
			beforeEffect("HTTP "+code, says(response{code, []string{"Content-Type: text/html"}, "<h1>later</h1>"})),
			afterEffect("HTTP "+code, func(x *exchange, reply response) { x.send(reply.as(code).bytes()) }),
		)
	}
	for _, name := range []string{"reference", "subscriber_id", "mobile", "component"} {
		field := regexp.MustCompile(`"` + name + `":"[^"]*"`)
		wrong := malformedBody("another "+name, func(body string) string {
			return field.ReplaceAllString(body, `"`+name+`":"ANOTHER"`)
		})
		wrong.Mismatch = name
		rows = append(rows, wrong)
	}
	return rows
}

func connectionFault(name string, link func(testing.TB) Link) Fault {
	return Fault{Name: name, NotSent: true, begin: func(t testing.TB, _ http.Handler) Link { return link(t) }}
}

func silent(fault Fault) Fault {
	fault.Silent = true
	return fault
}

// beforeEffect is a fault before the provider carries out the order.
func beforeEffect(name string, handle func(*exchange)) Fault {
	return Fault{Name: name + ", before the effect", begin: func(t testing.TB, _ http.Handler) Link {
		return Link{URL: "http://" + serve(t, nil, handle).address()}
	}}
}

// afterEffect is a fault in the reply, after the provider has carried out the
// order.
func afterEffect(name string, handle func(x *exchange, reply response)) Fault {
	return Fault{Name: name + ", after the effect", begin: func(t testing.TB, provider http.Handler) Link {
		s := serve(t, nil, func(x *exchange) { handle(x, forward(provider, x)) })
		return Link{URL: "http://" + s.address()}
	}}
}

func malformedBody(name string, change func(string) string) Fault {
	return afterEffect(name, func(x *exchange, reply response) {
		reply.body = change(reply.body)
		x.send(reply.bytes())
	})
}

func says(r response) func(*exchange) { return func(x *exchange) { x.send(r.bytes()) } }

// forward returns the working provider's response.
func forward(provider http.Handler, x *exchange) response {
	request := x.request.Clone(x.request.Context())
	request.Body = io.NopCloser(bytes.NewReader(x.body))
	recorder := httptest.NewRecorder()
	provider.ServeHTTP(recorder, request)
	return good(recorder.Body.String()).as(fmt.Sprintf("%d %s", recorder.Code, http.StatusText(recorder.Code)))
}
