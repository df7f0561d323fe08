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

// teller carries the history out, one event after the other.
type teller struct {
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
	told       int // days that progress was told of

	// done counts the acts, by who and what, that an earlier process did before
	// it was ended. They come in the same order again and are passed over.
	done map[string]int
	// topUps counts the payments of each operator so far; the next one's
	// reference is numbered by it.
	topUps map[int64]int
}

// operator is one of the accounts.
type operator struct {
	id    int64
	keyID int64 // of its API key; 0 if it has none and everything comes from the panel
}

func newTeller(ctx context.Context, config Config, begins time.Time) (*teller, error) {
	t := &teller{Config: config, begins: begins, ends: begins.Add(Length), clock: &clock{now: begins}, done: map[string]int{}, topUps: map[int64]int{}}
	t.provider = &latency{
		clock: t.clock, provider: config.Provider, impatient: config.Impatient, timeout: config.Timeout, silent: map[string]bool{},
	}
	// Prices were verified when the demo was furnished. Nobody looked at them
	// every five minutes for three months.
	prices := catalogue.New(config.Store, config.Source, catalogue.Config{Now: t.clock.Now, Provider: config.ProviderName, MaxAge: 2 * Length})
	node := "history"
	t.processor = operation.NewProcessor(config.Store, prices, t.provider, operation.NewBreaker(func(context.Context) error { return nil }), operation.Config{
		Now: t.clock.Now, Node: node, ProviderName: config.ProviderName, Timeout: config.Timeout, FirstCheck: config.FirstCheck,
		ActivationTerm: config.ActivationTerm, Fingerprints: config.Fingerprints,
	})
	t.reviewer = operation.NewReviewer(config.Store, t.provider, operation.ReviewConfig{
		Now: t.clock.Now, Node: node, Timeout: config.Timeout, FirstCheck: config.FirstCheck, MaxInterval: config.MaxInterval,
		RefundAfter: config.RefundAfter,
	})
	return t, t.remember(ctx)
}

// remember finds out what there is already.
func (t *teller) remember(ctx context.Context) error {
	operators, err := t.Store.Operators(ctx)
	if err != nil {
		return err
	}
	if len(operators) == 0 {
		return errors.New("there is no operator whose history it could be")
	}
	keys, err := t.Store.Keys(ctx, operators[0].ID)
	if err != nil {
		return err
	}
	first := &operator{id: operators[0].ID}
	if len(keys) > 0 {
		first.keyID = keys[0].ID
	}
	t.operators = []*operator{first}
	acts, err := t.Store.AuditPage(ctx, admin.ListQuery{})
	if err != nil {
		return err
	}
	for _, act := range acts {
		t.done[act.Actor+" "+act.Action]++
		if act.Action == "wallet topup" {
			t.topUps[act.OperatorID]++
		}
	}
	return t.takeOver(ctx)
}

// takeOver makes what a process that is no more was at anybody's, in the history's
// time: not before it was begun, or it would end before that when the story, which is
// told from its beginning again, comes by some other review.
func (t *teller) takeOver(ctx context.Context) error {
	left, err := t.Store.ListOperations(ctx, admin.OperationFilter{State: operation.Processing, Limit: 100})
	if err != nil || len(left) == 0 {
		return err
	}
	last := t.begins
	for _, op := range left {
		if op.CreatedAt.After(last) {
			last = op.CreatedAt
		}
	}
	return t.Store.TakeOver(ctx, last)
}

// tell carries everything out in the order of time.
func (t *teller) tell(ctx context.Context) error {
	t.planStaff(ctx)
	for _, c := range cast(t.operators[0], t.begins, t.ends) {
		t.expect(ctx, c, c.arrival)
	}
	for len(t.events) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		next := heap.Pop(&t.events).(event)
		t.clock.moveTo(next.at)
		if err := next.do(); err != nil {
			return fmt.Errorf("%s: %w", next.at.Format(time.DateTime), err)
		}
		t.report()
	}
	if err := t.close(ctx); err != nil {
		return err
	}
	if err := t.logCalls(ctx); err != nil {
		return err
	}
	// Those who go on from here sell at verified prices from the first moment.
	prices := catalogue.New(t.Store, t.Source, catalogue.Config{Now: t.Now, Provider: t.ProviderName})
	return prices.Compare(ctx)
}

// at has something done at a moment, if that lies in the history.
func (t *teller) at(moment time.Time, do func() error) {
	if moment.Before(t.ends) {
		t.planned++
		heap.Push(&t.events, event{at: moment, order: t.planned, do: do})
	}
}

func (t *teller) report() {
	if days := int(t.clock.Now().Sub(t.begins)/day) / 15 * 15; days > t.told {
		t.told = days
		t.Progress(Progress{Days: days, Of: int(Length / day), Operations: t.operations})
	}
}

// close leaves the first operator's wallet with what a demo's wallet has.
func (t *teller) close(ctx context.Context) error {
	first := t.operators[0]
	service := t.service(meera)
	wallet, err := t.Store.Wallet(ctx, first.id)
	if err != nil {
		return err
	}
	missing := Closing.Sub(wallet.Balance)
	if !missing.IsPositive() {
		too := wallet.Balance.Sub(Closing).Add(smallTopUp)
		if _, err := service.Adjust(ctx, first.id, too.Neg(), "A payment of another operator was credited here by mistake."); err != nil {
			return err
		}
		missing = smallTopUp
	}
	_, _, err = service.TopUp(ctx, admin.TopUp{OperatorID: first.id, Amount: missing, Reference: closingReference})
	t.Progress(Progress{Days: int(Length / day), Of: int(Length / day), Operations: t.operations})
	return err
}

func (t *teller) service(actor string) *admin.Service {
	return admin.NewService(t.Store, t.Vault, actor, t.clock.Now)
}

// event is something that happens at a moment.
type event struct {
	at    time.Time
	order int // of events of one moment the one thought of first happens first
	do    func() error
}

// events is a heap of what is still to come.
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
