package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
)

const (
	// markEvery is how often a node marks a store that it has written to.
	markEvery = 500 * time.Millisecond
	// markProblemEvery is how often a node logs that it cannot mark the store.
	markProblemEvery = time.Minute
	// markTimeout bounds a mark, lastMarkTimeout that of a node that stops, and markReplicaTimeout one copy
	// of the mark to a replica.
	markTimeout        = 15 * time.Second
	lastMarkTimeout    = 5 * time.Second
	markReplicaTimeout = 10 * time.Second
)

// MarkReplica keeps a copy of the mark beside a replica of the store, so that a machine
// that was put back as a whole, with its mark file, is noticed as well.
type MarkReplica interface {
	WriteMark(ctx context.Context, mark []byte) error
	// ReadMark returns the mark that was written last; nil if there is none.
	ReadMark(ctx context.Context) ([]byte, error)
}

// marker marks the store while a node runs, and finds out whether it was restored. The
// store's value is durable before the file has it, so the file is never ahead of a store
// that has lost nothing.
type marker struct {
	store   Store
	config  StoreConfig
	replica MarkReplica // nil for none
	log     *slog.Logger
	now     func() time.Time

	storeID string
	// value is what the last commit of this node has acknowledged, and the file has, unless
	// pending is set.
	value int64
	// written and lastAction are what the store had when it was marked last.
	written    uint64
	lastAction int64
	// found is set once a new connection led to a store that is behind.
	found atomic.Bool

	mu sync.Mutex
	// pending is since when the file has been behind the store; zero if it is not.
	pending time.Time
	warned  time.Time

	copies chan []byte // the newest mark for the replica
	stop   context.CancelFunc
	ended  sync.WaitGroup
}

// openMark compares the store with the mark file, records a restore if the store is behind,
// and marks the store. It returns nil if the configuration keeps no mark.
func openMark(ctx context.Context, store Store, config StoreConfig, replica MarkReplica, log *slog.Logger, now func() time.Time) (*marker, error) {
	m := &marker{store: store, config: config, replica: replica, log: log, now: now, copies: make(chan []byte, 1)}
	// A restore that `coax restore` or a connection has recorded has no staff action yet.
	if err := store.LogRestore(ctx, admin.NewRestoreAction(now())); err != nil {
		return nil, fmt.Errorf("record a restore: %w", err)
	}
	if config.MarkFile == "" {
		return nil, m.keepMaintenance(ctx)
	}
	if config.Kind == "sqlite" && filepath.Dir(config.MarkFile) == filepath.Dir(config.Path) {
		log.Warn("the mark file is in the folder of the store: whoever puts the whole folder back from a copy puts the mark back, too, and the restore is not noticed",
			"store.mark_file", config.MarkFile)
	}
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	return m, m.keepMaintenance(ctx)
}

// keepMaintenance logs an open restore, and switches maintenance on if an older release
// has switched it off.
func (m *marker) keepMaintenance(ctx context.Context) error {
	restore, err := m.store.OpenRestore(ctx)
	if err != nil || !restore.Open {
		return err
	}
	mode, err := m.store.Maintenance(ctx)
	if err == nil && !mode.On {
		action := admin.NewRestoreAction(m.now())
		action.Reason = admin.RestoreReason(restore)
		_, err = m.store.StartMaintenance(ctx, action)
	}
	if err != nil {
		return fmt.Errorf("keep a restored store in maintenance: %w", err)
	}
	m.log.Warn("THE STORE WAS RESTORED from an older copy, and may have forgotten operations that the provider carried out: "+
		"no new operations until it was compared (`coax reconcile`) or `coax admin maintenance off --accept --reason TEXT`",
		"found", restore.FoundAt, "compare_since", restore.Since, "how", restore.How)
	return nil
}

func (m *marker) start(ctx context.Context) error {
	// The files are read before the store: another node may be writing one of them, whose
	// value is in the store by then.
	file, err := readMarkFile(m.config.MarkFile)
	if err != nil {
		return err
	}
	replica := m.readReplica(ctx)
	stored, err := m.store.StoreMark(ctx)
	if err != nil {
		return err
	}
	open, err := m.store.OpenRestore(ctx)
	if err != nil {
		return err
	}
	finding, err := compareMark(m.config, stored, file, replica, open.Open)
	if err != nil {
		return err
	}
	if finding.how != "" {
		if stored, err = m.restored(ctx, stored, finding); err != nil {
			return err
		}
	}
	m.storeID, m.value = stored.StoreID, stored.Value
	// A store that no node has marked is in the file before it is marked: a node that is
	// killed in between finds both as they must be. Any other way it would later find a
	// marked store without a file, or a file that is ahead.
	if stored.State != admin.Marked || file != nil && file.StoreID != stored.StoreID {
		if err := m.write(); err != nil {
			return err
		}
	}
	if err := m.advance(ctx, 1); err != nil {
		return err
	}
	m.lastAction = stored.LastAction
	return m.write()
}

