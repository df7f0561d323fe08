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

// How patient the nodes of a history are: much less than in real life, so that
// a minute of fake time has room for everything.
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

// proxy is the trusted one that every request comes through, so that the
// simulation needs no TLS to be on the safe side of it.
var proxy = netip.MustParsePrefix("10.0.0.1/32")

// node is a place where a process runs, dies and runs again.
type node struct {
	w    *world
	name string

	mu     sync.Mutex
	offset time.Duration // how wrong its clock is
	life   *life         // the present process; nil between two
	lives  int
}

// life is one process of a node, from its start to its end.
type life struct {
	node   *node
	number int
	ended  chan struct{} // closed when it dies
	cancel context.CancelFunc
	api    *httpapi.API

	mu          sync.Mutex
	dead        bool
	asleepUntil time.Time
	// troubled: it died, slept, or had its clock moved, so that others may have
	// taken over what it held.
	troubled bool
	conns    []net.Conn
	// failures are when each address failed to authenticate here. They count from
	// the moment they are found, before anybody is told.
	failures   map[netip.Addr][]failure
	failuresMu sync.Mutex
}

// failure is a request that failed to authenticate, and which clock said when.
type failure struct {
	at         time.Time
	timesMoved int
}

func (l *life) failed(f *flight) {
	l.failuresMu.Lock()
	defer l.failuresMu.Unlock()
	l.failures[f.address] = append(l.failures[f.address], failure{f.at, f.timesMoved})
}

func (l *life) failuresOf(address netip.Addr) []failure {
	l.failuresMu.Lock()
	defer l.failuresMu.Unlock()
	return slices.Clone(l.failures[address])
}

func (l *life) name() string { return l.node.name + "." + strconv.Itoa(l.number) }

func (n *node) now() time.Time {
	return n.w.now().Add(n.skew()).UTC().Truncate(time.Millisecond)
}

// start runs the node's code: everything that internal/server wires, on the gated store.
func (n *node) start() error {
	n.mu.Lock()
	n.lives++
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{node: n, number: n.lives, ended: make(chan struct{}), cancel: cancel, failures: map[netip.Addr][]failure{}}
	n.mu.Unlock()
	w := n.w
	db, closeStore, err := w.openStore(l.name())
	if err != nil {
		cancel()
		return err
	}
	kept := store{w: w, life: l, db: db}
	timeout := w.paced(providerTimeout)
	provider, err := gateway.New(gateway.Config{URL: "http://127.0.0.1:1", Timeout: timeout, Dial: l.dial})
	if err != nil {
		panic(err)
	}
	asked := line{w: w, life: l, gateway: provider}
	prices := catalogue.New(kept, asked, catalogue.Config{
		Now: n.now, Provider: providerName, Refresh: catalogueRefresh, MaxAge: catalogueMaxAge,
	})
	breaker := operation.NewBreaker(asked.probe)
	operations := operation.NewProcessor(kept, prices, asked, breaker, operation.Config{
		Now: n.now, Node: l.name(), ProviderName: providerName, Timeout: timeout, FirstCheck: firstCheck,
		ActivationTerm: subscription.ThirtyDays,
		Fingerprints:   operation.Fingerprints{Keys: vault.Derive("body fingerprint"), Current: vault.PrimaryID()},
	})
	reviewer := operation.NewReviewer(kept, asked, operation.ReviewConfig{
		Now: n.now, Node: l.name(), Timeout: timeout, FirstCheck: firstCheck, MaxInterval: maxInterval, RefundAfter: refundAfter,
		Problem: func(error) {},
	})
	gate := access.NewAuthorizer(kept, vault, access.AuthorizerConfig{FailedAuthPerMinute: failedAuthLimit})
	l.api = httpapi.New(httpapi.Config{
		Now: n.now, Authorizer: gate, Proxies: access.TrustedProxies{proxy}, Wallets: kept, Plans: prices, Operations: operations,
		ProviderName: providerName, Log: slog.New(slog.DiscardHandler),
	})

	// The loops that internal/server runs beside the doors, with ticks that suit fake
	// time.
	loop := func(what string, every time.Duration, do func(context.Context)) {
		w.background.Go(func() {
			task := as(ctx, l.name()+" "+what)
			ticker := time.NewTicker(w.paced(every))
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
	w.background.Go(func() {
		// Its ticks fall between the moments at which anything else happens: what
		// it sees must not depend on who was quicker at the same instant.
		time.Sleep(500 * time.Microsecond)
		breaker.Run(ctx)
	})
	w.background.Go(func() {
		<-l.ended
		provider.Close()
		closeStore()
	})
	w.born(l)
	return nil
}

// crash ends the process at once: nothing of it reaches the store or the provider
// any more, though what is on its way there still arrives.
// It says whether there was anything to end.
func (l *life) crash() bool {
	w := l.node.w
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return false
	}
	l.dead, l.troubled = true, true
	conns := l.conns
	l.mu.Unlock()
	l.node.mu.Lock()
	l.node.life = nil
	l.node.mu.Unlock()
	l.cancel()
	close(l.ended)
	for _, conn := range conns {
		_ = conn.Close()
	}
	w.gates.bury(l)
	w.witness.died(l)
	return true
}

// dial connects the process with the provider, if that is there.
func (l *life) dial(context.Context, string, string) (net.Conn, error) {
	w := l.node.w
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.provider.refuses() || l.dead {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	ours, theirs := net.Pipe()
	select {
	case w.provider.incoming <- caller{theirs, l.name()}:
	default:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	l.conns = append(l.conns, ours)
	return ours, nil
}

// line is a process's way to the provider: calls leave one after the other, so
// that which of them gets which connection is no matter of luck.
type line struct {
	w       *world
	life    *life
	gateway *gateway.Gateway
}

func (l line) wait(ctx context.Context, what, reference string) {
	who := taskOf(ctx)
	if reference != "" {
		who, _, _ = strings.Cut(who, "/")
		who += "/" + l.w.nickname(reference)
	}
	l.w.gates.pass(who, "ask "+what, l.life, false)
}

func (l line) Apply(ctx context.Context, o operation.Order) operation.Reply {
	l.wait(ctx, "order", o.Reference)
	return l.gateway.Apply(ctx, o)
}

func (l line) Status(ctx context.Context, o operation.Order) operation.Reply {
	return l.ask(ctx, "status", o, func() operation.Reply { return l.gateway.Status(ctx, o) })
}

func (l line) Void(ctx context.Context, o operation.Order) operation.Reply {
	return l.ask(ctx, "void", o, func() operation.Reply { return l.gateway.Void(ctx, o) })
}

func (l line) Catalogue(ctx context.Context) ([]catalogue.Component, error) {
	l.wait(ctx, "catalogue", "")
	return l.gateway.Catalogue(ctx)
}

func (l line) probe(ctx context.Context) error {
	ctx = as(ctx, l.life.name()+" probe")
	l.wait(ctx, "probe", "")
	return l.gateway.Probe(ctx)
}
