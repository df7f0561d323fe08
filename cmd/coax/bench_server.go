package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/server"
)

// benchServerPatience is how long a server may take to come up, and to end.
const benchServerPatience = time.Minute

// benchServer is a demo that a bench has started for itself, in a process and a
// folder of its own.
type benchServer struct {
	folder string
	line   demo.Info
	cmd    *exec.Cmd
	// hold is the other end of the server's standard input. The server ends when
	// it is closed, which the system does if we are killed.
	hold  io.Closer
	ended chan struct{}
	err   error // how it ended; read it after ended
}

// startBenchServer starts a server and waits until it is ready.
func startBenchServer(ctx context.Context) (*benchServer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start a server: %w", err)
	}
	folder, err := os.MkdirTemp("", "coax-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the server: %w", err)
	}
	s := &benchServer{folder: folder, ended: make(chan struct{})}
	if err := s.start(ctx, program); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *benchServer) start(ctx context.Context, program string) error {
	log, err := os.Create(s.logFile())
	if err != nil {
		close(s.ended)
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(program, "demo", "--json", "--dir", s.folder, "--addr", "127.0.0.1:0", "--until-eof",
		"--set", fmt.Sprintf("server.max_connections_per_address=%d", benchMaxConnections+16))
	s.cmd.Env = withoutSettings(os.Environ())
	s.cmd.Stderr = log
	// A Ctrl-C is for the bench, which then ends its server in good order.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, saying, err := os.Pipe()
	if err != nil {
		close(s.ended)
		return err
	}
	defer said.Close()
	s.cmd.Stdout = saying
	s.hold, err = s.cmd.StdinPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	_ = saying.Close()
	if err != nil {
		close(s.ended)
		return fmt.Errorf("start a server: %w", err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	return s.awaitReady(ctx, said)
}

// awaitReady reads the one line that a demo prints.
func (s *benchServer) awaitReady(ctx context.Context, said io.Reader) error {
	read := make(chan error, 1)
	go func() {
		text, err := bufio.NewReader(said).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(text, &s.line)
		}
		read <- err
	}()
	patience := time.NewTimer(benchServerPatience)
	defer patience.Stop()
	select {
	case err := <-read:
		if err != nil {
			return fmt.Errorf("the server did not come up: %s", s.lastWords())
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.C:
		return fmt.Errorf("the server was not ready within %s: %s", benchServerPatience, s.lastWords())
	}
}

func (s *benchServer) logFile() string { return filepath.Join(s.folder, "server.log") }

// lastWords is the last line of the server's log.
func (s *benchServer) lastWords() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// stop ends the server and removes its folder. The error says that it did not
// end as it should.
func (s *benchServer) stop() error {
	var problem error
	if s.cmd != nil && s.cmd.Process != nil {
		select {
		case <-s.ended:
			problem = fmt.Errorf("the server ended by itself: %s", s.lastWords())
		default:
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
		}
		patience := time.NewTimer(benchServerPatience)
		defer patience.Stop()
		select {
		case <-s.ended:
		case <-patience.C:
			_ = s.cmd.Process.Kill()
			<-s.ended
			problem = fmt.Errorf("the server had to be killed: %s", s.lastWords())
		}
		_ = s.hold.Close()
		if problem == nil && s.err != nil {
			problem = fmt.Errorf("the server ended with %w: %s", s.err, s.lastWords())
		}
	}
	return errors.Join(problem, os.RemoveAll(s.folder))
}

// withoutSettings is an environment in which no setting of ours is made: a server
// that is started to be measured must not find itself on somebody's store.
func withoutSettings(environ []string) []string {
	ours := map[string]bool{server.MasterKeyVariable: true}
	for _, s := range server.Settings {
		ours[server.EnvironmentName(s.Key)] = true
	}
	var rest []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); !ours[name] {
			rest = append(rest, entry)
		}
	}
	return rest
}
