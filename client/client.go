// Package client is the Go SDK of Coax. It activates and renews subscribers and
// books renewals in advance, from an operator's own billing software.
//
// Every operation costs money, so each one is named by an idempotency key that
// the caller makes and stores before calling. Whatever happens to the call, the
// same key asks about the same operation, and it is never charged twice:
//
//	op, err := c.Renew(ctx, "order-4711", client.Renewal{SubscriberID: "100001", PlanID: "BASIC-1"})
//	switch {
//	case err == nil:
//		// done, and charged
//	case client.Undecided(err):
//		// the outcome is not known yet: call again later with the same key, never with another
//	case errors.Is(err, client.InsufficientBalance):
//		// nothing was charged; top up and call again with the same key
//	}
//
// A call is retried where that is safe and useful, with the same key and the same
// body, and with a new nonce, timestamp and signature each time; an operation whose
// outcome is unknown is polled until it is settled. Other errors are returned at once
// as an *Error with the service's code; decide by the code, or by the status if you
// do not know the code. sdk/BEHAVIOUR.md has every rule.
//
// The client belongs on the operator's server. The secret that it holds must
// never reach a browser or a phone.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/signing"
)

// apiPath is where signed paths begin, whatever a proxy puts before it.
const apiPath = "/api/v1"

// version is that of the SDK, which has the product's.
const version = "0.2.0"

// maxAnswer bounds what is read of an answer; the service's are far smaller.
const maxAnswer = 8 << 20

// Secret is a string that is redacted when it is printed, logged or encoded as
// JSON. string(secret) returns the text.
type Secret string

// String returns a placeholder.
func (Secret) String() string { return "[secret]" }

// GoString returns a placeholder.
func (Secret) GoString() string { return "[secret]" }

// MarshalJSON writes a placeholder, because logs are written as JSON, too.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"[secret]"`), nil }

// LogValue returns a placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue("[secret]") }

// Config is the address of a service and the credentials for it. As JSON it can be read from
// the line that coax demo prints, or from a file in that form.
type Config struct {
	// BaseURL is the service's address, including /api/v1.
	BaseURL string `json:"base_url"`
	// Key and Secret are the operator's credentials.
	Key    string `json:"api_key"`
	Secret Secret `json:"api_secret"`
	// CACert is the path of the certificate authority of a service that has its own;
	// empty trusts the system's. It is not used if HTTP has a transport.
	CACert string `json:"ca_cert"`
	// ConnectTimeout is how long it may take to connect, TLS included: 10 seconds if 0.
	// It is not used if HTTP has a transport.
	ConnectTimeout time.Duration
	// HTTP sends the requests; nil is a default client. Its Timeout is for one
	// attempt; if 0 it is 60 seconds, which is longer than the service takes to
	// answer even if its provider times out. Without a transport it has the default
	// client's. Redirects are never followed: a signature is for one address.
	HTTP *http.Client
	// Retry is the retry policy; its zero value has sensible defaults.
	Retry Retry
	// ReturnPending ends an operation with PendingReview as soon as the service
	// answers 202, instead of waiting until it is settled.
	ReturnPending bool
	// OnAttempt is called after every attempt, if it is not nil.
	OnAttempt func(Attempt)
	// Now is the clock of the timestamps; nil is the system's.
	Now func() time.Time
}

// Client calls a service. It is safe for concurrent use.
type Client struct {
	origin string // scheme, host, and a proxy's path before /api/v1
	key    string
	// sign holds the secret in a closure. As a field, the secret would appear when a
	// client is printed: fmt does not call String on unexported fields.
	sign  func(signing.Request) string
	http  *http.Client
	retry Retry
	now   func() time.Time
	// returnPending and onAttempt are as in Config.
	returnPending bool
	onAttempt     func(Attempt)
	// ahead is how far the service's clock is ahead of ours, in nanoseconds, by its
	// last report.
	ahead atomic.Int64
}

