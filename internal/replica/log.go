// Package replica keeps a second copy of a SQLite store in another place: a folder, an
// SFTP server or an S3 bucket. It reads what was committed from SQLite's write-ahead log
// and appends it there, so that a file can be restored as it was after any upload.
//
// The copy is one or more generations. A generation is a chain of records, which begins
// with a snapshot of the whole file. A new generation begins when the chain is broken: the
// store was changed in a way that its present log does not show, or files are missing.
package replica

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// segmentSize is how long a segment grows before the next one begins.
	segmentSize = 16 << 20
	// maxQueue is how many bytes are read ahead of the uploads.
	maxQueue = 64 << 20
	// uploadPart is about how much is uploaded at a time, so that a slow target gets on.
	uploadPart = 4 << 20
	// stepTimeout limits each step of a copy of the whole file, and cleanupTimeout the
	// removal of one that failed.
	stepTimeout    = time.Minute
	cleanupTimeout = 10 * time.Second

	identityName     = "store.json"
	installationName = "installation.json"
	markName         = "mark"
)

// ErrLost is returned by Ship when records are missing at the target, or were never read
// from the log: a new generation must begin.
var ErrLost = errors.New("the replica is incomplete")

// ErrForeign is returned for a place that has the replica of another store, or other files.
var ErrForeign = errors.New("it belongs to something else")

// Options are the options of Open.
type Options struct {
	// File is the SQLite file, and Store the id of the store in it.
	File  string
	Store string
	// Installation is kept beside the replica for a restore; nil for nothing.
	Installation []byte

	Now    func() time.Time
	Getenv func(string) string
}

// Log appends the write-ahead log of one file to its replica.
type Log struct {
	target  target
	address Address
	options Options

	uploads sync.Mutex // one at a time
	// Of the uploads:
	verify       bool // the last one failed: look whether the files are still there
	segment      string
	segmentBytes int64
	whole        []byte // the segment's contents, if the target wants them at the end

	reaching sync.Mutex
	reached  bool // it was found to be this store's

	sealing    sync.WaitGroup
	background context.Context
	cancel     context.CancelFunc

	mu         sync.Mutex
	epoch      int // counts how often it was given up or begun
	wal        wal
	generation string
	seq        uint64 // of the last record that was read from the log
	chain      uint32
	queue      []*record
	queued     int
	lost       bool
	snapshot   string // of the generation, once it is complete
	snapshotAt time.Time
	since      int64 // bytes of records since the last snapshot
}

// identity is the file that says whose replica it is.
type identity struct {
	Format int    `json:"format"`
	Store  string `json:"store"`
}

// New returns the replica at an address, which it does not reach yet.
func New(address Address, options Options) (*Log, error) {
	to, err := address.connect(options.Getenv)
	if err != nil {
		return nil, err
	}
	l := &Log{target: to, address: address, options: options, lost: true}
	l.background, l.cancel = context.WithCancel(context.Background())
	l.wal.path = options.File + "-wal"
	return l, nil
}

// Open connects to a replica and checks that it is this store's, or empty.
func Open(ctx context.Context, address Address, options Options) (*Log, error) {
	l, err := New(address, options)
	if err != nil {
		return nil, err
	}
	if err := l.reach(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// reach checks the first time that the place is this store's, or takes an empty one.
func (l *Log) reach(ctx context.Context) error {
	l.reaching.Lock()
	defer l.reaching.Unlock()
	if l.reached {
		return nil
	}
	if err := l.target.check(ctx, true); err != nil {
		return err
	}
	err := l.identify(ctx)
	l.reached = err == nil
	return err
}

// identify checks whose replica it is, takes an empty place, and describes the installation.
func (l *Log) identify(ctx context.Context) error {
	if err := l.takePlace(ctx); err != nil || l.options.Installation == nil {
		return err
	}
	if err := l.target.put(ctx, installationName, l.options.Installation); err != nil {
		return fmt.Errorf("write to it: %w", err)
	}
	return nil
}

func (l *Log) takePlace(ctx context.Context) error {
	text, err := readAll(ctx, l.target, identityName)
	if err == nil {
		owner, err := storeOf(text)
		if err == nil && owner != l.options.Store {
			err = fmt.Errorf("%w: it is the replica of the store %s, and this is the store %s; name an empty folder", ErrForeign, short(owner), short(l.options.Store))
		}
		return err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", identityName, err)
	} else if names, err := l.target.list(ctx, ""); err != nil {
		return fmt.Errorf("list it: %w", err)
	} else if names = foreign(names); len(names) > 0 {
		return fmt.Errorf("%w: it has other files, %s for one; name an empty folder", ErrForeign, names[0])
	}
	text, err = json.Marshal(identity{Format: 1, Store: l.options.Store})
	if err != nil {
		return err
	}
	if err := l.target.put(ctx, identityName, text); err != nil {
		return fmt.Errorf("write to it: %w", err)
	}
	return nil
}

// foreign leaves the names of files that are not of a replica that was just begun. The mark
// may be written first, into a folder that was emptied.
func foreign(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		name = strings.TrimSuffix(name, ".new")
		return name == markName || name == identityName || name == installationName || strings.HasPrefix(name, ".probe-")
	})
}

