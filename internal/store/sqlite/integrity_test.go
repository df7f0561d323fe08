package sqlite

import (
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/integrity"
)

// A binary of the release before knows no MACs.
func TestStaffActions_OlderReleaseIsRefusedOnceSigned(t *testing.T) {
	db := open(t, newFile(t), Options{})
	insert := func() error {
		return db.writer.do(t.Context(), func(tx *tx) error {
			_, err := tx.Exec(`INSERT INTO staff_acts (actor, action, subject, before_state, after_state, reason, at, hash)
				VALUES ('cli:asha', 'x', 'x', '', '', '', 0, x'00')`)
			return err
		})
	}
	if err := insert(); err != nil {
		t.Fatal(err)
	}
	keys := integrity.NewKeys(1, func(purpose string) map[uint32][]byte { return map[uint32][]byte{1: []byte(purpose)} })
	sealed, started, err := db.UseIntegrityKeys(t.Context(), keys, time.UnixMilli(0))
	if err != nil || !started || sealed != 1 {
		t.Fatalf("sealed %d, %v, %v; want the action that is there", sealed, started, err)
	}
	if err := insert(); err == nil || !strings.Contains(err.Error(), "install the newer release") {
		t.Errorf("a staff action without a MAC: %v; want it refused", err)
	}
}
