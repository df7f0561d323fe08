package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver that goose works through
)

// generation is this binary's schema generation. A migration that older binaries cannot
// work with sets the oldest generation that can.
const generation = 3

//go:embed migrations/*.sql
var migrations embed.FS

// Schema returns the text of all migrations, which identifies the schema.
func Schema() (string, error) {
	var text strings.Builder
	err := fs.WalkDir(migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		one, err := fs.ReadFile(migrations, path)
		text.Write(one)
		return err
	})
	return text.String(), err
}

// checkSchema checks that binary and schema match. Only a node migrates: a tool that runs
// beside one must not.
func (db *DB) checkSchema(ctx context.Context, options Options) error {
	// goose needs a database/sql pool; it is closed before the first write.
	pool, err := sql.Open("sqlite", address(db.path)+"&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		return fmt.Errorf("open %s: %w", db.path, err)
	}
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	oldest, err := oldestGeneration(ctx, pool)
	if err != nil {
		return fmt.Errorf("read the schema of %s: %w", db.path, err)
	}
	if oldest > generation {
		return fmt.Errorf("the store at %s was migrated by a newer release, and needs a binary of generation %d or later "+
			"(this one is %d): install the newer release", db.path, oldest, generation)
	}
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, folder)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	pending, err := provider.HasPending(ctx)
	if err != nil {
		return fmt.Errorf("compare the schema of %s: %w", db.path, err)
	}
	if options.Role == Node {
		if pending && oldest > 0 && options.Progress != nil {
			options.Progress("the schema is brought up to date, which takes a minute for some 100,000 subscribers")
		}
		if _, err := provider.Up(ctx); err != nil {
			return fmt.Errorf("migrate %s: %w", db.path, err)
		}
		if err := sqlstore.RefuseUnfinishedCopy(ctx, pool); err != nil {
			return err
		}
		if err := fillReferences(ctx, pool); err != nil {
			return fmt.Errorf("fill in the references of %s: %w", db.path, err)
		}
		return nil
	}
	if pending {
		return fmt.Errorf("the schema of %s is older than this binary: run `coax migrate`, or restart the node with this release", db.path)
	}
	return nil
}

// oldestGeneration returns the oldest generation that the schema allows; 0 for a store
// without a schema.
func oldestGeneration(ctx context.Context, pool *sql.DB) (int, error) {
	var known int
	err := pool.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE name = 'schema_tolerance'`).Scan(&known)
	if err != nil || known == 0 {
		return 0, err
	}
	var oldest int
	err = pool.QueryRowContext(ctx, `SELECT max(oldest_generation) FROM schema_tolerance`).Scan(&oldest)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return oldest, err
}

// OpenSQL opens a store's file for database/sql, with one connection: for a copy of the
// whole store. The caller holds the folder's lock.
func OpenSQL(path string) (*sql.DB, error) {
	pool, err := sql.Open("sqlite", address(path)+"&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	pool.SetMaxOpenConns(1)
	return pool, nil
}
