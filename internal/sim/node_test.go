package sim

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/httpapi"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/subscription"
)

// The nodes' settings: timeouts are much shorter than in production, so that a minute
// of fake time is enough for everything.
const (
	providerTimeout  = 2 * time.Second
	leaseLength      = providerTimeout + 5*time.Second
	firstCheck       = 1 * time.Second
	maxInterval      = 8 * time.Second
	refundAfter      = 6 * time.Second
	catalogueRefresh = 20 * time.Second
	catalogueMaxAge  = 90 * time.Second
	failedAuthLimit  = 6
	nonceKept        = 24 * time.Hour
	providerName     = "Sim TV"
)

// proxy is the trusted proxy that every request comes through, so that the simulation
// needs no TLS.
var proxy = netip.MustParsePrefix("10.0.0.1/32")

// node is a node of the cluster: it has one process at a time.
type node struct {
	env  *environment
	name string

	mu        sync.Mutex
	offset    time.Duration // how wrong its clock is
	process   *process      // the present process; nil between two
	processes int
}

// process is one process of a node, from its start to its end.
type process struct {
	node   *node
	number int
	ended  chan struct{} // closed when it dies
	cancel context.CancelFunc
	api    *httpapi.API

	mu       sync.Mutex
	dead     bool
	pauseEnd time.Time
	// disturbed: it crashed, was paused, or had its clock moved, so that others may
	// have taken over its operations.
	disturbed bool
	conns     []net.Conn
	// failures are the failed authentications per address. They count before they
	// are answered.
	failures   map[netip.Addr][]failure
	failuresMu sync.Mutex
}

// failure is a failed authentication, and how often clocks had been moved by then.
type failure struct {
	at         time.Time
	timesMoved int
}

func (l *process) failed(f *flight) {
	l.failuresMu.Lock()
	defer l.failuresMu.Unlock()
	l.failures[f.address] = append(l.failures[f.address], failure{f.at, f.timesMoved})
}

func (l *process) failuresOf(address netip.Addr) []failure {
	l.failuresMu.Lock()
	defer l.failuresMu.Unlock()
	return slices.Clone(l.failures[address])
}

func (l *process) name() string { return l.node.name + "." + strconv.Itoa(l.number) }

func (n *node) now() time.Time {
	return n.env.now().Add(n.skew()).UTC().Truncate(time.Millisecond)
}

// start runs the node's code: everything that internal/server wires, on the gated store.
func (n *node) start() error {
	n.mu.Lock()
	n.processes++
	ctx, cancel := context.WithCancel(context.Background())
	l := &process{node: n, number: n.processes, ended: make(chan struct{}), cancel: cancel, failures: map[netip.Addr][]failure{}}
	n.mu.Unlock()
	env := n.env
	db, closeStore, err := env.openStore(l.name())
	if err != nil {
		cancel()
		return err
	}
	gated := store{env: env, process: l, db: db}
	timeout := env.paced(providerTimeout)
	provider, err := gateway.New(gateway.Config{URL: "http://127.0.0.1:1", Timeout: timeout, Dial: l.dial})
	if err != nil {
		panic(err)
	}
	client := providerClient{env: env, process: l, gateway: provider}
	prices := catalogue.New(gated, client, catalogue.Config{
		Now: n.now, Provider: providerName, Refresh: catalogueRefresh, MaxAge: catalogueMaxAge,
	})
	breaker := operation.NewBreaker(client.probe)
	operations := operation.NewProcessor(gated, prices, client, breaker, operation.Config{
		Now: n.now, Node: l.name(), ProviderName: providerName, Timeout: timeout, FirstCheck: firstCheck,
		ActivationTerm: subscription.ThirtyDays,
		Fingerprints:   vault.KeysFor(operation.FingerprintPurpose),
		ClientKeys:     operation.ClientKeys(vault.DeriveInOrder(operation.ClientKeyPurpose)),
	})
	reviewer := operation.NewReviewer(gated, client, operation.ReviewConfig{
		Now: n.now, Node: l.name(), Timeout: timeout, FirstCheck: firstCheck, MaxInterval: maxInterval, RefundAfter: refundAfter,
		ClientKeys: operation.ClientKeys(vault.DeriveInOrder(operation.ClientKeyPurpose)), OnError: func(error) {},
	})
	gate := access.NewAuthorizer(gated, vault, access.AuthorizerConfig{FailedAuthPerMinute: failedAuthLimit})
	l.api = httpapi.New(httpapi.Config{
		Now: n.now, Authorizer: gate, Proxies: access.TrustedProxies{proxy}, Wallets: gated, Plans: prices, Operations: operations,
		ProviderName: providerName, Log: slog.New(slog.DiscardHandler),
	})

	// The background loops of internal/server, with intervals that suit fake time.
	loop := func(what string, every time.Duration, do func(context.Context)) {
		env.background.Go(func() {
			task := as(ctx, l.name()+" "+what)
			ticker := time.NewTicker(env.paced(every))
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
					do(task)
				}
			}
		})
	}
	loop("review", time.Second, func(ctx context.Context) { _, _ = reviewer.RunOnce(ctx) })
	loop("compare", catalogueRefresh, func(ctx context.Context) { _ = prices.Compare(ctx) })
	loop("purge", 30*time.Second, func(ctx context.Context) { _, _ = gate.Purge(ctx, n.now()) })
	env.background.Go(func() {
		// Its ticks fall between all other events: what it sees must not depend on the
		// order of events at the same instant.
		time.Sleep(500 * time.Microsecond)
		breaker.Run(ctx)
	})
	env.background.Go(func() {
		<-l.ended
		provider.Close()
		closeStore()
	})
	env.started(l)
	return nil
}

