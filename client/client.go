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
//	case errors.Is(err, client.PendingReview):
//		op, err = c.Await(ctx, "order-4711") // nobody knows yet; wait until somebody does
//	case client.Undecided(err):
//		// no answer came: call again later with the same key, never with another
//	case errors.Is(err, client.InsufficientBalance):
//		// nothing was charged; top up and call again with the same key
//	}
//
// A call is retried where that is safe and could help, with the same key and the
// same bytes, and with a nonce, a timestamp and a signature of its own each time.
// Everything else comes back at once as an *Error, which carries the service's
// code; decide by the code, or by the status if you do not know the code.
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
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/signing"
)

// apiPath is where signed paths begin, whatever a proxy puts before it.
const apiPath = "/api/v1"

// maxAnswer bounds what is read of an answer; the service's are far smaller.
const maxAnswer = 8 << 20

// Secret is a text that does not show itself when it is printed, logged or written
// as JSON. string(secret) is the text.
type Secret string

// String hides the text.
func (Secret) String() string { return "[secret]" }

// GoString hides the text.
func (Secret) GoString() string { return "[secret]" }

// MarshalJSON hides the text: logs are written as JSON, too.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"[secret]"`), nil }

// LogValue hides the text.
func (Secret) LogValue() slog.Value { return slog.StringValue("[secret]") }

// Config is how to reach a service, and as whom.
type Config struct {
	// BaseURL is the service's address up to and with /api/v1.
	BaseURL string
	// Key and Secret are the operator's credentials.
	Key    string
	Secret Secret
	// HTTP sends the requests; nil is a plain one. Its Timeout is for one
	// attempt. Where it has none it gets 60 seconds, which is longer than the
	// service takes to answer even when its provider does not. Redirects are
	// never followed: a signature is for one address.
	HTTP *http.Client
	// Retry is how patient the client is; its zero is a good one.
	Retry Retry
	// Now is the clock that requests are stamped with; nil is the system's.
	Now func() time.Time
}

// Client calls a service. It is safe for concurrent use.
type Client struct {
	origin string // scheme, host, and what a proxy has before /api/v1
	key    string
	// sign knows the secret. As a field, the secret would show whenever somebody
	// prints a client: fmt does not ask unexported fields how to show themselves.
	sign  func(signing.Request) string
	http  *http.Client
	retry Retry
	now   func() time.Time
	// ahead is by how much the service's clock is ahead of ours, in nanoseconds,
	// as the service last said.
	ahead atomic.Int64
}

// New returns a client, or says what is missing.
func New(config Config) (*Client, error) {
	origin, err := readBase(config.BaseURL)
	if err != nil {
		return nil, err
	}
	if config.Key == "" || config.Secret == "" {
		return nil, fmt.Errorf("both an API key and its secret are needed")
	}
	// One read from a file often ends with a line feed, which no header can carry.
	if strings.ContainsFunc(config.Key+string(config.Secret), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("the API key or its secret has a space, a line feed or another character that none has: trim it")
	}
	retry, err := config.Retry.withDefaults()
	if err != nil {
		return nil, err
	}
	sender := http.Client{Transport: plainTransport()}
	if config.HTTP != nil {
		sender = *config.HTTP
	}
	sender.Timeout = cmp.Or(sender.Timeout, 60*time.Second)
	sender.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{
		origin: origin, key: config.Key, http: &sender, retry: retry, now: config.Now,
		sign: signing.NewKey(string(config.Secret)).Sign,
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// plainTransport is what clients share that were given none: the program's
// default, as it is when the first of them is made, ready for a job that asks for
// thousands of balances at once. By default all but two connections are closed
// when nobody uses them, and every new one costs both sides a whole handshake.
var plainTransport = sync.OnceValue(func() http.RoundTripper {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport // somebody has put their own there, and knows why
	}
	transport := usual.Clone()
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{}
	}
	if transport.TLSClientConfig.ClientSessionCache == nil {
		transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return transport
})

// readBase checks a base address and returns what stands before /api/v1.
func readBase(text string) (string, error) {
	base, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("the base address cannot be read: %w", err)
	}
	prefix, whole := strings.CutSuffix(strings.TrimSuffix(base.EscapedPath(), "/"), apiPath)
	if base.Host == "" || !whole || base.RawQuery != "" || base.Fragment != "" {
		return "", fmt.Errorf("the base address %q is not one: write it as https://HOST/api/v1", text)
	}
	// A key, a signature and a customer's password are in every request; only
	// on one machine may they travel in the clear, for trying things.
	if base.Scheme != "https" && !(base.Scheme == "http" && loopback(base.Hostname())) {
		return "", fmt.Errorf("the base address %q has to begin with https://", text)
	}
	return base.Scheme + "://" + base.Host + prefix, nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// Response is an answer as it came.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send signs one request and sends it once. The path is the endpoint's, with
// its query as it is to be sent: /api/v1/balance, or balance alone. Headers
// given are added to the signed ones. It is for what the other methods do not
// cover; they retry, and Send does not.
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

// Sign makes one request ready to be sent, with a fresh timestamp and nonce. A
// signed request is good for one sending: sign again to try again.
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
	request.Header.Set("X-API-Key", c.key)
	request.Header.Set("X-Timestamp", signed.Timestamp)
	request.Header.Set("X-Nonce", signed.Nonce)
	request.Header.Set("X-Signature", c.sign(signed))
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// sendOnce keeps net/http from sending a request again by itself when a kept
// connection turns out to be closed. It would do so with the same nonce, and the
// service would rightly call it a replay; a second attempt is ours to make, with
// a signature of its own.
func sendOnce(request *http.Request) {
	request.GetBody = nil
	// A GET without a body counts as safe to repeat; one with a body that cannot
	// be read again does not, and an empty one adds nothing to the wire.
	if request.Method == http.MethodGet && request.Body == http.NoBody {
		request.Body = emptyBody{}
	}
}

type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// clock is the time as the service sees it, as far as we have been told.
func (c *Client) clock() time.Time { return c.now().Add(time.Duration(c.ahead.Load())) }

// correctClock takes the service's word for the time.
func (c *Client) correctClock(serverTime time.Time) {
	c.ahead.Store(int64(serverTime.Sub(c.now())))
}

// NewNonce returns a random nonce of 32 characters.
func NewNonce() string {
	var random [16]byte
	// crypto/rand never fails; it ends the program where there is no randomness.
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
