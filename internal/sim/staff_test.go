package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
)

// staffActions are the kinds of staff actions, with their weights.
var staffActions = []weight{
	{"top up", 30}, {"adjust", 5}, {"price", 14}, {"retire", 3}, {"issue", 5}, {"rotate", 6}, {"revoke", 4}, {"permit", 5}, {"whitelist", 7},
	{"limit", 4}, {"commission", 4}, {"block", 6}, {"settle", 3}, {"delete", 1}, {"reverse", 16}, {"settle reversal", 4},
}

// doStaff is one staff action, directly on the store, like coax admin beside running
// nodes. A top-up whose commit outcome is unknown is repeated.
func (a action) doStaff() {
	env, ctx := a.env, context.Background()
	env.gates.pass(a.label, "begin act", nil, false)
	what := weighted(env.chance, staffActions, a.label, "act")
	operator := int64(a.below(operatorCount, "operator") + 1)
	var err error
	switch what {
	case "top up":
		amount := int64(a.below(60_000, "amount") + 1)
		topUp := admin.TopUp{OperatorID: operator, Amount: paise(amount), Reference: "top up " + a.label}
		for range 3 { // the same reference twice credits once
			if _, _, err = env.service.TopUp(ctx, topUp); err == nil {
				break
			}
		}
		env.gates.pass(a.label, "topped up", nil, false)
		if err == nil {
			env.observer.toppedUp(operator, topUp.Reference, amount)
		}
	case "adjust":
		_, err = env.service.Adjust(ctx, operator, paise(int64(a.below(2_000, "amount")-1_000)), "counted again")
	case "price":
		id := pick(env.chance, planIDs, a.label, "plan")
		_, err = env.service.SetPlan(ctx, env.planOf(id, a.below(40_000, "price")+1))
	case "retire":
		id := pick(env.chance, planIDs, a.label, "plan")
		if err = env.service.RetirePlan(ctx, id); err == nil {
			env.gates.pass(a.label, "retired", nil, false)
			_, err = env.service.SetPlan(ctx, env.planOf(id, a.below(40_000, "price")+1))
		}
	case "issue":
		err = env.issueKey(operator)
	case "rotate", "revoke", "permit":
		err = a.changeKey(ctx, what)
	case "whitelist":
		if _, err = env.service.DisallowAddress(ctx, operator, home); err == nil {
			env.gates.pass(a.label, "disallowed", nil, false)
			_, err = env.service.AllowAddress(ctx, operator, home)
		}
	case "limit":
		_, err = env.service.ChangeOperator(ctx, operator, admin.OperatorChange{RateLimit: new(pick(env.chance, []int{8, 60, 600, 600, 600}, a.label, "limit"))})
	case "commission":
		_, err = env.service.ChangeOperator(ctx, operator, admin.OperatorChange{CommissionBPS: new(a.below(10_001, "bps"))})
	case "block":
		a.block(ctx, operator)
	case "settle":
		a.settle(ctx)
	case "reverse":
		a.reverseOne(ctx)
	case "settle reversal":
		a.settleReversal(ctx)
	case "delete":
		if a.i > historyLength*3/4 {
			err = a.closeAccount(ctx, operator)
		}
	}
	_ = err // refusals are allowed; the journal shows what was done
	env.occurred("staff: " + what)
}

// closeAccount pays out an operator's balance and deletes the operator. That is refused
// while an operation is open. Some deleted operators are undeleted.
func (a action) closeAccount(ctx context.Context, operator int64) error {
	wallet, err := a.env.service.Wallet(ctx, operator)
	if err != nil {
		return err
	}
	if wallet.Balance.IsPositive() {
		if _, err := a.env.service.Adjust(ctx, operator, wallet.Balance.Neg(), "paid out"); err != nil {
			return err
		}
	}
	if err := a.env.service.DeleteOperator(ctx, operator); err != nil || a.below(4, "undelete") > 0 {
		return err
	}
	a.env.gates.pass(a.label, "deleted", nil, false)
	_, err = a.env.service.UndeleteOperator(ctx, operator)
	return err
}

func (a action) changeKey(ctx context.Context, what string) error {
	env := a.env
	allKeys := env.allKeys()
	key := allKeys[a.below(len(allKeys), "which key")]
	switch what {
	case "rotate":
		issued, err := env.service.RotateKey(ctx, key.id, a.between(0, 72*time.Hour, "grace"))
		if err == nil {
			env.addKey(&apiKey{id: issued.ID, operator: key.operator, key: issued.Key, secret: issued.Secret.Reveal()})
		}
		return err
	case "revoke":
		if err := env.service.RevokeKey(ctx, key.id); err != nil {
			return err
		}
		return env.issueKey(key.operator)
	}
	allowed := access.PermissionsOf(access.Renew, access.CheckBalance)
	if err := env.service.PermitKey(ctx, key.id, allowed); err != nil {
		return err
	}
	env.background.Go(func() {
		env.sleep(a.between(0, 5*time.Second, "restricted"))
		env.gates.pass(a.label, "permit again", nil, false)
		_ = env.service.PermitKey(ctx, key.id, access.AllPermissions)
	})
	return nil
}

