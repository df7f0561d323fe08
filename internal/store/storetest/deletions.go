package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var deletionTests = []test{
	{"an operator with money, a hold or a running bulk job is not deleted", deletionRefused},
	{"a deletion that races with reservations and payouts strands no money", deletionRaces},
	{"an undeleted operator is as it was before", undeleted},
	{"an undo is refused after 30 days, and for a living operator", undeleteRefused},
}

func (h *house) notDeleted(what string, id int64, says ...string) {
	h.Helper()
	acts := len(h.acts())
	err := h.DeleteOperator(h.Context(), act("lco delete"), id)
	h.refused(what, err)
	for _, part := range says {
		if err != nil && !strings.Contains(err.Error(), part) {
			h.Errorf("%s: the refusal is %q; want %q in it", what, err, part)
		}
	}
	operator, err := h.Operator(h.Context(), id)
	h.must(err)
	if operator.Status != subscription.OperatorActive || !operator.DeletedAt.IsZero() || len(h.acts()) != acts {
		h.Errorf("%s: refused, it is %s since %s, with %d acts more", what, operator.Status, operator.DeletedAt, len(h.acts())-acts)
	}
}

func deletionRefused(h *house) {
	s := h.shop("398")
	payout := fmt.Sprintf("coax admin wallet adjust --lco %d --amount=-", s.operator.ID)
	s.notDeleted("with a balance", s.operator.ID, "has 398.00", "0.00 are held by 0 open operations", payout+"398.00 --reason")
	op := s.reserve(s.activation("one", "9800000001", "100001"))
	s.notDeleted("with a balance and a hold", s.operator.ID, "has 199.00", "199.00 are held by 1 open operations", payout+"199.00 --reason")
	_, err := s.Adjust(s.Context(), act("wallet adjust"), s.operator.ID, rupees("-199"))
	s.must(err)
	s.notDeleted("with a hold", s.operator.ID, "has 0.00", "199.00 are held by 1 open operations", payout)
	op = s.settle(op, operation.NeedsReview)
	s.notDeleted("with an operation in review", s.operator.ID, "199.00 are held by 1 open operations")
	s.settle(op, operation.Success)
	s.bulkStarted(s.operator, "job", 1)
	s.notDeleted("with a bulk job running", s.operator.ID, "bulk renewal")
	hold := s.bulkHold(noon)
	s.bulkTake(hold, 1)
	s.bulkSettle(hold, 1, bulk.RowRefused)
	s.must(s.ReleaseBulkJob(s.Context(), hold, bulk.Release{Again: noon, Review: noon}))
	// Another operator's operations are not in the way.
	empty := s.operator
	s.operator = s.house.operator("other")
	s.topUp(s.operator, "199")
	s.reserve(s.activation("two", "9800000002", "100002"))
	s.must(s.DeleteOperator(s.Context(), act("lco delete"), empty.ID))
	deleted, err := s.Operator(s.Context(), empty.ID)
	s.must(err)
	if deleted.Status != subscription.OperatorDeleted || !deleted.DeletedAt.Equal(noon) || !deleted.UndeletableUntil().Equal(noon.Add(30*24*time.Hour)) {
		s.Errorf("deleted, it is %+v", deleted)
	}
}

