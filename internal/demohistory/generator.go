package demohistory

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
)

// generator makes the history, one event after the other.
type generator struct {
	Config
	begins, ends time.Time
	clock        *clock
	provider     *latency
	processor    *operation.Processor
	reviewer     *operation.Reviewer

	events     events
	planned    int // events so far
	operators  []*operator
	operations int
	reported   int // days at the last progress report

	// done counts the staff actions of an earlier process, by actor and action. They are
	// planned in the same order again, and skipped.
	done map[string]int
	// topUps counts the top-ups of each operator so far, for the next reference.
	topUps map[int64]int
}

// operator is an operator of the history.
type operator struct {
	id    int64
	keyID int64 // its API key; 0 if it uses only the panel
}

func newGenerator(ctx context.Context, config Config, begins time.Time) (*generator, error) {
	g := &generator{Config: config, begins: begins, ends: begins.Add(Length), clock: &clock{now: begins}, done: map[string]int{}, topUps: map[int64]int{}}
	g.provider = &latency{
		clock: g.clock, provider: config.Provider, shortTimeout: config.ShortTimeout, timeout: config.Timeout, silent: map[string]bool{},
	}
	// Prices were verified when the demo was set up, and are not compared during the
	// history.
	prices := catalogue.New(config.Store, config.Source, catalogue.Config{Now: g.clock.Now, Provider: config.ProviderName, MaxAge: 2 * Length})
	node := "history"
	g.processor = operation.NewProcessor(config.Store, prices, g.provider, operation.NewBreaker(func(context.Context) error { return nil }), operation.Config{
		Now: g.clock.Now, Node: node, ProviderName: config.ProviderName, Timeout: config.Timeout, FirstCheck: config.FirstCheck,
		ActivationTerm: config.ActivationTerm, Fingerprints: config.Fingerprints, ClientKeys: config.ClientKeys,
	})
	g.reviewer = operation.NewReviewer(config.Store, g.provider, operation.ReviewConfig{
		Now: g.clock.Now, Node: node, Timeout: config.Timeout, FirstCheck: config.FirstCheck, MaxInterval: config.MaxInterval,
		RefundAfter: config.RefundAfter, ClientKeys: config.ClientKeys,
	})
	return g, g.loadState(ctx)
}

// loadState reads what an earlier process has made.
func (g *generator) loadState(ctx context.Context) error {
	operators, err := g.Store.Operators(ctx)
	if err != nil {
		return err
	}
	if len(operators) == 0 {
		return errors.New("there is no operator")
	}
	keys, err := g.Store.Keys(ctx, operators[0].ID)
	if err != nil {
		return err
	}
	first := &operator{id: operators[0].ID}
	if len(keys) > 0 {
		first.keyID = keys[0].ID
	}
	g.operators = []*operator{first}
	entries, err := g.Store.AuditPage(ctx, admin.ListQuery{})
	if err != nil {
		return err
	}
	for _, entry := range entries {
		g.done[entry.Actor+" "+entry.Action]++
		if entry.Action == "wallet topup" {
			g.topUps[entry.OperatorID]++
		}
	}
	return g.takeOver(ctx)
}

// takeOver ends the leases of operations that an ended process left in processing, at the
// time of the latest one: the history runs from its beginning again, and an earlier review
// must not settle an operation before the time at which it began.
func (g *generator) takeOver(ctx context.Context) error {
	left, err := g.Store.ListOperations(ctx, admin.OperationFilter{State: operation.Processing, Limit: 100})
	if err != nil || len(left) == 0 {
		return err
	}
	last := g.begins
	for _, op := range left {
		if op.CreatedAt.After(last) {
			last = op.CreatedAt
		}
	}
	return g.Store.TakeOver(ctx, last)
}

// run carries out all events in the order of time.
func (g *generator) run(ctx context.Context) error {
	g.scheduleStaff(ctx)
	for _, c := range firstCustomers(g.operators[0], g.begins, g.ends) {
		g.scheduleVisit(ctx, c, c.arrival)
	}
	for len(g.events) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		next := heap.Pop(&g.events).(event)
		g.clock.moveTo(next.at)
		if err := next.do(); err != nil {
			return fmt.Errorf("%s: %w", next.at.Format(time.DateTime), err)
		}
		g.report()
	}
	if err := g.closeHistory(ctx); err != nil {
		return err
	}
	if err := g.logCalls(ctx); err != nil {
		return err
	}
	// The service starts with verified prices.
	prices := catalogue.New(g.Store, g.Source, catalogue.Config{Now: g.Now, Provider: g.ProviderName})
	return prices.Compare(ctx)
}

// at plans an event, if its time lies within the history.
func (g *generator) at(moment time.Time, do func() error) {
	if moment.Before(g.ends) {
		g.planned++
		heap.Push(&g.events, event{at: moment, order: g.planned, do: do})
	}
}

func (g *generator) report() {
	if days := int(g.clock.Now().Sub(g.begins)/day) / 15 * 15; days > g.reported {
		g.reported = days
		g.Progress(Progress{Days: days, Of: int(Length / day), Operations: g.operations})
	}
}

// closeHistory brings the first operator's wallet to Closing.
func (g *generator) closeHistory(ctx context.Context) error {
	first := g.operators[0]
	service := g.service(meera)
	wallet, err := g.Store.Wallet(ctx, first.id)
	if err != nil {
		return err
	}
	missing := Closing.Sub(wallet.Balance)
	if !missing.IsPositive() {
		excess := wallet.Balance.Sub(Closing).Add(smallTopUp)
		if _, err := service.Adjust(ctx, first.id, excess.Neg(), "A payment of another operator was credited here by mistake."); err != nil {
			return err
		}
		missing = smallTopUp
	}
	_, _, err = service.TopUp(ctx, admin.TopUp{OperatorID: first.id, Amount: missing, Reference: closingReference})
	g.Progress(Progress{Days: int(Length / day), Of: int(Length / day), Operations: g.operations})
	return err
}

func (g *generator) service(actor string) *admin.Service {
	return admin.NewService(g.Store, g.Vault, actor, g.clock.Now)
}

// event is something that happens at a time.
type event struct {
	at    time.Time
	order int // events of the same time happen in the order they were planned
	do    func() error
}

// events is a heap of planned events.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if e[i].at.Equal(e[j].at) {
		return e[i].order < e[j].order
	}
	return e[i].at.Before(e[j].at)
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() (last any) {
	all := *e
	last, *e = all[len(all)-1], all[:len(all)-1]
	return last
}
