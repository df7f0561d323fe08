package requestlog

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/telemetry"
)

// Store stores the log. Each method is one transaction.
type Store interface {
	// RecordRequests adds blocks, in the order given, and records the uses of keys.
	RecordRequests(ctx context.Context, batch Batch) error
	// RequestBlocks reads blocks of one operator, the latest first.
	RequestBlocks(ctx context.Context, q BlockQuery) ([]Block, error)
	// RequestBlock reads one block, if it is that operator's.
	RequestBlock(ctx context.Context, operatorID, id int64) (Block, bool, error)
	// LastKeyUses returns when each key of an operator was last used, as far as known.
	LastKeyUses(ctx context.Context, operatorID int64) (map[int64]time.Time, error)
	// PurgeRequests removes at most limit of the oldest blocks that ended before a moment, and
	// returns how many.
	PurgeRequests(ctx context.Context, before time.Time, limit int) (int, error)
}

// Batch is what one transaction writes.
type Batch struct {
	Blocks []Block
	// Uses are in the order of operators and keys, so that nodes that write the same ones
	// do not deadlock.
	Uses []Use
}

// Use is the last proven call with a key.
type Use struct {
	OperatorID, CredentialID int64
	At                       time.Time
}

// Metrics receives how many calls could not be stored.
type Metrics interface{ RequestsNotLogged(calls int) }

var _ Metrics = (*telemetry.Metrics)(nil)

// Config configures a log. The zero value turns it off.
type Config struct {
	// Keep is how long a call is stored; zero turns the log off.
	Keep time.Duration
	// Every is how long calls are gathered before they are written; 5 s if zero.
	Every time.Duration
	// Metrics and Problem receive failures; either may be nil.
	Metrics Metrics
	Problem func(error)
}

const (
	// gatherFor is long enough for many calls to share a row, since rows are the cost, and
	// short enough for a search on another node. A search on this node sees everything.
	gatherFor = 5 * time.Second
	// maxPending is the limit of the calls that wait to be written, in bytes: more than two
	// hundred thousand calls.
	maxPending = 16 << 20
	// flushThreshold is the size in bytes at which calls are written at once.
	flushThreshold = 6 << 20
	// batchBlocks is small because a batch keeps the store's writer busy, and
	// requests wait behind it.
	batchBlocks = 64
	// writeTimeout bounds a write, and with it the shutdown of a node.
	writeTimeout = 5 * time.Second
	// useEvery is the precision of a key's last use: to record each use would update a row
	// with every call.
	useEvery = time.Minute
	// usesRemembered is the maximum number of keys in Log.noted.
	usesRemembered = 1 << 16
)

// Log records calls and searches them. It is safe for concurrent use.
type Log struct {
	store  Store
	config Config
	// enough signals that flushThreshold was reached.
	enough chan struct{}

	mu      sync.Mutex
	waiting []byte // packed calls, each after its operator and its length
	spare   []byte // the previous buffer of waiting, to be reused
	calls   int    // how many are in waiting

	// writing is locked during a write, so that a read after a Flush finds every call
	// recorded before it.
	writing sync.Mutex
	noted   map[int64]time.Time // the last recorded uses, by key
}

// New returns a log that stores its calls in store.
func New(store Store, config Config) *Log {
	config.Every = cmp.Or(config.Every, gatherFor)
	return &Log{store: store, config: config, enough: make(chan struct{}, 1), noted: map[int64]time.Time{}}
}

// On reports whether calls are stored.
func (l *Log) On() bool { return l != nil && l.config.Keep > 0 }

// Keep is how long calls are stored.
func (l *Log) Keep() time.Duration { return l.config.Keep }

