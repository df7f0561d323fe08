package sim

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

// Reversals: staff ask for them, the provider undoes orders or does not, its answers are lost, and people
// settle what it leaves unknown.

// mReversal is a reversal as the model sees it.
type mReversal struct {
	Reference  string `json:"reference"`
	Operation  string `json:"operation_id"`
	Operator   int64  `json:"operator_id"`
	Amount     int64  `json:"amount_paise"`
	Commission int64  `json:"commission_paise"`
	Status     string `json:"status"`
	ByPerson   int64  `json:"by_person"`
	Voided     int64  `json:"voided"`
}

// byPerson reports whether a person settled it.
func (r *mReversal) byPerson() bool { return r.ByPerson == 1 }

func (r *mReversal) open() bool { return r.Status == "requested" || r.Status == "asked" }

// takeReversal checks a reversal as it is requested and as it comes to an outcome: that is the
// provider's, or a person's.
func (m *model) takeReversal(l row) {
	var r mReversal
	l.into(&r)
	op, before := m.operations[r.Operation], m.reversals[r.Reference]
	m.reversals[r.Reference] = &r
	if op == nil {
		m.violate("V1", r.Reference, "it reverses %s, which does not exist", r.Operation)
		return
	}
	m.touched[op.ID] = true
	if before == nil {
		op.reversals++
		m.env.name(r.Reference, m.env.nickname(op.ID)+"/undo"+strconv.Itoa(op.reversals))
		m.env.occurred("a reversal is requested")
		if op.state != "success" || op.Reversed != nil {
			m.violate("V1", op.ID, "its reversal is requested, and it is %s", op.state)
		}
	} else if r.open() && before.Status == "refused" && before.byPerson() && before.Voided == 0 {
		m.env.occurred("a reversal is reopened")
	} else if !before.open() && before.Status != r.Status {
		m.violate("V1", r.Reference, "it was %s, and is %s", before.Status, r.Status)
	}
	if r.Amount != op.Amount || r.Operator != op.Operator || len(op.earned) != 1 || r.Commission != op.earned[0] {
		m.violate("C3", r.Reference, "it gives back %d and takes %d of commission; %d was charged, and %d earned", r.Amount, r.Commission, op.Amount, op.earned)
	}
	if r.open() || before != nil && !before.open() {
		return
	}
	who := "the provider"
	if r.byPerson() {
		who = "a person"
	}
	m.env.occurred("a reversal is " + r.Status + " by " + who)
	if undone, refused := m.env.provider.reversalOf(r.Reference); !r.byPerson() && (r.Status == "reversed" && !undone || r.Status == "refused" && !refused) {
		m.violate("S9", r.Reference, "it is %s; the provider undid it: %v, and refused it: %v", r.Status, undone, refused)
	}
}

// checkReversed checks what a reversal leaves, in the commit that carries it out.
func (m *model) checkReversed(op *mOperation) {
	reversed := 0
	for _, r := range m.reversals {
		if r.Operation == op.ID && r.Status == "reversed" {
			reversed++
		}
	}
	if reversed != 1 || op.state != "success" {
		m.violate("V1", op.ID, "it is marked as reversed, %s, with %d reversals carried out", op.state, reversed)
	}
	s := m.subscribers[op.Subscriber]
	switch {
	case op.Kind == "activate" && s != nil:
		m.violate("V1", op.ID, "it was reversed, and its subscriber %s is still there", s.ID)
	case op.Kind != "activate" && (s == nil || s.Expires == nil || *s.Expires != *op.Previous):
		m.violate("V1", op.ID, "it was reversed, and its subscriber has not the expiry from before")
	}
}

// checkReversals compares the end of a history with the provider's records: what it undid is reversed, or a
// person said otherwise; and what the MSO earned is without what was reversed.
func (env *environment) checkReversals() {
	m := env.model
	earned := map[int64]int64{}
	for _, id := range keys(m.operations) {
		op := m.operations[id]
		settledBy := ""
		for _, reference := range keys(m.reversals) {
			if r := m.reversals[reference]; r.Operation == id && r.byPerson() {
				settledBy = reference
			}
		}
		if undone := env.provider.undone(id); undone != (op.Reversed != nil) && settledBy == "" {
			m.violate("V1", id, "the provider undid it: %v; it is reversed: %v, and no person said so", undone, op.Reversed != nil)
		}
		if op.state == "success" && op.Reversed == nil && len(op.earned) == 1 {
			earned[op.Operator] += op.earned[0]
		}
	}
	entries, err := env.service.CommissionPage(context.Background(), admin.ListQuery{})
	if err != nil {
		env.fail("list the commissions: " + err.Error())
		return
	}
	listed := map[int64]int64{}
	for _, e := range entries {
		listed[e.OperatorID] += e.Amount.Paise()
	}
	for _, o := range m.operators {
		if listed[o.ID] != earned[o.ID] {
			m.violate("C3", fmt.Sprint("operator ", o.ID), "the commissions come to %d paise; %d were earned and not reversed", listed[o.ID], earned[o.ID])
		}
	}
}