// New returns a client, or an error if the configuration is invalid.
func New(config Config) (*Client, error) {
	origin, err := readBase(config.BaseURL)
	if err != nil {
		return nil, err
	}
	if config.Key == "" || config.Secret == "" {
		return nil, fmt.Errorf("both an API key and its secret are needed")
	}
	// A key read from a file often ends with a line feed, which is invalid in a
	// header.
	if strings.ContainsFunc(config.Key+string(config.Secret), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("the API key or its secret has a space, a line feed or another character that none has: trim it")
	}
	retry, err := config.Retry.withDefaults()
	if err != nil {
		return nil, err
	}
	var sender http.Client
	if config.HTTP != nil {
		sender = *config.HTTP
	}
	if sender.Transport == nil {
		if sender.Transport, err = transportOf(config); err != nil {
			return nil, err
		}
	}
	sender.Timeout = cmp.Or(sender.Timeout, 60*time.Second)
	sender.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{
		origin: origin, key: config.Key, http: &sender, retry: retry, now: config.Now,
		returnPending: config.ReturnPending, onAttempt: config.OnAttempt,
		sign: signing.NewKey(string(config.Secret)).Sign,
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// connectTimeout is the default of Config.ConnectTimeout.
const connectTimeout = 10 * time.Second

// defaultTransport is shared by clients without settings of their own.
var defaultTransport = sync.OnceValues(func() (http.RoundTripper, error) { return newTransport(connectTimeout, nil) })

// transportOf returns the transport of a client without its own.
func transportOf(config Config) (http.RoundTripper, error) {
	if config.ConnectTimeout < 0 {
		return nil, fmt.Errorf("ConnectTimeout cannot be %v", config.ConnectTimeout)
	}
	if config.CACert == "" && config.ConnectTimeout == 0 {
		if _, usual := http.DefaultTransport.(*http.Transport); !usual {
			return http.DefaultTransport, nil // replaced by the program: use it unchanged
		}
		return defaultTransport()
	}
	var roots *x509.CertPool
	if config.CACert != "" {
		text, err := os.ReadFile(config.CACert)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", config.CACert)
		}
	}
	return newTransport(cmp.Or(config.ConnectTimeout, connectTimeout), roots)
}

// newTransport returns a copy of the program's default transport that connects within
// the timeout or not at all, keeps more idle connections and resumes TLS sessions, for
// jobs with many concurrent calls. The default keeps only two idle connections per
// host, and each new one costs a whole handshake. Without roots it trusts the default's.
func newTransport(timeout time.Duration, roots *x509.CertPool) (*http.Transport, error) {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("http.DefaultTransport was replaced, so CACert and ConnectTimeout have no effect: set HTTP instead")
	}
	transport := usual.Clone()
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}
	transport.DialContext = dialer.DialContext
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		// It bounds connecting and the handshake together.
		secure := tls.Dialer{NetDialer: dialer, Config: transport.TLSClientConfig}
		conn, err := secure.DialContext(ctx, network, address)
		var failed *net.OpError
		if err == nil || errors.As(err, &failed) && failed.Op == "dial" {
			return conn, err
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("TLS with %s: %w", address, err)}
	}
	transport.TLSHandshakeTimeout = timeout // behind a proxy, with which DialTLSContext is not used
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{}
	}
	if roots != nil {
		transport.TLSClientConfig.RootCAs = roots
	}
	if transport.TLSClientConfig.ClientSessionCache == nil {
		transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return transport, nil
}

// readBase checks a base address and returns the part before /api/v1.
func readBase(text string) (string, error) {
	base, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("the base address cannot be read: %w", err)
	}
	prefix, whole := strings.CutSuffix(strings.TrimSuffix(base.EscapedPath(), "/"), apiPath)
	if base.Host == "" || !whole || base.RawQuery != "" || base.Fragment != "" {
		return "", fmt.Errorf("the base address %q is not one: write it as https://HOST/api/v1", text)
	}
	// Requests contain a key, a signature and customers' passwords. Plain HTTP is
	// allowed on loopback only, for development.
	if base.Scheme != "https" && !(base.Scheme == "http" && loopback(base.Hostname())) {
		return "", fmt.Errorf("the base address %q has to begin with https://", text)
	}
	return base.Scheme + "://" + base.Host + prefix, nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// Response is an HTTP response of the service.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send signs one request and sends it once, without retries. The path is the
// endpoint's, with the encoded query: /api/v1/balance, or just balance. The given
// headers are added to the signed ones. It is for calls that the other methods do
// not cover.
func (c *Client) Send(ctx context.Context, method, path string, body []byte, header http.Header) (*Response, error) {
	response, err := c.send(ctx, method, path, body, header)
	if err != nil {
		return nil, fmt.Errorf("send %s %s: %w", method, path, err)
	}
	return response, nil
}

func (c *Client) send(ctx context.Context, method, path string, body []byte, header http.Header) (*Response, error) {
	request, err := c.Sign(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return &Response{Status: response.StatusCode, Header: response.Header, Body: text}, nil
}

// Sign returns a signed request, with a new timestamp and nonce. It can be sent
// only once: sign again to retry.
func (c *Client) Sign(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	if !strings.HasPrefix(path, "/") {
		path = apiPath + "/" + path
	}
	request, err := http.NewRequestWithContext(ctx, method, c.origin+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	sendOnce(request)
	plain, query, _ := strings.Cut(path, "?")
	signed := signing.Request{
		Method:    request.Method,
		Path:      plain,
		RawQuery:  query,
		Timestamp: strconv.FormatInt(c.clock().Unix(), 10),
		Nonce:     NewNonce(),
		Body:      body,
	}
	request.Header.Set("User-Agent", "coax-go/"+version)
	request.Header.Set("X-API-Key", c.key)
	request.Header.Set("X-Timestamp", signed.Timestamp)
	request.Header.Set("X-Nonce", signed.Nonce)
	request.Header.Set("X-Signature", c.sign(signed))
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// sendOnce prevents net/http from resending a request by itself when a reused
// connection turns out to be closed. It would use the same nonce, and the service
// would refuse it as a replay; the client retries with a new signature instead.
func sendOnce(request *http.Request) {
	request.GetBody = nil
	// net/http repeats a GET without a body, but not one with a body that cannot be
	// read again. An empty body does not change the request.
	if request.Method == http.MethodGet && request.Body == http.NoBody {
		request.Body = emptyBody{}
	}
}

type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// clock returns our estimate of the service's time.
func (c *Client) clock() time.Time { return c.now().Add(time.Duration(c.ahead.Load())) }

// correctClock adopts the service's time.
func (c *Client) correctClock(serverTime time.Time) {
	c.ahead.Store(int64(serverTime.Sub(c.now())))
}

// NewNonce returns a random nonce of 32 characters.
func NewNonce() string {
	var random [16]byte
	// crypto/rand never returns an error; it ends the program instead.
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
