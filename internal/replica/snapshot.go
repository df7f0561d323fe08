package replica

import (
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// Keep is how far back a file can be restored.
	Keep = 72 * time.Hour
	// snapshotEvery and snapshotAfter are when another snapshot is taken: a restore reads
	// one snapshot and all records since.
	snapshotEvery = 24 * time.Hour
	snapshotAfter = 1 << 30
)

// snapshotPart is how much of a snapshot is uploaded at a time.
const snapshotPart = 8 << 20

// lockPage is the offset of the page that SQLite keeps for its locks.
const lockPage = 1 << 30

// finished describes a complete snapshot.
type finished struct {
	Seq      uint64    `json:"seq"`
	Chain    uint32    `json:"chain"`
	At       time.Time `json:"at"`
	PageSize uint32    `json:"page_size"`
	Pages    uint32    `json:"pages"`
	Bytes    int64     `json:"bytes"`
	SHA256   string    `json:"sha256"`
	// Salts, Frames and Sums are the position in the write-ahead log.
	Salts  [2]uint32 `json:"salts"`
	Frames uint32    `json:"frames"`
	Sums   [2]uint32 `json:"sums"`
}

func (f finished) position() position {
	return position{salts: f.Salts, frames: f.Frames, sums: f.Sums}
}

// Begin begins a new generation with the present contents of the file. The caller holds
// SQLite's write lock, and keeps what the log has now from being overwritten until the
// snapshot is complete. complete: the file has all pages of the log. The result copies the
// file.
func (l *Log) Begin(file io.ReaderAt, complete bool) (copyFile func(context.Context) error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveUp()
	image, err := l.image(file, complete)
	if err != nil {
		return nil, err
	}
	l.wal.settle()
	l.seq, l.chain, l.since = 0, uint32(l.options.Now().UnixMilli()), 0
	image.describe(l)
	epoch := l.epoch
	return func(ctx context.Context) error {
		l.uploads.Lock()
		defer l.uploads.Unlock()
		generation, err := l.nextGeneration(ctx)
		if err != nil {
			return err
		}
		if err := image.write(ctx, l.target, generation); err != nil {
			return err
		}
		l.mu.Lock()
		if l.epoch != epoch {
			l.mu.Unlock()
			return fmt.Errorf("%w: the copy was given up", ErrLost)
		}
		l.lost, l.generation, l.snapshot, l.snapshotAt = false, generation, image.name(generation), image.done.At
		l.mu.Unlock()
		l.segment, l.verify = "", false
		_ = l.purge(ctx) // again with the next snapshot
		return nil
	}, nil
}

// Renew is like Begin for another snapshot in the present generation. Uploads go on
// meanwhile.
func (l *Log) Renew(file io.ReaderAt, complete bool) (copyFile func(context.Context) error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all, err := l.capture(); err != nil || !all {
		return nil, errors.Join(err, errors.New("too much waits for its upload"))
	}
	image, err := l.image(file, complete)
	if err != nil {
		return nil, err
	}
	l.wal.settle()
	image.describe(l)
	generation := l.generation
	return func(ctx context.Context) error {
		if err := image.write(ctx, l.target, generation); err != nil {
			return err
		}
		l.mu.Lock()
		if l.generation == generation {
			l.snapshot, l.snapshotAt, l.since = image.name(generation), image.done.At, 0
		}
		l.mu.Unlock()
		return l.purge(ctx)
	}, nil
}

// RenewDue reports whether it is time for another snapshot.
func (l *Log) RenewDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost && (l.options.Now().Sub(l.snapshotAt) > snapshotEvery || l.since > snapshotAfter)
}

// image is the file as it is at the end of the log: pages that the log does not have are in
// the file and stay as they are.
type image struct {
	file    io.ReaderAt
	wal     string
	offsets map[uint32]int64
	done    finished
}

