//go:build long

package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// debian is a minimal Debian with what an administrator's machine has anyway. It is made
// once, and copied for each test.
var debian = sync.OnceValues(func() (string, error) {
	folder, err := filepath.Abs(filepath.Join(root, ".packages/debian"))
	if err != nil {
		return "", err
	}
	const include = "adduser,bash-completion,ca-certificates,curl,iproute2,logrotate,man-db,openssl,procps,python3-seccomp,systemd"
	complete := folder + ".complete"
	if made, err := os.ReadFile(complete); err == nil && string(made) == include {
		return folder, nil
	}
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return "", err
	}
	make := exec.Command("debootstrap", "--variant=minbase", "--include="+include, "bookworm", folder)
	if text, err := make.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%q: %w\n%s", make.Args, err, text)
	}
	return folder, os.WriteFile(complete, []byte(include), 0o644)
})

// machine is a Debian with a network of its own. Its processes end with the test.
type machine struct {
	t    *testing.T
	root string
	pid  string // of its first process

	simulatorCommand []string // of the guide
	simulator        *service
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		lacks(t, "root, to install packages on a Debian of its own")
	}
	for _, tool := range []string{"debootstrap", "unshare", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			lacks(t, tool)
		}
	}
	base, err := debian()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "machine")}
	if text, err := exec.Command("cp", "-a", base, m.root).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v\n%s", base, err, text)
	}
	first := exec.Command("unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-ec",
		`mount --make-rprivate / && mount -t proc proc "$0/proc" && chroot "$0" ip link set lo up && echo ready && exec sleep infinity`, m.root)
	var out e2e.LogBuffer
	first.Stdout, first.Stderr = &out, &out
	first.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = first.Wait(); close(ended) }()
	t.Cleanup(func() { _ = first.Process.Kill(); <-ended })
	await(t, "the machine is up", func() bool {
		select {
		case <-ended:
			t.Fatalf("the machine is not up: %s", out.String())
		default:
		}
		return strings.Contains(out.String(), "ready")
	})
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", first.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	m.pid = strings.TrimSpace(string(children))
	return m
}

// lacks skips the test, or fails it in CI.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI needs %s", what)
	}
	t.Skipf("this needs %s", what)
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	timeout := time.After(e2e.Timeout)
	for !condition() {
		select {
		case <-timeout:
			t.Fatalf("gave up waiting until %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inside returns a command that runs on the machine, in its root folder.
func (m *machine) inside(words ...string) *exec.Cmd {
	words = append([]string{"--target", m.pid, "--mount", "--net", "--pid", "--ipc", "chroot", m.root}, words...)
	command := exec.CommandContext(m.t.Context(), "nsenter", words...)
	command.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	return command
}

// try runs a script of bash as root, and returns what it prints.
func (m *machine) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 10*time.Minute)
	defer cancel()
	command := m.inside("bash", "-c", "set -o pipefail; cd /root; umask 022; "+script)
	context.AfterFunc(ctx, func() {
		if command.Process != nil {
			_ = command.Process.Kill()
		}
	})
	out, err := command.CombinedOutput()
	return string(out), err
}

func (m *machine) run(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	if err != nil {
		m.t.Fatalf("# %s\n%v\n%s", script, err, out)
	}
	return out
}

// exists reports whether there is such a file.
func (m *machine) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(m.root, path))
	return err == nil
}

