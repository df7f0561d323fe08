package replica

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/replica/replicatest"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// shipped is a store file whose replica is complete.
type shipped struct {
	t       *testing.T
	file    string
	address Address
	log     *Log
	pool    *sql.DB
	clock   atomic.Int64
	rows    int
}

func newShipped(t *testing.T, text string) *shipped {
	t.Helper()
	address, err := ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	s := &shipped{t: t, file: filepath.Join(t.TempDir(), "coax.db"), address: address}
	s.clock.Store(time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC).UnixMilli())
	if s.pool, err = sql.Open("sqlite", "file:"+s.file+"?_pragma=journal_mode(wal)&_pragma=wal_autocheckpoint(0)"); err != nil {
		t.Fatal(err)
	}
	s.pool.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = s.pool.Close() })
	s.exec(`CREATE TABLE numbers (n INTEGER PRIMARY KEY, pad BLOB)`)
	if s.log, err = Open(t.Context(), address, s.options()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.log.Close() })
	if err := begin(t, s.log, s.file, s.pool)(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shipped) options() Options {
	return Options{File: s.file, Store: strings.Repeat("a", 32), Now: func() time.Time { return time.UnixMilli(s.clock.Load()) }, Getenv: environment}
}

func (s *shipped) exec(query string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(query, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shipped) add(size int) {
	s.t.Helper()
	s.exec(`INSERT INTO numbers VALUES (?, randomblob(?))`, s.rows, size)
	s.rows++
}

func (s *shipped) ship() {
	s.t.Helper()
	if err := s.log.Ship(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shipped) restore(at time.Time) (Restored, []string) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "restored.db")
	restored, err := Restore(s.t.Context(), s.address, environment, at, path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return restored, dump(s.t, path)
}

// complete checks that the replica equals the store.
func (s *shipped) complete() {
	s.t.Helper()
	restored, got := s.restore(time.Time{})
	if want := dump(s.t, s.file); !slices.Equal(got, want) || restored.Incomplete != "" {
		s.t.Errorf("the replica has %d rows, the store %d, not all the same; incomplete: %q", len(got), len(want), restored.Incomplete)
	}
}

// Another program copies the log into the store, so that SQLite starts it over.
func TestLog_LogThatStartedOverUnreadIsLost(t *testing.T) {
	s := newShipped(t, "file://"+filepath.Join(t.TempDir(), "replica"))
	s.add(10)
	s.ship()
	s.add(10) // not read
	s.exec(`PRAGMA wal_checkpoint(RESTART)`)
	s.add(10)
	if err := s.log.Ship(t.Context()); !errors.Is(err, ErrLost) || !s.log.Lost() {
		t.Fatalf("commits are missing, and the upload reports %v", err)
	}
	if err := begin(t, s.log, s.file, s.pool)(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.complete()
	s.add(10)
	if all, err := s.log.Capture(); err != nil || !all {
		t.Fatal(all, err)
	}
	s.exec(`PRAGMA wal_checkpoint(RESTART)`)
	s.add(10)
	s.ship()
	s.complete()
}

func TestSnapshot_RefusedIfLogStartsOverMeanwhile(t *testing.T) {
	s := newShipped(t, "file://"+filepath.Join(t.TempDir(), "replica"))
	s.add(10)
	copyFile := begin(t, s.log, s.file, s.pool)
	s.exec(`PRAGMA wal_checkpoint(RESTART)`)
	s.add(5000)
	if err := copyFile(t.Context()); err == nil || !strings.Contains(err.Error(), "during the copy") {
		t.Errorf("a snapshot of two moments: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(s.address.url.Path, "*", "snapshot-*")); err != nil || len(left) != 2 {
		t.Errorf("%v, %v: want the first snapshot alone", left, err)
	}
}

func TestRestore_ReportsDamage(t *testing.T) {
	s := newShipped(t, "file://"+filepath.Join(t.TempDir(), "replica"))
	for range 3 {
		s.add(3000)
		s.ship()
	}
	segments, err := filepath.Glob(filepath.Join(s.address.url.Path, "*", "log-*"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	whole, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, harm := range []struct {
		name       string
		data       []byte
		rows       int
		incomplete string
	}{
		{"an upload that was cut off", whole[:len(whole)-10], 2, ""},
		{"a changed byte in the last one", append(slices.Clone(whole[:len(whole)-10]), bytes.Repeat([]byte{1}, 10)...), 2, "is damaged after upload 2"},
		{"zeros after the last one", append(slices.Clone(whole), make([]byte, 4096)...), 3, "is damaged after upload 3"},
	} {
		if err := os.WriteFile(segments[0], harm.data, 0o600); err != nil {
			t.Fatal(err)
		}
		restored, rows := s.restore(time.Time{})
		if len(rows) != harm.rows || (harm.incomplete == "") != (restored.Incomplete == "") || !strings.Contains(restored.Incomplete, harm.incomplete) {
			t.Errorf("%s: %d rows, %q", harm.name, len(rows), restored.Incomplete)
		}
	}
}

// A failed upload left a record in one segment, and nothing in the next.
func TestRestore_EmptySegmentHidesNothing(t *testing.T) {
	s := newShipped(t, "file://"+filepath.Join(t.TempDir(), "replica"))
	s.add(10)
	s.ship()
	segments, err := filepath.Glob(filepath.Join(s.address.url.Path, "*", "log-*"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	folder := filepath.Dir(segments[0])
	// The snapshot has upload 0; upload 1 is in the first segment, whose successor is torn.
	if err := errors.Join(os.Rename(segments[0], filepath.Join(folder, "log-0000000000000000")),
		os.WriteFile(filepath.Join(folder, "log-0000000000000001"), []byte("CXL1"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	if s.log, err = Open(t.Context(), s.address, s.options()); err != nil {
		t.Fatal(err)
	}
	if resumed, err := s.log.Resume(t.Context()); err != nil || !resumed {
		t.Fatal(resumed, err)
	}
	s.add(10)
	s.ship()
	s.complete()
}

func TestLog_PurgeKeepsEveryMomentOfThreeDays(t *testing.T) {
	s := newShipped(t, "file://"+filepath.Join(t.TempDir(), "replica"))
	file, err := os.Open(s.file)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	begun := time.UnixMilli(s.clock.Load())
	const days = 8
	for range days { // a row each six hours, a snapshot each day
		for range 4 {
			s.clock.Add(6 * time.Hour.Milliseconds())
			s.add(2000)
			s.ship()
			s.log.segment = "" // as after a failure
		}
		s.clock.Add(1)
		if !s.log.RenewDue() {
			t.Fatal("no snapshot is due after a day")
		}
		copyFile, err := s.log.Renew(file, false)
		if err != nil {
			t.Fatal(err)
		}
		s.add(10) // commits go on meanwhile
		s.exec(`DELETE FROM numbers WHERE n = ?`, s.rows-1)
		s.rows--
		if err := copyFile(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.ship()
	}
	s.complete()
	now := time.UnixMilli(s.clock.Load())
	for back := time.Minute; back < Keep; back += 6 * time.Hour {
		at := now.Add(-back)
		want := int(at.Sub(begun) / (6 * time.Hour))
		if _, rows := s.restore(at); len(rows) != want {
			t.Errorf("%s ago: %d rows; want %d", back, len(rows), want)
		}
	}
	snapshots, err := filepath.Glob(filepath.Join(s.address.url.Path, "*", "snapshot-*.json"))
	if err != nil || len(snapshots) > 5 {
		t.Errorf("%d snapshots are kept, %v", len(snapshots), err)
	}
	segments, err := filepath.Glob(filepath.Join(s.address.url.Path, "*", "log-*"))
	if err != nil || len(segments) > 5*5+2 {
		t.Errorf("%d segments are kept, %v", len(segments), err)
	}
}

func TestLog_RecoversFromS3Failures(t *testing.T) {
	fake := gofakes3.New(s3mem.New()).Server()
	var fails atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fails.Load() > 0 && r.Method == http.MethodPut {
			switch fails.Add(-1) % 3 {
			case 0: // stored, and the answer is lost
				fake.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			case 1:
				http.Error(w, `<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`, http.StatusServiceUnavailable)
			case 2:
				_, _ = io.CopyN(io.Discard, r.Body, 10)
				panic(http.ErrAbortHandler)
			}
			return
		}
		fake.ServeHTTP(w, r)
	}))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/coax", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	s := newShipped(t, "s3://key:hunter2@coax/store?endpoint="+url.QueryEscape(server.URL))
	s.recover(func() { fails.Store(3) }, func(int) bool { return fails.Load() == 0 })
}

// recover breaks the target, uploads until it works, and checks that nothing is missing.
func (s *shipped) recover(harm func(), mend func(failures int) (mended bool)) {
	s.t.Helper()
	for range 3 {
		s.add(30_000)
		s.ship()
		harm()
		failed := 0
		for deadline := time.Now().Add(30 * time.Second); ; {
			s.add(100)
			err := s.log.Ship(s.t.Context())
			if err == nil && mend(failed) {
				break
			}
			if err != nil {
				failed++
				mend(failed)
				if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "pass word") {
					s.t.Errorf("the error has the password: %v", err)
				}
			}
			if time.Now().After(deadline) {
				s.t.Fatalf("it did not recover: %v", err)
			}
		}
		if failed == 0 {
			s.t.Error("no upload failed")
		}
		s.complete()
	}
}

// cutter passes connections on to a server, until it cuts them off.
type cutter struct {
	to   string
	down atomic.Bool

	mu   sync.Mutex
	open []net.Conn
}

func (c *cutter) serve(listener net.Listener) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil || c.down.Load() {
			_ = in.Close()
			continue
		}
		c.mu.Lock()
		c.open = append(c.open, in, out)
		c.mu.Unlock()
		go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
	}
}

func (c *cutter) cut() {
	c.down.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
}

func TestLog_RecoversFromSFTPFailures(t *testing.T) {
	folder := t.TempDir()
	host, key := replicatest.SFTP(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := &cutter{to: host}
	go c.serve(listener)
	s := newShipped(t, "sftp://coax:pass%20word@"+listener.Addr().String()+filepath.Join(folder, "replica")+"?host_key="+url.QueryEscape(key))
	s.recover(c.cut, func(failures int) bool {
		if failures > 2 {
			c.down.Store(false)
		}
		return !c.down.Load()
	})
}
