package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// noted reads the names that are there, as the one who is asked about them.
func noted(into *string) func(sqlstore.Querier) error {
	return func(from sqlstore.Querier) error {
		rows, err := from.Query(`SELECT name FROM scratch ORDER BY name`)
		names, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (name string, err error) { return name, row.Scan(&name) })
		*into = strings.Join(names, " ")
		return err
	}
}

// holdLookups keeps the batcher busy with one lookup until release is called, so that
// what is asked meanwhile has to be answered together.
func holdLookups(t testing.TB, db *DB) (release func()) {
	t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	go func() {
		var seen string
		_ = db.lookUp(context.WithoutCancel(t.Context()), func(from sqlstore.Querier) error {
			err := noted(&seen)(from) // its moment has begun
			close(busy)
			<-free
			return err
		})
	}()
	<-busy
	return sync.OnceFunc(func() { close(free) })
}

func (b *batcher) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

func write(t testing.TB, db *DB, name string) {
	t.Helper()
	if err := db.writer.do(t.Context(), note(name)); err != nil {
		t.Fatal(err)
	}
}

func TestLookup_SeesStateAfterCall(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	release := holdLookups(t, db)
	write(t, db, "before both")
	seen := make([]string, 2)
	var group sync.WaitGroup
	for i := range seen {
		group.Go(func() {
			if err := db.lookUp(t.Context(), noted(&seen[i])); err != nil {
				t.Error(err)
			}
		})
		until(t, "it is asked", func() bool { return db.lookups.queued() == i+1 })
		write(t, db, fmt.Sprint("behind ", i))
	}
	release()
	group.Wait()
	for i, got := range seen {
		if want := "before both behind 0 behind 1"; got != want {
			t.Errorf("lookup %d: %q; want %q", i, got, want)
		}
	}
}

