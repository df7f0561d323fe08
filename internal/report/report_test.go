package report

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, subscription.IST)

func rupees(n int64) money.Amount { return money.Paise(n * 100) }

func in(days int) time.Time { return Day(noon).Add(time.Duration(days) * day) }

func TestNewForecast(t *testing.T) {
	dues := []Due{{in(0), 1, rupees(100)}, {in(3), 2, rupees(200)}, {in(7), 1, rupees(50)}, {in(8), 1, rupees(50)}, {in(30), 3, rupees(600)}}
	for _, tt := range []struct {
		balance int64
		lasts   int // days; -1 for beyond the forecast
		missing int64
	}{
		{0, 0, 1000}, {99, 0, 901}, {100, 3, 900}, {299, 3, 701}, {300, 7, 700}, {400, 30, 600}, {999, 30, 1}, {1000, -1, 0}, {5000, -1, 0},
	} {
		f := NewForecast(rupees(tt.balance), dues, noon)
		if tt.lasts < 0 && !f.Covered() || tt.lasts >= 0 && !f.LastsUntil.Equal(in(tt.lasts)) {
			t.Errorf("%d last until %s; want day %d", tt.balance, f.LastsUntil, tt.lasts)
		}
		if f.Missing != rupees(tt.missing) {
			t.Errorf("of %d there are %s missing; want %d", tt.balance, f.Missing, tt.missing)
		}
		if f.Week.Amount != rupees(350) || f.Week.Subscribers != 4 || f.Month.Amount != rupees(1000) || f.Month.Subscribers != 8 {
			t.Errorf("the week is %+v and the month %+v", f.Week, f.Month)
		}
	}
	if f := NewForecast(rupees(0), nil, noon); !f.Covered() || !f.Week.Amount.IsZero() || !f.Missing.IsZero() {
		t.Errorf("with nothing due: %+v", f)
	}
}

func TestDayAndMonth_AreIndian(t *testing.T) {
	late := time.Date(2027, 4, 30, 18, 29, 59, 0, time.UTC)
	if got, want := Day(late), time.Date(2027, 4, 30, 0, 0, 0, 0, subscription.IST); !got.Equal(want) {
		t.Errorf("the day of %s is %s; want %s", late, got, want)
	}
	if got, want := Month(late.Add(time.Second)), time.Date(2027, 5, 1, 0, 0, 0, 0, subscription.IST); !got.Equal(want) {
		t.Errorf("the month a second later is %s; want %s", got, want)
	}
}

func TestTerms(t *testing.T) {
	for search, want := range map[string][]string{
		"":                    {},
		" . - ":               {},
		"Asha":                {"asha"},
		"  asha   SHARMA ":    {"sharma", "asha"},
		"S.K. Rao-Patil (x)":  {"patil", "rao", "k", "s", "x"},
		"आशा शर्मा":           {"शर्मा", "आशा"},
		"98000":               {"98000"},
		"a a b":               {"a", "b"},
		"one two three 4 5 6": {"three", "one", "two", "4", "5"},
		"ÉLAN":                {"Élan"},
	} {
		if got := Terms(search); !slices.Equal(got, want) {
			t.Errorf("%q is %q; want %q", search, got, want)
		}
	}
}

func TestParseCursor(t *testing.T) {
	for _, p := range []Cursor{{}, {Number: 7}, {Text: "शर्मा", ID: "100001"}, {Number: -1, Text: "a\"b", ID: "x"}} {
		if got, err := ParseCursor(p.String()); err != nil || got != p {
			t.Errorf("%+v reads back as %+v, %v", p, got, err)
		}
	}
	for _, text := range []string{"!", "AAAA", "e30=", "WzFd"} {
		if p, err := ParseCursor(text); !errors.Is(err, ErrCursor) {
			t.Errorf("%q is %+v, %v; want %v", text, p, err, ErrCursor)
		}
	}
}

func TestDayTotals_SumByState(t *testing.T) {
	d := DayTotals{Totals: []OperationTotal{
		{operation.Activate, operation.Success, 2, rupees(20)}, {operation.Renew, operation.Success, 3, rupees(30)}, {operation.Renew, operation.Failed, 1, rupees(5)},
	}}
	for _, tt := range []struct {
		states []operation.State
		count  int
		amount int64
	}{{nil, 6, 55}, {[]operation.State{operation.Success}, 5, 50}, {[]operation.State{operation.Failed, operation.Success}, 6, 55}, {[]operation.State{operation.NeedsReview}, 0, 0}} {
		if count, amount := d.Sum(tt.states...); count != tt.count || amount != rupees(tt.amount) {
			t.Errorf("%v: %d for %s; want %d for %d", tt.states, count, amount, tt.count, tt.amount)
		}
	}
}

func TestCache_ExpiryAndErrors(t *testing.T) {
	m, computed := newCache[int, int](), 0
	compute := func(err error) func() (int, error) {
		return func() (int, error) { computed++; return computed, err }
	}
	broken := errors.New("the disk is gone")
	for _, tt := range []struct {
		name    string
		key     int
		after   time.Duration
		compute func() (int, error)
		want    int
		err     error
	}{
		{"a failure", 1, 0, compute(broken), 1, broken},
		{"computed again", 1, 0, compute(nil), 2, nil},
		{"cached", 1, time.Minute - 1, compute(nil), 2, nil},
		{"another key", 2, time.Minute - 1, compute(nil), 3, nil},
		{"too old", 1, time.Minute, compute(nil), 4, nil},
		{"by a clock that was set back", 1, -time.Hour, compute(nil), 5, nil},
	} {
		if got, err := m.get(tt.key, noon.Add(tt.after), time.Minute, tt.compute); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %d, %v; want %d, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestCache_IsBounded(t *testing.T) {
	m := newCache[int, int]()
	for n := range maxCached + 10 {
		_, _ = m.get(n, noon, time.Minute, func() (int, error) { return n, nil })
	}
	if got := len(m.entries); got > maxCached {
		t.Errorf("%d results are cached; want at most %d", got, maxCached)
	}
}

func TestCache_ConcurrentCallersShareOneComputation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, computed := newCache[int, int](), 0
		release := make(chan struct{})
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				got, err := m.get(1, noon, time.Minute, func() (int, error) {
					computed++
					<-release
					return 42, nil
				})
				if got != 42 || err != nil {
					t.Errorf("%d, %v; want 42", got, err)
				}
			})
		}
		close(release)
		group.Wait()
		if computed != 1 {
			t.Errorf("computed %d times; want once", computed)
		}
	})
}
