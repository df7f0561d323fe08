package transfer_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/sqlitetest"
	"github.com/coaxhq/coax/internal/store/transfer"
)

// newStore makes an empty SQLite store. PostgreSQL is in internal/e2e/cli.
func newStore(t *testing.T) transfer.Store {
	t.Helper()
	pool, err := sqlite.OpenSQL(sqlitetest.NewFile(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return transfer.Store{DB: pool}
}

func exec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// addOperators adds operators 1 to 3 and deletes the last, so that its id is never given out
// again.
func addOperators(t *testing.T, s transfer.Store) {
	t.Helper()
	for _, id := range []string{"1", "2", "3"} {
		exec(t, s.DB, `INSERT INTO operators (id, name, status, api, rate_limit, commission_bps, low_balance_paise, version, created_at)
			VALUES (`+id+`, 'Operator`+id+`', 'active', 'enabled', 60, 0, 0, 1, 1)`)
	}
	exec(t, s.DB, `DELETE FROM operators WHERE id = 3`)
}

func copyAll(from, to transfer.Store) (transfer.Copied, error) {
	return transfer.Copy(context.Background(), from, to, time.UnixMilli(1), func(transfer.Progress) {})
}

// maintenanceOf returns who has put a store into maintenance, and why.
func maintenanceOf(t *testing.T, s transfer.Store) string {
	t.Helper()
	var actor, reason string
	var since int64
	err := s.DB.QueryRow(`SELECT since, actor, reason FROM maintenance`).Scan(&since, &actor, &reason)
	if errors.Is(err, sql.ErrNoRows) {
		return "off"
	}
	if err != nil {
		t.Fatal(err)
	}
	if actor == admin.CopyActor {
		return actor
	}
	return fmt.Sprint(since, " ", actor, " ", reason)
}

// A copy that is complete and compared is in its own maintenance until it is finished, and then
// in that of its source, or in one that says what was found.
func TestCopy_FinishEndsItsMaintenance(t *testing.T) {
	for _, test := range []struct {
		name, source, want string
		finish             func(transfer.Copied) error
	}{
		{"a source out of maintenance", "", "off", func(c transfer.Copied) error { return c.Finish(t.Context()) }},
		{"a source in maintenance", "5 cli:asha drill", "5 cli:asha drill", func(c transfer.Copied) error { return c.Finish(t.Context()) }},
		{"violations", "", "7 coax store copy: audit 2 violations", func(c transfer.Copied) error {
			return c.FinishInMaintenance(t.Context(), "2 violations", time.UnixMilli(7))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			from, to := newStore(t), newStore(t)
			addOperators(t, from)
			if test.source != "" {
				exec(t, from.DB, `INSERT INTO maintenance (one, since, actor, reason) VALUES (1, 5, 'cli:asha', 'drill')`)
			}
			for range 2 { // the second goes on after the last step of the first
				copied, err := copyAll(from, to)
				if err != nil {
					t.Fatal(err)
				}
				cancelled, cancel := context.WithCancel(t.Context())
				cancel()
				if err := copied.Finish(cancelled); err == nil || maintenanceOf(t, to) != admin.CopyActor {
					t.Fatalf("finish, interrupted: %v, in maintenance by %s", err, maintenanceOf(t, to))
				}
			}
			copied, err := copyAll(from, to)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.finish(copied); err != nil || maintenanceOf(t, to) != test.want {
				t.Errorf("%v, and the target's maintenance is %q; want %q", err, maintenanceOf(t, to), test.want)
			}
			if _, err := copyAll(from, to); err == nil || !strings.Contains(err.Error(), "not empty") {
				t.Errorf("a copy into a finished one: %v", err)
			}
		})
	}
}

// countdown is a context that is cancelled when it is asked for the n-th time.
type countdown struct {
	context.Context
	left   *atomic.Int64
	cancel context.CancelFunc
}

func (c countdown) Done() <-chan struct{} {
	if c.left.Add(-1) == 0 {
		c.cancel()
	}
	return c.Context.Done()
}

// However far a copy gets before it is interrupted, the target is in its maintenance, and the
// next one goes on.
func TestCopy_InterruptedAnywhereGoesOn(t *testing.T) {
	from, to := newStore(t), newStore(t)
	addOperators(t, from)
	exec(t, from.DB, `INSERT INTO acme_secrets (id, sealed) VALUES ('certificate b', x'00ff')`)
	interruptions, begun := 0, false
	for step := int64(1); ; step += 89 {
		ctx, cancel := context.WithCancel(t.Context())
		left := new(atomic.Int64)
		left.Store(step)
		copied, err := transfer.Copy(countdown{ctx, left, cancel}, from, to, time.UnixMilli(1), func(transfer.Progress) {})
		cancel()
		if err == nil {
			if want, err := transfer.Digest(t.Context(), from); err != nil || copied.Result != want {
				t.Errorf("copied %+v; want %+v, %v", copied.Result, want, err)
			}
			break
		}
		if maintenanceOf(t, to) == admin.CopyActor {
			begun = true
			interruptions++
		} else if begun {
			t.Fatalf("interrupted at step %d (%v), it is in maintenance by %s", step, err, maintenanceOf(t, to))
		}
	}
	if interruptions < 10 {
		t.Errorf("%d interruptions of a copy that had begun; want more", interruptions)
	}
	if maintenanceOf(t, to) != admin.CopyActor {
		t.Errorf("in maintenance by %s", maintenanceOf(t, to))
	}
}

func TestCopy_KeepsHighestIDs(t *testing.T) {
	from, to := newStore(t), newStore(t)
	addOperators(t, from)
	if _, err := copyAll(from, to); err != nil {
		t.Fatal(err)
	}
	exec(t, to.DB, `INSERT INTO operators (name, status, api, rate_limit, commission_bps, low_balance_paise, version, created_at)
		VALUES ('next', 'active', 'enabled', 60, 0, 0, 1, 1)`)
	var id int64
	if err := to.DB.QueryRow(`SELECT id FROM operators WHERE name = 'next'`).Scan(&id); err != nil || id != 4 {
		t.Errorf("the next operator has the id %d, %v; want 4, because 3 was given out before", id, err)
	}
}

// A copy serves with the certificate that its source has, and does not order another one.
func TestCopy_KeepsCertificate(t *testing.T) {
	from, to := newStore(t), newStore(t)
	exec(t, from.DB, `INSERT INTO acme_secrets (id, sealed) VALUES ('certificate b', x'00ff'), ('account a', x'01')`)
	exec(t, from.DB, `INSERT INTO acme_certificates (id, version, expires_at, renew_at) VALUES ('certificate b', 3, 2000, 1000)`)
	exec(t, from.DB, `INSERT INTO acme_challenges (name, account, token, expires_at) VALUES ('api.example.com', 'account a', 'x', 2000)`)
	if _, err := copyAll(from, to); err != nil {
		t.Fatal(err)
	}
	var version, expires, secrets, challenges int
	var sealed []byte
	err := to.DB.QueryRow(`SELECT c.version, c.expires_at, s.sealed, (SELECT count(*) FROM acme_secrets), (SELECT count(*) FROM acme_challenges)
		FROM acme_certificates c JOIN acme_secrets s ON s.id = c.id`).Scan(&version, &expires, &sealed, &secrets, &challenges)
	if err != nil || version != 3 || expires != 2000 || string(sealed) != "\x00\xff" || secrets != 2 || challenges != 0 {
		t.Errorf("the copy has version %d until %d, %x, of %d secrets, and %d challenges (%v)", version, expires, sealed, secrets, challenges, err)
	}
}

func TestDigest_DiffersByEveryKindOfChange(t *testing.T) {
	s := newStore(t)
	addOperators(t, s)
	read := func() transfer.Result {
		t.Helper()
		got, err := transfer.Digest(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := read()
	if again := read(); again != before {
		t.Errorf("read twice: %+v and %+v", before, again)
	}
	for _, change := range []string{
		`UPDATE operators SET name = 'Operator1 ' WHERE id = 1`,
		`UPDATE operators SET commission_bps = 1 WHERE id = 2`,
		`UPDATE operators SET deleted_at = 0 WHERE id = 2`,
		`DELETE FROM operators WHERE id = 1`,
	} {
		exec(t, s.DB, change)
		after := read()
		if after.Digest == before.Digest {
			t.Errorf("%s: the digest is the same", change)
		}
		before = after
	}
}

func TestCopy_Refuses(t *testing.T) {
	const differs = "the copy differs from its source, in operators: it has 2 rows, the source 2"
	tests := []struct {
		name    string
		prepare func(t *testing.T, from, to transfer.Store)
		want    string
	}{
		{"a target with rows", func(t *testing.T, _, to transfer.Store) { addOperators(t, to) }, "the target is not empty: there are rows in operators. Name an empty database"},
		{"a target in maintenance", func(t *testing.T, _, to transfer.Store) {
			exec(t, to.DB, `INSERT INTO maintenance (one, since, actor, reason) VALUES (1, 1, 'x', 'y')`)
		}, "is in maintenance"},
		{"a table that it does not know", func(t *testing.T, from, _ transfer.Store) {
			exec(t, from.DB, `CREATE TABLE more (id INTEGER PRIMARY KEY)`)
		}, "a table more, which this release cannot copy"},
		{"other columns", func(t *testing.T, from, _ transfer.Store) {
			exec(t, from.DB, `ALTER TABLE operators ADD COLUMN more TEXT`)
		}, "it has other columns"},
		{"a source that is an unfinished copy", func(t *testing.T, from, _ transfer.Store) {
			exec(t, from.DB, `INSERT INTO maintenance (one, since, actor, reason) VALUES (1, 0, 'coax store copy', 'x')`)
		}, "the source: the store is a copy that is not complete"},
		{"rows that were changed on one side", func(t *testing.T, from, to transfer.Store) {
			addOperators(t, from)
			if _, err := copyAll(from, to); err != nil {
				t.Fatal(err)
			}
			exec(t, to.DB, `UPDATE operators SET name = 'another' WHERE id = 1`)
		}, differs},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			from, to := newStore(t), newStore(t)
			test.prepare(t, from, to)
			if _, err := copyAll(from, to); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
			if test.want == differs && maintenanceOf(t, to) != admin.CopyActor {
				t.Errorf("afterwards the target is in maintenance by %s", maintenanceOf(t, to))
			}
		})
	}
}

func TestCopy_IsAStoreOfItsOwn(t *testing.T) {
	from, to := newStore(t), newStore(t)
	addOperators(t, from)
	exec(t, from.DB, `UPDATE store_mark SET value = 12, marked_at = 5, state = 'marked'`)
	exec(t, from.DB, `INSERT INTO store_restores (found_at, how) VALUES (1, 'x')`)
	before := markOf(t, to)
	if _, err := copyAll(from, to); err != nil {
		t.Fatal(err)
	}
	source, copied := markOf(t, from), markOf(t, to)
	want := mark{id: copied.id, previous: source.id, value: 12, state: "copied", at: 5}
	if copied != want || copied.id == source.id || copied.id == before.id || len(copied.id) != 32 {
		t.Errorf("the mark of %+v was copied as %+v; want %+v", source, copied, want)
	}
	var restores int
	if err := to.DB.QueryRow(`SELECT count(*) FROM store_restores WHERE outcome = ''`).Scan(&restores); err != nil || restores != 1 {
		t.Errorf("the copy has %d open restores, %v; want its source's", restores, err)
	}
}

type mark struct {
	id, previous, state string
	value, at           int64
}

func markOf(t *testing.T, s transfer.Store) (m mark) {
	t.Helper()
	err := s.DB.QueryRow(`SELECT store_id, previous_id, state, value, coalesce(marked_at, 0) FROM store_mark`).Scan(&m.id, &m.previous, &m.state, &m.value, &m.at)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMarkRestored_BeginsMaintenance(t *testing.T) {
	s := newStore(t)
	at, since := time.UnixMilli(9000), time.UnixMilli(5000)
	if err := transfer.MarkRestored(context.Background(), s, "it was restored from a backup", since, at); err != nil {
		t.Fatal(err)
	}
	if err := transfer.MarkRestored(context.Background(), s, "it was restored again", time.Time{}, at); err != nil {
		t.Fatal(err)
	}
	var how, reason string
	var known, found, began int64
	var logged sql.NullInt64
	if err := s.DB.QueryRow(`SELECT how, since, found_at, logged_at FROM store_restores WHERE outcome = ''`).Scan(&how, &known, &found, &logged); err != nil {
		t.Fatal(err)
	}
	if how != "it was restored from a backup" || known != 5000 || found != 9000 || logged.Valid {
		t.Errorf("the restore is %q since %d, found at %d, logged %v", how, known, found, logged)
	}
	if err := s.DB.QueryRow(`SELECT since, reason FROM maintenance`).Scan(&began, &reason); err != nil || began != 9000 || reason == "" {
		t.Errorf("maintenance began at %d with the reason %q, %v", began, reason, err)
	}
}

// A restore into a database ends the copy's maintenance with the commit that begins its own.
func TestMarkRestored_EndsTheCopysMaintenance(t *testing.T) {
	s := newStore(t)
	exec(t, s.DB, `INSERT INTO maintenance (one, since, actor, reason) VALUES (1, 3, 'coax store copy', 'x')`)
	if err := transfer.MarkRestored(t.Context(), s, "from a backup", time.UnixMilli(5000), time.UnixMilli(9000)); err != nil {
		t.Fatal(err)
	}
	if got, want := maintenanceOf(t, s), "9000 node:store_mark the store was restored: from a backup"; got != want {
		t.Errorf("maintenance is %q; want %q", got, want)
	}
}
