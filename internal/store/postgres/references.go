package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// fillBatch is how many references one statement fills in.
const fillBatch = 1000

// fillReferences adds the missing rows of credited_references, for entries from before its
// migration and for those that an older binary wrote since. Several nodes may do so at once,
// while others serve requests: a row that another node has added meanwhile is skipped, and
// the search is repeated.
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

// fillLastReferences adds the references that an older binary has credited since the store
// was opened, in the transaction after which that binary can credit nothing more.
func fillLastReferences(tx sqlstore.Tx) error {
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
func listUnfilled(from sqlstore.Querier) ([]unfilled, error) {
	rows, err := from.Query(`
		SELECT 'topup', e.operator_id, e.seq, e.reference, e.created_at FROM wallet_entries e
		 WHERE e.reference IS NOT NULL
		   AND NOT EXISTS (SELECT 1 FROM credited_references r WHERE r.operator_id = e.operator_id AND r.seq = e.seq)
		UNION ALL
		SELECT 'adjust', a.operator_id, a.seq, a.reference, e.created_at FROM adjustment_references a
		  JOIN wallet_entries e ON e.operator_id = a.operator_id AND e.seq = a.seq
		 WHERE NOT EXISTS (SELECT 1 FROM credited_references r WHERE r.operator_id = a.operator_id AND r.seq = a.seq)
		 ORDER BY 5, 2, 3`)
	return sqlstore.Collect(rows, err, func(row sqlstore.Row) (m unfilled, err error) {
		var at int64
		err = row.Scan(&m.way, &m.operatorID, &m.seq, &m.reference, &at)
		return m, err
	})
}

// fillCredited adds rows. nth numbers the batch's entries of the same reference, because a
// statement does not see the rows that it inserts.
func fillCredited(tx sqlstore.Tx, batch []unfilled) error {
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
	_, err := tx.Exec(`
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

// fillProposed sets the reference_key of the oldest open proposal of each reference.
func (db *DB) fillProposed(ctx context.Context) error {
	rows, err := db.read(ctx).Query(`SELECT id, reference FROM proposals WHERE status = 'open' AND kind = 'topup' AND reference_key IS NULL ORDER BY id`)
	missing, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (admin.Proposal, error) {
		p := admin.Proposal{Kind: admin.ProposedTopUp}
		return p, row.Scan(&p.ID, &p.Reference)
	})
	if err != nil {
		return fmt.Errorf("look for proposed references: %w", err)
	}
	for _, p := range missing {
		err := db.do(ctx, func(tx *tx) error {
			_, err := tx.Exec(`
				UPDATE proposals SET reference_key = $2
				 WHERE id = $1 AND status = 'open' AND reference_key IS NULL
				   AND NOT EXISTS (SELECT 1 FROM proposals WHERE status = 'open' AND reference_key = $2)`, p.ID, sqlstore.ReferenceKey(p))
			return err
		})
		// Another proposal of the reference may have claimed the key meanwhile.
		if err != nil && !violates(err) {
			return fmt.Errorf("fill in the reference of proposal %d: %w", p.ID, err)
		}
	}
	return nil
}
