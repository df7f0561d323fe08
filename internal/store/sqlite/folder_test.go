package sqlite

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/store/sqlstore"
)

func TestOpen_SecondNodeIsRefused(t *testing.T) {
	path := newFile(t)
	first := open(t, path, Options{})
	_, err := Open(t.Context(), path, Options{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another node (process %d)", os.Getpid())) {
		t.Fatalf("a second node: %v; want it kept out, with the first one's process id", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path, Options{})
}

func TestOpen_ToolBesideNodeCreatesNoStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "coax.db")
	if _, err := Open(t.Context(), path, Options{Role: Tool}); err == nil || !strings.Contains(err.Error(), "coax migrate") {
		t.Errorf("a tool without a store: %v; want an instruction", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("the tool left a folder behind")
	}
	node := open(t, path, Options{})
	scratch(t, node)
	tool := open(t, path, Options{Role: Tool})
	if err := tool.writer.do(t.Context(), note("by the tool")); err != nil {
		t.Fatal(err)
	}
	if got := notes(t, node); got != "by the tool" {
		t.Errorf("the node sees %q", got)
	}
}

func TestOpen_FilesArePrivate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	open(t, filepath.Join(folder, "coax.db"), Options{})
	seen := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		seen++
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has mode %o; want nothing for others", path, mode)
		}
		return nil
	})
	if err != nil || seen < 4 {
		t.Errorf("%d files seen, %v", seen, err)
	}
}

func TestConnections_AreDurable(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "a %20b?c#d", "coax.db"), Options{})
	var mode int
	if err := db.writer.tx.QueryRow(`PRAGMA synchronous`).Scan(&mode); err != nil || mode != 2 {
		t.Errorf("the writer's synchronous is %d, %v; want FULL", mode, err)
	}
	// A last reader that lets go may write the log back, so readers count as well.
	for reader := range maxReaders {
		conn, err := db.readers.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer db.readers.put(conn)
		if err := conn.QueryRow(`PRAGMA synchronous`).Scan(&mode); err != nil || mode != 2 {
			t.Errorf("synchronous of reader %d is %d, %v; want FULL", reader, mode, err)
		}
		if _, err := conn.Exec(`DELETE FROM nonces`); err == nil {
			t.Errorf("reader %d can write", reader)
		}
	}
	err := db.lookUp(t.Context(), func(from sqlstore.Querier) error { return from.QueryRow(`PRAGMA synchronous`).Scan(&mode) })
	if err != nil || mode != 2 {
		t.Errorf("the lookups' synchronous is %d, %v; want FULL", mode, err)
	}
	err = db.lookUp(t.Context(), func(from sqlstore.Querier) error {
		_, err := from.(*connection).Exec(`DELETE FROM nonces`)
		return err
	})
	if err == nil {
		t.Error("a lookup can write")
	}
	if _, err := os.Stat(db.path); err != nil {
		t.Errorf("a folder with odd letters: %v", err)
	}
}

func TestOpen_NewerSchemaIsRefused(t *testing.T) {
	path := newFile(t)
	db := open(t, path, Options{})
	future := func(oldest int) {
		t.Helper()
		err := db.writer.do(t.Context(), func(tx *tx) error {
			_, err := tx.Exec(`INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (?1, ?2)`, 9000+oldest, oldest)
			if err == nil {
				_, err = tx.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (?1, 1)`, 9000+oldest)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// A later migration that this binary can live with is no reason to stop.
	future(generation)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, Options{})
	open(t, path, Options{Role: Tool})
	future(generation + 1)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, role := range []Role{Node, Tool} {
		_, err := Open(t.Context(), path, Options{Role: role})
		if err == nil || !strings.Contains(err.Error(), "install the newer release") {
			t.Errorf("role %d: %v; want the instruction to install the newer release", role, err)
		}
	}
}

func TestOpen_ToolNeedsCurrentSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{Role: Tool}); err == nil || !strings.Contains(err.Error(), "coax migrate") {
		t.Errorf("an empty store: %v; want the instruction to migrate", err)
	}
}

func TestOpen_ForeignFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), path, Options{})
	if err == nil {
		db.Close()
		t.Fatal("a foreign file was opened as a store")
	}
	if !strings.Contains(err.Error(), "move it away") {
		t.Errorf("the error %q does not say what to do", err)
	}
	kept, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(kept), "not a database") {
		t.Error("the foreign file was overwritten")
	}
}

func TestReady_FileRemoved(t *testing.T) {
	db := open(t, newFile(t), Options{})
	if err := db.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(db.path); err != nil {
		t.Fatal(err)
	}
	if err := db.Ready(t.Context()); err == nil {
		t.Error("ready without a file")
	}
}

// The promise of the turnstile: beside a node whose writer never rests, a
// process of its own makes 200 writes, none refused and none waiting over a
// second.
func TestAdminWrites_UnderLoad(t *testing.T) {
	const writes = 200
	if path := os.Getenv("COAX_TEST_TOOL"); path != "" {
		tool := open(t, path, Options{Role: Tool})
		for i := range writes {
			began := time.Now()
			if err := tool.writer.do(t.Context(), note(fmt.Sprintf("tool-%d", i))); err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
			fmt.Println("waited", time.Since(began).Microseconds())
		}
		return
	}
	path := newFile(t)
	node := open(t, path, Options{})
	scratch(t, node)
	var done atomic.Bool
	var written atomic.Int64
	var group sync.WaitGroup
	longestOf := make([]time.Duration, 64)
	for caller := range longestOf {
		group.Go(func() {
			for i := 0; !done.Load(); i++ {
				began := time.Now()
				if err := node.writer.do(t.Context(), note(fmt.Sprintf("node-%d-%d", caller, i))); err != nil {
					t.Error(err)
					return
				}
				written.Add(1)
				longestOf[caller] = max(longestOf[caller], time.Since(began))
			}
		})
	}
	before := written.Load()
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), "COAX_TEST_TOOL="+path)
	out, err := command.CombinedOutput()
	meanwhile := written.Load() - before
	done.Store(true)
	group.Wait()
	if err != nil {
		t.Fatalf("the tool: %v\n%s", err, out)
	}
	count, longest := 0, time.Duration(0)
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		var waited int64
		if n, _ := fmt.Sscanf(lines.Text(), "waited %d", &waited); n == 1 {
			count++
			longest = max(longest, time.Duration(waited)*time.Microsecond)
		}
	}
	// On a machine that stands still everybody waits. A tool that has no turn waits
	// until the node rests, which it does not.
	own := slices.Max(longestOf)
	t.Logf("%d writes beside %d of the node's; the longest took %s, and %s of the node's", count, meanwhile, longest, own)
	if count != writes || longest > max(time.Second, 4*own) {
		t.Errorf("%d of %d writes, the longest in %s; want all, none over a second and over four of the node's own longest, %s", count, writes, longest, own)
	}
	if meanwhile < writes {
		t.Errorf("the node wrote only %d writes meanwhile; it was not busy", meanwhile)
	}
}
