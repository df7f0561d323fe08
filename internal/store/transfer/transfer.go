// Package transfer copies every row of a store into an empty store of the same kind or of the
// other: ids, keys and chains stay what they are. Nobody else may use the target. The source is
// read in one transaction, so that nodes may use it: the copy is of one moment then, and one
// that was interrupted cannot be continued, because the next one is of another moment.
package transfer

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Progress is how far a copy is.
type Progress struct {
	Table    string
	Rows, Of int64
}

// Result is what was copied.
type Result struct {
	Rows int64 `json:"rows"`
	// Digest is the same for stores with the same rows, whichever kind they are.
	Digest string `json:"digest"`
}

// maxBatch is how many rows are inserted in one commit.
const maxBatch = 10_000

// Copied is a copy that is equal to its source. The target is in the copy's maintenance until
// one of the methods, or MarkRestored, ends that.
type Copied struct {
	Result
	// AsOf is the last moment that the source has something of; zero if it has nothing.
	AsOf time.Time

	to Store
	// mode is the source's maintenance.
	mode admin.Maintenance
}

// Copy copies all rows, compares both sides afterwards, and leaves the target in the copy's
// maintenance. A copy that was interrupted is continued by calling it again. at is the time now.
func Copy(ctx context.Context, from, to Store, at time.Time, progress func(Progress)) (Copied, error) {
	copied := Copied{to: to}
	for _, side := range []Store{from, to} {
		if err := side.CheckTables(ctx); err != nil {
			return copied, err
		}
	}
	tx, err := from.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: isolation(from)})
	if err != nil {
		return copied, fmt.Errorf("read the source: %w", err)
	}
	defer tx.Rollback()
	if copied.mode, err = readMaintenance(ctx, tx); err != nil {
		return copied, fmt.Errorf("read the source: %w", err)
	}
	if copied.mode.Actor == admin.CopyActor {
		return copied, fmt.Errorf("the source: %w", admin.ErrUnfinishedCopy)
	}
	if copied.AsOf, err = lastMoment(ctx, tx); err != nil {
		return copied, fmt.Errorf("read the source: %w", err)
	}
	if err := to.begin(ctx, at); err != nil {
		return copied, err
	}
	for _, t := range tables {
		if err := copyTable(ctx, from, tx, to, t, progress); err != nil {
			return copied, fmt.Errorf("copy %s: %w", t.name, err)
		}
	}
	if err := to.copyRest(ctx, from, tx); err != nil {
		return copied, fmt.Errorf("complete the copy: %w", err)
	}
	if err := failpoint.Hit("C.rest"); err != nil {
		return copied, err
	}
	if copied.Result, err = compare(ctx, from, tx, to); err != nil {
		return copied, fmt.Errorf("compare: %w", err)
	}
	return copied, failpoint.Hit("C.compared")
}

func lastMoment(ctx context.Context, from querier) (time.Time, error) {
	last := int64(0)
	for _, query := range []string{
		`SELECT marked_at FROM store_mark WHERE one = 1`, `SELECT max(created_at) FROM operations`, `SELECT at FROM staff_acts ORDER BY id DESC LIMIT 1`,
	} {
		var at sql.NullInt64
		if err := from.QueryRowContext(ctx, query).Scan(&at); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return time.Time{}, err
		}
		last = max(last, at.Int64)
	}
	if last == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(last), nil
}

// compare reads all rows of both sides.
func compare(ctx context.Context, from Store, source querier, to Store) (Result, error) {
	theirs, tablesThere, err := digest(ctx, from, source)
	if err != nil {
		return Result{}, err
	}
	tx, err := to.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: isolation(to)})
	if err != nil {
		return Result{}, err
	}
	defer tx.Rollback()
	ours, tablesHere, err := digest(ctx, to, tx)
	if err != nil {
		return Result{}, err
	}
	var differ []string
	for i, t := range tables {
		if tablesHere[i] != tablesThere[i] {
			differ = append(differ, t.name)
		}
	}
	if len(differ) > 0 {
		return Result{}, fmt.Errorf("the copy differs from its source, in %s: it has %d rows, the source %d. Begin again with an empty store", strings.Join(differ, ", "), ours.Rows, theirs.Rows)
	}
	return ours, nil
}

