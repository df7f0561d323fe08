package replica

import (
	"bufio"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Restored describes a restored file.
type Restored struct {
	// At is when the last change in the file was uploaded.
	At time.Time
	// Store is the id of the store.
	Store string
	// Installation is what Options.Installation was; nil if nothing.
	Installation []byte
	// Records is how many uploads were applied to the snapshot.
	Records int
	// Incomplete says why later uploads could not be applied; "" if all were.
	Incomplete string
}

// Restore writes the newest state of a replica, or that of a moment, into a new file. It
// checks every checksum; the caller checks the file's contents. progress may be nil.
func Restore(ctx context.Context, address Address, getenv func(string) string, at time.Time, path string, progress func(done, all int64)) (restored Restored, err error) {
	from, err := address.connect(getenv)
	if err != nil {
		return restored, err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	text, err := readAll(ctx, from, identityName)
	if errors.Is(err, fs.ErrNotExist) {
		return restored, fmt.Errorf("%s is no replica: it has no %s", address, identityName)
	}
	if err != nil {
		return restored, fmt.Errorf("read %s: %w", address, err)
	}
	if restored.Store, err = storeOf(text); err != nil {
		return restored, err
	}
	if restored.Installation, err = readAll(ctx, from, installationName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return restored, fmt.Errorf("read %s: %w", address, err)
	}
	generations, err := readGenerations(ctx, from)
	if err != nil {
		return restored, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return restored, err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	oldest := time.Time{}
	for _, g := range slices.Backward(generations) {
		for _, s := range slices.Backward(g.snapshots) {
			oldest = s.at
			if !at.IsZero() && s.at.After(at) {
				continue
			}
			if err := restored.restore(ctx, from, g, s, at, file, progress); err != nil {
				return restored, err
			}
			return restored, file.Sync()
		}
	}
	if oldest.IsZero() {
		return restored, fmt.Errorf("%s has no complete copy of the store yet", address)
	}
	return restored, fmt.Errorf("%s begins at %s, after %s: name a later moment", address, oldest.Format(time.RFC3339), at.UTC().Format(time.RFC3339))
}

func (d *Restored) restore(ctx context.Context, from target, g generation, s snapshotFile, until time.Time, file *os.File, progress func(done, all int64)) error {
	done, err := readFinished(ctx, from, s)
	if err != nil {
		return err
	}
	if err := unpack(ctx, from, s.name, done, file, progress); err != nil {
		return err
	}
	d.At = done.At
	seq, chain, pages := done.Seq, done.Chain, done.Pages
	segments := g.segments
	// The one before, too: a segment that was not written to its end may be followed by one
	// that has nothing.
	for len(segments) > 2 && segments[2].first <= seq+1 {
		segments = segments[1:]
	}
	torn, damaged := "", ""
	reached := false
	for i := 0; i < len(segments) && !reached; i++ {
		if segments[i].first > seq+1 {
			d.Incomplete = fmt.Sprintf("uploads %d to %d are missing", seq+1, segments[i].first-1)
			if torn != "" {
				d.Incomplete += " (" + torn + ")"
			}
			break
		}
		err := eachRecord(ctx, from, segments[i].name, func(r *record) (more bool, err error) {
			if r.seq <= seq {
				return true, nil
			}
			if r.seq != seq+1 || r.chain != chain || r.pageSize != done.PageSize {
				return false, errDamaged
			}
			if !until.IsZero() && r.at.After(until) {
				reached = true
				return false, nil
			}
			seq, chain, pages, d.At = r.seq, r.sum, r.pages, r.at
			damaged = "" // another segment has what it lost
			d.Records++
			return true, r.apply(file)
		})
		if errors.Is(err, errTorn) {
			torn = segments[i].name + " is torn"
			if errors.Is(err, errDamaged) {
				damaged = fmt.Sprintf("%s is damaged after upload %d", segments[i].name, seq)
			}
			continue // the next one may have it again
		}
		if err != nil {
			return err
		}
	}
	if d.Incomplete == "" && !reached {
		d.Incomplete = damaged
	}
	return file.Truncate(int64(pages) * int64(done.PageSize))
}

func eachRecord(ctx context.Context, from target, name string, use func(*record) (bool, error)) (err error) {
	file, err := from.open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for reader := bufio.NewReaderSize(file, 1<<20); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := readRecord(reader)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if more, err := use(r); err != nil || !more {
			return err
		}
	}
}

// unpack writes a snapshot into the file.
func unpack(ctx context.Context, from target, name string, done finished, file *os.File, progress func(done, all int64)) (err error) {
	packed, err := from.open(ctx, name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, packed.Close()) }()
	sum := sha256.New()
	counted := &io.LimitedReader{R: packed, N: done.Bytes}
	summed := bufio.NewReaderSize(io.TeeReader(counted, sum), 1<<16)
	pages := flate.NewReader(summed)
	page, all := make([]byte, done.PageSize), int64(done.Pages)*int64(done.PageSize)
	out := bufio.NewWriterSize(file, 1<<20)
	for number := range done.Pages {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.ReadFull(pages, page); err != nil {
			return fmt.Errorf("%s is damaged: page %d: %w", name, number+1, err)
		}
		if _, err := out.Write(page); err != nil {
			return err
		}
		if progress != nil && number%8192 == 0 {
			progress(int64(number)*int64(done.PageSize), all)
		}
	}
	if _, err := io.Copy(io.Discard, summed); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != done.SHA256 {
		return fmt.Errorf("%s is damaged: its checksum is another one", name)
	}
	return out.Flush()
}