// storeOf reads the identity file.
func storeOf(text []byte) (string, error) {
	var is identity
	if err := json.Unmarshal(text, &is); err != nil || is.Format != 1 {
		return "", fmt.Errorf("%w: its %s is of another program or a later version", ErrForeign, identityName)
	}
	return is.Store, nil
}

func short(id string) string { return id[:min(len(id), 8)] }

// Resume continues the newest generation if the present log has everything that was
// committed since its last record. If not, a new generation must begin.
func (l *Log) Resume(ctx context.Context) (resumed bool, err error) {
	l.uploads.Lock()
	defer l.uploads.Unlock()
	if err := l.reach(ctx); err != nil {
		return false, err
	}
	generations, err := readGenerations(ctx, l.target)
	if err != nil {
		return false, err
	}
	for i := len(generations) - 1; i >= 0; i-- {
		g := generations[i]
		if len(g.snapshots) == 0 {
			continue
		}
		newest := g.snapshots[len(g.snapshots)-1]
		done, err := readFinished(ctx, l.target, newest)
		if err != nil {
			return false, err
		}
		last, err := g.lastRecord(ctx, l.target)
		if err != nil {
			return false, err
		}
		seq, chain, end, at := done.Seq, done.Chain, done.position(), done.At
		if last != nil && last.seq > seq {
			seq, chain, end = last.seq, last.sum, last.end
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if found, err := l.wal.resume(end); err != nil || !found {
			return false, err
		}
		l.epoch++
		l.queue, l.queued, l.segment = nil, 0, ""
		l.generation, l.seq, l.chain, l.snapshot, l.snapshotAt, l.lost = g.name, seq, chain, newest.name, at, false
		l.verify = true
		return true, nil
	}
	return false, nil
}

// Lost reports whether a new generation must begin.
func (l *Log) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// GiveUp forgets what was not uploaded. A new generation must begin.
func (l *Log) GiveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveUp()
}

func (l *Log) giveUp() {
	l.epoch++
	l.lost, l.queue, l.queued = true, nil, 0
}

// Capture reads what was committed since from the log, so that SQLite may overwrite it.
// The caller holds SQLite's write lock. It returns false if so much waits for its upload that
// some was left.
func (l *Log) Capture() (all bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all, err = l.capture(); all && err == nil {
		l.wal.settle()
	}
	return all, err
}

func (l *Log) capture() (all bool, err error) {
	if l.lost {
		return false, ErrLost
	}
	for l.queued < maxQueue {
		found, err := l.wal.next(maxRecord)
		if err != nil {
			if errors.Is(err, ErrLost) {
				l.giveUp()
			}
			return false, err
		}
		if found == nil {
			return true, nil
		}
		l.seq++
		r := &record{seq: l.seq, chain: l.chain, at: l.options.Now(), end: found.end, pages: found.pages, pageSize: l.wal.pageSize}
		r.changes = make([]byte, 0, len(found.numbers)*(int(r.pageSize)+4))
		for _, number := range found.numbers {
			r.changes = append(binary.BigEndian.AppendUint32(r.changes, number), found.data[number]...)
		}
		r.changes = r.encode()
		l.chain = r.sum
		l.queue, l.queued = append(l.queue, r), l.queued+len(r.changes)
	}
	return false, nil
}

