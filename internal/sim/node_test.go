package sim

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	providerName     = "Sim TV"
)

// proxy is the trusted one that every request comes through, so that the
// simulation needs no TLS to be on the safe side of it.
var proxy = netip.MustParsePrefix("10.0.0.1/32")

// node is a place where a process runs, dies and runs again.
type node struct {
	w    *world
	name string
	// offset is how wrong its clock is.
	offset atomic.Int64 // in nanoseconds
	life   *life        // the present process; nil between two
	lives  int
}

// life is one process of a node, from its start to its end.
type life struct {
	node        *node
	number      int
	dead        bool
	ended       chan struct{} // closed when it dies
	cancel      context.CancelFunc
	asleepUntil time.Time
	// troubled: it died, slept, or had its clock moved, so that others may have
	// taken over what it held.
	troubled bool

	api *httpapi.API

	mu    sync.Mutex
	conns []net.Conn
	// failures are when each address failed to authenticate here.
	failures map[netip.Addr][]failure
}

// failure is a request that failed to authenticate, and which clock said when.
type failure struct {
	at         time.Time
	timesMoved int
}

func (l *life) name() string { return l.node.name + "." + strconv.Itoa(l.number) }

func (n *node) now() time.Time {
	return n.w.now().Add(time.Duration(n.offset.Load())).UTC().Truncate(time.Millisecond)
}

// start runs the node's code: everything that cmd/coax wires, on the gated store.
func (n *node) start() {
	n.lives++
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{node: n, number: n.lives, ended: make(chan struct{}), cancel: cancel, failures: map[netip.Addr][]failure{}}
	n.life = l
	w := n.w
	kept := store{w: w, life: l, db: w.db}
	provider, err := gateway.New(gateway.Config{URL: "http://127.0.0.1:1", Timeout: providerTimeout, Dial: l.dial})
	if err != nil {
		panic(err)
	}
	asked := line{w: w, life: l, gateway: provider}
	prices := catalogue.New(kept, asked, catalogue.Config{
		Now: n.now, Provider: providerName, Refresh: catalogueRefresh, MaxAge: catalogueMaxAge,
	})
	breaker := operation.NewBreaker(asked.probe)
	operations := operation.NewProcessor(kept, prices, asked, breaker, operation.Config{
		Now: n.now, Node: l.name(), ProviderName: providerName, Timeout: providerTimeout, FirstCheck: firstCheck,
		ActivationTerm: subscription.ThirtyDays,
		Fingerprints:   operation.Fingerprints{Keys: vault.Derive("body fingerprint"), Current: vault.PrimaryID()},
	})
	reviewer := operation.NewReviewer(kept, asked, operation.ReviewConfig{
		Now: n.now, Node: l.name(), Timeout: providerTimeout, FirstCheck: firstCheck, MaxInterval: maxInterval, RefundAfter: refundAfter,
		Problem: func(error) {},
	})
	gate := access.NewGate(kept, vault, access.GateConfig{FailedAuthPerMinute: failedAuthLimit})
	l.api = httpapi.New(httpapi.Config{
		Now: n.now, Gate: gate, Proxies: access.TrustedProxies{proxy}, Wallets: kept, Plans: prices, Operations: operations,
		ProviderName: providerName, Log: slog.New(slog.DiscardHandler),
	})

	// The loops that cmd/coax runs beside the doors, with ticks that suit fake
	// time.
	loop := func(what string, every time.Duration, do func(context.Context)) {
		w.background.Go(func() {
			task := as(ctx, l.name()+" "+what)
			ticker := time.NewTicker(every)
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
	})
}

// crash ends the process at once: nothing of it reaches the store or the provider
// any more, though what is on its way there still arrives.
func (l *life) crash() {
	w := l.node.w
	if l.dead {
		return
	}
	w.gates.mu.Lock()
	l.dead, l.troubled = true, true
	w.gates.mu.Unlock()
	l.cancel()
	close(l.ended)
	l.mu.Lock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.mu.Unlock()
	w.gates.bury(l)
	w.model.died(l)
	l.node.life = nil
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

func (l line) Apply(ctx context.Context, o operation.Order) operation.Answer {
	l.wait(ctx, "order", o.Reference)
	return l.gateway.Apply(ctx, o)
}

func (l line) Status(ctx context.Context, o operation.Order) operation.Answer {
	l.wait(ctx, "status", o.Reference)
	return l.gateway.Status(ctx, o)
}

func (l line) Void(ctx context.Context, o operation.Order) operation.Answer {
	l.wait(ctx, "void", o.Reference)
	return l.gateway.Void(ctx, o)
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