// reverseOne has staff ask for the reversal of one of the latest successes.
func (a action) reverseOne(ctx context.Context) {
	latest, err := a.env.service.ListOperations(ctx, admin.OperationFilter{State: operation.Success, Limit: 12})
	if err != nil || len(latest) == 0 {
		return
	}
	for try := range 4 {
		op := latest[a.below(len(latest), "which success "+strconv.Itoa(try))]
		a.env.gates.pass(a.label, "reverse "+strconv.Itoa(try), nil, false)
		if _, err := a.env.service.SubmitReversal(ctx, op.ID, "wrong customer"); err == nil {
			return
		}
	}
}

// settleReversal has a person settle a reversal that the provider leaves unknown.
func (a action) settleReversal(ctx context.Context) {
	open, err := a.env.service.Reversals(ctx, admin.ReversalFilter{Open: true, Limit: 10})
	if err == nil && len(open) > 0 {
		r := open[a.below(len(open), "which reversal")]
		_, _ = a.env.service.WithReversalWait(firstCheck).SettleReversal(ctx, r.Reference, a.odds(500, "undone"), "asked them by phone")
	}
}

// Reverse asks the provider to undo an order, and may have a person settle the reversal meanwhile.
func (c providerClient) Reverse(ctx context.Context, o operation.ReversalOrder) operation.Reply {
	c.wait(ctx, "reverse", o.Reference)
	env, name := c.env, c.env.nickname(o.Reference)
	q := env.queries
	q.mu.Lock()
	q.counts[o.Reference]++
	n := strconv.Itoa(q.counts[o.Reference])
	q.mu.Unlock()
	// There are few reversals, so that it is drawn twice.
	if env.faults.drawn(staffDecides, name, n, "reverse") || env.faults.drawn(staffDecides, name, n, "reverse again") {
		env.background.Go(func() {
			if env.chance.odds(500, staffDecides, name, n, "waits") {
				env.sleep(env.chance.between(0, providerTimeout, staffDecides, name, n, "how long"))
			}
			env.gates.pass("staff about "+name, "decide "+n, nil, false)
			env.settleReversal(o.Reference, env.chance.odds(500, staffDecides, name, n, "undone"))
		})
	}
	if scripted := env.faults.decide[name+" reverse"]; scripted != "" {
		env.settleReversal(o.Reference, scripted == "confirm") // before the call arrives
	}
	return c.gateway.Reverse(ctx, o)
}

// VoidReversal tells the provider never to carry out a reversal.
func (c providerClient) VoidReversal(ctx context.Context, o operation.ReversalOrder) operation.Reply {
	c.wait(ctx, "void", o.Reference)
	return c.gateway.VoidReversal(ctx, o)
}

func (env *environment) settleReversal(reference string, undone bool) {
	if _, err := env.service.WithReversalWait(0).SettleReversal(context.Background(), reference, undone, "asked them by phone"); err == nil {
		env.occurred("staff settle a reversal during a call")
	}
}

// undoing is one reversal in the provider's records.
type undoing struct {
	Reference    string `json:"reference"`
	Order        string `json:"order"`
	Addon        string `json:"addon_order"`
	SubscriberID string `json:"subscriber_id"`
	Mobile       string `json:"mobile"`

	effects     int
	rejected    bool
	asks        int
	transaction string
}

// reverseBehaviours are what the provider may do with a reversal, with their weights.
var reverseBehaviours = []weight{
	{"ok", 34}, {"slow", 14}, {"reject", 8}, {"lost", 10}, {"answer too late", 6}, {"late", 8}, {"dropped", 8}, {"503", 8}, {"malformed", 6}, {"pending", 6},
}

