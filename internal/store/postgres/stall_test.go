package postgres

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/operation"
)

// sizes are the batches that a store has carried out.
type sizes struct {
	mu  sync.Mutex
	all []int
}

func (s *sizes) Batch(_ string, writes int) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, writes)
	return func() {}
}

func (s *sizes) largest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Max(append(s.all, 0))
}

// stall is a store whose next batch stands still in the server, so
// that later callers share the one after it.
type stall struct {
	t     *testing.T
	db    *DB
	conn  *pgx.Conn // which holds the table
	watch *pgx.Conn
	eyes  *pgx.Conn // of hold alone
	sizes *sizes
	table string
	held  pgx.Tx
}

func newStall(t *testing.T, address string) *stall {
	t.Helper()
	s := &stall{t: t, sizes: &sizes{}, conn: raw(t, address), watch: raw(t, address), eyes: raw(t, address)}
	db, err := Open(t.Context(), unhurried(address), Options{Observe: s.sizes})
	ok(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.locks.shared = 5 * time.Minute // for as long as the test holds the table
	s.db = db
	return s
}

// hold makes a batch of one, which writes to that table, stand still.
func (s *stall) hold(table string, one func()) {
	s.t.Helper()
	var err error
	s.table = table
	s.held, err = s.conn.Begin(s.t.Context())
	ok(s.t, err)
	_, err = s.held.Exec(s.t.Context(), `LOCK TABLE `+table)
	ok(s.t, err)
	go one()
	until(s.t, "a batch stands still", func() bool {
		return count(s.t, s.eyes, `SELECT count(*) FROM pg_locks WHERE relation = $1::regclass AND NOT granted`, table) > 0
	})
}

// queue has others come behind it, all of them at the door.
func (s *stall) queue(others ...func()) *sync.WaitGroup {
	s.t.Helper()
	var group sync.WaitGroup
	for i, other := range others {
		group.Go(other)
		until(s.t, "the next one is at the door", func() bool { return s.db.Queued() == i+1 })
	}
	return &group
}

func (s *stall) release() {
	s.t.Helper()
	ok(s.t, s.held.Rollback(s.t.Context()))
}

// reserved is what came of one reservation.
type reserved struct {
	op  operation.Operation
	err error
}

// reserveBatch has drafts reserved in one batch, behind one that stands still.
func (s *stall) reserveBatch(first operation.Draft, drafts []operation.Draft) []reserved {
	s.t.Helper()
	var ahead sync.WaitGroup
	ahead.Add(1)
	s.hold("plans", func() {
		defer ahead.Done()
		if _, err := s.db.Reserve(s.t.Context(), first); err != nil {
			s.t.Errorf("the one ahead: %v", err)
		}
	})
	got := make([]reserved, len(drafts))
	others := make([]func(), len(drafts))
	for i, d := range drafts {
		others[i] = func() { got[i].op, got[i].err = s.db.Reserve(s.t.Context(), d) }
	}
	behind := s.queue(others...)
	s.release()
	ahead.Wait()
	behind.Wait()
	if s.sizes.largest() != len(drafts) {
		s.t.Fatalf("batches of %v were made; want one of %d", s.sizes.all, len(drafts))
	}
	return got
}
