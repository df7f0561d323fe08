package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e/program"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// Output collects a program's output, for a test that waits for some of it.
type Output struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

// NewOutput returns an empty Output.
func NewOutput() *Output { return &Output{changed: make(chan struct{})} }

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.buf.Write(p)
}

func (o *Output) String() string {
	text, _ := o.now()
	return text
}

func (o *Output) now() (text string, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String(), o.changed
}

// WaitFor waits for output that contains want. It returns false when done is closed or
// Timeout has passed before.
func (o *Output) WaitFor(want string, done <-chan struct{}) bool {
	timeout := time.NewTimer(Timeout)
	defer timeout.Stop()
	for {
		text, changed := o.now()
		if strings.Contains(text, want) {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return strings.Contains(o.String(), want)
		case <-timeout.C:
			return false
		}
	}
}

// Process is the program in its own process.
type Process struct {
	TB       testing.TB
	Cmd      *exec.Cmd
	Out, Err *Output
	Ended    chan struct{}
	// DemoJSON is the line that demo printed; Demo is its content.
	DemoJSON string
	Demo     demo.Info
}

// Start starts the program and waits until it is ready: demo --json prints a line on
// stdout, serve writes to its log.
func Start(t testing.TB, args ...string) *Process {
	t.Helper()
	p := Launch(t, args...)
	t.Cleanup(func() { p.Kill() })
	p.AwaitReady()
	return p
}

// AwaitReady waits until the process serves.
func (p *Process) AwaitReady() {
	p.TB.Helper()
	args := p.Cmd.Args[1:]
	if args[0] != "demo" {
		if !p.Err.WaitFor(`"serving"`, p.Ended) {
			p.TB.Fatalf("coax %q did not become ready:\n%s", args, p.Err)
		}
		return
	}
	if !p.Out.WaitFor("\n", p.Ended) {
		p.TB.Fatalf("coax %q did not become ready:\n%s", args, p.Err)
	}
	p.DemoJSON, _, _ = strings.Cut(p.Out.String(), "\n")
	if err := json.Unmarshal([]byte(p.DemoJSON), &p.Demo); err != nil {
		p.TB.Fatalf("coax %q printed no line of JSON: %v\n%s", args, err, p.Out)
	}
}

// Launch starts the program without waiting.
func Launch(t testing.TB, args ...string) *Process {
	t.Helper()
	return LaunchProgram(t, Binary(t), nil, args...)
}

// LaunchProgram is Launch with another build of the program and more environment.
func LaunchProgram(t testing.TB, program string, environ []string, args ...string) *Process {
	t.Helper()
	command := exec.Command(program, WithDemoStore(t, args)...)
	command.Env = append(Environ(), environ...)
	return LaunchCommand(t, command)
}

// LaunchCommand is Launch with a prepared command.
func LaunchCommand(t testing.TB, command *exec.Cmd) *Process {
	t.Helper()
	p := &Process{TB: t, Cmd: command, Out: NewOutput(), Err: NewOutput(), Ended: make(chan struct{})}
	command.Stdout, command.Stderr = p.Out, p.Err
	// A killed test run must leave no service running.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = command.Wait()
		close(p.Ended)
	}()
	return p
}

// Environ returns this process's environment without COAX_ variables.
func Environ(more ...string) []string {
	var environ []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "COAX_") {
			environ = append(environ, entry)
		}
	}
	return append(append(environ, CoverageEnv()...), more...)
}

// Kill ends the process with SIGKILL.
func (p *Process) Kill() {
	p.TB.Helper()
	if err := p.Cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.TB.Errorf("kill the process: %v", err)
	}
	p.Wait()
}

// Terminate sends SIGTERM and returns the exit status.
func (p *Process) Terminate() int { p.TB.Helper(); return p.Signal(syscall.SIGTERM) }

// Interrupt sends SIGINT and returns the exit status.
func (p *Process) Interrupt() int { p.TB.Helper(); return p.Signal(syscall.SIGINT) }

// Signal sends a signal that ends the process and returns the exit status.
func (p *Process) Signal(s os.Signal) int {
	p.TB.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.TB.Errorf("signal the process: %v", err)
	}
	return p.Wait()
}

