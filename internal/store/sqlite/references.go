package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

// creditedBefore reports whether a reference was used before for the same, whatever its
// spelling, and refuses one that was used for something else or for another operator.
func creditedBefore(tx *tx, way admin.ReferenceKind, credit admin.Credit) (bool, error) {
	var before admin.Credit
	var paise, at int64
	// Older entries may share a reference; then the one that is repeated counts.
	err := tx.queryRow(`
		SELECT e.operator_id, e.amount_paise, coalesce(e.reference, a.reference, ''), e.created_at
		  FROM credited_references r
		  JOIN wallet_entries e ON e.operator_id = r.operator_id AND e.seq = r.seq
		  LEFT JOIN adjustment_references a ON r.way = 'adjust' AND a.operator_id = r.operator_id AND a.seq = r.seq
		 WHERE r.way = ?1 AND r.normalised = ?2
		 ORDER BY (e.operator_id = ?3 AND e.amount_paise = ?4) DESC, e.operator_id = ?3 DESC, r.copy LIMIT 1`,
		way, admin.NormaliseReference(credit.Reference), credit.OperatorID, credit.Amount.Paise(),
	).Scan(&before.OperatorID, &paise, &before.Reference, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the reference: %w", err)
	}
	before.Amount, before.At = money.Paise(paise), moment(sql.NullInt64{Int64: at, Valid: true})
	return admin.SameCredit(before, credit, way)
}

// keepReference claims a reference for the wallet's last entry.
func keepReference(tx *tx, way admin.ReferenceKind, credit admin.Credit) error {
	_, err := tx.exec(`
		INSERT INTO credited_references (way, normalised, copy, operator_id, seq, filled)
		SELECT ?1, ?2, 0, operator_id, entries, 0 FROM wallets WHERE operator_id = ?3`,
		way, admin.NormaliseReference(credit.Reference), credit.OperatorID)
	if err != nil {
		return fmt.Errorf("keep the reference: %w", err)
	}
	return nil
}

// referenceKey is what a proposed top-up's reference is compared by; nil for what is
// no top-up.
func referenceKey(p admin.Proposal) any {
	if p.Kind != admin.ProposedTopUp {
		return nil
	}
	return admin.NormaliseReference(p.Reference)
}

// sweepReference writes down that another operator's proposal of the reference has lapsed.
func sweepReference(tx *tx, act admin.StaffAction, p admin.Proposal) error {
	_, err := tx.exec(`
		UPDATE proposals SET status = 'lapsed', decided_at = made_at + ?3
		 WHERE reference_key = ?1 AND status = 'open' AND made_at + ?3 <= ?2`,
		referenceKey(p), act.At.UnixMilli(), admin.ProposalLifetime.Milliseconds())
	if err != nil {
		return fmt.Errorf("let a proposal lapse: %w", err)
	}
	return nil
}

// fillReferences adds what entries lack in credited_references: those from before its
// migration, and those that an older binary wrote since. It does so in one transaction,
// before anything else uses the store.
func fillReferences(ctx context.Context, pool *sql.DB) (err error) {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fillCredited(ctx, tx); err != nil {
		return err
	}
	if err := fillProposed(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

type unfilled struct {
	way             string
	operatorID, seq int64
	reference       string
}

// INDEXED BY, because there are many more entries without a reference than with one.
const unfilledReferences = `
	SELECT 'topup', e.operator_id, e.seq, e.reference, e.created_at FROM wallet_entries e INDEXED BY wallet_entries_reference
	 WHERE e.reference IS NOT NULL
	   AND NOT EXISTS (SELECT 1 FROM credited_references r WHERE r.operator_id = e.operator_id AND r.seq = e.seq)
	UNION ALL
	SELECT 'adjust', a.operator_id, a.seq, a.reference, e.created_at FROM adjustment_references a
	  JOIN wallet_entries e ON e.operator_id = a.operator_id AND e.seq = a.seq
	 WHERE NOT EXISTS (SELECT 1 FROM credited_references r WHERE r.operator_id = a.operator_id AND r.seq = a.seq)
	 ORDER BY 5, 2, 3`

func fillCredited(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, unfilledReferences)
	if err != nil {
		return err
	}
	defer rows.Close()
	var missing []unfilled
	for rows.Next() {
		var m unfilled
		var at int64
		if err := rows.Scan(&m.way, &m.operatorID, &m.seq, &m.reference, &at); err != nil {
			return err
		}
		missing = append(missing, m)
	}
	if err := rows.Err(); err != nil || len(missing) == 0 {
		return err
	}
	insert, err := tx.PrepareContext(ctx, `
		INSERT INTO credited_references (way, normalised, copy, operator_id, seq, filled)
		VALUES (?1, ?2, (SELECT coalesce(max(copy) + 1, 0) FROM credited_references WHERE way = ?1 AND normalised = ?2), ?3, ?4, 1)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, m := range missing {
		if _, err := insert.ExecContext(ctx, m.way, admin.NormaliseReference(m.reference), m.operatorID, m.seq); err != nil {
			return err
		}
	}
	return nil
}

// fillProposed has the oldest of the open proposals of a reference stand for it.
func fillProposed(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `SELECT id, reference FROM proposals WHERE status = 'open' AND kind = 'topup' AND reference_key IS NULL ORDER BY id`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var missing []admin.Proposal
	for rows.Next() {
		p := admin.Proposal{Kind: admin.ProposedTopUp}
		if err := rows.Scan(&p.ID, &p.Reference); err != nil {
			return err
		}
		missing = append(missing, p)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, p := range missing {
		_, err := tx.ExecContext(ctx, `
			UPDATE proposals SET reference_key = ?2
			 WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM proposals WHERE status = 'open' AND reference_key = ?2)`, p.ID, referenceKey(p))
		if err != nil {
			return err
		}
	}
	return nil
}
