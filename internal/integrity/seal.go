package integrity

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoKey refuses a staff action in a store whose actions are keyed, where the store
// was opened without the master key.
var ErrNoKey = errors.New("the staff actions of this store are protected under the master key, and it was opened without one: " +
	"set secrets.master_key_file to the right file")

// Store is what sealing asks of where the rows are.
type Store interface {
	// UseIntegrityKeys gives the store the keys for what it writes from now on. Where
	// its staff actions are not keyed yet, those that are there are sealed: their
	// number is returned, and started is true.
	UseIntegrityKeys(ctx context.Context, keys *Keys, now time.Time) (sealed int64, started bool, err error)

	// UnsealedOperators lists operators with rows that no digest covers, in the order
	// of their ids and beginning behind one, most of them at a time.
	UnsealedOperators(ctx context.Context, after int64, most int) ([]int64, error)
	// LastDigest reads an operator's newest digest; the zero Digest if there is none.
	LastDigest(ctx context.Context, operatorID int64) (Digest, error)
	// LedgerLinesFrom and WalletEntriesFrom read an operator's rows in their order,
	// beginning with a number, most of them at a time.
	LedgerLinesFrom(ctx context.Context, operatorID, line int64, most int) ([]LedgerLine, error)
	WalletEntriesFrom(ctx context.Context, operatorID, seq int64, most int) ([]WalletEntry, error)
	// AddDigest numbers and signs a digest and writes it; false if meanwhile another
	// node has added one of the operator or of that number.
	AddDigest(ctx context.Context, d Digest) (added bool, err error)

	// IntegrityHead reads the ends of both chains.
	IntegrityHead(ctx context.Context) (Head, error)
}

// Head is the end of the chain of staff actions and of the chain of digests.
type Head struct {
	// ActionID is the last staff action's. Its MAC is that of Start where no keyed
	// action came yet, and nil where the store is not keyed.
	ActionID              int64
	ActionHash, ActionMAC []byte
	// DigestNumber is the last digest's, zero if there is none. Day is its day.
	DigestNumber int64
	Day          string
	DigestMAC    []byte
}

const (
	// sealMargin is how long after its end a day is sealed. Rows that are late
	// nevertheless become part of the next digest.
	sealMargin = 15 * time.Minute

	// sealTries is how often an operator's next digest is computed while other nodes
	// add digests, too. The next run goes on.
	sealTries = 5

	operatorsAtATime = 100
	rowsAtATime      = 500
)

var ist = time.FixedZone("IST", 19_800)

// Seal writes digests over all rows of days that are over, operator by operator and
// day by day. Several nodes may do so at once. pause is called between two reads.
func Seal(ctx context.Context, store Store, now time.Time, pause func(context.Context)) (digests int, err error) {
	today := now.Add(-sealMargin).In(ist).Format(time.DateOnly)
	for after := int64(0); ; {
		operators, err := store.UnsealedOperators(ctx, after, operatorsAtATime)
		if err != nil {
			return digests, fmt.Errorf("find operators with unsealed rows: %w", err)
		}
		for _, id := range operators {
			added, err := sealOperator(ctx, store, id, today, now, pause)
			digests += added
			if err != nil {
				return digests, fmt.Errorf("seal the rows of lco %d: %w", id, err)
			}
			after = id
		}
		if len(operators) < operatorsAtATime {
			return digests, nil
		}
	}
}

func sealOperator(ctx context.Context, store Store, id int64, today string, now time.Time, pause func(context.Context)) (digests int, err error) {
	for tries := 1; ; {
		d, due, err := nextDigest(ctx, store, id, today, pause)
		if err != nil || !due {
			return digests, err
		}
		d.MadeAt = now.UnixMilli()
		added, err := store.AddDigest(ctx, d)
		if err != nil {
			return digests, err
		}
		if added {
			digests, tries = digests+1, 1
		} else if tries++; tries > sealTries {
			return digests, nil
		}
		if err := ctx.Err(); err != nil {
			return digests, err
		}
	}
}

// nextDigest computes the digest that follows an operator's last one; not due if no
// row is left of the days before today.
func nextDigest(ctx context.Context, store Store, id int64, today string, pause func(context.Context)) (d Digest, due bool, err error) {
	last, err := store.LastDigest(ctx, id)
	if err != nil {
		return d, false, err
	}
	line, err := store.LedgerLinesFrom(ctx, id, last.LastLine+1, 1)
	if err != nil {
		return d, false, err
	}
	entry, err := store.WalletEntriesFrom(ctx, id, last.LastEntry+1, 1)
	if err != nil {
		return d, false, err
	}
	d = Digest{OperatorID: id, FirstLine: last.LastLine + 1, FirstEntry: last.LastEntry + 1}
	if len(line) > 0 {
		d.Day = dayOf(line[0].CreatedAt)
	}
	if len(entry) > 0 {
		if day := dayOf(entry[0].CreatedAt); d.Day == "" || day < d.Day {
			d.Day = day
		}
	}
	if d.Day == "" {
		return d, false, nil
	}
	if d.Day <= last.Day { // late rows of a day that has its digest
		d.Day = dayAfter(last.Day)
	}
	if d.Day >= today {
		return d, false, nil
	}
	lines, entries := NewRowHash(), NewRowHash()
	d.LastLine, err = addRows(ctx, d.FirstLine, d.Day, pause,
		func(from int64) ([]LedgerLine, error) { return store.LedgerLinesFrom(ctx, id, from, rowsAtATime) },
		func(l LedgerLine) (number, at int64) { return l.Line, l.CreatedAt }, lines.AddLine)
	if err != nil {
		return d, false, err
	}
	d.LastEntry, err = addRows(ctx, d.FirstEntry, d.Day, pause,
		func(from int64) ([]WalletEntry, error) { return store.WalletEntriesFrom(ctx, id, from, rowsAtATime) },
		func(e WalletEntry) (number, at int64) { return e.Seq, e.CreatedAt }, entries.AddEntry)
	if err != nil {
		return d, false, err
	}
	d.LedgerHash, d.WalletHash = lines.Sum(), entries.Sum()
	return d, true, nil
}

// addRows adds the rows from a number on, up to the first one of a later day, and
// returns the last number that was added.
func addRows[R any](ctx context.Context, first int64, day string, pause func(context.Context),
	read func(from int64) ([]R, error), look func(R) (number, at int64), add func(R)) (last int64, err error) {
	last = first - 1
	for {
		rows, err := read(last + 1)
		if err != nil {
			return last, err
		}
		for _, row := range rows {
			number, at := look(row)
			if number != last+1 {
				return last, fmt.Errorf("row %d is missing before row %d: `coax audit` says more", last+1, number)
			}
			if dayOf(at) > day {
				return last, nil
			}
			add(row)
			last = number
		}
		if len(rows) < rowsAtATime {
			return last, nil
		}
		if pause != nil {
			pause(ctx)
		}
		if err := ctx.Err(); err != nil {
			return last, err
		}
	}
}

func dayOf(ms int64) string { return time.UnixMilli(ms).In(ist).Format(time.DateOnly) }

func dayAfter(day string) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day // a damaged row: the store refuses a second digest of that day
	}
	return t.AddDate(0, 0, 1).Format(time.DateOnly)
}
