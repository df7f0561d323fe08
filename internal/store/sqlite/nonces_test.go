package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/operation"
)

var noon = time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)

func carrying(nonce, request string) access.Admission {
	return access.Admission{CredentialID: 7, Nonce: nonce, RequestID: request, Now: noon}
}

// burn says whether a request could use a nonce.
func burn(t testing.TB, db *DB, a access.Admission) (fresh bool) {
	t.Helper()
	err := db.writer.do(t.Context(), func(tx *tx) (err error) {
		fresh, err = tx.nonces.burn(tx, a)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fresh
}

// count asks the file for a number.
func count(t testing.TB, db *DB, query string) (n int) {
	t.Helper()
	if err := db.read(t.Context()).QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// checkIndex demands that the index has an entry for each row that it claims to have,
// and none for a row that is gone.
func checkIndex(t testing.TB, db *DB) {
	t.Helper()
	if gone := count(t, db, `SELECT count(*) FROM nonce_index i LEFT JOIN nonces n ON n.position = i.position WHERE n.position IS NULL`); gone != 0 {
		t.Errorf("%d entries of the index have no row", gone)
	}
	err := db.writer.do(t.Context(), func(tx *tx) error {
		to, err := indexedTo(tx)
		if err != nil {
			return err
		}
		rows, err := rowsAfter(tx, 0, 1_000_000)
		for _, one := range rows {
			if position, err := indexed(tx, one.mark); err != nil || one.position <= to && position != one.position {
				t.Errorf("the row at %d is indexed at %d, %v", one.position, position, err)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNonces_UsedInEveryStage(t *testing.T) {
	path := newFile(t)
	options := Options{NonceBuffer: 16}
	db := open(t, path, options)
	const all = 100
	for i := range all {
		if !burn(t, db, carrying(fmt.Sprint("nonce-", i), fmt.Sprint("req-", i))) {
			t.Fatalf("nonce %d is used; want it new", i)
		}
		// Each of those before, in the buffer, on the way to the index and in it.
		for earlier := range i {
			if burn(t, db, carrying(fmt.Sprint("nonce-", earlier), "req-other")) {
				t.Fatalf("with %d used, another request could use nonce %d once more", i+1, earlier)
			}
		}
	}
	known := func(when string, third string) {
		t.Helper()
		for i := range all {
			nonce, owner := fmt.Sprint("nonce-", i), fmt.Sprint("req-", i)
			if burn(t, db, carrying(nonce, "req-other")) {
				t.Errorf("%s another request could use nonce %d once more", when, i)
			}
			if !burn(t, db, carrying(nonce, owner)) {
				t.Errorf("%s the request that used nonce %d is not told that it was its own", when, i)
			}
		}
		other := carrying("nonce-"+third, "req-other")
		other.CredentialID = 8
		if !burn(t, db, other) || burn(t, db, func() access.Admission { other.RequestID = "req-third"; return other }()) {
			t.Errorf("%s another key's nonce is not that key's own", when)
		}
		checkIndex(t, db)
	}
	known("at once", "1")
	if entries := count(t, db, `SELECT count(*) FROM nonce_index`); entries < all/2 || entries >= all {
		t.Errorf("the index has %d of %d nonces; want most of them, and the last ones in memory", entries, all)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, options)
	known("after a restart", "2")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, Options{})
	known("after a restart with a larger buffer", "3")
}

var errChanged = errors.New("it changed its mind")

// A write that fails after it has burned a nonce has not burned it: alone, and among
// others whose nonces stay used.
func TestNonces_RollbackFreesNonce(t *testing.T) {
	db := open(t, newFile(t), Options{NonceBuffer: 4})
	burnAnd := func(nonce string, then error) error {
		return db.writer.do(t.Context(), func(tx *tx) error {
			fresh, err := tx.nonces.burn(tx, carrying(nonce, "req-first"))
			if err == nil && !fresh {
				err = errors.New("it is used")
			}
			return errors.Join(err, then)
		})
	}
	if err := burnAnd("alone", errChanged); !errors.Is(err, errChanged) {
		t.Fatal(err)
	}
	release := hold(t, db)
	var group sync.WaitGroup
	for i := range 9 {
		group.Go(func() {
			then := error(nil)
			if i%2 == 1 {
				then = errChanged
			}
			if err := burnAnd(fmt.Sprint("neighbour-", i), then); !errors.Is(err, then) {
				t.Errorf("write %d: %v; want %v", i, err, then)
			}
		})
	}
	until(t, "all 9 have queued up", func() bool { return db.Queued() == 9 })
	release()
	group.Wait()

	if !burn(t, db, carrying("alone", "req-second")) {
		t.Error("the nonce of a write that failed is used")
	}
	for i := range 9 {
		if fresh, want := burn(t, db, carrying(fmt.Sprint("neighbour-", i), "req-second")), i%2 == 1; fresh != want {
			t.Errorf("nonce %d is free: %v; want %v", i, fresh, want)
		}
	}
}

// Whether a commit that failed has happened after all is in the file, not in what
// the node believes.
func TestNonces_UnknownCommitIsReadFromFile(t *testing.T) {
	for name, happened := range map[string]bool{"it had happened": true, "it had not": false} {
		t.Run(name, func(t *testing.T) {
			failing := false
			db := open(t, newFile(t), Options{Commit: func(commit func() error) error {
				if !failing {
					return commit()
				}
				failing = false
				if happened {
					if err := commit(); err != nil {
						return err
					}
				}
				return errors.New("unknown")
			}})
			burn(t, db, carrying("before", "req-first"))
			err := db.writer.do(t.Context(), func(tx *tx) error {
				failing = true
				_, err := tx.nonces.burn(tx, carrying("doubtful", "req-first"))
				return err
			})
			if !errors.Is(err, operation.ErrCommitUnknown) {
				t.Fatalf("%v; want it to be doubtful", err)
			}
			if fresh := burn(t, db, carrying("doubtful", "req-second")); fresh == happened {
				t.Errorf("free: %v, where the commit's having happened is %v", fresh, happened)
			}
			if burn(t, db, carrying("before", "req-second")) {
				t.Error("a nonce of an earlier commit is free")
			}
		})
	}
}

// Commits fail in the midst of everything, some after they have happened. What the file
// has is used, and nothing else.
func TestNonces_UsedOnceUnderFailingCommits(t *testing.T) {
	path := newFile(t)
	commits := 0
	options := Options{NonceBuffer: 8, Commit: func(commit func() error) error {
		commits++
		if commits%5 == 0 {
			return errors.New("it did not happen")
		}
		if err := commit(); err != nil || commits%7 != 0 {
			return err
		}
		return errors.New("committed, but the reply was lost")
	}}
	db := open(t, path, options)
	const all = 300
	for i := range all {
		_ = db.writer.do(t.Context(), func(tx *tx) error {
			_, err := tx.nonces.burn(tx, carrying(fmt.Sprint("nonce-", i), "req-first"))
			return err
		})
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	options.Commit = nil
	db = open(t, path, options)
	checkIndex(t, db)
	free := 0
	for i := range all {
		nonce := fmt.Sprint("nonce-", i)
		used := count(t, db, `SELECT count(*) FROM nonces WHERE nonce = '`+nonce+`'`) > 0
		if fresh := burn(t, db, carrying(nonce, "req-second")); fresh == used {
			t.Errorf("nonce %d is free: %v, where its row's being there is %v", i, fresh, used)
		} else if fresh {
			free++
		}
	}
	if free == 0 || free > all/2 {
		t.Errorf("%d of %d nonces were free; want those whose commits did not happen", free, all)
	}
}

// A nonce that cannot be told from a used one by its mark is refused: in memory and in
// the index.
func TestNonces_HashCollisionIsRefused(t *testing.T) {
	db := open(t, newFile(t), Options{NonceBuffer: 2})
	burn(t, db, carrying("first", "req-first"))
	err := db.writer.do(t.Context(), func(tx *tx) error {
		tx.nonces.recent[markOf(7, "second")] = tx.nonces.recent[markOf(7, "first")]
		_, err := tx.Exec(`INSERT INTO nonce_index (mark, position) VALUES (?1, 1)`, int64(markOf(7, "third")))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, nonce := range []string{"second", "third"} {
		if burn(t, db, carrying(nonce, "req-second")) {
			t.Errorf("the %s nonce has the mark of the first, and could be used", nonce)
		}
	}
}

// A replay writes nothing: repeated replays cost the disk nothing.
func TestNonces_ReplayWritesNothing(t *testing.T) {
	path := newFile(t)
	db := open(t, path, Options{NonceBuffer: 4})
	for i := range 20 {
		burn(t, db, carrying(fmt.Sprint("nonce-", i), "req-first"))
	}
	size := func() int64 {
		log, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return log.Size()
	}
	before := size()
	for i := range 20 {
		if burn(t, db, carrying(fmt.Sprint("nonce-", i), "req-second")) {
			t.Errorf("nonce %d is free", i)
		}
	}
	if after := size(); after != before {
		t.Errorf("20 replays added %d bytes to the log; want none", after-before)
	}
}

func TestNonces_PurgeCleansIndex(t *testing.T) {
	db := open(t, newFile(t), Options{NonceBuffer: 10})
	for i := range 35 {
		a := carrying(fmt.Sprint("nonce-", i), "req-first")
		a.Now = noon.Add(time.Duration(i) * time.Minute)
		burn(t, db, a)
	}
	sweep := func(before time.Time) (removed int) {
		t.Helper()
		for {
			batch, err := db.PurgeAdmissions(t.Context(), before, 0, 4)
			if err != nil {
				t.Fatal(err)
			}
			removed += batch
			if batch < 4 {
				return removed
			}
		}
	}
	if removed := sweep(noon.Add(15 * time.Minute)); removed != 15 {
		t.Errorf("%d went; want the 15 that were old enough", removed)
	}
	checkIndex(t, db)
	for i := range 35 {
		a := carrying(fmt.Sprint("nonce-", i), "req-second")
		a.Now = noon.Add(time.Hour)
		if fresh := burn(t, db, a); fresh != (i < 15) {
			t.Errorf("nonce %d is free: %v", i, fresh)
		}
	}
	// Those that are still in memory must not come into the index afterwards.
	if removed := sweep(noon.Add(24 * time.Hour)); removed != 35 {
		t.Errorf("%d went; want all 35", removed)
	}
	for i := range 30 {
		if nonce := fmt.Sprint("nonce-", i); !burn(t, db, carrying(nonce, "req-third")) || burn(t, db, carrying(nonce, "req-fourth")) {
			t.Errorf("nonce %d, which was purged, cannot be used once, and once only", i)
		}
	}
	checkIndex(t, db)
}

// A store of an older release has its nonces by key, or has no index of them.
func TestNonces_OlderStoreIsIndexed(t *testing.T) {
	const insert = `INSERT INTO nonces (credential_id, nonce, request_id, used_at) VALUES (7, ?1, 'req-first', ?2)`
	for _, version := range []int64{2, 12} {
		t.Run(fmt.Sprint("schema ", version), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "coax.db")
			pool := migratedTo(t, path, version)
			for i := range 20 {
				if _, err := pool.Exec(insert, fmt.Sprint("nonce-", 100-i), noon.Add(time.Duration(i)*time.Minute).UnixMilli()); err != nil {
					t.Fatal(err)
				}
			}
			if err := pool.Close(); err != nil {
				t.Fatal(err)
			}
			db := open(t, path, Options{NonceBuffer: 8})
			if entries := count(t, db, `SELECT count(*) FROM nonce_index`); entries != 20 {
				t.Errorf("%d are indexed at the start; want all 20, which are more than are kept in memory", entries)
			}
			for i := range 20 {
				if burn(t, db, carrying(fmt.Sprint("nonce-", 100-i), "req-second")) {
					t.Errorf("nonce %d is free", i)
				}
			}
			removed, err := db.PurgeAdmissions(t.Context(), noon.Add(5*time.Minute), 0, 100)
			if err != nil || removed != 5 {
				t.Errorf("%d went (%v); want the five oldest", removed, err)
			}
			checkIndex(t, db)
		})
	}
}

func migratedTo(t *testing.T, path string, version int64) *sql.DB {
	t.Helper()
	pool, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	return pool
}

// The release before counts positions from 1 when it finds no rows, and writes none
// into the index.
func TestNonces_OlderReleaseInBetween(t *testing.T) {
	path := newFile(t)
	db := open(t, path, Options{NonceBuffer: 4})
	for i := range 40 {
		burn(t, db, carrying(fmt.Sprint("nonce-", i), "req-first"))
	}
	if removed, err := db.PurgeAdmissions(t.Context(), noon.Add(time.Hour), 0, 100); err != nil || removed != 40 {
		t.Fatalf("%d went, %v; want all 40", removed, err)
	}
	err := db.writer.do(t.Context(), func(tx *tx) error {
		for i := range 5 {
			_, err := tx.Exec(`INSERT INTO nonces (position, credential_id, nonce, request_id, used_at) VALUES (?1, 7, ?2, 'req-old', ?3)`,
				i+1, fmt.Sprint("old-", i), noon.UnixMilli())
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// Some of them are on their way to the index when the node stops.
	db = open(t, path, Options{NonceBuffer: 5})
	burn(t, db, carrying("one-more", "req-first"))
	burn(t, db, carrying("two-more", "req-first"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, Options{NonceBuffer: 4})
	for i := range 5 {
		if burn(t, db, carrying(fmt.Sprint("old-", i), "req-new")) {
			t.Errorf("nonce %d of the older release is free", i)
		}
	}
	for i := range 20 {
		if nonce := fmt.Sprint("new-", i); !burn(t, db, carrying(nonce, "req-first")) || burn(t, db, carrying(nonce, "req-second")) {
			t.Errorf("new nonce %d cannot be used once, and once only", i)
		}
	}
	checkIndex(t, db)
}

// What was decided about rows of a clock that was ahead says nothing about rows that
// get their positions later.
func TestNonces_ClockAhead(t *testing.T) {
	path := newFile(t)
	db := open(t, path, Options{})
	purgeAt := func(now time.Time) (removed int) {
		t.Helper()
		removed, err := db.PurgeAdmissions(t.Context(), now.Add(-access.NonceRetention), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		return removed
	}
	use := func(nonce string, at time.Time) {
		t.Helper()
		a := carrying(nonce, "req-first")
		a.Now = at
		if !burn(t, db, a) {
			t.Errorf("%s is used", nonce)
		}
	}
	for i := range 10 {
		use(fmt.Sprint("ahead-", i), noon.AddDate(1, 0, 0))
	}
	purgeAt(noon)
	later := noon.Add(25 * time.Hour)
	if removed := purgeAt(later); removed != 10 {
		t.Fatalf("%d went; want all 10", removed)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, Options{})
	use("sane", later)
	use("ahead-again", later.AddDate(1, 0, 0))
	if removed := purgeAt(later.Add(time.Minute)); removed != 0 {
		t.Errorf("%d went at once", removed)
	}
	for _, nonce := range []string{"sane", "ahead-again"} {
		if burn(t, db, carrying(nonce, "req-second")) {
			t.Errorf("%s is free", nonce)
		}
	}
}
