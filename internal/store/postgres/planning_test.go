package postgres

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// scans is how often each table was read from end to end so far. Servers' processes
// say so when they end.
func scans(t *testing.T, conn *pgx.Conn) map[string]int {
	t.Helper()
	until(t, "only this connection is left", func() bool {
		return count(t, conn, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`) == 0
	})
	seen := map[string]int{}
	rows, err := conn.Query(t.Context(), `SELECT relname, seq_scan FROM pg_stat_user_tables`)
	_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
		var table string
		var n int
		err := row.Scan(&table, &n)
		seen[table] = n
		return struct{}{}, err
	})
	ok(t, err)
	return seen
}

// The server believes that there is next to nothing in the tables, and would
// rather read one of them whole than look into its index. A plan of that kind
// would still be followed when they have grown.
func TestPlanning_NoSequentialScans(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db, conn := open(t, address), raw(t, address)
	record := operator(t, db, 60)
	draft := activation(t, db, record.Operator.ID, "key-1")
	ok(t, db.Close())
	exec(t, conn, `ANALYZE`)
	before := scans(t, conn)

	db = open(t, address)
	opened := func() map[string]int { // what opening reads is not a request's
		ok(t, db.Close())
		seen := scans(t, conn)
		db = open(t, address)
		return seen
	}()
	each := map[string]int{}
	for table, n := range opened {
		each[table] = n - before[table]
	}
	if _, err := db.Admit(t.Context(), asking(record, "nonce-1")); err != nil {
		t.Fatal(err)
	}
	if _, found, err := db.OperationByKey(t.Context(), draft.OperatorID, draft.IdempotencyKey); err != nil || found {
		t.Fatalf("found %v, %v", found, err)
	}
	_, err := db.Snapshot(t.Context(), operation.SnapshotQuery{OperatorID: draft.OperatorID, Kind: draft.Kind, Mobile: draft.Mobile, PlanID: draft.PlanID, DuplicatesSince: noon})
	ok(t, err)
	op, err := db.Reserve(t.Context(), draft)
	ok(t, err)
	_, _, err = db.Settle(t.Context(), operation.Settlement{OperationID: op.ID, Epoch: op.Epoch, To: operation.Success, At: noon, Node: "node-1"})
	ok(t, err)
	ok(t, db.Close())

	after := scans(t, conn)
	for _, table := range slices.Sorted(maps.Keys(after)) {
		if n := after[table] - opened[table] - each[table]; n != 0 {
			t.Errorf("%s was read from end to end %d times", table, n)
		}
	}
}

// An operator has had many operations, and the server has no statistics yet.
func TestPlanning_KeyLookupUsesIndex(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db, conn := open(t, address), raw(t, address)
	customers := customersOf(t, db, conn, 1, 200)
	reads := func() int {
		ok(t, db.Close())
		scans(t, conn) // what has ended has told
		db = open(t, address)
		return count(t, conn, `SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'operations'`)
	}
	for i, c := range customers {
		_, err := db.Reserve(t.Context(), c.renewal(keyOf(i), 1))
		ok(t, err)
	}
	before := reads()
	for i, key := range []string{keyOf(100), "key-1", "another", ""} {
		snapshot, err := db.Snapshot(t.Context(), operation.SnapshotQuery{
			OperatorID: customers[i].record.Operator.ID, IdempotencyKey: key, Kind: operation.Renew, SubscriberID: customers[i].subscriber, PlanID: "BASIC-1",
		})
		if err != nil || (snapshot.KnownID != "") != (i == 0) {
			t.Errorf("key %q stands for %q, %v", key, snapshot.KnownID, err)
		}
		if _, found, err := db.OperationByKey(t.Context(), customers[i].record.Operator.ID, key); err != nil || found != (i == 0) {
			t.Errorf("key %q is found: %v, %v", key, found, err)
		}
	}
	if n := reads() - before; n > 40 {
		t.Errorf("four queries, each run twice, took %d entries of the operations' indexes", n)
	}
}

// What goes through everything is planned by the server as it sees fit.
func TestOpenSQL_DefaultPlanning(t *testing.T) {
	t.Parallel()
	pool, err := OpenSQL(pgtest.NewDatabase(t))
	ok(t, err)
	defer pool.Close()
	for name, value := range planning {
		var set string
		ok(t, pool.QueryRow(`SELECT current_setting($1)`, name).Scan(&set))
		if set == value && name != "jit" { // which may be off anyway
			t.Errorf("%s is %s, as for a node", name, set)
		}
	}
}

// A plan that was made for a table known to be empty walks through all of it. It is
// not followed for long once there is more.
func TestPlanning_ReplansAfterGrowth(t *testing.T) {
	t.Parallel()
	db := open(t, migrated(t))
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
	// It has not been used firstReplan times yet, or a little more often than that.
	for range 2 * firstReplan {
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
