package transfer

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
)

// setMark gives the copy an id of its own, and the value of its source. So the first node
// on it does not take it for a restored store, whatever mark file it has; unless that file
// shows that the source itself was behind.
func (s Store) setMark(ctx context.Context, tx *sql.Tx, source querier) error {
	var id string
	var value int64
	var at sql.NullInt64
	if err := source.QueryRowContext(ctx, `SELECT store_id, value, marked_at FROM store_mark WHERE one = 1`).Scan(&id, &value, &at); err != nil {
		return err
	}
	var fresh [16]byte
	_, _ = rand.Read(fresh[:])
	return s.run(ctx, tx, `UPDATE store_mark SET store_id = ?, previous_id = ?, value = ?, marked_at = ?, state = 'copied' WHERE one = 1`,
		hex.EncodeToString(fresh[:]), id, value, at)
}

// MarkRestored records in a store that nobody uses that it was restored from an older
// copy, and begins maintenance, as a node would do that noticed it. It takes no master key:
// the next node that starts writes the staff action. how is a sentence; since is the last
// moment that the store knows all about. A restore that is open already stays. In the same
// commit it ends the maintenance of a copy into the store.
func MarkRestored(ctx context.Context, s Store, how string, since, at time.Time) error {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("record the restore: %w", err)
	}
	defer tx.Rollback()
	var known any
	if !since.IsZero() {
		known = since.UnixMilli()
	}
	reason := admin.RestoreReason(admin.Restore{How: how})
	for _, step := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO store_restores (found_at, since, how) SELECT CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS TEXT)
		   WHERE NOT EXISTS (SELECT 1 FROM store_restores WHERE outcome = '')`, []any{at.UnixMilli(), known, how}},
		{`INSERT INTO maintenance (one, since, actor, reason) VALUES (1, ?, ?, ?)
		  ON CONFLICT (one) DO UPDATE SET actor = excluded.actor, reason = excluded.reason,
		     since = CASE WHEN maintenance.actor = '` + admin.CopyActor + `' THEN excluded.since ELSE maintenance.since END`, []any{at.UnixMilli(), admin.RestoredActor, reason}},
		{`UPDATE bulk_jobs SET interrupted = ?, interrupted_at = ?
		   WHERE due_at >= 0 AND state = 'running' AND cancelled_at IS NULL AND interrupted = ''`, []any{string(bulk.ByMaintenance), at.UnixMilli()}},
		{`DELETE FROM login_sessions`, nil},
	} {
		if err := s.run(ctx, tx, step.text, step.args...); err != nil {
			return fmt.Errorf("record the restore: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("record the restore: %w", err)
	}
	return nil
}

// run runs a statement whose parameters are written as ?.
func (s Store) run(ctx context.Context, tx *sql.Tx, text string, args ...any) error {
	var query []byte
	n := 0
	for _, c := range []byte(text) {
		if c == '?' {
			n++
			query = append(query, s.placeholder(n)...)
			continue
		}
		query = append(query, c)
	}
	_, err := tx.ExecContext(ctx, string(query), args...)
	return err
}
