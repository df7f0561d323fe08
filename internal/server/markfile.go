package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/filesync"
)

// markFile is what a node keeps outside the store: the value of the store's mark that it
// has committed last.
type markFile struct {
	About    string    `json:"about"`
	StoreID  string    `json:"store_id"`
	Value    int64     `json:"value"`
	MarkedAt time.Time `json:"marked_at"`
}

const aboutMark = "The mark of a Coax store. A store that is behind this value was restored from an older copy, and starts in maintenance. " +
	"Keep this file out of backups, and do not copy it."

func (m markFile) encode() ([]byte, error) {
	m.About = aboutMark
	text, err := json.MarshalIndent(m, "", "  ")
	return append(text, '\n'), err
}

func decodeMark(text []byte) (*markFile, error) {
	var m markFile
	from := json.NewDecoder(bytes.NewReader(text))
	if err := from.Decode(&m); err != nil {
		return nil, err
	}
	if m.StoreID == "" || m.Value < 0 {
		return nil, errors.New("it has no store_id or value")
	}
	return &m, nil
}

// readMarkFile returns nil if there is no file.
func readMarkFile(path string) (*markFile, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store.mark_file: %w", fileowner.Explain(path, err))
	}
	m, err := decodeMark(text)
	if err != nil {
		return nil, fmt.Errorf("store.mark_file: %s is not a mark that a node has written: %w; restore it if you can, or remove it: "+
			"a node with a SQLite store then starts in maintenance", path, err)
	}
	return m, nil
}

// writeMarkFile replaces the file. It is on the disk when it returns.
func writeMarkFile(path string, m markFile) ([]byte, error) {
	text, err := m.encode()
	if err != nil {
		return nil, err
	}
	if err := fileowner.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("store.mark_file: make its folder: %w", err)
	}
	if err := ReplaceFile(path, 0o600, text); err != nil {
		return nil, fmt.Errorf("store.mark_file: write %s: %w", path, fileowner.Explain(path, err))
	}
	if err := filesync.Folder(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("store.mark_file: sync its folder: %w", err)
	}
	return text, nil
}
