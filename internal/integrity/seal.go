package integrity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ErrNoKey refuses a staff action in a store whose actions are keyed, where the store
// was opened without the master key.
var ErrNoKey = errors.New("the staff actions of this store are protected under the master key, and it was opened without one: " +
	"set secrets.master_key_file to the right file")

// Store is the part of a store that sealing needs.
type Store interface {
	// UseIntegrityKeys gives the store the keys for what it writes from now on. If its
	// staff actions are not keyed yet, the existing ones are sealed: their number is
	// returned, and started is true.
	UseIntegrityKeys(ctx context.Context, keys *Keys, now time.Time) (sealed int64, started bool, err error)

	// UnsealedOperators lists at most limit operators with rows that no digest covers, in
	// the order of their ids, beginning after one.
	UnsealedOperators(ctx context.Context, after int64, limit int) ([]int64, error)
	// LastDigest reads an operator's newest digest; the zero Digest if there is none.
	LastDigest(ctx context.Context, operatorID int64) (Digest, error)
	// LedgerLinesFrom and WalletEntriesFrom read at most limit of an operator's rows in
	// their order, beginning with a number.
	LedgerLinesFrom(ctx context.Context, operatorID, line int64, limit int) ([]LedgerLine, error)
	WalletEntriesFrom(ctx context.Context, operatorID, seq int64, limit int) ([]WalletEntry, error)
	// AddDigests numbers, signs and writes digests in one transaction, and returns how
	// many. It leaves out those that do not follow the last digest of their operator,
	// and adds none if another node adds digests at the same time.
	AddDigests(ctx context.Context, digests []Digest) (added int, err error)

	// IntegrityHead reads the ends of both chains.
	IntegrityHead(ctx context.Context) (Head, error)
}

// Head is the end of the chain of staff actions and of the chain of digests.
type Head struct {
	// ActionID is the id of the last staff action. Its MAC is that of Start if there is no
	// keyed action yet, and nil if the store is not keyed.
	ActionID              int64
	ActionHash, ActionMAC []byte
	// DigestNumber is the number of the last digest, zero if there is none. Day is its day.
	DigestNumber int64
	Day          string
	DigestMAC    []byte
}

const (
	// sealMargin is how long after its end a day is sealed. Rows that are committed even
	// later become part of the next digest.
	sealMargin = 15 * time.Minute

	// sealTries is how often digests are computed while other nodes add digests, too; the
	// next run continues.
	sealTries = 5

	operatorsAtATime = 100
	rowsAtATime      = 500

	// digestsPerCommit bounds how long other writers wait for a commit, and rowsPerCommit
	// how many rows are read again after a restart.
	digestsPerCommit = 100
	rowsPerCommit    = 50_000

	// maxDamaged is how many operators with missing rows an error names.
	maxDamaged = 5
)

var ist = time.FixedZone("IST", 19_800)

// Watch has the callbacks of a run of Seal. Both may be nil.
type Watch struct {
	// Pause is called between two reads and after each commit.
	Pause func(context.Context)
	// Committed is called after each commit with the number of digests so far, and
	// with the operator that the run has reached.
	Committed func(digests int, operatorID int64)
}

// Seal writes digests over all rows of days that are over, operator by operator and
// day by day, many in one commit. A run that was interrupted is continued by the next
// one. Several nodes may seal at once. An operator with a missing row is named in the
// error and sealed no further; the others are sealed.
func Seal(ctx context.Context, store Store, now time.Time, watch Watch) (digests int, err error) {
	s := sealer{store: store, watch: watch, today: now.Add(-sealMargin).In(ist).Format(time.DateOnly), now: now.UnixMilli()}
	err = s.run(ctx)
	return s.digests, err
}

type sealer struct {
	store Store
	watch Watch
	today string
	now   int64

	digests int
	// batch are the digests of the next commit, computed from rows rows.
	batch []Digest
	rows  int
	// tries counts the commits since one that added all its digests.
	tries int
}

// errOvertaken ends a batch if other nodes have added digests of it.
var errOvertaken = errors.New("another node adds digests")

func (s *sealer) run(ctx context.Context) error {
	damaged := map[int64]error{}
	for after := int64(0); ; {
		operators, err := s.store.UnsealedOperators(ctx, after, operatorsAtATime)
		if err != nil {
			return fmt.Errorf("find operators with unsealed rows: %w", err)
		}
		for _, id := range operators {
			err = s.operator(ctx, id)
			if found := damagedRows(""); errors.As(err, &found) {
				damaged[id], err = err, nil
			}
			if err != nil {
				break
			}
			after = id
		}
		if err == nil && len(operators) < operatorsAtATime {
			if err = s.commit(ctx); err == nil {
				return damage(damaged)
			}
		}
		if errors.Is(err, errOvertaken) {
			if s.tries++; s.tries == sealTries {
				return damage(damaged)
			}
			after, s.batch, s.rows, err = s.batch[0].OperatorID-1, nil, 0, nil
		}
		if err != nil {
			return err
		}
	}
}

