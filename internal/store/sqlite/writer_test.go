package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

func open(t testing.TB, path string, options Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// scratch gives writes a table of their own to write to.
func scratch(t testing.TB, db *DB) {
	t.Helper()
	err := db.writer.do(t.Context(), func(tx *tx) error {
		_, err := tx.Exec(`CREATE TABLE scratch (name TEXT PRIMARY KEY, filler BLOB)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func note(name string) func(*tx) error {
	return func(tx *tx) error {
		_, err := tx.Exec(`INSERT INTO scratch (name) VALUES (?1)`, name)
		return err
	}
}

func notes(t testing.TB, db *DB) string {
	t.Helper()
	rows, err := db.read(t.Context()).Query(`SELECT name FROM scratch ORDER BY name`)
	names, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (string, error) {
		var name string
		err := row.Scan(&name)
		return name, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// hold keeps the writer busy with one write until release is called, so that
// what comes in meanwhile has to share the next batch.
func hold(t testing.TB, db *DB) (release func()) {
	t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	go func() {
		_ = db.writer.do(context.WithoutCancel(t.Context()), func(*tx) error {
			close(busy)
			<-free
			return nil
		})
	}()
	<-busy
	return sync.OnceFunc(func() { close(free) })
}

// until polls a condition, for longer than anything takes on a machine that is merely
// busy.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	timeout := time.After(5 * time.Minute)
	for !condition() {
		select {
		case <-timeout:
			t.Fatalf("gave up waiting until %s", what)
		case <-time.After(100 * time.Microsecond):
		}
	}
}

// observed counts batches and writes.
type observed struct {
	mu    sync.Mutex
	sizes []int
}

func (o *observed) Batch(writes int) func() {
	o.mu.Lock()
	o.sizes = append(o.sizes, writes)
	o.mu.Unlock()
	return func() {}
}

func TestWriter_QueuedWritesShareCommit(t *testing.T) {
	watch := &observed{}
	db := open(t, newFile(t), Options{Observe: watch})
	scratch(t, db)
	release := hold(t, db)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			if err := db.writer.do(t.Context(), note(fmt.Sprint(i))); err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	until(t, "all 64 have queued up", func() bool { return db.Queued() == 64 })
	release()
	group.Wait()
	if last := watch.sizes[len(watch.sizes)-1]; last != 64 {
		t.Errorf("batches of %v; want the last to hold all 64", watch.sizes)
	}
}

// One batch holds a write that is refused, one whose caller cancelled, one that
// panics, one that breaks a constraint after having written, and good ones
// before, between and behind them.
func TestWriter_FailureIsIsolated(t *testing.T) {
	watch := &observed{}
	db := open(t, newFile(t), Options{Observe: watch})
	scratch(t, db)
	release := hold(t, db)

	gone, hangUp := context.WithCancel(t.Context())
	left := make(chan struct{})
	refusal := admin.Refuse("no")
	writes := []struct {
		name string
		ctx  context.Context
		run  func(*tx) error
		want func(error) bool
	}{
		{"good-1", t.Context(), note("good-1"), isNil},
		{"refused", t.Context(), func(tx *tx) error {
			if err := note("refused")(tx); err != nil {
				return err
			}
			return refusal
		}, func(err error) bool { return errors.Is(err, refusal) }},
		{"good-2", t.Context(), note("good-2"), isNil},
		{"cancelled", gone, note("cancelled"), func(err error) bool { return errors.Is(err, context.Canceled) }},
		{"panicking", t.Context(), func(tx *tx) error {
			if err := note("panicking")(tx); err != nil {
				return err
			}
			panic("a bug")
		}, func(err error) bool { return err != nil && strings.Contains(err.Error(), "a bug") }},
		{"good-3", t.Context(), note("good-3"), isNil},
		{"broken", t.Context(), func(tx *tx) error {
			if err := note("broken")(tx); err != nil {
				return err
			}
			return note("good-1")(tx)
		}, violates},
		{"good-4", t.Context(), note("good-4"), isNil},
	}
	var group sync.WaitGroup
	for i, f := range writes {
		group.Go(func() {
			if err := db.writer.do(f.ctx, f.run); !f.want(err) {
				t.Errorf("%s: %v", f.name, err)
			}
			if f.ctx == gone {
				close(left)
			}
		})
		// One by one, so that the order in the batch is the one above.
		until(t, f.name+" has queued up", func() bool { return db.Queued() == i+1 })
	}
	// The batch begins only after the caller has left; its write stays in the
	// queue, for the writer to drop.
	hangUp()
	<-left
	release()
	group.Wait()
	if last := watch.sizes[len(watch.sizes)-1]; last != len(writes)-1 {
		t.Errorf("batches of %v; want one of all but the cancelled write", watch.sizes)
	}
	if got, want := notes(t, db), "good-1 good-2 good-3 good-4"; got != want {
		t.Errorf("kept: %s; want %s", got, want)
	}
	if err := db.writer.do(t.Context(), note("after")); err != nil {
		t.Errorf("the store does not go on: %v", err)
	}
}

func isNil(err error) bool { return err == nil }

func TestWriter_CancelAfterStartReturnsOutcome(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	ctx, hangUp := context.WithCancel(t.Context())
	err := db.writer.do(ctx, func(tx *tx) error {
		hangUp()
		return note("kept")(tx)
	})
	if err != nil || notes(t, db) != "kept" {
		t.Errorf("%v, kept %q; want the write to have run", err, notes(t, db))
	}
}

func TestWriter_FullDiskIsAmbiguous(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	if err := db.writer.do(t.Context(), note("before")); err != nil {
		t.Fatal(err)
	}
	limit := func(pages string) {
		t.Helper()
		err := db.writer.do(t.Context(), func(tx *tx) error {
			var now int
			return tx.QueryRow(`PRAGMA max_page_count = ` + pages).Scan(&now)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit("1") // SQLite keeps the pages that are there, and gives no more
	release := hold(t, db)
	results := make(chan error, 2)
	go func() { results <- db.writer.do(t.Context(), note("neighbour")) }()
	until(t, "the other caller has queued up", func() bool { return db.Queued() == 1 })
	go func() {
		results <- db.writer.do(t.Context(), func(tx *tx) error {
			_, err := tx.Exec(`INSERT INTO scratch (name, filler) VALUES ('big', zeroblob(1000000))`)
			return err
		})
	}()
	until(t, "both have queued up", func() bool { return db.Queued() == 2 })
	release()
	for range 2 {
		if err := <-results; !errors.Is(err, operation.ErrCommitUnknown) {
			t.Errorf("on a full disk: %v; want an ambiguous outcome", err)
		}
	}
	if err := db.Ready(t.Context()); err != nil {
		t.Errorf("a full disk is not a broken one: %v", err)
	}
	limit("1000000")
	if err := db.writer.do(t.Context(), note("later")); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if got, want := notes(t, db), "before later"; got != want {
		t.Errorf("kept: %s; want %s", got, want)
	}
}

func TestWriter_RecoversFromOpenTransaction(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	if _, err := db.writer.tx.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := db.writer.do(t.Context(), note("after")); err != nil || notes(t, db) != "after" {
		t.Errorf("%v, kept %q; want the store to go on", err, notes(t, db))
	}
}

func TestWriter_RefusesAfterClose(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.writer.do(t.Context(), note("late")); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v; want it turned away", err)
	}
}

// What the writer counts is not what the disk sees. This runs 64 callers in a
// process of its own under strace and counts the calls that wait for the disk.
func TestWriter_SharesSyncs(t *testing.T) {
	const callers, each = 64, 30
	if path := os.Getenv("COAX_TEST_SYNCS"); path != "" {
		writeTogether(t, path, callers, each)
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is missing; make test installs it")
		}
		t.Skip("strace is not installed, so syncs cannot be counted")
	}
	folder := t.TempDir()
	report := filepath.Join(folder, "syncs")
	trace := exec.Command(strace, "-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", report,
		os.Args[0], "-test.run=^"+t.Name()+"$")
	trace.Env = append(os.Environ(), "COAX_TEST_SYNCS="+filepath.Join(folder, "coax.db"))
	if out, err := trace.CombinedOutput(); err != nil {
		t.Fatalf("under strace: %v\n%s", err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	syncs := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.Contains(line, "fsync(") || strings.Contains(line, "fdatasync(") {
			syncs++
		}
	}
	t.Logf("%d writes took %d syncs, those of opening and migrating included", callers*each, syncs)
	if syncs == 0 {
		t.Fatal("no sync was seen: nothing was durable, or strace saw nothing")
	}
	if syncs > callers*each/3 {
		t.Errorf("%d writes took %d syncs; want at most a third", callers*each, syncs)
	}
}

func writeTogether(t *testing.T, path string, callers, each int) {
	db := open(t, path, Options{})
	scratch(t, db)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range each {
				if err := db.writer.do(t.Context(), note(strconv.Itoa(caller)+"-"+strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// The cost of one write, alone and in batches.
func BenchmarkWriter(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			db := open(b, newFile(b), Options{})
			scratch(b, db)
			b.SetParallelism(callers)
			b.ResetTimer()
			var next counter
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := db.writer.do(b.Context(), note(next.take())); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return strconv.Itoa(c.n)
}