// Ship uploads everything that was committed before the call.
func (l *Log) Ship(ctx context.Context) error {
	l.uploads.Lock()
	defer l.uploads.Unlock()
	for all := false; ; {
		l.mu.Lock()
		var err error
		if !all { // what is committed from now on is for the next call
			all, err = l.capture()
		} else if l.lost {
			err = ErrLost
		}
		n := 0
		for size := 0; n < len(l.queue) && size < uploadPart; n++ {
			size += len(l.queue[n].changes)
		}
		batch, rest, epoch := l.queue[:n], len(l.queue)-n, l.epoch
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if err := l.upload(ctx, batch, epoch); err != nil {
			return err
		}
		if all && rest == 0 {
			return nil
		}
	}
}

func (l *Log) upload(ctx context.Context, batch []*record, epoch int) error {
	if len(batch) == 0 {
		return nil
	}
	if l.verify {
		if err := l.look(ctx); err != nil {
			return err
		}
		l.verify = false
	}
	var data []byte
	for _, r := range batch {
		data = append(data, r.changes...)
	}
	if l.segment == "" {
		l.segment, l.segmentBytes, l.whole = fmt.Sprintf("%s/log-%016d", l.generation, batch[0].seq), 0, nil
	}
	if err := l.target.writeAt(ctx, l.segment, l.segmentBytes, data); err != nil {
		l.verify = true
		return err
	}
	l.segmentBytes += int64(len(data))
	if l.target.keepsParts() {
		l.whole = append(l.whole, data...)
	}
	l.mu.Lock()
	if l.epoch == epoch { // not given up meanwhile
		l.queue, l.queued = l.queue[len(batch):], l.queued-len(data)
	}
	l.since += int64(len(data))
	l.mu.Unlock()
	if l.segmentBytes < segmentSize {
		return nil
	}
	sealed, whole := l.segment, l.whole
	l.segment, l.whole = "", nil
	if l.target.keepsParts() {
		// Nobody waits for it: if it fails, its parts are all there.
		l.sealing.Go(func() {
			ctx, cancel := context.WithTimeout(l.background, stepTimeout)
			defer cancel()
			_ = l.target.seal(ctx, sealed, whole)
		})
	}
	return nil
}

// look checks after a failure that the replica's files are still there.
func (l *Log) look(ctx context.Context) error {
	if err := l.target.check(ctx, false); err != nil {
		return err
	}
	// A segment of its own after a failure: how far the last one was written is unknown.
	for _, name := range []string{identityName, l.snapshot + doneSuffix} {
		if _, err := readAll(ctx, l.target, name); errors.Is(err, fs.ErrNotExist) {
			l.GiveUp()
			return fmt.Errorf("%w: %s is gone", ErrLost, name)
		} else if err != nil {
			return err
		}
	}
	if l.segment != "" && l.segmentBytes > 0 {
		last, err := lastOf(ctx, l.target, l.segment)
		if errors.Is(err, fs.ErrNotExist) || err == nil && last == nil {
			l.GiveUp()
			return fmt.Errorf("%w: %s is gone", ErrLost, l.segment)
		}
		if err != nil {
			return err
		}
		l.mu.Lock()
		next := l.seq + 1
		if len(l.queue) > 0 {
			next = l.queue[0].seq
		}
		l.mu.Unlock()
		if last.seq+1 < next {
			l.GiveUp()
			return fmt.Errorf("%w: %s lost its end", ErrLost, l.segment)
		}
	}
	l.segment = ""
	return nil
}

// WriteMark keeps a small file beside the replica.
func (l *Log) WriteMark(ctx context.Context, data []byte) error {
	if err := l.reach(ctx); err != nil {
		return err
	}
	return l.target.put(ctx, markName, data)
}

// ReadMark returns what WriteMark has written; nil if there is none.
func (l *Log) ReadMark(ctx context.Context) ([]byte, error) {
	if err := l.reach(ctx); err != nil {
		return nil, err
	}
	mark, err := readAll(ctx, l.target, markName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return mark, err
}

// Address returns the address without a password.
func (l *Log) Address() string { return l.address.String() }

// Close closes the connection. Nothing may be under way.
func (l *Log) Close() error {
	l.cancel()
	l.sealing.Wait()
	return l.target.close()
}
