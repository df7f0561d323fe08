package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// store is everything the house asks of where it keeps things.
type store interface {
	access.Store
	admin.Store
	catalogue.Store
	login.Store
	operation.ReviewStore
	report.Store
	requestlog.Store
	bulk.Store
	CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, now time.Time) error
	Ready(ctx context.Context) error
	Migrations(ctx context.Context) (int, error)
	Broken() <-chan struct{}
	Queued() int
	Close() error
}

// storeOptions are what opening a store can be told.
type storeOptions struct {
	// tool is for a command that works beside nodes, not for a node.
	tool    bool
	observe *batches
}

// openStore opens the store that the configuration names.
func openStore(ctx context.Context, config Config, options storeOptions) (opened store, err error) {
	if config.Store.Kind == "postgres" {
		opened, err = openPostgres(ctx, config.Store.URL, options)
	} else {
		opened, err = openSQLite(ctx, config.Store.Path, options)
	}
	if err != nil {
		return nil, fmt.Errorf("store.url %s: %w", config.Store.address(), err)
	}
	return opened, nil
}

func openSQLite(ctx context.Context, path string, options storeOptions) (store, error) {
	chosen := sqlite.Options{}
	if options.tool {
		chosen.Role = sqlite.Tool
	}
	if options.observe != nil {
		chosen.Observe = options.observe
	}
	return sqlite.Open(ctx, path, chosen)
}

func openPostgres(ctx context.Context, address string, options storeOptions) (store, error) {
	chosen := postgres.Options{}
	if options.tool {
		chosen.Role = postgres.Tool
	}
	if options.observe != nil {
		chosen.Observe = options.observe
	}
	return postgres.Open(ctx, address, chosen)
}

// address is a store's address without a password.
func (s storeConfig) address() string {
	if s.Kind == "postgres" {
		return postgres.Redact(s.URL)
	}
	return s.URL
}

// place says for people where a store is: a file's path, or an address.
func (s storeConfig) place() string {
	if s.Kind == "postgres" {
		return s.address()
	}
	return s.Path
}

// masterKeyVariable holds the master key itself, where a file is not wanted.
const masterKeyVariable = "COAX_MASTER_KEY"

// openVault reads the master key from the environment or from its file.
func openVault(config Config, environ []string) (*access.Vault, error) {
	for _, entry := range environ {
		if text, found := strings.CutPrefix(entry, masterKeyVariable+"="); found && text != "" {
			vault, err := access.OpenVault([]byte(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", masterKeyVariable, err)
			}
			return vault, nil
		}
	}
	path := config.Secrets.MasterKeyFile
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no master key at %s: restore it from its backup, set secrets.master_key_file, "+
			"or, for a new installation, let `coax init` make one", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the master key at %s can be read by others (mode %04o): chmod 0400 it", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	vault, err := access.OpenVault(text)
	if err != nil {
		return nil, fmt.Errorf("the master key at %s: %w", path, err)
	}
	return vault, nil
}

// clock is the service's sense of time: the machine's, cut to what both kinds
// of store can keep, and moved by the demo's offset.
func clock(offset time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(offset).UTC().Truncate(time.Millisecond) }
}
