package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
)

// ReportNode writes which master keys a node holds.
func (db *Store) ReportNode(ctx context.Context, n admin.NodeKeys) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		if tx.Dialect().OneNode {
			if _, err := tx.Exec(`DELETE FROM nodes WHERE name <> $1`, n.Name); err != nil {
				return fmt.Errorf("remove a node that has ended: %w", err)
			}
		}
		_, err := tx.Exec(`
			INSERT INTO nodes (name, release, keys, sealing_key, seen_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (name) DO UPDATE SET keys = excluded.keys, sealing_key = excluded.sealing_key, seen_at = excluded.seen_at`,
			n.Name, n.Release, n.Keys, int64(n.Sealing), n.SeenAt.UnixMilli())
		if err != nil {
			return fmt.Errorf("report the keys of node %s: %w", n.Name, err)
		}
		return nil
	})
}

// ForgetNode removes a node that stops.
func (db *Store) ForgetNode(ctx context.Context, name string) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`DELETE FROM nodes WHERE name = $1`, name)
		return err
	})
}

// LiveNodes lists the nodes that work on the store, and describes those that do not report.
func (db *Store) LiveNodes(ctx context.Context, now time.Time) (live []admin.NodeKeys, older []string, err error) {
	return db.LiveNodesIn(db.engine.Read(ctx), now)
}

// LiveNodesIn is LiveNodes in a transaction.
func (db *Store) LiveNodesIn(from Querier, now time.Time) (live []admin.NodeKeys, older []string, err error) {
	rows, err := from.Query(`SELECT name, release, keys, sealing_key, seen_at FROM nodes ORDER BY name`)
	all, err := Collect(rows, err, func(row Row) (n admin.NodeKeys, err error) {
		var at sql.NullInt64
		err = row.Scan(&n.Name, &n.Release, &n.Keys, &n.Sealing, &at)
		n.SeenAt = Time(at)
		return n, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the nodes: %w", err)
	}
	return db.dialect.LiveNodes(from, all, now)
}
