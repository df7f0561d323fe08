package sqlite

import (
	"errors"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

func TestReserve_RefusedOnFullDisk(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	free, err := db.free()
	if err != nil || free < minFreeSpace {
		t.Fatalf("this machine's disk has %d bytes free, %v; the test needs some", free, err)
	}

	db.free = func() (int64, error) { return minFreeSpace - 1, nil }
	if _, err := db.Reserve(t.Context(), operation.Draft{}); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("a reservation: %v; want it refused, for lack of space", err)
	}
	if err := db.Ready(t.Context()); err == nil {
		t.Error("ready without space")
	}
	// What follows from earlier reservations is what the space is for.
	if err := db.writer.do(t.Context(), note("a settlement")); err != nil {
		t.Errorf("another write: %v", err)
	}

	db.free = func() (int64, error) { return minFreeSpace, nil }
	if _, err := db.Reserve(t.Context(), operation.Draft{}); !errors.Is(err, operation.ErrStale) {
		t.Errorf("a reservation of no plan, with space: %v; want it checked", err)
	}
	if err := db.Ready(t.Context()); err != nil {
		t.Errorf("with space again: %v", err)
	}
}
