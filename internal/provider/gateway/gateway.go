// Package gateway is the HTTP client of Coax's provider protocol. It sends each order once, checks
// replies strictly, and reports everything but a definite confirmation or rejection as unknown. It
// retries nothing and decides nothing about money.
package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
)

// Config holds the settings of a Gateway.
type Config struct {
	// URL is the provider's base address; the protocol's paths follow it.
	URL string
	// Timeout limits a whole call, from dialling to the last byte of the reply.
	Timeout time.Duration
	// CAFile is a PEM file with the authorities that are accepted for the provider's
	// certificate; empty for the system's.
	CAFile string
	// Token goes with every call as a bearer token; empty means none.
	Token Token
	// Dial makes connections; nil for the default.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Observe receives the outcome of each call, for metrics and alarms. It may be nil, and is
	// called concurrently.
	Observe func(Observation)
	// Trace is called before each call with its kind and the reference that it is about. It
	// returns the call's traceparent header, empty for none, and what receives the outcome. It
	// may be nil, and is called concurrently.
	Trace func(ctx context.Context, what, reference string) (traceparent string, ended func(Observation))
}

// Gateway is a provider that is called over HTTP.
type Gateway struct {
	// addresses are those of the protocol's paths.
	addresses             map[string]string
	getHeader, postHeader http.Header
	timeout               time.Duration
	token                 Token
	observe               func(Observation)
	trace                 func(ctx context.Context, what, reference string) (traceparent string, ended func(Observation))
	transport             atomic.Pointer[http.Transport]
	config                Config

	reloading sync.Mutex
	// authorities is the digest of CAFile as it was read last, used or not.
	authorities [sha256.Size]byte
}

var (
	_ operation.Provider         = (*Gateway)(nil)
	_ operation.PasswordResetter = (*Gateway)(nil)
	_ operation.ContactTaker     = (*Gateway)(nil)
	_ operation.OrderLister      = (*Gateway)(nil)
	_ operation.Reverser         = (*Gateway)(nil)
)

// New returns a Gateway. It does not call the provider: Coax must start while that is down.
func New(config Config) (*Gateway, error) {
	base, err := baseAddress(config.URL)
	if err != nil {
		return nil, err
	}
	if config.Timeout <= 0 {
		return nil, fmt.Errorf("a provider call may take %s; it needs some time", config.Timeout)
	}
	if err := config.Token.check(); err != nil {
		return nil, err
	}
	if config.Token != "" && base.Scheme == "http" && !loopback(base.Hostname()) {
		return nil, errors.New("the provider's token would travel unencrypted: use an https:// address")
	}
	authorities, err := readAuthorities(config.CAFile)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(config, authorities)
	if err != nil {
		return nil, err
	}
	observe := config.Observe
	if observe == nil {
		observe = func(Observation) {}
	}
	g := &Gateway{
		addresses: map[string]string{},
		timeout:   config.Timeout,
		token:     config.Token,
		observe:   observe,
		trace:     config.Trace,
		config:    config,

		authorities: sha256.Sum256(authorities),
	}
	g.transport.Store(transport)
	g.getHeader, g.postHeader = headers(config.Token)
	for _, path := range append(slices.Collect(maps.Values(paths)), pathPassword, pathReverse, pathContact, pathStatus, pathVoid, pathOrders, pathCatalogue) {
		g.addresses[path] = base.JoinPath(path).String()
	}
	return g, nil
}

// Close closes idle connections.
func (g *Gateway) Close() { g.transport.Load().CloseIdleConnections() }

// ReloadCA reads CAFile again. If it has changed, new connections trust what it has now, and
// those that are open are used no more. An error is returned once for each content; what was
// trusted before stays.
func (g *Gateway) ReloadCA() (changed bool, err error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	authorities, err := readAuthorities(g.config.CAFile)
	digest := sha256.Sum256(authorities)
	if err != nil {
		digest = sha256.Sum256([]byte(err.Error()))
	}
	if digest == g.authorities {
		return false, nil
	}
	g.authorities = digest
	if err != nil {
		return false, err
	}
	transport, err := newTransport(g.config, authorities)
	if err != nil {
		return false, err
	}
	g.transport.Swap(transport).CloseIdleConnections()
	return true, nil
}

// Apply sends an order, once. A caller who hangs up does not stop it: from the
// first byte on, the order may be carried out.
func (g *Gateway) Apply(ctx context.Context, order operation.Order) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	c := g.begin(ctx, string(order.Kind), order.Reference)
	path, known := paths[order.Kind]
	if !known || order.Reference == "" {
		return g.conclude(c, result{
			cause: Unreachable,
			answer: operation.Reply{
				Outcome: operation.Rejected,
				NotSent: true,
				Detail:  "the order was not sent: it has no reference, or is of no kind the provider knows",
			},
		})
	}
	got, failed := g.post(withFailpoint(ctx), c, path, applyBody(order))
	if failed != nil {
		res := failed.result()
		if failed.notSent {
			// The order was not sent, so it cannot have been carried out. This does not hold
			// for a status or void that was not sent.
			res.answer.Outcome, res.answer.NotSent = operation.Rejected, true
		}
		return g.conclude(c, res)
	}
	return g.conclude(c, g.classify(got, order, applyAnswers))
}