// operator adds an operator's digests to the batch.
func (s *sealer) operator(ctx context.Context, id int64) error {
	last, err := s.store.LastDigest(ctx, id)
	if err != nil {
		return err
	}
	lines := &rowReader[LedgerLine]{next: last.LastLine + 1, pause: s.watch.Pause,
		read: func(ctx context.Context, from int64, limit int) ([]LedgerLine, error) {
			return s.store.LedgerLinesFrom(ctx, id, from, limit)
		},
		look: func(l LedgerLine) (number, at int64) { return l.Line, l.CreatedAt }}
	entries := &rowReader[WalletEntry]{next: last.LastEntry + 1, pause: s.watch.Pause,
		read: func(ctx context.Context, from int64, limit int) ([]WalletEntry, error) {
			return s.store.WalletEntriesFrom(ctx, id, from, limit)
		},
		look: func(e WalletEntry) (number, at int64) { return e.Seq, e.CreatedAt }}
	for lastDay := last.Day; ; {
		d, due, err := s.nextDigest(ctx, id, lastDay, lines, entries)
		if err != nil {
			return fmt.Errorf("seal the rows of lco %d: %w", id, err)
		}
		if !due {
			return nil
		}
		lastDay = d.Day
		s.batch = append(s.batch, d)
		s.rows += int(d.LastLine - d.FirstLine + 1 + d.LastEntry - d.FirstEntry + 1)
		if len(s.batch) >= digestsPerCommit || s.rows >= rowsPerCommit {
			if err := s.commit(ctx); err != nil {
				return err
			}
		}
	}
}

// commit writes the batch and begins another one. The batch is kept if other nodes have
// added digests of it.
func (s *sealer) commit(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	added, err := s.store.AddDigests(ctx, s.batch)
	if err != nil {
		return fmt.Errorf("write %d digests: %w", len(s.batch), err)
	}
	s.digests += added
	if added < len(s.batch) {
		return errOvertaken
	}
	if s.watch.Committed != nil {
		s.watch.Committed(s.digests, s.batch[len(s.batch)-1].OperatorID)
	}
	s.batch, s.rows, s.tries = s.batch[:0], 0, 0
	if s.watch.Pause != nil {
		s.watch.Pause(ctx)
	}
	return nil
}

// nextDigest computes the digest of the rows that come next; not due if none of them is
// of a day before today.
func (s *sealer) nextDigest(ctx context.Context, id int64, lastDay string, lines *rowReader[LedgerLine], entries *rowReader[WalletEntry]) (d Digest, due bool, err error) {
	lineAt, hasLine, err := lines.peek(ctx)
	if err != nil {
		return d, false, err
	}
	entryAt, hasEntry, err := entries.peek(ctx)
	if err != nil {
		return d, false, err
	}
	d = Digest{OperatorID: id, FirstLine: lines.next, FirstEntry: entries.next, MadeAt: s.now}
	if hasLine {
		d.Day = dayOf(lineAt)
	}
	if hasEntry {
		if day := dayOf(entryAt); d.Day == "" || day < d.Day {
			d.Day = day
		}
	}
	if d.Day == "" {
		return d, false, nil
	}
	if d.Day <= lastDay { // late rows of a day that has its digest
		if d.Day, err = dayAfter(lastDay); err != nil {
			return d, false, err
		}
	}
	if d.Day >= s.today {
		return d, false, nil
	}
	hash := NewRowHash()
	if err := lines.through(ctx, d.Day, hash.AddLine); err != nil {
		return d, false, err
	}
	d.LastLine, d.LedgerHash = lines.next-1, hash.Sum()
	hash = NewRowHash()
	if err := entries.through(ctx, d.Day, hash.AddEntry); err != nil {
		return d, false, err
	}
	d.LastEntry, d.WalletHash = entries.next-1, hash.Sum()
	return d, true, nil
}

// rowReader reads an operator's rows in their order, a page at a time.
type rowReader[R any] struct {
	// next is the number of the row that comes next.
	next  int64
	read  func(ctx context.Context, from int64, limit int) ([]R, error)
	look  func(R) (number, at int64)
	pause func(context.Context)

	page []R
	// size is that of the last page; zero before the first, which has one row: most
	// operators have only rows of today.
	size  int
	ended bool
}

// peek returns when the next row was made; false if there is none.
func (r *rowReader[R]) peek(ctx context.Context) (at int64, found bool, err error) {
	if len(r.page) == 0 && !r.ended {
		if r.size > 1 && r.pause != nil {
			r.pause(ctx)
		}
		if r.size > 0 {
			r.size = rowsAtATime
		} else {
			r.size = 1
		}
		if err := ctx.Err(); err != nil {
			return 0, false, err
		}
		if r.page, err = r.read(ctx, r.next, r.size); err != nil {
			return 0, false, err
		}
		r.ended = len(r.page) < r.size
	}
	if len(r.page) == 0 {
		return 0, false, nil
	}
	number, at := r.look(r.page[0])
	if number != r.next {
		return 0, false, damagedRows(fmt.Sprintf("row %d is missing before row %d", r.next, number))
	}
	return at, true, nil
}

// through adds rows up to the first one of a later day.
func (r *rowReader[R]) through(ctx context.Context, day string, add func(R)) error {
	for {
		at, found, err := r.peek(ctx)
		if err != nil || !found || dayOf(at) > day {
			return err
		}
		add(r.page[0])
		r.page = r.page[1:]
		r.next++
	}
}

// damagedRows is why an operator's rows cannot be sealed.
type damagedRows string

func (d damagedRows) Error() string { return string(d) + ": `coax audit` says more" }

// damage is the error of a run that has sealed all but some operators.
func damage(damaged map[int64]error) error {
	var all []error
	for _, id := range slices.Sorted(maps.Keys(damaged)) {
		if len(all) == maxDamaged {
			all = append(all, fmt.Errorf("%d operators in all", len(damaged)))
			break
		}
		all = append(all, damaged[id])
	}
	return errors.Join(all...)
}

func dayOf(ms int64) string { return time.UnixMilli(ms).In(ist).Format(time.DateOnly) }

func dayAfter(day string) (string, error) {
	t, err := time.Parse(time.DateOnly, day)
	if next := t.AddDate(0, 0, 1).Format(time.DateOnly); err == nil && next > day {
		return next, nil
	}
	return "", damagedRows(fmt.Sprintf("the last digest has the day %q", day))
}
