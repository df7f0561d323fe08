package sqlite

import (
	"fmt"
	"os"
	"sync/atomic"

	engine "zombiezen.com/go/sqlite"

	"github.com/coaxhq/coax/internal/filesync"
)

const (
	// checkpointAt is the number of pages in the write-ahead log that starts a
	// checkpoint: as many bytes as SQLite's default of 1000 pages of 4 KB.
	checkpointAt = 2000
	// checkEvery is after how many batches the writer reads the length of the log,
	// which costs as much as an admission.
	checkEvery = 8
	// maxLogFile is the size that the log file is truncated to, in bytes. It grows
	// without limit while an audit holds a read transaction.
	maxLogFile = 64 << 20
	// logSlice is how much of the log file is truncated at a time, and sliceEvery
	// after how many checkpoints. SQLite truncates within a commit, which then takes
	// some milliseconds more; all that an audit had left would take a second.
	// See docs/decisions/0034-log-cut-in-slices.md.
	logSlice   = 4 << 20
	sliceEvery = 16
	// noCheckpoint keeps SQLite from running checkpoints within a commit.
	noCheckpoint = "wal_autocheckpoint = 0"
)

// checkpoints copies the pages of the write-ahead log into the database file. SQLite
// would do that within a commit, which would then wait for the disk to take thousands
// of pages. So a second connection, the copier, copies them while the writer goes on,
// and the writer copies only the pages written since: the log can be reset only when
// no page is missing.
//
// SQLite flushes the database file only when no page is missing, which would make the
// writer wait for everything that the copier copied. So the copier flushes what it
// copied itself.
//
// A failed checkpoint loses nothing while the log has all pages. But a disk reports a
// failed page write only once, so a later checkpoint would let the log be reset
// without that page. The store is therefore broken after a failure, and the next
// process that opens it copies the whole log again.
type checkpoints struct {
	path   string       // of the log
	conn   *connection  // the copier's
	flush  func() error // flushes the database file
	stage  atomic.Int32
	failed error // the copier's failure; written before stage
	begin  chan struct{}
	ended  chan struct{}
	looked int64 // pages in the log when the last checkpoint finished
	// batches and finished count batches and checkpoints since the start.
	batches, finished uint
	// replication is nil without a replica.
	replication *replication
	again       int // copies in a row for one checkpoint, with a replica
	// limited: journal_size_limit is set, so the log is truncated at its next reset.
	limited bool
}

const (
	idle    int32 = iota
	copying       // the copier is at work
	copied        // the writer should copy the rest
)

const (
	// fewPages is how many pages the copier may leave to the writer: those of a batch
	// or two.
	fewPages = 64
	// maxRounds is how often the copier tries to get there. Each round copies only the
	// pages written during the one before, so three leave few; if not, the writer is
	// faster than the copier, and more rounds do not help.
	maxRounds = 4
)

// maxRest is the largest number of pages that the writer copies itself. There are more
// after a long read, an audit for instance, that ended after the copier looked. Copying
// them takes seconds, so they are left to the copier's next run.
const maxRest = 4 * checkpointAt

// startCheckpoints takes a second handle of the database file, to flush it. The caller
// closes it after every connection: closing any handle of a file drops all POSIX locks
// that the process has on it.
func startCheckpoints(path string, file *os.File) (*checkpoints, error) {
	conn, err := connect(path, "synchronous = FULL", noCheckpoint)
	if err != nil {
		return nil, fmt.Errorf("open %s for checkpoints: %w", path, err)
	}
	c := &checkpoints{
		path: path + "-wal", conn: conn, flush: func() error { return filesync.Data(file) },
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

// copyMost copies until few pages are left.
func (c *checkpoints) copyMost() error {
	for range maxRounds {
		pages, done, err := checkpoint(c.conn, "PASSIVE")
		if err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return fmt.Errorf("%w: %w", engine.ResultIOErrFsync.ToError(), err)
		}
		if done < pages {
			return nil // a reader still needs the others
		}
		if pages, done, err = checkpoint(c.conn, "NOOP"); err != nil || pages-done <= fewPages {
			return err
		}
	}
	return nil
}

// follow runs between two batches on the writer's goroutine: it starts the copier when
// the log is long enough, and copies the rest when the copier is done.
func (c *checkpoints) follow(writer *connection) error {
	switch c.stage.Load() {
	case copied:
		if c.failed != nil {
			c.stage.Store(idle)
			return c.failed
		}
		pages, done, err := checkpoint(writer, "NOOP")
		if r := c.replication; err == nil && r != nil && r.pinned {
			return c.followReplica(writer, pages, done)
		}
		if err == nil && pages-done <= maxRest {
			if pages, _, err = checkpoint(writer, "PASSIVE"); err == nil {
				err = c.truncateSlice(writer)
			}
		}
		c.looked = pages
		c.stage.Store(idle)
		return err
	case idle:
		if c.batches++; c.batches%checkEvery != 0 {
			return nil
		}
		pages, done, err := checkpoint(writer, "NOOP")
		if pages < c.looked {
			c.looked = 0 // the log was reset
		}
		// Pages that a reader needs cannot be copied, so they do not start a checkpoint again.
		if err == nil && c.replication != nil {
			err = c.replication.tooFarBehind(pages * PageSize)
		}
		if err == nil && pages-max(done, c.looked) >= checkpointAt {
			err = c.start(writer)
		}
		return err
	}
	return nil
}

// start starts the copier.
func (c *checkpoints) start(writer *connection) error {
	if c.replication != nil {
		if free, err := c.replication.advance(); err != nil || !free {
			return err
		}
	}
	c.stage.Store(copying)
	c.begin <- struct{}{}
	return c.stopTruncating(writer)
}

// followReplica copies the rest when a replica holds the log. The copier stops at the
// pages that the pin protects, so it runs again while many are left.
func (c *checkpoints) followReplica(writer *connection, pages, done int64) error {
	c.stage.Store(idle)
	c.looked = pages
	if c.again++; pages-done > fewPages && c.again < maxRounds {
		return c.start(writer)
	}
	c.again = 0
	if pages-done > maxRest {
		return nil
	}
	if err := c.replication.release(); err != nil {
		return err
	}
	return c.truncateSlice(writer)
}

// truncateSlice makes SQLite truncate a slice of a log file that is too large when the
// log is reset, which is with the next commit unless there is a reader.
func (c *checkpoints) truncateSlice(writer *connection) error {
	if c.finished++; c.finished%sliceEvery != 0 {
		return nil
	}
	log, err := os.Stat(c.path)
	if err != nil {
		return fmt.Errorf("read the size of the log file: %w", err)
	}
	if log.Size() <= maxLogFile {
		return nil
	}
	c.limited = true
	return writer.set(fmt.Sprintf("journal_size_limit = %d", max(maxLogFile, log.Size()-logSlice)))
}

// stopTruncating unsets the limit before the log grows by more than a slice, which
// would be truncated at once.
func (c *checkpoints) stopTruncating(writer *connection) error {
	if !c.limited {
		return nil
	}
	c.limited = false
	return writer.set("journal_size_limit = -1")
}

// stop waits for the copier. The writer must have stopped.
func (c *checkpoints) stop() error {
	close(c.begin)
	<-c.ended
	return c.conn.close()
}

// checkpoint runs a checkpoint in the given mode. It returns how many pages the log has
// and how many of them have been copied to the database file.
func checkpoint(on *connection, mode string) (pages, done int64, err error) {
	var busy int64
	err = on.QueryRow("PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &pages, &done)
	return pages, done, err
}
