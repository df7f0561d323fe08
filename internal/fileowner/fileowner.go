// Package fileowner creates files that the service can open, also if root runs the command
// that creates them: a new file belongs to the owner of its folder. It also explains
// "permission denied" errors with the owner of the file.
package fileowner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// OpenFile opens a file for reading and writing, and creates it if it is missing.
func OpenFile(path string, mode os.FileMode) (*os.File, error) {
	// Only a file created here changes its owner: an existing link could lead to any file.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(path, os.O_RDWR, 0)
		return file, Explain(path, err)
	}
	if err != nil {
		return nil, Explain(path, err)
	}
	if err := chownToFolder(path, file.Chown); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return file, nil
}

// CreateTemp is os.CreateTemp for a file of the folder's owner.
func CreateTemp(folder, pattern string) (*os.File, error) {
	file, err := os.CreateTemp(folder, pattern)
	if err != nil {
		return nil, Explain(filepath.Join(folder, pattern), err)
	}
	if err := chownToFolder(file.Name(), file.Chown); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}

// MkdirAll creates a folder and its missing parents.
func MkdirAll(path string, mode os.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := MkdirAll(parent, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return os.MkdirAll(path, mode) // another process has created it, or a file has its name
		}
		return Explain(path, err)
	}
	return chownToFolder(path, func(uid, gid int) error { return os.Lchown(path, uid, gid) })
}

// chownToFolder gives a new file to the owner of its folder, if this process is root.
func chownToFolder(path string, chown func(uid, gid int) error) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := ownerOf(filepath.Dir(path))
	if err == nil && uid != 0 {
		err = chown(uid, gid)
	}
	if err != nil {
		return fmt.Errorf("give %s to the owner of its folder: %w", path, err)
	}
	return nil
}

func ownerOf(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, 0, fmt.Errorf("the owner of %s is not known", path)
	}
	return int(stat.Uid), int(stat.Gid), nil
}

// PermissionError says why this process may not open a file.
type PermissionError struct {
	// Path is the cause: the file, or a folder above it.
	Path string
	// Owner and Process are users, such as "coax (uid 997)".
	Owner, Process string
	// Cure is what to do.
	Cure string
	err  error
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("%v: %s belongs to %s and this process runs as %s; %s", e.err, e.Path, e.Owner, e.Process, e.Cure)
}

func (e *PermissionError) Unwrap() error { return e.err }

// Explain turns "permission denied" for a file into an error that names the owner
// and the cure; any other error stays as it is.
func Explain(path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	var explained *PermissionError
	if errors.As(err, &explained) {
		return err
	}
	// If the file is missing or cannot be seen, the nearest folder is the cause.
	for {
		if _, statErr := os.Stat(path); statErr == nil || filepath.Dir(path) == path {
			break
		}
		path = filepath.Dir(path)
	}
	uid, _, ownerErr := ownerOf(path)
	if ownerErr != nil {
		return err
	}
	me := os.Geteuid()
	return &PermissionError{Path: path, Owner: describe(uid), Process: describe(me), Cure: cure(path, uid, me), err: err}
}

func cure(path string, uid, me int) string {
	folder, _, err := ownerOf(filepath.Dir(path))
	switch {
	case uid == me:
		return fmt.Sprintf("run `chmod u+rwX %s`", path)
	case uid == 0 || err == nil && folder == me:
		// It was created by root, or by another user in this user's folder.
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return fmt.Sprintf("name a folder of %s's, or give it this one: run `chown %s: %s` as root", name(me), name(me), path)
		}
		return fmt.Sprintf("run `chown %s: %s` as root", name(me), path)
	}
	return fmt.Sprintf("run this as %s, such as with `sudo -u %s`", name(uid), name(uid))
}

// name returns a user as chown and sudo take it.
func name(uid int) string {
	if known, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return known.Username
	}
	return strconv.Itoa(uid)
}

func describe(uid int) string { return fmt.Sprintf("%s (uid %d)", name(uid), uid) }
