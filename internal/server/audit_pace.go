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
	// auditStint is how long an audit works at a time. Whoever wants the same
	// processor waits no longer than that, where the system itself would let a
	// thread run on for several milliseconds.
	auditStint = 500 * time.Microsecond
	// How many times as long as it has worked an audit rests. A quarter of a
	// processor can be spared, even where there are but two. On SQLite it takes
	// half of one: there the log grows for as long as an audit reads, everybody has
	// to look through it, and twice as long a log costs more than is saved.
	auditRestsSQLite   = 1
	auditRestsPostgres = 3
	// auditRestMost bounds a rest: whoever was kept from working need not make up
	// for that, too.
	auditRestMost = 50 * time.Millisecond
	// storeLook is how often an audit looks whether somebody is writing, and
	// storeQuiet how long it has been nobody when the store is the audit's own.
	storeLook  = 50 * time.Millisecond
	storeQuiet = 2 * time.Second
)

// auditPace has an audit leave room for those who work on the same store. While
// anything is written there, the audit works a little and rests longer; a store
// that nobody uses it reads as fast as it goes.
type auditPace struct {
	// pulse differs from what it was before if something was written since.
	pulse func(context.Context) (string, error)
	rests time.Duration // times as long as it has worked

	begun  time.Time // the present stint
	looked time.Time
	last   string
	beaten time.Time // when the pulse was seen to differ; zero if it never was
}

// newAuditPace begins to look at who else uses a store.
func newAuditPace(ctx context.Context, rests time.Duration, pulse func(context.Context) (string, error)) *auditPace {
	now := time.Now()
	p := &auditPace{pulse: pulse, rests: rests, begun: now, looked: now}
	var err error
	if p.last, err = pulse(ctx); err != nil {
		p.beaten = now
	}
	return p
}

// AuditPaceOn is that of an audit of a store.
func AuditPaceOn(ctx context.Context, store StoreConfig) (pace *auditPace, done func(), err error) {
	pulse, done, err := storePulse(store)
	if err != nil {
		return nil, nil, err
	}
	rests := time.Duration(auditRestsSQLite)
	if store.Kind == "postgres" {
		rests = auditRestsPostgres
	}
	return newAuditPace(ctx, rests, pulse), done, nil
}

// Rest is called by an audit at work, and returns when it may go on.
func (p *auditPace) Rest(ctx context.Context) {
	worked := time.Since(p.begun)
	if worked < auditStint {
		return
	}
	if p.inUse(ctx) {
		Sleep(ctx, min(p.rests*worked, auditRestMost))
	}
	p.begun = time.Now()
}

// inUse reports whether somebody was writing a moment ago. Where nobody can tell,
// somebody may have been.
func (p *auditPace) inUse(ctx context.Context) bool {
	now := time.Now()
	if now.Sub(p.looked) >= storeLook {
		p.looked = now
		if pulse, err := p.pulse(ctx); err != nil || pulse != p.last {
			p.last, p.beaten = pulse, now
		}
	}
	return now.Sub(p.beaten) < storeQuiet
}

// Sleep waits for so long, or until nobody wants to any more.
func Sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// storePulse feels whether something is written to a store.
func storePulse(of StoreConfig) (pulse func(context.Context) (string, error), done func(), err error) {
	if of.Kind != "postgres" {
		return logPulse(of.Path), func() {}, nil
	}
	// The audit's own connection is busy with its questions.
	pool, err := postgres.OpenSQL(of.URL)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (position string, err error) {
		err = pool.QueryRowContext(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&position)
		return position, err
	}, func() { _ = pool.Close() }, nil
}

// logPulse looks at SQLite's log, where every commit goes first and which no
// reader touches.
func logPulse(store string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		info, err := os.Stat(store + "-wal")
		if errors.Is(err, fs.ErrNotExist) {
			return "nobody has it open", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size()), nil
	}
}
