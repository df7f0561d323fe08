package audit_test

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// A mobile number and an id of an operator that was deleted long ago are sold again,
// through the real processor, and the books of both operators hold.
func TestAudit_ReleasedNumberIsClean(t *testing.T) {
	store := healthyStore(t)
	s := openEnv(t, store.path)
	s.now = store.now
	s.topUp(3, "219", "rest")
	s.order(3, operation.Activate, "first-owner", "BASIC-1", "500001", "success")
	s.ok(s.service.DeleteOperator(s.Context(), 3))
	s.advance(subscription.UndeleteWithin + time.Hour)
	s.order(1, operation.Activate, "second-owner", "BASIC-1", "500001", "success")
	s.order(1, operation.Renew, "second-renewed", "BASIC-1", "500001", "success")
	op, _, err := s.store.OperationByKey(s.Context(), 1, "second-owner")
	if err != nil || op.SubscriberID != "500001" || op.Mobile != "9876500001" {
		t.Errorf("the second owner's activation is %+v, %v", op, err)
	}
	first, _, err := s.store.OperationByKey(s.Context(), 3, "first-owner")
	if err != nil || first.SubscriberID != "released:3:500001" {
		t.Errorf("the first owner's activation is of %s, %v", first.SubscriberID, err)
	}
	now := s.clock()
	s.ok(s.store.Close())
	report, err := audited(t, store.path, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range report.Violations {
		if violation.Invariant != "S4" { // what was left open a month ago is stuck by now
			t.Error(violation)
		}
	}
}
