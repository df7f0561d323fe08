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

// Output gathers what a program writes, for a test that waits for some of it.
type Output struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

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

// Until waits for output that contains want; it gives up when the writer is
// done or the patience is.
func (o *Output) WaitFor(want string, done <-chan struct{}) bool {
	patience := time.NewTimer(Timeout)
	defer patience.Stop()
	for {
		text, changed := o.now()
		if strings.Contains(text, want) {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return strings.Contains(o.String(), want)
		case <-patience.C:
			return false
		}
	}
}

// Process is the program in a process of its own.
type Process struct {
	TB       testing.TB
	Cmd      *exec.Cmd
	Out, Err *Output
	Ended    chan struct{}
	// Raw is the line of JSON that demo printed, line what it says.
	DemoJSON string
	Demo     demo.Info
}

// Start starts the program and waits until it is ready: demo --json says so
// in a line on stdout, serve in its log.
func Start(t testing.TB, args ...string) *Process {
	t.Helper()
	p := Launch(t, args...)
	t.Cleanup(func() { p.Kill() })
	p.AwaitReady()
	return p
}

func (p *Process) AwaitReady() {
	p.TB.Helper()
	args := p.Cmd.Args[1:]
	if args[0] != "demo" {
		if !p.Err.WaitFor(`"serving"`, p.Ended) {
			p.TB.Fatalf("coax %q did not come up:\n%s", args, p.Err)
		}
		return
	}
	if !p.Out.WaitFor("\n", p.Ended) {
		p.TB.Fatalf("coax %q did not come up:\n%s", args, p.Err)
	}
	p.DemoJSON, _, _ = strings.Cut(p.Out.String(), "\n")
	if err := json.Unmarshal([]byte(p.DemoJSON), &p.Demo); err != nil {
		p.TB.Fatalf("coax %q printed no line of JSON: %v\n%s", args, err, p.Out)
	}
}

// Launch starts the program and waits for nothing.
func Launch(t testing.TB, args ...string) *Process {
	t.Helper()
	return LaunchProgram(t, Binary(t), nil, args...)
}

// LaunchProgram does that with another build of the program.
func LaunchProgram(t testing.TB, program string, environ []string, args ...string) *Process {
	t.Helper()
	command := exec.Command(program, WithDemoStore(t, args)...)
	command.Env = append(Environ(), environ...)
	return LaunchCommand(t, command)
}

// LaunchCommand does that with a command of which folder, environment and
// arguments are set.
func LaunchCommand(t testing.TB, command *exec.Cmd) *Process {
	t.Helper()
	p := &Process{TB: t, Cmd: command, Out: NewOutput(), Err: NewOutput(), Ended: make(chan struct{})}
	command.Stdout, command.Stderr = p.Out, p.Err
	// A test run that is killed leaves no service behind.
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

// Environ is this process's environment without our own settings, for a child
// that is to be the program.
func Environ(more ...string) []string {
	var environ []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "COAX_") {
			environ = append(environ, entry)
		}
	}
	return append(append(environ, CoverageEnv()...), more...)
}

// Kill ends the process as a power failure would.
func (p *Process) Kill() {
	p.TB.Helper()
	if err := p.Cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.TB.Errorf("kill the process: %v", err)
	}
	p.Wait()
}

// Terminate asks the process to end and returns its exit status.
func (p *Process) Terminate() int { p.TB.Helper(); return p.Signal(syscall.SIGTERM) }

// Interrupt is Ctrl-C.
func (p *Process) Interrupt() int { p.TB.Helper(); return p.Signal(syscall.SIGINT) }

func (p *Process) Signal(s os.Signal) int {
	p.TB.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.TB.Errorf("signal the process: %v", err)
	}
	return p.Wait()
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
		p.TB.Errorf("the process said:\n%s", text)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Credentials is the file the process keeps its line in.
func (p *Process) Credentials() string {
	return filepath.Join(filepath.Dir(p.Demo.Config), "demo.json")
}

// Install is the folder of the process, for coax admin beside it.
func (p *Process) Install(t testing.TB) *Install {
	return InstallAt(t, filepath.Dir(p.Demo.Config))
}

// The demo that tests share which only look, or call with credentials of their
// own. It is started when the first of them asks.
var (
	cliSharedOnce sync.Once
	cliSharedDemo *Process
	cliSharedDir  string
)

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
		// Many tests call; none of them is about limits.
		p.Install(t).JSON("lco", "set", "--lco", "1", "--rate-limit", "100000")
		cliSharedDemo = p
	})
	if cliSharedDemo == nil {
		t.Fatal("the shared demo did not come up")
	}
	return cliSharedDemo
}

// endShared removes what the tests shared.
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

// Serve runs a command that goes on until it is stopped, with this environment
// alone, and waits until it has printed what says that it is ready: serve on
// standard error, others on standard output.
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
		t.Fatalf("coax %q did not come up:\n%s%s", args, p.Out, p.Err)
	}
	return p
}

// DemoIn runs a demo in a folder.
func StartDemo(t testing.TB, folder string, more ...string) (*Process, demo.Info) {
	t.Helper()
	p := Serve(t, nil, "\n", append([]string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json"}, more...)...)
	if err := json.Unmarshal([]byte(p.Out.String()), &p.Demo); err != nil {
		t.Fatalf("the demo's line: %v\n%s", err, p.Out)
	}
	return p, p.Demo
}

// Breakable returns the path of the binary with its failpoints compiled in.
func FailpointBinary(t testing.TB) string {
	t.Helper()
	path, err := program.Failpoints()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func CodeSet(code fault.Code) map[fault.Code]bool { return map[fault.Code]bool{code: true} }
