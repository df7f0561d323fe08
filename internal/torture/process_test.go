//go:build long

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

// patience is how long anything may take before it counts as stuck. Nothing waits
// for it to pass.
const patience = 4 * time.Minute

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

// launch starts coax and waits for nothing. It goes when the test does, and also
// if the test is killed.
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

// untilSaid waits until the process has written what is looked for.
func (p *process) untilSaid(where *output, what string) {
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

// signal tells the process something, if it is still there to hear it.
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

// terminate asks the process to end and demands that it does so well.
func (p *process) terminate() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.endsWell()
}

// endsWell waits for the end of a process that was asked to end. It is asked once:
// the second time ends it at once.
func (p *process) endsWell() {
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
	case <-time.After(patience):
		p.t.Fatalf("coax %q does not end:\n%s", p.cmd.Args[1:], tail(p.err.String(), 20))
	}
}

// sound objects to what no process may ever say, however it ended.
func (p *process) sound() {
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
	if !within(patience, 2*time.Millisecond, condition) {
		t.Fatalf("gave up waiting until %s", what)
	}
}

// within polls a condition, with pauses, and reports whether it came about.
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
