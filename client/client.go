// Package client speaks to a Coax service from Go: it signs requests and sends
// them. It belongs on the operator's server; the secret it holds must never
// reach a browser or a phone.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/signing"
)

// maxAnswer bounds what is read of an answer; the service's are far smaller.
const maxAnswer = 8 << 20

// Config is how to reach a service, and as whom.
type Config struct {
	// BaseURL is the service's address up to and with /api/v1.
	BaseURL string
	Key     string
	Secret  string
	// HTTP sends the requests; nil is a client with a timeout of 60 seconds.
	HTTP *http.Client
	// Now is the clock that requests are stamped with; nil is the system's.
	Now func() time.Time
}

// Client sends signed requests. It is safe for concurrent use.
type Client struct {
	base   *url.URL
	key    string
	secret string
	http   *http.Client
	now    func() time.Time
}

// New returns a client, or says what is missing.
func New(config Config) (*Client, error) {
	base, err := url.Parse(config.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("the base address cannot be read: %w", err)
	}
	if base.Scheme == "" || base.Host == "" {
		return nil, fmt.Errorf("the base address %q is not one: write it as https://HOST/api/v1", config.BaseURL)
	}
	if config.Key == "" || config.Secret == "" {
		return nil, fmt.Errorf("both an API key and its secret are needed")
	}
	client := &Client{base: base, key: config.Key, secret: config.Secret, http: config.HTTP, now: config.Now}
	if client.http == nil {
		client.http = &http.Client{Timeout: 60 * time.Second}
	}
	if client.now == nil {
		client.now = time.Now
	}
	return client, nil
}

// Response is an answer as it came.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send signs one request and sends it once. The path is the endpoint's, with
// its query as it is to be sent: /api/v1/balance, or balance alone. Headers
// given are added to the signed ones.
func (c *Client) Send(ctx context.Context, method, path string, body []byte, header http.Header) (*Response, error) {
	request, err := c.Sign(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("send %s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return &Response{Status: response.StatusCode, Header: response.Header, Body: text}, nil
}

// Sign makes one request ready to be sent, with a fresh timestamp and nonce. A
// signed request is good for one sending: sign again to try again.
func (c *Client) Sign(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.target(path), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	signed := signing.Request{
		Method:    request.Method,
		Path:      request.URL.EscapedPath(),
		RawQuery:  request.URL.RawQuery,
		Timestamp: strconv.FormatInt(c.now().Unix(), 10),
		Nonce:     NewNonce(),
		Body:      body,
	}
	request.Header.Set("X-API-Key", c.key)
	request.Header.Set("X-Timestamp", signed.Timestamp)
	request.Header.Set("X-Nonce", signed.Nonce)
	request.Header.Set("X-Signature", signed.Sign(c.secret))
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// target puts a path behind the base address without touching a byte of it:
// what is signed and what is sent must be the same.
func (c *Client) target(path string) string {
	if strings.HasPrefix(path, "/") {
		return c.base.Scheme + "://" + c.base.Host + path
	}
	return strings.TrimSuffix(c.base.String(), "/") + "/" + path
}

// NewNonce returns a random nonce of 32 characters.
func NewNonce() string {
	var random [16]byte
	// crypto/rand never fails; it ends the program where there is no randomness.
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
