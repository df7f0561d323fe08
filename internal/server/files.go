package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fileowner"
)

// ReplaceFile replaces a file atomically.
func ReplaceFile(path string, mode os.FileMode, content []byte) error {
	draft, err := writeDraft(path, mode, content)
	if err != nil {
		return err
	}
	defer os.Remove(draft)
	return os.Rename(draft, path)
}

// writeDraft writes and syncs a temporary file in the same folder.
func writeDraft(path string, mode os.FileMode, content []byte) (string, error) {
	draft, err := fileowner.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return "", err
	}
	_, err = draft.Write(content)
	if err := errors.Join(err, draft.Chmod(mode), draft.Sync(), draft.Close()); err != nil {
		_ = os.Remove(draft.Name())
		return "", err
	}
	return draft.Name(), nil
}

// WriteMasterKey writes a new master key to a file that only its owner can read. It never
// overwrites a file.
func WriteMasterKey(path string) error {
	text, err := access.NewMasterKey()
	if err != nil {
		return err
	}
	if err := WriteNew(path, 0o400, text); err != nil {
		return fmt.Errorf("write the master key: %w", err)
	}
	return nil
}

// WriteNew creates a file atomically, and fails if it exists: half a master key would be
// worse than none.
func WriteNew(path string, mode os.FileMode, content []byte) error {
	draft, err := writeDraft(path, mode, content)
	if err != nil {
		return err
	}
	defer os.Remove(draft)
	// Unlike a rename, a link never replaces a file.
	return os.Link(draft, path)
}
