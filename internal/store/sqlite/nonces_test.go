package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
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
	if err := db.read(t.Context()).queryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAUsedNonceIsKnownWhereverItStands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
	options := Options{NonceRun: 16}
	db := open(t, path, options)
	const all = 100
	for i := range all {
		if !burn(t, db, carrying(fmt.Sprint("nonce-", i), fmt.Sprint("req-", i))) {
			t.Fatalf("nonce %d is used; want it new", i)
		}
	}
	known := func(when string) {
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
		other := carrying("nonce-1", "req-other")
		other.CredentialID = 8
		if !burn(t, db, other) || burn(t, db, func() access.Admission { other.RequestID = "req-third"; return other }()) {
			t.Errorf("%s another key's nonce is not that key's own", when)
		}
		err := db.writer.do(t.Context(), func(tx *tx) error {
			_, err := tx.exec(`DELETE FROM nonces WHERE credential_id = 8`)
			tx.nonces.forget()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	known("at once")
	if runs, rows := count(t, db, `SELECT count(*) FROM nonce_runs`), count(t, db, `SELECT count(*) FROM nonces`); runs != all/16 || rows != all {
		t.Errorf("%d rows in %d runs; want %d in %d", rows, runs, all, all/16)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, options)
	known("after a restart")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, Options{})
	known("after a restart with longer runs")
}

var errChanged = errors.New("it changed its mind")

// A fact that fails after it has burned a nonce has not burned it: alone, and among
// neighbours whose nonces stay used.
func TestANonceThatWasUndoneIsFreeAgain(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "coax.db"), Options{NonceRun: 4})
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
				t.Errorf("fact %d: %v; want %v", i, err, then)
			}
		})
	}
	until(t, "all 9 have queued up", func() bool { return db.Queued() == 9 })
	release()
	group.Wait()

	if !burn(t, db, carrying("alone", "req-second")) {
		t.Error("the nonce of a fact that failed is used")
	}
	for i := range 9 {
		if fresh, want := burn(t, db, carrying(fmt.Sprint("neighbour-", i), "req-second")), i%2 == 1; fresh != want {
			t.Errorf("nonce %d is free: %v; want %v", i, fresh, want)
		}
	}
}

