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
)

// journal keeps the books in a file, one line of JSON for each thing that
// happened. A nil journal keeps nothing.
type journal struct {
	file *os.File
	// broken is the first fault in writing. After it the end of the file may
	// be half a line, so nothing more is written.
	broken error
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
	b := &book{orders: map[string]*order{}, effects: map[string]int{}, byMobile: map[string][]*Call{}}
	if path == "" {
		return b, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the simulator's state: %w", err)
	}
	if err := errors.Join(b.load(file), syncFolder(path)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("read the simulator's state from %s: %w", path, err)
	}
	b.journal = &journal{file: file}
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

func (j *journal) write(happened entry, how durability) error {
	if j == nil {
		return nil
	}
	if j.broken != nil {
		return j.broken
	}
	line, err := json.Marshal(happened)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(line, '\n'))
	if err == nil && how == durably {
		err = j.file.Sync()
	}
	if err != nil {
		j.broken = fmt.Errorf("write the simulator's state: %w", err)
	}
	return j.broken
}

// close ends the books. What is asked afterwards cannot be remembered, and is
// not done.
func (b *book) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.journal == nil || errors.Is(b.journal.broken, os.ErrClosed) {
		return nil
	}
	err := errors.Join(b.journal.file.Sync(), b.journal.file.Close())
	b.journal.broken = os.ErrClosed
	return err
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
