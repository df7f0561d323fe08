package postgres

import (
	"errors"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// A reservation that has found the mode off commits before the mode is on; one that comes
// while it is switched on waits, and finds it on.
func TestStartMaintenance_WaitsForReservationsUnderWay(t *testing.T) {
	address := migrated(t)
	db, other, under, look := open(t, address), open(t, address), raw(t, address), raw(t, address)
	record := operator(t, db, 60)
	draft := activation(t, other, record.Operator.ID, "late")

	exec(t, under, `BEGIN`)
	exec(t, under, maintenanceRow)
	on := make(chan error, 1)
	go func() {
		_, err := db.StartMaintenance(t.Context(), act("maintenance on"))
		on <- err
	}()
	waiting := func() int {
		return count(t, look, `
			SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			 WHERE d.datname = current_database() AND l.relation = 'maintenance'::regclass AND NOT l.granted`)
	}
	until(t, "maintenance on to wait", func() bool { return waiting() == 1 })
	late := make(chan error, 1)
	go func() {
		_, err := other.Reserve(t.Context(), draft)
		late <- err
	}()
	until(t, "the reservation to wait behind it", func() bool { return waiting() == 2 })
	// Look-ups, and a dump, go on meanwhile.
	if mode, err := other.Maintenance(t.Context()); err != nil || mode.On {
		t.Errorf("it is %+v, %v before the reservation under way has ended", mode, err)
	}
	exec(t, under, `COMMIT`)
	ok(t, <-on)
	if err := <-late; !errors.Is(err, operation.ErrStale) {
		t.Errorf("the late reservation: %v; want %v", err, operation.ErrStale)
	}
}

// A dump locks every table in ACCESS SHARE mode for as long as it takes.
func TestStartMaintenance_DoesNotWaitForADump(t *testing.T) {
	address := migrated(t)
	db, dump := open(t, address), raw(t, address)
	exec(t, dump, `BEGIN`)
	exec(t, dump, `LOCK TABLE maintenance IN ACCESS SHARE MODE`)
	_, err := db.StartMaintenance(t.Context(), act("maintenance on"))
	ok(t, err)
	_, err = db.EndMaintenance(t.Context(), act("maintenance off"), false, false)
	ok(t, err)
	exec(t, dump, `COMMIT`)
}
