package postgres

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
)

// Places are taken for a whole batch before it is known who gets one.
func TestAdmit_RefusedMinuteHasNoCounter(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db, conn := open(t, address), raw(t, address)
	record := operator(t, db, 60)
	burned := asking(record, "nonce-1")
	burned.Count = false
	if got, err := db.Admit(t.Context(), burned); err != nil || got.Counted {
		t.Fatalf("burned: %+v, %v", got, err)
	}
	if got, err := db.Admit(t.Context(), asking(record, "nonce-1")); err != nil || !got.Replayed {
		t.Fatalf("a replay: %+v, %v", got, err)
	}
	stale := asking(record, "nonce-2")
	stale.OperatorVersion--
	if got, err := db.Admit(t.Context(), stale); err != nil || got.Fresh == nil {
		t.Fatalf("a stale record: %+v, %v", got, err)
	}
	if n := count(t, conn, `SELECT count(*) FROM rate_counters`); n != 0 {
		t.Errorf("%d minutes are counted, and no request was admitted", n)
	}
	if got, err := db.Admit(t.Context(), asking(record, "nonce-3")); err != nil || got.Used != 1 {
		t.Errorf("the first who is let in: %+v, %v", got, err)
	}
	if got, err := db.Admit(t.Context(), asking(record, "nonce-3")); err != nil || !got.Replayed {
		t.Errorf("a replay beside it: %+v, %v", got, err)
	}
	if used := count(t, conn, `SELECT used FROM rate_counters`); used != 1 {
		t.Errorf("%d places are taken by one who was let in", used)
	}
}

// A node whose clock is two days behind purges, and then one whose clock is right. A
// nonce that was just used does not look old to either.
func TestPurge_ClockBehindAgesNoNonce(t *testing.T) {
	db, err := Open(t.Context(), migrated(t), Options{})
	ok(t, err)
	t.Cleanup(func() { _ = db.Close() })
	record := customersOf(t, db, raw(t, db.where), 1, 1)[0].record
	now := time.Now()
	use := func(request string) access.Admitted {
		a := asking(record, "nonce-aaaaaaaaaaaa")
		a.RequestID, a.Now = request, now
		admitted, err := db.Admit(t.Context(), a)
		ok(t, err)
		return admitted
	}
	use("req-1")
	for _, at := range []time.Time{now.Add(-48 * time.Hour), now.Add(time.Minute)} {
		_, err := db.PurgeAdmissions(t.Context(), at.Add(-access.NonceRetention), 0, 100)
		ok(t, err)
	}
	if !use("req-2").Replayed {
		t.Error("a nonce that was just used is forgotten")
	}
}
