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

// Store keeps the log. Each method is one transaction.
type Store interface {
	// RecordRequests adds blocks, in the order given, and notes the uses of keys
	// that come with them.
	RecordRequests(ctx context.Context, batch Batch) error
	// RequestBlocks reads blocks of one operator, the latest first.
	RequestBlocks(ctx context.Context, asked BlockQuery) ([]Block, error)
	// RequestBlock reads one block, if it is that operator's.
	RequestBlock(ctx context.Context, operatorID, id int64) (Block, bool, error)
	// LastKeyUses says when each key of an operator was last used, as far as known.
	LastKeyUses(ctx context.Context, operatorID int64) (map[int64]time.Time, error)
	// PurgeRequests removes at most limit of the oldest blocks that ended before a moment, and
	// returns how many.
	PurgeRequests(ctx context.Context, before time.Time, limit int) (int, error)
}

// Batch is what is written at a time.
type Batch struct {
	Blocks []Block
	// Uses are in the order of operators and keys, so that nodes that write the
	// same ones do not get into each other's way.
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

// Config is how a log works. The zero value keeps nothing.
type Config struct {
	// Keep is how long a call is remembered; zero turns the log off.
	Keep time.Duration
	// Every is how long calls are gathered before they are written; 5 s if zero.
	Every time.Duration
	// Metrics and Problem are told what went wrong; either may be nil.
	Metrics Metrics
	Problem func(error)
}

const (
	// gatherFor is long enough for the calls of a busy minute to share rows, which
	// is what they cost, and short enough for somebody who looks at another node for
	// a call to this one. Whoever looks at this one sees everything.
	gatherFor = 5 * time.Second
	// maxPending bounds, in bytes, what waits to be written: more than two
	// hundred thousand calls.
	maxPending = 16 << 20
	// flushThreshold is written without waiting for the time to come.
	flushThreshold = 6 << 20
	// batchBlocks is small because a batch keeps the store's writer busy, and
	// requests wait behind it.
	batchBlocks = 64
	// writeTimeout is how long writing may take, and with it the end of a node.
	writeTimeout = 5 * time.Second
	// useEvery is how exactly the last use of a key is known: to note each one
	// would make a change of a row of every call.
	useEvery = time.Minute
	// usesRemembered bounds how many keys' uses are known by heart.
	usesRemembered = 1 << 16
)

// Log records calls and searches them. It is safe for concurrent use.
type Log struct {
	store  Store
	config Config
	// enough is sent to when there is enough to be written at once.
	enough chan struct{}

	mu      sync.Mutex
	waiting []byte // packed calls, each after its operator and its length
	spare   []byte // what waiting was before, to be used again
	calls   int    // how many are in waiting

	// writing is held by whoever writes, so that what is read after a Flush has
	// everything that came before it.
	writing sync.Mutex
	noted   map[int64]time.Time // the uses that were written, by key
}

// New returns a log that keeps its calls in store.
func New(store Store, config Config) *Log {
	config.Every = cmp.Or(config.Every, gatherFor)
	return &Log{store: store, config: config, enough: make(chan struct{}, 1), noted: map[int64]time.Time{}}
}

// On reports whether calls are kept.
func (l *Log) On() bool { return l != nil && l.config.Keep > 0 }

// Keep is how long calls are kept.
func (l *Log) Keep() time.Duration { return l.config.Keep }

// Record records a call. It does not wait and cannot fail.
func (l *Log) Record(e Entry) {
	if !l.On() || e.OperatorID == 0 {
		return
	}
	e.IdempotencyKey = cut(telemetry.Scrub(e.IdempotencyKey), longestKey)
	var room [256]byte // as much as a call takes, unless it has signature details
	packed := appendEntry(room[:0], &e)

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

// What is known of a waiting call without unpacking it.
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

// Run writes what was taken in, now and then, until ctx ends; then it writes the
// rest.
func (l *Log) Run(ctx context.Context) {
	if !l.On() {
		return
	}
	ticker := time.NewTicker(l.config.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			l.tell(l.flushInTime(ctx))
			return
		case <-ticker.C:
		case <-l.enough:
		}
		l.tell(l.flushInTime(ctx))
	}
}

// flushInTime is not cut off by the end of a node, which comes at any moment, but
// does not keep it waiting for ever either.
func (l *Log) flushInTime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return l.Flush(ctx)
}

func (l *Log) tell(err error) {
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

// giveBack keeps the room that calls waited in, unless a rush has made it large.
func (l *Log) giveBack(room []byte) {
	if cap(room) > flushThreshold*3/2 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = room
}

// write writes blocks, a few at a time, and says how many calls are safe.
func (l *Log) write(ctx context.Context, blocks []filling, uses []Use) (calls int, err error) {
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

// Purge removes what has been kept for long enough, in small batches, until there
// is nothing left to remove or ctx ends. It says how many rows went, also beside an
// error. A log that was turned off keeps nothing.
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
