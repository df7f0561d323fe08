package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/acmecert"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/receipt"
	"github.com/coaxhq/coax/internal/replica"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/retention"
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
	acmecert.Store
	retention.Store
	receipt.Store
	CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, primary uint32, now time.Time) error
	Ready(ctx context.Context) error
	Migrations(ctx context.Context) (int, error)
	Broken() <-chan struct{}
	Queued() int
	// Written grows with every write of this process that was committed, or may have been.
	Written() uint64
	// ExpectMark makes new connections check the store's mark, where they may lead to a
	// store that was put back. found is called, on any goroutine, once a restore is recorded.
	ExpectMark(storeID string, value int64, found func())
	Close() error
}

// StoreOptions are the options of OpenStore.
type StoreOptions struct {
	// Tool is set by a command that works beside nodes.
	Tool    bool
	metrics *telemetry.Metrics
	// Security receives audit entries; it may be nil.
	Security *telemetry.Security
	// Progress is told what takes long in a large store before it opens; it may be nil.
	Progress func(text string)
}

// OpenStore opens the store that the configuration names.
func OpenStore(ctx context.Context, config Config, options StoreOptions) (opened Store, err error) {
	if config.Store.Kind == "postgres" {
		opened, err = openPostgres(ctx, config.Store, options)
	} else {
		opened, err = openSQLite(ctx, config, options)
	}
	if err != nil {
		return nil, fmt.Errorf("store.url %s: %w", config.Store.Address(), err)
	}
	return opened, nil
}

func openSQLite(ctx context.Context, all Config, options StoreOptions) (Store, error) {
	config := all.Store
	chosen := sqlite.Options{OnAuditEntry: auditEntriesTo(options.Security), Progress: options.Progress}
	var kept *replicaWatch
	if config.Replica != "" {
		kept = &replicaWatch{address: replica.Redact(config.Replica), log: slog.Default(), now: time.Now}
		installation, err := json.Marshal(describe(all))
		if err != nil {
			return nil, err
		}
		chosen.Replication = kept.replication(config, installation)
	}
	if options.Tool {
		chosen.Role = sqlite.Tool
	}
	if options.metrics != nil {
		chosen.Observe = batches{options.metrics.Batches("write")}
	}
	db, err := sqlite.Open(ctx, config.Path, chosen)
	if err != nil || kept == nil || options.Tool {
		return db, err
	}
	return replicatedStore{db, kept}, nil
}

func openPostgres(ctx context.Context, config StoreConfig, options StoreOptions) (Store, error) {
	chosen := postgres.Options{OnAuditEntry: auditEntriesTo(options.Security), Progress: options.Progress, Begin: func() error { return checkNewStore(ctx, config) }}
	if options.Tool {
		chosen.Role = postgres.Tool
	}
	if options.metrics != nil {
		chosen.Observe = batchersOf(options.metrics)
	}
	return postgres.Open(ctx, config.URL, chosen)
}

// StoreConfig is where the store is.
type StoreConfig struct {
	// Kind is sqlite or postgres; Path is the SQLite file's.
	Kind string
	Path string
	URL  string
	// SQLiteDefault is the default path of a SQLite store, if Kind is postgres; New allows
	// an empty store on PostgreSQL although that file has operators.
	SQLiteDefault string
	New           bool
	// MarkFile is the file with this node's mark of the store; empty in a configuration made
	// by hand, for which no mark is kept.
	MarkFile string
	// Replica is the address of the replica, which may have a password; empty for none.
	Replica     string
	ReplicaMode string
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
	text, where, err := readMasterKey(config, environ)
	if err != nil {
		return nil, err
	}
	vault, err := access.OpenVault(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return vault, nil
}

// readMasterKey reads the text of the master key. where says where it is from, for messages.
func readMasterKey(config Config, environ []string) (text []byte, where string, err error) {
	for _, entry := range environ {
		if text, found := strings.CutPrefix(entry, MasterKeyVariable+"="); found && text != "" {
			return []byte(text), MasterKeyVariable, nil
		}
	}
	path := config.Secrets.MasterKeyFile
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("there is no master key at %s: restore it from its backup, set secrets.master_key_file, "+
			"or, for a new installation, let `coax init` make one", path)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the master key: %w", fileowner.Explain(path, err))
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, "", fmt.Errorf("the master key at %s can be read by others (mode %04o): chmod 0400 it", path, info.Mode().Perm())
	}
	text, err = os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read the master key: %w", fileowner.Explain(path, err))
	}
	return text, "the master key at " + path, nil
}

// UnlockStore checks that the store was sealed with this master key, gives the vault the keys
// that the store has, and the store those that sign staff actions. If they are not signed
// yet, signing starts.
func UnlockStore(ctx context.Context, store Store, vault *access.Vault, now time.Time) (sealed int64, started bool, err error) {
	if err := store.CheckMasterKeys(ctx, vault.CheckValues(), vault.PrimaryID(), now); err != nil {
		return 0, false, err
	}
	keys, err := store.StoreKeys(ctx)
	if err != nil {
		return 0, false, err
	}
	if err := vault.UseStoreKeys(keys); err != nil {
		return 0, false, err
	}
	return store.UseIntegrityKeys(ctx, integrity.NewKeys(vault.DataKeyID(), vault.Derive), now)
}

// Clock returns the service's clock: the machine's, moved by the demo's offset, in the
// milliseconds that both kinds of store have.
func Clock(offset time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(offset).UTC().Truncate(time.Millisecond) }
}
