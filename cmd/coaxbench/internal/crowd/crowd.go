// Package crowd fills an empty store with the operators and subscribers of a load. Plans,
// operators and keys are created by the admin service; the subscribers, a hundred for each
// operator, are written by SQL, which is faster.
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

// Size is the size of a crowd.
type Size struct {
	Operators   int `json:"operators"`
	Subscribers int `json:"subscribers"`
	Plans       int `json:"plans"`
	// UnknownOutcome is the number of additional subscribers whose orders the provider
	// carries out without a reply.
	UnknownOutcome int `json:"in_doubt"`
}

// Crowd is the accounts and plans of a store.
type Crowd struct {
	Accounts []*generator.Account
	Plans    []string
	// UnknownOutcome are the operators of the subscribers whose renewals get no reply.
	UnknownOutcome []*generator.Account
}

const (
	// price is the price of every plan, in paise.
	price = 199_00
	// purchases is how many renewals each operator has money for.
	purchases = 1_000_000
	// unknownOperators is the number of operators of Size.UnknownOutcome.
	unknownOperators = 8
	// dropped is the first of their mobile numbers: for these, the simulator carries an order
	// out and closes the connection without a reply.
	dropped = 90_0009_0000
)

// Make creates plans of a component that the provider sells, operators and keys.
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

// deal distributes subscribers to the accounts.
func deal(accounts []*generator.Account, subscribers, from int) {
	for i := range subscribers {
		account := accounts[i%len(accounts)]
		account.Subscribers = append(account.Subscribers, strconv.Itoa(from+i))
	}
}

// row is one subscriber with a first cycle that no operation has paid for, like an imported
// subscriber.
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

// actions returns the staff actions of the import, each chained to the one before it; the audit
// requires them.
func (c Crowd) actions(previous []byte, now time.Time) []admin.AuditEntry {
	accounts := c.everybody()
	actions := make([]admin.AuditEntry, len(accounts))
	for i, account := range accounts {
		actions[i] = admin.AuditEntry{
			StaffAction: admin.StaffAction{Actor: "bench", Action: "subscriber import", At: now},
			OperatorID:  account.OperatorID, Subject: fmt.Sprintf("subscribers of lco %d", account.OperatorID),
			After: fmt.Sprintf(`{"imported":%d}`, len(account.Subscribers)),
		}
		previous = actions[i].ChainHash(previous)
		actions[i].Hash = previous
	}
	return actions
}
