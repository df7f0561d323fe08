package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// liveNodes goes by the folder's lock: who holds it is the store's only node, and one that was
// killed does not.
func (db *DB) liveNodes(_ sqlstore.Querier, reported []admin.NodeKeys, _ time.Time) (live []admin.NodeKeys, older []string, err error) {
	holder, locked, err := folderHolder(db.path + ".lock")
	switch {
	case err != nil || !locked:
		return nil, nil, err
	case len(reported) == 0:
		return nil, []string{fmt.Sprintf("process %s", holder)}, nil
	}
	return reported, nil, nil
}

// folderHolder returns the process that holds a folder's lock.
func folderHolder(path string) (process string, locked bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("look at the folder's lock: %w", err)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, err := os.ReadFile(path)
		return strings.TrimSpace(string(holder)), true, err
	}
	if err != nil {
		return "", false, fmt.Errorf("look at the folder's lock: %w", err)
	}
	return "", false, syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
}
