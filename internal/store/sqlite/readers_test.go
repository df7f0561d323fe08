package sqlite

import (
	"context"
	"errors"
	"testing"
)

// As many connections are opened as are in use at a time, and the one that was used
// last is used again.
func TestReaders_OpenOnDemand(t *testing.T) {
	db := open(t, newFile(t), Options{})
	take := func() *connection {
		t.Helper()
		c, err := db.readers.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := take()
	db.readers.put(first)
	if again := take(); again != first {
		t.Error("another connection was opened while one was idle")
	}
	second := take()
	db.readers.put(second)
	db.readers.put(first)
	if last := take(); last != first {
		t.Error("the connection that was used last stays idle")
	} else {
		db.readers.put(last)
	}

	var all []*connection
	for range maxReaders {
		all = append(all, take())
	}
	hungUp, hangUp := context.WithCancel(t.Context())
	hangUp()
	if _, err := db.readers.take(hungUp); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled caller still waits: %v", err)
	}
	for _, c := range all {
		db.readers.put(c)
	}
	if len(db.readers.idle) != maxReaders {
		t.Errorf("%d connections are open; want %d", len(db.readers.idle), maxReaders)
	}
}
