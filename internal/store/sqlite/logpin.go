package sqlite

import (
	"errors"
	"fmt"
)

// The pin is a connection with a read transaction. SQLite copies no page into the file that
// was committed after it began, and does not start the log over while it is open. So the
// pin moves only while the writer has SQLite's write lock, and ends only when the replica
// has read everything.

// capture reads the log with SQLite's write lock, so that the replica knows that it has all
// if the log starts over. It runs on the writer's goroutine.
func (r *replication) capture() error {
	return r.locked(func() error {
		_, _ = r.replica.Capture() // the shipper reports the error
		return nil
	})
}

// move ends the pin and begins it at the end of the log, with SQLite's write lock. It calls
// use while no commit can come between; complete: the file has all pages of the log. The
// caller makes sure that nothing is lost if the log starts over.
func (r *replication) move(use func(complete bool) error) error {
	return r.locked(func() error {
		if err := r.unpin(); err != nil {
			return err
		}
		pages, done, err := checkpoint(r.pin, "NOOP")
		if err != nil {
			return err
		}
		if err := r.hold(); err != nil || use == nil {
			return err
		}
		return use(pages <= done)
	})
}

// locked calls use with SQLite's write lock, on the writer's goroutine.
func (r *replication) locked(use func() error) (err error) {
	if err := r.writer.begin(); err != nil {
		return err
	}
	defer func() {
		_, rollback := r.writer.tx.Exec("ROLLBACK")
		err = errors.Join(err, rollback)
	}()
	return use()
}

// hold begins the pin.
func (r *replication) hold() error {
	if _, err := r.pin.Exec("BEGIN"); err != nil {
		return fmt.Errorf("hold the log for the replica: %w", err)
	}
	r.pinned = true
	var one int
	return r.pin.QueryRow(`SELECT count(*) FROM schema_tolerance`).Scan(&one)
}

func (r *replication) unpin() error {
	if !r.pinned {
		return nil
	}
	r.pinned = false
	_, err := r.pin.Exec("ROLLBACK")
	return err
}

// advance moves the pin before a checkpoint, of which some pages are still to be copied: so
// the log cannot start over. It returns false if the pin must stay.
func (r *replication) advance() (bool, error) {
	if !r.pinned {
		return true, nil
	}
	if r.frozen.Load() {
		return false, nil
	}
	return true, r.move(nil)
}

// release copies the rest of the log into the file and lets SQLite start the log over, if
// the replica has read everything.
func (r *replication) release() error {
	if r.frozen.Load() {
		return nil
	}
	return r.locked(func() error {
		if all, err := r.replica.Capture(); err != nil || !all {
			return nil // the shipper reports it
		}
		if err := r.unpin(); err != nil {
			return err
		}
		_, _, err := checkpoint(r.pin, "PASSIVE")
		return errors.Join(err, r.hold())
	})
}

// tooFarBehind gives the replica up if the log has grown too long, or fills the disk. A copy
// of the store is given up only for the disk: the next one would have to begin again.
func (r *replication) tooFarBehind(log int64) error {
	if !r.pinned {
		return nil
	}
	frozen := r.frozen.Load()
	r.mu.Lock()
	down := r.down
	r.mu.Unlock()
	if down == nil && !frozen {
		return nil
	}
	if frozen || log < r.options.MaxBehind {
		if free, err := r.free(); err != nil || free > 4*minFreeSpace {
			return nil
		}
	}
	r.callOff()
	r.replica.GiveUp()
	return r.unpin()
}