// Record records a call. It does not wait and cannot fail.
func (l *Log) Record(e Entry) {
	if !l.On() || e.OperatorID == 0 {
		return
	}
	e.IdempotencyKey = cut(telemetry.Scrub(e.IdempotencyKey), longestKey)
	if e.PlanID != "" {
		e.PlanID = cut(telemetry.Scrub(e.PlanID), longestPlan)
	}
	var buffer [256]byte // enough for a call without signature details
	packed := appendEntry(buffer[:0], &e)

	l.mu.Lock()
	if len(l.waiting)+len(packed) > maxPending {
		l.mu.Unlock()
		l.lost(1)
		return
	}
	before := len(l.waiting)
	l.waiting = binary.AppendUvarint(l.waiting, uint64(e.OperatorID))
	l.waiting = append(l.waiting, marksOf(&e))
	l.waiting = binary.AppendUvarint(l.waiting, uint64(len(packed)))
	l.waiting = append(l.waiting, packed...)
	l.calls++
	full := before < flushThreshold && len(l.waiting) >= flushThreshold
	l.mu.Unlock()
	if full {
		select {
		case l.enough <- struct{}{}:
		default: // a signal is pending
		}
	}
}

// Flags of a waiting call, readable without unpacking it.
const (
	markRefused byte = 1 << iota
	markProven
)

func marksOf(e *Entry) (marks byte) {
	if e.Refused() {
		marks |= markRefused
	}
	if e.Proven() {
		marks |= markProven
	}
	return marks
}

func (l *Log) lost(calls int) {
	if l.config.Metrics != nil {
		l.config.Metrics.RequestsNotLogged(calls)
	}
}

// Run writes recorded calls periodically until ctx ends, and then the rest.
func (l *Log) Run(ctx context.Context) {
	if !l.On() {
		return
	}
	ticker := time.NewTicker(l.config.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			l.reportError(l.flushInTime(ctx))
			return
		case <-ticker.C:
		case <-l.enough:
		}
		l.reportError(l.flushInTime(ctx))
	}
}

// flushInTime flushes even if ctx has ended, because the node is shutting down, but within
// writeTimeout.
func (l *Log) flushInTime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return l.Flush(ctx)
}

func (l *Log) reportError(err error) {
	if err != nil && l.config.Problem != nil {
		l.config.Problem(err)
	}
}

// Flush writes the calls recorded before it. What cannot be written is lost: a store that
// is unavailable must not fill the node's memory.
func (l *Log) Flush(ctx context.Context) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	waiting, calls := l.waiting, l.calls
	l.waiting, l.calls, l.spare = l.spare[:0], 0, nil
	l.mu.Unlock()
	if calls == 0 {
		l.giveBack(waiting)
		return nil
	}
	blocks, uses := l.group(waiting)
	written, err := l.write(ctx, blocks, uses)
	l.giveBack(waiting)
	if err != nil {
		l.lost(calls - written)
		return fmt.Errorf("write the request log: %w", err)
	}
	return nil
}

// giveBack saves a buffer for reuse, unless a burst has made it large.
func (l *Log) giveBack(buffer []byte) {
	if cap(buffer) > flushThreshold*3/2 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = buffer
}

// write writes blocks, a few at a time, and returns how many calls were written.
func (l *Log) write(ctx context.Context, blocks []openBlock, uses []Use) (calls int, err error) {
	batch := Batch{Uses: uses}
	for len(blocks) > 0 {
		some := blocks[:min(len(blocks), batchBlocks)]
		blocks = blocks[len(some):]
		batch.Blocks = batch.Blocks[:0]
		for _, b := range some {
			batch.Blocks = append(batch.Blocks, b.Block)
		}
		if err := l.store.RecordRequests(ctx, batch); err != nil {
			return calls, err
		}
		for _, b := range some {
			calls += b.calls
		}
		for _, use := range batch.Uses {
			l.noted[use.CredentialID] = use.At
		}
		batch.Uses = nil
	}
	return calls, nil
}

// purgeBatch is small because a batch keeps the store's writer busy, and requests
// wait behind it.
const purgeBatch = 200

// Purge removes the blocks that are older than Config.Keep, in small batches, until none is
// left or ctx ends. It returns how many rows were removed, also with an error. If the log is
// turned off, it removes everything.
func (l *Log) Purge(ctx context.Context, now time.Time) (removed int, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return removed, fmt.Errorf("purge the request log: %w", err)
		}
		batch, err := l.store.PurgeRequests(ctx, now.Add(-l.config.Keep), purgeBatch)
		if err != nil {
			return removed, fmt.Errorf("purge the request log: %w", err)
		}
		removed += batch
		if batch < purgeBatch {
			return removed, nil
		}
	}
}
