package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
)

// The decision at a start: which store was restored, by its mark and by the marks outside it.
func TestCompareMark_DecisionTable(t *testing.T) {
	const id, other, former = "store", "other", "former"
	marked := admin.StoreMark{StoreID: id, PreviousID: former, Value: 10, State: admin.Marked, Operators: true}
	with := func(change func(*admin.StoreMark)) admin.StoreMark {
		m := marked
		change(&m)
		return m
	}
	fresh := with(func(m *admin.StoreMark) { m.State, m.Value, m.PreviousID = admin.NeverMarked, 0, "" })
	copied := with(func(m *admin.StoreMark) { m.State = admin.CopiedStore })
	empty := func(m admin.StoreMark) admin.StoreMark { m.Operators = false; return m }
	at := func(id string, value int64) *markFile { return &markFile{StoreID: id, Value: value} }
	const fine, restored, refused = "fine", "restored", "refused"
	for _, row := range []struct {
		name          string
		stored        admin.StoreMark
		file, replica *markFile
		open, new     bool
		sqlite        string
		postgres      string
	}{
		{name: "the file has the store's value", stored: marked, file: at(id, 10), sqlite: fine, postgres: fine},
		{name: "killed between the store and the file", stored: marked, file: at(id, 9), sqlite: fine, postgres: fine},
		{name: "behind the file", stored: marked, file: at(id, 11), sqlite: restored, postgres: restored},
		{name: "behind the file, and empty", stored: empty(marked), file: at(id, 11), sqlite: restored, postgres: restored},
		{name: "behind the file once more", stored: marked, file: at(id, 11), open: true, sqlite: restored, postgres: restored},
		{name: "no file", stored: marked, sqlite: restored, postgres: fine},
		{name: "no file, and empty", stored: empty(marked), sqlite: fine, postgres: fine},
		{name: "no file, killed after the restore was recorded", stored: marked, open: true, sqlite: fine, postgres: fine},
		{name: "another store's file", stored: marked, file: at(other, 3), sqlite: restored, postgres: refused},
		{name: "another store's file, and empty", stored: empty(marked), file: at(other, 3), sqlite: restored, postgres: fine},
		{name: "another store's file, and --new-store", stored: empty(fresh), file: at(other, 3), new: true, sqlite: fine, postgres: fine},
		{name: "another store's file, --new-store, and operators", stored: marked, file: at(other, 3), new: true, sqlite: restored, postgres: refused},
		{name: "another store's file, killed after the restore was recorded", stored: marked, file: at(other, 3), open: true, sqlite: fine, postgres: fine},
		{name: "the file of the store that it was copied from", stored: marked, file: at(former, 99), sqlite: fine, postgres: fine},
		{name: "migrated", stored: fresh, sqlite: fine, postgres: fine},
		{name: "migrated, killed after the first file", stored: fresh, file: at(id, 0), sqlite: fine, postgres: fine},
		{name: "migrated, copied before the first mark and put back", stored: fresh, file: at(id, 1), sqlite: restored, postgres: restored},
		{name: "a backup of an older release, migrated", stored: fresh, file: at(other, 7), sqlite: restored, postgres: restored},
		{name: "copied, any file", stored: copied, file: at(other, 99), sqlite: fine, postgres: fine},
		{name: "copied, no file", stored: copied, sqlite: fine, postgres: fine},
		{name: "copied, its source's file", stored: copied, file: at(former, 10), sqlite: fine, postgres: fine},
		{name: "copied from a source that was behind", stored: copied, file: at(former, 11), sqlite: restored, postgres: restored},
		{name: "copied, killed after the first file", stored: copied, file: at(id, 10), sqlite: fine, postgres: fine},
		{name: "a copy's backup from before its first mark", stored: copied, file: at(id, 11), sqlite: restored, postgres: restored},
		{name: "the machine was put back, and the replica knows more", stored: marked, file: at(id, 10), replica: at(id, 11), sqlite: restored, postgres: restored},
		{name: "the replica is behind", stored: marked, file: at(id, 10), replica: at(id, 4), sqlite: fine, postgres: fine},
		{name: "the replica of another store", stored: marked, file: at(id, 10), replica: at(other, 99), sqlite: fine, postgres: fine},
		{name: "no file, and a replica that is not ahead", stored: marked, replica: at(id, 10), sqlite: restored, postgres: fine},
	} {
		for kind, want := range map[string]string{"sqlite": row.sqlite, "postgres": row.postgres} {
			t.Run(row.name+" on "+kind, func(t *testing.T) {
				found, err := compareMark(StoreConfig{Kind: kind, MarkFile: "store.mark", New: row.new}, row.stored, row.file, row.replica, row.open)
				got := fine
				switch {
				case err != nil:
					got = refused
				case found.how != "":
					got = restored
				}
				if got != want {
					t.Errorf("it is %s (%q, %v); want %s", got, found.how, err, want)
				}
				for _, mark := range []*markFile{row.file, row.replica} {
					if got == restored && mark != nil && mark.StoreID == id && found.above < mark.Value && mark.Value > row.stored.Value {
						t.Errorf("the mark is moved above %d, and one has %d", found.above, mark.Value)
					}
				}
			})
		}
	}
}

