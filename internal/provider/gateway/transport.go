package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/strictjson"
)

// maxAnswer is how much of an answer is read, headers and body each.
const maxAnswer = 64 << 10

// newTransport makes a transport that does nothing of its own accord: no proxy
// from the environment, no compression, no HTTP/2, nothing below TLS 1.2.
func newTransport(config Config) (*http.Transport, error) {
	// A connection after a pause need not prove again who the provider is.
	trust := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	if config.CAFile != "" {
		pem, err := os.ReadFile(config.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the provider's CA: %w", err)
		}
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the provider's CA: no certificate in %s", config.CAFile)
		}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	// A dial can outlive its call, since net/http keeps the connection for the
	// next one; so it has a limit of its own.
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: config.Timeout}).DialContext
	}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dial,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    config.Timeout,
		DisableCompression:     true,
		Protocols:              protocols,
		MaxResponseHeaderBytes: maxAnswer,
		// As many connections stay open as there were calls at once. They are
		// let go before a provider is likely to: a call that meets a
		// connection being closed ends in doubt.
		MaxIdleConnsPerHost: 512,
		IdleConnTimeout:     30 * time.Second,
	}, nil
}

// reply is an answer that could be read: 200 or 4xx, with one JSON object.
type reply struct {
	code   int
	fields map[string]any
}

func (g *Gateway) post(ctx context.Context, path string, body []byte) (reply, *failure) {
	ctx, connected := watched(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.addresses[path], bytes.NewReader(body))
	if err != nil {
		return reply{}, unsendable()
	}
	// Without this net/http could send the body a second time, on another
	// connection, and say nothing. For the same reason the reference travels
	// in the body and never as an Idempotency-Key.
	request.GetBody = nil
	request.Header = g.postHeader
	return g.exchange(request, connected)
}

func (g *Gateway) get(ctx context.Context, path string, query url.Values) (reply, *failure) {
	ctx, connected := watched(ctx)
	address := g.addresses[path]
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return reply{}, unsendable()
	}
	request.Header = g.getHeader
	return g.exchange(request, connected)
}

// headers are what goes with every question and, with a media type, with every
// order. All calls share them: a transport reads them, and an http.Client, which
// would add to them, is not asked.
func headers(token Token) (get, post http.Header) {
	get = http.Header{
		"Accept":          {"application/json"},
		"Accept-Encoding": {"identity"},
		"User-Agent":      {"coax"},
	}
	if token != "" {
		get["Authorization"] = []string{"Bearer " + string(token)}
	}
	post = get.Clone()
	post["Content-Type"] = []string{"application/json"}
	return get, post
}

// watched is a context that notices whether its call was handed a connection.
// One that was, new or used before, may have carried bytes; only a call that never
// got one provably sent nothing.
func watched(ctx context.Context) (context.Context, *atomic.Bool) {
	connected := new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), connected
}

// breakable is a context under which a test can break the program when the last
// byte of an order has left. Questions do not come by there.
func breakable(ctx context.Context) context.Context {
	if !failpoint.Enabled {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { _ = failpoint.Hit("P.sent") },
	})
}

func unsendable() *failure {
	return &failure{cause: Unreachable, neverLeft: true, detail: "no request could be made for the provider's address"}
}

// exchange sends a request and reads the answer. The transport is asked
// directly: an http.Client would follow redirects and keep cookies.
func (g *Gateway) exchange(request *http.Request, connected *atomic.Bool) (reply, *failure) {
	response, err := g.transport.RoundTrip(request)
	if err != nil && !connected.Load() {
		return reply{}, notConnected(err)
	}
	if err != nil {
		return reply{}, broken(err)
	}
	defer response.Body.Close()
	return read(response)
}

// read takes an answer only if it is whole and plain.
func read(response *http.Response) (reply, *failure) {
	code := response.StatusCode
	switch {
	case response.ProtoMajor != 1:
		return reply{}, violation("the provider answered with HTTP version %d", response.ProtoMajor)
	case code >= 500:
		return reply{}, &failure{cause: Unavailable, detail: fmt.Sprintf("the provider answered HTTP %d", code)}
	case code != http.StatusOK && code < 400:
		return reply{}, violation("the provider answered HTTP %d, which the protocol does not know; redirects are not followed", code)
	}
	if why := unfit(response); why != "" {
		return reply{}, violation("the provider answered HTTP %d %s", code, why)
	}
	body, err := readBody(response)
	if err != nil {
		return reply{}, broken(err)
	}
	if len(body) > maxAnswer {
		return reply{}, violation("the provider answered HTTP %d with more than %d bytes", code, maxAnswer)
	}
	fields, err := strictjson.Parse(body)
	if err != nil {
		return reply{}, violation("the provider answered HTTP %d with something other than one strict JSON object: %v", code, err)
	}
	return reply{code: code, fields: fields}, nil
}

// readBody reads an answer's body, and of one without a given length no more than
// shows that it is too long.
func readBody(response *http.Response) ([]byte, error) {
	if response.ContentLength < 0 {
		return io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	}
	body := make([]byte, response.ContentLength)
	_, err := io.ReadFull(response.Body, body)
	return body, err
}

// unfit says what is wrong with an answer before its body is read.
func unfit(response *http.Response) string {
	types := response.Header["Content-Type"]
	if len(types) != 1 || !isJSON(types[0]) {
		return "whose Content-Type is not application/json"
	}
	for _, coding := range response.Header["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") {
			return "with a Content-Encoding, which was not asked for"
		}
	}
	if response.ContentLength > maxAnswer {
		return fmt.Sprintf("with more than %d bytes", maxAnswer)
	}
	// A body that ends with its connection cannot be told from one cut off.
	if response.ContentLength < 0 && len(response.TransferEncoding) == 0 {
		return "without a length"
	}
	return ""
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, parameters, err := mime.ParseMediaType(contentType)
	// mime drops pieces of a parameter (charset*1=latin1) without a word.
	if err != nil || media != "application/json" || strings.Contains(contentType, "*") {
		return false
	}
	for name, value := range parameters {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

// notConnected explains a call that never got a connection. Nothing was sent
// yet, so the error cannot repeat anything secret.
func notConnected(err error) *failure {
	failed := &failure{cause: Unreachable, neverLeft: true}
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		failed.cause = Certificate
		failed.detail = "the provider's certificate was not accepted; nothing was sent: " + tidy(certificate.Err.Error())
	case timedOut(err):
		failed.detail = "no connection to the provider came about in time; nothing was sent"
	default:
		failed.detail = "no connection to the provider came about; nothing was sent: " + tidy(err.Error())
	}
	return failed
}

// broken explains a call that got a connection and no whole answer. The error's
// own text may quote what the provider sent, so it is not passed on.
func broken(err error) *failure {
	switch {
	case timedOut(err):
		return &failure{cause: TimedOut, detail: "the provider gave no whole answer in time"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{cause: Interrupted, detail: "the connection ended before the provider's whole answer"}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &failure{cause: Interrupted, detail: "the connection was reset before the provider's whole answer"}
	case errors.Is(err, context.Canceled):
		return &failure{cause: Interrupted, detail: "the question was given up before the provider's whole answer"}
	}
	return &failure{cause: Interrupted, detail: "what came back from the provider could not be read as HTTP"}
}

func timedOut(err error) bool {
	var slow net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout()
}
