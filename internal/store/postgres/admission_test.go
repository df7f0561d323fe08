package postgres

import (
	"testing"

	"github.com/coaxhq/coax/internal/store/pgtest"
)

// Places are taken for a whole batch before it is known who gets one.
func TestAMinuteInWhichNobodyWasLetInHasNoCounter(t *testing.T) {
	t.Parallel()
	address := pgtest.NewDatabase(t)
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
		t.Errorf("%d minutes are counted, and nobody was let in", n)
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
