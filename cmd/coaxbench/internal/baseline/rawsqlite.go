package baseline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	engine "zombiezen.com/go/sqlite"

	"github.com/coaxhq/coax/internal/store/sqlite"
)

// batch is how many operations share a commit.
const batch = 64

// RawSQLite writes the rows of renewals into a file with our schema, by prepared
// statements alone: no request, no decision, no guard and no answer; 64 operations
// a FULL commit, and two commits for each, as a renewal has them. It is what is
// left of a renewal if everything but its rows is taken away.
type RawSQLite struct {
	conn       *engine.Conn
	reserve    []statement
	settle     []statement
	begin, end *engine.Stmt
	written    int
	wallets    []wallet
	operators  int
	perWallet  int
}

type wallet struct{ balance, ledger, entries, lines int64 }

// OpenRawSQLite makes the file, with so many operators and subscribers in it.
func OpenRawSQLite(ctx context.Context, path string, operators, subscribers int) (*RawSQLite, error) {
	// The schema is the service's own, indexes and all.
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	r := &RawSQLite{operators: operators, perWallet: subscribers / operators}
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	if r.conn, err = engine.OpenConn("file:"+escaped+"?mode=rw", engine.OpenReadWrite|engine.OpenURI); err != nil {
		return nil, fmt.Errorf("open the raw store: %w", err)
	}
	for _, step := range []func() error{r.settings, r.prepare, r.furnish} {
		if err := step(); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare the raw store: %w", err), r.Close())
		}
	}
	return r, nil
}

// settings are what the service sets for its own connections: where it changes
// something that costs or saves, this has to follow.
func (r *RawSQLite) settings() error {
	for _, pragma := range []string{"journal_mode = WAL", "synchronous = FULL", "foreign_keys = 1", "cache_size = -8192"} {
		s, err := r.conn.Prepare("PRAGMA " + pragma)
		if err == nil {
			err = execute(s)
		}
		if err != nil {
			return fmt.Errorf("PRAGMA %s: %w", pragma, err)
		}
	}
	return nil
}

// Close lets go of the file.
func (r *RawSQLite) Close() error { return r.conn.Close() }

// Run writes operations for so long, and returns how many and in what time.
func (r *RawSQLite) Run(ctx context.Context, duration time.Duration) (operations int, elapsed time.Duration, err error) {
	began := time.Now()
	for elapsed < duration && ctx.Err() == nil {
		if err := r.group(time.Now()); err != nil {
			return operations, elapsed, err
		}
		operations += batch
		elapsed = time.Since(began)
	}
	return operations, elapsed, ctx.Err()
}

// group writes one group of operations: first what a reservation leaves, then
// what a settlement does.
func (r *RawSQLite) group(now time.Time) error {
	var group [batch]rawOperation
	for i := range group {
		group[i] = r.next(now)
	}
	for _, phase := range []struct {
		statements []statement
		move       func(*wallet)
	}{
		{r.reserve, func(w *wallet) { w.balance -= rawPrice; w.entries++ }},
		{r.settle, func(w *wallet) { w.ledger -= rawPrice; w.lines++ }},
	} {
		if err := execute(r.begin); err != nil {
			return err
		}
		for i := range group {
			op := &group[i]
			w := &r.wallets[op.operator-1]
			phase.move(w)
			for j := range phase.statements {
				if err := phase.statements[j].run(r.conn, op, w); err != nil {
					return err
				}
			}
		}
		if err := execute(r.end); err != nil {
			return err
		}
	}
	return nil
}

// next is an operation of the operators in turn, and of their subscribers.
func (r *RawSQLite) next(now time.Time) rawOperation {
	n := r.written
	r.written++
	operator, turn := n%r.operators, n/r.operators
	return rawOperation{
		id: rawID(now), operator: int64(operator + 1), key: fmt.Sprintf("raw-%d", n),
		subscriber: subscriberID(operator, turn%r.perWallet), cycle: int64(turn/r.perWallet + 2), at: now.UnixMilli(),
	}
}