// finding is what the comparison of a store with the marks outside it found.
type finding struct {
	// how is empty unless the store was restored.
	how string
	// above is a value that the store's mark has to be moved above.
	above int64
}

// compareMark decides whether the store was restored: it is behind a mark that a node has
// kept outside it. An error refuses the start.
func compareMark(config StoreConfig, stored admin.StoreMark, file, replica *markFile, open bool) (finding, error) {
	sqlite := config.Kind == "sqlite"
	for _, kept := range []struct {
		mark  *markFile
		where string
	}{{file, "the mark file " + config.MarkFile}, {replica, "the replica"}} {
		mark := kept.mark
		switch {
		case mark == nil:
		case mark.StoreID == stored.StoreID && mark.Value > stored.Value:
			return finding{how: fmt.Sprintf("its mark is %d, and %s had reached %d at %s", stored.Value, kept.where, mark.Value, stamp(mark.MarkedAt)), above: mark.Value}, nil
		case mark.StoreID == stored.PreviousID && stored.State == admin.CopiedStore && mark.Value > stored.Value:
			return finding{how: fmt.Sprintf("it was copied from a store whose mark was %d, and %s had reached %d at %s", stored.Value, kept.where, mark.Value, stamp(mark.MarkedAt)), above: mark.Value}, nil
		}
	}
	switch {
	case open:
		// Recorded before; a node was killed before it could write the file.
	case file == nil && sqlite && stored.State == admin.Marked && stored.Operators:
		return finding{how: "a node has marked it, and there is no mark file at " + config.MarkFile}, nil
	case file == nil, file.StoreID == stored.StoreID, file.StoreID == stored.PreviousID, stored.State == admin.CopiedStore, config.New && !stored.Operators:
	case sqlite, stored.State == admin.NeverMarked && stored.Operators:
		return finding{how: fmt.Sprintf("it is not the store that the mark file %s was written for, at %s", config.MarkFile, stamp(file.MarkedAt)), above: file.Value}, nil
	case stored.State == admin.Marked && stored.Operators:
		// Nodes of another installation may work on this store: a wrong address must not stop them.
		return finding{}, fmt.Errorf("store.mark_file: %s was written at %s for another store than the one at %s. If this node served another store before, "+
			"remove the file. If this store was put back from a backup, first run `coax admin maintenance on`",
			config.MarkFile, stamp(file.MarkedAt), config.Place())
	}
	return finding{}, nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// restored records a restore, and returns the store's mark afterwards.
func (m *marker) restored(ctx context.Context, stored admin.StoreMark, f finding) (admin.StoreMark, error) {
	since := stored.At
	if since.IsZero() {
		var err error
		if since, err = m.store.LastKnown(ctx); err != nil {
			return stored, err
		}
	}
	if !since.IsZero() {
		since = since.Add(-admin.RestoreMargin)
	}
	if _, err := m.store.RecordRestore(ctx, admin.NewRestoreAction(m.now()), admin.Restore{Since: since, How: f.how}, f.above); err != nil {
		return stored, fmt.Errorf("record a restore: %w", err)
	}
	return m.store.StoreMark(ctx)
}

// advance moves the mark by a number of steps; 0 confirms that its present value is durable.
func (m *marker) advance(ctx context.Context, by int64) error {
	written := m.store.Written()
	value, err := m.store.AdvanceMark(ctx, admin.MarkAdvance{StoreID: m.storeID, AtLeast: m.value, By: by, At: m.now()})
	if err != nil {
		return err
	}
	m.value, m.written = value, written+1 // the mark itself is a write
	m.store.ExpectMark(m.storeID, value, func() { m.found.Store(true) })
	return nil
}

// write writes the file, and hands it to the replica.
func (m *marker) write() error {
	text, err := writeMarkFile(m.config.MarkFile, markFile{StoreID: m.storeID, Value: m.value, MarkedAt: m.now()})
	if err != nil {
		return err
	}
	if m.replica != nil {
		select {
		case <-m.copies: // an older one that was not sent yet
		default:
		}
		m.copies <- text
	}
	return nil
}

// readReplica reads the replica's copy of the mark; nil if there is none.
func (m *marker) readReplica(ctx context.Context) *markFile {
	if m.replica == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, markReplicaTimeout)
	defer cancel()
	text, err := m.replica.ReadMark(ctx)
	if err == nil && text == nil {
		return nil
	}
	var mark *markFile
	if err == nil {
		mark, err = decodeMark(text)
	}
	if err != nil {
		m.log.Warn("read the mark at the replica; only the mark file was compared", "error", err)
		return nil
	}
	return mark
}

