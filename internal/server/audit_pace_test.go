package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// work simulates an audit of that many steps and returns how long it took with its
// pauses. It runs on synctest's clock.
func (p *auditPace) work(ctx context.Context, steps int, step time.Duration) time.Duration {
	began := time.Now()
	for range steps {
		time.Sleep(step)
		p.Rest(ctx)
	}
	return time.Since(began)
}

func TestAuditPace_PausesWhileStoreIsWritten(t *testing.T) {
	for factor, share := range map[time.Duration]time.Duration{auditPauseFactorSQLite: 2, auditPauseFactorPostgres: 4} {
		synctest.Test(t, func(t *testing.T) {
			writes := 0
			pace := newAuditPace(t.Context(), factor, func(context.Context) (string, error) {
				writes++
				return strconv.Itoa(writes), nil
			})
			const step = auditSlice / 4
			pace.work(t.Context(), 1000, step) // until it has seen a write
			if got, want := pace.work(t.Context(), 4000, step), share*4000*step; got != want {
				t.Errorf("%s of work took %s; want %s", 4000*step, got, want)
			}
		})
	}
}

func TestAuditPace_IdleStoreIsReadAtFullSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks := 0
		pace := newAuditPace(t.Context(), 3, func(context.Context) (string, error) {
			checks++
			return "the same", nil
		})
		const step = auditSlice / 4
		if got, want := pace.work(t.Context(), 4000, step), 4000*step; got != want {
			t.Errorf("%s of work took %s; want no pause", want, got)
		}
		if limit := int(4000*step/writeCheckEvery) + 1; checks > limit {
			t.Errorf("it checked for writes %d times; want at most %d", checks, limit)
		}
	})
}

func TestAuditPace_FullSpeedOnceStoreIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		pace := newAuditPace(t.Context(), 3, func(context.Context) (string, error) {
			return strconv.Itoa(int(min(time.Since(began), 10*time.Second))), nil
		})
		for time.Since(began) < 10*time.Second+storeQuiet+writeCheckEvery {
			pace.work(t.Context(), 1, auditSlice)
		}
		if got, want := pace.work(t.Context(), 1000, auditSlice), 1000*auditSlice; got != want {
			t.Errorf("%s of work took %s; want no pause after a quiet time", want, got)
		}
	})
}

func TestAuditPace_PausesIfPositionIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := newAuditPace(t.Context(), 3, func(context.Context) (string, error) { return "", errors.New("no more connections") })
		if got, want := pace.work(t.Context(), 1000, auditSlice), 4*1000*auditSlice; got != want {
			t.Errorf("%s of work took %s; want %s", 1000*auditSlice, got, want)
		}
	})
}

func TestAuditPace_PauseIsBoundedAndCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pace := newAuditPace(ctx, 3, func(context.Context) (string, error) { return "", errors.New("unknown") })
		if got, want := pace.work(ctx, 1, time.Second), time.Second+maxAuditPause; got != want {
			t.Errorf("a slice of a second was over after %s; want %s", got, want)
		}
		cancel()
		if got := pace.work(ctx, 1, time.Second); got != time.Second {
			t.Errorf("a cancelled audit paused for %s", got-time.Second)
		}
	})
}

// The position changes with every commit of any process, and not with an audit.
func TestLogPosition_ChangesWithCommits(t *testing.T) {
	for name, address := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "coax.db") },
		"postgres": func(t *testing.T) string { return pgtest.NewDatabase(t) },
	} {
		t.Run(name, func(t *testing.T) {
			config, err := LoadConfig(Sources{Sets: []string{"store.url=" + address(t)}})
			if err != nil {
				t.Fatal(err)
			}
			opened, err := OpenStore(t.Context(), config, StoreOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			pace, done, err := AuditPaceOn(t.Context(), config.Store)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			if want := map[string]time.Duration{"sqlite": auditPauseFactorSQLite, "postgres": auditPauseFactorPostgres}[name]; pace.pauseFactor != want {
				t.Errorf("an audit pauses %d times as long as it works; want %d", pace.pauseFactor, want)
			}
			position := func() string {
				t.Helper()
				text, err := pace.position(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			before := position()
			snapshot, end, err := OpenSnapshot(t.Context(), config.Store)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := AuditSettings(config).Run(t.Context(), snapshot, time.Now(), nil); err != nil {
				t.Fatal(err)
			}
			end()
			// PostgreSQL counts transactions that only read, too.
			if after := position(); name == "sqlite" && after != before {
				t.Errorf("an audit has changed the position from %q to %q", before, after)
			}
			if err := opened.RecordComparison(t.Context(), catalogue.Comparison{Provider: "one", At: time.Now().UTC()}); err != nil {
				t.Fatal(err)
			}
			if after := position(); after == before {
				t.Errorf("a commit has left the position at %q", before)
			}
		})
	}
}

func TestWALPosition_SameWithoutWAL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "coax.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := walPosition(path)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := walPosition(path)(t.Context()); err != nil || second != first {
		t.Errorf("%q (%v) after %q; want the same", second, err, first)
	}
}
