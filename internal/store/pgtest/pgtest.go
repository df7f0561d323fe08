// Package pgtest starts PostgreSQL servers for tests from the installed Debian packages: as
// an unprivileged user, in a folder of their own, on a free port.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/store/pgtest/pgprogram"
)

// Server is a running PostgreSQL.
type Server struct {
	Port    int
	folder  string
	process *exec.Cmd
	ended   chan struct{}
	// settings are those of every start so far.
	settings []string
}

// superuser is the user of all connections to these servers.
const superuser = "coax"

// shared is the server for all tests that need no server of their own. A run of the whole suite has
// one, which package pgserver starts and names in COAX_TEST_POSTGRES; otherwise each
// test process starts its own when the first test asks.
var shared struct {
	sync.Once
	server *Server
	given  bool // it belongs to the run, and outlives this process
	err    error
}

// sharedVariable is the environment variable that names the run's server as PORT:FOLDER.
const sharedVariable = "COAX_TEST_POSTGRES"

// NewDatabase creates an empty database on the shared server and returns its address. The
// database is dropped when the test ends, the server is stopped by StopShared.
func NewDatabase(t testing.TB) string {
	t.Helper()
	s, err := theShared()
	if err != nil {
		giveUp(t, err)
	}
	return s.NewDatabase(t)
}

func theShared() (*Server, error) {
	shared.Do(func() {
		if handle := os.Getenv(sharedVariable); handle != "" {
			shared.given = true
			shared.server, shared.err = fromHandle(handle)
			return
		}
		shared.server, shared.err = start(nil)
	})
	return shared.server, shared.err
}

// StopShared ends the shared server, if this process started it, or drops the
// databases that this process kept on the run's; for TestMain.
func StopShared() {
	shared.Do(func() { shared.err = errors.New("the tests are over") })
	switch {
	case shared.server == nil:
	case shared.given:
		shared.server.dropKept()
	default:
		shared.server.Stop()
	}
}

// StartForRun starts the server that all test processes of a run share. The caller
// stops it, and passes Environ to the processes.
func StartForRun() (*Server, error) {
	return startOn(func(s *Server) error {
		if err := s.initdb(); err != nil {
			return err
		}
		return copyData(s.data(), unused(s.folder))
	})
}

// Environ is the setting by which test processes find this server.
func (s *Server) Environ() string { return fmt.Sprintf("%s=%d:%s", sharedVariable, s.Port, s.folder) }

func fromHandle(handle string) (*Server, error) {
	port, folder, found := strings.Cut(handle, ":")
	number, err := strconv.Atoi(port)
	if !found || err != nil {
		return nil, fmt.Errorf("%s=%q is not PORT:FOLDER", sharedVariable, handle)
	}
	s := &Server{Port: number, folder: folder}
	conn, err := pgx.Connect(context.Background(), s.URL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("%s names a server that does not answer: %w", sharedVariable, err)
	}
	return s, conn.Close(context.Background())
}

// Start starts a server for one test, with settings such as "synchronous_commit=on". It is
// stopped when the test ends.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	server, err := start(settings)
	if err != nil {
		giveUp(t, err)
	}
	t.Cleanup(server.Stop)
	return server
}

// giveUp skips the test if PostgreSQL is not installed, unless it is required.
func giveUp(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, pgprogram.ErrNotInstalled) && os.Getenv("CI") != "true" && !Chosen() {
		t.Skipf("%v: `make tools-present` installs it", err)
	}
	t.Fatal(err)
}

// start starts a server on new data: a copy of the run's unused data if there is a run, because
// initdb takes seconds.
func start(settings []string) (*Server, error) {
	return startOn(func(s *Server) error {
		if _, folder, given := strings.Cut(os.Getenv(sharedVariable), ":"); given {
			return copyData(unused(folder), s.data())
		}
		return s.initdb()
	}, settings...)
}

