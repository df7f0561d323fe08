package growth

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

// Operator is one of a store's, with the key it calls with.
type Operator struct {
	ID     int64  `json:"id"`
	Key    string `json:"key"`
	Secret string `json:"secret"`

	keyID int64
}

// clerks is the number of concurrent workers: their staff actions can share commits.
const clerks = 16

// MakeOperators creates operators for a load by the admin service: each has the given money,
// a key and the highest rate limit, and may call from this machine. They are returned in the
// order of their ids; done is called for each one, concurrently.
func MakeOperators(ctx context.Context, service *admin.Service, count int, credit money.Amount, done func()) ([]Operator, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	operators := make([]Operator, count)
	var working sync.WaitGroup
	for range clerks {
		working.Go(func() {
			for i := range numbers {
				var err error
				if operators[i], err = makeOperator(ctx, service, i+1, credit); err != nil {
					cancel(fmt.Errorf("make operator %d: %w", i+1, err))
				}
				done()
			}
		})
	}
	for i := range operators {
		if ctx.Err() == nil {
			numbers <- i
		}
	}
	close(numbers)
	working.Wait()
	slices.SortFunc(operators, func(a, b Operator) int { return int(a.ID - b.ID) })
	return operators, context.Cause(ctx)
}

func makeOperator(ctx context.Context, service *admin.Service, number int, credit money.Amount) (Operator, error) {
	account, err := service.CreateOperator(ctx, fmt.Sprintf("Operator %d", number), admin.OperatorChange{RateLimit: new(rateLimit), CommissionBPS: new(commissionBPS)})
	if err != nil {
		return Operator{}, err
	}
	if _, _, err := service.TopUp(ctx, admin.TopUp{OperatorID: account.ID, Amount: credit, Reference: fmt.Sprintf("all at once, operator %d", account.ID)}); err != nil {
		return Operator{}, err
	}
	if _, err := service.AllowAddress(ctx, account.ID, "127.0.0.1"); err != nil {
		return Operator{}, err
	}
	key, err := service.IssueKey(ctx, account.ID, access.AllPermissions)
	if err != nil {
		return Operator{}, err
	}
	return Operator{ID: account.ID, Key: key.Key, Secret: key.Secret.Reveal(), keyID: key.ID}, nil
}
