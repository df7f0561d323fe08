package backup_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coaxhq/coax/internal/backup"
)

func TestName_IsParsed(t *testing.T) {
	for _, test := range []struct {
		store, want string
		n           int
	}{
		{"coax", "coax-20261118T193501Z.coaxbackup", 1},
		{"coax", "coax-20261118T193501Z-12.coaxbackup", 12},
		{"north-2", "north-2-20261118T193501Z.coaxbackup", 1},
		{"../x y", "x-y-20261118T193501Z.coaxbackup", 1},
		{"", "coax-20261118T193501Z.coaxbackup", 1},
	} {
		got := backup.Name(test.store, takenAt, test.n)
		if got != test.want {
			t.Errorf("the name of %q is %s; want %s", test.store, got, test.want)
		}
		if at, ok := backup.ParseName(test.store, got); !ok || !at.Equal(takenAt.Truncate(time.Second)) {
			t.Errorf("%s is parsed as %v, %v", got, at, ok)
		}
		if _, ok := backup.ParseName("another", got); ok {
			t.Errorf("%s counts as another store's", got)
		}
	}
	for _, name := range []string{
		"coax-20261118T193501Z.coaxbackup.part", "coax-20261318T193501Z.coaxbackup", "coax-20261118T193501Z-1.coaxbackup", "coax-20261118T193501Z-0.coaxbackup",
		"coax.coaxbackup", "coax-20261118.coaxbackup", "COAX-20261118T193501Z.coaxbackup", "my-coax-20261118T193501Z.coaxbackup", ".coaxbackup-1.part", "coax.db",
	} {
		if _, ok := backup.ParseName("coax", name); ok {
			t.Errorf("%s counts as a backup of coax", name)
		}
	}
}

func TestParseKeep(t *testing.T) {
	for text, want := range map[string]backup.Keep{
		"7d,4w,12m": {7, 4, 12}, "12m, 7d": {7, 0, 12}, "1w": {0, 1, 0},
		"": {}, "7": {}, "d": {}, "0d": {}, "-1d": {}, "7d,7d": {}, "7y": {}, "7d,": {}, "99999d": {}, "é": {},
	} {
		got, err := backup.ParseKeep(text)
		if got != want || (err == nil) != (want != backup.Keep{}) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
}

func TestExpired_KeepsNewestOfEachPeriod(t *testing.T) {
	day := func(text string) time.Time {
		at, err := time.Parse(time.DateTime, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	times := []time.Time{
		day("2026-11-18 12:00:00"), // kept: the newest of its day, week and month
		day("2026-11-18 11:00:00"),
		day("2026-11-17 23:59:59"), // kept: the newest of the second day
		day("2026-11-16 01:00:00"), // in the same week and month as the first
		day("2026-11-15 01:00:00"), // kept: a Sunday, of the week before
		day("2026-10-31 01:00:00"), // kept: the newest of its month
		day("2026-10-30 01:00:00"),
		day("2026-09-30 01:00:00"), // a third month
	}
	if got := (backup.Keep{Days: 2, Weeks: 2, Months: 2}).Expired(times); !slices.Equal(got, []int{1, 3, 6, 7}) {
		t.Errorf("expired %v", got)
	}
	if got := (backup.Keep{}).Expired(times); got != nil {
		t.Errorf("without a rule, %v expired", got)
	}
}

// The rule is compared with its sentence: a backup is kept if it is the newest of all, or the
// newest of its day, week or month while fewer than so many later ones have a backup.
func TestExpired_Property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		minutes := rapid.SliceOfN(rapid.IntRange(0, 900*24*60), 0, 60).Draw(t, "minutes")
		k := backup.Keep{Days: rapid.IntRange(0, 8).Draw(t, "days"), Weeks: rapid.IntRange(0, 5).Draw(t, "weeks"), Months: rapid.IntRange(0, 13).Draw(t, "months")}
		var times []time.Time
		for _, m := range minutes {
			times = append(times, start.Add(time.Duration(m)*time.Minute))
		}
		expired := k.Expired(times)
		if k == (backup.Keep{}) {
			if expired != nil {
				t.Fatalf("%v expired without a rule", expired)
			}
			return
		}
		periods := []struct {
			count int
			start func(time.Time) time.Time
		}{
			{k.Days, func(at time.Time) time.Time { return at.Truncate(24 * time.Hour) }},
			{k.Weeks, func(at time.Time) time.Time {
				day := at.Truncate(24 * time.Hour)
				return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
			}},
			{k.Months, func(at time.Time) time.Time { return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC) }},
		}
		for i, at := range times {
			kept := true
			for j, other := range times {
				// Of equal times, the first one counts as newer.
				if other.After(at) || other.Equal(at) && j < i {
					kept = false
				}
			}
			for _, p := range periods {
				newest, later := true, map[time.Time]bool{}
				for j, other := range times {
					same := p.start(other).Equal(p.start(at))
					if same && (other.After(at) || other.Equal(at) && j < i) {
						newest = false
					}
					if !same && other.After(at) {
						later[p.start(other)] = true
					}
				}
				kept = kept || newest && len(later) < p.count
			}
			if kept == slices.Contains(expired, i) {
				t.Fatalf("%+v of %v: %v expired; backup %d, of %v, should be kept: %v", k, times, expired, i, at, kept)
			}
		}
	})
}
