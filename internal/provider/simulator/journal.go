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
)

// journal keeps the books in a file, one line of JSON for each thing that
// happened. Lines that come while others are on their way to the disk gather on a
// page and travel together next: the disk takes as long for many as for one. A
// nil journal keeps nothing.
type journal struct {
	file *os.File
	// turn is held by whoever writes to the file.
	turn sync.Mutex

	mu   sync.Mutex // guards what follows
	open *page      // where the next line goes
	// broken is the first fault in writing. After it the end of the file may
	// be half a line, so nothing more is written.
	broken error
}

// page is lines that travel together.
type page struct {
	text    []byte
	durable bool // a line on it must be on the disk before anything is said
	// written and err are the turn's holder's.
	written bool
	err     error
}

// entry is one line: an order as it was decided, a call as it ended, or both.
type entry struct {
	Order *order `json:"order,omitempty"`
	Call  *Call  `json:"call,omitempty"`
}

// durability says whether a line must be on the disk before anything is said.
type durability bool

const (
	durably  durability = true
	sometime durability = false
)

// openBook reads the books from a file and goes on writing them there.
func openBook(path string) (*book, error) {
	b := &book{
		orders: map[string]*order{}, effects: map[string]int{}, byMobile: map[string][]*Call{},
		travelling: map[string]chan struct{}{},
	}
	if path == "" {
		return b, nil
	}
	file, err := fileowner.OpenFile(path, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the simulator's state: %w", err)
	}
	if err := errors.Join(b.load(file), syncFolder(path)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("read the simulator's state from %s: %w", path, err)
	}
	b.journal = &journal{file: file, open: &page{}}
	return b, nil
}

// load reads every whole line. A last line without its end was being written
// when the simulator died; nobody was told of it, so it is cut off.
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
			b.enter(*read.Order)
			if read.Order.State == applied {
				b.numbered++
			}
		}
		if read.Call != nil {
			b.list(read.Call)
		}
		end += int64(len(line))
	}
	if err := file.Truncate(end); err != nil {
		return err
	}
	_, err := file.Seek(end, io.SeekStart)
	return err
}

// put adds a line to the page that travels next, and returns it.
func (j *journal) put(happened entry, how durability) (*page, error) {
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
	j.open.durable = j.open.durable || how == durably
	return j.open, nil
}

// flush returns when a page is on the disk. The first of those whose lines are on
// it takes it there, and the others find it done.
func (j *journal) flush(lines *page) error {
	if j == nil {
		return nil
	}
	j.turn.Lock()
	if !lines.written {
		j.turnPage()
	}
	err := lines.err
	j.turn.Unlock()
	// Somebody may have left a line behind who did not want to wait.
	j.flushSoon()
	return err
}

// flushSoon writes lines that nobody waits for, now or, if somebody else is
// writing, as soon as they have ended. A page with a line that somebody does wait
// for is theirs to write.
func (j *journal) flushSoon() {
	for j != nil && j.hasLeftovers() && j.turn.TryLock() {
		j.turnPage()
		j.turn.Unlock()
	}
}

func (j *journal) hasLeftovers() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.open.text) > 0 && !j.open.durable
}

// turnPage writes the open page. Its caller has the turn.
func (j *journal) turnPage() {
	j.mu.Lock()
	lines, err := j.open, j.broken
	j.open = &page{}
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

// close ends the books. What is asked afterwards cannot be remembered, and is
// not done.
func (b *book) close() error {
	j := b.journal
	if j == nil {
		return nil
	}
	j.turn.Lock()
	defer j.turn.Unlock()
	j.turnPage()
	j.mu.Lock()
	closed := errors.Is(j.broken, os.ErrClosed)
	j.broken = os.ErrClosed
	j.mu.Unlock()
	if closed {
		return nil
	}
	return errors.Join(j.file.Sync(), j.file.Close())
}

// syncFolder makes sure that a file just created is still there after the power
// fails.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
