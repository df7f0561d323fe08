package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// generation is the schema generation of this binary. A migration that older binaries cannot
// work with names the oldest generation that can.
const generation = 3

//go:embed migrations/*.sql
var migrations embed.FS

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

const (
	// migrateTries is how often a node tries to migrate from one version while other nodes
	// migrate at the same time. Losing to them once per migration is normal.
	migrateTries = 20
	// A migration locks tables exclusively, and other transactions queue behind it. If it
	// does not get its locks soon, because an audit or a backup reads the tables, it gives
	// up and is retried after a pause.
	migrateLockTimeout = "500ms"
	migratePause       = time.Second
	migrateLockRetries = 200
)

// checkSchema makes sure that binary and schema match. Only a node migrates the schema and fills in
// what it needs, not a tool that runs beside one.
func (db *DB) checkSchema(ctx context.Context, options Options) error {
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
	if options.Role == Node {
		if err := db.migrate(ctx, provider); err != nil {
			return err
		}
		if err := sqlstore.RefuseUnfinishedCopy(ctx, handle); err != nil {
			return err
		}
		if err := db.buildIndexes(ctx, handle); err != nil {
			return err
		}
		if err := db.fillReferences(ctx); err != nil {
			return err
		}
		return db.fillSubscriberIndex(ctx, options.Progress)
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

// migrating lets one node of a process migrate at a time; tests run several.
var migrating sync.Mutex

// migrate brings the schema up to date. Nodes that start together need no lock: each
// migration is one transaction that begins by creating or inserting something unique, so all
// but one of them are rolled back, and find the migration done when they retry.
func (db *DB) migrate(ctx context.Context, provider *goose.Provider) error {
	migrating.Lock()
	defer migrating.Unlock()
	var reached int64
	for tries, waits := 1, 0; ; {
		_, err := provider.Up(ctx)
		if err == nil {
			return nil
		}
		if pending, pendingErr := provider.HasPending(ctx); pendingErr == nil && !pending {
			return nil
		}
		if version, versionErr := provider.GetDBVersion(ctx); versionErr == nil && version > reached {
			reached, tries = version, 1
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("migrate %s: %w", db.where, err)
		case sqlState(err) == lockNotAvailable && waits < migrateLockRetries:
			waits++
			select {
			case <-ctx.Done():
			case <-time.After(migratePause):
			}
		case sqlState(err) == lockNotAvailable:
			return fmt.Errorf("migrate %s: %w; its tables have been locked for minutes: wait for the audit or backup that locks them, or end it", db.where, err)
		case tries == migrateTries:
			return fmt.Errorf("migrate %s: %w", db.where, err)
		default:
			tries++
		}
	}
}

// oldestGeneration returns the oldest generation of binaries that can use the schema; 0 if
// the store has no schema yet.
func (db *DB) oldestGeneration(ctx context.Context) (int, error) {
	var known bool
	if err := db.pool.QueryRow(ctx, `SELECT to_regclass('schema_tolerance') IS NOT NULL`).Scan(&known); err != nil || !known {
		return 0, err
	}
	var oldest int
	err := db.pool.QueryRow(ctx, `SELECT coalesce(max(oldest_generation), 0) FROM schema_tolerance`).Scan(&oldest)
	return oldest, err
}
