package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// DiskFailureFile is the path of the file that marks a store whose disk has failed, until
// the store was inspected. It has the error.
func (db *DB) DiskFailureFile() string { return DiskFailureFile(db.path) }

// DiskFailureFile is DB.DiskFailureFile for the store at path.
func DiskFailureFile(path string) string { return path + ".doubt" }

// recordDiskFailure writes the file for the next process. That may fail too on such a
// disk; the node logs the cause in any case.
func (db *DB) recordDiskFailure(cause error) {
	file, err := fileowner.OpenFile(db.DiskFailureFile(), 0o600)
	if err != nil {
		return
	}
	if file.Truncate(0) == nil {
		_, _ = file.WriteString(cause.Error() + "\n")
	}
	_ = file.Close()
}

// DiskFailure returns the disk error of an earlier process; "" if there was none.
func (db *DB) DiskFailure() (string, error) {
	cause, err := os.ReadFile(db.DiskFailureFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the disk failure file: %w", fileowner.Explain(db.DiskFailureFile(), err))
	}
	return "its disk has failed: " + strings.TrimSpace(string(cause)), nil
}

// ClearDiskFailure removes the file.
func (db *DB) ClearDiskFailure() error {
	if err := os.Remove(db.DiskFailureFile()); err != nil {
		return fmt.Errorf("remove the disk failure file: %w", err)
	}
	return nil
}

// maxDamages is how many damages of a table an error lists.
const maxDamages = 3

// Inspect reads every page of the file and returns what is damaged as an error. That
// takes minutes for a large file; progress is called with each table's name.
func (db *DB) Inspect(ctx context.Context, progress func(table string)) error {
	tables, err := db.texts(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY rowid`)
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	var damages []string
	for _, table := range tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		progress(table)
		found, err := db.texts(ctx, fmt.Sprintf(`PRAGMA quick_check(%s)`, table))
		if err != nil {
			found = []string{err.Error()}
		}
		if len(found) == 1 && found[0] == "ok" {
			continue
		}
		listed := strings.Join(found[:min(len(found), maxDamages)], ", ")
		damages = append(damages, table+": "+strings.Join(strings.Fields(listed), " "))
	}
	if damages == nil {
		return nil
	}
	return errors.New(strings.Join(damages, "; "))
}

func (db *DB) texts(ctx context.Context, query string) ([]string, error) {
	rows, err := db.read(ctx).Query(query)
	return sqlstore.Collect(rows, err, func(row sqlstore.Row) (text string, err error) {
		err = row.Scan(&text)
		return text, err
	})
}
