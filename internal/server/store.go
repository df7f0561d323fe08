package server

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
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/telemetry"
)

// Store is everything that a node needs of its store.
type Store interface {
	access.Store
	admin.Store
	catalogue.Store
	login.Store
	operation.ReviewStore
	report.Store
	requestlog.Store
	bulk.Store
	integrity.Store
	CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, now time.Time) error
	Ready(ctx context.Context) error
	Migrations(ctx context.Context) (int, error)
	Broken() <-chan struct{}
	Queued() int
	Close() error
}

// StoreOptions are the options of OpenStore.
type StoreOptions struct {
	// Tool is set by a command that works beside nodes.
	Tool    bool
	observe *batches
	// Security receives audit entries; it may be nil.
	Security *telemetry.Security
}

// OpenStore opens the store that the configuration names.
func OpenStore(ctx context.Context, config Config, options StoreOptions) (opened Store, err error) {
	if config.Store.Kind == "postgres" {
		opened, err = openPostgres(ctx, config.Store, options)
	} else {
		opened, err = openSQLite(ctx, config.Store.Path, options)
	}
	if err != nil {
		return nil, fmt.Errorf("store.url %s: %w", config.Store.Address(), err)
	}
	return opened, nil
}

func openSQLite(ctx context.Context, path string, options StoreOptions) (Store, error) {
	chosen := sqlite.Options{OnAuditEntry: auditEntriesTo(options.Security)}
	if options.Tool {
		chosen.Role = sqlite.Tool
	}
	if options.observe != nil {
		chosen.Observe = options.observe
	}
	return sqlite.Open(ctx, path, chosen)
}

func openPostgres(ctx context.Context, config StoreConfig, options StoreOptions) (Store, error) {
	chosen := postgres.Options{OnAuditEntry: auditEntriesTo(options.Security), Begin: func() error { return checkNewStore(ctx, config) }}
	if options.Tool {
		chosen.Role = postgres.Tool
	}
	if options.observe != nil {
		chosen.Observe = options.observe
	}
	return postgres.Open(ctx, config.URL, chosen)
}

// Address returns the store's address without a password.
func (s StoreConfig) Address() string {
	if s.Kind == "postgres" {
		return postgres.Redact(s.URL)
	}
	return s.URL
}

// Place returns the store's file path or address, for messages.
func (s StoreConfig) Place() string {
	if s.Kind == "postgres" {
		return s.Address()
	}
	return s.Path
}

// MasterKeyVariable is the environment variable that replaces the master key's file.
const MasterKeyVariable = "COAX_MASTER_KEY"

// OpenVault reads the master key from the environment or from its file.
func OpenVault(config Config, environ []string) (*access.Vault, error) {
	for _, entry := range environ {
		if text, found := strings.CutPrefix(entry, MasterKeyVariable+"="); found && text != "" {
			vault, err := access.OpenVault([]byte(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", MasterKeyVariable, err)
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
		return nil, fmt.Errorf("read the master key: %w", fileowner.Explain(path, err))
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the master key at %s can be read by others (mode %04o): chmod 0400 it", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", fileowner.Explain(path, err))
	}
	vault, err := access.OpenVault(text)
	if err != nil {
		return nil, fmt.Errorf("the master key at %s: %w", path, err)
	}
	return vault, nil
}

// UnlockStore checks that the store was sealed with this master key, and gives it the keys
// that sign staff actions. If they are not signed yet, signing starts.
func UnlockStore(ctx context.Context, store Store, vault *access.Vault, now time.Time) (sealed int64, started bool, err error) {
	if err := store.CheckMasterKeys(ctx, vault.CheckValues(), now); err != nil {
		return 0, false, err
	}
	return store.UseIntegrityKeys(ctx, integrity.NewKeys(vault.PrimaryID(), vault.Derive), now)
}

// Clock returns the service's clock: the machine's, moved by the demo's offset, in the
// milliseconds that both kinds of store have.
func Clock(offset time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(offset).UTC().Truncate(time.Millisecond) }
}