// Finish ends the copy's maintenance: the target is in maintenance if its source is.
func (c Copied) Finish(ctx context.Context) error {
	return c.finish(ctx, c.mode)
}

// FinishInMaintenance ends the copy's maintenance and begins one with a reason, which an
// administrator may end.
func (c Copied) FinishInMaintenance(ctx context.Context, reason string, at time.Time) error {
	return c.finish(ctx, admin.Maintenance{On: true, Since: at, Actor: CheckActor, Reason: reason})
}

// CheckActor is the recorded actor of the maintenance of a copy whose audit found violations.
const CheckActor = "coax store copy: audit"

func (c Copied) finish(ctx context.Context, mode admin.Maintenance) error {
	tx, err := c.to.DB.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("finish the copy: %w", err)
	}
	defer tx.Rollback()
	err = c.to.run(ctx, tx, `DELETE FROM maintenance WHERE actor = ?`, admin.CopyActor)
	if err == nil && mode.On {
		err = c.to.run(ctx, tx, `INSERT INTO maintenance (one, since, actor, reason) VALUES (1, ?, ?, ?)`, mode.Since.UnixMilli(), mode.Actor, mode.Reason)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("finish the copy: %w", err)
	}
	return nil
}

// readMaintenance reads the maintenance of a store.
func readMaintenance(ctx context.Context, from querier) (mode admin.Maintenance, err error) {
	var since int64
	err = from.QueryRowContext(ctx, `SELECT since, actor, reason FROM maintenance WHERE one = 1`).Scan(&since, &mode.Actor, &mode.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return mode, nil
	}
	mode.On, mode.Since = true, time.UnixMilli(since)
	return mode, err
}

