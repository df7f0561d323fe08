package growth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/store/pgtest/pgprogram"
)

// Cluster is a running PostgreSQL with a data folder that outlives it. It listens
// on loopback, to anybody on this machine.
type Cluster struct {
	Port    int
	process *exec.Cmd
	ended   chan struct{}
	log     string
}

// superuser is who everybody is to a cluster.
const superuser = "coax"

// InitCluster makes a data folder.
func InitCluster(data string) error {
	data, err := filepath.Abs(data) // initdb is run from within
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	if err := pgprogram.HandOver(data); err != nil {
		return err
	}
	command, err := program("initdb", data, "--pgdata", data, "--username", superuser, "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-instructions")
	if err != nil {
		return err
	}
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, text)
	}
	return nil
}

// StartCluster starts a server on a data folder, as safe as a real one, with
// settings such as "shared_buffers=512MB" besides, and waits until it answers.
func StartCluster(ctx context.Context, data string, settings ...string) (*Cluster, error) {
	data, err := filepath.Abs(data) // the server goes there before it looks for it
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Port: listener.Addr().(*net.TCPAddr).Port, ended: make(chan struct{}), log: filepath.Join(data, "server.log")}
	if err := listener.Close(); err != nil {
		return nil, err
	}
	args := []string{"-D", data}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", fmt.Sprintf("port=%d", c.Port), "unix_socket_directories=", "max_connections=500",
		"fsync=on", "full_page_writes=on", "synchronous_commit=on", "log_min_messages=warning",
	}, settings...) {
		args = append(args, "-c", setting)
	}
	if c.process, err = program("postgres", data, args...); err != nil {
		return nil, err
	}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.process.Stdout, c.process.Stderr = log, log
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.process.Wait()
		close(c.ended)
	}()
	if err := c.untilReady(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) untilReady(ctx context.Context) error {
	for {
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.ended:
			text, _ := os.ReadFile(c.log)
			return fmt.Errorf("PostgreSQL ended before it was ready:\n%s", text)
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL is not ready: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL is the address of a database.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable&connect_timeout=60", superuser, c.Port, database)
}

// CreateDatabase makes an empty database.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return err
}

// Stop ends the server in order, so that the next one need not recover anything. One
// that is just starting may miss being told, and is told again.
func (c *Cluster) Stop() error {
	for ended := false; !ended; {
		_ = c.process.Process.Signal(syscall.SIGINT)
		select {
		case <-c.ended:
			ended = true
		case <-time.After(time.Second):
		}
	}
	if state := c.process.ProcessState; !state.Success() {
		return fmt.Errorf("PostgreSQL ended with %s", state)
	}
	return nil
}

// PID is the first of the server's processes; the others are its children.
func (c *Cluster) PID() int { return c.process.Process.Pid }

// program is one of PostgreSQL's, to be run in a folder.
func program(name, folder string, args ...string) (*exec.Cmd, error) {
	command, err := pgprogram.Command(folder, name, args...)
	if err != nil {
		return nil, err
	}
	// Ctrl-C ends this process, which stops the server once nothing uses it.
	command.SysProcAttr.Setpgid = true
	endingWithUs(command.SysProcAttr)
	return command, nil
}