func (l *Log) image(file io.ReaderAt, complete bool) (*image, error) {
	offsets, err := l.wal.skip()
	if err != nil {
		return nil, err
	}
	if complete {
		offsets = nil
	}
	head := make([]byte, 100)
	if _, err := file.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("read the store's header: %w", err)
	}
	size := uint32(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = 65536
	}
	pages := l.wal.pages
	if pages == 0 {
		pages = binary.BigEndian.Uint32(head[28:])
	}
	return &image{file: file, wal: l.wal.path, offsets: offsets, done: finished{PageSize: size, Pages: pages}}, nil
}

func (i *image) describe(l *Log) {
	i.done.Seq, i.done.Chain, i.done.At = l.seq, l.chain, l.options.Now()
	i.done.Salts, i.done.Frames, i.done.Sums = l.wal.at.salts, l.wal.at.frames, l.wal.at.sums
}

func (i *image) name(generation string) string {
	return fmt.Sprintf("%s/snapshot-%016d-%013d", generation, i.done.Seq, i.done.At.UnixMilli())
}

// write uploads a snapshot. What it has written of one that fails is removed: it may be what
// fills the place.
func (i *image) write(ctx context.Context, to target, generation string) error {
	err := i.upload(ctx, to, i.name(generation))
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		_ = to.remove(ctx, i.name(generation)) // again with the next purge
	}
	return err
}

func (i *image) upload(ctx context.Context, to target, name string) error {
	upload := &parts{ctx: ctx, to: to, name: name}
	sum := sha256.New()
	packed, err := flate.NewWriter(io.MultiWriter(upload, sum), flate.BestSpeed)
	if err != nil {
		return err
	}
	var log *os.File
	if len(i.offsets) > 0 {
		if log, err = os.Open(i.wal); err != nil {
			return err
		}
		defer log.Close()
	}
	page := make([]byte, i.done.PageSize)
	for number := uint32(1); number <= i.done.Pages; number++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if offset, changed := i.offsets[number]; changed {
			_, err = log.ReadAt(page, offset)
		} else if int64(number-1) == lockPage/int64(i.done.PageSize) {
			clear(page) // SQLite never writes it
		} else {
			_, err = i.file.ReadAt(page, int64(number-1)*int64(i.done.PageSize))
		}
		if err != nil {
			return fmt.Errorf("read page %d of the store: %w", number, err)
		}
		if _, err := packed.Write(page); err != nil {
			return err
		}
	}
	// A copy that was called off may have read pages that a checkpoint has written since.
	if err := errors.Join(ctx.Err(), i.unchanged(log)); err != nil {
		return err
	}
	if err := errors.Join(packed.Close(), upload.flush()); err != nil {
		return err
	}
	i.done.Bytes, i.done.SHA256 = upload.at, hex.EncodeToString(sum.Sum(nil))
	text, err := json.Marshal(i.done)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return to.put(ctx, name+doneSuffix, text)
}

// unchanged reports an error if the log whose pages were copied has started over meanwhile:
// then they may be of several moments.
func (i *image) unchanged(log *os.File) error {
	if log == nil {
		return nil
	}
	salts := make([]byte, 8)
	if _, err := log.ReadAt(salts, 16); err != nil {
		return fmt.Errorf("read the write-ahead log: %w", err)
	}
	if [2]uint32{binary.BigEndian.Uint32(salts), binary.BigEndian.Uint32(salts[4:])} != i.done.Salts {
		return errors.New("another program has copied the write-ahead log into the store during the copy")
	}
	return nil
}

// parts uploads a file piece by piece.
type parts struct {
	ctx     context.Context
	to      target
	name    string
	at      int64
	pending []byte
}

func (p *parts) Write(data []byte) (int, error) {
	p.pending = append(p.pending, data...)
	if len(p.pending) >= snapshotPart {
		return len(data), p.flush()
	}
	return len(data), nil
}

func (p *parts) flush() error {
	if len(p.pending) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, stepTimeout)
	defer cancel()
	err := p.to.writeAt(ctx, p.name, p.at, p.pending)
	p.at += int64(len(p.pending))
	p.pending = p.pending[:0]
	return err
}
