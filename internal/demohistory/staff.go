package demohistory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Those who work for the MSO. Meera sees to the money, Arjun to everything else.
const (
	meera = "console:meera"
	arjun = "console:arjun"
)

// planStaff is what staff do of their own accord, in the order they do it.
func (t *teller) planStaff(ctx context.Context) {
	first := t.operators[0]
	t.neighbour(ctx, 3, neighbour{name: "Sagar Digital Cable", bps: 300, customers: 18, from: neighboursFrom, stops: t.ends})
	t.neighbour(ctx, 12, neighbour{name: "Hill View Networks", bps: 200, customers: 9, from: neighboursFrom + 100, stops: t.begins.Add(70 * day)})
	for _, duty := range []struct {
		days   int
		actor  string
		action string
		do     func(*admin.Service) error
	}{
		{1, arjun, "key issue", func(service *admin.Service) error {
			_, err := service.IssueKey(ctx, first.id, access.AllPermissions)
			return err
		}},
		{4, arjun, "whitelist add", func(service *admin.Service) error {
			_, err := service.AllowAddress(ctx, first.id, "203.0.113.24")
			return err
		}},
		{20, meera, "plan set", t.price(ctx, money.Paise(329_00))},
		{27, arjun, "key revoke", func(service *admin.Service) error { return t.revokeSpareKey(ctx, service, first) }},
		{33, arjun, "whitelist remove", func(service *admin.Service) error {
			_, err := service.DisallowAddress(ctx, first.id, "203.0.113.24")
			return err
		}},
		{50, meera, "plan set", t.price(ctx, money.Paise(349_00))},
		{58, meera, "lco set", func(service *admin.Service) error {
			_, err := service.ChangeOperator(ctx, t.operators[1].id, admin.OperatorChange{LowBalance: new(money.Paise(1_000_00))})
			return err
		}},
		{70, arjun, "lco set", func(service *admin.Service) error {
			_, err := service.ChangeOperator(ctx, t.operators[2].id, admin.OperatorChange{
				Status: new(subscription.OperatorInactive), API: new(subscription.APIDisabled),
			})
			return err
		}},
		{75, arjun, "exception close", func(service *admin.Service) error { return t.closeWrongAnswer(ctx, service) }},
	} {
		t.duty(t.inOffice(duty.days), duty.actor, duty.action, duty.do)
	}
}

// inOffice is a moment of a day on which staff work.
func (t *teller) inOffice(days int) time.Time {
	return inOpeningHours(t.begins.Add(time.Duration(days)*day), rand.New(rand.NewPCG(seed, uint64(10_000+days))))
}

// duty has an act of staff done at a moment, unless an earlier process has done
// it.
func (t *teller) duty(at time.Time, actor, action string, do func(*admin.Service) error) {
	t.at(at, func() error {
		if t.done[actor+" "+action] > 0 {
			t.done[actor+" "+action]--
			return nil
		}
		if err := do(t.service(actor)); err != nil {
			return fmt.Errorf("%s, %s: %w", actor, action, err)
		}
		return nil
	})
}

// neighbour is an operator beside the demo's own.
type neighbour struct {
	name      string
	bps       int
	from      int // number of its first customer
	customers int
	stops     time.Time
}

// neighbour opens an account for another operator after so many days, and has its
// customers come.
func (t *teller) neighbour(ctx context.Context, days int, n neighbour) {
	at := t.inOffice(days)
	t.at(at, func() error {
		all, err := t.Store.Operators(ctx)
		if err != nil {
			return err
		}
		account := &operator{}
		for _, known := range all {
			if known.Name == n.name { // an earlier process has opened it
				account.id = known.ID
			}
		}
		if account.id == 0 {
			made, err := t.service(arjun).CreateOperator(ctx, n.name, admin.OperatorChange{CommissionBPS: &n.bps})
			if err != nil {
				return err
			}
			account.id = made.ID
		}
		t.operators = append(t.operators, account)
		for _, c := range neighbours(account, n.from, n.customers, at, n.stops) {
			t.expect(ctx, c, c.arrival)
		}
		return nil
	})
}

// price changes what the family plan costs, and leaves the rest of it.
func (t *teller) price(ctx context.Context, price money.Amount) func(*admin.Service) error {
	return func(service *admin.Service) error {
		plans, err := service.Plans(ctx)
		if err != nil {
			return err
		}
		for _, plan := range plans {
			if plan.ID != family {
				continue
			}
			plan.Price = price
			if _, err := service.SetPlan(ctx, plan); err != nil {
				return err
			}
		}
		return nil
	}
}

// revokeSpareKey ends the key that was issued to try something with.
func (t *teller) revokeSpareKey(ctx context.Context, service *admin.Service, o *operator) error {
	keys, err := service.Keys(ctx, o.id)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if key.CreatedAt.After(t.begins.Add(day)) && key.RevokedAt.IsZero() {
			return service.RevokeKey(ctx, key.ID)
		}
	}
	return nil
}

// closeWrongAnswer has somebody deal with the answer that was about another order.
func (t *teller) closeWrongAnswer(ctx context.Context, service *admin.Service) error {
	exceptions, err := service.Exceptions(ctx, false)
	if err != nil {
		return err
	}
	for _, e := range exceptions {
		if e.Kind == operation.WrongAnswer {
			return service.CloseException(ctx, e.ID, "Asked the provider: a fault in their gateway, mended the same day. The renewal itself is right.")
		}
	}
	return nil
}

// settleHastily has a person say no before the provider was asked, who has carried
// the order out: that is found out a little later, and is an exception.
func (t *teller) settleHastily(ctx context.Context, op operation.Operation) {
	decided := t.clock.Now().Add(4 * time.Minute)
	t.duty(decided, meera, "review settle", func(service *admin.Service) error {
		_, err := service.SettleReview(ctx, op.ID, false, "The customer says that the channels are not there; refunded at the counter.")
		return err
	})
	t.at(decided.Add(time.Minute), func() error {
		_, err := t.reviewer.RunOnce(ctx)
		return err
	})
}
