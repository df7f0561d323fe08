package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/filesync"
)

// journal stores the records in a file, one line of JSON for each event. Lines that
// are added during a write form the next batch, because one sync takes as long for
// many lines as for one. A nil journal stores nothing.
type journal struct {
	file *os.File
	// writeLock is held while writing to the file.
	writeLock sync.Mutex

	mu   sync.Mutex // guards what follows
	open *batch     // receives the next line
	// broken is the first write error. After it the file may end with half a line,
	// so nothing more is written.
	broken error
}

// batch holds lines that are written together.
type batch struct {
	text    []byte
	durable bool // a line has to be synced before its call is answered
	// written and err are guarded by the write lock.
	written bool
	err     error
}

// entry is one line: an order as it was decided, a call as it ended, or both.
type entry struct {
	Order *order `json:"order,omitempty"`
	Call  *Call  `json:"call,omitempty"`
}

// durability says whether a line has to be synced before its call is answered.
type durability bool

const (
	synced   durability = true
	unsynced durability = false
)

// openBook reads the records from a file and appends to it.
func openBook(path string) (*book, error) {
	b := &book{
		orders: map[string]*order{}, effects: map[string]int{}, byMobile: map[string][]*Call{},
		inFlight: map[string]chan struct{}{},
	}
	if path == "" {
		return b, nil
	}
	file, err := fileowner.OpenFile(path, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the simulator's state: %w", err)
	}
	if err := errors.Join(b.load(file), filesync.Folder(filepath.Dir(path))); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("read the simulator's state from %s: %w", path, err)
	}
	b.journal = &journal{file: file, open: &batch{}}
	return b, nil
}

// load reads every complete line. An incomplete last line was being written when
// the simulator died; its call was not answered, so it is truncated.
func (b *book) load(file *os.File) error {
	lines := bufio.NewReader(file)
	var end int64
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var read entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &read); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if read.Order != nil {
			if read.Order.State == applied {
				b.loadCarriedOut(read)
			}
			b.store(*read.Order)
		}
		if read.Call != nil {
			b.appendCall(read.Call)
		}
		end += int64(len(line))
	}
	if err := file.Truncate(end); err != nil {
		return err
	}
	_, err := file.Seek(end, io.SeekStart)
	return err
}

// loadCarriedOut numbers an applied order. Files of earlier versions have its time,
// months and expiry with its call only.
func (b *book) loadCarriedOut(read entry) {
	if has, call := read.Order, read.Call; call != nil && has.CarriedOutAt.IsZero() {
		has.CarriedOutAt, has.Months, has.ExpiresAt = call.At, call.Months, call.ExpiresAt
	}
	read.Order.CarriedOutAt = b.notBeforeLast(read.Order.CarriedOutAt)
	b.carriedOut[b.nextNumber()-1] = read.Order
}

// append adds a line to the next batch, and returns the batch.
func (j *journal) append(happened entry, how durability) (*batch, error) {
	if j == nil {
		return nil, nil
	}
	line, err := json.Marshal(happened)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return nil, j.broken
	}
	j.open.text = append(append(j.open.text, line...), '\n')
	j.open.durable = j.open.durable || how == synced
	return j.open, nil
}

// flush returns when a batch is on disk. The first caller with a line in it writes
// the batch for all.
func (j *journal) flush(lines *batch) error {
	if j == nil {
		return nil
	}
	j.writeLock.Lock()
	if !lines.written {
		j.writeBatch()
	}
	err := lines.err
	j.writeLock.Unlock()
	// Meanwhile a line may have been added that no call waits for.
	j.tryFlush()
	return err
}

// tryFlush writes lines that no call waits for. If another call is writing, that
// call does it afterwards. A batch with a line that a call waits for is written by
// that call.
func (j *journal) tryFlush() {
	for j != nil && j.hasUnwaited() && j.writeLock.TryLock() {
		j.writeBatch()
		j.writeLock.Unlock()
	}
}

func (j *journal) hasUnwaited() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.open.text) > 0 && !j.open.durable
}

// writeBatch writes the open batch. The caller holds the write lock.
func (j *journal) writeBatch() {
	j.mu.Lock()
	lines, err := j.open, j.broken
	j.open = &batch{}
	j.mu.Unlock()

	if err == nil && len(lines.text) > 0 {
		_, err = j.file.Write(lines.text)
		if err == nil && lines.durable {
			err = j.file.Sync()
		}
		if err != nil {
			err = fmt.Errorf("write the simulator's state: %w", err)
			j.mu.Lock()
			j.broken = err
			j.mu.Unlock()
		}
	}
	lines.text, lines.written, lines.err = nil, true, err
}

// close closes the file. Later orders cannot be recorded, so they are not carried
// out.
func (b *book) close() error {
	j := b.journal
	if j == nil {
		return nil
	}
	j.writeLock.Lock()
	defer j.writeLock.Unlock()
	j.writeBatch()
	j.mu.Lock()
	closed := errors.Is(j.broken, os.ErrClosed)
	j.broken = os.ErrClosed
	j.mu.Unlock()
	if closed {
		return nil
	}
	return errors.Join(j.file.Sync(), j.file.Close())
}
