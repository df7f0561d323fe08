package sqlite

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	engine "zombiezen.com/go/sqlite"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// What a lookup is told must be durable: it stands in one batch with a write whose
// commit fails, in front of it and behind it.
func TestWriterLookup_SeesCommittedOnly(t *testing.T) {
	fails := false
	db := open(t, newFile(t), Options{Commit: func(commit func() error) error {
		if fails {
			return engine.ResultBusy.ToError()
		}
		return commit()
	}})
	scratch(t, db)
	write(t, db, "kept")
	release := hold(t, db)
	var first, last string
	var group sync.WaitGroup
	for i, hand := range []func(){
		func() {
			if err := db.writer.lookUp(t.Context(), noted(&first)); err != nil {
				t.Errorf("the first lookup: %v", err)
			}
		},
		func() {
			if err := db.writer.do(t.Context(), note("lost")); !errors.Is(err, operation.ErrCommitUnknown) {
				t.Errorf("the write: %v; want an ambiguous outcome", err)
			}
		},
		func() {
			if err := db.writer.lookUp(t.Context(), noted(&last)); err != nil {
				t.Errorf("the last lookup: %v", err)
			}
		},
	} {
		group.Go(hand)
		until(t, "all so far have queued up", func() bool { return db.Queued() == i+1 })
	}
	fails = true // the loop reads it once it has what is queued
	release()
	group.Wait()
	if first != "kept" || last != "kept" {
		t.Errorf("seen: %q and %q; want only what is kept", first, last)
	}
}

func TestWriterLookup_SeesOwnWrite(t *testing.T) {
	watch := &observed{}
	db := open(t, newFile(t), Options{Observe: watch})
	scratch(t, db)
	for _, name := range []string{"a", "a b", "a b c"} {
		write(t, db, name[len(name)-1:])
		batches := len(watch.sizes)
		var seen string
		if err := db.writer.lookUp(t.Context(), noted(&seen)); err != nil || seen != name {
			t.Errorf("%v, seen %q; want %q", err, seen, name)
		}
		if len(watch.sizes) != batches {
			t.Error("a lookup took a transaction that writes")
		}
	}
}

// Lookups of every kind stand in one batch with writes.
func TestWriterLookup_FailureIsIsolated(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	write(t, db, "a")
	release := hold(t, db)

	gone, hangUp := context.WithCancel(t.Context())
	left := make(chan struct{})
	refusal := admin.Refuse("no")
	asks := func(ctx context.Context, read func(sqlstore.Querier) error) func() error {
		return func() error { return db.writer.lookUp(ctx, read) }
	}
	good := asks(t.Context(), func(from sqlstore.Querier) error {
		var seen string
		if err := noted(&seen)(from); err != nil || seen != "a" {
			return errors.Join(err, errors.New("seen: "+seen))
		}
		return nil
	})
	callers := []struct {
		name string
		hand func() error
		want func(error) bool
	}{
		{"write-1", func() error { return db.writer.do(t.Context(), note("b")) }, isNil},
		{"refused", asks(t.Context(), func(sqlstore.Querier) error { return refusal }), func(err error) bool { return errors.Is(err, refusal) }},
		{"good-1", good, isNil},
		{"panicking", asks(t.Context(), func(from sqlstore.Querier) error {
			rows, err := from.Query(`SELECT name FROM scratch`)
			_, err = sqlstore.Collect(rows, err, func(sqlstore.Row) (string, error) { panic("a bug") })
			return err
		}), func(err error) bool { return err != nil && strings.Contains(err.Error(), "a bug") }},
		{"cancelled", func() error {
			defer close(left)
			return db.writer.lookUp(gone, func(sqlstore.Querier) error {
				t.Error("a lookup was read whose caller had cancelled")
				return nil
			})
		}, func(err error) bool { return errors.Is(err, context.Canceled) }},
		{"good-2", good, isNil},
		{"ended", asks(t.Context(), func(from sqlstore.Querier) error {
			_, err := from.(*connection).Exec("ROLLBACK")
			return errors.Join(refusal, err)
		}), func(err error) bool { return errors.Is(err, refusal) }},
		{"good-3", good, isNil},
		{"write-2", func() error { return db.writer.do(t.Context(), note("c")) }, isNil},
	}
	var group sync.WaitGroup
	for i, c := range callers {
		group.Go(func() {
			if err := c.hand(); !c.want(err) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
		// One by one, so that the order in the batch is the one above.
		until(t, c.name+" has queued up", func() bool { return db.Queued() == i+1 })
	}
	hangUp()
	<-left
	release()
	group.Wait()
	if got := notes(t, db); got != "a b c" {
		t.Errorf("kept: %s; want a b c", got)
	}
}

func TestWriterLookup_IgnoresOpenTransaction(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	write(t, db, "kept")
	if _, err := db.writer.tx.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := note("never committed")(db.writer.tx); err != nil {
		t.Fatal(err)
	}
	var seen string
	if err := db.writer.lookUp(t.Context(), noted(&seen)); err != nil || seen != "kept" {
		t.Errorf("%v, seen %q; want what was committed", err, seen)
	}
}

func TestWriterLookup_ClosedOrFailed(t *testing.T) {
	var seen string
	t.Run("closed", func(t *testing.T) {
		db := open(t, newFile(t), Options{})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.writer.lookUp(t.Context(), noted(&seen)); !errors.Is(err, errClosed) {
			t.Errorf("after Close: %v; want it turned away", err)
		}
	})
	t.Run("failed while it waited", func(t *testing.T) {
		failed := engine.ResultIOErrWrite.ToError()
		db := open(t, newFile(t), Options{Commit: func(func() error) error { return failed }})
		release := hold(t, db)
		answer := make(chan error, 1)
		go func() { answer <- db.writer.lookUp(t.Context(), noted(&seen)) }()
		until(t, "it has queued up", func() bool { return db.Queued() == 1 })
		release() // the write that kept the writer busy is the one whose commit fails
		if err := <-answer; primaryCode(err) != engine.ResultIOErr {
			t.Errorf("after the disk has failed: %v; want the disk's failure", err)
		}
	})
}
