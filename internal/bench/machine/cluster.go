package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Cluster is a PostgreSQL of our own, which forgets nothing when the power goes:
// figures of one that does would be about something else.
type Cluster struct {
	Bin     string
	port    int
	process *Process
}

// superuser is who everybody is to the cluster.
const superuser = "coax"

// promises are what a cluster has to keep for its figures to count.
var promises = []string{"fsync", "full_page_writes", "synchronous_commit"}

// StartCluster starts a cluster in a folder, which it makes unless one of ours is
// there already.
func StartCluster(ctx context.Context, folder string) (*Cluster, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if owner != nil {
		if err := os.Chown(folder, int(owner.Uid), int(owner.Gid)); err != nil {
			return nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Bin: bin, port: port}
	command := func(name string, args ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(bin, name), args...)
		command.Dir, command.Env = folder, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
		command.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
		return command
	}
	data := filepath.Join(folder, "data")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); errors.Is(err, os.ErrNotExist) {
		if text, err := command("initdb", "--pgdata", data, "--username", superuser, "--auth", "trust", "--encoding", "UTF8",
			"--locale", "C", "--no-instructions", "--no-sync").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("initdb: %w\n%s", err, text)
		}
	}
	args := []string{"-D", data}
	for _, setting := range []string{
		"listen_addresses=127.0.0.1", fmt.Sprintf("port=%d", port), "unix_socket_directories=" + folder,
		"max_connections=400", "shared_buffers=256MB", "max_wal_size=4GB",
		// They are PostgreSQL's own standard, and not left to it.
		"fsync=on", "full_page_writes=on", "synchronous_commit=on",
		// Clusters that are killed leave nothing in the memory that all share.
		"dynamic_shared_memory_type=mmap",
	} {
		args = append(args, "-c", setting)
	}
	c.process, err = Start(ctx, "PostgreSQL", command("postgres", args...), filepath.Join(filepath.Dir(folder), filepath.Base(folder)+".log"),
		func(line string) bool { return strings.Contains(line, "ready to accept connections") })
	if err != nil {
		return nil, err
	}
	if err := c.checkPromises(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// checkPromises reads back what the figures rest on.
func (c *Cluster) checkPromises(ctx context.Context) error {
	connection, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	for _, promise := range promises {
		var value string
		if err := connection.QueryRow(ctx, "SHOW "+promise).Scan(&value); err != nil || value != "on" {
			return fmt.Errorf("PostgreSQL has %s = %q (%w); want on", promise, value, err)
		}
	}
	return nil
}

// URL is the address of a database.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", superuser, c.port, database)
}

// NewDatabase makes an empty one, and returns its address.
func (c *Cluster) NewDatabase(ctx context.Context, name string) (string, error) {
	connection, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer connection.Close(ctx)
	if _, err := connection.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", err
	}
	return c.URL(name), nil
}

// PID is the postmaster's number; the rest of the cluster are its children.
func (c *Cluster) PID() int { return c.process.PID() }

// Stop ends the cluster, cutting off whoever is still connected.
func (c *Cluster) Stop() error { return c.process.stopWith(syscall.SIGINT) }

// ErrNoPostgres says that PostgreSQL is not installed.
var ErrNoPostgres = errors.New("PostgreSQL (Debian's package postgresql) is not installed")

// postgresPrograms is the folder of the newest PostgreSQL's programs.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		// A link to it stands alone: its neighbours are where it points.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", ErrNoPostgres
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// unprivileged is who runs PostgreSQL where we are root, which it refuses to be.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		who, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(who.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(who.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
	}
	return nil, errors.New("there is no unprivileged user to run PostgreSQL as")
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
