package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	engine "zombiezen.com/go/sqlite"

	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// fill writes so many pages in one commit, and waits for the copier if that woke it.
func fill(t testing.TB, db *DB, name string, pages int) {
	t.Helper()
	pour(t, db, name, pages)
	// Who writes is answered first, and the copier woken then; who asks is answered
	// after that.
	if err := db.writer.lookUp(t.Context(), func(sqlstore.Querier) error { return nil }); err != nil {
		t.Error(err)
	}
	until(t, "the copier rests", func() bool { return db.writer.log.stage.Load() != copying })
}

// pour writes so many pages in one commit.
func pour(t testing.TB, db *DB, name string, pages int) {
	t.Helper()
	err := db.writer.do(t.Context(), func(tx *tx) error {
		_, err := tx.Exec(`INSERT INTO scratch (name, filler) VALUES (?1, `+filler+`) ON CONFLICT (name) DO UPDATE SET filler = excluded.filler`,
			name, pages*PageSize, letter())
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// fills counts the contents that were made, so that each differs from the one before: SQLite
// does not write a page that stays as it was.
var fills atomic.Int64

// filler is an expression for content of ?2 bytes and a letter that differs each time. It is
// made in SQLite: copying it there, or its randomblob, would take most of these tests' time.
const filler = `CAST(printf('%.*c', ?2, ?3) AS BLOB)`

func letter() string { return string(rune('a' + fills.Add(1)%26)) }

func logSize(t testing.TB, db *DB) int64 {
	t.Helper()
	info, err := os.Stat(db.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestCheckpoint_ResetsLogUnderLoad(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	for i := range 80 {
		fill(t, db, []string{"a", "b", "c", "d", "e"}[i%5], 400)
	}
	// It is looked at every few batches, and copied, and then added to.
	if size, most := logSize(t, db), int64(2*checkEvery*400*(PageSize+24)); size > most {
		t.Errorf("after 32,000 pages the log has %d bytes; want it reset before it has %d", size, most)
	}
}

// A long read, an audit for instance, keeps the log from being reset. When
// it is done, the log gives back the room that it took, a little at a time: it is cut
// within a commit.
func TestCheckpoint_TruncatesLogAfterLongRead(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	fill(t, db, "a", 1)
	err := db.snapshot(t.Context(), func(from sqlstore.Querier) error {
		var before int
		if err := from.QueryRow(`SELECT count(*) FROM scratch`).Scan(&before); err != nil {
			return err
		}
		for logSize(t, db) <= maxLogFile+3*logSlice/2 {
			fill(t, db, "b", 4000)
		}
		var after int
		if err := from.QueryRow(`SELECT count(*) FROM scratch`).Scan(&after); err != nil {
			return err
		}
		if after != before {
			t.Errorf("the reader sees %d rows, and saw %d", after, before)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cuts, size := 0, logSize(t, db)
	until(t, "the log is cut", func() bool {
		fill(t, db, "c", checkpointAt)
		for range checkEvery {
			fill(t, db, "d", 1)
		}
		now := logSize(t, db)
		if now < size {
			cuts++
		}
		if size-now > logSlice {
			t.Errorf("%d bytes were cut off at once; want %d at most", size-now, logSlice)
		}
		size = now
		return size <= maxLogFile
	})
	if cuts < 2 {
		t.Errorf("the log was cut %d times; want 2 at least", cuts)
	}
	if rows := count(t, db, `SELECT count(*) FROM scratch`); rows != 4 {
		t.Errorf("%d rows; want 4", rows)
	}
}

// What comes in while the disk takes what was copied is the copier's as well, so that
// hardly anything is left to the writer, for which all callers wait.
func TestCheckpoint_CopierRepeatsUntilFewPagesLeft(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	look, err := connect(db.path)
	if err != nil {
		t.Fatal(err)
	}
	defer look.close()
	left := func() int64 {
		pages, back, err := checkpoint(look, "NOOP")
		if err != nil {
			t.Error(err)
		}
		return pages - back
	}
	log := db.writer.log
	flushed := log.flush
	for _, rushes := range []int{0, 1, maxRounds - 1, maxRounds + 5} {
		rounds, after := 0, int64(0)
		log.flush = func() error { // the copier's, which rests until it starts
			if err := flushed(); err != nil {
				t.Error(err)
			}
			if rounds++; rounds <= rushes {
				pour(t, db, "rush", 300)
			}
			after = left()
			return nil
		}
		until(t, "the copier has gone round", func() bool {
			fill(t, db, "a", checkpointAt)
			return log.stage.Load() == copied
		})
		want := min(rushes+1, maxRounds)
		if rounds != want {
			t.Errorf("%d rounds for %d rushes; want %d", rounds, rushes, want)
		}
		if rushes < maxRounds && after > fewPages {
			t.Errorf("%d pages are left after %d rounds; want %d at most", after, rounds, fewPages)
		}
		until(t, "the writer has copied the rest", func() bool {
			pour(t, db, "b", 1)
			return log.stage.Load() == idle
		})
	}
}

// A disk that has failed to take a page says so once. Were the log reset after
// that, the page would be lost; so nothing is written any more, and the next process that opens the
// store next has all of the log.
func TestCheckpoint_DiskFailureBreaksStore(t *testing.T) {
	path := newFile(t)
	db := open(t, path, Options{})
	scratch(t, db)
	db.writer.log.flush = func() error { return syscall.EIO }
	for range 10 * checkEvery {
		pages := func(tx *tx) error {
			_, err := tx.Exec(`INSERT INTO scratch (name, filler) SELECT count(*) + ?1, `+filler+` FROM scratch`, 0, checkpointAt*PageSize, letter())
			return err
		}
		if err := db.writer.do(t.Context(), pages); err != nil {
			break
		}
	}
	select {
	case <-db.Broken():
	case <-t.Context().Done():
	}
	if err := db.Ready(t.Context()); primaryCode(err) != engine.ResultIOErr || !errors.Is(err, syscall.EIO) {
		t.Errorf("the store is ready, or not for the disk: %v", err)
	}
	if err := db.writer.do(t.Context(), func(*tx) error { return nil }); err == nil {
		t.Error("a write is taken after the disk has failed")
	}
	rows := count(t, db, `SELECT count(*) FROM scratch`)
	if err := db.Close(); err != nil {
		t.Error(err)
	}

	// As the next process finds it: SQLite would remove the log with the last connection.
	next := filepath.Join(t.TempDir(), "coax.db")
	for _, part := range []string{"", "-wal", ".doubt"} {
		content, err := os.ReadFile(path + part)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(next+part, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if size := logSize(t, db); size < int64(rows)*checkpointAt*PageSize {
		t.Errorf("the log has %d bytes; want all %d rows in it", size, rows)
	}
	again := open(t, next, Options{})
	if got := count(t, again, `SELECT count(*) FROM scratch WHERE length(filler) > 0`); got != rows || rows < 1 {
		t.Errorf("%d rows are there; want the %d that were written", got, rows)
	}
	if failure, err := again.DiskFailure(); err != nil || !strings.Contains(failure, syscall.EIO.Error()) {
		t.Errorf("DiskFailure is %q (%v); want the disk's failure", failure, err)
	}
	var tables []string
	if err := again.Inspect(t.Context(), func(table string) { tables = append(tables, table) }); err != nil || !slices.Contains(tables, "operations") {
		t.Errorf("of %q, this is wrong: %v", tables, err)
	}
	if err := again.ClearDiskFailure(); err != nil {
		t.Error(err)
	}
	if failure, err := again.DiskFailure(); err != nil || failure != "" {
		t.Errorf("after ClearDiskFailure: %q (%v)", failure, err)
	}
}

func TestInspect_FindsDamage(t *testing.T) {
	path := newFile(t)
	db := open(t, path, Options{})
	scratch(t, db)
	for _, name := range []string{"a", "b", "c"} {
		fill(t, db, name, 20)
	}
	var root int64
	if err := db.read(t.Context()).QueryRow(`SELECT rootpage FROM sqlite_schema WHERE name = 'scratch'`).Scan(&root); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("garbage instead of a page"), (root-1)*PageSize); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	err = open(t, path, Options{}).Inspect(t.Context(), func(string) {})
	if err == nil || !strings.Contains(err.Error(), "scratch: ") || strings.Contains(err.Error(), "operations") {
		t.Errorf("what is wrong is %v; want it to be scratch, and nothing else", err)
	}
}

// A reader that has been in the way of many pages may let go of them between the
// copier's last look and the writer's copy. They are the copier's all the same: it
// takes seconds to copy as many as an audit leaves.
func TestCheckpoint_WriterLeavesLongCopyToCopier(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	look, err := connect(db.path)
	if err != nil {
		t.Fatal(err)
	}
	defer look.close()
	left := func() (left, back int64) {
		pages, back, err := checkpoint(look, "NOOP")
		if err != nil {
			t.Fatal(err)
		}
		return pages - back, back
	}
	var before int64
	err = db.snapshot(t.Context(), func(from sqlstore.Querier) error {
		var rows int
		if err := from.QueryRow(`SELECT count(*) FROM scratch`).Scan(&rows); err != nil {
			return err
		}
		until(t, "the copier found nothing to copy, and the writer has not copied since", func() bool {
			fill(t, db, "a", 1500)
			waiting, back := left()
			before = back
			return waiting > maxRest+checkpointAt && db.writer.log.stage.Load() == copied
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, db, "b", 1)
	// The next write comes after the writer's copy.
	err = db.writer.do(t.Context(), func(*tx) error {
		if waiting, back := left(); back != before {
			t.Errorf("the writer has copied %d pages, and %d are left; want them left to the copier", back-before, waiting)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the copier has copied them", func() bool {
		fill(t, db, "c", 600)
		waiting, _ := left()
		return waiting <= maxRest
	})
}

// Closing waits for a copy under way, and leaves no log behind.
func TestClose_WaitsForCopier(t *testing.T) {
	path := newFile(t)
	for range 5 {
		db, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = db.writer.do(t.Context(), func(tx *tx) error {
			if _, err := tx.Exec(`CREATE TABLE IF NOT EXISTS scratch (name TEXT PRIMARY KEY, filler BLOB)`); err != nil {
				return err
			}
			_, err := tx.Exec(`INSERT INTO scratch (name, filler) SELECT count(*), zeroblob(?1) FROM scratch`, 3000*PageSize)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
			t.Errorf("the log is still there: %v", err)
		}
	}
}