// markEnv is a SQLite store with a mark file, in a folder of its own.
type markEnv struct {
	*testing.T
	config StoreConfig
	now    time.Time
}

func newMarkEnv(t *testing.T) *markEnv {
	folder := t.TempDir()
	return &markEnv{T: t, now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC), config: StoreConfig{
		Kind: "sqlite", Path: filepath.Join(folder, "data", "coax.db"), MarkFile: filepath.Join(folder, "store.mark"),
	}}
}

func (e *markEnv) clock() time.Time { return e.now }

func (e *markEnv) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *markEnv) open() Store {
	e.Helper()
	store, err := OpenStore(e.Context(), Config{Store: e.config}, StoreOptions{})
	e.ok(err)
	e.Cleanup(func() { store.Close() })
	return store
}

// start opens the store's mark as a starting node does.
func (e *markEnv) start(store Store) (*marker, error) {
	return openMark(e.Context(), store, e.config, nil, slog.New(slog.DiscardHandler), e.clock)
}

func (e *markEnv) started(store Store) *marker {
	e.Helper()
	m, err := e.start(store)
	e.ok(err)
	return m
}

func (e *markEnv) operator(store Store, name string) {
	e.Helper()
	_, err := admin.NewService(store, nil, "test", e.clock).CreateOperator(e.Context(), name, admin.OperatorChange{})
	e.ok(err)
}

// restored reports whether the store is restored; maintenance has to agree.
func (e *markEnv) restored(store Store) bool {
	e.Helper()
	restore, err := store.OpenRestore(e.Context())
	e.ok(err)
	mode, err := store.Maintenance(e.Context())
	e.ok(err)
	if restore.Open != mode.On {
		e.Errorf("the restore is %+v and maintenance %+v", restore, mode)
	}
	return restore.Open
}

func (e *markEnv) file() markFile {
	e.Helper()
	file, err := readMarkFile(e.config.MarkFile)
	e.ok(err)
	if file == nil {
		e.Fatal("there is no mark file")
	}
	return *file
}

// backup copies the store, which is closed, and returns a function that puts the copy back.
func (e *markEnv) backup() (restore func()) {
	e.Helper()
	folder, copied := filepath.Dir(e.config.Path), filepath.Join(e.TempDir(), "data")
	e.ok(os.CopyFS(copied, os.DirFS(folder)))
	return func() {
		e.Helper()
		e.ok(os.RemoveAll(folder))
		e.ok(os.CopyFS(folder, os.DirFS(copied)))
	}
}