func isolation(s Store) sql.IsolationLevel {
	if s.Postgres {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault
}

// CheckTarget returns an error unless the store is empty, or an earlier copy into it was
// interrupted.
func CheckTarget(ctx context.Context, s Store) error {
	_, err := s.checkTarget(ctx)
	return err
}

func (s Store) checkTarget(ctx context.Context) (begun bool, err error) {
	if err := s.CheckTables(ctx); err != nil {
		return false, err
	}
	mode, err := readMaintenance(ctx, s.DB)
	if err != nil {
		return false, err
	}
	if mode.Actor == admin.CopyActor {
		return true, nil
	}
	for _, t := range tables {
		var there bool
		if err := s.DB.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM `+t.name+`)`).Scan(&there); err != nil {
			return false, err
		}
		if there {
			return false, fmt.Errorf("the target is not empty: there are rows in %s. Name an empty database", t.name)
		}
	}
	if mode.On {
		return false, errors.New("the target is in maintenance, and no copy was begun in it. Name an empty database")
	}
	return false, nil
}

// begin marks an empty store: one that is half filled is in maintenance, and sells nothing.
func (s Store) begin(ctx context.Context, at time.Time) error {
	begun, err := s.checkTarget(ctx)
	if err != nil || begun {
		return err
	}
	_, err = s.DB.ExecContext(ctx, `INSERT INTO maintenance (one, since, actor, reason) VALUES (1, `+s.placeholder(1)+`, '`+admin.CopyActor+`', 'a copy into this store is not complete')`,
		at.UnixMilli())
	if err != nil {
		return err
	}
	return failpoint.Hit("C.begun")
}

func copyTable(ctx context.Context, from Store, source querier, to Store, t table, progress func(Progress)) error {
	columns, err := commonColumns(ctx, from, source, to, t)
	if err != nil {
		return err
	}
	texts, err := from.texts(ctx, source, t.name)
	if err != nil {
		return err
	}
	var done, of int64
	if err := source.QueryRowContext(ctx, `SELECT count(*) FROM `+t.name).Scan(&of); err != nil {
		return err
	}
	query := `SELECT ` + columnList(columns) + ` FROM ` + t.name
	args, err := to.lastKey(ctx, t)
	if err != nil {
		return err
	}
	if args != nil {
		if err := to.DB.QueryRowContext(ctx, `SELECT count(*) FROM `+t.name).Scan(&done); err != nil {
			return err
		}
		query += ` WHERE ` + from.after(t, texts)
	}
	rows, err := source.QueryContext(ctx, query+` ORDER BY `+from.ordered(t, texts), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	insert := &inserter{to: to, table: t.name, columns: columns}
	for rows.Next() {
		row, err := readRow(rows, columns)
		if err != nil {
			return err
		}
		insert.rows = append(insert.rows, row)
		if len(insert.rows) == maxBatch {
			done += maxBatch
			if err := insert.flush(ctx); err != nil {
				return err
			}
			progress(Progress{t.name, done, of})
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	done += int64(len(insert.rows))
	if err := insert.flush(ctx); err != nil {
		return err
	}
	progress(Progress{t.name, done, of})
	return nil
}

// commonColumns returns a table's columns, which have to be the same on both sides.
func commonColumns(ctx context.Context, from Store, source querier, to Store, t table) ([]column, error) {
	theirs, err := from.columns(ctx, source, t.name)
	if err != nil {
		return nil, err
	}
	ours, err := to.columns(ctx, to.DB, t.name)
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(theirs, ours, func(a, b column) bool { return a.name == b.name }) || len(ours) == 0 {
		return nil, errors.New("it has other columns on the other side; migrate both stores with this release first")
	}
	return ours, nil
}

func columnList(columns []column) string {
	var names []string
	for _, c := range columns {
		names = append(names, `"`+c.name+`"`)
	}
	return strings.Join(names, ", ")
}

// lastKey returns the key of the last row that was copied; nil if there is none.
func (s Store) lastKey(ctx context.Context, t table) ([]any, error) {
	texts, err := s.texts(ctx, s.DB, t.name)
	if err != nil {
		return nil, err
	}
	backwards := t
	backwards.descending = !t.descending
	values := make([]any, len(t.key))
	into := make([]any, len(t.key))
	for i := range values {
		into[i] = &values[i]
	}
	err = s.DB.QueryRowContext(ctx, `SELECT `+strings.Join(t.key, ", ")+` FROM `+t.name+` ORDER BY `+s.ordered(backwards, texts)+` LIMIT 1`).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return values, err
}

// after is the condition for the rows behind a key.
func (s Store) after(t table, texts map[string]bool) string {
	var names, places []string
	for i, name := range t.key {
		if texts[name] {
			name += ` COLLATE "C"`
		}
		names = append(names, name)
		places = append(places, s.placeholder(i+1))
	}
	compare := ">"
	if t.descending {
		compare = "<"
	}
	return `(` + strings.Join(names, ", ") + `) ` + compare + ` (` + strings.Join(places, ", ") + `)`
}

// readRow reads a row as integers, text, bytes and NULL.
func readRow(rows *sql.Rows, columns []column) ([]any, error) {
	values := make([]any, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	for i, value := range values {
		switch value := value.(type) {
		case nil, int64, string:
		case []byte:
			values[i] = append([]byte{}, value...) // an empty value is not NULL
		case bool:
			values[i] = int64(0)
			if value {
				values[i] = int64(1)
			}
		default:
			return nil, fmt.Errorf("the column %s has a value of type %T", columns[i].name, value)
		}
	}
	return values, nil
}

// inserter inserts rows in batches, each in one commit.
type inserter struct {
	to      Store
	table   string
	columns []column
	rows    [][]any
}

func (i *inserter) flush(ctx context.Context) error {
	if len(i.rows) == 0 {
		return nil
	}
	for _, row := range i.rows {
		for c, value := range row {
			if i.columns[c].truth && value != nil {
				row[c] = value.(int64) != 0
			}
		}
	}
	insert := i.rowByRow
	if i.to.Postgres {
		insert = i.atOnce
	}
	err := insert(ctx)
	i.rows = i.rows[:0]
	if err != nil {
		return err
	}
	return failpoint.Hit("C.batch")
}

// atOnce inserts all rows with PostgreSQL's COPY, which is one statement. It keeps the values of
// identity columns.
func (i *inserter) atOnce(ctx context.Context) error {
	conn, err := i.to.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var names []string
	for _, c := range i.columns {
		names = append(names, c.name)
	}
	return conn.Raw(func(driver any) error {
		_, err := driver.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{i.table}, names, pgx.CopyFromRows(i.rows))
		return err
	})
}

// rowByRow inserts the rows with a prepared statement each. SQLite has no round trips, and its
// driver takes long for statements with thousands of parameters.
func (i *inserter) rowByRow(ctx context.Context) error {
	tx, err := i.to.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	statement, err := tx.PrepareContext(ctx, `INSERT INTO `+i.table+` (`+columnList(i.columns)+`) VALUES (?`+strings.Repeat(", ?", len(i.columns)-1)+`)`)
	if err != nil {
		return err
	}
	defer statement.Close()
	for _, row := range i.rows {
		if _, err := statement.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// copyRest sets what is not rows of a table: the highest ids, the end of the chain of staff
// actions, and the store's mark.
func (s Store) copyRest(ctx context.Context, from Store, source querier) error {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := s.setHighestIDs(ctx, tx, from, source); err != nil {
		return err
	}
	if s.Postgres {
		if err := endOfChain(ctx, tx); err != nil {
			return err
		}
	}
	// A rotation of the master key raises it.
	var generation int
	err = source.QueryRowContext(ctx, `SELECT max(oldest_generation) FROM schema_tolerance`).Scan(&generation)
	if err == nil {
		err = s.run(ctx, tx, `
			UPDATE schema_tolerance SET oldest_generation = ?
			 WHERE oldest_generation < ? AND migration = (SELECT max(migration) FROM schema_tolerance)`, generation, generation)
	}
	if err != nil {
		return fmt.Errorf("refuse older binaries: %w", err)
	}
	if err := s.setMark(ctx, tx, source); err != nil {
		return fmt.Errorf("mark the copy: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if s.Postgres {
		_, err = s.DB.ExecContext(ctx, `ANALYZE`)
	} else {
		_, err = s.DB.ExecContext(ctx, `PRAGMA optimize`)
	}
	return err
}

// endOfChain sets the row that PostgreSQL's staff actions continue.
func endOfChain(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE staff_chain SET last_id = a.id, head = a.hash, mac_id = a.id,
		       mac = COALESCE(a.mac, (SELECT mac FROM staff_chain_start WHERE last_id = a.id))
		  FROM (SELECT id, hash, mac FROM staff_acts ORDER BY id DESC LIMIT 1) a`)
	return err
}

