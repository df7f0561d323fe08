package postgres

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// walletItem is one look-up of an operator's wallet that waits for a batch; its result is
// nil if there is no such operator.
type walletItem = item[int64, *subscription.Wallet]

// Wallet reads an operator's wallet.
func (db *DB) Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error) {
	wallet, err := db.wallets.do(ctx, operatorID)
	if err != nil {
		return subscription.Wallet{}, fmt.Errorf("read the wallet of operator %d: %w", operatorID, err)
	}
	if wallet == nil {
		return subscription.Wallet{}, admin.Refuse("there is no operator %d", operatorID)
	}
	return *wallet, nil
}

func readWallets(from sqlstore.Querier, batch []*walletItem) error {
	rows, err := from.Query(`
		SELECT w.operator_id, w.balance_paise, w.ledger_paise - w.balance_paise, o.low_balance_paise
		  FROM wallets w JOIN operators o ON o.id = w.operator_id
		 WHERE w.operator_id = ANY ($1::bigint[])`, column(batch, func(e *walletItem) int64 { return e.request }))
	wallets := make(map[int64]*subscription.Wallet, len(batch))
	_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
		var id, balance, held, low int64
		err := row.Scan(&id, &balance, &held, &low)
		wallets[id] = &subscription.Wallet{OperatorID: id, Balance: money.Paise(balance), Held: money.Paise(held), LowBelow: money.Paise(low)}
		return struct{}{}, err
	})
	for _, e := range batch {
		e.result = wallets[e.request]
	}
	return err
}
