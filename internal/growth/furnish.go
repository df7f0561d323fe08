package growth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// staffStore is what the desk of staff needs of a store.
type staffStore interface {
	admin.Store
	catalogue.Store
	CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, now time.Time) error
	Close() error
}

// Operator is one of a store's, with the key it calls with.
type Operator struct {
	ID     int64  `json:"id"`
	Key    string `json:"key"`
	Secret string `json:"secret"`

	keyID int64
}

// clerks is how many work at desks at once: their acts share commits, where the
// store can do that.
const clerks = 16

// furnish makes everything that staff makes, the day before the first purchase,
// and notes in the books by which numbers it goes.
func (b *books) furnish(ctx context.Context, store staffStore, masterKey []byte, done func(rows int)) ([]Operator, error) {
	vault, err := access.OpenVault(masterKey)
	if err != nil {
		return nil, err
	}
	opening := time.UnixMilli(b.base).Add(-24 * time.Hour).UTC()
	if err := store.CheckMasterKeys(ctx, vault.Proofs(), opening); err != nil {
		return nil, err
	}
	b.fingerprintKey = int64(vault.PrimaryID())
	desk := admin.NewDesk(store, vault, "cli:growth", func() time.Time { return opening })
	if err := makePlans(ctx, store, desk, opening); err != nil {
		return nil, err
	}
	operators, err := b.makeOperators(ctx, desk, done)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(operators, func(a, b Operator) int { return int(a.ID - b.ID) })
	for _, operator := range operators {
		b.operatorIDs, b.keyIDs = append(b.operatorIDs, operator.ID), append(b.keyIDs, operator.keyID)
	}
	return operators, nil
}

func makePlans(ctx context.Context, store staffStore, desk *admin.Desk, opening time.Time) error {
	there, err := desk.Operators(ctx)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("there are %d operators already: only an empty store can be filled", len(there))
	}
	err = store.RecordComparison(ctx, catalogue.Comparison{Provider: provider, At: opening, Components: []catalogue.Component{
		{Code: "TV-BASIC", Name: "Basic television", Role: catalogue.Main},
		{Code: "TV-FAMILY", Name: "Family television", Role: catalogue.Main},
	}})
	if err != nil {
		return err
	}
	for _, p := range plans {
		_, err := desk.SetPlan(ctx, subscription.Plan{
			ID: p.id, Name: p.name, Price: money.Paise(p.price), Months: 1, Type: subscription.Standard, Main: p.main,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *books) makeOperators(ctx context.Context, desk *admin.Desk, done func(rows int)) ([]Operator, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	operators := make([]Operator, b.operators)
	var working sync.WaitGroup
	for range clerks {
		working.Go(func() {
			for i := range numbers {
				var err error
				if operators[i], err = b.makeOperator(ctx, desk, i); err != nil {
					cancel(fmt.Errorf("make operator %d: %w", i+1, err))
				}
				done(1)
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
	return operators, context.Cause(ctx)
}

func (b *books) makeOperator(ctx context.Context, desk *admin.Desk, i int) (Operator, error) {
	account, err := desk.CreateOperator(ctx, fmt.Sprintf("Operator %d", i+1), admin.OperatorChange{RateLimit: new(rateLimit), CommissionBPS: new(commissionBPS)})
	if err != nil {
		return Operator{}, err
	}
	if _, _, err := desk.TopUp(ctx, admin.TopUp{OperatorID: account.ID, Amount: money.Paise(b.credit()), Reference: "all at once"}); err != nil {
		return Operator{}, err
	}
	if _, err := desk.AllowAddress(ctx, account.ID, "127.0.0.1"); err != nil {
		return Operator{}, err
	}
	key, err := desk.IssueKey(ctx, account.ID, access.AllPermissions)
	if err != nil {
		return Operator{}, err
	}
	return Operator{ID: account.ID, Key: key.Key, Secret: key.Secret.Reveal(), keyID: key.ID}, nil
}