// setHighestIDs makes the target go on with the ids behind the highest that the source ever
// gave out: those of deleted rows are not given out again.
func (s Store) setHighestIDs(ctx context.Context, tx *sql.Tx, from Store, source querier) error {
	for _, t := range tables {
		if !slices.Equal(t.key, []string{"id"}) {
			continue
		}
		highest, counted, err := from.highestID(ctx, source, t.name)
		if err != nil {
			return fmt.Errorf("read the highest id of %s: %w", t.name, err)
		}
		if !counted || highest == 0 {
			continue
		}
		if s.Postgres {
			_, err = tx.ExecContext(ctx, `SELECT setval(pg_get_serial_sequence($1, 'id'), $2) WHERE pg_get_serial_sequence($1, 'id') IS NOT NULL`, t.name, highest)
		} else {
			_, err = tx.ExecContext(ctx, `UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1`, t.name, highest)
			if err == nil {
				_, err = tx.ExecContext(ctx, `
					INSERT INTO sqlite_sequence (name, seq) SELECT ?1, ?2
					 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)
					   AND EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?1 AND sql LIKE '%AUTOINCREMENT%')`, t.name, highest)
			}
		}
		if err != nil {
			return fmt.Errorf("set the highest id of %s: %w", t.name, err)
		}
	}
	return nil
}

