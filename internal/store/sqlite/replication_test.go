package sqlite

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/replica"
	"github.com/coaxhq/coax/internal/store/storetest"
)

// replicated returns options with a replica in a folder.
func replicated(t testing.TB, file, folder string, synchronous bool) *Replication {
	t.Helper()
	address, err := replica.ParseAddress("file://" + folder)
	if err != nil {
		t.Fatal(err)
	}
	return &Replication{
		Sync: synchronous, Now: time.Now, Refused: func(err error) bool { return errors.Is(err, replica.ErrForeign) },
		Open: func(_ context.Context, store string) (Replica, error) {
			log, err := replica.New(address, replica.Options{File: file, Store: store, Now: time.Now, Getenv: os.Getenv})
			if err != nil {
				return nil, err
			}
			return log, nil
		},
	}
}

// restoredRows restores a replica, checks the file and returns its numbers.
func restoredRows(t testing.TB, folder string, at time.Time) []int {
	t.Helper()
	address, err := replica.ParseAddress("file://" + folder)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "restored.db")
	restored, err := replica.Restore(t.Context(), address, os.Getenv, at, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if restored.Incomplete != "" {
		t.Error(restored.Incomplete)
	}
	pool, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var check string
	if err := pool.QueryRow(`PRAGMA integrity_check`).Scan(&check); err != nil || check != "ok" {
		t.Fatalf("the restored file: %s, %v", check, err)
	}
	rows, err := pool.Query(`SELECT n FROM numbers ORDER BY n`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var numbers []int
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

const createNumbers = `CREATE TABLE IF NOT EXISTS numbers (n INTEGER PRIMARY KEY, pad BLOB) STRICT`

func number(n, size int) func(*tx) error {
	return func(tx *tx) error {
		if _, err := tx.Exec(createNumbers); err != nil {
			return err
		}
		pad := make([]byte, size)
		_, _ = rand.Read(pad)
		_, err := tx.Exec(`INSERT INTO numbers (n, pad) VALUES (?1, ?2)`, n, pad)
		return err
	}
}

func wantNumbers(t testing.TB, got []int, want int) {
	t.Helper()
	for i, n := range got {
		if n != i {
			t.Fatalf("after %d numbers without a gap comes %d", i, n)
		}
	}
	if len(got) != want {
		t.Errorf("%d numbers; want %d", len(got), want)
	}
}

func modes(t *testing.T, run func(t *testing.T, synchronous bool)) {
	for _, mode := range []string{"async", "sync"} {
		t.Run(mode, func(t *testing.T) { run(t, mode == "sync") })
	}
}

func TestReplica_EqualsStoreAfterManyCheckpoints(t *testing.T) {
	modes(t, func(t *testing.T, synchronous bool) {
		path, folder := newFile(t), filepath.Join(t.TempDir(), "replica")
		db := open(t, path, Options{Replication: replicated(t, path, folder, synchronous)})
		const writers, each, rounds, size = 8, 150, 20, 20_000
		var next atomic.Int64
		// A busy machine may be slow to start the log over, and then it gets longer.
		for round := 1; ; round++ {
			var group sync.WaitGroup
			for range writers {
				group.Go(func() {
					for range each {
						if err := db.writer.do(t.Context(), number(int(next.Add(1)-1), size)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			log, err := os.Stat(path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			written := next.Load() * size
			if log.Size() <= written*3/4 {
				break
			}
			if round == rounds {
				t.Fatalf("the log has %d bytes after %d were written: it never started over", log.Size(), written)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		wantNumbers(t, restoredRows(t, folder, time.Time{}), int(next.Load()))
	})
}

// killedEnv makes the test program a node that is killed.
const killedEnv = "COAX_TEST_REPLICA_NODE"

func TestReplica_KilledNode(t *testing.T) {
	if path := os.Getenv(killedEnv); path != "" {
		db := open(t, path, Options{Replication: replicated(t, path, os.Getenv(killedEnv+"_TO"), os.Getenv(killedEnv+"_SYNC") == "true")})
		until(t, "the replica is complete", func() bool { s, _ := db.Replication(); return !s.LastSuccess.IsZero() })
		first := count(t, db, `SELECT count(*) FROM numbers`)
		for n := first; ; n++ {
			if err := db.writer.do(t.Context(), number(n, 30_000)); err != nil {
				t.Fatal(err)
			}
			fmt.Println("acknowledged", n)
		}
	}
	modes(t, func(t *testing.T, synchronous bool) {
		path, folder := newFile(t), filepath.Join(t.TempDir(), "replica")
		rawExec(t, path, createNumbers)
		most := -1
		for round := range 3 {
			node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReplica_KilledNode$")
			node.Env = append(os.Environ(), killedEnv+"="+path, killedEnv+"_TO="+folder, killedEnv+"_SYNC="+strconv.FormatBool(synchronous))
			out, err := node.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := node.Start(); err != nil {
				t.Fatal(err)
			}
			lines, wrote := bufio.NewScanner(out), 0
			for lines.Scan() {
				if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d", &most); err == nil {
					if wrote++; wrote == 15+40*round {
						_ = node.Process.Kill()
					}
				}
			}
			_ = node.Wait()
			if wrote < 15+40*round {
				t.Fatalf("the node ended after %d writes", wrote)
			}
			got := restoredRows(t, folder, time.Time{})
			wantNumbers(t, got, len(got)) // a prefix
			if synchronous && len(got) <= most {
				t.Fatalf("round %d: %d numbers were acknowledged, and the replica has %d", round, most+1, len(got))
			}
		}
		db := open(t, path, Options{Replication: replicated(t, path, folder, synchronous)})
		// A node that was killed before an upload may have let the log start over.
		until(t, "the replica is complete", func() bool { s, _ := db.Replication(); return !s.LastSuccess.IsZero() })
		if err := db.writer.do(t.Context(), number(count(t, db, `SELECT count(*) FROM numbers`), 10)); err != nil {
			t.Fatal(err)
		}
		all := count(t, db, `SELECT count(*) FROM numbers`)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		wantNumbers(t, restoredRows(t, folder, time.Time{}), all)
	})
}

func TestReplica_GoneAndBack(t *testing.T) {
	for _, harm := range []struct {
		name       string
		hide, back func(folder string) error
	}{
		{"moved away", func(f string) error { return os.Rename(f, f+".away") }, func(f string) error { return os.Rename(f+".away", f) }},
		{"removed", os.RemoveAll, func(f string) error { return os.Mkdir(f, 0o700) }},
		{"a file in its place", func(f string) error { return errors.Join(os.RemoveAll(f), os.WriteFile(f, nil, 0o600)) },
			func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) }},
	} {
		t.Run(harm.name, func(t *testing.T) {
			modes(t, func(t *testing.T, synchronous bool) {
				path, folder := newFile(t), filepath.Join(t.TempDir(), "replica")
				db := open(t, path, Options{Replication: replicated(t, path, folder, synchronous)})
				n := 0
				write := func() error {
					err := db.writer.do(t.Context(), number(n, 1000))
					if err == nil || errors.Is(err, operation.ErrCommitUnknown) {
						n++
					}
					return err
				}
				for range 20 {
					if err := write(); err != nil {
						t.Fatal(err)
					}
				}
				if err := harm.hide(folder); err != nil {
					t.Fatal(err)
				}
				if synchronous {
					if err := write(); !errors.Is(err, operation.ErrCommitUnknown) {
						t.Errorf("the first write: %v; want an unknown outcome", err)
					}
					if err := write(); !errors.Is(err, operation.ErrUnavailable) {
						t.Errorf("the next write: %v; want the store to be unavailable", err)
					}
					if err := db.Ready(t.Context()); !errors.Is(err, operation.ErrUnavailable) {
						t.Errorf("ready: %v", err)
					}
				} else {
					for range 20 {
						if err := write(); err != nil {
							t.Fatal(err)
						}
					}
					until(t, "the failure is noticed", func() bool { s, _ := db.Replication(); return s.Problem != nil && s.Errors > 0 })
					if err := db.Ready(t.Context()); err != nil {
						t.Errorf("ready: %v", err)
					}
				}
				if err := harm.back(folder); err != nil {
					t.Fatal(err)
				}
				until(t, "the replica is complete", func() bool { s, _ := db.Replication(); return s.Problem == nil && s.Since.IsZero() })
				for range 5 {
					if err := write(); err != nil {
						t.Fatal(err)
					}
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				wantNumbers(t, restoredRows(t, folder, time.Time{}), n)
			})
		})
	}
}

func TestReplica_GivenUpAndCopiedAgain(t *testing.T) {
	path, folder := newFile(t), filepath.Join(t.TempDir(), "replica")
	options := replicated(t, path, folder, false)
	options.MaxBehind = 4 << 20
	db := open(t, path, Options{Replication: options})
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; n < 20 || n < 2000 && !db.replication.replica.Lost(); n++ {
		if err := db.writer.do(t.Context(), number(n, 30_000)); err != nil {
			t.Fatal(err)
		}
	}
	if !db.replication.replica.Lost() {
		t.Fatal("the log grew and the replica was not given up")
	}
	if err := os.Rename(folder+".away", folder); err != nil {
		t.Fatal(err)
	}
	until(t, "the replica is complete", func() bool { s, _ := db.Replication(); return s.Problem == nil && s.Since.IsZero() })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantNumbers(t, restoredRows(t, folder, time.Time{}), n)
}

func TestReplica_ToolWrites(t *testing.T) {
	modes(t, func(t *testing.T, synchronous bool) {
		path, folder := newFile(t), filepath.Join(t.TempDir(), "replica")
		options := replicated(t, path, folder, synchronous)
		n := 0
		write := func(db *DB, times int) {
			t.Helper()
			for range times {
				if err := db.writer.do(t.Context(), number(n, 5000)); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		node := open(t, path, Options{Replication: options})
		write(node, 3)
		tool := open(t, path, Options{Role: Tool, Replication: options})
		for range 10 {
			write(tool, 20)
			write(node, 20)
		}
		write(tool, 1)
		until(t, "the tool's commit is on the replica", func() bool { return len(restoredRows(t, folder, time.Time{})) == n })
		if err := errors.Join(tool.Close(), node.Close()); err != nil {
			t.Fatal(err)
		}
		alone := open(t, path, Options{Role: Tool, Replication: options})
		write(alone, 30)
		if err := alone.Close(); err != nil {
			t.Fatal(err)
		}
		node = open(t, path, Options{Replication: options})
		write(node, 2)
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
		wantNumbers(t, restoredRows(t, folder, time.Time{}), n)
		if entries, err := filepath.Glob(filepath.Join(folder, "g*")); err != nil || len(entries) != 1 {
			t.Errorf("%d generations, %v; want the first one continued", len(entries), err)
		}
	})
}

func TestReplica_OtherStoreIsRefused(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "replica")
	first, second := filepath.Join(t.TempDir(), "coax.db"), filepath.Join(t.TempDir(), "coax.db")
	db := open(t, first, Options{Replication: replicated(t, first, folder, true)})
	if err := db.writer.do(t.Context(), number(0, 10)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), second, Options{Replication: replicated(t, second, folder, true)}); !errors.Is(err, replica.ErrForeign) {
		t.Errorf("another store on the same replica: %v", err)
	}
	wantNumbers(t, restoredRows(t, folder, time.Time{}), 1)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "holiday.jpg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), second, Options{Replication: replicated(t, second, other, false)}); !errors.Is(err, replica.ErrForeign) {
		t.Errorf("a folder with other files: %v", err)
	}
}

func TestReplica_RestoreToMoment(t *testing.T) {
	path, folder := newFile(t), filepath.Join(t.TempDir(), "replica")
	var clock atomic.Int64
	clock.Store(noon.UnixMilli())
	options := replicated(t, path, folder, true)
	options.Open = func(_ context.Context, store string) (Replica, error) {
		address, err := replica.ParseAddress("file://" + folder)
		if err != nil {
			return nil, err
		}
		return replica.New(address, replica.Options{File: path, Store: store, Now: func() time.Time { return time.UnixMilli(clock.Load()) }})
	}
	db := open(t, path, Options{Replication: options})
	for n := range 10 {
		clock.Add(60_000)
		if err := db.writer.do(t.Context(), number(n, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for minutes := 1; minutes <= 10; minutes++ {
		wantNumbers(t, restoredRows(t, folder, noon.Add(time.Duration(minutes)*time.Minute+30*time.Second)), minutes)
	}
	address, _ := replica.ParseAddress("file://" + folder)
	if _, err := replica.Restore(t.Context(), address, os.Getenv, noon.Add(-time.Hour), filepath.Join(t.TempDir(), "x.db"), nil); err == nil {
		t.Error("a moment before the replica was restored")
	}
}

// hanging is a replica whose uploads take as long as a test says.
type hanging struct {
	Replica
	slow chan struct{}
}

func (h *hanging) Ship(ctx context.Context) error {
	if h.slow != nil {
		<-h.slow
	}
	return h.Replica.Ship(ctx)
}

func TestReplica_SlowUploadAnswersInTime(t *testing.T) {
	path, folder := newFile(t), filepath.Join(t.TempDir(), "replica")
	options := replicated(t, path, folder, true)
	options.Timeout = 50 * time.Millisecond
	var h *hanging
	inner := options.Open
	options.Open = func(ctx context.Context, store string) (Replica, error) {
		log, err := inner(ctx, store)
		h = &hanging{Replica: log}
		return h, err
	}
	db := open(t, path, Options{Replication: options})
	slow := make(chan struct{})
	if err := db.writer.between(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	h.slow = slow
	if err := db.writer.do(t.Context(), number(0, 10)); !errors.Is(err, operation.ErrCommitUnknown) && !errors.Is(err, operation.ErrUnavailable) {
		t.Errorf("a write whose upload hangs: %v", err)
	}
	close(slow)
	until(t, "it recovers", func() bool { return db.Ready(t.Context()) == nil })
}

func BenchmarkReplica(b *testing.B) {
	for round := range 3 {
		for _, mode := range []string{"none", "async", "sync"} {
			b.Run(fmt.Sprintf("%s/round=%d", mode, round+1), func(b *testing.B) {
				storetest.Benchmark(b, func(t testing.TB) storetest.Opener { return replicaOpener{t.TempDir(), mode, b} })
			})
		}
	}
}

type replicaOpener struct {
	folder, mode string
	b            *testing.B
}

func (o replicaOpener) Open(t testing.TB) storetest.Store {
	path, options := filepath.Join(o.folder, "coax.db"), Options{}
	if o.mode != "none" {
		options.Replication = replicated(t, path, filepath.Join(o.folder, "replica"), o.mode == "sync")
	}
	return open(t, path, options)
}
