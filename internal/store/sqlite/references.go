package sqlite

import (
	"context"
	"database/sql"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// fillReferences adds the missing rows of credited_references, for entries from before its
// migration and for those that an older binary wrote since. It does so in one transaction,
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

// fillProposed sets the reference_key of the oldest open proposal of each reference.
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
			 WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM proposals WHERE status = 'open' AND reference_key = ?2)`, p.ID, sqlstore.ReferenceKey(p))
		if err != nil {
			return err
		}
	}
	return nil
}
