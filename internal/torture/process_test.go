package torture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e/program"
)

// timeout is how long anything may take before it counts as stuck.
const timeout = 4 * time.Minute

// output gathers what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is coax running beside the test.
type process struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err *output
	ended    chan struct{}
}

// launch starts coax in the background. It ends with the test, even if the test is
// killed.
func launch(t testing.TB, failpoint string, args ...string) *process {
	t.Helper()
	path, err := program.Failpoints()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(path, args...), out: &output{}, err: &output{}, ended: make(chan struct{})}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "COAX_") {
			p.cmd.Env = append(p.cmd.Env, entry)
		}
	}
	if failpoint != "" {
		p.cmd.Env = append(p.cmd.Env, "COAX_FAILPOINT="+failpoint)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.kill)
	return p
}

// untilPrinted waits until the process has printed a text.
func (p *process) untilPrinted(where *output, what string) {
	p.t.Helper()
	until(p.t, "coax says "+what, func() bool {
		if strings.Contains(where.String(), what) {
			return true
		}
		if p.over() && !strings.Contains(where.String(), what) {
			p.t.Fatalf("coax %q ended before it said %q:\n%s%s", p.cmd.Args[1:], what, p.out, p.err)
		}
		return false
	})
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// signal sends a signal to the process, if it is still running.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal %v: %v", s, err)
	}
}

// kill ends the process as a power failure would.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// terminate sends SIGTERM and requires a clean exit.
func (p *process) terminate() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.requireCleanExit()
}

// requireCleanExit waits for the end of a process that got SIGTERM. The signal is sent
// once: a second one would end it at once.
func (p *process) requireCleanExit() {
	p.t.Helper()
	p.awaitEnd()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("asked to end, coax ended with %d:\n%s", code, tail(p.err.String(), 20))
	}
}

func (p *process) awaitEnd() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(timeout):
		p.t.Fatalf("coax %q does not end:\n%s", p.cmd.Args[1:], tail(p.err.String(), 20))
	}
}

// checkLog fails the test if the process logged a panic or fatal error.
func (p *process) checkLog() {
	p.t.Helper()
	for line := range strings.Lines(p.err.String()) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, `"panic"`) {
			p.t.Errorf("a process said:\n%s", tail(p.err.String(), 40))
			return
		}
	}
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// run runs a command of coax to its end.
func run(t testing.TB, args ...string) (out string, err error) {
	t.Helper()
	p := launch(t, "", args...)
	p.awaitEnd()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return p.out.String(), fmt.Errorf("coax %s: exit %d\n%s%s", strings.Join(args, " "), code, p.out, p.err)
	}
	return p.out.String(), nil
}

// until polls a condition.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !within(timeout, 2*time.Millisecond, condition) {
		t.Fatalf("gave up waiting until %s", what)
	}
}

// within polls a condition, with pauses, and reports whether it became true.
func within(limit, pause time.Duration, condition func() bool) bool {
	over := time.After(limit)
	for !condition() {
		select {
		case <-over:
			return false
		case <-time.After(pause):
		}
	}
	return true
}
