package storetest

import (
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

var passwordTests = []test{
	{"a reset is written down before and after, over a restart too", passwordResets},
	{"a reset of somebody else's customer is refused, and of one who is not there yet", passwordRefusals},
}

func passwordResets(h *house) {
	s := h.shop("1000")
	s.subscriber("100001", "9800000001")
	before := len(s.acts())
	reset := admin.PasswordReset{OperatorID: s.operator.ID, SubscriberID: "100001", Reference: "PW1"}
	mobile, err := s.BeginPasswordReset(s.Context(), act("password reset"), reset)
	s.must(err)
	if mobile != "9800000001" {
		s.Errorf("the mobile is %q; want 9800000001", mobile)
	}
	s.must(s.EndPasswordReset(s.Context(), act("password reset answered"), reset, operation.Unknown))
	s.reopen()
	acts := s.acts()[before:]
	if len(acts) != 2 {
		s.Fatalf("%d acts were written; want 2", len(acts))
	}
	for i, want := range []struct{ action, outcome string }{{"password reset", "asked"}, {"password reset answered", "unknown"}} {
		got := acts[i]
		if got.Action != want.action || got.OperatorID != s.operator.ID || got.Actor != "test:asha" || !strings.Contains(got.Subject, "100001") {
			s.Errorf("act %d is %+v", i+1, got)
		}
		if !strings.Contains(got.After, `"PW1"`) || !strings.Contains(got.After, want.outcome) {
			s.Errorf("act %d left %s; want the reference and %s", i+1, got.After, want.outcome)
		}
	}
}

func passwordRefusals(h *house) {
	s := h.shop("1000")
	s.subscriber("100001", "9800000001")
	s.reserve(s.activation("key-pending", "9800000002", "100002"))
	other := s.house.operator("Other")
	gone := s.house.operator("Gone")
	s.must(s.DeleteOperator(s.Context(), act("lco delete"), gone.ID))
	before := len(s.acts())
	for what, reset := range map[string]admin.PasswordReset{
		"another operator's": {OperatorID: other.ID, SubscriberID: "100001"},
		"a deleted operator": {OperatorID: gone.ID, SubscriberID: "100001"},
		"nobody's operator":  {OperatorID: 4711, SubscriberID: "100001"},
		"nobody":             {OperatorID: s.operator.ID, SubscriberID: "999999"},
		"not activated yet":  {OperatorID: s.operator.ID, SubscriberID: "100002"},
	} {
		reset.Reference = "PW1"
		mobile, err := s.BeginPasswordReset(s.Context(), act("password reset"), reset)
		s.refused(what, err)
		if mobile != "" {
			s.Errorf("%s: the mobile %s was given away", what, mobile)
		}
	}
	if after := len(s.acts()); after != before {
		s.Errorf("refused resets wrote %d acts; want none", after-before)
	}
}
