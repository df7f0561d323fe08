package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// generation is this binary's place in the line of schemas. A migration that
// older binaries cannot live with names the generation that can.
const generation = 2

//go:embed migrations/*.sql
var migrations embed.FS

// Schema is the text of all migrations: two stores of one text have one schema.
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

const (
	// migrateTries is how often a node tries to bring the schema up to date
	// while others do so, too.
	migrateTries = 20
	// A migration wants tables for itself, and whoever else wants them queues up
	// behind it. Where it does not get them soon, because an audit or a backup
	// reads them, it stands back, and comes again.
	migrateLockTimeout = "500ms"
	migratePause       = time.Second
	migrateStandsBack  = 200
)

// checkSchema makes sure that binary and schema fit. Only a node changes the
// schema: a tool that runs beside one must not.
func (db *DB) checkSchema(ctx context.Context, role Role) error {
	oldest, err := db.oldestGeneration(ctx)
	if err != nil {
		return fmt.Errorf("read the schema of %s: %w", db.where, err)
	}
	if oldest > generation {
		return fmt.Errorf("the store at %s was migrated by a newer release, and needs a binary of generation %d or later "+
			"(this one is %d): install the newer release", db.where, oldest, generation)
	}
	config := db.pool.Config().ConnConfig
	config.RuntimeParams["lock_timeout"] = migrateLockTimeout
	defaultPlanning(config)
	handle := stdlib.OpenDB(*config)
	defer handle.Close()
	provider, err := newProvider(handle)
	if err != nil {
		return err
	}
	if role == Node {
		if err := db.migrate(ctx, provider); err != nil {
			return err
		}
		return db.fillReferences(ctx)
	}
	if oldest == 0 {
		return fmt.Errorf("there is no store at %s yet: start a node or run `coax migrate` first", db.where)
	}
	pending, err := provider.HasPending(ctx)
	if err != nil {
		return fmt.Errorf("compare the schema of %s: %w", db.where, err)
	}
	if pending {
		return fmt.Errorf("the schema of %s is older than this binary: run `coax migrate`, or restart a node with this release", db.where)
	}
	return nil
}

func newProvider(handle *sql.DB) (*goose.Provider, error) {
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, handle, folder)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}

// migrating keeps nodes of one process apart, as happens in tests.
var migrating sync.Mutex

// migrate brings the schema up to date. Nodes that start together need no lock
// to agree: each migration is one transaction that begins by creating or
// inserting what can be there only once, so that all but one of them fail whole
// and find it done when they look again.
func (db *DB) migrate(ctx context.Context, provider *goose.Provider) error {
	migrating.Lock()
	defer migrating.Unlock()
	for tries, waits := 1, 0; ; {
		_, err := provider.Up(ctx)
		if err == nil {
			return nil
		}
		if pending, look := provider.HasPending(ctx); look == nil && !pending {
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("migrate %s: %w", db.where, err)
		case sqlState(err) == lockNotAvailable && waits < migrateStandsBack:
			waits++
			select {
			case <-ctx.Done():
			case <-time.After(migratePause):
			}
		case sqlState(err) == lockNotAvailable:
			return fmt.Errorf("migrate %s: %w; something has held its tables for minutes: wait for the audit or backup that does, or end it", db.where, err)
		case tries == migrateTries:
			return fmt.Errorf("migrate %s: %w", db.where, err)
		default:
			tries++
		}
	}
}

// oldestGeneration is the oldest binary the schema tolerates; 0 for a store
// that has no schema yet.
func (db *DB) oldestGeneration(ctx context.Context) (int, error) {
	var known bool
	if err := db.pool.QueryRow(ctx, `SELECT to_regclass('schema_tolerance') IS NOT NULL`).Scan(&known); err != nil || !known {
		return 0, err
	}
	var oldest int
	err := db.pool.QueryRow(ctx, `SELECT coalesce(max(oldest_generation), 0) FROM schema_tolerance`).Scan(&oldest)
	return oldest, err
}
