//go:build long

package growth

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFilled_UsesTheCache(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	if _, found := Find(cache, SQLite, 1_000); found {
		t.Fatal("a store was found where there is none")
	}
	told := 0
	first, err := Filled(t.Context(), cache, SQLite, 1_000, func(Progress) { told++ })
	if err != nil || first.Reused || told == 0 {
		t.Fatalf("%+v, %v, told %d times; want a fresh store, and to be told", first.Size, err, told)
	}
	if first.Bytes < 100_000 || first.Took <= 0 {
		t.Errorf("it has %d bytes, and took %s", first.Bytes, first.Took)
	}
	second, err := Filled(t.Context(), cache, SQLite, 1_000, func(Progress) { t.Error("it was filled again") })
	if err != nil || !second.Reused || second.Size != first.Size || second.Path() != first.Path() || len(second.Accounts) != first.Operators {
		t.Errorf("%+v, %v; want the same store again", second.Size, err)
	}
	if info, err := os.Stat(second.MasterKeyFile()); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the master key is %v, %v; want it there, for its owner alone", info, err)
	}
	if found, is := Find(cache, SQLite, 10_000_000); !is || found.Folder != first.Folder {
		t.Errorf("%v, %s; want the one that is there", is, found.Folder)
	}
	if _, is := Find(cache, SQLite, 100); is {
		t.Error("a store was found that is larger than was asked for")
	}
	if _, is := Find(cache, Postgres, 10_000_000); is {
		t.Error("a store of the other kind was found")
	}
}

func TestFilled_RefillsPartialStore(t *testing.T) {
	cache := t.TempDir()
	folder, err := folderOf(cache, SQLite, 1_000)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Filled(ctx, cache, SQLite, 1_000, func(p Progress) {
		if p.Step == "ledger" {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want it to stop when it is told to", err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v; want no store of that name", err)
	}
	// One whose process was killed is still there.
	if err := os.MkdirAll(folder+".partial/data", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Filled(t.Context(), cache, SQLite, 1_000, nil); err != nil {
		t.Fatal(err)
	}
}

func TestFingerprint_DiffersBySchema(t *testing.T) {
	ours, err := fingerprintOf(SQLite)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := fingerprintOf(Postgres)
	if err != nil {
		t.Fatal(err)
	}
	if ours == theirs || len(ours) != 12 {
		t.Errorf("%s and %s; want two schemas to differ", ours, theirs)
	}
}

func TestFilled_RequiresDiskSpace(t *testing.T) {
	disk := func(bytes int64) func(string) (int64, error) {
		return func(string) (int64, error) { return bytes, nil }
	}
	if err := checkSpace("/somewhere", SQLite, 10_000_000, disk(200<<30)); err != nil {
		t.Error(err)
	}
	err := checkSpace("/somewhere", Postgres, 10_000_000, disk(10<<30))
	if err == nil || !strings.Contains(err.Error(), "10.0 GB") || !strings.Contains(err.Error(), "/somewhere") {
		t.Errorf("%v; want an error with the free space and the folder", err)
	}
}

func TestProgress_RemainingTime(t *testing.T) {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	var told []Progress
	teller := newTeller(1_000, func(p Progress) { told = append(told, p) })
	teller.clock, teller.began = func() time.Time { return now }, now
	last := func() Progress { return told[len(told)-1] }
	teller.begin("operations")
	if got := last(); got.Left != 0 || got.Step != "operations" {
		t.Errorf("%+v; want no guess at the beginning", got)
	}
	now = now.Add(10 * time.Second)
	teller.add(250)
	if got := last(); got.Left != 30*time.Second || got.Elapsed != 10*time.Second || got.Done != 250 {
		t.Errorf("%+v; want 30s left of a quarter done in 10s", got)
	}
	count := len(told)
	teller.add(1)
	if len(told) != count {
		t.Error("it was told again at once")
	}
	now = now.Add(time.Second)
	teller.add(2_000)
	if got := last(); got.Left != 0 || got.Total < got.Done {
		t.Errorf("%+v; want nothing left where more was done than expected", got)
	}
}