func TestMarker_MarksWhatWasWritten(t *testing.T) {
	e := newMarkEnv(t)
	store := e.open()
	m := e.started(store)
	first := e.file()
	if info, err := os.Stat(e.config.MarkFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want it for its owner alone", info, err)
	}
	m.mark(t.Context())
	m.mark(t.Context())
	idle := e.file()
	if idle.Value > first.Value+1 {
		t.Errorf("the mark went from %d to %d while nothing was written", first.Value, idle.Value)
	}
	e.operator(store, "Asha Cable")
	m.mark(t.Context())
	stored, err := store.StoreMark(t.Context())
	e.ok(err)
	if file := e.file(); file.Value <= idle.Value || file.Value != stored.Value || file.StoreID != stored.StoreID {
		t.Errorf("after a write the file has %+v and the store %+v; before it was %d", file, stored, idle.Value)
	}
	if e.restored(store) {
		t.Error("a new store is taken for a restored one")
	}
}

// A command writes beside the node, in a process of its own.
func TestMarker_MarksWhatACommandWrote(t *testing.T) {
	e := newMarkEnv(t)
	store := e.open()
	m := e.started(store)
	m.mark(t.Context())
	before := e.file().Value
	tool, err := OpenStore(t.Context(), Config{Store: e.config}, StoreOptions{Tool: true})
	e.ok(err)
	e.operator(tool, "Asha Cable")
	e.ok(tool.Close())
	m.mark(t.Context())
	if after := e.file().Value; after <= before {
		t.Errorf("the mark stays %d", after)
	}
}

func TestMarker_NoticesARestoredStore(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(e *markEnv)
	}{
		{"behind its file", func(*markEnv) {}},
		{"without its file", func(e *markEnv) { e.ok(os.Remove(e.config.MarkFile)) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := newMarkEnv(t)
			store := e.open()
			e.operator(store, "Asha Cable")
			e.started(store)
			e.ok(store.Close())
			putBack := e.backup()
			backedUp := e.now

			e.now = e.now.Add(time.Hour)
			store = e.open()
			m := e.started(store)
			e.operator(store, "Binu Cable")
			m.mark(t.Context())
			e.ok(store.Close())
			before := e.file().Value
			putBack()
			row.change(e)

			e.now = e.now.Add(time.Hour)
			store = e.open()
			e.started(store)
			if !e.restored(store) {
				t.Fatal("it is not noticed")
			}
			restore, err := store.OpenRestore(t.Context())
			e.ok(err)
			if want := backedUp.Add(-admin.RestoreMargin); !restore.Since.Equal(want) || !restore.FoundAt.Equal(e.now) {
				t.Errorf("the restore is %+v; want it from %s on", restore, want)
			}
			if file := e.file(); file.Value <= before {
				t.Errorf("the mark is %d, and was %d before", file.Value, before)
			}
			if err := admin.NewService(store, nil, "test", e.clock).EndMaintenance(t.Context(), false, ""); !errors.Is(err, admin.ErrRestored) {
				t.Errorf("maintenance ends: %v", err)
			}
			e.ok(admin.NewService(store, nil, "test", e.clock).EndMaintenance(t.Context(), true, "compared"))
			e.ok(store.Close())
			store = e.open()
			e.started(store)
			if e.restored(store) {
				t.Error("it is taken for restored again after it was accepted")
			}
		})
	}
}

// brokenStore fails at a step: before or after one of the calls that the mark is kept with.
type brokenStore struct {
	Store
	left atomic.Int64
}

var errKilled = errors.New("killed")

func (s *brokenStore) step(run func() error) error {
	if s.left.Add(-1) < 0 {
		return errKilled
	}
	if err := run(); err != nil {
		return err
	}
	if s.left.Add(-1) < 0 {
		return errKilled
	}
	return nil
}

func (s *brokenStore) AdvanceMark(ctx context.Context, a admin.MarkAdvance) (value int64, err error) {
	err = s.step(func() error { value, err = s.Store.AdvanceMark(ctx, a); return err })
	return value, err
}

