package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

const (
	// maxQuestions bounds how long a caller works for the others.
	maxQuestions = 64
	// crowd is how many wait when one more connection pays, because the one is
	// waiting for the disk; sparePlaces is how many more there can be.
	crowd       = 16
	sparePlaces = 3
)

// lane answers the small questions that requests have: a few rows, found by their
// keys. Whatever the writer commits makes a connection forget all pages that it has
// in memory, and every moment to read at takes a lock and its release. So there is
// one connection for all of them, and what was asked while it was in use is answered
// at one moment.
//
// Nobody has to be woken up for a question that comes alone: whoever finds the
// connection free answers everybody who waits.
type lane struct {
	path string
	// free holds the connection while nobody uses it, spare those for a crowd; nil
	// stands for one that has not been opened yet.
	free, spare chan *connection

	mu      sync.Mutex
	waiting []*question
}

// question is what one caller wants to know.
type question struct {
	read func(querier) error
	// short: it takes a single statement, which is a moment of its own.
	short bool
	err   error
	done  chan struct{}
}

func newLane(path string) *lane {
	l := &lane{path: path, free: make(chan *connection, 1), spare: make(chan *connection, sparePlaces)}
	l.free <- nil
	for range sparePlaces {
		l.spare <- nil
	}
	return l
}

// ask has a question answered, at a moment that comes after it was asked. The
// caller's hanging up counts only until somebody has begun to answer.
func (l *lane) ask(ctx context.Context, q *question) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.done = make(chan struct{})
	l.mu.Lock()
	l.waiting = append(l.waiting, q)
	var spare chan *connection // none, unless it is crowded
	if len(l.waiting) >= crowd {
		spare = l.spare
	}
	l.mu.Unlock()
	var why error
	for why == nil {
		// Whoever gets a connection answers its own question too, unless many came
		// before it.
		select {
		case <-q.done:
			return q.err
		case c, open := <-l.free:
			if !open {
				why = errClosed
				continue
			}
			c, _ = l.answerMany(c)
			l.free <- c
		case c, open := <-spare:
			if !open {
				spare = nil
				continue
			}
			c, _ = l.answerMany(c)
			l.spare <- c
		case <-ctx.Done():
			why = ctx.Err()
		}
	}
	if l.takeBack(q) {
		return why
	}
	<-q.done
	return q.err
}

// takeBack: a question is no longer asked, if nobody has begun to answer it.
func (l *lane) takeBack(q *question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, q)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}

// take takes the questions that have waited longest.
func (l *lane) take() []*question {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := min(len(l.waiting), maxQuestions)
	taken := l.waiting[:most:most]
	l.waiting = l.waiting[most:]
	return taken
}

// answerMany answers those who have waited longest, on the connection, which it opens
// first if need be. It says whether anybody waited.
func (l *lane) answerMany(c *connection) (*connection, bool) {
	left := l.take()
	if len(left) == 0 {
		return c, false
	}
	if c == nil {
		var err error
		if c, err = connectToRead(l.path); err != nil {
			fail(left, err)
			return nil, true
		}
	}
	for len(left) > 0 {
		left = answer(c, left)
	}
	return c, true
}

// answer answers questions at one moment, and returns those behind the first that
// failed: SQLite may have ended the transaction then, and what is read after that
// would be of any moment. They need another one.
func answer(c *connection, questions []*question) (left []*question) {
	if len(questions) == 1 && questions[0].short && c.engine.AutocommitEnabled() {
		questions[0].answer(c)
		return nil
	}
	if _, err := c.exec("BEGIN"); err != nil {
		// One that could not be rolled back would be in the way for ever.
		_, _ = c.exec("ROLLBACK")
		if _, err = c.exec("BEGIN"); err != nil {
			fail(questions, fmt.Errorf("begin to read: %w", err))
			return nil
		}
	}
	defer func() { _, _ = c.exec("ROLLBACK") }()
	for i, q := range questions {
		if q.answer(c); q.err != nil {
			return questions[i+1:]
		}
	}
	return nil
}

func fail(questions []*question, err error) {
	for _, q := range questions {
		q.err = err
		close(q.done)
	}
}

// answer reads what was asked for. Whoever answers may be another than who asks, and
// is not hurt by a panic.
func (q *question) answer(from querier) {
	defer close(q.done)
	defer func() {
		if r := recover(); r != nil {
			q.err = fmt.Errorf("a question to the store panicked: %v\n%s", r, debug.Stack())
		}
	}()
	q.err = q.read(from)
}

// close answers whoever has asked before, and turns away everybody else.
func (l *lane) close() error {
	all := []*connection{<-l.free}
	for range sparePlaces {
		all = append(all, <-l.spare)
	}
	for more := true; more; {
		all[0], more = l.answerMany(all[0])
	}
	close(l.spare)
	close(l.free)
	var errs []error
	for _, c := range all {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}

// ask answers a question at one moment, together with others. It is for what takes
// next to no time; snapshot is for the rest.
func (db *DB) ask(ctx context.Context, read func(querier) error) error {
	return db.lane.ask(ctx, &question{read: read})
}

// askRow asks for a single row.
func (db *DB) askRow(ctx context.Context) asking { return asking{ctx, db.lane} }

type asking struct {
	ctx  context.Context
	lane *lane
}

func (a asking) queryRow(query string, args ...any) scanner { return askedRow{a, query, args} }

type askedRow struct {
	asking
	text string
	args []any
}

func (r askedRow) Scan(into ...any) error {
	return r.lane.ask(r.ctx, &question{short: true, read: func(from querier) error {
		return from.queryRow(r.text, r.args...).Scan(into...)
	}})
}
