package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Chosen reports whether the tests of a package that uses either store run on PostgreSQL.
// Then a server is required.
func Chosen() bool {
	switch store := os.Getenv("COAX_TEST_STORE"); store {
	case "postgres":
		return true
	case "", "sqlite":
		return false
	default:
		panic("COAX_TEST_STORE is " + store + "; it can be sqlite or postgres")
	}
}

// databases counts the databases that this process created; kept has those that StopShared
// drops.
var (
	databases atomic.Int64
	kept      sync.Map
)

// NewDatabase creates an empty database and returns its address. It is dropped when the
// test ends.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	return s.newDatabase(t, "")
}

// KeptDatabase creates an empty database on the shared server that several tests can use: it
// is dropped by StopShared.
func KeptDatabase() (string, error) {
	s, err := theShared()
	if err != nil {
		return "", err
	}
	address, err := s.create("")
	kept.Store(address, true)
	return address, err
}

func (s *Server) dropKept() {
	kept.Range(func(address, _ any) bool {
		s.drop(address.(string))
		return true
	})
}

// CopyDatabase copies a database of the shared server, which must have no connections. The
// copy is dropped when the test ends.
func CopyDatabase(t testing.TB, from string) string {
	t.Helper()
	s, err := theShared()
	if err != nil {
		giveUp(t, err)
	}
	return s.newDatabase(t, " TEMPLATE "+databaseOf(from))
}

// Prepared returns a function that makes copies of a prepared database, which is prepared
// once. A copy is dropped when its test ends.
func Prepared(prepare func(address string) error) func(t testing.TB) string {
	prepared := sync.OnceValues(func() (string, error) {
		address, err := KeptDatabase()
		if err != nil {
			return "", err
		}
		return address, prepare(address)
	})
	return func(t testing.TB) string {
		t.Helper()
		from, err := prepared()
		if err != nil {
			giveUp(t, err)
		}
		return CopyDatabase(t, from)
	}
}

// DropDatabase drops a database of the shared server, with its connections.
func DropDatabase(t testing.TB, address string) {
	t.Helper()
	s, err := theShared()
	if err != nil {
		giveUp(t, err)
	}
	s.Exec(t, "postgres", "DROP DATABASE "+databaseOf(address)+" WITH (FORCE)")
}

// PutBack replaces a database of the shared server by a copy of another, as a restore does,
// and cuts the connections to it.
func PutBack(t testing.TB, address, from string) {
	t.Helper()
	DropDatabase(t, address)
	s, err := theShared()
	if err != nil {
		giveUp(t, err)
	}
	s.Exec(t, "postgres", "CREATE DATABASE "+databaseOf(address)+" TEMPLATE "+databaseOf(from)+" STRATEGY FILE_COPY")
}

// SharedLog returns the log of the shared server.
func SharedLog() string {
	s, err := theShared()
	if err != nil {
		return ""
	}
	return s.Log()
}

// Log returns the server's log.
func (s *Server) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.folder, "log"))
	return string(text)
}

func (s *Server) newDatabase(t testing.TB, how string) string {
	t.Helper()
	address, err := s.create(how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.drop(address) })
	return address
}

func (s *Server) create(how string) (string, error) {
	conn, err := pgx.Connect(context.Background(), s.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer conn.Close(context.Background())
	// Several processes may share the server.
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	// Copying files takes half the time of logging every page.
	if _, err := conn.Exec(context.Background(), "CREATE DATABASE "+name+how+" STRATEGY FILE_COPY"); err != nil {
		return "", fmt.Errorf("make a database: %w", err)
	}
	// Connecting waits for a busy server.
	return s.URL(name) + "&connect_timeout=60", nil
}

func (s *Server) drop(address string) {
	conn, err := pgx.Connect(context.Background(), s.URL("postgres"))
	if err != nil {
		return // the test has killed the server
	}
	defer conn.Close(context.Background())
	// Connections that are still open are closed.
	_, _ = conn.Exec(context.Background(), "DROP DATABASE IF EXISTS "+databaseOf(address)+" WITH (FORCE)")
}

func databaseOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		panic(err) // it came from URL
	}
	return strings.TrimPrefix(parsed.Path, "/")
}
