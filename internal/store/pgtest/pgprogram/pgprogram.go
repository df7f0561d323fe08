// Package pgprogram runs the programs of an installed PostgreSQL as an unprivileged user,
// since they refuse to run as root.
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

// ErrNotInstalled means that PostgreSQL was not found.
var ErrNotInstalled = errors.New("PostgreSQL is not installed: Debian's package is called postgresql")

// Find returns the path of a program. All programs are of the release of the server that
// would be started, so that they fit together.
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

// server returns the server in PATH, or else Debian's newest.
func server() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		// The other programs are beside the target of a link.
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

// Command returns a command that runs a program in a folder.
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

// HandOver gives a file or folder to the user that runs the programs.
func HandOver(path string) error {
	as, err := unprivileged()
	if err != nil || as == nil {
		return err
	}
	return os.Chown(path, int(as.Uid), int(as.Gid))
}

// unprivileged returns the user that runs the programs if this process is root: the
// packages' own user, if there is one. It is nil if this process is not root.
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
