package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// readiness is how long a process may take to come up, and to end.
const readiness = time.Minute

// Process is one that was started for a comparison. It ends with us, whatever we
// end by, where the system can see to that.
type Process struct {
	Name string
	// Said is what the process said when it was ready.
	Said string

	command *exec.Cmd
	log     string
	ended   chan struct{}
	err     error // how it ended; read it after ended
}

// Start runs a program, whose output goes to a file, and waits until it has said
// a line that ready takes.
func Start(ctx context.Context, name string, command *exec.Cmd, log string, ready func(line string) bool) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	command.Stdout, command.Stderr = file, file
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A Ctrl-C is for us, who then end our processes in good order.
	command.SysProcAttr.Setpgid = true
	endWithParent(command.SysProcAttr)
	p := &Process{Name: name, command: command, log: log, ended: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	if err := p.awaitReady(ctx, ready); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Process) awaitReady(ctx context.Context, ready func(line string) bool) error {
	timeout := time.NewTimer(readiness)
	defer timeout.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		text, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		// The last piece may be a line that is still being written.
		whole := text[:bytes.LastIndexByte(text, '\n')+1]
		for line := range strings.Lines(string(whole)) {
			if ready(line) {
				p.Said = line
				return nil
			}
		}
		select {
		case <-again.C:
		case <-p.ended:
			return fmt.Errorf("the %s did not come up: %s", p.Name, p.lastOutput())
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			return fmt.Errorf("the %s was not ready within %s: %s", p.Name, readiness, p.lastOutput())
		}
	}
}

// PID is the process's number.
func (p *Process) PID() int { return p.command.Process.Pid }

// lastOutput returns the end of a process's output.
func (p *Process) lastOutput() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// Stop ends the process and says if it did not end as it should.
func (p *Process) Stop() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the %s ended by itself: %s", p.Name, p.lastOutput())
	default:
		_ = p.command.Process.Signal(syscall.SIGTERM)
	}
	timeout := time.NewTimer(readiness)
	defer timeout.Stop()
	select {
	case <-p.ended:
	case <-timeout.C:
		_ = p.command.Process.Kill()
		<-p.ended
		return fmt.Errorf("the %s had to be killed: %s", p.Name, p.lastOutput())
	}
	if p.err != nil {
		return fmt.Errorf("the %s ended with %w: %s", p.Name, p.err, p.lastOutput())
	}
	return nil
}
