package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// expectedMark is a mark that a commit of this node has acknowledged, so that a store that
// does not have it has lost that commit.
type expectedMark struct {
	storeID string
	value   int64
	// found is called when a connection led to a store that is behind.
	found func()
}

// undefinedTable is the SQLSTATE of a store whose schema is older than the mark.
const undefinedTable = "42P01"

// Written returns a number that grows with every transaction of this process that was
// committed, or may have been.
func (db *DB) Written() uint64 { return db.written.Load() }

// ExpectMark makes every new connection check that the store has this id and at least
// this value. If it is behind, it was restored, or a failover has lost commits: the restore
// is recorded, without its staff action, before the connection is used, and found is called.
// Whatever replaces a server's data ends the connections to it.
func (db *DB) ExpectMark(storeID string, value int64, found func()) {
	db.expected.Store(&expectedMark{storeID: storeID, value: value, found: found})
}

func (db *DB) checkMark(ctx context.Context, conn *pgx.Conn) error {
	expected := db.expected.Load()
	if expected == nil {
		return nil
	}
	var id string
	var value, now int64
	var at *int64
	err := conn.QueryRow(ctx, `
		SELECT store_id, value, marked_at, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM store_mark WHERE one = 1`).Scan(&id, &value, &at, &now)
	if sqlState(err) == undefinedTable || errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("the store at %s was replaced by an older one: restart this node", db.where)
	}
	if err != nil {
		return fmt.Errorf("read the store's mark: %w", err)
	}
	if id == expected.storeID && value >= expected.value {
		return nil
	}
	restore := admin.Restore{FoundAt: time.UnixMilli(now).UTC(), How: admin.BehindWhileRunning}
	if at != nil {
		restore.Since = time.UnixMilli(*at).Add(-admin.RestoreMargin).UTC()
	}
	begun, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("record a restore: %w", err)
	}
	if _, _, err := sqlstore.MarkRestored(newTx(ctx, begun), admin.RestoredActor, restore, expected.value); err != nil {
		_ = begun.Rollback(ctx)
		return fmt.Errorf("record a restore: %w", err)
	}
	if err := commit(begun); err != nil {
		return fmt.Errorf("record a restore: %w", err)
	}
	expected.found()
	return nil
}
