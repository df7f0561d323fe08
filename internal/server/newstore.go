package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/coaxhq/coax/internal/fileowner"
)

// checkNewStore refuses to create an empty store on PostgreSQL while the configuration's
// folder has a SQLite store with operators: most likely store.url was changed without
// moving the data, and the service would start without customers and wallets.
func checkNewStore(ctx context.Context, config StoreConfig) error {
	if config.New || config.SQLiteDefault == "" {
		return nil
	}
	if _, err := os.Stat(config.SQLiteDefault); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	const ways = "copy it with `coax store copy`, set store.url to sqlite:%[1]s to go on with it, or give --new-store to begin an empty store on PostgreSQL"
	switch found, err := sqliteHasOperators(ctx, config.SQLiteDefault); {
	case err != nil:
		return fmt.Errorf("it has no operators, and whether the SQLite store at %[1]s has some cannot be read (%[2]w): "+ways,
			config.SQLiteDefault, fileowner.Explain(config.SQLiteDefault, err))
	case found:
		return fmt.Errorf("it has no operators, and the SQLite store at %[1]s has some: "+ways, config.SQLiteDefault)
	}
	return nil
}

func sqliteHasOperators(ctx context.Context, path string) (found bool, err error) {
	pool, err := openReadOnly(path)
	if err != nil {
		return false, err
	}
	defer pool.Close()
	err = pool.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'operators')`).Scan(&found)
	if err != nil || !found {
		return false, err
	}
	err = pool.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM operators)`).Scan(&found)
	return found, err
}

// openReadOnly opens a SQLite file for reading only.
func openReadOnly(path string) (*sql.DB, error) {
	// SQLite's error does not say why it cannot open a file.
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	_ = file.Close()
	escaped := (&url.URL{Path: path}).EscapedPath()
	return sql.Open("sqlite", "file:"+escaped+"?mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)&_pragma=cache_size(-65536)")
}
