package subscription

import (
	"testing"
	"time"
)

func TestDaysLeft_CountsIndianMidnights(t *testing.T) {
	at := func(day, hour, minute int) time.Time { return time.Date(2027, 3, day, hour, minute, 0, 0, IST) }
	for _, tt := range []struct {
		now, expires time.Time
		want         int
	}{
		{at(1, 12, 0), at(1, 12, 1), 0},
		{at(1, 0, 0), at(1, 23, 59), 0},
		{at(1, 23, 59), at(2, 0, 0), 1},
		{at(1, 0, 0), at(2, 23, 59), 1},
		{at(1, 12, 0), at(8, 23, 59), 7},
		{at(1, 12, 0), at(9, 0, 0), 8},
		{at(1, 20, 0).UTC(), at(2, 1, 0).UTC(), 1}, // one day in UTC
		{at(3, 12, 0), at(1, 12, 0), 0},
		{at(3, 12, 0), time.Time{}, 0},
	} {
		got := DaysLeft(tt.expires, tt.now)
		if got != tt.want {
			t.Errorf("from %s until %s there are %d days left; want %d", tt.now, tt.expires, got, tt.want)
		}
		if !tt.expires.After(tt.now) {
			continue
		}
		for _, days := range []int{0, 1, 3, 7, 15, 30} {
			if within := !tt.expires.After(LastWithin(days, tt.now)); within != (got <= days) {
				t.Errorf("from %s, %s is within %d days: %t, with %d days left", tt.now, tt.expires, days, within, got)
			}
		}
	}
}
