package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

// creditedBefore reports whether a reference, in any spelling, was used before for the same
// credit, and refuses one that was used for another credit or another operator.
func creditedBefore(tx Tx, way admin.ReferenceKind, credit admin.Credit) (bool, error) {
	before, found, err := creditUnder(tx, way, credit)
	if err != nil || !found {
		return false, err
	}
	return admin.SameCredit(before, credit, way)
}

// CreditUnder reads the top-up that has used a reference; false if there is none.
func (db *Store) CreditUnder(ctx context.Context, topUp admin.TopUp) (before admin.Credit, found bool, err error) {
	return creditUnder(db.engine.Read(ctx), admin.ReferenceTopUp, topUp.Credit())
}

func creditUnder(from RowQuerier, way admin.ReferenceKind, credit admin.Credit) (before admin.Credit, found bool, err error) {
	var paise, at int64
	// Older entries may share a reference; the one most like this credit is compared.
	err = from.QueryRow(`
		SELECT e.operator_id, e.amount_paise, coalesce(e.reference, a.reference, ''), e.created_at
		  FROM credited_references r
		  JOIN wallet_entries e ON e.operator_id = r.operator_id AND e.seq = r.seq
		  LEFT JOIN adjustment_references a ON r.way = 'adjust' AND a.operator_id = r.operator_id AND a.seq = r.seq
		 WHERE r.way = $1 AND r.normalised = $2
		 ORDER BY (e.operator_id = $3 AND e.amount_paise = $4) DESC, e.operator_id = $3 DESC, r.copy LIMIT 1`,
		string(way), admin.NormaliseReference(credit.Reference), credit.OperatorID, credit.Amount.Paise(),
	).Scan(&before.OperatorID, &paise, &before.Reference, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return before, false, nil
	}
	if err != nil {
		return before, false, fmt.Errorf("look up the reference: %w", err)
	}
	before.Amount, before.At = money.Paise(paise), Time(sql.NullInt64{Int64: at, Valid: true})
	return before, true, nil
}

// saveReferences claims both references of a payment for the wallet's last entry. They are
// claimed in order, so that two operators' top-ups do not wait for each other.
func saveReferences(tx Tx, paid admin.TopUp, announced announcedPayment) error {
	own, other := paid.Credit(), paid.Credit()
	other.Reference = announced.other
	if other.Reference != "" && admin.NormaliseReference(other.Reference) < admin.NormaliseReference(own.Reference) {
		if err := saveReference(tx, admin.ReferenceTopUp, other, 1); err != nil {
			return err
		}
		other.Reference = ""
	}
	if err := saveReference(tx, admin.ReferenceTopUp, own, 0); err != nil || other.Reference == "" {
		return err
	}
	return saveReference(tx, admin.ReferenceTopUp, other, 1)
}

// saveReference claims a reference for the wallet's last entry; alias is 1 if the entry has
// another one. The unique index decides, not an earlier read: another operator's wallet has
// its own lock.
func saveReference(tx Tx, way admin.ReferenceKind, credit admin.Credit, alias int) error {
	kept, err := tx.Exec(`
		INSERT INTO credited_references (way, normalised, copy, operator_id, seq, filled, alias)
		SELECT $1::text, $2::text, 0, operator_id, entries, 0, $4::int FROM wallets WHERE operator_id = $3
		    ON CONFLICT DO NOTHING`,
		string(way), admin.NormaliseReference(credit.Reference), credit.OperatorID, alias)
	if err != nil {
		return fmt.Errorf("save the reference: %w", err)
	}
	if kept == 1 {
		return nil
	}
	// Another operator's credit was committed meanwhile.
	if _, err := creditedBefore(tx, way, credit); err != nil {
		return err
	}
	return fmt.Errorf("save the reference of operator %d: it is claimed, and the claim cannot be read", credit.OperatorID)
}

// ReferenceKey returns the normalised reference of a proposed top-up; nil for other proposals.
func ReferenceKey(p admin.Proposal) any {
	if p.Kind != admin.ProposedTopUp {
		return nil
	}
	return admin.NormaliseReference(p.Reference)
}

// sweepReference marks an expired proposal of the reference as lapsed, of any operator.
func sweepReference(tx Tx, action admin.StaffAction, p admin.Proposal) error {
	_, err := tx.Exec(`
		UPDATE proposals SET status = 'lapsed', decided_at = made_at + $3
		 WHERE reference_key = $1 AND status = 'open' AND made_at + $3 <= $2`,
		ReferenceKey(p), action.At.UnixMilli(), admin.ProposalLifetime.Milliseconds())
	if err != nil {
		return fmt.Errorf("mark a proposal as lapsed: %w", err)
	}
	return nil
}
