package load

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/coaxhq/coax/internal/money"
)

// Books compares a store's rows of the load's operators with the answers.
type Books struct {
	// Answered counts all answers, including the warm-up.
	Answered Tally `json:"answered"`
	// Stored is what the store has.
	Stored struct {
		Success     uint64 `json:"success"`
		Failed      uint64 `json:"failed"`
		Processing  uint64 `json:"processing"`
		NeedsReview uint64 `json:"needs_review"`
	} `json:"stored"`
	Credited money.Amount `json:"credited"`
	Charged  money.Amount `json:"charged"`
	Held     money.Amount `json:"held"`
	Balance  money.Amount `json:"balance"`
}

// Asker answers questions about one moment of a store.
type Asker interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ReadBooks reads the rows of the accounts' operators with statements of its own, independent
// of the code that it checks.
func (g *Accounts) ReadBooks(ctx context.Context, store Asker, answered Tally) (Books, error) {
	b := Books{Answered: answered}
	for _, operator := range g.Operators {
		b.Credited = b.Credited.Add(operator.Credited)
		if err := b.readOperations(ctx, store, operator.ID); err != nil {
			return b, fmt.Errorf("count the operations of operator %d: %w", operator.ID, err)
		}
		rows, err := store.QueryContext(ctx, fmt.Sprintf(`SELECT balance_paise FROM wallets WHERE operator_id = %d`, operator.ID))
		if err := eachRow(rows, err, func() error {
			var paise int64
			err := rows.Scan(&paise)
			b.Balance = b.Balance.Add(money.Paise(paise))
			return err
		}); err != nil {
			return b, fmt.Errorf("read the wallet of operator %d: %w", operator.ID, err)
		}
	}
	return b, nil
}

func (b *Books) readOperations(ctx context.Context, store Asker, operatorID int64) error {
	rows, err := store.QueryContext(ctx, fmt.Sprintf(
		`SELECT status, count(*), CAST(sum(amount_paise) AS BIGINT) FROM operations WHERE operator_id = %d GROUP BY status`, operatorID))
	return eachRow(rows, err, func() error {
		var status string
		var count uint64
		var paise int64
		if err := rows.Scan(&status, &count, &paise); err != nil {
			return err
		}
		switch status {
		case "success":
			b.Stored.Success += count
			b.Charged = b.Charged.Add(money.Paise(paise))
		case "failed":
			b.Stored.Failed += count
		case "processing":
			b.Stored.Processing += count
			b.Held = b.Held.Add(money.Paise(paise))
		case "needs_review":
			b.Stored.NeedsReview += count
			b.Held = b.Held.Add(money.Paise(paise))
		default:
			return fmt.Errorf("an operation is %q", status)
		}
		return nil
	})
}

func eachRow(rows *sql.Rows, err error, read func() error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Problems returns the mismatches. Every definite answer must be in the store; an operation
// with an unknown outcome may be in it or not.
func (b Books) Problems() []string {
	var problems []string
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	least, most := b.Answered.Done, b.Answered.Done+b.Answered.Pending+b.Answered.Unknown
	switch {
	case b.Stored.Success < least:
		complain("%d operations succeeded in the store; the server answered 200 to %d", b.Stored.Success, least)
	case b.Stored.Success > most:
		complain("%d operations succeeded in the store; the server answered 200 to %d and left %d open", b.Stored.Success, least, most-least)
	}
	if open := b.Stored.Processing + b.Stored.NeedsReview; open > most-least {
		complain("%d operations are open in the store; the server left %d open", open, most-least)
	}
	if want := money.Paise(price.Paise() * int64(b.Stored.Success)); b.Charged != want {
		complain("%s was charged for %d operations at %s; want %s", b.Charged, b.Stored.Success, price, want)
	}
	if left := b.Credited.Sub(b.Charged).Sub(b.Held); b.Balance != left {
		complain("the wallets hold %s; of %s that came in, %s was charged and %s is held, which leaves %s", b.Balance, b.Credited, b.Charged, b.Held, left)
	}
	return problems
}