// Hangup sends SIGHUP and waits until the process has logged a line once more.
func (p *Process) Hangup(line string) {
	p.TB.Helper()
	before := strings.Count(p.Err.String(), line)
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.TB.Fatalf("signal the process: %v", err)
	}
	timeout := time.After(Timeout)
	for {
		text, changed := p.Err.now()
		if strings.Count(text, line) > before {
			return
		}
		select {
		case <-changed:
		case <-p.Ended:
			p.TB.Fatalf("the process has ended:\n%s", text)
		case <-timeout:
			p.TB.Fatalf("the process does not log %q again:\n%s", line, text)
		}
	}
}

// Wait returns the exit status; -1 if a signal ended the process.
func (p *Process) Wait() int {
	p.TB.Helper()
	select {
	case <-p.Ended:
	case <-time.After(Timeout):
		_ = p.Cmd.Process.Kill()
		p.TB.Fatalf("the process did not end:\n%s", p.Err)
	}
	if text := p.Err.String(); strings.Contains(text, "DATA RACE") || strings.Contains("\n"+text, "\npanic:") {
		p.TB.Errorf("the process reported a race or a panic:\n%s", text)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Credentials is the path of the demo's credentials file.
func (p *Process) Credentials() string {
	return filepath.Join(filepath.Dir(p.Demo.Config), "demo.json")
}

// Install returns the process's installation, for running coax admin beside it.
func (p *Process) Install(t testing.TB) *Install {
	return InstallAt(t, filepath.Dir(p.Demo.Config))
}

// The demo shared by tests that only read or use their own credentials. The first test
// that needs it starts it.
var (
	cliSharedOnce sync.Once
	cliSharedDemo *Process
	cliSharedDir  string
)

// SharedDemo returns the demo shared by tests that change nothing in it.
func SharedDemo(t *testing.T) *Process {
	t.Helper()
	cliSharedOnce.Do(func() {
		var err error
		if cliSharedDir, err = os.MkdirTemp("", "coax-cli-demo-"); err != nil {
			t.Fatal(err)
		}
		if pgtest.Chosen() {
			address, err := pgtest.KeptDatabase()
			if err != nil {
				t.Fatal(err)
			}
			demoStores.Store(cliSharedDir, []string{"store.url=" + address})
		}
		p := Launch(t, "demo", "--dir", cliSharedDir, "--addr", "127.0.0.1:0", "--json", "--set", "limits.failed_auth_per_minute=100000")
		p.AwaitReady()
		// The tests together exceed the default rate limit.
		p.Install(t).JSON("lco", "set", "--lco", "1", "--rate-limit", "100000")
		cliSharedDemo = p
	})
	if cliSharedDemo == nil {
		t.Fatal("the shared demo did not start")
	}
	return cliSharedDemo
}

// endShared stops the shared demo and removes shared folders.
func endShared() {
	if cliSharedDemo != nil {
		_ = cliSharedDemo.Cmd.Process.Kill()
		<-cliSharedDemo.Ended
	}
	if cliSharedDir != "" {
		_ = os.RemoveAll(cliSharedDir)
	}
	cliRemoveTemplate()
}

// Serve starts a long-running command with only this environment, and waits until it has
// printed `ready`: serve on standard error, others on standard output.
func Serve(t testing.TB, environ []string, ready string, args ...string) *Process {
	t.Helper()
	command := exec.Command(Binary(t), WithDemoStore(t, args)...)
	command.Env = append(CoverageEnv(), environ...)
	p := LaunchCommand(t, command)
	t.Cleanup(func() { p.Kill() })
	from := p.Out
	if args[0] == "serve" {
		from = p.Err
	}
	if !from.WaitFor(ready, p.Ended) {
		t.Fatalf("coax %q did not become ready:\n%s%s", args, p.Out, p.Err)
	}
	return p
}

// StartDemo starts a demo in a folder.
func StartDemo(t testing.TB, folder string, more ...string) (*Process, demo.Info) {
	t.Helper()
	p := Serve(t, nil, "\n", append([]string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json"}, more...)...)
	if err := json.Unmarshal([]byte(p.Out.String()), &p.Demo); err != nil {
		t.Fatalf("the demo's output: %v\n%s", err, p.Out)
	}
	return p, p.Demo
}

// FailpointBinary returns the path of the binary built with failpoints.
func FailpointBinary(t testing.TB) string {
	t.Helper()
	path, err := program.Failpoints()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// CodeSet returns a set of one code.
func CodeSet(code fault.Code) map[fault.Code]bool { return map[fault.Code]bool{code: true} }
