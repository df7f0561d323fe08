package sqlite

import (
	"fmt"
	"sync/atomic"
)

const (
	// checkpointAt is how many pages the log has gathered when they are to be
	// written back; SQLite's own number.
	checkpointAt = 1000
	// lookEvery is after how many batches the writer looks at how long the log is:
	// that costs as much as to admit somebody.
	lookEvery = 8
	// logKept is how large the log's file stays, in bytes, once it has been
	// larger: beside an audit that reads for long it grows without end.
	logKept = "journal_size_limit = 67108864"
	// noCheckpoint keeps SQLite from writing the log back within a commit.
	noCheckpoint = "wal_autocheckpoint = 0"
)

// checkpoints writes the log's pages back into the file. SQLite would do that
// within a commit, and everybody who waits for the commit would wait for the disk
// to take a thousand pages as well. So another connection copies them while the
// writer goes on, and the writer only adds what has come since: no more pages than
// that, because the log can begin anew only when none is missing.
//
// What fails here fails again when the writer adds the rest, or the next time;
// nothing is lost, for the log has it all.
type checkpoints struct {
	conn   *connection // the copier's
	stage  atomic.Int32
	begin  chan struct{}
	ended  chan struct{}
	looked int64 // pages that the log had when it was last finished
	// batches are those since the start.
	batches uint
}

const (
	resting int32 = iota
	copying       // the copier is at work
	copied        // the writer should add the rest
)

// copyTwice: during the first pass as many pages come in as the second can copy
// while hardly any do.
const copyTwice = 2

// restMost is how many pages the writer adds at most. More are left where somebody
// has read for long, as an audit does, and let go of them only now: that is work of
// seconds, which the copier finds the next time.
const restMost = 4 * checkpointAt

func startCheckpoints(path string) (*checkpoints, error) {
	conn, err := connect(path, "synchronous = FULL", noCheckpoint, logKept)
	if err != nil {
		return nil, fmt.Errorf("open %s for checkpoints: %w", path, err)
	}
	c := &checkpoints{conn: conn, begin: make(chan struct{}, 1), ended: make(chan struct{})}
	go c.copy()
	return c, nil
}

func (c *checkpoints) copy() {
	defer close(c.ended)
	for range c.begin {
		for range copyTwice {
			_, _, _ = checkpoint(c.conn, "PASSIVE")
		}
		c.stage.Store(copied)
	}
}

// follow is the writer's part, between two batches.
func (c *checkpoints) follow(writer *connection) {
	switch c.stage.Load() {
	case copied:
		pages, back, err := checkpoint(writer, "NOOP")
		if err == nil && pages-back <= restMost {
			pages, _, _ = checkpoint(writer, "PASSIVE")
		}
		c.looked = pages
		c.stage.Store(resting)
	case resting:
		if c.batches++; c.batches%lookEvery != 0 {
			return
		}
		pages, back, err := checkpoint(writer, "NOOP")
		if pages < c.looked {
			c.looked = 0 // it has begun anew
		}
		// Pages that somebody reads from cannot go back, however often one tries.
		if err == nil && pages-max(back, c.looked) >= checkpointAt {
			c.stage.Store(copying)
			c.begin <- struct{}{}
		}
	}
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