func (s *brokenStore) RecordRestore(ctx context.Context, action admin.StaffAction, r admin.Restore, above int64) (mode admin.Maintenance, err error) {
	err = s.step(func() error { mode, err = s.Store.RecordRestore(ctx, action, r, above); return err })
	return mode, err
}

// A node is killed at any step of its start: the file and the store's commits come one after
// the other. The next start finds a restored store restored, and no other.
func TestMarker_KilledAtAnyStep(t *testing.T) {
	t.Parallel()
	for _, scenario := range []struct {
		name     string
		prepare  func(e *markEnv)
		restored bool
	}{
		{"a new store", func(*markEnv) {}, false},
		{"a store with operators that no node has marked", func(e *markEnv) {
			store := e.open()
			e.operator(store, "Asha Cable")
			e.ok(store.Close())
		}, false},
		{"a marked store", func(e *markEnv) {
			store := e.open()
			e.operator(store, "Asha Cable")
			e.started(store)
			e.ok(store.Close())
		}, false},
		{"a store that was put back", func(e *markEnv) {
			store := e.open()
			e.operator(store, "Asha Cable")
			e.started(store)
			e.ok(store.Close())
			putBack := e.backup()
			store = e.open()
			e.started(store)
			e.ok(store.Close())
			putBack()
		}, true},
		{"a store without its file", func(e *markEnv) {
			store := e.open()
			e.operator(store, "Asha Cable")
			e.started(store)
			e.ok(store.Close())
			e.ok(os.Remove(e.config.MarkFile))
		}, true},
		{"a backup of an older release", func(e *markEnv) {
			store := e.open()
			e.operator(store, "Asha Cable")
			e.ok(store.Close())
			_, err := writeMarkFile(e.config.MarkFile, markFile{StoreID: strings.Repeat("f", 32), Value: 7, MarkedAt: e.now})
			e.ok(err)
		}, true},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			prepared := newMarkEnv(t)
			scenario.prepare(prepared)
			for steps, done := int64(0), false; !done; steps++ {
				if steps > 20 {
					t.Fatal("a start takes more than twenty steps")
				}
				e := newMarkEnv(t)
				e.ok(os.CopyFS(filepath.Dir(e.config.MarkFile), os.DirFS(filepath.Dir(prepared.config.MarkFile))))
				store := e.open()
				broken := &brokenStore{Store: store}
				broken.left.Store(steps)
				_, err := e.start(broken)
				if done = err == nil; !done && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				e.ok(store.Close())
				for n := range 2 {
					store = e.open()
					e.started(store)
					if got := e.restored(store); got != scenario.restored {
						t.Errorf("killed after %d steps and started %d times more, it is restored: %v; want %v", steps, n+1, got, scenario.restored)
					}
					e.ok(store.Close())
				}
			}
		})
	}
}

func TestMarker_RefusesToStart(t *testing.T) {
	for _, row := range []struct {
		name, want string
		prepare    func(e *markEnv)
	}{
		{"a folder that cannot be made", "store.mark_file", func(e *markEnv) {
			e.ok(os.WriteFile(filepath.Join(filepath.Dir(e.config.MarkFile), "file"), nil, 0o600))
			e.config.MarkFile = filepath.Join(filepath.Dir(e.config.MarkFile), "file", "store.mark")
		}},
		{"a folder in the file's place", "store.mark_file", func(e *markEnv) { e.ok(os.Mkdir(e.config.MarkFile, 0o700)) }},
		{"a file that is no mark", "is not a mark that a node has written", func(e *markEnv) { e.ok(os.WriteFile(e.config.MarkFile, []byte("{"), 0o600)) }},
		{"a mark without an id", "is not a mark that a node has written", func(e *markEnv) { e.ok(os.WriteFile(e.config.MarkFile, []byte("{}"), 0o600)) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := newMarkEnv(t)
			row.prepare(e)
			store := e.open()
			if _, err := e.start(store); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v; want %q", err, row.want)
			}
			if e.restored(store) {
				t.Error("it is taken for restored")
			}
		})
	}
}

