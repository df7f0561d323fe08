package demohistory

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// maxCheckInterval is the longest pause between two status checks of an operation in
// review. A node checks more often; three days of that would be a long list.
const maxCheckInterval = 12 * time.Hour

var (
	smallTopUp = money.Paise(5_000_00)
	largeTopUp = money.Paise(20_000_00)
)

// scheduleVisit plans a visit of a customer.
func (g *generator) scheduleVisit(ctx context.Context, c *customer, v visit) {
	g.at(v.at, func() error {
		op, err := g.order(ctx, c, v)
		if err != nil {
			return fmt.Errorf("customer %d, %s of %s: %w", c.number, v.kind, v.plan, err)
		}
		return g.followUp(ctx, c, v, op, g.FirstCheck)
	})
}

// order carries out one order, unless an earlier process has.
func (g *generator) order(ctx context.Context, c *customer, v visit) (operation.Operation, error) {
	key := fmt.Sprintf("history-%04d-%d", c.number, c.step)
	c.step++
	g.operations++
	channel, actor := g.channelOf(c)
	if op, found, err := g.Store.OperationByKey(ctx, c.operator.id, key); err != nil || found {
		return op, err
	}
	if err := g.topUpIfLow(ctx, c.operator); err != nil {
		return operation.Operation{}, err
	}
	g.Simulator.Script(c.mobile, v.outcomes...)
	if v.silent != "" {
		g.provider.silent[c.mobile+v.silent] = true
		defer delete(g.provider.silent, c.mobile+v.silent)
	}
	fields := map[string]string{"mobile": c.mobile, "plan_id": v.plan}
	if v.kind == operation.Activate {
		fields["full_name"], fields["address"], fields["subscriber_id"] = c.name, c.address, fmt.Sprintf("2%05d", c.number)
	}
	content, err := json.Marshal(fields)
	if err != nil {
		return operation.Operation{}, err
	}
	result, err := g.processor.Process(ctx, operation.Request{
		OperatorID: c.operator.id, Channel: channel, Actor: actor, IdempotencyKey: key, Kind: v.kind, Fields: fields, Content: content,
	})
	return result.Operation, err
}

// counterName is the username of the counters.
const counterName = "counter"

// channelOf returns channel and actor of an order: the operator's software, or the panel.
func (g *generator) channelOf(c *customer) (operation.Channel, string) {
	if share := c.chance.IntN(100); c.operator.keyID != 0 && share < 60 {
		return operation.API, fmt.Sprintf("api:key %d", c.operator.keyID)
	}
	return operation.Web, "web:" + counterName
}

// topUpIfLow tops up a wallet before an order if its balance is low. Towards the end the
// first operator pays in smaller amounts.
func (g *generator) topUpIfLow(ctx context.Context, o *operator) error {
	wallet, err := g.Store.Wallet(ctx, o.id)
	if err != nil {
		return err
	}
	amount, minimum := largeTopUp, money.Paise(4_000_00)
	if o != g.operators[0] || g.clock.Now().After(g.ends.Add(-20*day)) {
		amount, minimum = smallTopUp, money.Paise(1_500_00)
	}
	if !wallet.Balance.Less(minimum) {
		return nil
	}
	g.topUps[o.id]++
	reference := fmt.Sprintf("NEFT DEMO %03d%05d", o.id, g.topUps[o.id])
	_, _, err = g.service(meera).TopUp(ctx, admin.TopUp{OperatorID: o.id, Amount: amount, Reference: reference})
	g.clock.advance(40 * time.Second)
	return err
}

// followUp schedules what comes after an operation.
func (g *generator) followUp(ctx context.Context, c *customer, v visit, op operation.Operation, wait time.Duration) error {
	now := g.clock.Now()
	switch {
	case op.State == operation.Success:
		c.cycles++
		c.plan, c.expires = op.PlanID, op.ExpiryPlanned
		if op.AddonMissing() {
			g.recheckAddons(ctx, wait)
		}
		if next, comes := c.next(now); comes && !v.last {
			g.scheduleVisit(ctx, c, next)
		}
	case op.State == operation.Failed && !v.last:
		// The customer tries again a little later.
		again := v
		again.at, again.outcomes, again.silent = now.Add(time.Duration(4+c.chance.IntN(40))*time.Minute), nil, ""
		g.scheduleVisit(ctx, c, again)
	case op.State.Open() && v.settledEarly:
		g.settleEarly(ctx, op)
	case op.State.Open():
		g.at(now.Add(wait), func() error {
			if _, err := g.reviewer.RunOnce(ctx); err != nil {
				return err
			}
			op, _, err := g.Store.OperationByID(ctx, c.operator.id, op.ID)
			if err != nil {
				return err
			}
			return g.followUp(ctx, c, v, op, min(2*wait, maxCheckInterval))
		})
	}
	return nil
}

// recheckAddons follows up missing add-ons until there are none.
func (g *generator) recheckAddons(ctx context.Context, wait time.Duration) {
	g.at(g.clock.Now().Add(wait), func() error {
		if _, err := g.reviewer.RunOnce(ctx); err != nil {
			return err
		}
		missing, err := g.Store.MissingAddons(ctx)
		if err == nil && len(missing) > 0 {
			g.recheckAddons(ctx, min(2*wait, maxCheckInterval))
		}
		return err
	})
}
