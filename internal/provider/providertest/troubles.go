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

// Trouble is one way in which a provider fails, or the way to it. It is for tests
// of what is built on a provider's client: what the client itself must make of
// each, and of many more, Faults knows.
type Trouble struct {
	Name string
	// NeverLeaves: no connection comes about, so that nothing can have been done.
	NeverLeaves bool
	// Misfit names the field by which an answer is about something else; an answer
	// without that field is left as it is.
	Misfit string
	// Silent: it takes the whole of the caller's patience.
	Silent bool

	begin func(t testing.TB, books http.Handler) Link
}

// Begin puts the trouble in a sound provider's place. Where an order is carried
// out before things go wrong, it is in the sound one's books.
func (trouble Trouble) Begin(t testing.TB, books http.Handler) Link {
	link := trouble.begin(t, books)
	link.Timeout = patience
	if trouble.Silent {
		link.Timeout = 2 * impatience
	}
	return link
}

// Troubles lists what can befall a call.
func Troubles() []Trouble {
	rows := []Trouble{
		onTheWay("refused", func(testing.TB) Link { return Link{URL: "http://127.77.1.9:9"} }),
		silent(onTheWay("no such host", func(testing.TB) Link { return Link{URL: "http://provider.invalid"} })),
		onTheWay("the TLS handshake fails", func(t testing.TB) Link {
			return Link{URL: "https://" + serveRaw(t, reset).address()}
		}),
		onTheWay("a stranger's certificate", func(t testing.TB) Link {
			stranger := newAuthority(t)
			s := serve(t, &tls.Config{Certificates: []tls.Certificate{stranger.issue(t, "127.0.0.1", 2100)}}, (*exchange).hangUp)
			return Link{URL: "https://" + s.address(), CAFile: newAuthority(t).file}
		}),
		silent(beforeTheEffect("silence", (*exchange).wait)),
		silent(afterTheEffect("silence", func(x *exchange, _ response) { x.wait() })),
		silent(afterTheEffect("a trickle", func(x *exchange, sound response) {
			text, next := sound.bytes(), 0
			trickle(x, func() error {
				_, err := io.WriteString(x.Conn, text[next:next+1])
				// The last byte never comes.
				next = min(next+1, len(text)-2)
				return err
			})
		})),
		{Name: "hung up before a byte was read", begin: func(t testing.TB, _ http.Handler) Link {
			return Link{URL: "http://" + serveRaw(t, func(conn net.Conn) { _ = conn.Close() }).address()}
		}},
		beforeTheEffect("hung up", (*exchange).hangUp),
		beforeTheEffect("reset", (*exchange).reset),
		afterTheEffect("hung up", func(x *exchange, _ response) { x.hangUp() }),
		afterTheEffect("reset", func(x *exchange, _ response) { x.reset() }),
		afterTheEffect("half an answer", func(x *exchange, sound response) {
			text := sound.bytes()
			x.send(text[:len(text)-len(sound.body)/2])
			x.hangUp()
		}),
		beforeTheEffect("HTTP 400 without a word", says(response{"400 Bad Request", []string{"Content-Type: text/html"}, "<h1>no</h1>"})),
		spoiltBody("malformed", func(body string) string { return strings.Replace(body, ":", "=", 1) }),
		spoiltBody("a name twice", func(body string) string {
			return strings.TrimRight(strings.TrimSpace(body), "}") + `,"status":"applied"}`
		}),
		spoiltBody("more than 64 KiB", func(body string) string { return body + strings.Repeat(" ", 64<<10) }),
		afterTheEffect("a gzip bomb", func(x *exchange, sound response) {
			sound.body = zipped(sound.body + strings.Repeat(" ", 1<<20))
			x.send(sound.with("Content-Type: application/json", "Content-Encoding: gzip").bytes())
		}),
		afterTheEffect("not JSON by its type", func(x *exchange, sound response) {
			x.send(sound.with("Content-Type: text/plain").bytes())
		}),
		afterTheEffect("a redirect", func(x *exchange, sound response) {
			x.send(sound.as("307 Temporary Redirect").with("Content-Type: application/json", "Location: "+x.request.URL.Path).bytes())
		}),
	}
	for _, code := range []string{"500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"} {
		rows = append(rows,
			beforeTheEffect("HTTP "+code, says(response{code, []string{"Content-Type: text/html"}, "<h1>later</h1>"})),
			afterTheEffect("HTTP "+code, func(x *exchange, sound response) { x.send(sound.as(code).bytes()) }),
		)
	}
	for _, name := range []string{"reference", "subscriber_id", "mobile", "component"} {
		field := regexp.MustCompile(`"` + name + `":"[^"]*"`)
		wrong := spoiltBody("another "+name, func(body string) string {
			return field.ReplaceAllString(body, `"`+name+`":"ANOTHER"`)
		})
		wrong.Misfit = name
		rows = append(rows, wrong)
	}
	return rows
}

func onTheWay(name string, link func(testing.TB) Link) Trouble {
	return Trouble{Name: name, NeverLeaves: true, begin: func(t testing.TB, _ http.Handler) Link { return link(t) }}
}

func silent(trouble Trouble) Trouble {
	trouble.Silent = true
	return trouble
}

// beforeTheEffect is a trouble that keeps the provider from doing anything.
func beforeTheEffect(name string, deal func(*exchange)) Trouble {
	return Trouble{Name: name + ", before the effect", begin: func(t testing.TB, _ http.Handler) Link {
		return Link{URL: "http://" + serve(t, nil, deal).address()}
	}}
}

// afterTheEffect is one that spoils the answer of a provider that has done what
// it was asked.
func afterTheEffect(name string, deal func(x *exchange, sound response)) Trouble {
	return Trouble{Name: name + ", after the effect", begin: func(t testing.TB, books http.Handler) Link {
		s := serve(t, nil, func(x *exchange) { deal(x, ask(books, x)) })
		return Link{URL: "http://" + s.address()}
	}}
}

func spoiltBody(name string, spoil func(string) string) Trouble {
	return afterTheEffect(name, func(x *exchange, sound response) {
		sound.body = spoil(sound.body)
		x.send(sound.bytes())
	})
}

func says(r response) func(*exchange) { return func(x *exchange) { x.send(r.bytes()) } }

// ask has the sound provider answer.
func ask(books http.Handler, x *exchange) response {
	request := x.request.Clone(x.request.Context())
	request.Body = io.NopCloser(bytes.NewReader(x.body))
	recorder := httptest.NewRecorder()
	books.ServeHTTP(recorder, request)
	return good(recorder.Body.String()).as(fmt.Sprintf("%d %s", recorder.Code, http.StatusText(recorder.Code)))
}
