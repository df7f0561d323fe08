package crowd

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"github.com/coaxhq/coax/internal/subscription"
)

// SubscribeSQLite writes the subscribers into a file that no other process has open.
func (c Crowd) SubscribeSQLite(ctx context.Context, path string, now time.Time) error {
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	db, err := sql.Open("sqlite", "file:"+escaped+"?mode=rw&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	subscriber, err := tx.PrepareContext(ctx, `
		INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, expires_at, activated_at, created_at)
		VALUES (?1, ?2, ?1, ?3, ?4, ?5, ?6, ?6)`)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	cycle, err := tx.PrepareContext(ctx, `
		INSERT INTO cycles (subscriber_id, seq, operation_id, plan_id, starts_at, ends_at, created_at)
		VALUES (?1, 1, NULL, ?2, ?3, ?4, ?3)`)
	if err != nil {
		return err
	}
	defer cycle.Close()
	at, until := now.UnixMilli(), now.Add(term).UnixMilli()
	for _, row := range c.rows() {
		if _, err := subscriber.ExecContext(ctx, row.id, row.operator, "Bench "+row.id, subscription.DefaultConnectionType, until, at); err != nil {
			return fmt.Errorf("write subscriber %s: %w", row.id, err)
		}
		if _, err := cycle.ExecContext(ctx, row.id, c.Plans[0], at, until); err != nil {
			return fmt.Errorf("write the cycle of subscriber %s: %w", row.id, err)
		}
	}
	var head []byte
	if err := tx.QueryRowContext(ctx, `SELECT hash FROM staff_acts ORDER BY id DESC LIMIT 1`).Scan(&head); err != nil {
		return fmt.Errorf("read the last staff action: %w", err)
	}
	for _, action := range c.actions(head, now) {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO staff_acts (operator_id, actor, action, subject, before_state, after_state, reason, at, hash)
			VALUES (?1, ?2, ?3, ?4, '', ?5, '', ?6, ?7)`,
			action.OperatorID, action.Actor, action.Action, action.Subject, action.After, action.At.UnixMilli(), action.Hash); err != nil {
			return fmt.Errorf("write a staff action: %w", err)
		}
	}
	return tx.Commit()
}

// SubscribePostgres copies the subscribers into a database.
func (c Crowd) SubscribePostgres(ctx context.Context, url string, now time.Time) error {
	connection, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer connection.Close(context.WithoutCancel(ctx))
	tx, err := connection.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	rows, at, until := c.rows(), now.UnixMilli(), now.Add(term).UnixMilli()
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"subscribers"},
		[]string{"id", "operator_id", "mobile", "name", "connection_type", "expires_at", "activated_at", "created_at"},
		pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			r := rows[i]
			return []any{r.id, r.operator, r.id, "Bench " + r.id, subscription.DefaultConnectionType, until, at, at}, nil
		})); err != nil {
		return fmt.Errorf("write the subscribers: %w", err)
	}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"cycles"},
		[]string{"subscriber_id", "seq", "plan_id", "starts_at", "ends_at", "created_at"},
		pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			return []any{rows[i].id, 1, c.Plans[0], at, until, at}, nil
		})); err != nil {
		return fmt.Errorf("write their cycles: %w", err)
	}
	if err := c.copyActions(ctx, tx, now); err != nil {
		return fmt.Errorf("write staff actions: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	// A database in use has statistics; this one was filled a moment ago.
	_, err = connection.Exec(ctx, "ANALYZE")
	return err
}

// copyActions adds to the chain of staff actions, and updates the row that PostgreSQL's schema
// has for its end.
func (c Crowd) copyActions(ctx context.Context, tx pgx.Tx, now time.Time) error {
	var last int64
	var head []byte
	if err := tx.QueryRow(ctx, `SELECT last_id, head FROM staff_chain FOR NO KEY UPDATE`).Scan(&last, &head); err != nil {
		return err
	}
	actions := c.actions(head, now)
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"staff_acts"},
		[]string{"id", "operator_id", "actor", "action", "subject", "before_state", "after_state", "reason", "at", "hash"},
		pgx.CopyFromSlice(len(actions), func(i int) ([]any, error) {
			a := actions[i]
			return []any{last + int64(i) + 1, a.OperatorID, a.Actor, a.Action, a.Subject, "", a.After, "", a.At.UnixMilli(), a.Hash}, nil
		})); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE staff_chain SET last_id = $1, head = $2`, last+int64(len(actions)), actions[len(actions)-1].Hash)
	return err
}
