package httpapi

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/fault"
)

// wire is a client's end of a connection, for raw messages.
type wire struct {
	net.Conn
	t    *testing.T
	r    *bufio.Reader
	sent []byte // not answered yet
}

// dialTLS and dialPlain connect and set a deadline, so that no test waits for ever.
func (h *testEnv) dialTLS() *wire { return h.dial(h.tls, clientTLS()) }

func (h *testEnv) dialPlain(address string) *wire { return h.dial(address, nil) }

func (h *testEnv) dial(address string, config *tls.Config) *wire {
	h.t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(waitLimit))
	if config != nil {
		encrypted := tls.Client(c, config)
		if err := encrypted.Handshake(); err != nil {
			h.t.Fatal(err)
		}
		c = encrypted
	}
	return &wire{Conn: c, t: h.t, r: bufio.NewReader(c)}
}

// Write sends and records what was sent: responses come in the order of requests.
func (w *wire) Write(p []byte) (int, error) {
	w.sent = append(w.sent, p...)
	return w.Conn.Write(p)
}

// answered returns the request that the next response belongs to, and removes it from
// sent. Both results are empty if it is not a readable request.
func (w *wire) answered() (method, path string) {
	w.sent = bytes.TrimLeft(w.sent, "\r\n") // HTTP ignores them between requests
	rest := bytes.NewReader(w.sent)
	buffered := bufio.NewReader(rest)
	request, err := http.ReadRequest(buffered)
	if err != nil {
		w.sent = nil
		return "", ""
	}
	_, _ = io.Copy(io.Discard, request.Body) // it may have been sent only in part
	w.sent = w.sent[len(w.sent)-buffered.Buffered()-rest.Len():]
	path, _ = splitTarget(request.RequestURI)
	return request.Method, path
}

func (w *wire) send(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		w.t.Fatalf("send: %v", err)
	}
}

// got is a response that was validated.
type got struct {
	*http.Response
	body    string
	Success bool            `json:"success"`
	ID      string          `json:"request_id"`
	Code    fault.Code      `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

var shape = regexp.MustCompile(`^\{"success":(?:true|false),"request_id":"req_[0-9a-f]{32}","code":"[A-Z_]+",` +
	`"message":"(?:[^"\\]|\\.)+","data":\{.*\}\}$`)

// receive reads the next response, validates it against the document, and checks what
// every response must have.
func (w *wire) receive() got {
	w.t.Helper()
	return w.receiveTo("GET")
}

func (w *wire) receiveTo(method string) got {
	w.t.Helper()
	response, err := http.ReadResponse(w.r, &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("read the response: %v", err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatalf("read the response's body: %v", err)
	}
	g := got{Response: response, body: string(body)}
	asked, path := w.answered()
	contracttest.Check(w.t, asked, path, response.StatusCode, response.Header, body)
	for name, want := range map[string]string{
		"Content-Type":  "application/json; charset=utf-8",
		"Cache-Control": "no-store",
	} {
		if is := response.Header.Values(name); len(is) != 1 || is[0] != want {
			w.t.Errorf("%s = %q; want %q", name, is, want)
		}
	}
	if method == "HEAD" {
		return g
	}
	if !shape.Match(body) {
		w.t.Fatalf("the body is no envelope: %s", body)
	}
	if err := json.Unmarshal(body, &g); err != nil {
		w.t.Fatalf("body %s: %v", body, err)
	}
	w.checkHSTS(g)
	if is := response.Header.Values("X-Request-Id"); len(is) != 1 || is[0] != g.ID {
		w.t.Errorf("X-Request-Id = %q; want %q as in the body", is, g.ID)
	}
	if is := response.Header.Get("Content-Length"); is != strconv.Itoa(len(body)) {
		w.t.Errorf("Content-Length = %q; want %d", is, len(body))
	}
	if g.Success != (response.StatusCode == 200) {
		w.t.Errorf("success = %v with status %d", g.Success, response.StatusCode)
	}
	if retry := response.Header.Get("Retry-After"); (retry != "") != (response.StatusCode == 429) {
		w.t.Errorf("Retry-After = %q with status %d", retry, response.StatusCode)
	}
	return g
}

// expect reads a response and compares its status and code.
func (w *wire) expect(status int, code fault.Code) got {
	w.t.Helper()
	g := w.receive()
	if g.StatusCode != status || g.Code != code {
		w.t.Errorf("answered %d %s; want %d %s", g.StatusCode, g.Code, status, code)
	}
	return g
}

// expectClosed waits until the server closes the connection, with no more data.
func (w *wire) expectClosed() {
	w.t.Helper()
	rest, err := io.ReadAll(w.r)
	var late net.Error
	if err != nil && errors.As(err, &late) && late.Timeout() {
		w.t.Fatal("the connection was not closed")
	}
	if len(rest) > 0 {
		w.t.Errorf("%d more bytes before the close: %q", len(rest), rest)
	}
}
