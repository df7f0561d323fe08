package cli

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// serviceUser returns the unprivileged user that the service runs as in these tests.
func serviceUser(t *testing.T) (name string, uid, gid int) {
	t.Helper()
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatalf("these tests run commands as root and as nobody: %v", err)
	}
	uid, _ = strconv.Atoi(nobody.Uid)
	gid, _ = strconv.Atoi(nobody.Gid)
	return nobody.Username, uid, gid
}

// reachable is a folder that other users can enter, with a copy of the program.
func reachable(t *testing.T) (folder, program string) {
	t.Helper()
	folder = t.TempDir()
	for _, open := range []string{filepath.Dir(folder), folder} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program = filepath.Join(folder, "coax")
	// In a process of its own: a command that another test starts while this process writes
	// the file would hold it open, and it could not be run.
	if out, err := exec.Command("cp", e2e.Binary(t), program).CombinedOutput(); err != nil {
		t.Fatalf("copy the program: %v\n%s", err, out)
	}
	return folder, program
}

// runAs runs a program as a user; uid 0 runs it as this process.
func runAs(t *testing.T, uid, gid int, program string, args ...string) e2e.Result {
	t.Helper()
	var out, err bytes.Buffer
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir, command.Env, command.Stdout, command.Stderr = filepath.Dir(program), e2e.CoverageEnv(), &out, &err
	if uid != 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	failed := command.Run()
	if command.ProcessState == nil {
		t.Fatalf("%s %q did not start: %v", program, args, failed)
	}
	return e2e.Result{Code: command.ProcessState.ExitCode(), Out: out.String(), Err: err.String()}
}

// Commands run by root in the folder of the service's user create only files that the
// service can open.
func TestAdminAsRoot_NewFilesTakeTheFoldersOwner(t *testing.T) {
	e2e.OnlySQLite(t, "PostgreSQL has no files of ours")
	folder, program := reachable(t)
	home := filepath.Join(folder, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	name, uid, gid := "", os.Geteuid(), os.Getegid()
	if os.Geteuid() == 0 {
		name, uid, gid = serviceUser(t)
		if err := os.Chown(home, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	service := filepath.Join(home, "coax")
	config := filepath.Join(service, "coax.toml")
	// As the user that runs this test, root if possible.
	e2e.RequireOK(t, runAs(t, 0, 0, program, "init", "--dir", service))
	for _, args := range [][]string{{"migrate"}, {"admin", "lco", "create", "--name", "Asha Cable"}, {"audit"}} {
		e2e.RequireOK(t, runAs(t, 0, 0, program, append(args, "--config", config)...))
	}
	seen := 0
	err := filepath.WalkDir(service, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		seen++
		if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != uid || int(owner.Gid) != gid {
			t.Errorf("%s belongs to %d:%d; want %d:%d, like its folder", path, owner.Uid, owner.Gid, uid, gid)
		}
		return nil
	})
	if err != nil || seen < 7 {
		t.Errorf("%d files and folders were seen, %v; want the configuration, the key, the store and its locks", seen, err)
	}
	// The service opens the store as a node does, and staff as the same user.
	as := 0
	if os.Geteuid() == 0 {
		as = uid
	}
	e2e.RequireOK(t, runAs(t, as, gid, program, "migrate", "--config", config))
	e2e.RequireOK(t, runAs(t, as, gid, program, "admin", "lco", "list", "--config", config))

	checkOwnersNamed(t, program, config, name, uid, gid)
}

// checkOwnersNamed: a file that the service cannot open is named with its owner, the
// user that the service runs as, and the command that mends it. As root that is a
// file of root's; otherwise one of this user's own without permissions.
func checkOwnersNamed(t *testing.T, program, config, name string, uid, gid int) {
	t.Helper()
	service := filepath.Dir(config)
	asRoot := os.Geteuid() == 0
	for _, file := range []struct {
		path string
		args []string
	}{
		{"data/coax.db.lock", []string{"migrate"}}, {"data/coax.db", []string{"migrate"}}, {"data/coax.db", []string{"admin", "lco", "list"}},
		{"data/coax.db", []string{"audit"}}, {"data/coax.db.turnstile", []string{"admin", "lco", "list"}}, {"data/coax.db-wal", []string{"admin", "lco", "list"}},
		{"master.key", []string{"admin", "key", "issue", "--lco", "1"}}, {"coax.toml", []string{"migrate"}}, {"data", []string{"admin", "lco", "list"}},
	} {
		path := filepath.Join(service, file.path)
		before, err := os.Stat(path)
		if err != nil { // a side file of SQLite's, which a command of root's may have left
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(path)
		}
		owner, cure := describeUser(t, os.Geteuid()), fmt.Sprintf("chmod u+rwX %s", path)
		if asRoot {
			owner, cure = "root (uid 0)", fmt.Sprintf("chown %s: %s", name, path)
			must(t, os.Chown(path, 0, 0))
		}
		must(t, os.Chmod(path, 0))
		as := 0
		if asRoot {
			as = uid
		}
		got := runAs(t, as, gid, program, append(file.args, "--config", config)...)
		process := describeUser(t, uid)
		if got.Code != e2e.ExitRefused || !strings.Contains(got.Err, path) || !strings.Contains(got.Err, "belongs to "+owner) ||
			!strings.Contains(got.Err, "runs as "+process) || !strings.Contains(got.Err, cure) || strings.Count(strings.TrimSpace(got.Err), "\n") > 0 {
			t.Errorf("coax %q without rights to %s: %s\nwant one line with the owner %s, the user %s and the cure %q", file.args, file.path, got, owner, process, cure)
		}
		if asRoot {
			must(t, os.Chown(path, uid, gid))
		}
		if before != nil {
			must(t, os.Chmod(path, before.Mode().Perm()))
		} else {
			must(t, os.Remove(path))
		}
	}
	e2e.RequireOK(t, runAs(t, map[bool]int{true: uid}[asRoot], gid, program, "admin", "lco", "list", "--config", config))
	// Another user gets the name of the right user.
	if asRoot {
		stranger := runAs(t, uid-1, gid-1, program, "admin", "lco", "list", "--config", config)
		if stranger.Code != e2e.ExitRefused || !strings.Contains(stranger.Err, "run this as "+name) {
			t.Errorf("a stranger: %s\nwant to be told to be %s", stranger, name)
		}
	}
}

func describeUser(t *testing.T, uid int) string {
	t.Helper()
	known, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return fmt.Sprintf("%d (uid %d)", uid, uid)
	}
	return fmt.Sprintf("%s (uid %d)", known.Username, uid)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
