// Package fileowner makes files that the service can open, whoever runs the command
// that makes them: where root works in the folder of another user, a new file belongs
// to that user. It also says who a file belongs to where it cannot be opened.
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

// OpenFile opens a file for reading and writing, and makes it if it is not there.
func OpenFile(path string, mode os.FileMode) (*os.File, error) {
	// Only what was made here is given away: a link that somebody has put there
	// could lead to any file.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(path, os.O_RDWR, 0)
		return file, Explain(path, err)
	}
	if err != nil {
		return nil, Explain(path, err)
	}
	if err := giveAway(path, file.Chown); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return file, nil
}

// CreateTemp is os.CreateTemp.
func CreateTemp(folder, pattern string) (*os.File, error) {
	file, err := os.CreateTemp(folder, pattern)
	if err != nil {
		return nil, Explain(filepath.Join(folder, pattern), err)
	}
	if err := giveAway(file.Name(), file.Chown); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}

// MkdirAll makes a folder and those above it that are missing.
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
			return os.MkdirAll(path, mode) // somebody else has made it meanwhile, or a file is there
		}
		return Explain(path, err)
	}
	return giveAway(path, func(uid, gid int) error { return os.Lchown(path, uid, gid) })
}

// giveAway makes a new file belong to whoever its folder belongs to, which only root
// may do.
func giveAway(path string, chown func(uid, gid int) error) error {
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

// PermissionError is a file that this process may not open.
type PermissionError struct {
	// Path is what keeps it from that: the file, or a folder above it.
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
	// Of a file that is not there, or cannot be seen, the nearest folder is the cause.
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
		// It was made by root, or by somebody else in this user's folder.
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return fmt.Sprintf("name a folder of %s's, or give it this one: run `chown %s: %s` as root", name(me), name(me), path)
		}
		return fmt.Sprintf("run `chown %s: %s` as root", name(me), path)
	}
	return fmt.Sprintf("run this as %s, such as with `sudo -u %s`", name(uid), name(uid))
}

// name is a user as chown and sudo take one.
func name(uid int) string {
	if known, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return known.Username
	}
	return strconv.Itoa(uid)
}

func describe(uid int) string { return fmt.Sprintf("%s (uid %d)", name(uid), uid) }