// Whether a commit that failed has happened after all is in the file, not in what
// the node believes.
func TestANonceOfACommitThatFailedIsUsedIfTheFileHasIt(t *testing.T) {
	for name, happened := range map[string]bool{"it had happened": true, "it had not": false} {
		t.Run(name, func(t *testing.T) {
			failing := false
			db := open(t, filepath.Join(t.TempDir(), "coax.db"), Options{Commit: func(commit func() error) error {
				if !failing {
					return commit()
				}
				failing = false
				if happened {
					if err := commit(); err != nil {
						return err
					}
				}
				return errors.New("nobody knows")
			}})
			burn(t, db, carrying("before", "req-first"))
			err := db.writer.do(t.Context(), func(tx *tx) error {
				failing = true
				_, err := tx.nonces.burn(tx, carrying("doubtful", "req-first"))
				return err
			})
			if !errors.Is(err, operation.ErrAmbiguous) {
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

// Two nonces with one fingerprint are two nonces, by heart and in a run.
func TestNoncesWithOneFingerprintAreToldApart(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "coax.db"), Options{NonceRun: 3})
	burn(t, db, carrying("first", "req-first"))
	// The first now goes by the second's fingerprint.
	err := db.writer.do(t.Context(), func(tx *tx) error {
		n := &tx.nonces
		n.fresh = map[fingerprint]int64{markOf(7, "second"): n.fresh[markOf(7, "first")]}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"by heart", "in a run"} {
		if fresh := burn(t, db, carrying("second", "req-first")); !fresh {
			t.Errorf("%s: the second is used, or no longer its owner's", when)
		}
		if burn(t, db, carrying("second", "req-second")) {
			t.Errorf("%s: the second is free", when)
		}
		burn(t, db, carrying("third", "req-first")) // which makes the run
	}
	if runs := count(t, db, `SELECT count(*) FROM nonce_runs`); runs != 1 {
		t.Errorf("%d runs; want one", runs)
	}
	// What is undone is the twin, not the one it is taken for.
	err = db.writer.do(t.Context(), func(tx *tx) error {
		n := &tx.nonces
		n.learn(burned{markOf(7, "fourth"), n.last})
		if fresh, err := n.burn(tx, carrying("fourth", "req-first")); !fresh || err != nil {
			t.Errorf("the fourth is used, %v", err)
		}
		return errChanged
	})
	if !errors.Is(err, errChanged) {
		t.Fatal(err)
	}
	if !burn(t, db, carrying("fourth", "req-second")) || burn(t, db, carrying("third", "req-second")) {
		t.Error("the fourth is used, or the third is free")
	}
}

func TestARunGoesWhenItsLastNonceHasGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
	db := open(t, path, Options{NonceRun: 10})
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
	sweep(noon.Add(15 * time.Minute))
	if runs := count(t, db, `SELECT count(*) FROM nonce_runs`); runs != 2 {
		t.Errorf("%d runs are left; want the two with nonces that are kept", runs)
	}
	for i := range 35 {
		if fresh := burn(t, db, carrying(fmt.Sprint("nonce-", i), "req-second")); fresh != (i < 15) {
			t.Errorf("nonce %d is free: %v", i, fresh)
		}
	}
	later := noon.Add(24 * time.Hour)
	for range 8 {
		sweep(later)
	}
	for _, table := range []string{"nonces", "nonce_runs", "nonce_run_parts"} {
		if rows := count(t, db, `SELECT count(*) FROM `+table); rows != 0 {
			t.Errorf("%d rows are left in %s; want none", rows, table)
		}
	}
	if !burn(t, db, carrying("nonce-20", "req-third")) || burn(t, db, carrying("nonce-20", "req-fourth")) {
		t.Error("a nonce that was swept out cannot be used once, and once only")
	}
}

// A run that was removed in vain, because a neighbour's fact undid the batch, is
// removed by the batch that follows, and does not stand in the way of the next run.
func TestARunIsRemovedAlthoughItsBatchIsUndone(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "coax.db"), Options{NonceRun: 10})
	scratch(t, db)
	gather := func(name string) {
		t.Helper()
		for i := range 10 {
			if !burn(t, db, carrying(fmt.Sprint(name, i), "req-first")) {
				t.Fatalf("%s%d is used", name, i)
			}
		}
	}
	purge := func() {
		t.Helper()
		if _, err := db.PurgeAdmissions(t.Context(), noon.Add(time.Hour), 0, 100); err != nil {
			t.Error(err)
		}
	}
	gather("first-")
	purge() // the rows; their run is still there
	release := hold(t, db)
	var group sync.WaitGroup
	group.Go(purge)
	until(t, "the purge has queued up", func() bool { return db.Queued() == 1 })
	group.Go(func() {
		err := db.writer.do(t.Context(), func(tx *tx) error { return errors.Join(note("x")(tx), errChanged) })
		if !errors.Is(err, errChanged) {
			t.Error(err)
		}
	})
	until(t, "both have queued up", func() bool { return db.Queued() == 2 })
	release()
	group.Wait()
	if runs, parts := count(t, db, `SELECT count(*) FROM nonce_runs`), count(t, db, `SELECT count(*) FROM nonce_run_parts`); runs != 0 || parts != 0 {
		t.Errorf("%d runs are left, in %d parts; want none", runs, parts)
	}
	gather("second-")
	until(t, "there is a new run", func() bool { return count(t, db, `SELECT count(*) FROM nonce_runs`) == 1 })
	if burn(t, db, carrying("second-3", "req-second")) {
		t.Error("a nonce of the new run is free")
	}
}

func TestAFilterLacksNothingThatWasPutIn(t *testing.T) {
	for _, size := range []int{1, 3, 1000, nonceRun} {
		f := newFilter(size)
		for i := range size {
			f.add(markOf(1, fmt.Sprint(i)))
		}
		for i := range size {
			if f.lacks(markOf(1, fmt.Sprint(i))) {
				t.Fatalf("of %d, number %d is lacking", size, i)
			}
		}
		const others = 20_000
		wrong := 0
		for i := range others {
			if !f.lacks(markOf(2, fmt.Sprint(i))) {
				wrong++
			}
		}
		if wrong > others/200 {
			t.Errorf("with %d in it, %d of %d others seem to be in, too; want one in a thousand or so", size, wrong, others)
		}
	}
}

// A store of the release before has its nonces by key.
func TestNoncesOfAnOlderStoreStayUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
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
	if _, err := provider.UpTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		_, err := pool.Exec(`INSERT INTO nonces (credential_id, nonce, request_id, used_at) VALUES (7, ?1, 'req-first', ?2)`,
			fmt.Sprint("nonce-", 100-i), noon.Add(time.Duration(i)*time.Minute).UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	db := open(t, path, Options{NonceRun: 8})
	for i := range 20 {
		if burn(t, db, carrying(fmt.Sprint("nonce-", 100-i), "req-second")) {
			t.Errorf("nonce %d is free", i)
		}
	}
	removed, err := db.PurgeAdmissions(t.Context(), noon.Add(5*time.Minute), 0, 100)
	if err != nil || removed != 5 {
		t.Errorf("%d went (%v); want the five oldest", removed, err)
	}
}
