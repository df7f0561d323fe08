package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/login"
)

// errTriesFull rolls back the counts under the counters that were below their limit.
var errTriesFull = errors.New("a counter of tries is at its limit")

// CountTries counts a try under each counter, or under none. It reads first: a try that
// is refused writes nothing.
func (db *Store) CountTries(ctx context.Context, at time.Time, window time.Duration, counters []login.TryCounter) (counts []login.TryCount, counted bool, err error) {
	counts, full, err := db.triesOf(ctx, at, window, counters)
	if err != nil || full {
		return counts, false, err
	}
	// In the order of their keys, so that concurrent tries do not deadlock.
	order := make([]int, len(counters))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(counters[a].Key[:], counters[b].Key[:]) })
	err = db.engine.Write(ctx, func(tx Tx) error {
		for _, i := range order {
			if counts[i], err = countTry(tx, at, window, counters[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errTriesFull) {
		counts, _, err = db.triesOf(ctx, at, window, counters)
		return counts, false, err
	}
	return counts, err == nil, err
}

// countTry counts one try. The limit is checked in the WHERE clause, not read first: of two
// concurrent tries, both are counted, or one is refused. A window in the future is over, too:
// a clock that was set back must not lock a user out.
func countTry(tx Tx, at time.Time, window time.Duration, counter login.TryCounter) (login.TryCount, error) {
	count := login.TryCount{Key: counter.Key}
	var since sql.NullInt64
	err := tx.QueryRow(`
		INSERT INTO login_tries AS t (key, since, tries) VALUES ($1, $2, 1)
		    ON CONFLICT (key) DO UPDATE
		   SET since = CASE WHEN t.since > $3 AND t.since < $4 THEN t.since ELSE excluded.since END,
		       tries = CASE WHEN t.since > $3 AND t.since < $4 THEN t.tries + 1 ELSE 1 END
		 WHERE $5::bigint = 0 OR t.tries < $5 OR t.since <= $3 OR t.since >= $4
		RETURNING since, tries`,
		counter.Key[:], at.UnixMilli(), at.Add(-window).UnixMilli(), at.Add(window).UnixMilli(), counter.Limit).Scan(&since, &count.Tries)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return count, errTriesFull
	case err != nil:
		return count, fmt.Errorf("count a try: %w", err)
	}
	count.Since = Time(since)
	return count, nil
}

// triesOf reads counters, and whether one of them is at its limit.
func (db *Store) triesOf(ctx context.Context, at time.Time, window time.Duration, counters []login.TryCounter) (counts []login.TryCount, full bool, err error) {
	counts = make([]login.TryCount, len(counters))
	for i, counter := range counters {
		counts[i].Key = counter.Key
		var since sql.NullInt64
		err := db.engine.Read(ctx).QueryRow(`SELECT since, tries FROM login_tries WHERE key = $1 AND since > $2 AND since < $3`,
			counter.Key[:], at.Add(-window).UnixMilli(), at.Add(window).UnixMilli()).Scan(&since, &counts[i].Tries)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, false, fmt.Errorf("read a counter of tries: %w", err)
		}
		counts[i].Since = Time(since)
		full = full || counter.Limit > 0 && counts[i].Tries >= counter.Limit
	}
	return counts, full, nil
}

// UncountTries subtracts one try from each counter.
func (db *Store) UncountTries(ctx context.Context, counts []login.TryCount) error {
	counts = slices.Clone(counts)
	slices.SortFunc(counts, func(a, b login.TryCount) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return db.engine.Write(ctx, func(tx Tx) error {
		for _, count := range counts {
			if _, err := tx.Exec(`UPDATE login_tries SET tries = tries - 1 WHERE key = $1 AND since = $2 AND tries > 0`,
				count.Key[:], count.Since.UnixMilli()); err != nil {
				return fmt.Errorf("subtract a try: %w", err)
			}
		}
		return nil
	})
}

// PurgeTries removes some of the counters whose windows are over.
func (db *Store) PurgeTries(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed, err := tx.Exec(`
			DELETE FROM login_tries
			 WHERE key IN (SELECT key FROM login_tries WHERE since <= $1 ORDER BY since LIMIT $2)`, before.UnixMilli(), limit)
		removed = int(changed)
		return err
	})
	return removed, err
}