// reverse undoes an order, once a reference, and answers as the behaviour says.
func (p *provider) reverse(rw http.ResponseWriter, r *http.Request, wanted undoing) {
	p.mu.Lock()
	u := p.undoings[wanted.Reference]
	if u == nil {
		u = &wanted
		p.undoings[wanted.Reference] = u
	}
	behaviour := p.behaviour(reverseBehaviours, "reverse", &order{Reference: u.Reference, asks: u.asks})
	u.asks++
	p.mu.Unlock()
	label := p.env.nickname(u.Reference)
	switch behaviour {
	case "reject":
		p.set(func() { u.rejected = u.rejected || u.effects == 0 })
	case "late", "pending":
		p.later(p.env.chance.between(2100*time.Millisecond, 12*time.Second, "late", label), func() { p.set(func() { p.undo(u) }) })
		if behaviour == "late" {
			p.silence(r)
		}
		p.say(rw, http.StatusOK, map[string]any{"reference": u.Reference, "status": "pending"})
		return
	case "dropped", "503", "malformed":
		p.spoilQuery(rw, r, behaviour)
		return
	case "slow":
		p.env.sleep(p.env.chance.between(300*time.Millisecond, 1900*time.Millisecond, "takes", label))
		p.set(func() { p.undo(u) })
	default:
		p.set(func() { p.undo(u) })
	}
	switch behaviour {
	case "lost":
		p.noteFailure()
		panic(http.ErrAbortHandler)
	case "answer too late":
		p.env.sleep(providerTimeout + 500*time.Millisecond)
	}
	p.sayUndone(rw, u, map[string]any{"reference": u.Reference, "status": "rejected", "message": "The order cannot be undone."})
}

// sayUndone answers that a reversal was carried out, or otherwise something else.
func (p *provider) sayUndone(rw http.ResponseWriter, u *undoing, otherwise map[string]any) {
	said := otherwise
	p.set(func() {
		if u.effects > 0 {
			said = map[string]any{
				"reference": u.Reference, "status": "reversed", "subscriber_id": u.SubscriberID, "mobile": u.Mobile, "transaction_id": u.transaction, "order": u.Order,
			}
			if u.Addon != "" {
				said["addon_order"] = u.Addon
			}
		}
	})
	p.say(rw, http.StatusOK, said)
}

// voidReversal makes sure that a reversal is never carried out, unless it was.
func (p *provider) voidReversal(rw http.ResponseWriter, r *http.Request, wanted undoing) {
	p.mu.Lock()
	u := p.undoings[wanted.Reference]
	if u == nil {
		u = &wanted
		p.undoings[wanted.Reference] = u
	}
	behaviour := p.queryBehaviour("void", &order{Reference: u.Reference, asks: u.asks})
	u.asks++
	// Half of the voids whose reply is lost take effect.
	if behaviour == "ok" || p.env.chance.odds(500, "void heard", p.env.nickname(u.Reference)) {
		u.rejected = u.rejected || u.effects == 0
	}
	p.mu.Unlock()
	if p.spoilQuery(rw, r, behaviour) {
		return
	}
	p.sayUndone(rw, u, map[string]any{"reference": u.Reference, "status": "voided"})
}

// undo undoes the orders of a reversal, both or neither, once.
func (p *provider) undo(u *undoing) {
	if u.effects > 0 || u.rejected {
		return
	}
	main, addon := p.orders[u.Order], p.orders[u.Addon]
	if main == nil || main.effects == 0 || main.undone || u.Addon != "" && (addon == nil || addon.effects == 0 || addon.undone) {
		u.rejected = true
		return
	}
	main.undone = true
	if addon != nil {
		addon.undone = true
	}
	u.effects++
	p.numbers++
	u.transaction = fmt.Sprintf("P%06d", p.numbers)
}

// reversalOf reports what the provider did under the reference of a reversal.
func (p *provider) reversalOf(reference string) (undone, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.undoings[reference]
	return u != nil && u.effects == 1, u != nil && u.rejected
}

// undone reports whether the provider has undone an order.
func (p *provider) undone(reference string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.orders[reference]
	return o != nil && o.undone
}

// reverse asks for the reversal of a key's operation, and waits until that has an outcome.
func (t scenarioRunner) reverse(key string) {
	op := t.env.model.byKey[keyOf(1, key)]
	if op == nil || op.state != "success" {
		return
	}
	t.staff("reverse", func(ctx context.Context, service *admin.Service) error {
		_, err := service.SubmitReversal(ctx, op.ID, "wrong customer")
		if op.reversals > 0 {
			return nil // the answer about it was lost
		}
		return err
	})
	for range 120 {
		t.env.gates.pass("one", "look", nil, false)
		over := true
		for _, r := range t.env.model.reversals {
			over = over && !r.open()
		}
		if over {
			return
		}
		t.env.sleep(250 * time.Millisecond)
	}
}
