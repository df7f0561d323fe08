package storetest

import (
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

var passwordTests = []test{
	{"a password reset survives a restart, with old and new value", passwordResets},
	{"a password reset of another operator's or pending customer is refused", passwordRefusals},
}

func passwordResets(h *harness) {
	s := h.fixture("1000")
	s.subscriber("100001", "9800000001")
	before := len(s.auditEntries())
	reset := admin.PasswordReset{OperatorID: s.operator.ID, SubscriberID: "100001", Reference: "PW1"}
	mobile, err := s.BeginPasswordReset(s.Context(), staffAction("password reset"), reset)
	s.must(err)
	if mobile != "9800000001" {
		s.Errorf("the mobile is %q; want 9800000001", mobile)
	}
	s.must(s.EndPasswordReset(s.Context(), staffAction("password reset answered"), reset, operation.Unknown))
	s.reopen()
	auditEntries := s.auditEntries()[before:]
	if len(auditEntries) != 2 {
		s.Fatalf("%d audit entries were written; want 2", len(auditEntries))
	}
	for i, want := range []struct{ action, outcome string }{{"password reset", "asked"}, {"password reset answered", "unknown"}} {
		got := auditEntries[i]
		if got.Action != want.action || got.OperatorID != s.operator.ID || got.Actor != "test:asha" || !strings.Contains(got.Subject, "100001") {
			s.Errorf("audit entry %d is %+v", i+1, got)
		}
		if !strings.Contains(got.After, `"PW1"`) || !strings.Contains(got.After, want.outcome) {
			s.Errorf("audit entry %d left %s; want the reference and %s", i+1, got.After, want.outcome)
		}
	}
}

func passwordRefusals(h *harness) {
	s := h.fixture("1000")
	s.subscriber("100001", "9800000001")
	s.reserve(s.activation("key-pending", "9800000002", "100002"))
	other := s.harness.operator("Other")
	gone := s.harness.operator("Gone")
	s.must(s.DeleteOperator(s.Context(), staffAction("lco delete"), gone.ID))
	before := len(s.auditEntries())
	for what, reset := range map[string]admin.PasswordReset{
		"another operator's": {OperatorID: other.ID, SubscriberID: "100001"},
		"a deleted operator": {OperatorID: gone.ID, SubscriberID: "100001"},
		"nobody's operator":  {OperatorID: 4711, SubscriberID: "100001"},
		"nobody":             {OperatorID: s.operator.ID, SubscriberID: "999999"},
		"not activated yet":  {OperatorID: s.operator.ID, SubscriberID: "100002"},
	} {
		reset.Reference = "PW1"
		mobile, err := s.BeginPasswordReset(s.Context(), staffAction("password reset"), reset)
		s.refused(what, err)
		if mobile != "" {
			s.Errorf("%s: the mobile %s was given away", what, mobile)
		}
	}
	if after := len(s.auditEntries()); after != before {
		s.Errorf("refused resets wrote %d audit entries; want none", after-before)
	}
}