// crash ends the process at once: it sends nothing more to the store or the provider,
// though what was sent still arrives. It reports whether the process was running.
func (l *process) crash() bool {
	env := l.node.env
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return false
	}
	l.dead, l.disturbed = true, true
	conns := l.conns
	l.mu.Unlock()
	l.node.mu.Lock()
	l.node.process = nil
	l.node.mu.Unlock()
	l.cancel()
	close(l.ended)
	for _, conn := range conns {
		_ = conn.Close()
	}
	env.gates.endWaiting(l)
	env.observer.died(l)
	return true
}

// dial connects the process to the provider, unless that is down.
func (l *process) dial(context.Context, string, string) (net.Conn, error) {
	env := l.node.env
	l.mu.Lock()
	defer l.mu.Unlock()
	if env.provider.refuses() || l.dead {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	ours, theirs := net.Pipe()
	select {
	case env.provider.incoming <- caller{theirs, l.name()}:
	default:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	l.conns = append(l.conns, ours)
	return ours, nil
}

// providerClient is a process's provider. Calls are sent one after the other, so that
// the assignment of connections to calls is deterministic.
type providerClient struct {
	env     *environment
	process *process
	gateway *gateway.Gateway
}

func (c providerClient) wait(ctx context.Context, what, reference string) {
	who := taskOf(ctx)
	if reference != "" {
		who, _, _ = strings.Cut(who, "/")
		who += "/" + c.env.nickname(reference)
	}
	c.env.gates.pass(who, "ask "+what, c.process, false)
}

func (c providerClient) Apply(ctx context.Context, o operation.Order) operation.Reply {
	c.wait(ctx, "order", o.Reference)
	return c.gateway.Apply(ctx, o)
}

func (c providerClient) Status(ctx context.Context, o operation.Order) operation.Reply {
	return c.query(ctx, "status", o, func() operation.Reply { return c.gateway.Status(ctx, o) })
}

func (c providerClient) Void(ctx context.Context, o operation.Order) operation.Reply {
	return c.query(ctx, "void", o, func() operation.Reply { return c.gateway.Void(ctx, o) })
}

func (c providerClient) Catalogue(ctx context.Context) ([]catalogue.Component, error) {
	c.wait(ctx, "catalogue", "")
	return c.gateway.Catalogue(ctx)
}

func (c providerClient) probe(ctx context.Context) error {
	ctx = as(ctx, c.process.name()+" probe")
	c.wait(ctx, "probe", "")
	return c.gateway.Probe(ctx)
}
