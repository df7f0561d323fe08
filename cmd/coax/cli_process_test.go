package main

import (
	"bytes"
	"context"
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

	"github.com/coaxhq/coax/internal/store/pgtest"
)

// cliOutput gathers what a program writes, for a test that waits for some of it.
type cliOutput struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

func newCLIOutput() *cliOutput { return &cliOutput{changed: make(chan struct{})} }

func (o *cliOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.buf.Write(p)
}

func (o *cliOutput) String() string {
	text, _ := o.now()
	return text
}

func (o *cliOutput) now() (text string, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String(), o.changed
}

// until waits for output that contains want; it gives up when the writer is
// done or the patience is.
func (o *cliOutput) until(want string, done <-chan struct{}) bool {
	patience := time.NewTimer(cliPatience)
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

// cliProcess is the program in a process of its own.
type cliProcess struct {
	t        testing.TB
	cmd      *exec.Cmd
	parent   *os.File // its closing ends the process
	out, err *cliOutput
	ended    chan struct{}
	// raw is the line of JSON that demo printed, line what it says.
	raw  string
	line demoLine
}

// cliStart starts the program and waits until it is ready: demo --json says so
// in a line on stdout, serve in its log.
func cliStart(t testing.TB, args ...string) *cliProcess {
	t.Helper()
	p := cliLaunch(t, args...)
	t.Cleanup(func() { p.Kill() })
	p.awaitReady()
	return p
}

func (p *cliProcess) awaitReady() {
	p.t.Helper()
	args := p.cmd.Args[1:]
	if args[0] != "demo" {
		if !p.err.until(`"serving"`, p.ended) {
			p.t.Fatalf("coax %q did not come up:\n%s", args, p.err)
		}
		return
	}
	if !p.out.until("\n", p.ended) {
		p.t.Fatalf("coax %q did not come up:\n%s", args, p.err)
	}
	p.raw, _, _ = strings.Cut(p.out.String(), "\n")
	if err := json.Unmarshal([]byte(p.raw), &p.line); err != nil {
		p.t.Fatalf("coax %q printed no line of JSON: %v\n%s", args, err, p.out)
	}
}

// cliLaunch starts the program and waits for nothing.
func cliLaunch(t testing.TB, args ...string) *cliProcess {
	t.Helper()
	return cliLaunchProgram(t, os.Args[0], nil, args...)
}

// cliLaunchProgram does that with another build of the program.
func cliLaunchProgram(t testing.TB, program string, environ []string, args ...string) *cliProcess {
	t.Helper()
	command := exec.Command(program, cliOnStore(t, args)...)
	command.Env = append(cliEnviron(), environ...)
	return cliLaunchCommand(t, command)
}

// cliLaunchCommand does that with a command of which folder, environment and
// arguments are set.
func cliLaunchCommand(t testing.TB, command *exec.Cmd) *cliProcess {
	t.Helper()
	p := &cliProcess{t: t, cmd: command, out: newCLIOutput(), err: newCLIOutput(), ended: make(chan struct{})}
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	p.parent = ours
	command.Env = append(command.Env, cliParentPipe+"=1")
	command.ExtraFiles = []*os.File{theirs}
	command.Stdout, command.Stderr = p.out, p.err
	if err := command.Start(); err != nil {
		ours.Close()
		t.Fatal(err)
	}
	go func() {
		_ = command.Wait()
		ours.Close()
		close(p.ended)
	}()
	return p
}

// cliEnviron is this process's environment without our own settings, for a child
// that is to be the program.
func cliEnviron(more ...string) []string {
	var environ []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "COAX_") && !strings.HasPrefix(entry, "GORACE=") {
			environ = append(environ, entry)
		}
	}
	// The race detector otherwise lingers for a second at every exit.
	environ = append(environ, "GORACE=atexit_sleep_ms=0", cliAsProgram+"=1")
	return append(environ, more...)
}

// Kill ends the process as a power failure would.
func (p *cliProcess) Kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("kill the process: %v", err)
	}
	p.Wait()
}

// Terminate asks the process to end and returns its exit status.
func (p *cliProcess) Terminate() int { p.t.Helper(); return p.signal(syscall.SIGTERM) }

