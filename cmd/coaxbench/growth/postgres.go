package growth

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/store/postgres"
)

// FillPostgres makes a store of about so many operations in an empty database,
// with trade up to the given moment. Its user has to be a superuser. What it
// returns has no folder.
func FillPostgres(ctx context.Context, address string, operations int, end time.Time, masterKey []byte, tell func(Progress)) (Store, error) {
	return FillPostgresAs(ctx, address, shapeOf(operations), end, masterKey, tell)
}

// FillPostgresAs is FillPostgres for a store of another shape.
func FillPostgresAs(ctx context.Context, address string, shape Shape, end time.Time, masterKey []byte, tell func(Progress)) (Store, error) {
	b := shape.books(end)
	store, err := postgres.Open(ctx, address, postgres.Options{})
	if err != nil {
		return Store{}, err
	}
	telling := newTeller(b.work(), tell)
	telling.begin("operators")
	operators, err := b.furnish(ctx, store, masterKey, telling.times(operatorWork))
	if err := errors.Join(err, store.Close()); err != nil {
		return Store{}, fmt.Errorf("furnish the database: %w", err)
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return Store{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := b.loadPostgres(ctx, conn, telling); err != nil {
		return Store{}, fmt.Errorf("fill the database: %w", err)
	}
	telling.begin("statistics")
	// What the server would otherwise do by itself, in the middle of a bench.
	for _, statement := range []string{`VACUUM (ANALYZE)`, `CHECKPOINT`} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return Store{}, err
		}
	}
	return b.store(Postgres, operators, masterKey), nil
}

// loadPostgres writes everything in one transaction that begins by emptying the
// tables, so that the server need not log the rows where wal_level is minimal, and
// can write them as old and settled ones.
func (b *books) loadPostgres(ctx context.Context, conn *pgx.Conn, telling *teller) error {
	begun, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = begun.Rollback(context.WithoutCancel(ctx)) }()
	schema, err := rulesOf(ctx, begun)
	if err != nil {
		return err
	}
	for _, rule := range schema {
		telling.expect(b.indexing(rule.index))
	}
	if err := execAll(ctx, begun, emptying(schema)); err != nil {
		return err
	}
	for _, t := range tables {
		telling.begin(t.name)
		if err := b.copyPostgres(ctx, conn, t, telling.times(t.heavy)); err != nil {
			return fmt.Errorf("write %s: %w", t.name, err)
		}
	}
	// The service's own rows come back, and the wallets are set.
	if err := execAll(ctx, begun, append(restoring, b.wallets()...)); err != nil {
		return err
	}
	if b.named {
		telling.begin("terms")
		if err := execAll(ctx, begun, findable); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema)) {
		telling.begin("index " + name)
		if _, err := begun.Exec(ctx, schema[name].makes); err != nil {
			return fmt.Errorf("%s: %w", schema[name].makes, err)
		}
		telling.add(b.indexing(schema[name].index))
	}
	if after, err := rulesOf(ctx, begun); err != nil || !maps.Equal(schema, after) {
		return fmt.Errorf("the indexes are not what they were: %w", err)
	}
	telling.begin("commit")
	return begun.Commit(ctx)
}

func execAll(ctx context.Context, tx pgx.Tx, statements []string) error {
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// rule is an index, or a table's rule that rests on one: how it is taken away and
// made again.
type rule struct{ drops, makes, index string }

// rulesOf are the rules of the filled tables that can be made after the rows. What
// foreign keys point to stays: they would go with it.
func rulesOf(ctx context.Context, tx pgx.Tx) (map[string]rule, error) {
	rows, err := tx.Query(ctx, `
		SELECT i.relname, t.relname, coalesce(pg_get_constraintdef(c.oid), ''), pg_get_indexdef(i.oid)
		  FROM pg_index x
		  JOIN pg_class i ON i.oid = x.indexrelid
		  JOIN pg_class t ON t.oid = x.indrelid
		  LEFT JOIN pg_constraint c ON c.conindid = i.oid AND c.contype IN ('p', 'u')
		 WHERE t.relname = ANY ($1) AND t.relnamespace = 'public'::regnamespace
		   AND NOT EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND f.conindid = i.oid)`, filled())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]rule{}
	for rows.Next() {
		var name, table, constraint, index string
		if err := rows.Scan(&name, &table, &constraint, &index); err != nil {
			return nil, err
		}
		if constraint == "" {
			found[name] = rule{"DROP INDEX " + name, index, index}
			continue
		}
		found[name] = rule{"ALTER TABLE " + table + " DROP CONSTRAINT " + name, "ALTER TABLE " + table + " ADD CONSTRAINT " + name + " " + constraint, index}
	}
	return found, rows.Err()
}