func TestMarker_WarnsWhileTheFileCannotBeWritten(t *testing.T) {
	e := newMarkEnv(t)
	folder := filepath.Join(filepath.Dir(e.config.MarkFile), "marks")
	e.config.MarkFile = filepath.Join(folder, "store.mark")
	store := e.open()
	var said strings.Builder
	m, err := openMark(t.Context(), store, e.config, nil, slog.New(slog.NewTextHandler(&said, nil)), e.clock)
	e.ok(err)
	if m.age() != 0 {
		t.Errorf("the age is %s at the start", m.age())
	}
	e.ok(os.Rename(folder, folder+".away"))
	e.ok(os.WriteFile(folder, nil, 0o600))
	e.operator(store, "Asha Cable")
	m.mark(t.Context())
	m.mark(t.Context())
	if m.age() <= 0 {
		t.Error("the age stays 0 while the file cannot be written")
	}
	if n := strings.Count(said.String(), "the store's mark cannot be kept"); n != 1 {
		t.Errorf("it warned %d times within a minute:\n%s", n, said.String())
	}
	e.ok(os.Remove(folder))
	e.ok(os.Rename(folder+".away", folder))
	m.mark(t.Context())
	stored, err := store.StoreMark(t.Context())
	e.ok(err)
	if file := e.file(); m.age() != 0 || file.Value != stored.Value {
		t.Errorf("once it can be written, the age is %s, the file has %d and the store %d", m.age(), file.Value, stored.Value)
	}
}

// replicaOfMarks is a MarkReplica in memory.
type replicaOfMarks struct {
	mark chan []byte
	err  error
}

func (r *replicaOfMarks) WriteMark(_ context.Context, mark []byte) error {
	select {
	case <-r.mark:
	default:
	}
	r.mark <- mark
	return nil
}

func (r *replicaOfMarks) ReadMark(context.Context) ([]byte, error) {
	select {
	case mark := <-r.mark:
		r.mark <- mark
		return mark, r.err
	default:
		return nil, r.err
	}
}

// A machine is put back as a whole, with its mark file: only the replica knows better.
func TestMarker_NoticesARestoredMachineByItsReplica(t *testing.T) {
	e := newMarkEnv(t)
	replica := &replicaOfMarks{mark: make(chan []byte, 1)}
	start := func(store Store) *marker {
		m, err := openMark(t.Context(), store, e.config, replica, slog.New(slog.DiscardHandler), e.clock)
		e.ok(err)
		m.run()
		return m
	}
	store := e.open()
	e.operator(store, "Asha Cable")
	start(store).close()
	e.ok(store.Close())
	putBack := e.backup()
	mark, err := os.ReadFile(e.config.MarkFile)
	e.ok(err)

	store = e.open()
	m := start(store)
	e.operator(store, "Binu Cable")
	m.close()
	if e.restored(store) {
		t.Fatal("a store that was never put back is taken for restored")
	}
	e.ok(store.Close())
	putBack()
	e.ok(os.WriteFile(e.config.MarkFile, mark, 0o600))

	store = e.open()
	start(store).close()
	if !e.restored(store) {
		t.Error("the replica's mark was not compared")
	}
	replica.err = errors.New("the replica is away")
	e.ok(store.Close())
	start(e.open()).close() // starts all the same
}

// The file can be read by a person.
func TestMarkFile_ExplainsItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.mark")
	want := markFile{StoreID: "abc", Value: 3, MarkedAt: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)}
	if _, err := writeMarkFile(path, want); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	got, read := readMarkFile(path)
	want.About = aboutMark
	if err != nil || read != nil || *got != want || !strings.Contains(string(text), "out of backups") {
		t.Errorf("%s\n%v, %v: %+v; want %+v", text, err, read, got, want)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || fmt.Sprint(left) != fmt.Sprint([]string{path}) {
		t.Errorf("the folder has %q, %v", left, err)
	}
}
