package server

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// fileUser is a user as the permissions of files tell users apart.
type fileUser struct {
	name   string
	uid    uint32
	groups []uint32
}

// Bits of a mode.
const (
	mayRead  = 0o4
	mayWrite = 0o2
	mayEnter = 0o1
)

// ownerOfService returns the user that the service runs as: the owner of the data folder, or,
// without one, of the configuration, which may also be root's.
func ownerOfService(c Config, configFile string) (fileUser, bool) {
	place := configFile
	if c.Store.Kind == "sqlite" && exists(filepath.Dir(c.Store.Path)) {
		place = filepath.Dir(c.Store.Path)
	}
	info, err := os.Stat(place)
	if err != nil {
		return fileUser{}, false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || place == configFile && owner.Uid == 0 {
		return fileUser{}, false
	}
	found := fileUser{name: strconv.Itoa(int(owner.Uid)), uid: owner.Uid, groups: []uint32{owner.Gid}}
	known, err := user.LookupId(found.name)
	if err != nil {
		return found, true
	}
	found.name = known.Username
	if ids, err := known.GroupIds(); err == nil {
		for _, id := range ids {
			if n, err := strconv.ParseUint(id, 10, 32); err == nil {
				found.groups = append(found.groups, uint32(n))
			}
		}
	}
	return found, true
}

// may reports whether the user may use a file so, as far as its mode and those of the folders
// above tell. It is true for what cannot be looked at.
func (u fileUser) may(path string, how os.FileMode) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return true
	}
	for {
		info, err := os.Stat(path)
		if err == nil && !u.has(info, how) {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
		path, how = filepath.Dir(path), mayEnter
	}
}

func (u fileUser) has(info os.FileInfo, how os.FileMode) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case !ok || u.uid == 0:
		return true
	case stat.Uid == u.uid:
		return mode>>6&how == how
	case slices.Contains(u.groups, stat.Gid):
		return mode>>3&how == how
	}
	return mode&how == how
}

// giveCure is the command that gives a file to the user.
func (u fileUser) giveCure(path string) string {
	return fmt.Sprintf("as root: chown %s %s (and the folders above it must let that user through)", ShellQuote(u.name+":"), ShellQuote(path))
}
