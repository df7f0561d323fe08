//go:build long

package linearizability_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/signing"
)

var callersAddress = netip.MustParseAddr("203.0.113.7")

// client is one of the concurrent clients. Its actions are drawn from its own random
// source, independently of the others.
type client struct {
	*history
	number int
	random *rand.Rand
	step   int
	ids    map[account]string // transaction ids that it was shown, by key
}

// account is an operator's idempotency key: another operator's may be equal.
type account struct {
	operator int64
	key      string
}

// act performs one action on one of the nodes.
func (c *client) act(ctx context.Context) {
	n := c.nodes[c.random.IntN(len(c.nodes))]
	switch draw := c.random.IntN(100); {
	case draw < 42:
		c.ask(ctx, n)
	case draw < 56:
		c.look(ctx, n)
	case draw < 66:
		_ = c.readWallet(ctx, n, c.account()) // if it fails, nothing was read
	case draw < 71:
		c.topUp(ctx, n)
	case draw < 74:
		c.adjust(ctx, n)
	case draw < 82:
		c.review(ctx, n)
	case draw < 84:
		c.decide(ctx, n)
	case draw < 97:
		c.authorize(ctx, n)
	default:
		c.changeTerms(ctx, n)
	}
}

func (c *client) account() int64 { return c.accounts[c.random.IntN(len(c.accounts))] }

// pick chooses an index that other clients are likely to choose at about the same
// time: the range moves on with the client's progress.
func (c *client) pick(offered int) int {
	return min(c.step*offered/stepsPerClient+c.random.IntN(6), offered-1)
}

// begin starts an action, into which a fault may be injected: a store call that fails
// or whose reply is lost, or a short timeout of the client.
func (c *client) begin(ctx context.Context, body string, faultPoints ...faultPoint) (context.Context, context.CancelFunc) {
	e := &callContext{record: c.record, client: c.number, body: body}
	switch draw := c.random.IntN(100); {
	case draw < 12:
		e.injectedFault = injectedFault{
			at: faultPoints[c.random.IntN(len(faultPoints))], late: c.random.IntN(3) > 0,
			err: []error{operation.ErrCommitUnknown, operation.ErrCommitUnknown, operation.ErrUnavailable, errGone}[c.random.IntN(4)],
		}
		if e.late && errors.Is(e.err, operation.ErrUnavailable) {
			e.err = errGone // a store returns ErrUnavailable only if nothing was written
		}
	case draw < 20:
		return context.WithTimeout(e.in(ctx), time.Duration(c.random.IntN(3_000))*time.Microsecond)
	}
	return e.in(ctx), func() {}
}

func (c *client) span(begun int64) span { return span{c.number, begun, c.now()} }

// now is the history's time, not a node's.
func (c *client) now() int64 { return c.record.now() }

func (c *client) ask(ctx context.Context, n *node) {
	operator := c.account()
	w := c.selections[operator][c.pick(selectionsPerOperator)]
	if c.random.IntN(12) == 0 {
		w = w.with((w.plan + 1) % len(plans)) // another body under the same key
	}
	ctx, done := c.begin(ctx, w.body, atReserve, atReserve, atSettle)
	defer done()
	begun := c.now()
	result, err := n.operations.Process(ctx, w.request())
	a := opRequest{span: c.span(begun), selection: w, code: fault.CodeOf(err)}
	if err == nil {
		a.code, a.shownOp, a.replayed = result.Code(), show(result.Operation), result.Replayed
		c.ids[account{operator, w.key}] = result.ID
	}
	data := fault.From(err).Data
	if balance, is := data["wallet_balance"].(money.Amount); is {
		a.balance = balance.Paise()
	}
	a.previous, _ = data["previous_transaction_id"].(string)
	note(c.record, &c.opRequests, a)
}

func (c *client) look(ctx context.Context, n *node) {
	operator := c.account()
	key := c.selections[operator][max(0, c.pick(selectionsPerOperator)-4)].key
	id := ""
	if known := c.ids[account{operator, key}]; known != "" && c.random.IntN(2) == 0 {
		id = known
	}
	begun := c.now()
	op, err := n.operations.Transaction(ctx, operator, id, key)
	l := lookup{span: c.span(begun), operator: operator, key: key, code: fault.CodeOf(err)}
	if err == nil {
		l.shownOp = show(op)
	}
	note(c.record, &c.lookups, l)
}

func (c *client) readWallet(ctx context.Context, n *node, operator int64) error {
	begun := c.now()
	wallet, err := n.service.Wallet(ctx, operator)
	if err == nil {
		note(c.record, &c.read, readWallet{c.span(begun), operator, wallet.Balance.Paise(), wallet.Held.Paise()})
	}
	return err
}

