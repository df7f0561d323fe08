package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// provider simulates the provider. Its own records are compared with what Coax says
// was carried out. It honours docs/provider-protocol.md in its records, and injects
// faults into everything else: connections, replies, delays.
type provider struct {
	env      *environment
	server   *http.Server
	incoming chan net.Conn
	closed   chan struct{}
	late     sync.WaitGroup

	mu            sync.Mutex
	down          bool
	catalogueDown bool
	withdrawn     map[string]bool
	orders        map[string]*order
	undoings      map[string]*undoing // reversals
	numbers       int
	outstanding   int // orders that are still to be carried out
	hanging       int // queries that hang
	// failedAt is when a call last failed: a breaker may be open.
	failedAt time.Time
}

// order is one reference in the provider's records.
type order struct {
	Reference    string `json:"reference"`
	SubscriberID string `json:"subscriber_id"`
	Mobile       string `json:"mobile"`
	Component    string `json:"component"`

	ordered     int // how often it was ordered
	effects     int // how often it was carried out
	transaction string
	rejected    bool
	voided      bool
	pending     bool
	asks        int
	unknowable  bool
	ignoresVoid bool // it was carried out whatever was said about it
	undone      bool // by a reversal
}

func newProvider(env *environment) *provider {
	p := &provider{
		env: env, incoming: make(chan net.Conn, 64), closed: make(chan struct{}),
		orders: map[string]*order{}, undoings: map[string]*undoing{}, withdrawn: map[string]bool{},
	}
	p.server = &http.Server{
		Handler: p, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context { return as(ctx, conn.(caller).from) },
	}
	env.background.Go(func() { _ = p.server.Serve(p) })
	return p
}

// caller is a connection with the name of the process at its other end.
type caller struct {
	net.Conn
	from string
}

// Accept, Close and Addr make the provider its own listener.
func (p *provider) Accept() (net.Conn, error) {
	select {
	case conn := <-p.incoming:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *provider) Close() error { return nil }

func (p *provider) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:1"))
}

func (p *provider) stop() {
	close(p.closed)
	_ = p.server.Close()
	p.late.Wait()
}

func (p *provider) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		p.failedAt = time.Now()
	}
	return p.down
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// behaviours are what the provider may do with an order, with their weights.
var behaviours = []weight{
	{"ok", 60}, {"reject", 7}, {"slow", 4}, {"late", 4}, {"answer too late", 4}, {"lost", 4}, {"cut", 3}, {"dropped", 3},
	{"503 applied", 2}, {"503", 3}, {"wrong reference", 2}, {"malformed", 4}, {"malformed applied", 2}, {"pending", 2},
	{"pending reject", 1}, {"treacherous", 1}, {"unknowable", 1},
}

// queryBehaviours are what the provider may do with a status query or void.
var queryBehaviours = []weight{{"ok", 80}, {"dropped", 5}, {"503", 5}, {"malformed", 5}, {"silent", 5}}

func (p *provider) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	defer p.late.Done()
	p.late.Add(1)
	var o order
	what := strings.TrimPrefix(r.URL.Path, "/v1/")
	if r.Method == http.MethodPost {
		var u undoing
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = errors.Join(json.Unmarshal(body, &o), json.Unmarshal(body, &u))
		}
		if err != nil {
			http.Error(rw, "bad", http.StatusBadRequest)
			return
		}
		if operation.IsReversalReference(u.Reference) {
			p.env.gates.pass("provider "+taskOf(r.Context())+" "+p.env.nickname(u.Reference), what, nil, false)
			if what == "void" {
				p.voidReversal(rw, r, u)
			} else {
				p.reverse(rw, r, u)
			}
			return
		}
	} else {
		o.Reference = r.URL.Query().Get("reference")
	}
	p.env.gates.pass("provider "+taskOf(r.Context())+" "+p.env.nickname(o.Reference), what, nil, false)
	switch what {
	case "catalogue":
		p.list(rw)
	case "status":
		p.status(rw, r, o.Reference)
	case "void":
		p.void(rw, r, o)
	default:
		p.carryOut(rw, r, o)
	}
}

// behaviour draws what happens to a call: "ok" if provider faults are off.
func (p *provider) behaviour(behaviours []weight, what string, o *order) string {
	if scripted := p.env.faults.scripted(what, p.env.nickname(o.Reference)); scripted != "" {
		return scripted
	}
	if !p.env.faults.provider() {
		return "ok"
	}
	behaviour := weighted(p.env.chance, behaviours, "provider", what, p.env.nickname(o.Reference), strconv.Itoa(o.asks))
	if behaviour != "ok" {
		p.env.occurred("provider " + what + ": " + behaviour)
	}
	return behaviour
}

func (p *provider) known(o order) *order {
	at := p.orders[o.Reference]
	if at == nil {
		at = &o
		p.orders[o.Reference] = at
	}
	return at
}

// apply makes the effect true, once a reference, and never after a void: that is
// the promise, which only the treacherous break.
func (p *provider) apply(o *order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.effects > 0 || o.rejected || o.voided && !o.ignoresVoid {
		return
	}
	o.effects++
	o.pending = false
	p.numbers++
	o.transaction = fmt.Sprintf("P%06d", p.numbers)
}

