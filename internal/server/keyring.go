package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/integrity"
)

const (
	// keyringEvery is how often a node looks whether the master key was rotated.
	keyringEvery = 2 * time.Second
	// reportEvery is how often a node says that it runs, where several nodes share a store.
	reportEvery = 15 * time.Second
	// rereadEvery bounds how often requests make a node read the store's keys.
	rereadEvery = time.Second
	// keyringTimeout bounds one look, and a report.
	keyringTimeout = 5 * time.Second
)

// keyring keeps a node's vault as the ring's file and the store have it, and reports to the
// store which master keys the node holds.
type keyring struct {
	store   Store
	vault   *access.Vault
	config  Config
	environ []string
	name    string
	now     func() time.Time
	log     *slog.Logger

	// reading is held while the store's keys are read; version and readAt are of the last time.
	reading sync.Mutex
	version int64
	readAt  time.Time

	reported admin.NodeKeys // the last report
	failed   bool           // the last look failed
	// problem is why the store's keys cannot be used; nil if they can.
	problem atomic.Pointer[error]
}

func newKeyring(store Store, vault *access.Vault, config Config, environ []string, name string, now func() time.Time, log *slog.Logger) *keyring {
	return &keyring{store: store, vault: vault, config: config, environ: environ, name: name, now: now, log: log, reported: nodeKeys(vault, name, now())}
}

func nodeKeys(vault *access.Vault, name string, now time.Time) admin.NodeKeys {
	return admin.NodeKeys{Name: name, Release: release, Keys: vault.KeyTokens(), Sealing: vault.PrimaryID(), SeenAt: now}
}

// nodeName returns a name that no other process on the store has.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	// Containers share a process id, and sometimes a host name.
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), client.NewNonce()[:8])
}

// unlockAsNode is UnlockStore for a node. It reports its keys first: a rotation then either
// finds the node, or is found by it.
func unlockAsNode(ctx context.Context, store Store, vault *access.Vault, name string, now time.Time) (sealed int64, started bool, err error) {
	if err := store.ReportNode(ctx, nodeKeys(vault, name, now)); err != nil {
		return 0, false, err
	}
	if sealed, started, err = UnlockStore(ctx, store, vault, now); err != nil {
		_ = store.ForgetNode(ctx, name)
		return 0, false, err
	}
	return sealed, started, store.ReportNode(ctx, nodeKeys(vault, name, now))
}

// watchKeyring reads the ring again on SIGHUP, and the store's keys after a rotation.
func (n *Node) watchKeyring(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ticker := time.NewTicker(keyringEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			n.keyring.reload()
		case <-ticker.C:
		}
		n.keyring.look(ctx)
	}
}

// reload reads the ring again. One that cannot be used is not taken.
func (k *keyring) reload() {
	before := k.vault.KeyTokens()
	text, where, err := readMasterKey(k.config, k.environ)
	if err == nil {
		err = k.vault.Reload(text)
	}
	if err != nil {
		k.log.Error("the master key was not read again; the ring in use stays", "error", err)
		return
	}
	if k.vault.KeyTokens() != before {
		k.log.Info("the master key was read again", "from", where, "keys", len(k.vault.CheckValues()))
	}
}

// look reads the store's keys if they have changed, and reports. While the store cannot be read,
// everything stays as it is: Ready says so.
func (k *keyring) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, keyringTimeout)
	defer cancel()
	err := k.read(ctx)
	unusable, before := (*unusableKeysError)(nil), k.err()
	switch {
	case errors.As(err, &unusable) && before == nil:
		k.log.Error("the store's keys cannot be used", "error", err)
		k.problem.Store(&err)
	case err == nil && before != nil:
		k.log.Info("the store's keys can be used again")
		k.problem.Store(nil)
	}
	if err == nil {
		err = k.report(ctx)
	}
	if failed := err != nil && unusable == nil; failed != k.failed && ctx.Err() == nil {
		if k.failed = failed; failed {
			k.log.Warn("look whether the master key was rotated", "error", err)
		}
	}
}

// unusableKeysError says that the ring cannot open the store's keys.
type unusableKeysError struct{ err error }

func (e *unusableKeysError) Error() string { return e.err.Error() }
func (e *unusableKeysError) Unwrap() error { return e.err }

// err returns why the store's keys cannot be used; nil if they can.
func (k *keyring) err() error {
	if problem := k.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

func (k *keyring) read(ctx context.Context) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	version, err := k.store.KeyringVersion(ctx)
	if err != nil || version == k.version {
		return err
	}
	keys, err := k.store.StoreKeys(ctx)
	if err != nil {
		return err
	}
	if err := k.vault.UseStoreKeys(keys); err != nil {
		return &unusableKeysError{err}
	}
	// New staff actions and digests are signed with the new data key.
	if _, _, err := k.store.UseIntegrityKeys(ctx, integrity.NewKeys(k.vault.DataKeyID(), k.vault.Derive), k.now()); err != nil {
		return err
	}
	k.version = version
	return nil
}

// rereadSoon is called where a request meets a data key that is not known: another node has
// begun to use it.
func (k *keyring) rereadSoon() {
	k.reading.Lock()
	due := time.Since(k.readAt) >= rereadEvery
	if due {
		k.readAt = time.Now()
	}
	k.reading.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), keyringTimeout)
	defer cancel()
	if err := k.read(ctx); err != nil {
		k.log.Warn("read the store's keys", "error", err)
	}
}

// report writes which keys the node holds, if they have changed, or if other nodes want to
// know that it runs. A node that has a store for itself is known by its lock.
func (k *keyring) report(ctx context.Context) error {
	now := nodeKeys(k.vault, k.name, k.now())
	same := now.Keys == k.reported.Keys && now.Sealing == k.reported.Sealing
	if same && (k.config.Store.Kind == "sqlite" || now.SeenAt.Sub(k.reported.SeenAt).Abs() < reportEvery) {
		return nil
	}
	if err := k.store.ReportNode(ctx, now); err != nil {
		return fmt.Errorf("report this node's keys: %w", err)
	}
	k.reported = now
	return nil
}

// forget removes the node from those that run.
func (k *keyring) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), keyringTimeout)
	defer cancel()
	if err := k.store.ForgetNode(ctx, k.name); err != nil {
		k.log.Warn("remove this node from those that run", "error", err)
	}
}