// ResetPassword asks for a customer's app password to be replaced, once.
func (g *Gateway) ResetPassword(ctx context.Context, reset operation.PasswordReset) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	c := g.begin(ctx, "reset_password", reset.Reference)
	got, failed := g.post(ctx, c, pathPassword, passwordBody(reset))
	if failed != nil {
		res := failed.result()
		if failed.notSent {
			res.answer.Outcome, res.answer.NotSent = operation.Rejected, true
		}
		return g.conclude(c, res)
	}
	about := operation.Order{Reference: reset.Reference, SubscriberID: reset.SubscriberID, Mobile: reset.Mobile, Password: reset.Password}
	return g.conclude(c, g.classify(got, about, applyAnswers))
}

// UpdateContact tells the provider a customer's contact data, once. HTTP 404, 405 or 501 without a
// rejection mean that the provider takes none.
func (g *Gateway) UpdateContact(ctx context.Context, update operation.ContactUpdate) (said operation.Reply, supported bool) {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	c := g.begin(ctx, "contact", update.Reference)
	about := operation.Order{Reference: update.Reference, SubscriberID: update.SubscriberID, Mobile: update.Mobile}
	got, failed := g.post(ctx, c, pathContact, contactBody(update))
	code := got.code
	var res result
	if failed != nil {
		res, code = failed.result(), failed.code
	} else {
		res = g.classify(got, about, applyAnswers)
	}
	if isUnsupported(code) && res.answer.Outcome != operation.Rejected {
		g.conclude(c, result{cause: Answered})
		return operation.Reply{}, false
	}
	return g.conclude(c, res), true
}

// isUnsupported reports whether a status says that the provider does not have a call.
func isUnsupported(code int) bool {
	return code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented
}

// Status asks what became of a reference.
func (g *Gateway) Status(ctx context.Context, order operation.Order) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	c := g.begin(ctx, "status", order.Reference)
	got, failed := g.get(ctx, c, pathStatus, url.Values{"reference": {order.Reference}})
	if failed != nil {
		return g.conclude(c, failed.result())
	}
	return g.conclude(c, g.classify(got, order, statusAnswers))
}

// Void asks for a reference never to be carried out.
func (g *Gateway) Void(ctx context.Context, order operation.Order) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	c := g.begin(ctx, "void", order.Reference)
	got, failed := g.post(ctx, c, pathVoid, voidBody(order))
	if failed != nil {
		return g.conclude(c, failed.result())
	}
	return g.conclude(c, g.classify(got, order, voidAnswers))
}

// Catalogue lists what the provider sells. It changes nothing, so it ends when ctx ends.
func (g *Gateway) Catalogue(ctx context.Context) ([]catalogue.Component, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()

	c := g.begin(ctx, "catalogue", "")
	got, failed := g.get(ctx, c, pathCatalogue, nil)
	if failed == nil && got.code != http.StatusOK {
		failed = violation("HTTP %d where a catalogue was expected", got.code)
	}
	var components []catalogue.Component
	if failed == nil {
		components, failed = g.readCatalogue(got.fields)
	}
	if failed != nil {
		g.conclude(c, failed.result())
		return nil, fmt.Errorf("read the provider's catalogue: %s", failed.detail)
	}
	g.conclude(c, result{cause: Answered})
	return components, nil
}

// ProbeReference is a reference that no operation has. A working provider replies that it is unknown.
const ProbeReference = "probe"

// Probe reports whether the provider answers. It makes the call that review makes, so that a provider
// which only accepts connections does not pass.
func (g *Gateway) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()

	c := g.begin(ctx, "probe", ProbeReference)
	got, failed := g.get(ctx, c, pathStatus, url.Values{"reference": {ProbeReference}})
	if failed != nil {
		g.conclude(c, failed.result())
		return fmt.Errorf("probe the provider: %s", failed.detail)
	}
	res := g.classify(got, operation.Order{Reference: ProbeReference}, statusAnswers)
	g.conclude(c, res)
	if res.cause != Answered && res.cause != Undecided {
		return fmt.Errorf("probe the provider: %s", res.answer.Detail)
	}
	return nil
}

// detached returns a context that does not end with the caller's.
func (g *Gateway) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), g.timeout)
}

// call is a call to the provider from its beginning to its conclusion.
type call struct {
	what        string
	began       time.Time
	traceparent string            // empty for none
	ended       func(Observation) // may be nil
}

func (g *Gateway) begin(ctx context.Context, what, reference string) call {
	c := call{what: what, began: time.Now()}
	if g.trace != nil {
		c.traceparent, c.ended = g.trace(ctx, what, reference)
	}
	return c
}

// conclude reports a call and returns its reply.
func (g *Gateway) conclude(c call, res result) operation.Reply {
	seen := Observation{What: c.what, Cause: res.cause, Outcome: res.answer.Outcome, Took: time.Since(c.began)}
	g.observe(seen)
	if c.ended != nil {
		c.ended(seen)
	}
	return res.answer
}

func baseAddress(raw string) (*url.URL, error) {
	base, err := url.Parse(raw)
	if err != nil {
		// The address may hold a password; url.Error would show it.
		return nil, errors.New("the provider's address cannot be read as a URL")
	}
	switch {
	case base.Scheme != "https" && base.Scheme != "http", base.Hostname() == "":
		return nil, errors.New("the provider's address must be like https://provider.example")
	case base.User != nil:
		return nil, errors.New("the provider's address must not hold a user or password: give a token instead")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("the provider's address must end before any ? or #")
	}
	return base, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