// Interrupt is Ctrl-C.
func (p *cliProcess) Interrupt() int { p.t.Helper(); return p.signal(syscall.SIGINT) }

func (p *cliProcess) signal(s os.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal the process: %v", err)
	}
	return p.Wait()
}

// Wait returns the exit status; -1 if a signal ended the process.
func (p *cliProcess) Wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(cliPatience):
		_ = p.cmd.Process.Kill()
		p.t.Fatalf("the process did not end:\n%s", p.err)
	}
	if text := p.err.String(); strings.Contains(text, "DATA RACE") || strings.Contains("\n"+text, "\npanic:") {
		p.t.Errorf("the process said:\n%s", text)
	}
	return p.cmd.ProcessState.ExitCode()
}

// credentials is the file the process keeps its line in.
func (p *cliProcess) credentials() string {
	return filepath.Join(filepath.Dir(p.line.Config), "demo.json")
}

// house is the folder of the process, for coax admin beside it.
func (p *cliProcess) house(t testing.TB) *cliHouse {
	return cliHouseAt(t, filepath.Dir(p.line.Config))
}

// The demo that tests share which only look, or call with credentials of their
// own. It is started when the first of them asks.
var (
	cliSharedOnce sync.Once
	cliSharedDemo *cliProcess
	cliSharedDir  string
)

func cliDemo(t *testing.T) *cliProcess {
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
		p := cliLaunch(t, "demo", "--dir", cliSharedDir, "--addr", "127.0.0.1:0", "--json", "--set", "limits.failed_auth_per_minute=100000")
		p.awaitReady()
		// Many tests call; none of them is about limits.
		p.house(t).json("lco", "set", "--lco", "1", "--rate-limit", "100000")
		cliSharedDemo = p
	})
	if cliSharedDemo == nil {
		t.Fatal("the shared demo did not come up")
	}
	return cliSharedDemo
}

// cliEndShared removes what the tests shared.
func cliEndShared() {
	if cliSharedDemo != nil {
		_ = cliSharedDemo.cmd.Process.Kill()
		<-cliSharedDemo.ended
	}
	if cliSharedDir != "" {
		_ = os.RemoveAll(cliSharedDir)
	}
	if breakableDir != "" {
		_ = os.RemoveAll(breakableDir)
	}
	cliRemoveTemplate()
}

// cliService is the program running in this process.
type cliService struct {
	t        testing.TB
	out, err *cliOutput
	cancel   context.CancelFunc
	ended    chan struct{}
	code     int
}

// cliServe runs a command that goes on until it is stopped, in this process, and
// waits until it has printed something on stdout or says that it serves.
func cliServe(t testing.TB, environ []string, ready string, args ...string) *cliService {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &cliService{t: t, out: newCLIOutput(), err: newCLIOutput(), cancel: cancel, ended: make(chan struct{})}
	given := cliOnStore(t, args)
	go func() {
		defer close(s.ended)
		s.code = run(ctx, given, s.out, s.err, environ)
	}()
	t.Cleanup(func() { s.Stop() })
	from := s.out
	if args[0] == "serve" {
		from = s.err
	}
	if !from.until(ready, s.ended) {
		t.Fatalf("coax %q did not come up:\n%s%s", args, s.out, s.err)
	}
	return s
}

// Stop does what a signal does, and returns the exit status.
func (s *cliService) Stop() int {
	s.t.Helper()
	s.cancel()
	select {
	case <-s.ended:
	case <-time.After(cliPatience):
		s.t.Fatalf("the service did not end:\n%s", s.err)
	}
	return s.code
}

// cliDemoIn runs a demo in this process.
func cliDemoIn(t testing.TB, folder string, more ...string) (*cliService, demoLine) {
	t.Helper()
	args := append([]string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json"}, more...)
	s := cliServe(t, nil, "\n", args...)
	var line demoLine
	if err := json.Unmarshal([]byte(s.out.String()), &line); err != nil {
		t.Fatalf("the demo's line: %v\n%s", err, s.out)
	}
	return s, line
}
