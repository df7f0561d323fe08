// Package crowd fills an empty store with the many operators and subscribers that
// a load is carried by. Staff's own desk makes the plans, the operators and their
// keys; the subscribers, who are a hundred for each operator, are written past it,
// for only their number makes it slow.
package crowd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bench/generator"
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

// Price is every plan's.
var Price = money.Paise(199_00)

const (
	// rateLimit is the highest that an account can be given.
	rateLimit = 1_000_000
	// purchases is how many renewals each operator has money for.
	purchases = 1_000_000
	// clerks is how many work at the desk at once: their acts share commits,
	// where the store can do that.
	clerks = 32
)

// Make makes plans of a component that the provider sells, operators and keys.
func Make(ctx context.Context, desk *admin.Desk, component string, size Size) (Crowd, error) {
	var c Crowd
	for i := range size.Plans {
		plan, err := desk.SetPlan(ctx, subscription.Plan{
			ID: fmt.Sprintf("BENCH-%d", i+1), Name: fmt.Sprintf("Bench, plan %d", i+1), Price: Price, Months: 1,
			Type: subscription.Standard, Main: component,
		})
		if err != nil {
			return c, fmt.Errorf("make a plan: %w", err)
		}
		c.Plans = append(c.Plans, plan.ID)
	}
	accounts, err := makeAccounts(ctx, desk, size.Operators)
	if err != nil {
		return c, fmt.Errorf("make an operator: %w", err)
	}
	c.Accounts = accounts
	for i := range size.Subscribers {
		account := c.Accounts[i%len(c.Accounts)]
		// A number that no Indian mobile has: it begins with 1.
		account.Subscribers = append(account.Subscribers, fmt.Sprintf("%d", 1_000_000_000+i))
	}
	return c, nil
}

func makeAccounts(ctx context.Context, desk *admin.Desk, count int) ([]*generator.Account, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var mu sync.Mutex
	var accounts []*generator.Account
	var working sync.WaitGroup
	for range clerks {
		working.Go(func() {
			for number := range numbers {
				account, err := makeAccount(ctx, desk, number)
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				accounts = append(accounts, account)
				mu.Unlock()
			}
		})
	}
	for i := range count {
		numbers <- i + 1
	}
	close(numbers)
	working.Wait()
	slices.SortFunc(accounts, func(a, b *generator.Account) int { return int(a.OperatorID - b.OperatorID) })
	return accounts, context.Cause(ctx)
}

func makeAccount(ctx context.Context, desk *admin.Desk, number int) (*generator.Account, error) {
	operator, err := desk.CreateOperator(ctx, fmt.Sprintf("Bench, operator %d", number), admin.OperatorChange{RateLimit: new(rateLimit), CommissionBPS: new(250)})
	if err != nil {
		return nil, err
	}
	_, _, err = desk.TopUp(ctx, admin.TopUp{OperatorID: operator.ID, Amount: Credit(), Reference: fmt.Sprintf("play money %d", number)})
	if err != nil {
		return nil, err
	}
	if _, err := desk.AllowAddress(ctx, operator.ID, "127.0.0.1"); err != nil {
		return nil, err
	}
	key, err := desk.IssueKey(ctx, operator.ID, access.AllPermissions)
	if err != nil {
		return nil, err
	}
	return generator.NewAccount(operator.ID, key.Key, key.Secret.Reveal()), nil
}

// Credit is what each operator begins with.
func Credit() money.Amount { return money.Paise(Price.Paise() * purchases) }

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
