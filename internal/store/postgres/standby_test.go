package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// pair is a primary that waits for its standby, with a table to write to, and a
// store on the way to it.
type pair struct {
	*DB
	t                testing.TB
	primary, standby *pgtest.Server
	proxy            *pgtest.Proxy
}

func newPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{t: t, primary: pgtest.Start(t)}
	p.primary.Exec(t, "postgres", `CREATE DATABASE coax`)
	p.primary.Exec(t, "coax", `CREATE TABLE notes (what text PRIMARY KEY)`)
	// Somebody means well.
	p.primary.Exec(t, "coax", `ALTER DATABASE coax SET statement_timeout = '3s'`)
	p.standby = p.primary.Standby(t)
	p.proxy = pgtest.NewProxy(t, p.primary)
	db, err := Open(t.Context(), p.proxy.URL("coax"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.DB = db
	t.Cleanup(func() { _ = db.Close() })
	return p
}

// ways are the two ways in which a write is written.
var ways = map[string]func(*DB, context.Context, string) error{
	"statement by statement": func(db *DB, ctx context.Context, what string) error {
		return db.do(ctx, func(tx *tx) error {
			_, err := tx.Exec(`INSERT INTO notes VALUES ($1)`, what)
			return err
		})
	},
	"pipelined": func(db *DB, ctx context.Context, what string) error {
		return db.pipelined(ctx, time.Second, func(p *pipe) error {
			batch := &pgx.Batch{}
			batch.Queue(`INSERT INTO notes VALUES ($1)`, what)
			return p.commit(batch)
		})
	},
}

// visible reports whether others can see a note on a server.
func (p *pair) visible(server *pgtest.Server, what string) (seen bool) {
	p.t.Helper()
	conn, err := pgx.Connect(context.Background(), server.URL("coax"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(context.Background(), `SELECT EXISTS (SELECT 1 FROM notes WHERE what = $1)`, what).Scan(&seen); err != nil {
		p.t.Fatal(err)
	}
	return seen
}

// waits returns when a COMMIT has waited for the standby for so long, such as
// "1 second".
func (p *pair) waits(long string) {
	p.t.Helper()
	p.primary.Until(p.t, "a COMMIT has waited for "+long,
		`SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND state_change < clock_timestamp() - interval '`+long+`'`)
}

// A COMMIT waits for the standby for as long as it takes. The caller cancels, all
// of the node's own timeouts pass, and still no client sees what the standby does not
// have; then the standby goes on, and the write is committed.
func TestCommit_WaitsForStandby(t *testing.T) {
	t.Parallel()
	for name, write := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			if err := write(p.DB, t.Context(), "before"); err != nil {
				t.Fatal(err)
			}
			p.standby.Freeze()
			ctx, hangUp := context.WithCancel(t.Context())
			written := make(chan error, 1)
			go func() { written <- write(p.DB, ctx, "meanwhile") }()
			p.waits("0 seconds")
			hangUp()
			p.waits((statementTimeout + connectTimeout).String())
			if p.visible(p.primary, "meanwhile") {
				t.Error("others see what the standby does not have")
			}
			select {
			case err := <-written:
				t.Errorf("the write returned while the standby did not have it: %v", err)
				written <- err
			default:
			}
			p.standby.Thaw()
			if err := <-written; err != nil {
				t.Errorf("when the standby went on: %v", err)
			}
			if !p.visible(p.primary, "meanwhile") {
				t.Error("the write is not committed")
			}
		})
	}
}

// The connection breaks while the COMMIT waits. The node does not know what came
// of it, and above all does not call the server to give it up.
func TestCommit_BrokenConnectionIsNotCancelled(t *testing.T) {
	t.Parallel()
	for name, write := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.standby.Freeze()
			written := make(chan error, 1)
			go func() { written <- write(p.DB, t.Context(), "meanwhile") }()
			p.waits("0 seconds")
			p.proxy.CutAll()
			if err := <-written; !errors.Is(err, operation.ErrCommitUnknown) {
				t.Errorf("the COMMIT has come to %v; want it to be unknown", err)
			}
			p.waits("2 seconds")
			if p.visible(p.primary, "meanwhile") {
				t.Error("others see what the standby does not have")
			}
			p.standby.Thaw()
			p.primary.Until(t, "no commit waits", `SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
			if !p.visible(p.primary, "meanwhile") {
				t.Error("the write is not committed, though the server had it")
			}
		})
	}
}

// Somebody at the server ends the wait by hand. The server says that it has
// carried the COMMIT out, and warns that the standby may not have it: that is not
// enough to build on.
func TestCommit_CancelledWaitIsAmbiguous(t *testing.T) {
	t.Parallel()
	for name, write := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.standby.Freeze()
			written := make(chan error, 1)
			go func() { written <- write(p.DB, t.Context(), "meanwhile") }()
			p.waits("0 seconds")
			p.primary.Exec(t, "postgres", `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
			if err := <-written; !errors.Is(err, operation.ErrCommitUnknown) {
				t.Errorf("the COMMIT has come to %v; want it to be unknown", err)
			}
			p.standby.Thaw()
			if err := write(p.DB, t.Context(), "afterwards"); err != nil {
				t.Errorf("the next one: %v", err)
			}
		})
	}
}

// A server that is stopped under a pool of connections loses no write that
// had not been committed, once another one is there.
func TestPrimary_LostConnectionsAreDropped(t *testing.T) {
	t.Parallel()
	for name, write := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := pgtest.Start(t)
			primary.Exec(t, "postgres", `CREATE DATABASE coax`)
			primary.Exec(t, "coax", `CREATE TABLE notes (what text PRIMARY KEY)`)
			standby := primary.Standby(t)
			db, err := Open(t.Context(), pgtest.Cluster("coax", primary, standby), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			// As many connections as there may be, all of them just used.
			var all []*pgxpool.Conn
			for range poolSize {
				conn, err := db.pool.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, conn)
			}
			for _, conn := range all {
				conn.Release()
			}
			primary.Kill()
			if err := write(db, t.Context(), "without a primary"); !errors.Is(err, operation.ErrUnavailable) {
				t.Errorf("without a primary: %v; want it to be unavailable", err)
			}
			standby.Promote(t)
			for _, what := range []string{"one", "two", "three"} {
				if err := write(db, t.Context(), what); err != nil {
					t.Errorf("after the promotion: %v", err)
				}
			}
		})
	}
}

func TestCheckAddress_NoCommitDeadline(t *testing.T) {
	t.Parallel()
	for _, parameter := range []string{"statement_timeout=30s", "sslmode=disable&transaction_timeout=1000"} {
		if err := CheckAddress("postgres://coax@127.0.0.1/coax?" + parameter); err == nil || !strings.Contains(err.Error(), "which would end a COMMIT") {
			t.Errorf("%s: %v; want it refused for what it does to a COMMIT", parameter, err)
		}
	}
}
