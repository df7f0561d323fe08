package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/coaxhq/coax/internal/store/postgres"
)

const (
	// auditSlice is how long an audit works before it pauses. Other threads that want
	// the processor wait no longer than that; the system's own time slice is several
	// milliseconds.
	auditSlice = 500 * time.Microsecond
	// An audit pauses this many times as long as it has worked. With 3 it takes a
	// quarter of a processor, which can be spared even where there are two. On SQLite
	// it takes half of one: the WAL grows for as long as an audit reads, every reader
	// has to search it, and a WAL twice as long costs more than the pauses save.
	auditPauseFactorSQLite   = 1
	auditPauseFactorPostgres = 3
	// maxAuditPause bounds a pause: an audit that was not scheduled for a while counts
	// that time as work.
	maxAuditPause = 50 * time.Millisecond
	// writeCheckEvery is how often an audit checks whether the store is being written,
	// and storeQuiet how long it must not have been for the audit to go at full speed.
	writeCheckEvery = 50 * time.Millisecond
	storeQuiet      = 2 * time.Second
)

// auditPace slows an audit down while the store is in use: it then pauses longer than
// it works. A store that is not being written is read at full speed.
type auditPace struct {
	// position returns the position of the store's log, which changes with every commit.
	position    func(context.Context) (string, error)
	pauseFactor time.Duration

	sliceBegan time.Time
	checked    time.Time
	last       string
	changed    time.Time // when the position was last seen to change; zero if never
}

// newAuditPace returns a pace and takes the first position.
func newAuditPace(ctx context.Context, pauseFactor time.Duration, position func(context.Context) (string, error)) *auditPace {
	now := time.Now()
	p := &auditPace{position: position, pauseFactor: pauseFactor, sliceBegan: now, checked: now}
	var err error
	if p.last, err = position(ctx); err != nil {
		p.changed = now
	}
	return p
}

// AuditPaceOn returns the pace of an audit of a store. done releases its connection.
func AuditPaceOn(ctx context.Context, store StoreConfig) (pace *auditPace, done func(), err error) {
	position, done, err := logPosition(store)
	if err != nil {
		return nil, nil, err
	}
	factor := time.Duration(auditPauseFactorSQLite)
	if store.Kind == "postgres" {
		factor = auditPauseFactorPostgres
	}
	return newAuditPace(ctx, factor, position), done, nil
}

// Rest is called often during an audit. It pauses the audit if its slice is used up
// and the store is in use.
func (p *auditPace) Rest(ctx context.Context) {
	worked := time.Since(p.sliceBegan)
	if worked < auditSlice {
		return
	}
	if p.inUse(ctx) {
		Sleep(ctx, min(p.pauseFactor*worked, maxAuditPause))
	}
	p.sliceBegan = time.Now()
}

// inUse reports whether the store was written within storeQuiet. If the position cannot
// be read, it reports true.
func (p *auditPace) inUse(ctx context.Context) bool {
	now := time.Now()
	if now.Sub(p.checked) >= writeCheckEvery {
		p.checked = now
		if position, err := p.position(ctx); err != nil || position != p.last {
			p.last, p.changed = position, now
		}
	}
	return now.Sub(p.changed) < storeQuiet
}

// Sleep waits for a duration, or until the context ends.
func Sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// logPosition returns a function that reads the position of a store's log.
func logPosition(of StoreConfig) (read func(context.Context) (string, error), done func(), err error) {
	if of.Kind != "postgres" {
		return walPosition(of.Path), func() {}, nil
	}
	// The audit's own connection is busy with its queries.
	pool, err := postgres.OpenSQL(of.URL)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (position string, err error) {
		err = pool.QueryRowContext(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&position)
		return position, err
	}, func() { _ = pool.Close() }, nil
}

// walPosition returns size and modification time of SQLite's WAL, which every commit
// changes and no reader does.
func walPosition(store string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		info, err := os.Stat(store + "-wal")
		if errors.Is(err, fs.ErrNotExist) {
			return "no WAL", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size()), nil
	}
}
