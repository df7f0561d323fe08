package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/store/pgtest"
)

// A plan that was made for a table known to be empty walks through all of it. It is
// not followed for long once there is more.
func TestAPlanForAnEmptyTableIsNotFollowedForLong(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.NewDatabase(t))
	acquire := func() *pgxpool.Conn {
		t.Helper()
		conn, err := db.pool.Acquire(t.Context())
		ok(t, err)
		return conn
	}
	exec := func(conn *pgxpool.Conn, text string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), text)
		ok(t, err)
	}
	walksThroughAll := func(conn *pgxpool.Conn) bool {
		t.Helper()
		rows, err := conn.Query(t.Context(), `EXPLAIN EXECUTE changing (ARRAY ['a', 'b'])`)
		ok(t, err)
		var plan strings.Builder
		for rows.Next() {
			var line string
			ok(t, rows.Scan(&line))
			plan.WriteString(line + "\n")
		}
		ok(t, rows.Err())
		return !strings.Contains(plan.String(), "Index Cond: (name")
	}

	conn := acquire()
	server := conn.Conn().PgConn().PID()
	exec(conn, `CREATE TABLE growing (name text PRIMARY KEY, n int)`)
	exec(conn, `ANALYZE growing`)
	exec(conn, `PREPARE changing (text[]) AS UPDATE growing g SET n = 1 FROM unnest($1) AS v (name) WHERE g.name = v.name`)
	if !walksThroughAll(conn) {
		t.Fatal("the plan is good, and proves nothing")
	}
	exec(conn, `INSERT INTO growing SELECT x::text, 0 FROM generate_series(1, 10000) x`)
	if !walksThroughAll(conn) {
		t.Fatal("the plan has become good by itself, and proves nothing")
	}
	// It has not been used plansFor times yet, or a little more often than that.
	for range 2 * plansFor {
		conn.Release()
		conn = acquire()
		if got := conn.Conn().PgConn().PID(); got != server {
			t.Fatalf("it is another connection, to %d and not to %d", got, server)
		}
	}
	defer conn.Release()
	if walksThroughAll(conn) {
		t.Error("ten thousand rows are still walked through")
	}
}
