package sqlstore

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
)

// sealedColumn is a column whose values are sealed under the master key.
type sealedColumn struct {
	table, column string
	// key identifies a row; before sorts before every key.
	key    string
	before any
	// where selects the rows with something sealed.
	where string
	// bound is what the values are bound to beside their purpose, and read the additional data of
	// a row with these columns: the key, the value, and those of bound.
	bound string
	read  func(Row) (admin.SealedRow, error)
}

// sealedColumns lists everything that is sealed under the master key, but for the data keys, which
// a rotation replaces. What is sealed anywhere else gets an entry here, and checkSealing where it
// is written, or a rotation would not seal it again.
var sealedColumns = []sealedColumn{
	{
		table: "credentials", column: "sealed_secret", key: "id", before: int64(0), where: `true`, bound: `operator_id, key_hash`,
		read: func(row Row) (r admin.SealedRow, err error) {
			var id, operatorID int64
			var hash []byte
			if err = row.Scan(&id, &r.Sealed, &operatorID, &hash); err == nil {
				var bound access.KeyHash
				copy(bound[:], hash)
				r.Key, r.Context = id, access.KeyContext(operatorID, bound)
			}
			return r, err
		},
	},
	{
		table: "logins", column: "totp", key: "id", before: int64(0), where: `totp IS NOT NULL`, bound: `id`,
		read: func(row Row) (r admin.SealedRow, err error) {
			var id, personID int64
			if err = row.Scan(&id, &r.Sealed, &personID); err == nil {
				r.Key, r.Context = id, access.TOTPContext(personID)
			}
			return r, err
		},
	},
	{
		table: "acme_secrets", column: "sealed", key: "id", before: "", where: `true`, bound: `id`,
		read: func(row Row) (r admin.SealedRow, err error) {
			var id, bound string
			if err = row.Scan(&id, &r.Sealed, &bound); err == nil {
				r.Key, r.Context = id, access.ACMEContext(bound)
			}
			return r, err
		},
	},
	{
		// An authenticator app that is being set up.
		table: "login_challenges", column: "state", key: "session_id", before: "", where: `kind = 'totp'`,
		bound: `(SELECT s.login_id FROM login_sessions s WHERE s.id = session_id)`,
		read: func(row Row) (r admin.SealedRow, err error) {
			var id string
			var personID int64
			if err = row.Scan(&id, &r.Sealed, &personID); err == nil {
				r.Key, r.Context = id, access.TOTPContext(personID)
			}
			return r, err
		},
	},
}

func sealedTables() (tables []string) {
	for _, c := range sealedColumns {
		tables = append(tables, c.table)
	}
	return tables
}

// SealedWith counts what is sealed, by master key.
func (db *Store) SealedWith(ctx context.Context) (map[uint32]int64, error) {
	return sealedWith(db.engine.Read(ctx))
}

func sealedWith(from Querier) (map[uint32]int64, error) {
	counts := map[uint32]int64{}
	count := func(query string) error {
		type group struct {
			prefix []byte
			rows   int64
		}
		rows, err := from.Query(query)
		groups, err := Collect(rows, err, func(row Row) (g group, err error) {
			err = row.Scan(&g.prefix, &g.rows)
			return g, err
		})
		for _, g := range groups {
			counts[access.SealedUnder(g.prefix)] += g.rows
		}
		return err
	}
	for _, c := range sealedColumns {
		if err := count(`SELECT substr(` + c.column + `, 1, 5), count(*) FROM ` + c.table + ` WHERE ` + c.where + ` GROUP BY 1`); err != nil {
			return nil, fmt.Errorf("count what is sealed in %s: %w", c.table, err)
		}
	}
	if err := count(`SELECT substr(sealed, 1, 5), count(*) FROM data_keys GROUP BY 1`); err != nil {
		return nil, fmt.Errorf("count the data keys: %w", err)
	}
	return counts, nil
}

// SealedRows reads what is sealed with another key than the primary one, column by column.
func (db *Store) SealedRows(ctx context.Context, primary uint32, after admin.SealedCursor, limit int) (found []admin.SealedRow, next admin.SealedCursor, err error) {
	for ; after.Column < len(sealedColumns); after = (admin.SealedCursor{Column: after.Column + 1}) {
		c := sealedColumns[after.Column]
		if after.Key == nil {
			after.Key = c.before
		}
		rows, err := db.engine.Read(ctx).Query(`
			SELECT `+c.key+`, `+c.column+`, `+c.bound+` FROM `+c.table+`
			 WHERE `+c.where+` AND `+c.key+` > $1 AND substr(`+c.column+`, 1, 5) <> $2 ORDER BY `+c.key+` LIMIT $3`,
			after.Key, access.SealedPrefix(primary), limit)
		found, err = Collect(rows, err, c.read)
		if err != nil {
			return nil, after, fmt.Errorf("read what is sealed in %s: %w", c.table, err)
		}
		if len(found) > 0 {
			for i := range found {
				found[i].Column, found[i].Name = after.Column, fmt.Sprintf("%s of %s %v", c.column, c.table, found[i].Key)
			}
			after.Key = found[len(found)-1].Key
			return found, after, nil
		}
	}
	return nil, after, nil
}

// Reseal replaces what is sealed in rows that have not changed since they were read, if their new
// key, primary, is still the one that seals.
func (db *Store) Reseal(ctx context.Context, primary uint32, rows []admin.ResealedRow) (changed int, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed = 0
		if now, err := readPrimary(tx); err != nil {
			return err
		} else if now != primary {
			return admin.Refuse("the master key was rotated by somebody else meanwhile: key %d seals now", now)
		}
		for _, r := range rows {
			c := sealedColumns[r.Column]
			n, err := tx.Exec(`UPDATE `+c.table+` SET `+c.column+` = $3 WHERE `+c.where+` AND `+c.key+` = $1 AND `+c.column+` = $2`, r.Key, r.Sealed, r.New)
			if err != nil {
				return fmt.Errorf("seal %s again: %w", r.Name, err)
			}
			changed += int(n)
		}
		return nil
	})
	return changed, err
}

// checkSealing refuses what was sealed with a retired key, as by a node that was cut off from the
// store. It is called after the value was written; see RetireMasterKey.
func checkSealing(tx Tx, sealed []byte) error {
	primary, err := readPrimary(tx)
	if id := access.SealedUnder(sealed); err != nil || primary == 0 || id == primary {
		return err
	}
	var known int
	id := access.SealedUnder(sealed)
	if err := tx.QueryRow(`SELECT count(*) FROM master_keys WHERE key_id = $1`, int64(id)).Scan(&known); err != nil {
		return fmt.Errorf("look for master key %d: %w", id, err)
	}
	if known == 0 {
		return fmt.Errorf("master key %d was retired, and this node sealed with it: it has not read the store's keys since", id)
	}
	return nil
}