// put copies a file onto the machine.
func (m *machine) put(from, to string) {
	m.t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(filepath.Join(m.root, to), text, 0o755)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// sandbox mounts everything read-only but the folders that are named behind the root, as
// ProtectSystem=strict does, and gives the process a /tmp of its own.
const sandbox = `
root=$1; shift
mount --rbind "$root" "$root"
while [ "$1" != -- ]; do mount --bind "$root$1" "$root$1"; shift; done; shift
mount -t tmpfs tmpfs "$root/tmp"
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"`

// restrict installs the filters of system calls that systemd would install for a unit, and then
// runs a program. Its arguments are the calls that SystemCallFilter= leaves, whether
// MemoryDenyWriteExecute= is set, the families of RestrictAddressFamilies=, and the program.
const restrict = `
import errno, os, socket, sys
from seccomp import *
calls, no_code, families, program = sys.argv[1].split(","), sys.argv[2] == "yes", sys.argv[3].split(), sys.argv[4:]
others = SyscallFilter(defaction=ALLOW)
if no_code:
    others.add_rule(ERRNO(errno.EPERM), "mmap", Arg(2, MASKED_EQ, 6, 6))
    for call in ("mprotect", "pkey_mprotect"):
        others.add_rule(ERRNO(errno.EPERM), call, Arg(2, MASKED_EQ, 4, 4))
allowed = [int(getattr(socket, family)) for family in families]
for family in range(64):
    if family not in allowed:
        others.add_rule(ERRNO(errno.EAFNOSUPPORT), "socket", Arg(0, EQ, family))
listed = SyscallFilter(defaction=ERRNO(errno.EPERM))
known = [call for call in calls if resolve_syscall(Arch(), call) >= 0]
if len(known) < 200:
    sys.exit("only %d system calls are known" % len(known))
for call in known:
    listed.add_rule(ALLOW, call)
others.load()
listed.load()
os.execvp(program[0], program)
`

// systemCalls returns the calls that a unit's SystemCallFilter= and ProtectClock= leave.
func (m *machine) systemCalls(u unit) []string {
	m.t.Helper()
	calls := map[string]bool{}
	var each func(name string, do func(call string))
	each = func(name string, do func(call string)) {
		if name[0] != '@' {
			do(name)
			return
		}
		for line := range strings.Lines(m.run("systemd-analyze syscall-filter --no-pager " + name)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line != name {
				each(line, do)
			}
		}
	}
	for i, list := range u["Service.SystemCallFilter"] {
		names, denied := strings.CutPrefix(list, "~")
		if denied && i == 0 {
			m.t.Fatalf("SystemCallFilter=%s: want a list of what is allowed first", list)
		}
		for _, name := range strings.Fields(names) {
			each(name, func(call string) {
				if delete(calls, call); !denied {
					calls[call] = true
				}
			})
		}
	}
	if u.one("Service.ProtectClock") == "yes" {
		each("@clock", func(call string) { delete(calls, call) })
	}
	return slices.Sorted(maps.Keys(calls))
}

// unit reads a unit that is installed.
func (m *machine) unit(name string) unit {
	m.t.Helper()
	u, err := readUnit(filepath.Join(m.root, "lib/systemd/system", name))
	if err != nil {
		m.t.Fatal(err)
	}
	return u
}

// environment returns what Environment= and EnvironmentFile= of a unit set.
func (m *machine) environment(u unit) map[string]string {
	m.t.Helper()
	lines := []string{strings.Trim(u.one("Service.Environment"), `"`)}
	if path := strings.TrimPrefix(u.one("Service.EnvironmentFile"), "-"); path != "" {
		lines = append(lines, strings.Split(m.run("cat "+path), "\n")...)
	}
	all := map[string]string{}
	for _, line := range lines {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && name[0] != '#' {
			all[name] = value
		}
	}
	return all
}

// process starts what a unit starts: its ExecStart, as its user, with the environment, the
// capabilities, system calls, limits and writable folders of the unit.
func (m *machine) process(name string) *exec.Cmd {
	m.t.Helper()
	u := m.unit(name)
	words := []string{"--target", m.pid, "--mount", "--net", "--pid", "--ipc", "unshare", "--mount", "sh", "-ec", sandbox, "sh", m.root}
	words = append(append(words, u.writable()...), "--")
	kept := strings.ToLower(strings.ReplaceAll(u.one("Service.AmbientCapabilities"), "CAP_", "+"))
	bounding, ambient := "-all", "-all"
	if kept != "" {
		bounding, ambient = "-all,"+kept, kept
	}
	words = append(words, "setpriv", "--reuid="+u.one("Service.User"), "--regid="+u.one("Service.Group"), "--init-groups",
		"--inh-caps="+bounding, "--ambient-caps="+ambient, "--bounding-set="+bounding, "--no-new-privs")
	script := "umask " + u.one("Service.UMask") + "; ulimit -c " + u.one("Service.LimitCORE") + "; "
	if files := u.one("Service.LimitNOFILE"); files != "" {
		script += "ulimit -n " + files + "; "
	}
	for name, value := range m.environment(u) {
		script += fmt.Sprintf("export %s='%s'; ", name, value)
	}
	const restrictor = "/usr/local/lib/restrict.py"
	if err := os.WriteFile(filepath.Join(m.root, restrictor), []byte(restrict), 0o644); err != nil {
		m.t.Fatal(err)
	}
	script += fmt.Sprintf("exec python3 %s %s '%s' '%s' ", restrictor, strings.Join(m.systemCalls(u), ","),
		u.one("Service.MemoryDenyWriteExecute"), u.one("Service.RestrictAddressFamilies"))
	words = append(words, "bash", "-c", script+u.one("Service.ExecStart"))
	command := exec.CommandContext(m.t.Context(), "nsenter", words...)
	command.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}
	return command
}

