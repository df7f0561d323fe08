package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// rowsHeld is a fault: another session locks the rows of one operator for a while, so
// that writes of them wait and fail after the lock timeout, with nothing written.
const rowsHeld = "rows held"

// lockTimeout is how long a store call waits for held rows in fake time. On
// PostgreSQL the store's own setting counts.
const lockTimeout = time.Second

// answerWithin is how long a request without a fault may take: two provider calls and
// some margin. Locked rows of another operator are no excuse.
const answerWithin = 15 * time.Second

// locks are the rows that other sessions have locked.
type locks struct {
	env *environment

	mu     sync.Mutex
	held   []hold
	owners map[string]int64 // operation: its operator
}

// hold is a lock on the rows of an operator.
type hold struct {
	operator   int64
	from, till time.Time
}

func newLocks(env *environment) *locks { return &locks{env: env, owners: map[string]int64{}} }

// draw starts the locks of a history, as the seed decides: how many, when, of which
// operator and for how long.
func (l *locks) draw(start func(do func())) {
	if !l.env.faults.has(rowsHeld) {
		return
	}
	c := l.env.chance
	for i := range 1 + c.below(4, rowsHeld, "times") {
		n := strconv.Itoa(i)
		start(func() {
			l.env.sleep(c.between(0, 40*time.Second, rowsHeld, "at", n))
			l.env.gates.pass("session "+n, "hold rows", nil, false)
			l.hold("session "+n, int64(1+c.below(operatorCount, rowsHeld, "whose", n)), c.between(200*time.Millisecond, 6*time.Second, rowsHeld, "for", n))
		})
	}
}

// hold locks an operator's rows.
func (l *locks) hold(session string, operator int64, length time.Duration) {
	if !l.env.faults.on.Load() {
		return
	}
	l.env.occurred("fault: " + rowsHeld)
	l.env.trace.write(fmt.Sprintf("%8.3f        %-28s holds the rows of operator %d for %s", l.env.elapsed().Seconds(), session, operator, length))
	l.mu.Lock()
	now := time.Now()
	l.held = append(l.held, hold{operator, now, now.Add(l.env.paced(length))})
	l.mu.Unlock()
	if l.env.realTime {
		l.holdOnPostgres(operator, length)
	}
}

// holdOnPostgres locks the rows on the server: the wallet, the counters and the open
// operations. It does so for up to 1.5 seconds of the machine's time, longer than the
// lock timeout of statements that operators share.
func (l *locks) holdOnPostgres(operator int64, length time.Duration) {
	l.mu.Lock()
	at := len(l.held) - 1
	l.held[at].till = time.Now().Add(time.Hour) // until it is released
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.held[at].till = time.Now()
		l.mu.Unlock()
	}()
	tx, err := l.env.observer.(*record).pgJournal.journalDB.BeginTx(context.Background(), nil)
	if err != nil {
		l.env.fail("hold rows: " + err.Error())
		return
	}
	defer func() { _ = tx.Rollback() }()
	for _, rows := range []string{
		`SELECT 1 FROM wallets WHERE operator_id = $1 FOR UPDATE`,
		`SELECT 1 FROM rate_counters WHERE operator_id = $1 FOR UPDATE`,
		`SELECT 1 FROM operations WHERE operator_id = $1 AND status IN ('processing', 'needs_review') FOR UPDATE`,
	} {
		if _, err := tx.Exec(rows, operator); err != nil {
			return // a node locked some first; of the two, this session is ended as the deadlock's victim
		}
	}
	_, _ = tx.Exec(`SELECT pg_sleep($1)`, (length / 4).Seconds())
}

// heldSince reports whether an operator's rows were locked at any moment since.
func (l *locks) heldSince(operator int64, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.held, func(h hold) bool { return h.operator == operator && h.till.After(since) })
}

// another reports whether rows of another operator are locked now.
func (l *locks) another(operator int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return slices.ContainsFunc(l.held, func(h hold) bool { return h.operator != operator && h.till.After(now) })
}

// freeAt returns when an operator's rows are unlocked.
func (l *locks) freeAt(operator int64) (at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if h.operator == operator && h.till.After(at) {
			at = h.till
		}
	}
	return at
}

// letGo releases every lock.
func (l *locks) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.env.realTime {
		l.held = nil
	}
}

func (l *locks) owns(id string, operator int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners[id] = operator
}

func (l *locks) ownerOf(id string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owners[id]
}

// onRows wraps a store call that writes rows of an operator.
func onRows[T any](s store, ctx context.Context, what string, operator int64, about string, do func() (T, error)) func() (T, error) {
	return func() (T, error) {
		who := s.task(ctx, about)
		if s.env.realTime {
			began := time.Now()
			got, err := do()
			if s.env.locks.heldSince(operator, began) {
				s.env.observer.excuse(who)
				if err != nil {
					s.env.occurred("a store call gives up on held rows")
				} else {
					s.env.occurred("a store call waits for held rows and goes on")
				}
			}
			return got, err
		}
		if err := s.waitForRows(what, operator, who); err != nil {
			var none T
			return none, err
		}
		return do()
	}
}

// waitForRows waits as for a row lock. A task that waited is excused; tasks that
// waited for the same rows continue in the seed's order.
func (s store) waitForRows(what string, operator int64, who string) error {
	deadline := time.Now().Add(lockTimeout)
	for waited := false; ; waited = true {
		now := time.Now()
		free := s.env.locks.freeAt(operator)
		if !free.After(now) {
			if waited {
				s.env.occurred("a store call waits for held rows and goes on")
			}
			return nil
		}
		if !deadline.After(now) {
			s.env.occurred("a store call gives up on held rows")
			if s.env.chance.odds(500, rowsHeld, "reported as", who, what) {
				return fmt.Errorf("%w: the lock timeout has passed: %w", operation.ErrUnavailable, errInjected)
			}
			return fmt.Errorf("the lock timeout has passed: %w", errInjected)
		}
		s.env.observer.excuse(who)
		wait := min(free.Sub(now), deadline.Sub(now))
		select {
		case <-time.After(wait):
		case <-s.process.ended:
		}
		s.env.gates.pass(who, "rows of "+strconv.FormatInt(operator, 10), s.process, false)
	}
}

// checkDelay: a request that met no fault is answered in time, whatever rows of
// another operator are locked.
func (m *model) checkDelay(f *flight) {
	if f.key == nil {
		return
	}
	if m.env.locks.another(f.key.operator) {
		m.env.occurred("an operator is answered while rows of another are held")
	}
	took := f.process.node.now().Sub(f.at)
	if took > answerWithin && !f.excused && !f.process.isDisturbed() && f.timesMoved == m.env.timesMoved() {
		m.violate("S4", f.task, "%s %s met no fault and was answered after %s", f.method, f.path, took)
	}
}