// Everything that can change a wallet meets a deletion. Whichever comes first, a
// deleted operator has no money and no open operation.
func deletionRaces(h *house) {
	s := h.shop("0")
	deletions := 0
	for round := range 20 {
		s.operator = s.house.operator(name("operator", round))
		s.topUp(s.operator, "398")
		open := s.reserve(s.activation(name("open", round), fmt.Sprintf("97000000%02d", round), fmt.Sprintf("2000%02d", round)))
		together(6, func(i int) {
			var err error
			switch i {
			case 0:
				_, err = s.Adjust(s.Context(), act("wallet adjust"), s.operator.ID, rupees("-199"))
			case 1:
				_, err = s.Reserve(s.Context(), s.activation(name("race", round), fmt.Sprintf("98000000%02d", round), fmt.Sprintf("1000%02d", round)))
			case 2:
				to := operation.Success
				if round%2 == 0 {
					to = operation.Failed
				}
				_, _, err = s.Settle(s.Context(), settlement(open, to))
			default:
				err = s.DeleteOperator(s.Context(), act("lco delete"), s.operator.ID)
			}
			var refusal *admin.Refusal
			if err != nil && !errors.As(err, &refusal) && !errors.Is(err, operation.ErrMoved) {
				s.Errorf("round %d, %d: %v", round, i, err)
			}
		})
		// A payout that came too early is repeated, as its refusal says.
		wallet, err := s.Wallet(s.Context(), s.operator.ID)
		s.must(err)
		operator, err := s.Operator(s.Context(), s.operator.ID)
		s.must(err)
		if operator.Status == subscription.OperatorDeleted {
			deletions++
			s.money(fmt.Sprintf("round %d, deleted", round), "0", "0")
			continue
		}
		if wallet.Balance.IsZero() && wallet.Held.IsZero() {
			s.must(s.DeleteOperator(s.Context(), act("lco delete"), s.operator.ID))
			continue
		}
		s.notDeleted("with money left", s.operator.ID)
	}
	s.Logf("%d of 20 deletions came after all else", deletions)
}

func undeleted(h *house) {
	for _, status := range []subscription.OperatorStatus{subscription.OperatorActive, subscription.OperatorInactive} {
		operator := h.operator(string(status))
		key := h.key(operator)
		h.must(h.AllowAddress(h.Context(), act("whitelist add"), operator.ID, prefix("192.0.2.1/32"), 20))
		before, err := h.ChangeOperator(h.Context(), act("lco set"), operator.ID, admin.OperatorChange{Status: &status})
		h.must(err)
		record := h.record(key)
		h.must(h.DeleteOperator(h.Context(), act("lco delete"), operator.ID))
		h.reopen()
		late := act("lco undelete")
		late.At = noon.Add(30*24*time.Hour - time.Millisecond)
		after, err := h.UndeleteOperator(h.Context(), late, operator.ID)
		h.must(err)
		want := before
		want.Version += 2
		if after != want {
			h.Errorf("undeleted, it is %+v; want %+v", after, want)
		}
		again := h.record(key)
		if again.Operator != want || again.Credential.Version != record.Credential.Version || len(again.Whitelist) != 1 {
			h.Errorf("its key leads to %+v; want %+v", again, want)
		}
		acts := h.acts()
		if last := acts[len(acts)-1]; last.Action != "lco undelete" || !strings.Contains(last.Before, `"deleted"`) || !strings.Contains(last.After, string(status)) {
			h.Errorf("the last act is %+v", last)
		}
		h.topUpAfterUndo(operator)
	}
}

func (h *house) topUpAfterUndo(operator subscription.Operator) {
	h.Helper()
	_, _, err := h.TopUp(h.Context(), act("wallet topup"), admin.TopUp{OperatorID: operator.ID, Amount: rupees("5"), Reference: "again"})
	h.must(err)
}

func undeleteRefused(h *house) {
	living, gone := h.operator("living"), h.operator("gone")
	h.must(h.DeleteOperator(h.Context(), act("lco delete"), gone.ID))
	acts := len(h.acts())
	late := act("lco undelete")
	late.At = noon.Add(30 * 24 * time.Hour)
	for _, row := range []struct {
		id   int64
		act  admin.Act
		says string
	}{
		{living.ID, act("lco undelete"), "not deleted"},
		{4711, act("lco undelete"), "no operator 4711"},
		{gone.ID, late, "until 2027-03-31 12:00:00 +05:30"},
	} {
		_, err := h.UndeleteOperator(h.Context(), row.act, row.id)
		h.refused(row.says, err)
		if err != nil && !strings.Contains(err.Error(), row.says) {
			h.Errorf("the refusal is %q; want %q in it", err, row.says)
		}
	}
	if operator, err := h.Operator(h.Context(), gone.ID); err != nil || operator.Status != subscription.OperatorDeleted {
		h.Errorf("after 30 days it is %s, %v", operator.Status, err)
	}
	if got := len(h.acts()); got != acts {
		h.Errorf("%d acts were logged for what was refused", got-acts)
	}
}