// service is a process that runs until it is stopped.
type service struct {
	m     *machine
	cmd   *exec.Cmd
	log   e2e.LogBuffer
	ended chan struct{}
}

func (m *machine) start(command *exec.Cmd, ready func(log string) bool) *service {
	m.t.Helper()
	s := &service{m: m, cmd: command, ended: make(chan struct{})}
	command.Stdout, command.Stderr = &s.log, &s.log
	if err := command.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() { _ = command.Wait(); close(s.ended) }()
	await(m.t, fmt.Sprintf("%q is ready", command.Args), func() bool {
		select {
		case <-s.ended:
			m.t.Fatalf("%q ended:\n%s", command.Args, s.log.String())
		default:
		}
		return ready(s.log.String())
	})
	return s
}

// serve starts coax.service and waits until it is ready.
func (m *machine) serve() *service {
	m.t.Helper()
	return m.start(m.process("coax.service"), func(string) bool {
		out, err := m.try("curl -s http://127.0.0.1:9443/readyz")
		return err == nil && strings.Contains(out, `"ok":true`)
	})
}

// pid is the program's, the child of nsenter.
func (s *service) pid() int {
	s.m.t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.cmd.Process.Pid))
	if err != nil {
		s.m.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		s.m.t.Fatal(err)
	}
	return pid
}

func (s *service) signal(signal syscall.Signal) {
	s.m.t.Helper()
	if err := syscall.Kill(s.pid(), signal); err != nil {
		s.m.t.Fatal(err)
	}
}

// end ends a process that is no service.
func (s *service) end() {
	s.m.t.Helper()
	s.signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(e2e.Timeout):
		s.m.t.Fatalf("%q did not end:\n%s", s.cmd.Args, s.log.String())
	}
}

// stop ends the service as systemd does.
func (s *service) stop() {
	s.m.t.Helper()
	s.end()
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.m.t.Errorf("the service exits %d; want 0:\n%s", code, s.log.String())
	}
}

// release builds with the program of make release, from what is in the working tree.
func release(out string, environ []string, args ...string) error {
	top, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	commit, err := workingTree()
	if err != nil {
		return err
	}
	tool, err := releaseProgram()
	if err != nil {
		return err
	}
	command := exec.Command(tool, append([]string{"-root", top, "-out", out, "-commit", commit}, args...)...)
	command.Env = append(os.Environ(), environ...)
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w\n%s", command.Args, err, text)
	}
	return nil
}

var releaseProgram = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "coax-release-program-")
	if err != nil {
		return "", err
	}
	atEnd = append(atEnd, func() { _ = os.RemoveAll(folder) })
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "release"), ".")
	build.Dir = filepath.Join(root, "tools/release")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%q: %w\n%s", build.Args, err, text)
	}
	return filepath.Join(folder, "release"), nil
})

// present is the release of the working tree.
var present = sync.OnceValues(func() (string, error) {
	out, err := os.MkdirTemp("", "coax-release-present-")
	if err != nil {
		return "", err
	}
	atEnd = append(atEnd, func() { _ = os.RemoveAll(out) })
	return out, release(out, nil)
})

// presentRelease returns the folder of the release of the working tree, for every architecture.
func presentRelease(t *testing.T) string {
	t.Helper()
	out, err := present()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// presentPackage returns the package of the working tree for this machine.
func presentPackage(t *testing.T) string {
	t.Helper()
	return onlyFile(t, filepath.Join(presentRelease(t), "*_"+runtime.GOARCH+".deb"))
}

// repackage makes a package with another version and program.
func repackage(t *testing.T, version, binary string) string {
	t.Helper()
	out := t.TempDir()
	if err := release(out, nil, "-arch", runtime.GOARCH, "-version", version, "-binary", binary); err != nil {
		t.Fatal(err)
	}
	return onlyFile(t, filepath.Join(out, "*.deb"))
}

// workingTree returns a commit of the working tree, also of changes that are not
// committed; it is on no branch.
var workingTree = sync.OnceValues(func() (string, error) {
	for _, args := range [][]string{{"stash", "create"}, {"rev-parse", "HEAD"}} {
		out, err := exec.Command("git", append([]string{"-C", root, "-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("git %v: %w", args, err)
		}
		if commit := string(bytes.TrimSpace(out)); commit != "" {
			return commit, nil
		}
	}
	return "", errors.New("git names no commit")
})

// onlyFile returns the one file that a pattern fits.
func onlyFile(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v (%v); want one", pattern, found, err)
	}
	return found[0]
}
