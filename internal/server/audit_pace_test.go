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

// work is an audit of so long, in steps, and says how long it took with its rests.
// The clock is the test's.
func (p *auditPace) work(ctx context.Context, steps int, step time.Duration) time.Duration {
	began := time.Now()
	for range steps {
		time.Sleep(step)
		p.Rest(ctx)
	}
	return time.Since(began)
}

func TestAnAuditTakesItsPartOfTheTimeWhileTheStoreIsInUse(t *testing.T) {
	for rests, share := range map[time.Duration]time.Duration{auditRestsSQLite: 2, auditRestsPostgres: 4} {
		synctest.Test(t, func(t *testing.T) {
			writes := 0
			pace := newAuditPace(t.Context(), rests, func(context.Context) (string, error) {
				writes++
				return strconv.Itoa(writes), nil
			})
			const step = auditStint / 4
			pace.work(t.Context(), 1000, step) // until it has seen that somebody writes
			if got, want := pace.work(t.Context(), 4000, step), share*4000*step; got != want {
				t.Errorf("%s of work took %s; want %s", 4000*step, got, want)
			}
		})
	}
}

func TestAStoreThatNobodyUsesIsAuditedWithoutRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		pace := newAuditPace(t.Context(), 3, func(context.Context) (string, error) {
			looks++
			return "the same", nil
		})
		const step = auditStint / 4
		if got, want := pace.work(t.Context(), 4000, step), 4000*step; got != want {
			t.Errorf("%s of work took %s; want no rest", want, got)
		}
		if most := int(4000*step/storeLook) + 1; looks > most {
			t.Errorf("it looked %d times; want %d at most", looks, most)
		}
	})
}

func TestAnAuditGoesFasterOnceTheStoreHasBeenQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		pace := newAuditPace(t.Context(), 3, func(context.Context) (string, error) {
			return strconv.Itoa(int(min(time.Since(began), 10*time.Second))), nil
		})
		for time.Since(began) < 10*time.Second+storeQuiet+storeLook {
			pace.work(t.Context(), 1, auditStint)
		}
		if got, want := pace.work(t.Context(), 1000, auditStint), 1000*auditStint; got != want {
			t.Errorf("%s of work took %s; want no rest, for nobody has written of late", want, got)
		}
	})
}

func TestAnAuditRestsWhereNobodyCanTellWhetherTheStoreIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := newAuditPace(t.Context(), 3, func(context.Context) (string, error) { return "", errors.New("no more connections") })
		if got, want := pace.work(t.Context(), 1000, auditStint), 4*1000*auditStint; got != want {
			t.Errorf("%s of work took %s; want %s", 1000*auditStint, got, want)
		}
	})
}

func TestARestIsBoundedAndEndsWithTheAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pace := newAuditPace(ctx, 3, func(context.Context) (string, error) { return "", errors.New("unknown") })
		if got, want := pace.work(ctx, 1, time.Second), time.Second+auditRestMost; got != want {
			t.Errorf("a stint of a second was over after %s; want %s", got, want)
		}
		cancel()
		if got := pace.work(ctx, 1, time.Second); got != time.Second {
			t.Errorf("an audit that was called off rested for %s", got-time.Second)
		}
	})
}

// The pulse changes with every commit, whoever makes it, and not with an audit.
func TestStorePulse_ChangesWithCommits(t *testing.T) {
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
			if want := map[string]time.Duration{"sqlite": auditRestsSQLite, "postgres": auditRestsPostgres}[name]; pace.rests != want {
				t.Errorf("an audit rests %d times as long as it works; want %d", pace.rests, want)
			}
			pulse := func() string {
				t.Helper()
				text, err := pace.pulse(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			before := pulse()
			snapshot, end, err := OpenSnapshot(t.Context(), config.Store)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := AuditSettings(config).Run(t.Context(), snapshot, time.Now(), nil); err != nil {
				t.Fatal(err)
			}
			end()
			// PostgreSQL counts transactions that only read, too.
			if after := pulse(); name == "sqlite" && after != before {
				t.Errorf("an audit has changed the pulse from %q to %q", before, after)
			}
			if err := opened.RecordComparison(t.Context(), catalogue.Comparison{Provider: "one", At: time.Now().UTC()}); err != nil {
				t.Fatal(err)
			}
			if after := pulse(); after == before {
				t.Errorf("a commit has left the pulse at %q", before)
			}
		})
	}
}

func TestAStoreThatNobodyHasOpenHasASteadyPulse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "coax.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := logPulse(path)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := logPulse(path)(t.Context()); err != nil || second != first {
		t.Errorf("%q (%v), and before %q; want the same", second, err, first)
	}
}
