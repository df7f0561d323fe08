package sqlite

import (
	"fmt"
	"os"
	"sync/atomic"

	engine "zombiezen.com/go/sqlite"
)

const (
	// checkpointAt is how many pages the log has gathered when they are to be
	// written back: as many bytes as SQLite's own thousand pages have.
	checkpointAt = 2000
	// lookEvery is after how many batches the writer looks at how long the log is:
	// that costs as much as to admit somebody.
	lookEvery = 8
	// logKept is how large the log's file stays, in bytes, once it has been
	// larger: beside an audit that reads for long it grows without end.
	logKept = 64 << 20
	// logCut is how much of it is cut off at a time, and cutEvery after how many
	// checkpoints. SQLite cuts within a commit, which then takes some milliseconds more;
	// all that an audit had left took it a second.
	logCut   = 4 << 20
	cutEvery = 16
	// noCheckpoint keeps SQLite from writing the log back within a commit.
	noCheckpoint = "wal_autocheckpoint = 0"
)

// checkpoints writes the log's pages back into the file. SQLite would do that
// within a commit, and everybody who waits for the commit would wait for the disk
// to take thousands of pages as well. So another connection copies them while the
// writer goes on, and the writer only adds what has come since: no more pages than
// that, because the log can begin anew only when none is missing.
//
// SQLite waits for the disk only once none is missing, which would be the writer's
// wait for everything that was copied. The copier therefore sees to it that the disk
// has what it copied, and the writer waits for what it adds itself.
//
// A failure loses nothing while the log has it all. But a disk that has failed to
// take a page does not say so twice, and would let the log begin anew without it; so
// the store is then broken, and whoever opens it next copies the whole log again.
type checkpoints struct {
	path   string       // of the log
	conn   *connection  // the copier's
	flush  func() error // waits until the disk has what was copied
	stage  atomic.Int32
	failed error // the copier's failure; set before its stage is
	begin  chan struct{}
	ended  chan struct{}
	looked int64 // pages that the log had when it was last finished
	// batches are those since the start, and so are finished checkpoints.
	batches, finished uint
	// limited: the log is cut when it begins anew.
	limited bool
}

const (
	resting int32 = iota
	copying       // the copier is at work
	copied        // the writer should add the rest
)

const (
	// littleLeft is how many pages the copier leaves to the writer if it can: those of
	// a batch or two.
	littleLeft = 64
	// mostRounds is how often the copier tries. In each, only those pages come in that
	// are written while it copies, so that three leave little; where more come in all
	// the same, a further one would not end it.
	mostRounds = 4
)

// restMost is how many pages the writer adds at most. More are left where somebody
// has read for long, as an audit does, and let go of them only now: that is work of
// seconds, which the copier finds the next time.
const restMost = 4 * checkpointAt

// startCheckpoints is given the store's file as well, opened once more. It is the
// caller's, to be closed after every connection: with any file that a process closes
// it loses the locks on it that its connections hold.
func startCheckpoints(path string, file *os.File) (*checkpoints, error) {
	conn, err := connect(path, "synchronous = FULL", noCheckpoint)
	if err != nil {
		return nil, fmt.Errorf("open %s for checkpoints: %w", path, err)
	}
	c := &checkpoints{
		path: path + "-wal", conn: conn, flush: func() error { return flush(file) },
		begin: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go c.copy()
	return c, nil
}

func (c *checkpoints) copy() {
	defer close(c.ended)
	for range c.begin {
		c.failed = c.copyMost()
		c.stage.Store(copied)
	}
}

// copyMost copies until little is left.
func (c *checkpoints) copyMost() error {
	for range mostRounds {
		pages, back, err := checkpoint(c.conn, "PASSIVE")
		if err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return fmt.Errorf("%w: %w", engine.ResultIOErrFsync.ToError(), err)
		}
		if back < pages {
			return nil // somebody reads from the others
		}
		if pages, back, err = checkpoint(c.conn, "NOOP"); err != nil || pages-back <= littleLeft {
			return err
		}
	}
	return nil
}

// follow is the writer's part, between two batches.
func (c *checkpoints) follow(writer *connection) error {
	switch c.stage.Load() {
	case copied:
		if c.failed != nil {
			c.stage.Store(resting)
			return c.failed
		}
		pages, back, err := checkpoint(writer, "NOOP")
		if err == nil && pages-back <= restMost {
			if pages, _, err = checkpoint(writer, "PASSIVE"); err == nil {
				err = c.cutSome(writer)
			}
		}
		c.looked = pages
		c.stage.Store(resting)
		return err
	case resting:
		if c.batches++; c.batches%lookEvery != 0 {
			return nil
		}
		pages, back, err := checkpoint(writer, "NOOP")
		if pages < c.looked {
			c.looked = 0 // it has begun anew
		}
		// Pages that somebody reads from cannot go back, however often one tries.
		if err == nil && pages-max(back, c.looked) >= checkpointAt {
			c.stage.Store(copying)
			c.begin <- struct{}{}
			err = c.cutNothing(writer)
		}
		return err
	}
	return nil
}

// cutSome has SQLite cut a little off the log's file when the log begins anew, which
// is with the next commit unless somebody reads: now and then, from a file that is
// larger than it should stay.
func (c *checkpoints) cutSome(writer *connection) error {
	if c.finished++; c.finished%cutEvery != 0 {
		return nil
	}
	log, err := os.Stat(c.path)
	if err != nil {
		return fmt.Errorf("ask how large the log is: %w", err)
	}
	if log.Size() <= logKept {
		return nil
	}
	c.limited = true
	return writer.set(fmt.Sprintf("journal_size_limit = %d", max(logKept, log.Size()-logCut)))
}

// cutNothing comes before the log has grown by much: all that would be cut at once.
func (c *checkpoints) cutNothing(writer *connection) error {
	if !c.limited {
		return nil
	}
	c.limited = false
	return writer.set("journal_size_limit = -1")
}

// stop waits for the copier. The writer has stopped before.
func (c *checkpoints) stop() error {
	close(c.begin)
	<-c.ended
	return c.conn.close()
}

// checkpoint says how many pages the log has, and how many of them the file.
func checkpoint(on *connection, mode string) (pages, back int64, err error) {
	var busy int64
	err = on.queryRow("PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &pages, &back)
	return pages, back, err
}
