// Package crowd fills an empty store with the many operators and subscribers that
// a load is carried by. Staff's own service makes the plans, the operators and their
// keys; the subscribers, who are a hundred for each operator, are written past it,
// for only their number makes it slow.
package crowd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/generator"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Size is how many there are to be.
type Size struct {
	Operators   int `json:"operators"`
	Subscribers int `json:"subscribers"`
	Plans       int `json:"plans"`
	// UnknownOutcome is how many subscribers there are besides, of whom the provider never
	// says at once what it has done.
	UnknownOutcome int `json:"in_doubt"`
}

// Crowd is who is in a store, ready to call.
type Crowd struct {
	Accounts []*generator.Account
	Plans    []string
	// UnknownOutcome are the operators of those whose renewals are left in doubt.
	UnknownOutcome []*generator.Account
}

const (
	// price is every plan's, in paise.
	price = 199_00
	// purchases is how many renewals each operator has money for.
	purchases = 1_000_000
	// unknownOperators share those whose renewals are left in doubt.
	unknownOperators = 8
	// dropped is where their numbers begin: the simulator does what it is asked for
	// these and hangs up without an answer.
	dropped = 90_0009_0000
)

// Make makes plans of a component that the provider sells, operators and keys.
func Make(ctx context.Context, service *admin.Service, component string, size Size) (Crowd, error) {
	var c Crowd
	for i := range size.Plans {
		plan, err := service.SetPlan(ctx, subscription.Plan{
			ID: fmt.Sprintf("BENCH-%d", i+1), Name: fmt.Sprintf("Bench, plan %d", i+1), Price: money.Paise(price), Months: 1,
			Type: subscription.Standard, Main: component,
		})
		if err != nil {
			return c, fmt.Errorf("make a plan: %w", err)
		}
		c.Plans = append(c.Plans, plan.ID)
	}
	operators, err := growth.MakeOperators(ctx, service, size.Operators+unknownOperators, money.Paise(price*purchases), func() {})
	if err != nil {
		return c, err
	}
	for i, operator := range operators {
		account := generator.NewAccount(operator.ID, operator.Key, operator.Secret)
		if i < size.Operators {
			c.Accounts = append(c.Accounts, account)
		} else {
			c.UnknownOutcome = append(c.UnknownOutcome, account)
		}
	}
	// Numbers that no Indian mobile has begin with 1.
	deal(c.Accounts, size.Subscribers, 1_000_000_000)
	deal(c.UnknownOutcome, size.UnknownOutcome, dropped)
	return c, nil
}

// deal gives each account its part of so many subscribers.
func deal(accounts []*generator.Account, subscribers, from int) {
	for i := range subscribers {
		account := accounts[i%len(accounts)]
		account.Subscribers = append(account.Subscribers, strconv.Itoa(from+i))
	}
}

// row is one subscriber, as both stores keep one: with a first cycle that no
// operation has paid for, like everybody who comes from another system.
type row struct {
	id       string
	operator int64
}

func (c Crowd) everybody() []*generator.Account { return slices.Concat(c.Accounts, c.UnknownOutcome) }

func (c Crowd) rows() []row {
	var rows []row
	for _, account := range c.everybody() {
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
func (c Crowd) acts(previous []byte, now time.Time) []admin.AuditEntry {
	accounts := c.everybody()
	acts := make([]admin.AuditEntry, len(accounts))
	for i, account := range accounts {
		acts[i] = admin.AuditEntry{
			StaffAction: admin.StaffAction{Actor: "bench", Action: "subscriber import", At: now},
			OperatorID:  account.OperatorID, Subject: fmt.Sprintf("subscribers of lco %d", account.OperatorID),
			After: fmt.Sprintf(`{"imported":%d}`, len(account.Subscribers)),
		}
		previous = acts[i].ChainHash(previous)
		acts[i].Hash = previous
	}
	return acts
}
