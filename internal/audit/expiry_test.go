package audit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coaxhq/coax/internal/subscription"
)

// The audit's rules and the product's are independent implementations. Where they differ
// one of them is wrong.
func TestExpiry_AgreesWithProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(-2_000_000_000_000, 4_000_000_000_000).Draw(t, "now"))
		// Around the edges: the same moment, the day after, the cap.
		gap := rapid.SampledFrom([]time.Duration{0, 24 * time.Hour, 28 * 24 * time.Hour, 29 * 24 * time.Hour, -24 * time.Hour}).Draw(t, "gap")
		expires := now.Add(gap + time.Duration(rapid.Int64Range(-200_000_000, 200_000_000).Draw(t, "off"))*time.Millisecond)
		months := rapid.Int64Range(1, 120).Draw(t, "months")
		of := func(starts, ends time.Time) span { return span{starts.UnixMilli(), ends.UnixMilli()} }

		for _, term := range []subscription.ActivationTerm{subscription.ThirtyDays, subscription.PlanTerm} {
			got := of(now, subscription.ActivatedUntil(now, term, int(months)))
			if !slices.Contains(activated(now.UnixMilli(), months), got) {
				t.Fatalf("activated, %s: %+v is not lawful", term, got)
			}
		}
		if got, want := renewed(expires.UnixMilli(), now.UnixMilli(), months), of(now, subscription.RenewedUntil(expires, now, int(months))); got != want {
			t.Fatalf("renewed: %+v; the product says %+v", got, want)
		}
		start := subscription.AdvanceCycleStart(expires, now)
		want := of(start, subscription.AdvancedUntil(expires, start, now, int(months)))
		if got := booked(expires.UnixMilli(), now.UnixMilli(), months); got != want {
			t.Fatalf("booked: %+v; the product says %+v", got, want)
		}
	})
}

func TestExpiry_AdvanceRenewal(t *testing.T) {
	at := func(text string) int64 {
		moment, err := time.ParseInLocation("2006-01-02 15:04", text, india)
		if err != nil {
			t.Fatal(err)
		}
		return moment.UnixMilli()
	}
	rows := []struct {
		name, expires, now string
		starts, ends       string
	}{
		{"nine days left: the day after", "2027-03-10 08:00", "2027-03-01 12:00", "2027-03-11 00:00", "2027-04-10 00:00"},
		{"ended an hour ago: today, from now", "2027-03-01 11:00", "2027-03-01 12:00", "2027-03-01 12:00", "2027-03-31 12:00"},
		{"beyond the cap: no paid day is lost", "2027-04-10 09:00", "2027-03-01 12:00", "2027-03-30 00:00", "2027-05-10 09:00"},
		{"at the edge of an Indian day", "2027-03-05 23:59", "2027-03-01 00:00", "2027-03-06 00:00", "2027-04-05 00:00"},
	}
	for _, row := range rows {
		want := span{at(row.starts), at(row.ends)}
		if got := booked(at(row.expires), at(row.now), 1); got != want {
			t.Errorf("%s: %s to %s; want %s to %s", row.name, moment(got.starts), moment(got.ends), row.starts, row.ends)
		}
	}
}
