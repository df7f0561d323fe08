package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
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

// maxAnswer limits the headers and the body of a reply, each.
const maxAnswer = 64 << 10

// readAuthorities reads a file with authorities; nothing if none is named.
func readAuthorities(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the provider's CA: %w", err)
	}
	return pem, nil
}

// newTransport returns a transport without automatic features: no proxy from the environment, no
// compression, no HTTP/2, nothing below TLS 1.2.
func newTransport(config Config, authorities []byte) (*http.Transport, error) {
	// New connections resume TLS sessions.
	trust := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	if config.CAFile != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("read the provider's CA: no certificate in %s", config.CAFile)
		}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	// A dial can outlive its call, since net/http keeps the connection for the next one; so it
	// has its own timeout.
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
		// Idle connections are closed before the provider is likely to close them: a call on
		// a connection that is being closed has an unknown outcome.
		MaxIdleConnsPerHost: 512,
		IdleConnTimeout:     30 * time.Second,
	}, nil
}

// reply is a readable reply: HTTP 200 or 4xx with one JSON object.
type reply struct {
	code   int
	fields map[string]any
}

func (g *Gateway) post(ctx context.Context, c call, path string, body []byte) (reply, *failure) {
	ctx, connected := withConnTrace(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.addresses[path], bytes.NewReader(body))
	if err != nil {
		return reply{}, invalidRequest()
	}
	// With GetBody net/http could silently send the body again on another connection. For the
	// same reason the reference is in the body and not in an Idempotency-Key header.
	request.GetBody = nil
	request.Header = c.header(g.postHeader)
	return g.exchange(request, connected)
}

func (g *Gateway) get(ctx context.Context, c call, path string, query url.Values) (reply, *failure) {
	ctx, connected := withConnTrace(ctx)
	address := g.addresses[path]
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return reply{}, invalidRequest()
	}
	request.Header = c.header(g.getHeader)
	return g.exchange(request, connected)
}

// headers returns the headers of GET and POST requests. All calls share them: the transport does not
// modify them, unlike an http.Client.
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

// header returns the shared header, or a copy with the call's traceparent.
func (c call) header(shared http.Header) http.Header {
	if c.traceparent == "" {
		return shared
	}
	own := maps.Clone(shared)
	own["Traceparent"] = []string{c.traceparent}
	return own
}

// withConnTrace returns a context that records whether its call got a connection. Only a call that
// never got one has certainly sent nothing.
func withConnTrace(ctx context.Context) (context.Context, *atomic.Bool) {
	connected := new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), connected
}

// withFailpoint returns a context with a failpoint after the last byte of an order was sent.
func withFailpoint(ctx context.Context) context.Context {
	if !failpoint.Enabled {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { _ = failpoint.Hit("P.sent") },
	})
}

func invalidRequest() *failure {
	return &failure{cause: Unreachable, notSent: true, detail: "no request could be made for the provider's address"}
}

// exchange sends a request and reads the reply. It uses the transport itself: an http.Client would
// follow redirects and keep cookies.
func (g *Gateway) exchange(request *http.Request, connected *atomic.Bool) (reply, *failure) {
	response, err := g.transport.Load().RoundTrip(request)
	if err != nil && !connected.Load() {
		return reply{}, notConnected(err)
	}
	if err != nil {
		return reply{}, broken(err)
	}
	defer response.Body.Close()
	got, failed := read(response)
	if failed != nil {
		failed.code = response.StatusCode
	}
	return got, failed
}

// read reads a complete reply.
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
	if why := checkHeaders(response); why != "" {
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

// readBody reads a reply's body; without a Content-Length, at most one byte more than is allowed.
func readBody(response *http.Response) ([]byte, error) {
	if response.ContentLength < 0 {
		return io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	}
	body := make([]byte, response.ContentLength)
	_, err := io.ReadFull(response.Body, body)
	return body, err
}

// checkHeaders says what is wrong with a reply's headers; empty if nothing is.
func checkHeaders(response *http.Response) string {
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
	// A body that ends with its connection may be truncated.
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
	// mime silently drops continued parameters (charset*1=latin1).
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

// notConnected describes a call that never got a connection. Nothing was sent, so the error cannot
// repeat a secret.
func notConnected(err error) *failure {
	failed := &failure{cause: Unreachable, notSent: true}
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

// broken describes a call that got a connection and no complete reply. The error's text may quote the
// provider, so it is not used.
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
