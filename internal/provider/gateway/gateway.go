// Package gateway speaks Coax's provider protocol over HTTP. It sends each order
// once, judges what comes back to the letter, and calls everything that is not a
// clear yes or no unknown. It retries nothing and decides nothing about money.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
)

// Config is what a gateway needs to know of its provider.
type Config struct {
	// URL is the provider's base address; the protocol's paths follow it.
	URL string
	// Timeout is the one limit on a call, from dialling to the answer's last
	// byte.
	Timeout time.Duration
	// CAFile names a PEM file with the only authorities the provider's
	// certificate may come from; empty means the system's.
	CAFile string
	// Token goes with every call as a bearer token; empty means none.
	Token Token
	// Dial makes connections in place of the network's own way; nil for that.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Observe is told what became of each call, for metrics and alarms. It may
	// be nil, and is called from many goroutines.
	Observe func(Observation)
}

// Gateway is a provider at the other end of HTTP.
type Gateway struct {
	// addresses are those of the protocol's paths.
	addresses             map[string]string
	getHeader, postHeader http.Header
	timeout               time.Duration
	token                 Token
	observe               func(Observation)
	transport             *http.Transport
}

var (
	_ operation.Provider         = (*Gateway)(nil)
	_ operation.PasswordResetter = (*Gateway)(nil)
)

// New returns a gateway to the provider that config describes. It does not call
// it: a provider that is down must not keep Coax from starting.
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
	transport, err := newTransport(config)
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
		transport: transport,
	}
	g.getHeader, g.postHeader = headers(config.Token)
	for _, path := range append(slices.Collect(maps.Values(paths)), pathPassword, pathStatus, pathVoid, pathCatalogue) {
		g.addresses[path] = base.JoinPath(path).String()
	}
	return g, nil
}

// Close lets go of idle connections.
func (g *Gateway) Close() { g.transport.CloseIdleConnections() }

// Apply sends an order, once. A caller who hangs up does not stop it: from the
// first byte on, the order may be carried out.
func (g *Gateway) Apply(ctx context.Context, order operation.Order) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	path, known := paths[order.Kind]
	if !known || order.Reference == "" {
		return g.conclude(string(order.Kind), judged{
			cause: Unreachable,
			answer: operation.Reply{
				Outcome: operation.Rejected,
				NotSent: true,
				Detail:  "the order was not sent: it has no reference, or is of no kind the provider knows",
			},
		})
	}
	got, failed := g.post(breakable(ctx), path, applyBody(order))
	if failed != nil {
		result := failed.judged()
		if failed.neverLeft {
			// Nothing was asked, so nothing can have been done. Only here:
			// a status or void that did not leave says nothing about the order.
			result.answer.Outcome, result.answer.NotSent = operation.Rejected, true
		}
		return g.conclude(string(order.Kind), result)
	}
	return g.conclude(string(order.Kind), g.judge(got, order, applyAnswers))
}

// ResetPassword asks for a customer's app password to be replaced, once.
func (g *Gateway) ResetPassword(ctx context.Context, reset operation.PasswordReset) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	got, failed := g.post(ctx, pathPassword, passwordBody(reset))
	if failed != nil {
		result := failed.judged()
		if failed.neverLeft {
			result.answer.Outcome, result.answer.NotSent = operation.Rejected, true
		}
		return g.conclude("reset_password", result)
	}
	about := operation.Order{Reference: reset.Reference, SubscriberID: reset.SubscriberID, Mobile: reset.Mobile, Password: reset.Password}
	return g.conclude("reset_password", g.judge(got, about, applyAnswers))
}

// Status asks what became of a reference.
func (g *Gateway) Status(ctx context.Context, order operation.Order) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	got, failed := g.get(ctx, pathStatus, url.Values{"reference": {order.Reference}})
	if failed != nil {
		return g.conclude("status", failed.judged())
	}
	return g.conclude("status", g.judge(got, order, statusAnswers))
}

// Void asks for a reference never to be carried out.
func (g *Gateway) Void(ctx context.Context, order operation.Order) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	got, failed := g.post(ctx, pathVoid, voidBody(order))
	if failed != nil {
		return g.conclude("void", failed.judged())
	}
	return g.conclude("void", g.judge(got, order, voidAnswers))
}

// Catalogue lists what the provider sells now. Nothing is at stake, so a caller
// who gives up is obeyed.
func (g *Gateway) Catalogue(ctx context.Context) ([]catalogue.Component, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()

	got, failed := g.get(ctx, pathCatalogue, nil)
	if failed == nil && got.code != http.StatusOK {
		failed = violation("HTTP %d where a catalogue was expected", got.code)
	}
	var components []catalogue.Component
	if failed == nil {
		components, failed = g.readCatalogue(got.fields)
	}
	if failed != nil {
		g.conclude("catalogue", failed.judged())
		return nil, fmt.Errorf("read the provider's catalogue: %s", failed.detail)
	}
	g.conclude("catalogue", judged{cause: Answered})
	return components, nil
}

// ProbeReference is a reference no operation has. The provider says so if it is
// well.
const ProbeReference = "probe"

// Probe finds out whether the provider answers at all. It asks what recovery
// would ask, so that a provider which only looks alive does not pass.
func (g *Gateway) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()

	got, failed := g.get(ctx, pathStatus, url.Values{"reference": {ProbeReference}})
	if failed != nil {
		g.conclude("probe", failed.judged())
		return fmt.Errorf("probe the provider: %s", failed.detail)
	}
	result := g.judge(got, operation.Order{Reference: ProbeReference}, statusAnswers)
	g.conclude("probe", result)
	if result.cause != Answered && result.cause != Undecided {
		return fmt.Errorf("probe the provider: %s", result.answer.Detail)
	}
	return nil
}

// detached is the context of a call that the caller's patience does not touch.
func (g *Gateway) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), g.timeout)
}

// conclude reports a call and hands its answer on.
func (g *Gateway) conclude(what string, result judged) operation.Reply {
	g.observe(Observation{What: what, Cause: result.cause, Verdict: result.answer.Outcome})
	return result.answer
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