func (c *client) topUp(ctx context.Context, n *node) {
	which := c.pick(creditCount)
	account := c.account()
	cr := credit{operator: account, reference: fmt.Sprintf("UPI %d of account %d", which, account), amount: int64(100_00 + 37_11*which)}
	cr.line = "Top-up " + cr.reference
	ctx, done := c.begin(ctx, "", atCredit)
	defer done()
	begun := c.now()
	wallet, isNew, err := n.service.TopUp(ctx, admin.TopUp{OperatorID: cr.operator, Amount: money.Paise(cr.amount), Reference: cr.reference})
	cr.span = c.span(begun)
	c.noteCredit(cr, wallet, isNew, err)
}

func (c *client) adjust(ctx context.Context, n *node) {
	amount := int64(1 + c.random.IntN(200_00))
	if c.random.IntN(2) == 0 {
		amount *= -5 // sometimes more than the balance
	}
	cr := credit{operator: c.account(), reference: fmt.Sprintf("client %d, step %d", c.number, c.step), amount: amount}
	cr.line = "Adjustment: " + cr.reference
	ctx, done := c.begin(ctx, "", atCredit)
	defer done()
	begun := c.now()
	wallet, err := n.service.Adjust(ctx, cr.operator, money.Paise(amount), cr.reference)
	cr.span = c.span(begun)
	c.noteCredit(cr, wallet, true, err)
}

func (c *client) noteCredit(cr credit, wallet subscription.Wallet, isNew bool, err error) {
	refusal := (*admin.Refusal)(nil)
	switch {
	case errors.As(err, &refusal):
		cr.outcome = creditRefused
	case err != nil:
		cr.outcome = creditUnknown
	case isNew:
		cr.outcome = credited
	default:
		cr.outcome = creditedOnce
	}
	cr.balance, cr.held = wallet.Balance.Paise(), wallet.Held.Paise()
	note(c.record, &c.credits, cr)
}

// review runs one round of review, as a node does periodically.
func (c *client) review(ctx context.Context, n *node) {
	ctx, done := c.begin(ctx, "", atClaim, atSettle)
	defer done()
	_, _ = n.reviewer.RunOnce(ctx) // failures are retried in a later round
}

// decide has a person settle an operation in review, perhaps while review settles it
// too.
func (c *client) decide(ctx context.Context, n *node) {
	confirm, which := c.random.IntN(2) == 0, c.random.IntN(1000)
	ctx, done := c.begin(ctx, "", atSettle)
	defer done()
	waiting, err := n.service.InReview(ctx)
	if err != nil || len(waiting) == 0 {
		return
	}
	_, _ = n.service.SettleReview(ctx, waiting[which%len(waiting)].ID, confirm, "a person knows")
}

// authorize sends a signed request, sometimes with a nonce that another client uses.
func (c *client) authorize(ctx context.Context, n *node) {
	nonce := fmt.Sprintf("history-%d-nonce-%d", c.history.number, c.pick(nonceCount))
	ctx, done := c.begin(ctx, "", atAdmit)
	defer done()
	now := n.now()
	r := access.Request{
		ID: fmt.Sprintf("req-%d-%d-%d", c.history.number, c.number, c.step), Now: now, Address: callersAddress,
		Method: "GET", Path: "/api/v1/balance", Needs: access.CheckBalance,
		Key: []string{c.caller.Key}, Timestamp: []string{fmt.Sprint(now.Unix())}, Nonce: []string{nonce},
	}
	signed := signing.Request{Method: r.Method, Path: r.Path, Timestamp: r.Timestamp[0], Nonce: nonce}
	r.Signature = []string{signed.Sign(c.caller.Secret.Reveal())}
	begun := c.now()
	caller, err := n.authorizer.Authorize(ctx, r)
	note(c.record, &c.authAttempts, authAttempt{
		c.span(begun), nonce, subscription.RateWindowAt(now), fault.CodeOf(err), caller.Rate.Limit, caller.Rate.Remaining, callContextOf(ctx).admission,
	})
}

func (c *client) changeTerms(ctx context.Context, n *node) {
	limit, access := 4+c.random.IntN(8), subscription.APIEnabled
	if c.random.IntN(4) == 0 {
		access = subscription.APIBlocked
	}
	begun := c.now()
	_, err := n.service.ChangeOperator(ctx, c.authOperator, admin.OperatorChange{RateLimit: &limit, API: &access})
	if err != nil {
		panic(err) // no fault is injected here
	}
	note(c.record, &c.termsChanges, termsChange{c.span(begun), limit, access == subscription.APIBlocked})
}