func startOn(makeData func(*Server) error, settings ...string) (*Server, error) {
	s, err := newServer()
	if err != nil {
		return nil, err
	}
	if err = makeData(s); err == nil {
		err = s.Boot(settings...)
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func (s *Server) initdb() error {
	return s.run("initdb", "--pgdata", s.data(), "--username", superuser, "--auth", "trust", "--encoding", "UTF8",
		"--locale", "C", "--no-sync", "--no-instructions")
}

// unused is where the run's server keeps a copy of its data that was never started.
func unused(folder string) string { return filepath.Join(folder, "unused") }

// copyData keeps owners and modes.
func copyData(from, to string) error {
	if text, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", from, err, text)
	}
	return nil
}

// newServer creates a folder that the server's user may enter; t.TempDir is only for the
// test's user.
func newServer() (*Server, error) {
	if _, err := pgprogram.Find("postgres"); err != nil {
		return nil, err
	}
	// In memory, if possible: these tests kill processes, not the machine.
	parent := os.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	folder, err := os.MkdirTemp(parent, "coax-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{folder: folder}
	if err := pgprogram.HandOver(folder); err != nil {
		s.remove()
		return nil, err
	}
	if s.Port, err = freePort(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// freePort finds a port below the ephemeral range: a killed server starts again on its port,
// which the system could otherwise give to an outgoing connection meanwhile.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 12_000 + rand.N(20_000)
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) run(name string, args ...string) error {
	command, err := pgprogram.Command(s.folder, name, args...)
	if err != nil {
		return err
	}
	command.Env = append(command.Env, "PGUSER="+superuser, "PGCONNECT_TIMEOUT=60")
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, text)
	}
	return nil
}

// Boot starts the server on its folder, also after a Kill, and waits until it accepts
// connections. Settings add to those it was started with before.
func (s *Server) Boot(settings ...string) error {
	s.settings = append(s.settings, settings...)
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", s.data()}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", fmt.Sprintf("port=%d", s.Port), "unix_socket_directories=" + s.folder,
		"max_connections=1000", "shared_buffers=64MB", "log_min_messages=warning", "max_wal_size=512MB",
		// A standby that has lost its primary looks for it again at once.
		"wal_retrieve_retry_interval=100ms",
		// Servers that are killed leave nothing in the memory that all share.
		"dynamic_shared_memory_type=mmap",
	}, s.settings...) {
		args = append(args, "-c", setting)
	}
	if s.process, err = pgprogram.Command(s.folder, "postgres", args...); err != nil {
		return err
	}
	s.process.Stdout, s.process.Stderr = log, log
	// A test run that is killed leaves no server behind.
	s.process.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	if err := s.process.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		_ = process.Wait()
		close(ended)
	}(s.process, s.ended)
	return s.untilReady()
}

func (s *Server) untilReady() error {
	timeout := time.After(3 * time.Minute)
	for {
		conn, err := pgx.Connect(context.Background(), s.URL("postgres"))
		if err == nil {
			return conn.Close(context.Background())
		}
		select {
		case <-s.ended:
			text, _ := os.ReadFile(filepath.Join(s.folder, "log"))
			return fmt.Errorf("PostgreSQL ended before it was ready:\n%s", text)
		case <-timeout:
			s.Kill()
			return fmt.Errorf("PostgreSQL is not ready after three minutes: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL is the address of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", superuser, s.Port, database)
}

// Exec runs statements in a database.
func (s *Server) Exec(t testing.TB, database, statements string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.PgConn().Exec(context.Background(), statements).ReadAll(); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// Kill ends the server and all its processes with kill -9, like a power failure. Boot starts
// it again.
func (s *Server) Kill() {
	if s.process == nil || s.hasEnded() {
		return
	}
	// A stopped postmaster starts no more children, and none of its children can outlive
	// it and still answer a client.
	pids := s.Freeze()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.ended
	// On a busy machine a child may take a while to die, and until then the
	// server does not start again: the memory they shared is still in use.
	for _, pid := range pids {
		for alive(pid) {
			<-time.After(time.Millisecond)
		}
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func (s *Server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Freeze stops all processes of the server, like a machine that hangs: its connections
// stay open without replies. It returns the processes.
func (s *Server) Freeze() []int {
	pids := []int{s.process.Process.Pid}
	_ = syscall.Kill(pids[0], syscall.SIGSTOP)
	for _, child := range children(pids[0]) {
		_ = syscall.Kill(child, syscall.SIGSTOP)
		pids = append(pids, child)
	}
	return pids
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() {
	for _, child := range children(s.process.Process.Pid) {
		_ = syscall.Kill(child, syscall.SIGCONT)
	}
	_ = syscall.Kill(s.process.Process.Pid, syscall.SIGCONT)
}

func children(parent int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// pid (name) state ppid …; the name may hold anything.
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Stop ends the server at once and removes its folder.
func (s *Server) Stop() {
	if s.process != nil {
		_ = s.process.Process.Signal(syscall.SIGQUIT)
		select {
		case <-s.ended:
		case <-time.After(10 * time.Second):
			s.Kill()
		}
	}
	s.remove()
}

func (s *Server) remove() { _ = os.RemoveAll(s.folder) }
