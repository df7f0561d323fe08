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

// DoubtFile is beside a store whose disk has failed, until somebody has looked at the
// store and trusts it again. It holds what the disk failed with.
func (db *DB) DoubtFile() string { return db.path + ".doubt" }

// leaveDoubt tells whoever opens the store next. A disk that has failed may fail here
// too; the node's last line in its log has the cause all the same.
func (db *DB) leaveDoubt(cause error) {
	file, err := fileowner.OpenFile(db.DoubtFile(), 0o600)
	if err != nil {
		return
	}
	if file.Truncate(0) == nil {
		_, _ = file.WriteString(cause.Error() + "\n")
	}
	_ = file.Close()
}

// Doubt is what the disk failed with under the process before; "" if it did not.
func (db *DB) Doubt() (string, error) {
	cause, err := os.ReadFile(db.DoubtFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read whether the disk has failed: %w", fileowner.Explain(db.DoubtFile(), err))
	}
	return "its disk has failed: " + strings.TrimSpace(string(cause)), nil
}

// Trust removes the doubt.
func (db *DB) Trust() error {
	if err := os.Remove(db.DoubtFile()); err != nil {
		return fmt.Errorf("trust the store again: %w", err)
	}
	return nil
}

// damagesTold is how many damages of a table an error names.
const damagesTold = 3

// Inspect reads every page of the file and says what is wrong with it. That takes
// minutes for a large one; progress hears which table it is at.
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
		told := strings.Join(found[:min(len(found), damagesTold)], ", ")
		damages = append(damages, table+": "+strings.Join(strings.Fields(told), " "))
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
