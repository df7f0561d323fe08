package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// TopUp credits a wallet, once per reference.
func (db *Store) TopUp(ctx context.Context, action admin.StaffAction, paid admin.TopUp) (subscription.Wallet, bool, error) {
	var wallet subscription.Wallet
	credited := false
	err := db.engine.Write(ctx, func(tx Tx) (err error) {
		if wallet, credited, err = topUp(tx, action, paid); err != nil || !credited {
			return err
		}
		return countUnapproved(tx, action, paid.OperatorID, paid.Amount)
	})
	return wallet, credited && err == nil, err
}

func topUp(tx Tx, action admin.StaffAction, paid admin.TopUp) (wallet subscription.Wallet, credited bool, err error) {
	if _, err := undeletedOperator(tx, paid.OperatorID); err != nil {
		return wallet, false, err
	}
	before, err := lockWallet(tx, paid.OperatorID)
	if err != nil {
		return before, false, err
	}
	announced, known, err := checkTopUp(tx, paid)
	if known || err != nil {
		return before, false, err
	}
	if err := refuseProposed(tx, action, paid, announced); err != nil {
		return before, false, err
	}
	if before.Balance.Add(before.Held).Add(paid.Amount).Paise() > money.Max {
		return before, false, admin.Refuse("the wallet would hold more than %s", money.Paise(money.Max))
	}
	if err := moveMoney(tx, action, movement{
		operatorID: paid.OperatorID, kind: "topup", amount: paid.Amount,
		reference: paid.Reference, description: "Top-up " + paid.Reference,
	}); err != nil {
		return before, false, err
	}
	if err := saveReferences(tx, paid, announced); err != nil {
		return before, false, err
	}
	if err := creditAnnouncement(tx, action, paid, announced); err != nil {
		return before, false, err
	}
	if wallet, err = walletOf(tx, paid.OperatorID); err != nil {
		return wallet, false, err
	}
	subject := fmt.Sprintf("wallet of lco %d, reference %s", paid.OperatorID, paid.Reference)
	after := admin.WalletState(wallet)
	if announced.code != "" {
		after["announcement"] = announced.code
	}
	return wallet, true, logAction(tx, action, paid.OperatorID, subject, admin.WalletState(before), after)
}

// checkTopUp finds the open announcement of a payment and reports whether the payment was
// credited before under this reference. One that was credited under its other reference is
// refused.
func checkTopUp(tx Tx, paid admin.TopUp) (announced announcedPayment, known bool, err error) {
	before, found, err := creditOf(tx, paid)
	if err == nil && found {
		known, err = admin.SameCredit(before, paid.Credit(), admin.ReferenceTopUp)
	}
	if found || err != nil {
		return announced, known, err
	}
	if announced, err = announcementOf(tx, paid.OperatorID, paid.Reference); announced.other == "" || err != nil {
		return announced, false, err
	}
	before, found, err = creditOf(tx, admin.TopUp{OperatorID: paid.OperatorID, Amount: paid.Amount, Reference: announced.other})
	if err == nil && found {
		err = admin.RefuseCreditedAs(paid.Reference, before)
	}
	return announced, false, err
}

// creditOf finds the top-up that has used a reference. One that an older binary has just
// credited has no normalised reference, and is found by the reference as it was typed.
func creditOf(tx Tx, topUp admin.TopUp) (before admin.Credit, found bool, err error) {
	if before, found, err = creditUnder(tx, admin.ReferenceTopUp, topUp.Credit()); found || err != nil {
		return before, found, err
	}
	before = topUp.Credit()
	var paise, at int64
	err = tx.QueryRow(`SELECT amount_paise, created_at FROM wallet_entries WHERE operator_id = $1 AND reference = $2`,
		topUp.OperatorID, topUp.Reference).Scan(&paise, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return before, false, nil
	}
	if err != nil {
		return before, false, fmt.Errorf("look up the reference: %w", err)
	}
	before.Amount, before.At = money.Paise(paise), Time(sql.NullInt64{Int64: at, Valid: true})
	return before, true, nil
}

// Adjust corrects a wallet manually. Holds are not changed, so the balance without them
// must not become negative.
func (db *Store) Adjust(ctx context.Context, action admin.StaffAction, a admin.Adjustment) (subscription.Wallet, bool, error) {
	var wallet subscription.Wallet
	booked := false
	err := db.engine.Write(ctx, func(tx Tx) (err error) {
		if wallet, booked, err = adjust(tx, action, a); err != nil || !booked {
			return err
		}
		return countUnapproved(tx, action, a.OperatorID, a.Amount)
	})
	return wallet, booked && err == nil, err
}

