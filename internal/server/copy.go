package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/transfer"
)

// ReadStoreURL reads the address of a store, as store.url has it.
func ReadStoreURL(url string) (StoreConfig, error) {
	var config Config
	if err := FindSetting("store.url").Read(&config, url); err != nil {
		return StoreConfig{}, err
	}
	if config.Store.Kind == "sqlite" {
		path, err := filepath.Abs(config.Store.Path)
		if err != nil {
			return StoreConfig{}, err
		}
		config.Store.Path = path
	}
	return config.Store, nil
}

// CopiedStore is what CopyStore made.
type CopiedStore struct {
	transfer.Result
	Audit audit.Report
	// Maintenance is the reason of the maintenance that the copy is in because of what the audit
	// found; empty if it found nothing.
	Maintenance string
}

// CopyStore copies a store into an empty one, of the same or the other kind, while no node
// uses either, and audits the copy. Until both are done the target is in maintenance, and the
// next call goes on.
func CopyStore(ctx context.Context, from, to StoreConfig, environ []string, progress func(transfer.Progress)) (result CopiedStore, err error) {
	if from.Place() == to.Place() {
		return result, errors.New("both addresses are the same store")
	}
	if to.Kind == "sqlite" {
		defer func() {
			err = adviseFull(err, "Make room, and call the same command again: it goes on", filepath.Dir(to.Path))
		}()
	}
	source, closeSource, err := openSide(ctx, from, unusedSource)
	if err != nil {
		return result, fmt.Errorf("open the source, %s: %w", from.Place(), err)
	}
	defer func() { err = errors.Join(err, closeSource()) }()
	target, closeTarget, err := openSide(ctx, to, copyTarget)
	if err != nil {
		return result, fmt.Errorf("open the target, %s: %w", to.Place(), err)
	}
	defer func() { err = errors.Join(err, closeTarget()) }()
	copied, err := transfer.Copy(ctx, source, target, time.Now(), progress)
	if err != nil {
		return result, err
	}
	result.Result = copied.Result
	result.Audit, err = auditCopy(ctx, to, copied, environ)
	if err == nil {
		err = failpoint.Hit("C.audited")
	}
	if err != nil {
		return result, err
	}
	violations := int64(len(result.Audit.Violations)) + result.Audit.LeftOut
	if violations == 0 {
		return result, copied.Finish(ctx)
	}
	result.Maintenance = fmt.Sprintf("the copy is equal to its source, and its audit found %d violations; so would one of the source", violations)
	return result, copied.FinishInMaintenance(ctx, result.Maintenance, time.Now())
}

// auditCopy audits a copy as of its source's last moment: what was under way then is not stuck.
func auditCopy(ctx context.Context, to StoreConfig, copied transfer.Copied, environ []string) (audit.Report, error) {
	config, err := LoadConfig(Sources{Sets: []string{"store.url=" + to.URL}})
	if err != nil {
		return audit.Report{}, err
	}
	asOf := copied.AsOf
	if asOf.IsZero() {
		asOf = time.Now()
	}
	return RunAudit(ctx, config, environ, asOf, nil, nil)
}

// side is how a store takes part in a copy.
type side int

const (
	unusedSource side = iota // nobody else may use it
	sourceInUse              // nodes may use it; PostgreSQL only
	copyTarget               // nobody else may use it; it is created, and migrated if need be
)

// openSide opens a store for a copy. A source has to have the schema of this release.
func openSide(ctx context.Context, store StoreConfig, as side) (transfer.Store, func() error, error) {
	if store.Kind == "postgres" {
		return openPostgresSide(ctx, store, as)
	}
	return openSQLiteSide(ctx, store, as)
}

func openSQLiteSide(ctx context.Context, from StoreConfig, as side) (transfer.Store, func() error, error) {
	// A node migrates a store, and completes rows of older releases, which would change a
	// target that is half filled.
	store, err := sqlite.Open(ctx, from.Path, sqlite.Options{Role: sqlite.Tool})
	if err != nil && as == copyTarget {
		store, err = sqlite.Open(ctx, from.Path, sqlite.Options{})
		if errors.Is(err, admin.ErrUnfinishedCopy) { // an older release began it; now it has this one's schema
			store, err = sqlite.Open(ctx, from.Path, sqlite.Options{Role: sqlite.Tool})
		}
	}
	if err != nil {
		return transfer.Store{}, nil, err
	}
	if err := store.Close(); err != nil {
		return transfer.Store{}, nil, err
	}
	// Held until the end, so that no node starts meanwhile.
	lock, err := sqlite.LockFolder(from.Path + ".lock")
	if err != nil {
		return transfer.Store{}, nil, err
	}
	pool, err := sqlite.OpenSQL(from.Path)
	if err != nil {
		return transfer.Store{}, nil, errors.Join(err, lock.Close())
	}
	return transfer.Store{DB: pool}, func() error { return errors.Join(pool.Close(), lock.Close()) }, nil
}

func openPostgresSide(ctx context.Context, from StoreConfig, as side) (transfer.Store, func() error, error) {
	store, err := postgres.Open(ctx, from.URL, postgres.Options{Role: postgres.Tool})
	if err != nil && as == copyTarget {
		store, err = postgres.Open(ctx, from.URL, postgres.Options{})
		if errors.Is(err, admin.ErrUnfinishedCopy) { // an older release began it; now it has this one's schema
			store, err = postgres.Open(ctx, from.URL, postgres.Options{Role: postgres.Tool})
		}
	}
	if err != nil {
		return transfer.Store{}, nil, err
	}
	if err := store.Close(); err != nil {
		return transfer.Store{}, nil, err
	}
	pool, err := postgres.OpenSQL(from.URL)
	if err != nil {
		return transfer.Store{}, nil, err
	}
	if as != sourceInUse {
		if err := requireUnused(ctx, pool); err != nil {
			return transfer.Store{}, nil, errors.Join(err, pool.Close())
		}
	}
	return transfer.Store{DB: pool, Postgres: true}, pool.Close, nil
}

// requireUnused returns an error if others are connected to the database. The server takes a
// moment to end connections that were closed just now.
func requireUnused(ctx context.Context, pool *sql.DB) error {
	patience := time.NewTimer(5 * time.Second)
	defer patience.Stop()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		var others int
		err := pool.QueryRowContext(ctx, `
			SELECT count(*) FROM pg_stat_activity
			 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&others)
		if err != nil || others == 0 {
			return err
		}
		select {
		case <-again.C:
		case <-patience.C:
			return fmt.Errorf("the database is in use by %d other connections: stop every node first", others)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
