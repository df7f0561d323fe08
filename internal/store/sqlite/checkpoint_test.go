package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

// fill writes so many pages in one commit.
func fill(t testing.TB, db *DB, name string, pages int) {
	t.Helper()
	err := db.writer.do(t.Context(), func(tx *tx) error {
		_, err := tx.exec(`INSERT INTO scratch (name, filler) VALUES (?1, randomblob(?2)) ON CONFLICT (name) DO UPDATE SET filler = excluded.filler`,
			name, pages*4096)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the copier rests", func() bool { return db.writer.log.stage.Load() != copying })
}

func logSize(t testing.TB, db *DB) int64 {
	t.Helper()
	info, err := os.Stat(db.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestTheLogBeginsAnewWhileFactsKeepComing(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "coax.db"), Options{})
	scratch(t, db)
	for i := range 80 {
		fill(t, db, []string{"a", "b", "c", "d", "e"}[i%5], 400)
	}
	// It is looked at every few batches, and copied, and then added to.
	if size, most := logSize(t, db), int64(2*lookEvery*400*(4096+24)); size > most {
		t.Errorf("after 32,000 pages the log has %d bytes; want it begun anew before it has %d", size, most)
	}
}

// Whoever reads for long, as an audit does, keeps the log from beginning anew. When
// it is done, the log gives back the room that it took.
func TestTheLogOutlastsALongReadAndIsCutAfterwards(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "coax.db"), Options{})
	scratch(t, db)
	fill(t, db, "a", 1)
	const limit = 64 << 20
	err := db.snapshot(t.Context(), func(from querier) error {
		var before int
		if err := from.queryRow(`SELECT count(*) FROM scratch`).Scan(&before); err != nil {
			return err
		}
		for logSize(t, db) <= limit {
			fill(t, db, "b", 4000)
		}
		var after int
		if err := from.queryRow(`SELECT count(*) FROM scratch`).Scan(&after); err != nil {
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
	until(t, "the log is cut", func() bool {
		fill(t, db, "c", 1100)
		return logSize(t, db) <= limit
	})
	if rows := count(t, db, `SELECT count(*) FROM scratch`); rows != 3 {
		t.Errorf("%d rows; want 3", rows)
	}
}

// A reader that has been in the way of many pages may let go of them between the
// copier's last look and the writer's turn. They are the copier's all the same: it
// takes seconds to copy as many as an audit leaves.
func TestTheWriterDoesNotCopyWhatALongReadHasLeft(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "coax.db"), Options{})
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
	err = db.snapshot(t.Context(), func(from querier) error {
		var rows int
		if err := from.queryRow(`SELECT count(*) FROM scratch`).Scan(&rows); err != nil {
			return err
		}
		until(t, "the copier has looked in vain, and the writer has not had its turn since", func() bool {
			fill(t, db, "a", 1500)
			waiting, back := left()
			before = back
			return waiting > restMost+checkpointAt && db.writer.log.stage.Load() == copied
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, db, "b", 1)
	// The next fact comes after the writer's turn.
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
		return waiting <= restMost
	})
}

// Closing waits for a copy under way, and leaves no log behind.
func TestClosingWaitsForTheCopier(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
	for range 5 {
		db, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = db.writer.do(t.Context(), func(tx *tx) error {
			if _, err := tx.exec(`CREATE TABLE IF NOT EXISTS scratch (name TEXT PRIMARY KEY, filler BLOB)`); err != nil {
				return err
			}
			_, err := tx.exec(`INSERT INTO scratch (name, filler) SELECT count(*), zeroblob(?1) FROM scratch`, 3000*4096)
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