// block blocks an operator's access for a while.
func (a action) block(ctx context.Context, operator int64) {
	change := pick(a.env.chance, []admin.OperatorChange{
		{Status: new(subscription.OperatorInactive)}, {API: new(subscription.APIDisabled)}, {API: new(subscription.APIBlocked)},
	}, a.label, "how")
	if _, err := a.env.service.ChangeOperator(ctx, operator, change); err != nil {
		return
	}
	a.env.background.Go(func() {
		a.env.sleep(a.between(0, 5*time.Second, "blocked"))
		a.env.gates.pass(a.label, "unblock", nil, false)
		for range 3 {
			_, err := a.env.service.ChangeOperator(ctx, operator, admin.OperatorChange{Status: new(subscription.OperatorActive), API: new(subscription.APIEnabled)})
			if err == nil {
				break
			}
		}
	})
}

// settle has a person settle an operation in review.
func (a action) settle(ctx context.Context) {
	if id := a.env.observer.inReview(); id != "" {
		_, _ = a.env.service.SettleReview(ctx, id, a.odds(500, "confirm"), "asked them by phone")
	}
}

// disruptions are faults that affect all nodes, with their weights.
var disruptions = []weight{{"outage", 3}, {"no catalogue", 2}, {"withdraw", 2}, {"leap", 4}, {"clock", 4}, {"power", 2}}

func (a action) doDisruption() {
	env := a.env
	env.gates.pass(a.label, "begin turn", nil, false)
	turn := weighted(env.chance, disruptions, a.label, "turn")
	kind := map[string]string{"outage": "outage", "no catalogue": "outage", "withdraw": "outage", "leap": "leap", "clock": "clock", "power": "power"}[turn]
	if !env.faults.has(kind) {
		return
	}
	env.occurred("disruption: " + turn)
	lasts := a.between(time.Second, 8*time.Second, "lasts")
	switch turn {
	case "outage":
		env.provider.set(func() { env.provider.down = true })
		env.after(lasts, func() { env.provider.set(func() { env.provider.down = false }) })
	case "no catalogue":
		env.provider.set(func() { env.provider.catalogueDown = true })
		if a.odds(500, "for long") {
			env.leap(catalogueMaxAge + time.Second)
		}
		env.after(lasts, func() { env.provider.set(func() { env.provider.catalogueDown = false }) })
	case "withdraw":
		code := pick(env.chance, sold, a.label, "component").code
		env.provider.set(func() { env.provider.withdrawn[code] = true })
		env.after(lasts+catalogueRefresh, func() { env.provider.set(func() { env.provider.withdrawn[code] = false }) })
	case "leap":
		env.leap(pick(env.chance, []time.Duration{time.Minute, 119 * time.Second, 305 * time.Second, time.Hour, 25 * time.Hour, 31 * 24 * time.Hour}, a.label, "how far"))
	case "clock":
		n := pick(env.chance, env.nodes, a.label, "whose")
		env.stepClock(n, pick(env.chance, []time.Duration{-time.Hour, -10 * time.Second, -time.Second, time.Second, 10 * time.Second, time.Hour}, a.label, "by"))
		env.after(lasts, func() { env.stepClock(n, 0) })
	case "power":
		env.powerCut()
	}
}

func (env *environment) after(wait time.Duration, do func()) {
	env.background.Go(func() {
		env.sleep(wait)
		env.gates.pass("world", fmt.Sprint("after ", wait), nil, false)
		do()
	})
}

// stepClock sets the offset of a node's clock.
func (env *environment) stepClock(n *node, offset time.Duration) {
	if !n.setOffset(offset) {
		return
	}
	env.setWrong()
	if l := n.running(); l != nil {
		l.setDisturbed()
	}
}

// skewed reports whether a node's clock is off, so that a node may see another's lease
// as expired too early.
func (env *environment) skewed() bool {
	for _, n := range env.nodes {
		if n.skew() != 0 {
			return true
		}
	}
	return false
}

// powerCut crashes every process at once.
func (env *environment) powerCut() {
	for _, n := range env.nodes {
		if l := n.running(); l != nil {
			env.crashAndRestart(l)
		}
	}
}
