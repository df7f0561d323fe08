package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/replica"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// replicaWarnEvery is how often a replica that fails is logged.
const replicaWarnEvery = time.Minute

// replicatedStore is a store with a replica, which has a copy of the mark, too.
type replicatedStore struct {
	*sqlite.DB
	watch *replicaWatch
}

// replicaWatch opens the replica of a store and logs its failures.
type replicaWatch struct {
	address string
	log     *slog.Logger
	now     func() time.Time

	mu     sync.Mutex
	opened *replica.Log
	warned time.Time
}

func (w *replicaWatch) replication(config StoreConfig, installation []byte) *sqlite.Replication {
	return &sqlite.Replication{
		Sync: config.ReplicaMode == "sync", Now: w.now, Report: w.report,
		Refused: func(err error) bool { return errors.Is(err, replica.ErrForeign) },
		Open: func(_ context.Context, store string) (sqlite.Replica, error) {
			address, err := replica.ParseAddress(config.Replica)
			if err != nil {
				return nil, err
			}
			log, err := replica.New(address, replica.Options{File: config.Path, Store: store, Installation: installation, Now: w.now, Getenv: os.Getenv})
			if err != nil {
				return nil, &replicaError{w.address, err}
			}
			w.mu.Lock()
			w.opened = log
			w.mu.Unlock()
			return namedReplica{log, w.address}, nil
		},
	}
}

// namedReplica names the replica in errors of the start.
type namedReplica struct {
	*replica.Log
	address string
}

func (r namedReplica) Resume(ctx context.Context) (bool, error) {
	resumed, err := r.Log.Resume(ctx)
	if err != nil {
		err = &replicaError{r.address, err}
	}
	return resumed, err
}

// replicaError names the replica.
type replicaError struct {
	address string
	cause   error
}

func (e *replicaError) Error() string { return e.address + ": " + e.cause.Error() }
func (e *replicaError) Unwrap() error { return e.cause }

func (w *replicaWatch) report(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.log.Info("the replica is complete", "replica", w.address)
		w.warned = time.Time{}
		return
	}
	if now := w.now(); now.Sub(w.warned) >= replicaWarnEvery {
		w.warned = now
		w.log.Warn("the replica is behind the store, and is tried again", "replica", w.address, "error", err)
	}
}

// markReplica returns where a copy of the mark is kept; nil for none.
func markReplica(store Store) MarkReplica {
	if replicated, ok := store.(replicatedStore); ok {
		return replicated.watch.opened
	}
	return nil
}

// replicaHealth returns how far the replica is behind; false if the store has none.
func replicaHealth(store Store) (sqlite.ReplicationState, bool) {
	if replicated, ok := store.(replicatedStore); ok {
		return replicated.Replication()
	}
	return sqlite.ReplicationState{}, false
}
