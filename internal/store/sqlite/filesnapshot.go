package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	engine "zombiezen.com/go/sqlite"

	"github.com/coaxhq/coax/internal/fileowner"
)

// FileSnapshot is one moment of a store's file, read page by page. It takes no lock that a
// writer waits for, and needs no second copy on the disk. While it is open, the write-ahead
// log cannot be reset and grows.
type FileSnapshot struct {
	conn  *connection
	pages int64
	size  int64 // of a page
}

// OpenFileSnapshot begins a snapshot of the store at path, whatever release's it is.
func OpenFileSnapshot(path string) (*FileSnapshot, error) {
	// SQLite's error does not say why it cannot open a file.
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no store at %s", path)
	}
	if err != nil {
		return nil, fileowner.Explain(path, err)
	}
	_ = file.Close()
	opened, err := engine.OpenConn(strings.TrimSuffix(address(path), "?mode=rw")+"?mode=ro", engine.OpenReadOnly|engine.OpenURI)
	if err != nil {
		return nil, openError(path, err)
	}
	opened.SetBusyTimeout(busyTimeout)
	s := &FileSnapshot{conn: &connection{engine: opened, statements: map[string]*statement{}}}
	if err := s.begin(); err != nil {
		_ = s.Close()
		return nil, openError(path, err)
	}
	return s, nil
}

// begin fixes the moment, by the first read of its transaction.
func (s *FileSnapshot) begin() error {
	if _, err := s.conn.Exec("BEGIN"); err != nil {
		return err
	}
	var tables int64
	if err := s.conn.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	if err := s.conn.QueryRow("PRAGMA page_count").Scan(&s.pages); err != nil {
		return err
	}
	return s.conn.QueryRow("PRAGMA page_size").Scan(&s.size)
}

// Bytes is the size of the file at this moment.
func (s *FileSnapshot) Bytes() int64 { return s.pages * s.size }

// Facts are what a backup says about its store.
type Facts struct {
	// Migration is the newest migration, Generation the oldest one of a binary that can work
	// with the schema.
	Migration  int64
	Generation int
	// Actions is the number of the last staff action, and ActionHash its hash; FirstHash is
	// the hash of the first one, which no other store has. None are 0 and nil.
	Actions    int64
	ActionHash []byte
	FirstHash  []byte
	// MarkID and Mark are the store's mark. A copy of another store has that one's id.
	MarkID string
	Mark   int64
}

// Facts reads the facts of the snapshot.
func (s *FileSnapshot) Facts() (f Facts, err error) {
	row := s.conn.QueryRow(`SELECT COALESCE(max(migration), 0), COALESCE(max(oldest_generation), 0) FROM schema_tolerance`)
	if err := row.Scan(&f.Migration, &f.Generation); err != nil {
		return f, fmt.Errorf("it is not a store of Coax: %w", err)
	}
	if f.Migration == 0 {
		return f, errors.New("it is not a store of Coax, or its first migration has not finished")
	}
	if err := s.readMark(&f); err != nil {
		return f, fmt.Errorf("read the store's mark: %w", err)
	}
	err = s.conn.QueryRow(`SELECT id, hash FROM staff_acts ORDER BY id DESC LIMIT 1`).Scan(&f.Actions, &f.ActionHash)
	if errors.Is(err, sql.ErrNoRows) {
		return f, nil
	}
	if err == nil {
		err = s.conn.QueryRow(`SELECT hash FROM staff_acts ORDER BY id LIMIT 1`).Scan(&f.FirstHash)
	}
	return f, err
}

// readMark reads the mark of a store that has one.
func (s *FileSnapshot) readMark(f *Facts) error {
	var tables int64
	err := s.conn.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'store_mark'`).Scan(&tables)
	if err != nil || tables == 0 {
		return err
	}
	err = s.conn.QueryRow(`SELECT CASE WHEN state = 'copied' THEN previous_id ELSE store_id END, value FROM store_mark`).Scan(&f.MarkID, &f.Mark)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// WriteTo writes the whole file, as it would be after a checkpoint.
func (s *FileSnapshot) WriteTo(ctx context.Context, to io.Writer, progress func(done, of int64)) error {
	statement, err := s.conn.prepare("SELECT data FROM sqlite_dbpage", nil)
	if err != nil {
		return fmt.Errorf("read the store's pages: %w", err)
	}
	defer statement.finish()
	page := make([]byte, s.size)
	for n := int64(0); ; n++ {
		if n%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			progress(n*s.size, s.Bytes())
		}
		row, err := s.conn.step(statement)
		if err != nil {
			return fmt.Errorf("read page %d of the store: %w", n+1, err)
		}
		if !row {
			if n != s.pages {
				return fmt.Errorf("read the store's pages: %d of %d", n, s.pages)
			}
			progress(s.Bytes(), s.Bytes())
			return nil
		}
		if got := statement.ColumnBytes(0, page); int64(got) != s.size {
			return fmt.Errorf("page %d of the store has %d bytes; expected %d", n+1, got, s.size)
		}
		if _, err := to.Write(page); err != nil {
			return err
		}
	}
}

// Close ends the snapshot.
func (s *FileSnapshot) Close() error { return s.conn.close() }

// Generation is the schema generation of this binary.
func Generation() int { return generation }

// NewestMigration returns the number of this binary's newest migration.
func NewestMigration() (int64, error) {
	entries, err := migrations.ReadDir("migrations")
	if err != nil || len(entries) == 0 {
		return 0, errors.Join(err, errors.New("there are no migrations"))
	}
	var number int64
	_, err = fmt.Sscanf(entries[len(entries)-1].Name(), "%d_", &number)
	return number, err
}

// IsFull reports whether an error of SQLite, of either driver, is that of a full disk. For the
// index of the write-ahead log, SQLite has an error of its own.
func IsFull(err error) bool {
	code := engine.ErrCode(err)
	var coded interface{ Code() int } // of modernc.org/sqlite
	if errors.As(err, &coded) {
		code = engine.ResultCode(coded.Code())
	}
	return code.ToPrimary() == engine.ResultFull || code == engine.ResultIOErrSHMSize
}
