package growth

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver that the rows are written with

	"github.com/coaxhq/coax/internal/store/sqlite"
)

// FillSQLite makes a store of about so many operations in a file that is not
// there yet, with trade up to the given moment. What it returns has no folder.
func FillSQLite(ctx context.Context, path string, operations int, end time.Time, masterKey []byte, tell func(Progress)) (Store, error) {
	return FillSQLiteAs(ctx, path, shapeOf(operations), end, masterKey, tell)
}

// FillSQLiteAs is FillSQLite for a store of another shape.
func FillSQLiteAs(ctx context.Context, path string, shape Shape, end time.Time, masterKey []byte, tell func(Progress)) (Store, error) {
	b := shape.books(end)
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return Store{}, err
	}
	telling := newTeller(b.work(), tell)
	telling.begin("operators")
	operators, err := b.furnish(ctx, store, masterKey, telling.times(operatorWork))
	if err := errors.Join(err, store.Close()); err != nil {
		return Store{}, fmt.Errorf("furnish %s: %w", path, err)
	}
	if err := b.loadSQLite(ctx, path, telling); err != nil {
		return Store{}, fmt.Errorf("fill %s: %w", path, err)
	}
	telling.begin("sync")
	if err := syncFile(path); err != nil {
		return Store{}, err
	}
	// A node's own way of opening puts back its settings, which the file keeps.
	if store, err = sqlite.Open(ctx, path, sqlite.Options{}); err != nil {
		return Store{}, err
	}
	return b.store(SQLite, operators, masterKey), store.Close()
}

// loadSQLite writes the rows by a connection that promises nothing: a file that
// is half filled when the power fails is thrown away.
func (b *books) loadSQLite(ctx context.Context, path string, telling *teller) error {
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)+
		"?mode=rw&_pragma=journal_mode(DELETE)&_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)&_pragma=locking_mode(EXCLUSIVE)"+
		"&_pragma=foreign_keys(0)&_pragma=cache_size(-1048576)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	indexes, err := indexesOf(ctx, conn)
	if err != nil {
		return err
	}
	for name, definition := range indexes {
		telling.expect(b.indexing(definition))
		if _, err := conn.ExecContext(ctx, "DROP INDEX "+name); err != nil {
			return err
		}
	}
	for _, t := range tables {
		telling.begin(t.name)
		if err := conn.Raw(func(raw any) error { return b.insertSQLite(ctx, raw.(driver.Conn), t, telling.times(t.heavy)) }); err != nil {
			return fmt.Errorf("write %s: %w", t.name, err)
		}
	}
	for _, statement := range b.wallets() {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("set the wallets: %w", err)
		}
	}
	for name, definition := range indexes {
		telling.begin("index " + name)
		if _, err := conn.ExecContext(ctx, definition); err != nil {
			return err
		}
		telling.add(b.indexing(definition))
	}
	if after, err := indexesOf(ctx, conn); err != nil || !maps.Equal(indexes, after) {
		return fmt.Errorf("the indexes are not what they were: %w", err)
	}
	telling.begin("statistics")
	// A thousand rows of each index tell as much as all of them.
	_, err = conn.ExecContext(ctx, `PRAGMA analysis_limit = 1000; ANALYZE`)
	return err
}

// indexesOf are the indexes that can be made after the rows, by name: those of a
// table's own rules stay with it.
func indexesOf(ctx context.Context, conn *sql.Conn) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, `SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, definition string
		if err := rows.Scan(&name, &definition); err != nil {
			return nil, err
		}
		found[name] = definition
	}
	return found, rows.Err()
}

var onTable = regexp.MustCompile(` ON (?:public\.)?(\w+)`)

// indexing is the work of making an index.
func (b *books) indexing(definition string) int {
	on := onTable.FindStringSubmatch(definition)
	if on == nil {
		return 0
	}
	for _, t := range tables {
		if t.name == on[1] && strings.Contains(definition, " WHERE ") {
			return t.numbers(b) / sparse
		}
		if t.name == on[1] {
			return t.numbers(b) / sorted
		}
	}
	return 0
}

const (
	// insertRows is how many rows one statement inserts.
	insertRows = 50
	// commitRows is how many numbers share a transaction.
	commitRows = 500_000
	// tellRows is how often progress is thought of.
	tellRows = 1_000
)

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// insertSQLite writes a table on the driver's own connection: database/sql takes
// longer over a row than SQLite does.
//
// The driver watches a context that can end, at every statement; it is asked here
// instead, once in a while.
func (b *books) insertSQLite(ctx context.Context, conn driver.Conn, t table, done func(rows int)) (err error) {
	unwatched := context.Background()
	one, err := prepareInsert(unwatched, conn, t, 1)
	if err != nil {
		return err
	}
	defer one.close()
	many, err := prepareInsert(unwatched, conn, t, insertRows)
	if err != nil {
		return err
	}
	defer many.close()
	execute := func(statement string) {
		if err == nil {
			_, err = conn.(driver.ExecerContext).ExecContext(unwatched, statement, nil)
		}
	}
	flush := func() {
		if many.full() {
			err = errors.Join(err, many.run(unwatched))
			return
		}
		for _, row := range many.rows() {
			copy(one.args, row)
			for i := range one.args {
				one.args[i].Ordinal = i + 1
			}
			one.used = len(one.args)
			err = errors.Join(err, one.run(unwatched))
		}
		many.used = 0
	}
	numbers := t.numbers(b)
	for place := range numbers {
		if place%commitRows == 0 {
			execute("BEGIN")
		}
		number := place
		if t.byKey != nil {
			number = t.byKey(b, place)
		}
		t.write(b, number, func(values ...any) {
			if many.add(values); many.full() && err == nil {
				flush()
			}
		})
		if place%commitRows == commitRows-1 || place == numbers-1 {
			flush()
			execute("COMMIT")
		}
		if place%tellRows == tellRows-1 {
			done(tellRows)
			if err == nil {
				err = ctx.Err()
			}
		}
		if err != nil {
			return err
		}
	}
	done(numbers % tellRows)
	return nil
}

// insert is a prepared statement of so many rows, and what it is to be told.
type insert struct {
	statement driver.Stmt
	args      []driver.NamedValue
	used      int
	columns   int
}

func prepareInsert(ctx context.Context, conn driver.Conn, t table, rows int) (*insert, error) {
	row := "(" + strings.TrimSuffix(strings.Repeat("?,", len(t.columns)), ",") + ")"
	text := "INSERT INTO " + t.name + " (" + strings.Join(t.columns, ", ") + ") VALUES " + strings.TrimSuffix(strings.Repeat(row+",", rows), ",")
	statement, err := conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	i := &insert{statement: statement, args: make([]driver.NamedValue, rows*len(t.columns)), columns: len(t.columns)}
	for n := range i.args {
		i.args[n].Ordinal = n + 1
	}
	return i, nil
}

func (i *insert) add(values []any) {
	if len(values) != i.columns {
		panic(fmt.Sprintf("%d values for %d columns", len(values), i.columns))
	}
	for _, value := range values {
		i.args[i.used].Value = value
		i.used++
	}
}

func (i *insert) full() bool { return i.used == len(i.args) }

// rows are those that were added since the statement last ran.
func (i *insert) rows() (rows [][]driver.NamedValue) {
	for at := 0; at < i.used; at += i.columns {
		rows = append(rows, i.args[at:at+i.columns])
	}
	return rows
}

func (i *insert) run(ctx context.Context) error {
	i.used = 0
	_, err := i.statement.(driver.StmtExecContext).ExecContext(ctx, i.args)
	return err
}

func (i *insert) close() { _ = i.statement.Close() }
