package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/server"
)

// benchServerTimeout bounds the start and the end of a server.
const benchServerTimeout = time.Minute

// benchServer is a demo in a process and a temporary folder of its own.
type benchServer struct {
	folder string
	info   demo.Info
	cmd    *exec.Cmd
	end    context.CancelFunc // sends SIGTERM
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
	s := &benchServer{folder: folder}
	if err := s.start(ctx, program); err != nil {
		return nil, errors.Join(fmt.Errorf("start a server: %w", err), s.stop())
	}
	return s, nil
}

func (s *benchServer) start(ctx context.Context, program string) error {
	log, err := os.Create(filepath.Join(s.folder, "server.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	var running context.Context
	running, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.cmd = exec.CommandContext(running, program, "demo", "--json", "--dir", s.folder, "--addr", "127.0.0.1:0", "--until-eof",
		"--set", fmt.Sprintf("server.max_connections_per_address=%d", benchMaxConnections+16))
	s.cmd.Env = server.WithoutSettings(os.Environ())
	s.cmd.Stderr = log
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = benchServerTimeout
	// Ctrl-C goes to the bench, which then stops its server.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// If this process is killed, the system closes the pipe and the server ends.
	if _, err := s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	// End the server if it is not ready in time or ctx ends; then Decode fails.
	defer time.AfterFunc(benchServerTimeout, s.end).Stop()
	defer context.AfterFunc(ctx, s.end)()
	return json.NewDecoder(out).Decode(&s.info)
}

// stop ends the server and removes its folder. It returns an error if the server did
// not run until now, or did not end cleanly.
func (s *benchServer) stop() error {
	var problem error
	if s.cmd != nil && s.cmd.Process != nil {
		s.end()
		if err := s.cmd.Wait(); !errors.Is(err, context.Canceled) {
			text, _ := os.ReadFile(filepath.Join(s.folder, "server.log"))
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			problem = fmt.Errorf("the server ended by itself or was killed (%v): %s", err, lines[len(lines)-1])
		}
	}
	return errors.Join(problem, os.RemoveAll(s.folder))
}
