package postgres

import (
	"bytes"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coaxhq/coax/internal/store/pgtest"
)

func refused(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s is not refused", what)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v; want %q in it", what, err, w)
		}
	}
}

func TestOpen_NonDurableServerIsRefused(t *testing.T) {
	t.Parallel()
	address := pgtest.NewDatabase(t)
	for _, way := range []string{"off", "local", "remote_write"} {
		_, err := Open(t.Context(), address+"&synchronous_commit="+way, Options{})
		refused(t, way, err, "would not be durable", "synchronous_commit="+way, "set them for the server, the database and the role")
	}
	ok(t, open(t, address+"&synchronous_commit=remote_apply").Ready(t.Context()))

	// What is said to the database counts as much as what the address says.
	conn := raw(t, address)
	exec(t, conn, fmt.Sprintf(`ALTER DATABASE %s SET synchronous_commit = off`, conn.Config().Database))
	_, err := Open(t.Context(), address, Options{})
	refused(t, "a database that does not wait", err, "synchronous_commit=off")
}

func TestOpen_ServerWithoutFsyncIsRefused(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"fsync=off", "full_page_writes=off"} {
		server := pgtest.Start(t, setting)
		for _, role := range []Role{Node, Tool} {
			_, err := Open(t.Context(), server.NewDatabase(t), Options{Role: role})
			refused(t, setting, err, "would not be durable", setting)
		}
		server.Stop()
	}
}

func TestOpen_ToolRefusesEmptyDatabase(t *testing.T) {
	t.Parallel()
	address := pgtest.NewDatabase(t)
	_, err := Open(t.Context(), address, Options{Role: Tool})
	refused(t, "a tool on an empty database", err, "there is no store", address, "coax migrate")
	if got := count(t, raw(t, address), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`); got != 0 {
		t.Errorf("it has made %d tables", got)
	}
	open(t, address)
	tool, err := Open(t.Context(), address, Options{Role: Tool})
	ok(t, err)
	ok(t, tool.Close())
}

func TestOpen_NewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	exec(t, raw(t, address), `INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (99, 1000)`)
	for _, role := range []Role{Node, Tool} {
		_, err := Open(t.Context(), address, Options{Role: role})
		refused(t, "a schema from the future", err, "newer release", "generation 1000", "install")
	}
}

func TestOpen_ToolNeedsCurrentSchema(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	exec(t, raw(t, address), `DELETE FROM goose_db_version WHERE version_id > 0`)
	_, err := Open(t.Context(), address, Options{Role: Tool})
	refused(t, "a schema that lacks a migration", err, "older than this binary", "coax migrate")
}

// Nodes of their own processes: nothing but the database keeps them apart.
func TestOpen_TenNodesMigrateOnce(t *testing.T) {
	t.Parallel()
	files, err := migrations.ReadDir("migrations")
	ok(t, err)
	all := len(files)
	address := pgtest.NewDatabase(t)
	var gates []io.Closer
	var group sync.WaitGroup
	for node := range 10 {
		process := osexec.Command(os.Args[0])
		process.Env = append(os.Environ(), openTest+"="+unhurried(address), "GORACE=atexit_sleep_ms=0")
		gate, err := process.StdinPipe()
		ok(t, err)
		var said bytes.Buffer
		process.Stdout, process.Stderr = &said, &said
		ok(t, process.Start())
		gates = append(gates, gate)
		group.Go(func() {
			if err := process.Wait(); err != nil {
				t.Errorf("node %d: %v: %s", node, err, said.String())
			}
		})
	}
	for _, gate := range gates {
		ok(t, gate.Close())
	}
	group.Wait()
	conn := raw(t, address)
	for query, want := range map[string]int{
		`SELECT count(*) FROM goose_db_version WHERE version_id > 0`: all, `SELECT count(DISTINCT version_id) FROM goose_db_version WHERE version_id > 0`: all,
		`SELECT count(*) FROM goose_db_version WHERE version_id = 0`: 1, `SELECT count(*) FROM schema_tolerance`: all, `SELECT count(*) FROM staff_chain`: 1,
	} {
		if got := count(t, conn, query); got != want {
			t.Errorf("%s is %d; want %d", query, got, want)
		}
	}
	ok(t, open(t, address).Ready(t.Context()))
}

// Two nodes that both find a store without a master key, and have different ones:
// one of them has the wrong one, and must not seal a secret with it.
func TestMasterKey_DifferentKeysAtStart(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	nodes := []*DB{open(t, address), open(t, address)}
	conn := raw(t, address)
	for round := range 20 {
		exec(t, conn, `TRUNCATE master_keys`)
		var group sync.WaitGroup
		var taken atomic.Int64
		start := make(chan struct{})
		for i, node := range nodes {
			group.Go(func() {
				// Other keys altogether, or another key of the same number.
				id := uint32(1 + i*(round%2))
				<-start
				err := node.CheckMasterKeys(t.Context(), map[uint32][]byte{id: {byte(i)}}, id, noon)
				if err == nil {
					taken.Add(1)
					return
				}
				refused(t, "the other's key", err, "not the master key")
			})
		}
		close(start)
		group.Wait()
		if taken.Load() != 1 {
			t.Fatalf("round %d: %d of the two nodes went on; want one", round, taken.Load())
		}
	}
}
