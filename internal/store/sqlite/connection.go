package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	engine "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// busyTimeout is how long a statement waits for another process's lock.
const busyTimeout = 5 * time.Second

const (
	// PageSize is the page size of a new store, in bytes; an existing store keeps its
	// own. The cost of a write is the pages that it changes, which go into the
	// write-ahead log and from there into the file. On a large store hardly any page is
	// shared with other writes, so half of SQLite's default halves that cost.
	PageSize = 2048

	// minCache is the smallest page cache of the writer, in bytes. SQLite's default of
	// 2 MB is less than the pages that one batch touches, which would be read again for
	// the next one. Much more slows a small store down, because a commit that has split
	// a page scans the whole cache.
	minCache = 8 << 20
	// maxCache is for a large store, where each write touches pages of its own.
	maxCache = 48 << 20
	// cacheDivisor: between the two limits the cache is the file's size divided by this.
	cacheDivisor = 256
)

// writerCache returns the size of the writer's page cache for a file of the given
// size, in bytes. Readers have SQLite's default: each commit of the writer empties
// their caches.
func writerCache(fileSize int64) int64 { return min(max(fileSize/cacheDivisor, minCache), maxCache) }

// fileSize returns 0 if the file cannot be read; connect reports why.
func fileSize(path string) int64 {
	file, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return file.Size()
}

// connection is one connection to the file, for one goroutine at a time. Each statement
// is prepared once: preparing one costs more than running it.
type connection struct {
	engine     *engine.Conn
	statements map[string]*statement
	// wrote is set by each statement that changes a row; the writer clears it.
	wrote bool
}

type statement struct {
	*engine.Stmt
	kind statementKind
}

// statementKind is what a statement may change.
type statementKind int

const (
	changes  statementKind = iota // INSERT, UPDATE, DELETE: SQLite counts the rows
	reads                         // SELECT, PRAGMA
	controls                      // BEGIN, SAVEPOINT and their like
	defines                       // everything else, which may change anything
)

func kindOf(query string) statementKind {
	switch strings.Fields(query)[0] {
	case "INSERT", "UPDATE", "DELETE", "REPLACE":
		return changes
	case "SELECT", "PRAGMA", "EXPLAIN":
		return reads
	case "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE":
		return controls
	}
	return defines
}

// connect opens a connection to an existing file and sets it up. It does not create the
// file: a connection that finds it missing must fail, not start an empty store.
func connect(path string, pragmas ...string) (*connection, error) {
	opened, err := engine.OpenConn(address(path), engine.OpenReadWrite|engine.OpenURI)
	if err != nil {
		return nil, err
	}
	opened.SetBusyTimeout(busyTimeout) // first: the settings may have to wait
	c := &connection{engine: opened, statements: map[string]*statement{}}
	for _, pragma := range pragmas {
		if err := c.set(pragma); err != nil {
			_ = c.close()
			return nil, err
		}
	}
	return c, nil
}

// set runs a pragma, as "name = value", without caching its statement.
func (c *connection) set(pragma string) error {
	if err := sqlitex.ExecuteTransient(c.engine, "PRAGMA "+pragma, nil); err != nil {
		return fmt.Errorf("PRAGMA %s: %w", pragma, err)
	}
	return nil
}

// close finalizes the statements and closes the file.
func (c *connection) close() error { return c.engine.Close() }

