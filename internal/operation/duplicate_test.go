package operation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// The contract's window: the same subscriber and plan within two minutes.
func TestProcess_DuplicateWithinTwoMinutes(t *testing.T) {
	s := newFixture(t)
	fields := map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}
	for _, row := range []struct {
		kind operation.Kind
		late time.Duration
		want fault.Code
	}{
		{operation.Activate, 0, fault.OK},
		{operation.Renew, time.Second, fault.OK},
		{operation.Renew, 2 * time.Second, fault.DuplicateRequest},
		{operation.Renew, 2*time.Minute + time.Second - time.Millisecond, fault.DuplicateRequest},
		{operation.Renew, 2*time.Minute + time.Second, fault.OK},
	} {
		s.store.late = row.late
		_, err := s.Process(t.Context(), s.request(row.kind, fmt.Sprint("key-at-", row.late), fields))
		if got := fault.CodeOf(err); got != row.want {
			t.Errorf("%s after %s: %s (%v); want %s", row.kind, row.late, got, err, row.want)
		}
	}
}