// run marks the store in the background until close.
func (m *marker) run() {
	if m == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.ended.Go(func() {
		ticker := time.NewTicker(markEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				m.markInTime(ctx)
			}
		}
	})
	if m.replica != nil {
		m.ended.Go(func() { m.sendCopies(ctx) })
	}
}

// markInTime bounds the reads of mark; a COMMIT has no deadline.
func (m *marker) markInTime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	m.mark(ctx)
}

// sendCopies writes the newest mark to the replica, one after the other.
func (m *marker) sendCopies(ctx context.Context) {
	var warned time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case text := <-m.copies:
			sending, cancel := context.WithTimeout(ctx, markReplicaTimeout)
			err := m.replica.WriteMark(sending, text)
			cancel()
			if err != nil && ctx.Err() == nil && time.Since(warned) >= markProblemEvery {
				warned = time.Now()
				m.log.Warn("write the mark to the replica", "error", err)
			}
		}
	}
}

// close marks the store a last time. A marker that is nil does nothing.
func (m *marker) close() {
	if m == nil || m.stop == nil {
		return
	}
	m.stop()
	m.ended.Wait()
	m.stop = nil
	ctx, cancel := context.WithTimeout(context.Background(), lastMarkTimeout)
	defer cancel()
	m.mark(ctx)
	if m.replica == nil {
		return
	}
	select {
	case text := <-m.copies:
		if err := m.replica.WriteMark(ctx, text); err != nil {
			m.log.Warn("write the mark to the replica", "error", err)
		}
	default:
	}
}

// mark marks the store if something was written to it since, and records a restore if the
// store is behind.
func (m *marker) mark(ctx context.Context) {
	err := m.markOnce(ctx)
	if errors.Is(err, admin.ErrBehindMark) {
		err = m.recover(ctx)
	}
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.warned) >= markProblemEvery {
		m.warned = time.Now()
		m.log.Warn("the store's mark cannot be kept: if the store is restored now, that may not be noticed", "file", m.config.MarkFile, "error", err)
	}
}

func (m *marker) markOnce(ctx context.Context) error {
	if m.found.Swap(false) {
		if err := m.noteRestore(ctx); err != nil {
			m.found.Store(true)
			return err
		}
	}
	by := int64(1)
	lastAction := m.lastAction
	if m.store.Written() == m.written {
		stored, err := m.store.StoreMark(ctx)
		switch {
		case err != nil:
			return err
		case stored.StoreID != m.storeID || stored.Value < m.value:
			return admin.ErrBehindMark
		case stored.LastAction != m.lastAction:
			lastAction = stored.LastAction // of a command beside this node
		case stored.Value > m.value:
			by = 0 // of another node
		case m.isPending():
			by = 0 // the file could not be written
		default:
			return nil
		}
	}
	m.setPending(true)
	if err := m.advance(ctx, by); err != nil {
		return err
	}
	m.lastAction = lastAction
	if err := m.write(); err != nil {
		return err
	}
	m.setPending(false)
	return nil
}

// recover records that the store is behind what this node has written.
func (m *marker) recover(ctx context.Context) error {
	stored, err := m.store.StoreMark(ctx)
	if err != nil {
		return err
	}
	if stored, err = m.restored(ctx, stored, finding{how: admin.BehindWhileRunning, above: m.value}); err != nil {
		return err
	}
	m.storeID, m.value = stored.StoreID, stored.Value
	if err := m.keepMaintenance(ctx); err != nil {
		return err
	}
	if err := m.advance(ctx, 1); err != nil {
		return err
	}
	return m.write()
}

// noteRestore completes a restore that a new connection has recorded.
func (m *marker) noteRestore(ctx context.Context) error {
	if err := m.store.LogRestore(ctx, admin.NewRestoreAction(m.now())); err != nil {
		return err
	}
	stored, err := m.store.StoreMark(ctx)
	if err != nil {
		return err
	}
	m.storeID, m.value = stored.StoreID, max(m.value, stored.Value)
	return m.keepMaintenance(ctx)
}

func (m *marker) setPending(pending bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !pending:
		m.pending = time.Time{}
	case m.pending.IsZero():
		m.pending = time.Now()
	}
}

func (m *marker) isPending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.pending.IsZero()
}

// age is how long the file has been behind what was written to the store; 0 if it is not.
func (m *marker) age() time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending.IsZero() {
		return 0
	}
	return time.Since(m.pending)
}
