package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/store/pgtest/pgprogram"
)

// Standby starts a synchronous standby of this server, in a folder of its own: from here on
// a commit is acknowledged only when the standby has it on its disk.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	standby, err := newServer()
	if err != nil {
		giveUp(t, err)
	}
	t.Cleanup(standby.Stop)
	standby.settings = s.settings
	standby.Rejoin(t, s)
	return standby
}

// Rejoin makes a server that does not run a fresh copy of the primary and its
// standby, where it listened before.
func (s *Server) Rejoin(t testing.TB, primary *Server) {
	t.Helper()
	if err := os.RemoveAll(s.data()); err != nil {
		t.Fatal(err)
	}
	err := s.run("pg_basebackup", "--pgdata", s.data(), "--host", "127.0.0.1", "--port", fmt.Sprint(primary.Port),
		"--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync")
	if err == nil {
		err = s.Boot()
	}
	if err != nil {
		t.Fatal(err)
	}
	primary.WaitForStandby(t)
}

// WaitForStandby makes the server acknowledge a commit only after a standby has
// it, and returns when one is connected that it waits for.
func (s *Server) WaitForStandby(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	s.Exec(t, "postgres", `SELECT pg_reload_conf()`)
	s.Until(t, "a standby is in step", `SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'`)
}

// Promote makes a standby the primary, and returns when it takes writes. It has no standby
// yet that it could wait for.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", `SELECT pg_promote()`)
	s.Until(t, "it is promoted", `SELECT NOT pg_is_in_recovery()`)
	s.StandAlone(t)
}

// StandAlone makes the server acknowledge commits without a standby. Commits that
// wait for one are acknowledged, too: the caller must not promote the standby after it.
func (s *Server) StandAlone(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", `ALTER SYSTEM RESET synchronous_standby_names`)
	s.Exec(t, "postgres", `SELECT pg_reload_conf()`)
}

// Shutdown ends the server cleanly: connections are closed, and a standby has received
// everything. Boot starts it again.
func (s *Server) Shutdown(t testing.TB) {
	t.Helper()
	_ = s.process.Process.Signal(syscall.SIGINT)
	select {
	case <-s.ended:
	case <-time.After(3 * time.Minute):
		t.Fatal("the server did not shut down within three minutes")
	}
}

// Follow starts a server that was shut down cleanly as the standby of the server that
// replaced it.
func (s *Server) Follow(t testing.TB, primary *Server) {
	t.Helper()
	err := s.write("standby.signal", "")
	if err == nil {
		// The last line counts, as with ALTER SYSTEM.
		err = s.write("postgresql.auto.conf", fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=%s'\n", primary.Port, superuser))
	}
	if err == nil {
		err = s.Boot()
	}
	if err != nil {
		t.Fatal(err)
	}
	primary.WaitForStandby(t)
}

// write adds a line to one of the server's files and keeps the file's owner.
func (s *Server) write(name, line string) error {
	path := filepath.Join(s.data(), name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	return errors.Join(err, pgprogram.HandOver(path), file.Close())
}

// Until repeats a query until it returns true.
func (s *Server) Until(t testing.TB, what, question string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for {
		var yes bool
		if err := conn.QueryRow(ctx, question).Scan(&yes); err != nil {
			t.Fatalf("gave up waiting until %s: %v", what, err)
		}
		if yes {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("gave up waiting until %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Cluster is the address of a database on several servers; clients connect to the one
// that takes writes.
func Cluster(database string, servers ...*Server) string {
	hosts := ""
	for i, server := range servers {
		if i > 0 {
			hosts += ","
		}
		hosts += fmt.Sprintf("127.0.0.1:%d", server.Port)
	}
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, hosts, database)
}