func adjust(tx Tx, action admin.StaffAction, a admin.Adjustment) (wallet subscription.Wallet, booked bool, err error) {
	if _, err := undeletedOperator(tx, a.OperatorID); err != nil {
		return wallet, false, err
	}
	before, err := lockWallet(tx, a.OperatorID)
	if err != nil {
		return before, false, err
	}
	if known, err := sameAdjustment(tx, a); known || err != nil {
		return before, false, err
	}
	if before.Balance.Add(a.Amount).IsNegative() {
		return before, false, admin.Refuse("the wallet of operator %s holds %s: it cannot be lowered by %s", admin.OperatorID(a.OperatorID), before.Balance, a.Amount.Neg())
	}
	if before.Balance.Add(before.Held).Add(a.Amount).Paise() > money.Max {
		return before, false, admin.Refuse("the wallet would hold more than %s", money.Paise(money.Max))
	}
	if err := moveMoney(tx, action, movement{
		operatorID: a.OperatorID, kind: "adjust", amount: a.Amount, description: "Adjustment: " + action.Reason,
	}); err != nil {
		return before, false, err
	}
	if a.Reference != "" {
		// The entry that was just written is the wallet's last one.
		_, err := tx.Exec(`
			INSERT INTO adjustment_references (operator_id, reference, seq)
			SELECT operator_id, $2::text, entries FROM wallets WHERE operator_id = $1`, a.OperatorID, a.Reference)
		if err != nil {
			return before, false, fmt.Errorf("save the reference: %w", err)
		}
		if err := saveReference(tx, admin.ReferenceAdjustment, a.Credit(), 0); err != nil {
			return before, false, err
		}
	}
	if wallet, err = walletOf(tx, a.OperatorID); err != nil {
		return wallet, false, err
	}
	subject := fmt.Sprintf("wallet of lco %d", a.OperatorID)
	return wallet, true, logAction(tx, action, a.OperatorID, subject, admin.WalletState(before), admin.WalletState(wallet))
}

// sameAdjustment distinguishes a repeated adjustment from another one with a used reference.
func sameAdjustment(tx Tx, a admin.Adjustment) (bool, error) {
	if a.Reference == "" {
		return false, nil
	}
	if known, err := creditedBefore(tx, admin.ReferenceAdjustment, a.Credit()); known || err != nil {
		return known, err
	}
	before := a.Credit()
	var paise, at int64
	err := tx.QueryRow(`
		SELECT e.amount_paise, e.created_at FROM adjustment_references r JOIN wallet_entries e ON e.operator_id = r.operator_id AND e.seq = r.seq
		 WHERE r.operator_id = $1 AND r.reference = $2`, a.OperatorID, a.Reference).Scan(&paise, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the reference: %w", err)
	}
	before.Amount, before.At = money.Paise(paise), Time(sql.NullInt64{Int64: at, Valid: true})
	return admin.SameCredit(before, a.Credit(), admin.ReferenceAdjustment)
}

// movement is money that staff move, in or out. operationID is the operation whose charge goes back; empty
// for other movements.
type movement struct {
	operatorID  int64
	kind        string
	amount      money.Amount
	reference   string
	description string
	operationID string
}

// moveMoney writes a movement to the wallet, its entries and the ledger.
func moveMoney(tx Tx, action admin.StaffAction, m movement) error {
	var balance, ledgerSum, seq, line int64
	err := tx.QueryRow(`
		UPDATE wallets
		   SET balance_paise = balance_paise + $2, ledger_paise = ledger_paise + $2,
		       entries = entries + 1, ledger_lines = ledger_lines + 1,
		       receipt_lines = receipt_lines + CASE WHEN receipt_lines = ledger_lines THEN 1 ELSE 0 END
		 WHERE operator_id = $1
		RETURNING balance_paise, ledger_paise, entries, ledger_lines`,
		m.operatorID, m.amount.Paise()).Scan(&balance, &ledgerSum, &seq, &line)
	if err != nil {
		return fmt.Errorf("update the wallet: %w", err)
	}
	_, err = tx.Exec(`
		INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, reference, operation_id, actor, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		m.operatorID, seq, m.kind, m.amount.Paise(), balance, NullString(m.reference), NullString(m.operationID), action.Actor, action.At.UnixMilli())
	if err != nil {
		return fmt.Errorf("write the wallet entry: %w", err)
	}
	kind, size := "credit", m.amount
	if m.amount.IsNegative() {
		kind, size = "debit", m.amount.Neg()
	}
	_, err = tx.Exec(`
		INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, reversal_of, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		m.operatorID, line, kind, size.Paise(), ledgerSum, m.description, NullString(m.operationID), action.At.UnixMilli())
	if err != nil {
		return fmt.Errorf("write the ledger line: %w", err)
	}
	return nil
}

// Wallet reads an operator's wallet.
func (db *Store) Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error) {
	return walletOf(db.engine.Lookup(ctx), operatorID)
}

func walletOf(from RowQuerier, operatorID int64) (subscription.Wallet, error) {
	return walletWhere(from, `w.operator_id = $1`, operatorID)
}

// lockWallet reads a wallet that is about to be changed.
func lockWallet(tx Tx, operatorID int64) (subscription.Wallet, error) {
	return walletWhere(tx, `w.operator_id = $1 FOR NO KEY UPDATE OF w`, operatorID)
}

// walletWhere reads the wallet that a condition, a literal of this file, selects by its
// operator.
func walletWhere(from RowQuerier, condition string, operatorID int64) (subscription.Wallet, error) {
	var balance, held, low int64
	err := from.QueryRow(`
		SELECT w.balance_paise, w.ledger_paise - w.balance_paise, o.low_balance_paise
		  FROM wallets w JOIN operators o ON o.id = w.operator_id
		 WHERE `+condition, operatorID).Scan(&balance, &held, &low)
	if errors.Is(err, sql.ErrNoRows) {
		return subscription.Wallet{}, admin.Refuse("there is no operator %d", operatorID)
	}
	if err != nil {
		return subscription.Wallet{}, fmt.Errorf("read the wallet of operator %d: %w", operatorID, err)
	}
	return subscription.Wallet{
		OperatorID: operatorID,
		Balance:    money.Paise(balance),
		Held:       money.Paise(held),
		LowBelow:   money.Paise(low),
	}, nil
}
