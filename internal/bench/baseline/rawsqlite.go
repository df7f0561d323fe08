package baseline

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/coaxhq/coax/internal/store/sqlite"
)

// batch is how many operations share a commit.
const batch = 64

// RawSQLite writes the rows of renewals into a file with our schema, by prepared
// statements alone: no request, no decision, no guard and no answer; 64 operations
// a FULL commit, and two commits for each, as a renewal has them. It is what is
// left of a renewal if everything but its rows is taken away.
type RawSQLite struct {
	pool       *sql.DB
	conn       *sql.Conn
	reserve    []statement
	settle     []statement
	begin, end driver.Stmt
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
	// What the service sets for its own connections holds here too: where it
	// changes something that costs or saves, this has to follow.
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	r := &RawSQLite{operators: operators, perWallet: subscribers / operators}
	r.pool, err = sql.Open("sqlite", "file:"+escaped+"?mode=rw&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)")
	if err != nil {
		return nil, err
	}
	r.pool.SetMaxOpenConns(1)
	if r.conn, err = r.pool.Conn(ctx); err == nil {
		err = r.furnish(ctx)
	}
	if err == nil {
		// Beneath database/sql, whose care for many callers costs as much as
		// some of the statements.
		err = r.conn.Raw(func(under any) error { return r.prepare(ctx, under.(driver.ConnPrepareContext)) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the raw store: %w", err), r.Close())
	}
	return r, nil
}

// Close lets go of the file.
func (r *RawSQLite) Close() error {
	var errs []error
	if r.conn != nil {
		_ = r.conn.Raw(func(any) error {
			for _, s := range append(append([]statement{}, r.reserve...), r.settle...) {
				errs = append(errs, s.Stmt.Close())
			}
			for _, s := range []driver.Stmt{r.begin, r.end} {
				if s != nil {
					errs = append(errs, s.Close())
				}
			}
			return nil
		})
		errs = append(errs, r.conn.Close())
	}
	return errors.Join(append(errs, r.pool.Close())...)
}

// Run writes operations for so long, and returns how many and in what time.
func (r *RawSQLite) Run(ctx context.Context, duration time.Duration) (operations int, elapsed time.Duration, err error) {
	err = r.conn.Raw(func(any) error {
		began := time.Now()
		for elapsed = 0; elapsed < duration && ctx.Err() == nil; elapsed = time.Since(began) {
			if err := r.group(time.Now()); err != nil {
				return err
			}
			operations += batch
		}
		return ctx.Err()
	})
	return operations, elapsed, err
}

// Operations is how many it has written in all.
func (r *RawSQLite) Operations() int { return r.written }

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
		if _, err := r.begin.(driver.StmtExecContext).ExecContext(context.Background(), nil); err != nil {
			return err
		}
		for i := range group {
			op := &group[i]
			w := &r.wallets[op.operator-1]
			phase.move(w)
			for j := range phase.statements {
				if err := phase.statements[j].run(op, w); err != nil {
					return err
				}
			}
		}
		if _, err := r.end.(driver.StmtExecContext).ExecContext(context.Background(), nil); err != nil {
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
