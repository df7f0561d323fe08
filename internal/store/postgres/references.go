package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

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
		 WHERE r.way = $1 AND r.normalised = $2
		 ORDER BY (e.operator_id = $3 AND e.amount_paise = $4) DESC, e.operator_id = $3 DESC, r.copy LIMIT 1`,
		string(way), admin.NormaliseReference(credit.Reference), credit.OperatorID, credit.Amount.Paise(),
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

// keepReference claims a reference for the wallet's last entry. The unique reference
// decides, not a look beforehand: another operator's wallet has a lock of its own.
func keepReference(tx *tx, way admin.ReferenceKind, credit admin.Credit) error {
	kept, err := tx.exec(`
		INSERT INTO credited_references (way, normalised, copy, operator_id, seq, filled)
		SELECT $1::text, $2::text, 0, operator_id, entries, 0 FROM wallets WHERE operator_id = $3
		    ON CONFLICT DO NOTHING`,
		string(way), admin.NormaliseReference(credit.Reference), credit.OperatorID)
	if err != nil {
		return fmt.Errorf("keep the reference: %w", err)
	}
	if kept == 1 {
		return nil
	}
	// Another operator's credit was committed meanwhile.
	if _, err := creditedBefore(tx, way, credit); err != nil {
		return err
	}
	return fmt.Errorf("keep the reference of operator %d: it is claimed, and the claim cannot be read", credit.OperatorID)
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
		UPDATE proposals SET status = 'lapsed', decided_at = made_at + $3
		 WHERE reference_key = $1 AND status = 'open' AND made_at + $3 <= $2`,
		referenceKey(p), act.At.UnixMilli(), admin.ProposalLifetime.Milliseconds())
	if err != nil {
		return fmt.Errorf("let a proposal lapse: %w", err)
	}
	return nil
}

// fillBatch is how many references are filled in by one statement.
const fillBatch = 1000

// fillReferences adds what entries lack in credited_references: those from before its
// migration, and those that an older binary wrote since. Nodes that start together may
// all do so, beside others that work: a row that somebody else has added meanwhile is
// left out, and looked for once more.
func (db *DB) fillReferences(ctx context.Context) error {
	for tries := 1; ; tries++ {
		missing, err := listUnfilled(db.read(ctx))
		if err != nil {
			return fmt.Errorf("look for references: %w", err)
		}
		if len(missing) == 0 {
			break
		}
		if tries == migrateTries {
			return fmt.Errorf("fill in the references of %s: %d entries are left", db.where, len(missing))
		}
		for batch := range slices.Chunk(missing, fillBatch) {
			if err := db.do(ctx, func(tx *tx) error { return fillCredited(tx, batch) }); err != nil {
				return err
			}
		}
	}
	return db.fillProposed(ctx)
}

// fillLastReferences adds what an older binary has credited since the store was opened,
// in the transaction after which it can credit nothing more.
func fillLastReferences(tx *tx) error {
	missing, err := listUnfilled(tx)
	if err != nil {
		return fmt.Errorf("look for references: %w", err)
	}
	for batch := range slices.Chunk(missing, fillBatch) {
		if err := fillCredited(tx, batch); err != nil {
			return err
		}
	}
	return nil
}

type unfilled struct {
	way             string
	operatorID, seq int64
	reference       string
}

// listUnfilled lists the entries without a row, the oldest first.
func listUnfilled(from querier) ([]unfilled, error) {
	rows, err := from.query(`
		SELECT 'topup', e.operator_id, e.seq, e.reference, e.created_at FROM wallet_entries e
		 WHERE e.reference IS NOT NULL
		   AND NOT EXISTS (SELECT 1 FROM credited_references r WHERE r.operator_id = e.operator_id AND r.seq = e.seq)
		UNION ALL
		SELECT 'adjust', a.operator_id, a.seq, a.reference, e.created_at FROM adjustment_references a
		  JOIN wallet_entries e ON e.operator_id = a.operator_id AND e.seq = a.seq
		 WHERE NOT EXISTS (SELECT 1 FROM credited_references r WHERE r.operator_id = a.operator_id AND r.seq = a.seq)
		 ORDER BY 5, 2, 3`)
	return collect(rows, err, func(row scanner) (m unfilled, err error) {
		var at int64
		err = row.Scan(&m.way, &m.operatorID, &m.seq, &m.reference, &at)
		return m, err
	})
}

// fillCredited adds some rows. nth is which of the batch's entries of one reference an
// entry is, since a statement does not see what itself inserts.
func fillCredited(tx *tx, batch []unfilled) error {
	var ways, normalised []string
	var nths []int32
	var operators, seqs []int64
	seen := map[string]int32{}
	for _, m := range batch {
		form := admin.NormaliseReference(m.reference)
		key := m.way + " " + form
		ways, normalised, nths = append(ways, m.way), append(normalised, form), append(nths, seen[key])
		operators, seqs = append(operators, m.operatorID), append(seqs, m.seq)
		seen[key]++
	}
	_, err := tx.exec(`
		INSERT INTO credited_references (way, normalised, copy, operator_id, seq, filled)
		SELECT m.way, m.normalised,
		       m.nth + coalesce((SELECT max(r.copy) + 1 FROM credited_references r WHERE r.way = m.way AND r.normalised = m.normalised), 0),
		       m.operator_id, m.seq, 1
		  FROM unnest($1::text[], $2::text[], $3::int[], $4::bigint[], $5::bigint[]) WITH ORDINALITY
		       AS m (way, normalised, nth, operator_id, seq, place)
		 ORDER BY m.place
		    ON CONFLICT DO NOTHING`, ways, normalised, nths, operators, seqs)
	if err != nil {
		return fmt.Errorf("fill in references: %w", err)
	}
	return nil
}

// fillProposed has the oldest of the open proposals of a reference stand for it.
func (db *DB) fillProposed(ctx context.Context) error {
	rows, err := db.read(ctx).query(`SELECT id, reference FROM proposals WHERE status = 'open' AND kind = 'topup' AND reference_key IS NULL ORDER BY id`)
	missing, err := collect(rows, err, func(row scanner) (admin.Proposal, error) {
		p := admin.Proposal{Kind: admin.ProposedTopUp}
		return p, row.Scan(&p.ID, &p.Reference)
	})
	if err != nil {
		return fmt.Errorf("look for proposed references: %w", err)
	}
	for _, p := range missing {
		err := db.do(ctx, func(tx *tx) error {
			_, err := tx.exec(`
				UPDATE proposals SET reference_key = $2
				 WHERE id = $1 AND status = 'open' AND reference_key IS NULL
				   AND NOT EXISTS (SELECT 1 FROM proposals WHERE status = 'open' AND reference_key = $2)`, p.ID, referenceKey(p))
			return err
		})
		// Another proposal of the reference may have been made meanwhile: that one stands for it.
		if err != nil && !violates(err) {
			return fmt.Errorf("fill in the reference of proposal %d: %w", p.ID, err)
		}
	}
	return nil
}
