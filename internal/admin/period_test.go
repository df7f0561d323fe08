package admin

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/subscription"
)

func TestMonth_IsIndianTime(t *testing.T) {
	december := Month{2026, time.December}
	ends := time.Date(2027, 1, 1, 0, 0, 0, 0, subscription.IST)
	for moment, want := range map[time.Time]Month{
		december.Begins():            december,
		ends.Add(-time.Nanosecond):   december,
		ends:                         {2027, time.January},
		ends.UTC().Add(-time.Second): december, // still last year there, and in London too
		december.Begins().Add(-1):    {2026, time.November},
	} {
		if got := MonthOf(moment); got != want {
			t.Errorf("%s is in %s; want %s", moment, got, want)
		}
	}
	if !december.Ends().Equal(ends) {
		t.Errorf("December ends %s; want %s", december.Ends(), ends)
	}
	if read, err := ParseMonth(december.String()); err != nil || read != december {
		t.Errorf("read back %v, %v; want %v", read, err, december)
	}
	for _, text := range []string{"", "2026", "2026-13", "2026-1", "12-2026", "2026-12-01"} {
		if month, err := ParseMonth(text); err == nil {
			t.Errorf("%q was read as %s", text, month)
		}
	}
}
