package growth

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// staffStore is what the service of staff needs of a store.
type staffStore interface {
	admin.Store
	catalogue.Store
	integrity.Store
	CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, primary uint32, now time.Time) error
	Close() error
}

// furnish makes everything that staff makes, the day before the first purchase,
// and notes in the books by which numbers it goes.
func (b *books) furnish(ctx context.Context, store staffStore, masterKey []byte, done func(rows int)) ([]Operator, error) {
	vault, err := access.OpenVault(masterKey)
	if err != nil {
		return nil, err
	}
	opening := time.UnixMilli(b.base).Add(-24 * time.Hour).UTC()
	if err := store.CheckMasterKeys(ctx, vault.CheckValues(), vault.PrimaryID(), opening); err != nil {
		return nil, err
	}
	if _, _, err := store.UseIntegrityKeys(ctx, integrity.NewKeys(vault.DataKeyID(), vault.Derive), opening); err != nil {
		return nil, err
	}
	b.fingerprintKey = int64(vault.DataKeyID())
	service := admin.NewService(store, vault, "cli:growth", func() time.Time { return opening })
	if err := makePlans(ctx, store, service, opening); err != nil {
		return nil, err
	}
	operators, err := MakeOperators(ctx, service, b.operators, money.Paise(b.credit()), func() { done(1) })
	if err != nil {
		return nil, err
	}
	for _, operator := range operators {
		b.operatorIDs, b.keyIDs = append(b.operatorIDs, operator.ID), append(b.keyIDs, operator.keyID)
	}
	return operators, nil
}

func makePlans(ctx context.Context, store staffStore, service *admin.Service, opening time.Time) error {
	there, err := service.Operators(ctx)
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
		_, err := service.SetPlan(ctx, subscription.Plan{
			ID: p.id, Name: p.name, Price: money.Paise(p.price), Months: 1, Type: subscription.Standard, Main: p.main,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
