// Package pgprogram runs the programs of a PostgreSQL that is installed on this
// machine, as somebody who may: they refuse to be root. What they do with a server,
// and how long it lives, is their callers' business.
package pgprogram

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// ErrNotInstalled says that there is none to be run.
var ErrNotInstalled = errors.New("PostgreSQL is not installed: Debian's package is called postgresql")

// Find is where a program is. All are of one release, the one whose server would be
// started: what one of them makes is for the others.
func Find(name string) (string, error) {
	server, err := server()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(server), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w; %s is not there", ErrNotInstalled, path)
	}
	return path, nil
}

// server is the one that whoever set the path has chosen, or else the newest of
// Debian's.
func server() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		// A link to it stands alone: its neighbours are where it points.
		return filepath.EvalSymlinks(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", ErrNotInstalled
	}
	return slices.MaxFunc(found, func(a, b string) int { return release(a) - release(b) }), nil
}

func release(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// Command is a program to be run in a folder.
func Command(folder, name string, args ...string) (*exec.Cmd, error) {
	path, err := Find(name)
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	command := exec.Command(path, args...)
	command.Dir = folder
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return command, nil
}

// HandOver makes a file or folder belong to whoever the programs are run as.
func HandOver(path string) error {
	as, err := unprivileged()
	if err != nil || as == nil {
		return err
	}
	return os.Chown(path, int(as.Uid), int(as.Gid))
}

// unprivileged is who runs the programs where we are root: the packages' own user,
// if there is one. It is nil where we are not.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		who, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(who.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(who.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
	}
	return nil, errors.New("there is no unprivileged user to run PostgreSQL as")
}
