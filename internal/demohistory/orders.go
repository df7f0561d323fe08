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

// longestSilence is how often, at least, somebody asks about what is in review. A
// node asks more often; three days of that would be a long list.
const longestSilence = 12 * time.Hour

var (
	smallTopUp = money.Paise(5_000_00)
	largeTopUp = money.Paise(20_000_00)
)

// expect has a customer come for something.
func (t *teller) expect(ctx context.Context, c *customer, v visit) {
	t.at(v.at, func() error {
		op, err := t.order(ctx, c, v)
		if err != nil {
			return fmt.Errorf("customer %d, %s of %s: %w", c.number, v.kind, v.plan, err)
		}
		return t.follow(ctx, c, v, op, t.FirstCheck)
	})
}

// order sends one order through, unless an earlier process has.
func (t *teller) order(ctx context.Context, c *customer, v visit) (operation.Operation, error) {
	key := fmt.Sprintf("history-%04d-%d", c.number, c.step)
	c.step++
	t.operations++
	channel, actor := t.door(c)
	if op, found, err := t.Store.OperationByKey(ctx, c.operator.id, key); err != nil || found {
		return op, err
	}
	if err := t.provide(ctx, c.operator); err != nil {
		return operation.Operation{}, err
	}
	t.Simulator.Script(c.mobile, v.outcomes...)
	if v.silent != "" {
		t.provider.silent[c.mobile+v.silent] = true
		defer delete(t.provider.silent, c.mobile+v.silent)
	}
	fields := map[string]string{"mobile": c.mobile, "plan_id": v.plan}
	if v.kind == operation.Activate {
		fields["full_name"], fields["address"], fields["subscriber_id"] = c.name, c.address, fmt.Sprintf("2%05d", c.number)
	}
	content, err := json.Marshal(fields)
	if err != nil {
		return operation.Operation{}, err
	}
	result, err := t.processor.Process(ctx, operation.Request{
		OperatorID: c.operator.id, Channel: channel, Actor: actor, IdempotencyKey: key, Kind: v.kind, Fields: fields, Content: content,
	})
	return result.Operation, err
}

// counterName is who sits at the counters.
const counterName = "counter"

// door is how an order comes in: through the operator's own software, or over the
// panel.
func (t *teller) door(c *customer) (operation.Channel, string) {
	if share := c.chance.IntN(100); c.operator.keyID != 0 && share < 60 {
		return operation.API, fmt.Sprintf("api:key %d", c.operator.keyID)
	}
	return operation.Web, "web:" + counterName
}

// provide sees to it that a wallet is not empty when a customer comes. Towards the
// end the first operator pays in little at a time.
func (t *teller) provide(ctx context.Context, o *operator) error {
	wallet, err := t.Store.Wallet(ctx, o.id)
	if err != nil {
		return err
	}
	amount, least := largeTopUp, money.Paise(4_000_00)
	if o != t.operators[0] || t.clock.Now().After(t.ends.Add(-20*day)) {
		amount, least = smallTopUp, money.Paise(1_500_00)
	}
	if !wallet.Balance.Less(least) {
		return nil
	}
	t.topUps[o.id]++
	reference := fmt.Sprintf("NEFT DEMO %03d%05d", o.id, t.topUps[o.id])
	_, _, err = t.service(meera).TopUp(ctx, admin.TopUp{OperatorID: o.id, Amount: amount, Reference: reference})
	t.clock.pass(40 * time.Second)
	return err
}

// follow goes on from where an operation stands.
func (t *teller) follow(ctx context.Context, c *customer, v visit, op operation.Operation, wait time.Duration) error {
	now := t.clock.Now()
	switch {
	case op.State == operation.Success:
		c.cycles++
		c.plan, c.expires = op.PlanID, op.ExpiryPlanned
		if op.AddonMissing() {
			t.keepAsking(ctx, wait)
		}
		if next, comes := c.next(now); comes && !v.last {
			t.expect(ctx, c, next)
		}
	case op.State == operation.Failed && !v.last:
		// They wait at the counter, or are called back.
		again := v
		again.at, again.outcomes, again.silent = now.Add(time.Duration(4+c.chance.IntN(40))*time.Minute), nil, ""
		t.expect(ctx, c, again)
	case op.State.Open() && v.hasty:
		t.settleHastily(ctx, op)
	case op.State.Open():
		t.at(now.Add(wait), func() error {
			if _, err := t.reviewer.RunOnce(ctx); err != nil {
				return err
			}
			op, _, err := t.Store.OperationByID(ctx, c.operator.id, op.ID)
			if err != nil {
				return err
			}
			return t.follow(ctx, c, v, op, min(2*wait, longestSilence))
		})
	}
	return nil
}

// keepAsking follows up an add-on that is missing.
func (t *teller) keepAsking(ctx context.Context, wait time.Duration) {
	t.at(t.clock.Now().Add(wait), func() error {
		if _, err := t.reviewer.RunOnce(ctx); err != nil {
			return err
		}
		missing, err := t.Store.MissingAddons(ctx)
		if err == nil && len(missing) > 0 {
			t.keepAsking(ctx, min(2*wait, longestSilence))
		}
		return err
	})
}