// prepare returns a statement with its arguments in place.
func (c *connection) prepare(query string, args []any) (*statement, error) {
	s := c.statements[query]
	if s == nil {
		prepared, err := c.engine.Prepare(translate(query))
		if err != nil {
			return nil, fmt.Errorf("prepare: %w", err)
		}
		s = &statement{prepared, kindOf(query)}
		c.statements[query] = s
	}
	if want := s.BindParamCount(); len(args) != want {
		return nil, fmt.Errorf("%d arguments for the %d parameters of %s", len(args), want, query)
	}
	for i, arg := range args {
		if err := bind(s.Stmt, i+1, arg); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// step moves on to the next row; false if there is none.
func (c *connection) step(s *statement) (bool, error) {
	row, err := s.Step()
	if err != nil {
		return false, err // SQLite has undone what the statement did, if it did anything
	}
	switch s.kind {
	case changes:
		c.wrote = c.wrote || row || c.engine.Changes() > 0
	case defines:
		c.wrote = true
	}
	return row, nil
}

// finish resets a statement for its next use. Reset repeats the error of the last step,
// which was handled there.
func (s *statement) finish() { _ = s.Reset() }

// exec runs a statement to its end and says how many rows it changed.
func (c *connection) Exec(query string, args ...any) (changed int64, err error) {
	s, err := c.prepare(query, args)
	if err != nil {
		return 0, err
	}
	defer s.finish()
	for row := true; row; {
		if row, err = c.step(s); err != nil {
			return 0, err
		}
	}
	if s.kind == changes {
		changed = int64(c.engine.Changes())
	}
	return changed, nil
}

// queryRow reads one row, when it is scanned; sql.ErrNoRows if there is none.
func (c *connection) QueryRow(query string, args ...any) sqlstore.Row { return &oneRow{c, query, args} }

type oneRow struct {
	conn  *connection
	query string
	args  []any
}

func (r *oneRow) Scan(into ...any) error {
	s, err := r.conn.prepare(r.query, r.args)
	if err != nil {
		return err
	}
	defer s.finish()
	row, err := r.conn.step(s)
	switch {
	case err != nil:
		return err
	case !row:
		return sql.ErrNoRows
	}
	if err := s.Scan(into...); err != nil || s.kind == reads {
		return err
	}
	// A constraint may fail only at the end of the statement.
	for row {
		if row, err = r.conn.step(s); err != nil {
			return err
		}
	}
	return nil
}

// query reads several rows, which the caller closes.
func (c *connection) Query(query string, args ...any) (sqlstore.Rows, error) {
	found, err := c.start(query, args)
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (c *connection) start(query string, args []any) (*rows, error) {
	s, err := c.prepare(query, args)
	if err != nil {
		return nil, err
	}
	return &rows{statement: s, ctx: context.Background(), conn: c}, nil
}

// rows are read one after the other.
type rows struct {
	*statement
	conn *connection
	ctx  context.Context // reading ends with it
	free func()          // releases the connection; may be nil
	err  error           // the error that ended the reading
}

// Next moves on to the next row; false if there is none, or the reading failed.
func (r *rows) Next() (row bool) {
	if r.err = r.ctx.Err(); r.err == nil {
		row, r.err = r.conn.step(r.statement)
	}
	return row && r.err == nil
}

func (r *rows) Err() error { return r.err }

func (r *rows) Close() {
	r.finish()
	if r.free != nil {
		r.free()
	}
}

// bind puts an argument into its place.
func bind(s *engine.Stmt, place int, arg any) error {
	switch value := arg.(type) {
	case nil:
		s.BindNull(place)
	case int64:
		s.BindInt64(place, value)
	case string:
		s.BindText(place, value)
	case int:
		s.BindInt64(place, int64(value))
	case bool:
		s.BindBool(place, value)
	case []byte:
		if value == nil {
			s.BindNull(place)
		} else {
			s.BindBytes(place, value)
		}
	case driver.Valuer:
		plain, err := value.Value()
		if err != nil {
			return fmt.Errorf("argument %d: %w", place, err)
		}
		return bind(s, place, plain)
	default:
		return bindNamed(s, place, reflect.ValueOf(arg))
	}
	return nil
}

// bindNamed is bind for types that stand for a text or a number, and for lists of them.
func bindNamed(s *engine.Stmt, place int, value reflect.Value) error {
	switch {
	case value.Kind() == reflect.String:
		s.BindText(place, value.String())
	case value.CanInt():
		s.BindInt64(place, value.Int())
	case value.CanUint():
		s.BindInt64(place, int64(value.Uint()))
	case value.Kind() == reflect.Bool:
		s.BindBool(place, value.Bool())
	case value.Kind() == reflect.Slice: // for json_each; see translate
		list, err := json.Marshal(value.Interface())
		if err != nil {
			return fmt.Errorf("argument %d: %w", place, err)
		}
		s.BindText(place, string(list))
	default:
		return fmt.Errorf("argument %d: a %s cannot be stored", place, value.Type())
	}
	return nil
}

// Scan reads the present row's columns, all of them.
func (s *statement) Scan(into ...any) error {
	if have := s.ColumnCount(); have != len(into) {
		return fmt.Errorf("scan %d columns into %d places", have, len(into))
	}
	for column, target := range into {
		if err := s.scan(column, target); err != nil {
			return fmt.Errorf("column %d (%s): %w", column, s.ColumnName(column), err)
		}
	}
	return nil
}

func (s *statement) scan(column int, target any) error {
	null := s.ColumnIsNull(column)
	switch target := target.(type) {
	case *sql.NullInt64:
		*target = sql.NullInt64{Int64: s.ColumnInt64(column), Valid: !null}
		return nil
	case *sql.NullString:
		*target = sql.NullString{String: s.ColumnText(column), Valid: !null}
		return nil
	case *[]byte:
		*target = nil
		if !null {
			*target = make([]byte, s.ColumnLen(column))
			s.ColumnBytes(column, *target)
		}
		return nil
	}
	if null {
		return fmt.Errorf("it is NULL, which a %T cannot hold", target)
	}
	switch target := target.(type) {
	case *string:
		*target = s.ColumnText(column)
	case *int64:
		*target = s.ColumnInt64(column)
	case *int:
		*target = s.ColumnInt(column)
	case *bool:
		*target = s.ColumnBool(column)
	default:
		return s.scanNamed(column, reflect.ValueOf(target))
	}
	return nil
}

// scanNamed is scan for types that stand for a text or a number.
func (s *statement) scanNamed(column int, target reflect.Value) error {
	if target.Kind() != reflect.Pointer {
		return fmt.Errorf("a %s cannot be scanned into", target.Type())
	}
	switch value := target.Elem(); {
	case value.Kind() == reflect.String:
		value.SetString(s.ColumnText(column))
	case value.CanInt():
		value.SetInt(s.ColumnInt64(column))
	case value.CanUint():
		value.SetUint(uint64(s.ColumnInt64(column)))
	case value.Kind() == reflect.Bool:
		value.SetBool(s.ColumnBool(column))
	default:
		return fmt.Errorf("a %s cannot be scanned into", target.Type())
	}
	return nil
}