// highestID returns the highest id that a table has given out; counted is false if its ids
// are not numbers.
func (s Store) highestID(ctx context.Context, from querier, name string) (highest int64, counted bool, err error) {
	var last any
	if err := from.QueryRowContext(ctx, `SELECT max(id) FROM `+name).Scan(&last); err != nil {
		return 0, false, err
	}
	switch last := last.(type) {
	case int64:
		highest = last
	case nil:
	default:
		return 0, false, nil
	}
	var given sql.NullInt64
	if s.Postgres {
		var sequence sql.NullString
		if err := from.QueryRowContext(ctx, `SELECT pg_get_serial_sequence($1, 'id')`, name).Scan(&sequence); err != nil {
			return 0, false, err
		}
		if sequence.Valid {
			err = from.QueryRowContext(ctx, `SELECT CASE WHEN is_called THEN last_value END FROM `+sequence.String).Scan(&given)
		}
	} else {
		err = from.QueryRowContext(ctx, `SELECT seq FROM sqlite_sequence WHERE name = ?1`, name).Scan(&given)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, false, err
	}
	return max(highest, given.Int64), true, nil
}

// Digest reads all rows that are copied, and returns how many there are and a digest of them.
func Digest(ctx context.Context, s Store) (Result, error) {
	tx, err := s.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: isolation(s)})
	if err != nil {
		return Result{}, err
	}
	defer tx.Rollback()
	result, _, err := digest(ctx, s, tx)
	return result, err
}

// digest adds up the hashes of a table's rows, so that their order makes no difference. lines are
// those of the tables.
func digest(ctx context.Context, s Store, from querier) (result Result, lines []string, err error) {
	all := sha256.New()
	for _, t := range tables {
		line, count, err := tableDigest(ctx, s, from, t.name)
		if err != nil {
			return result, nil, fmt.Errorf("read %s: %w", t.name, err)
		}
		result.Rows += count
		lines = append(lines, line)
		all.Write([]byte(line))
	}
	result.Digest = hex.EncodeToString(all.Sum(nil))
	return result, lines, nil
}

func tableDigest(ctx context.Context, s Store, from querier, name string) (line string, count int64, err error) {
	columns, err := s.columns(ctx, from, name)
	if err != nil {
		return "", 0, err
	}
	list := columnList(columns)
	rows, err := from.QueryContext(ctx, `SELECT `+list+` FROM `+name)
	if err != nil {
		return "", 0, err
	}
	defer rows.Close()
	var sum hashSum
	var text []byte
	for rows.Next() {
		row, err := readRow(rows, columns)
		if err != nil {
			return "", 0, err
		}
		text = appendRow(text[:0], row)
		sum.add(sha256.Sum256(text))
		count++
	}
	return fmt.Sprintf("%s (%s) %d %x\n", name, list, count, sum), count, rows.Err()
}

// hashSum adds hashes up as numbers, modulo 2 to the power of 256. The lowest word is first.
type hashSum [4]uint64

func (s *hashSum) add(hash [sha256.Size]byte) {
	var carry uint64
	for i := range s {
		s[i], carry = bits.Add64(s[i], binary.LittleEndian.Uint64(hash[8*i:]), carry)
	}
}

// appendRow appends a row's values, each with its kind and length.
func appendRow(text []byte, row []any) []byte {
	for _, value := range row {
		switch value := value.(type) {
		case nil:
			text = append(text, 'n')
		case int64:
			text = binary.BigEndian.AppendUint64(append(text, 'i'), uint64(value))
		case string:
			text = append(binary.BigEndian.AppendUint64(append(text, 't'), uint64(len(value))), value...)
		case []byte:
			text = append(binary.BigEndian.AppendUint64(append(text, 'b'), uint64(len(value))), value...)
		}
	}
	return text
}
