// Package crowd fills an empty store with the many operators and subscribers that
// a load is carried by. Staff's own desk makes the plans, the operators and their
// keys; the subscribers, who are a hundred for each operator, are written past it,
// for only their number makes it slow.
package crowd

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bench/generator"
	"github.com/coaxhq/coax/internal/growth"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Size is how many there are to be.
type Size struct {
	Operators   int `json:"operators"`
	Subscribers int `json:"subscribers"`
	Plans       int `json:"plans"`
}

// Crowd is who is in a store, ready to call.
type Crowd struct {
	Accounts []*generator.Account
	Plans    []string
}

const (
	// price is every plan's, in paise.
	price = 199_00
	// purchases is how many renewals each operator has money for.
	purchases = 1_000_000
)

// Make makes plans of a component that the provider sells, operators and keys.
func Make(ctx context.Context, desk *admin.Desk, component string, size Size) (Crowd, error) {
	var c Crowd
	for i := range size.Plans {
		plan, err := desk.SetPlan(ctx, subscription.Plan{
			ID: fmt.Sprintf("BENCH-%d", i+1), Name: fmt.Sprintf("Bench, plan %d", i+1), Price: money.Paise(price), Months: 1,
			Type: subscription.Standard, Main: component,
		})
		if err != nil {
			return c, fmt.Errorf("make a plan: %w", err)
		}
		c.Plans = append(c.Plans, plan.ID)
	}
	operators, err := growth.MakeOperators(ctx, desk, size.Operators, money.Paise(price*purchases), func() {})
	if err != nil {
		return c, err
	}
	for _, operator := range operators {
		c.Accounts = append(c.Accounts, generator.NewAccount(operator.ID, operator.Key, operator.Secret))
	}
	for i := range size.Subscribers {
		account := c.Accounts[i%len(c.Accounts)]
		// A number that no Indian mobile has: it begins with 1.
		account.Subscribers = append(account.Subscribers, fmt.Sprintf("%d", 1_000_000_000+i))
	}
	return c, nil
}

// row is one subscriber, as both stores keep one: with a first cycle that no
// operation has paid for, like everybody who comes from another system.
type row struct {
	id       string
	operator int64
}

func (c Crowd) rows() []row {
	var rows []row
	for _, account := range c.Accounts {
		for _, id := range account.Subscribers {
			rows = append(rows, row{id, account.OperatorID})
		}
	}
	return rows
}

// term is how long subscribers are paid for when the load begins.
const term = 30 * 24 * time.Hour

// acts are staff's word for where the subscribers came from, each chained to the
// one before it: without them an audit would find strangers.
func (c Crowd) acts(previous []byte, now time.Time) []admin.LoggedAct {
	acts := make([]admin.LoggedAct, len(c.Accounts))
	for i, account := range c.Accounts {
		acts[i] = admin.LoggedAct{
			Act:        admin.Act{Actor: "bench", Action: "subscriber import", At: now},
			OperatorID: account.OperatorID, Subject: fmt.Sprintf("subscribers of lco %d", account.OperatorID),
			After: fmt.Sprintf(`{"imported":%d}`, len(account.Subscribers)),
		}
		previous = acts[i].ChainHash(previous)
		acts[i].Hash = previous
	}
	return acts
}
