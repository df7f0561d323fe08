package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fileowner"
)

// ReplaceFile writes a file whole or not at all.
func ReplaceFile(path string, mode os.FileMode, content []byte) error {
	draft, err := writeDraft(path, mode, content)
	if err != nil {
		return err
	}
	defer os.Remove(draft)
	return os.Rename(draft, path)
}

// writeDraft writes a file beside the one it is to become, onto the disk.
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

// WriteMasterKey makes a new master key, which only its owner can read and
// nobody can overwrite by accident.
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

// WriteNew writes a file that must not be there yet. It appears whole or not at
// all: half a master key would be worse than none.
func WriteNew(path string, mode os.FileMode, content []byte) error {
	draft, err := writeDraft(path, mode, content)
	if err != nil {
		return err
	}
	defer os.Remove(draft)
	// Unlike a rename, a link never replaces what is there.
	return os.Link(draft, path)
}