func TestLookup_SeesOwnWrite(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	var group sync.WaitGroup
	for caller := range 32 {
		group.Go(func() {
			for i := range 30 {
				name := fmt.Sprint(caller, "-", i)
				if err := db.writer.do(t.Context(), note(name)); err != nil {
					t.Error(err)
					return
				}
				var there bool
				err := db.lookUpRow(t.Context()).QueryRow(`SELECT EXISTS (SELECT 1 FROM scratch WHERE name = ?1)`, name).Scan(&there)
				if err != nil || !there {
					t.Errorf("%s was written and is there: %v, %v", name, there, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// The first lookup of a batch has something committed between its own reading and
// the other's.
func TestLookup_QueuedShareOneSnapshot(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	release := holdLookups(t, db)
	var first, second string
	var group sync.WaitGroup
	group.Go(func() {
		err := db.lookUp(t.Context(), func(from sqlstore.Querier) error {
			if err := noted(&first)(from); err != nil {
				return err
			}
			return db.writer.do(t.Context(), note("between"))
		})
		if err != nil {
			t.Error(err)
		}
	})
	until(t, "the first has queued up", func() bool { return db.lookups.queued() == 1 })
	group.Go(func() {
		if err := db.lookUp(t.Context(), noted(&second)); err != nil {
			t.Error(err)
		}
	})
	until(t, "the second has queued up", func() bool { return db.lookups.queued() == 2 })
	release()
	group.Wait()
	if first != "" || second != "" {
		t.Errorf("seen: %q and %q; want nothing, twice", first, second)
	}
	if got := notes(t, db); got != "between" {
		t.Errorf("kept: %q; want what was written between the two", got)
	}
}

// One batch holds a lookup that is refused, one that cannot be read, one whose
// caller cancelled, one that panics in the middle of its rows, one under which SQLite
// has ended the transaction, and good ones before, between and behind them.
func TestLookup_FailureIsIsolated(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	write(t, db, "a")
	write(t, db, "b")
	release := holdLookups(t, db)

	gone, hangUp := context.WithCancel(t.Context())
	left := make(chan struct{})
	refusal := admin.Refuse("no")
	good := func(from sqlstore.Querier) error {
		var before, after string
		if err := noted(&before)(from); err != nil {
			return err
		}
		if err := db.writer.do(t.Context(), note(before+" and more")); err != nil {
			return err
		}
		if err := noted(&after)(from); err != nil || before != after {
			return fmt.Errorf("%q, and then %q, %w", before, after, err)
		}
		return nil
	}
	lookups := []struct {
		name string
		ctx  context.Context
		read func(sqlstore.Querier) error
		want func(error) bool
	}{
		{"refused", t.Context(), func(sqlstore.Querier) error { return refusal }, func(err error) bool { return errors.Is(err, refusal) }},
		{"good-1", t.Context(), good, isNil},
		{"unreadable", t.Context(), func(from sqlstore.Querier) error {
			var name string
			return from.QueryRow(`SELECT name FROM nowhere`).Scan(&name)
		}, func(err error) bool { return err != nil && strings.Contains(err.Error(), "nowhere") }},
		{"good-2", t.Context(), good, isNil},
		{"cancelled", gone, func(sqlstore.Querier) error {
			t.Error("a lookup was read whose caller had cancelled")
			return nil
		}, func(err error) bool { return errors.Is(err, context.Canceled) }},
		{"panicking", t.Context(), func(from sqlstore.Querier) error {
			rows, err := from.Query(`SELECT name FROM scratch ORDER BY name`)
			_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (string, error) { panic("a bug") })
			return err
		}, func(err error) bool { return err != nil && strings.Contains(err.Error(), "a bug") }},
		{"good-3", t.Context(), good, isNil},
		{"ended", t.Context(), func(from sqlstore.Querier) error {
			_, err := from.(*connection).Exec("ROLLBACK")
			return errors.Join(refusal, err)
		}, func(err error) bool { return errors.Is(err, refusal) }},
		{"good-4", t.Context(), good, isNil},
	}
	var group sync.WaitGroup
	for i, q := range lookups {
		group.Go(func() {
			if err := db.lookUp(q.ctx, q.read); !q.want(err) {
				t.Errorf("%s: %v", q.name, err)
			}
			if q.ctx == gone {
				close(left)
			}
		})
		// One by one, so that the order in the batch is the one above.
		until(t, q.name+" has queued up", func() bool { return db.lookups.queued() == i+1 })
	}
	hangUp()
	<-left
	release()
	group.Wait()
	if err := db.lookUp(t.Context(), good); err != nil {
		t.Errorf("the store does not go on: %v", err)
	}
}

func TestLookup_CancelAfterStartReturnsResult(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	write(t, db, "kept")
	ctx, hangUp := context.WithCancel(t.Context())
	release := holdLookups(t, db)
	var seen string
	answered := make(chan error, 2)
	began, goOn := make(chan struct{}), make(chan struct{})
	// The other caller runs the lookups, and is in the middle of it when the caller leaves.
	go func() {
		answered <- db.lookUp(t.Context(), func(sqlstore.Querier) error { return nil })
	}()
	until(t, "the other caller has queued up", func() bool { return db.lookups.queued() == 1 })
	go func() {
		answered <- db.lookUp(ctx, func(from sqlstore.Querier) error {
			close(began)
			<-goOn
			return noted(&seen)(from)
		})
	}()
	until(t, "the caller has queued up", func() bool { return db.lookups.queued() == 2 })
	release()
	<-began
	hangUp()
	close(goOn)
	for range 2 {
		if err := <-answered; err != nil {
			t.Errorf("%v; want the answer", err)
		}
	}
	if seen != "kept" {
		t.Errorf("seen: %q; want what was there", seen)
	}
	if err := db.lookUp(ctx, noted(&seen)); !errors.Is(err, context.Canceled) {
		t.Errorf("the next lookup of one who has cancelled: %v", err)
	}
}

// More than can be answered at one moment are answered at several.
func TestLookup_ManyCallers(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	release := holdLookups(t, db)
	const many = 5*maxLookups + 1
	var group sync.WaitGroup
	answers := make([]int, many)
	for i := range many {
		group.Go(func() {
			if err := db.lookUpRow(t.Context()).QueryRow(`SELECT ?1 + 1`, i).Scan(&answers[i]); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "all have queued up", func() bool { return db.lookups.queued() == many })
	release()
	group.Wait()
	for i, got := range answers {
		if got != i+1 {
			t.Errorf("lookup %d was answered with %d", i, got)
		}
	}
}

func TestLookup_RecoversFromOpenTransaction(t *testing.T) {
	t.Run("of several rows", func(t *testing.T) {
		leaveOpen(t, func(db *DB, seen *string) error { return db.lookUp(t.Context(), noted(seen)) })
	})
	t.Run("of one row", func(t *testing.T) {
		leaveOpen(t, func(db *DB, seen *string) error {
			return db.lookUpRow(t.Context()).QueryRow(`SELECT max(name) FROM scratch`).Scan(seen)
		})
	})
}

func leaveOpen(t *testing.T, ask func(db *DB, seen *string) error) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	var seen string
	if err := db.lookUp(t.Context(), noted(&seen)); err != nil {
		t.Fatal(err)
	}
	c := <-db.lookups.free
	if _, err := c.Exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	if err := noted(&seen)(c); err != nil {
		t.Fatal(err)
	}
	db.lookups.free <- c
	write(t, db, "after")
	if err := ask(db, &seen); err != nil || seen != "after" {
		t.Errorf("%v, seen %q; want what was written since", err, seen)
	}
}

func TestLookup_Close(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	write(t, db, "kept")
	release := holdLookups(t, db)
	seen := make([]string, 3)
	var group sync.WaitGroup
	for i := range seen {
		group.Go(func() {
			if err := db.lookUp(t.Context(), noted(&seen[i])); err != nil {
				t.Errorf("lookup %d: %v", i, err)
			}
		})
	}
	until(t, "all have queued up", func() bool { return db.lookups.queued() == len(seen) })
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	until(t, "no write is taken any more", func() bool {
		return errors.Is(db.writer.do(t.Context(), func(*tx) error { return nil }), errClosed)
	})
	select {
	case err := <-closed:
		t.Errorf("the store has closed under a lookup: %v", err)
	default:
	}
	release()
	group.Wait()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for i, got := range seen {
		if got != "kept" {
			t.Errorf("lookup %d saw %q", i, got)
		}
	}
	if err := db.lookUp(t.Context(), noted(&seen[0])); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v; want it turned away", err)
	}
	if _, err := db.Wallet(t.Context(), 1); !errors.Is(err, errClosed) {
		t.Errorf("a balance after Close: %v; want it turned away", err)
	}
}
