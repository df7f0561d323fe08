package sqlite

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// maxQuestions bounds how long a caller works for the others.
const maxQuestions = 64

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
	// free holds the connection while nobody uses it; nil stands for one that has
	// not been opened yet.
	free chan *connection

	mu      sync.Mutex
	waiting []*question
}

// question is what one caller wants to know.
type question struct {
	read func(sqlstore.Querier) error
	// short: it takes a single statement, which is a moment of its own.
	short bool
	err   error
	done  chan struct{} // nil if its caller answers it
}

func newLane(path string) *lane {
	l := &lane{path: path, free: make(chan *connection, 1)}
	l.free <- nil
	return l
}

// ask has a question answered, at a moment that comes after it was asked. The
// caller's hanging up counts only until somebody has begun to answer.
func (l *lane) ask(ctx context.Context, q *question) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c, open := <-l.free:
		if !open {
			return errClosed
		}
		l.free <- l.answerAll(c, append([]*question{q}, l.take()...))
		return q.err
	default:
		q.done = make(chan struct{})
		return l.wait(ctx, q)
	}
}

// wait has a question answered by whoever gets the connection.
func (l *lane) wait(ctx context.Context, q *question) error {
	l.mu.Lock()
	l.waiting = append(l.waiting, q)
	l.mu.Unlock()
	var why error
	for why == nil {
		select {
		case <-q.done:
			return q.err
		case c, open := <-l.free:
			if open {
				l.free <- l.answerAll(c, l.take()) // its own too, unless many came before it
			} else {
				why = errClosed
			}
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

// answerAll answers questions on a connection, which it opens first if need be.
func (l *lane) answerAll(c *connection, questions []*question) *connection {
	if c == nil && len(questions) > 0 {
		var err error
		if c, err = connectToRead(l.path); err != nil {
			for _, q := range questions {
				q.answer(err)
			}
			return nil
		}
	}
	for len(questions) > 0 {
		questions = answer(c, questions)
	}
	return c
}

// answer answers questions at one moment, and returns those behind the first that
// failed: SQLite may have ended the transaction then, and what is read after that
// would be of any moment. They need another one.
func answer(c *connection, questions []*question) (left []*question) {
	if len(questions) == 1 && questions[0].short && c.engine.AutocommitEnabled() {
		questions[0].answer(questions[0].readSafely(c))
		return nil
	}
	if _, err := c.Exec("BEGIN"); err != nil {
		// One that could not be rolled back would be in the way for ever.
		_, _ = c.Exec("ROLLBACK")
		if _, err = c.Exec("BEGIN"); err != nil {
			for _, q := range questions {
				q.answer(fmt.Errorf("begin to read: %w", err))
			}
			return nil
		}
	}
	defer func() { _, _ = c.Exec("ROLLBACK") }()
	for i, q := range questions {
		err := q.readSafely(c)
		q.answer(err)
		if err != nil {
			return questions[i+1:]
		}
	}
	return nil
}

// readSafely reads what was asked for. Whoever does it may be another than who asks,
// and is not hurt by a panic.
func (q *question) readSafely(from sqlstore.Querier) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a question to the store panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return q.read(from)
}

// answer tells the caller that it is over.
func (q *question) answer(err error) {
	q.err = err
	if q.done != nil {
		close(q.done)
	}
}

// close answers whoever has asked before, and turns away everybody else.
func (l *lane) close() error {
	c := <-l.free
	for left := l.take(); len(left) > 0; left = l.take() {
		c = l.answerAll(c, left)
	}
	close(l.free)
	if c == nil {
		return nil
	}
	return c.close()
}

// ask answers a question at one moment, together with others. It is for what takes
// next to no time; snapshot is for the rest.
func (db *DB) ask(ctx context.Context, read func(sqlstore.Querier) error) error {
	return db.lane.ask(ctx, &question{read: read})
}

// askRow asks for a single row.
func (db *DB) askRow(ctx context.Context) asking { return asking{ctx, db.lane} }

type asking struct {
	ctx  context.Context
	lane *lane
}

func (a asking) QueryRow(query string, args ...any) sqlstore.Row { return askedRow{a, query, args} }

type askedRow struct {
	asking
	text string
	args []any
}

func (r askedRow) Scan(into ...any) error {
	return r.lane.ask(r.ctx, &question{short: true, read: func(from sqlstore.Querier) error {
		return from.QueryRow(r.text, r.args...).Scan(into...)
	}})
}
