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

// The MSO's staff: Meera for money and prices, Arjun for everything else.
const (
	meera = "console:meera"
	arjun = "console:arjun"
)

// scheduleStaff plans the staff actions that do not depend on orders.
func (g *generator) scheduleStaff(ctx context.Context) {
	first := g.operators[0]
	g.openOperator(ctx, 3, otherOperator{name: "Sagar Digital Cable", bps: 300, customers: 18, from: othersFrom, stops: g.ends})
	g.openOperator(ctx, 12, otherOperator{name: "Hill View Networks", bps: 200, customers: 9, from: othersFrom + 100, stops: g.begins.Add(70 * day)})
	for _, planned := range []struct {
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
		{20, meera, "plan set", g.setFamilyPrice(ctx, money.Paise(329_00))},
		{27, arjun, "key revoke", func(service *admin.Service) error { return g.revokeSpareKey(ctx, service, first) }},
		{33, arjun, "whitelist remove", func(service *admin.Service) error {
			_, err := service.DisallowAddress(ctx, first.id, "203.0.113.24")
			return err
		}},
		{50, meera, "plan set", g.setFamilyPrice(ctx, money.Paise(349_00))},
		{58, meera, "lco set", func(service *admin.Service) error {
			_, err := service.ChangeOperator(ctx, g.operators[1].id, admin.OperatorChange{LowBalance: new(money.Paise(1_000_00))})
			return err
		}},
		{70, arjun, "lco set", func(service *admin.Service) error {
			_, err := service.ChangeOperator(ctx, g.operators[2].id, admin.OperatorChange{
				Status: new(subscription.OperatorInactive), API: new(subscription.APIDisabled),
			})
			return err
		}},
		{75, arjun, "exception close", func(service *admin.Service) error { return g.closeWrongAnswer(ctx, service) }},
	} {
		g.staffAction(g.inOffice(planned.days), planned.actor, planned.action, planned.do)
	}
}

// inOffice returns a time within the opening hours of a day of the history.
func (g *generator) inOffice(days int) time.Time {
	return inOpeningHours(g.begins.Add(time.Duration(days)*day), rand.New(rand.NewPCG(seed, uint64(10_000+days))))
}

// staffAction plans a staff action, unless an earlier process has done it.
func (g *generator) staffAction(at time.Time, actor, action string, do func(*admin.Service) error) {
	g.at(at, func() error {
		if g.done[actor+" "+action] > 0 {
			g.done[actor+" "+action]--
			return nil
		}
		if err := do(g.service(actor)); err != nil {
			return fmt.Errorf("%s, %s: %w", actor, action, err)
		}
		return nil
	})
}

// otherOperator is an operator besides the demo's first.
type otherOperator struct {
	name      string
	bps       int
	from      int // number of its first customer
	customers int
	stops     time.Time
}

// openOperator plans the account of another operator after some days, and the visits of
// its customers.
func (g *generator) openOperator(ctx context.Context, days int, n otherOperator) {
	at := g.inOffice(days)
	g.at(at, func() error {
		all, err := g.Store.Operators(ctx)
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
			made, err := g.service(arjun).CreateOperator(ctx, n.name, admin.OperatorChange{CommissionBPS: &n.bps})
			if err != nil {
				return err
			}
			account.id = made.ID
		}
		g.operators = append(g.operators, account)
		for _, c := range otherCustomers(account, n.from, n.customers, at, n.stops) {
			g.scheduleVisit(ctx, c, c.arrival)
		}
		return nil
	})
}

// setFamilyPrice changes the price of the family plan.
func (g *generator) setFamilyPrice(ctx context.Context, price money.Amount) func(*admin.Service) error {
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

// revokeSpareKey revokes the key that was issued for a trial.
func (g *generator) revokeSpareKey(ctx context.Context, service *admin.Service, o *operator) error {
	keys, err := service.Keys(ctx, o.id)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if key.CreatedAt.After(g.begins.Add(day)) && key.RevokedAt.IsZero() {
			return service.RevokeKey(ctx, key.ID)
		}
	}
	return nil
}

// closeWrongAnswer closes the exception of the reply with a wrong reference.
func (g *generator) closeWrongAnswer(ctx context.Context, service *admin.Service) error {
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

// settleEarly plans that staff reject an operation which the provider has carried out. The
// next status check finds that, and makes it an exception.
func (g *generator) settleEarly(ctx context.Context, op operation.Operation) {
	decided := g.clock.Now().Add(4 * time.Minute)
	g.staffAction(decided, meera, "review settle", func(service *admin.Service) error {
		_, err := service.SettleReview(ctx, op.ID, false, "The customer says that the channels are not there; refunded at the counter.")
		return err
	})
	g.at(decided.Add(time.Minute), func() error {
		_, err := g.reviewer.RunOnce(ctx)
		return err
	})
}