// filled are the tables that rows are written to.
func filled() (names []string) {
	for _, t := range tables {
		names = append(names, t.name)
	}
	return names
}

// What the service has written in those tables is kept meanwhile. Exceptions refer to
// operations, and there are none yet.
var (
	keptTables = []string{"wallet_entries", "ledger"}
	restoring  = []string{`INSERT INTO wallet_entries SELECT * FROM kept_wallet_entries`, `INSERT INTO ledger SELECT * FROM kept_ledger`}
)

// findable writes what subscribers are found by, as the triggers would have that are
// off meanwhile.
var findable = []string{`
	INSERT INTO subscriber_terms (operator_id, kind, term, subscriber_id)
	SELECT s.operator_id, t.kind, t.term, s.id FROM subscribers s, terms_of(s) AS t`, `
	INSERT INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
	SELECT DISTINCT s.operator_id, 'plan', c.plan_id, lower(s.name COLLATE "C"), s.id FROM cycles c JOIN subscribers s ON s.id = c.subscriber_id`, `
	INSERT INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
	SELECT operator_id, 'area', lower(area COLLATE "C"), lower(name COLLATE "C"), id FROM subscribers WHERE area <> ''`}

func emptying(schema map[string]rule) []string {
	statements := []string{
		// Rules between rows are the audit's to check.
		`SET LOCAL session_replication_role = replica`,
		`SET LOCAL maintenance_work_mem = '512MB'`,
	}
	for _, table := range keptTables {
		statements = append(statements, `CREATE TEMP TABLE kept_`+table+` ON COMMIT DROP AS TABLE `+table)
	}
	statements = append(statements, `TRUNCATE exceptions, reversals, contact_changes, contact_states, `+strings.Join(filled(), ", "))
	for _, rule := range schema {
		statements = append(statements, rule.drops)
	}
	return statements
}

// copyPostgres sends a table's rows as they are made.
func (b *books) copyPostgres(ctx context.Context, conn *pgx.Conn, t table, done func(rows int)) error {
	reading, writing := io.Pipe()
	go func() {
		buffered := bufio.NewWriterSize(writing, 256<<10)
		var line []byte
		numbers := t.numbers(b)
		for number := range numbers {
			var err error
			t.write(b, number, func(values ...any) {
				line = copyLine(line[:0], values)
				if _, failed := buffered.Write(line); failed != nil {
					err = failed
				}
			})
			if err != nil {
				break // whoever reads has stopped, and says why
			}
			if number%tellRows == tellRows-1 {
				done(tellRows)
			}
		}
		done(numbers % tellRows)
		_ = writing.CloseWithError(buffered.Flush())
	}()
	_, err := conn.PgConn().CopyFrom(ctx, reading, "COPY "+t.name+" ("+strings.Join(t.columns, ", ")+") FROM STDIN (FREEZE)")
	_ = reading.CloseWithError(err)
	return err
}

// copyLine writes a row as COPY reads it. No text of ours needs escaping.
func copyLine(line []byte, values []any) []byte {
	for i, value := range values {
		if i > 0 {
			line = append(line, '\t')
		}
		switch v := value.(type) {
		case nil:
			line = append(line, `\N`...)
		case int64:
			line = strconv.AppendInt(line, v, 10)
		case string:
			line = append(line, v...)
		case []byte:
			line = hex.AppendEncode(append(line, `\\x`...), v)
		default:
			panic(fmt.Sprintf("a value of type %T", value))
		}
	}
	return append(line, '\n')
}