func (p *provider) carryOut(rw http.ResponseWriter, r *http.Request, wanted order) {
	p.mu.Lock()
	o := p.known(wanted)
	o.ordered++
	if o.ordered > 1 && !strings.Contains(o.Reference, "-2") {
		p.env.model.violate("M5", o.Reference, "it was ordered %d times", o.ordered)
	}
	settled := o.effects > 0 || o.rejected || o.voided
	behaviour := p.behaviour(behaviours, "order", o)
	o.asks++
	p.mu.Unlock()
	if settled {
		p.answer(rw, o, "order")
		return
	}
	c := p.env.chance
	label := p.env.nickname(o.Reference)
	switch behaviour {
	case "ok":
		p.env.sleep(c.between(0, 300*time.Millisecond, "takes", label))
		p.apply(o)
		p.answer(rw, o, "order")
	case "slow":
		p.env.sleep(c.between(300*time.Millisecond, 1900*time.Millisecond, "takes", label))
		p.apply(o)
		p.answer(rw, o, "order")
	case "reject":
		p.set(func() { o.rejected = !o.voided })
		p.answer(rw, o, "order")
	case "late", "treacherous":
		wait := c.between(2100*time.Millisecond, 12*time.Second, "late", label)
		if behaviour == "treacherous" {
			// It carries the order out even after it has confirmed a void.
			wait = c.between(10*time.Second, 30*time.Second, "late", label)
			p.set(func() { o.ignoresVoid = true })
		}
		p.later(wait, func() { p.apply(o) })
		p.silence(r)
	case "answer too late":
		p.apply(o)
		p.env.sleep(providerTimeout + 500*time.Millisecond)
		p.answer(rw, o, "order")
	case "lost":
		p.apply(o)
		p.noteFailure()
		panic(http.ErrAbortHandler)
	case "cut":
		p.apply(o)
		p.cut(rw, o)
	case "dropped":
		p.noteFailure()
		panic(http.ErrAbortHandler)
	case "503 applied", "503":
		if behaviour == "503 applied" {
			p.apply(o)
		}
		p.noteFailure()
		rw.WriteHeader(http.StatusServiceUnavailable)
	case "wrong reference":
		p.apply(o)
		var other order
		p.set(func() { other = *o })
		other.Reference = "CX0000000000000000000000000000"
		p.answer(rw, &other, "order")
	case "malformed", "malformed applied":
		if behaviour == "malformed applied" {
			p.apply(o)
		}
		p.malformed(rw, o, label)
	case "pending", "pending reject":
		p.set(func() { o.pending = true })
		p.later(c.between(time.Second, 5*time.Second, "pending", label), func() {
			if behaviour == "pending reject" {
				p.set(func() { o.rejected, o.pending = !o.voided, false })
				return
			}
			p.apply(o)
		})
		p.say(rw, http.StatusOK, map[string]any{"reference": o.Reference, "status": "pending"})
	case "unknowable":
		// It does nothing, and cannot report that until all faults end.
		p.set(func() { o.unknowable = true })
		p.silence(r)
	}
}

func (p *provider) later(wait time.Duration, do func()) {
	p.set(func() { p.outstanding++ })
	p.late.Go(func() {
		defer p.set(func() { p.outstanding-- })
		select {
		case <-time.After(p.env.paced(wait)):
			do()
		case <-p.closed:
		}
	})
}

// silence waits until the caller gives up.
func (p *provider) silence(r *http.Request) {
	p.noteFailure()
	p.hang(r)
}

// hang is silence about one order; calls about others do not fail.
func (p *provider) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-p.closed:
	}
	panic(http.ErrAbortHandler)
}

func (p *provider) noteFailure() { p.set(func() { p.failedAt = time.Now() }) }

func (p *provider) status(rw http.ResponseWriter, r *http.Request, reference string) {
	p.mu.Lock()
	o := p.orders[reference]
	if o == nil {
		o = &order{Reference: reference}
	}
	behaviour := p.queryBehaviour("status", o)
	o.asks++
	unknowable := o.unknowable && p.env.faults.on.Load()
	p.mu.Unlock()
	if unknowable && behaviour != "hangs" {
		behaviour = "503"
	}
	if p.spoilQuery(rw, r, behaviour) {
		return
	}
	p.answer(rw, o, "status")
}

func (p *provider) void(rw http.ResponseWriter, r *http.Request, wanted order) {
	p.mu.Lock()
	o := p.known(wanted)
	behaviour := p.queryBehaviour("void", o)
	o.asks++
	// Half of the voids whose reply is lost take effect.
	if (behaviour == "ok" || p.env.chance.odds(500, "void heard", p.env.nickname(o.Reference))) && o.effects == 0 && !o.rejected {
		o.voided, o.pending = true, false
	}
	p.mu.Unlock()
	if p.spoilQuery(rw, r, behaviour) {
		return
	}
	p.answer(rw, o, "void")
}

// recentlyFailed reports whether a call failed so recently that a breaker may be open.
func (p *provider) recentlyFailed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down || !p.failedAt.IsZero() && time.Since(p.failedAt) < p.env.paced(15*time.Second)
}

// effectsOf returns how often a reference was carried out.
func (p *provider) effectsOf(reference string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.orders[reference]; o != nil {
		return o.effects
	}
	return 0
}
