package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/coaxhq/coax/internal/acmecert"
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// storeState is a store's state, read without changing anything.
type storeState struct {
	sqlstore.State
	// acme is the certificate of server.acme_domains.
	acme acmecert.State
	// newest and generation are this binary's.
	newest     int64
	generation int
	// off is by how much this machine's clock is ahead of the store's, if that has one.
	off      time.Duration
	hasClock bool
}

// errNoStore is returned where there is no store yet.
var errNoStore = errors.New("there is no store yet")

// readStoreState reads the state of a store of any release.
func readStoreState(ctx context.Context, config Config, proofs map[uint32][]byte) (s storeState, err error) {
	if config.Store.Kind == "postgres" {
		s.generation = postgres.Generation()
		s.newest, err = postgres.NewestMigration()
	} else {
		s.generation = sqlite.Generation()
		s.newest, err = sqlite.NewestMigration()
	}
	if err != nil {
		return s, err
	}
	err = lookAtStore(ctx, config.Store, func(from sqlstore.Querier) error {
		if config.Store.Kind == "postgres" {
			watch := clockWatch{store: queriedClock{from}, now: time.Now}
			if err := watch.Check(ctx); err != nil {
				return err
			}
			s.off, s.hasClock = time.Duration(watch.off.Load()), true
		}
		s.State, err = sqlstore.ReadState(from, s.newest, config.Provider.Name, proofs)
		if err == nil && s.Complete && len(config.Server.ACMEDomains) > 0 {
			s.acme, err = sqlstore.ReadACMEState(from, acmecert.CertificateID(config.Server.ACMEDirectory, config.Server.ACMEDomains))
		}
		return err
	})
	return s, err
}

// queriedClock is the clock of a database.
type queriedClock struct{ from sqlstore.Querier }

func (c queriedClock) ServerTime(context.Context) (at time.Time, err error) {
	err = c.from.QueryRow(`SELECT clock_timestamp()`).Scan(&at)
	return at, err
}

// lookAtStore reads a store of any release in one transaction, also beside nodes. It creates
// no file and takes no lock that a node waits for. read may be called several times.
func lookAtStore(ctx context.Context, config StoreConfig, read func(sqlstore.Querier) error) error {
	if config.Kind == "postgres" {
		pool, err := postgres.OpenSQL(config.URL)
		if err != nil {
			return err
		}
		defer pool.Close()
		return lookThrough(ctx, pool, `SELECT count(*) FROM pg_class WHERE oid = to_regclass('schema_tolerance')`, read)
	}
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return err
	}
	// A node that starts or stops meanwhile makes or removes the log.
	for range 3 {
		pool, unchanged, openErr := openUnchanged(path)
		if openErr != nil {
			return openErr
		}
		err = lookThrough(ctx, pool, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_tolerance'`, read)
		err = errors.Join(err, pool.Close())
		if unchanged() {
			break
		}
	}
	return err
}

// openUnchanged opens a SQLite file so that no other file is created beside it, as SQLite does
// even to read a store that no node has open. unchanged reports whether the log, which it was
// opened with or without, is still there or not.
func openUnchanged(path string) (pool *sql.DB, unchanged func() bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w at %s", errNoStore, path)
	}
	if err != nil {
		return nil, nil, fileowner.Explain(path, err)
	}
	_ = file.Close()
	size := func(suffix string) int64 {
		if info, err := os.Stat(path + suffix); err == nil {
			return info.Size()
		}
		return -1
	}
	log, index := size("-wal"), size("-shm")
	mode := "mode=ro"
	switch {
	case log < 0 || log == 0 && index < 0:
		mode += "&immutable=1" // everything is in the file
	case index < 0:
		return nil, nil, fmt.Errorf("%[1]s-wal is there and %[1]s-shm is not, so it cannot be read without making that: start a node, which puts it in order", path)
	}
	escaped := (&url.URL{Path: path}).EscapedPath()
	pool, err = sql.Open("sqlite", "file:"+escaped+"?"+mode+"&_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	return pool, func() bool { return (log < 0) == (size("-wal") < 0) }, err
}

// lookThrough calls read with a transaction. exists counts the tables named schema_tolerance.
func lookThrough(ctx context.Context, pool *sql.DB, exists string, read func(sqlstore.Querier) error) error {
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var tables int
	if err := tx.QueryRowContext(ctx, exists).Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		return errNoStore
	}
	return read(txQuerier{ctx, tx})
}

// choicesTimeout bounds a completion: a person waits for it.
const choicesTimeout = time.Second

// Choices returns what a flag that names something in the store can be; none if the store
// cannot be read.
func Choices(ctx context.Context, from Sources, what sqlstore.Choosable) []sqlstore.Choice {
	config, err := LoadConfig(from)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, choicesTimeout)
	defer cancel()
	var all []sqlstore.Choice
	err = lookAtStore(ctx, config.Store, func(q sqlstore.Querier) error {
		all, err = sqlstore.ReadChoices(q, what)
		return err
	})
	if err != nil {
		return nil
	}
	return all
}

// txQuerier is a transaction of database/sql as the stores' code reads from it.
type txQuerier struct {
	ctx context.Context
	tx  *sql.Tx
}

func (q txQuerier) QueryRow(query string, args ...any) sqlstore.Row {
	return q.tx.QueryRowContext(q.ctx, query, args...)
}

func (q txQuerier) Query(query string, args ...any) (sqlstore.Rows, error) {
	rows, err := q.tx.QueryContext(q.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return sqlRows{rows}, nil
}

// sqlRows are rows of database/sql, whose errors on closing are those of reading.
type sqlRows struct{ *sql.Rows }

func (r sqlRows) Close() { _ = r.Rows.Close() }
