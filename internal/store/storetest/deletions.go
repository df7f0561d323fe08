package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var deletionTests = []test{
	{"an operator with money, a hold or a running job is not deleted", deletionRefused},
	{"a deletion racing with reservations and payouts loses no money", deletionRaces},
	{"an undeleted operator is unchanged", undeleted},
	{"an undelete is refused after 30 days and for an active operator", undeleteRefused},
	{"numbers and ids of a deleted operator are free after 30 days", numbersReleased},
	{"a released number is given to one of many concurrent callers", releasedOnce},
	{"an import takes numbers of a deleted operator after 30 days", importReleases},
	{"a number with an operation in follow-up is not released", followedUpKeepsNumber},
}

func (h *harness) notDeleted(what string, id int64, says ...string) {
	h.Helper()
	auditEntries := len(h.auditEntries())
	err := h.DeleteOperator(h.Context(), staffAction("lco delete"), id)
	h.refused(what, err)
	for _, part := range says {
		if err != nil && !strings.Contains(err.Error(), part) {
			h.Errorf("%s: the refusal is %q; want %q in it", what, err, part)
		}
	}
	operator, err := h.Operator(h.Context(), id)
	h.must(err)
	if operator.Status != subscription.OperatorActive || !operator.DeletedAt.IsZero() || len(h.auditEntries()) != auditEntries {
		h.Errorf("%s: refused, it is %s since %s, with %d more audit entries", what, operator.Status, operator.DeletedAt, len(h.auditEntries())-auditEntries)
	}
}

func deletionRefused(h *harness) {
	s := h.fixture("398")
	payout := fmt.Sprintf("coax admin wallet adjust --lco %d --amount=-", s.operator.ID)
	s.notDeleted("with a balance", s.operator.ID, "has 398.00", payout+"398.00 --reason")
	op := s.reserve(s.activation("one", "9800000001", "100001"))
	s.notDeleted("with a balance and a hold", s.operator.ID, "has 199.00", "199.00 are held by 1 open operations", payout+"199.00 --reason")
	_, _, err := s.Adjust(s.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: s.operator.ID, Amount: rupees("-199")})
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
	// Another operator's operations do not prevent it.
	empty := s.operator
	s.operator = s.harness.operator("other")
	s.topUp(s.operator, "199")
	s.reserve(s.activation("two", "9800000002", "100002"))
	s.must(s.DeleteOperator(s.Context(), staffAction("lco delete"), empty.ID))
	deleted, err := s.Operator(s.Context(), empty.ID)
	s.must(err)
	if deleted.Status != subscription.OperatorDeleted || !deleted.DeletedAt.Equal(noon) || !deleted.UndeletableUntil().Equal(noon.Add(30*24*time.Hour)) {
		s.Errorf("deleted, it is %+v", deleted)
	}
}

// Everything that can change a wallet races with a deletion. Whichever comes first, a
// deleted operator has no money and no open operation.
func deletionRaces(h *harness) {
	s := h.fixture("0")
	deletions := 0
	for round := range 20 {
		s.operator = s.harness.operator(name("operator", round))
		s.topUp(s.operator, "398")
		open := s.reserve(s.activation(name("open", round), fmt.Sprintf("97000000%02d", round), fmt.Sprintf("2000%02d", round)))
		concurrently(6, func(i int) {
			var err error
			switch i {
			case 0:
				_, _, err = s.Adjust(s.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: s.operator.ID, Amount: rupees("-199")})
			case 1:
				_, err = s.Reserve(s.Context(), s.activation(name("race", round), fmt.Sprintf("98000000%02d", round), fmt.Sprintf("1000%02d", round)))
			case 2:
				to := operation.Success
				if round%2 == 0 {
					to = operation.Failed
				}
				_, _, err = s.Settle(s.Context(), settlement(open, to))
			default:
				err = s.DeleteOperator(s.Context(), staffAction("lco delete"), s.operator.ID)
			}
			var refusal *admin.Refusal
			if err != nil && !errors.As(err, &refusal) && !errors.Is(err, operation.ErrStale) {
				s.Errorf("round %d, %d: %v", round, i, err)
			}
		})
		// A payout that came too early is repeated.
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
			s.must(s.DeleteOperator(s.Context(), staffAction("lco delete"), s.operator.ID))
			continue
		}
		s.notDeleted("with money left", s.operator.ID)
	}
	s.Logf("%d of 20 deletions came after all else", deletions)
}

func undeleted(h *harness) {
	for _, status := range []subscription.OperatorStatus{subscription.OperatorActive, subscription.OperatorInactive} {
		operator := h.operator(string(status))
		key := h.key(operator)
		h.must(h.AllowAddress(h.Context(), staffAction("whitelist add"), operator.ID, prefix("192.0.2.1/32"), 20))
		before, err := h.ChangeOperator(h.Context(), staffAction("lco set"), operator.ID, admin.OperatorChange{Status: &status})
		h.must(err)
		record := h.record(key)
		h.must(h.DeleteOperator(h.Context(), staffAction("lco delete"), operator.ID))
		h.reopen()
		late := staffAction("lco undelete")
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
		auditEntries := h.auditEntries()
		if last := auditEntries[len(auditEntries)-1]; last.Action != "lco undelete" || !strings.Contains(last.Before, `"deleted"`) || !strings.Contains(last.After, string(status)) {
			h.Errorf("the last audit entry is %+v", last)
		}
		h.topUpAfterUndo(operator)
	}
}

func (h *harness) topUpAfterUndo(operator subscription.Operator) {
	h.Helper()
	_, _, err := h.TopUp(h.Context(), staffAction("wallet topup"), admin.TopUp{OperatorID: operator.ID, Amount: rupees("5"), Reference: "again for " + operator.Name})
	h.must(err)
}

func undeleteRefused(h *harness) {
	living, gone := h.operator("living"), h.operator("gone")
	h.must(h.DeleteOperator(h.Context(), staffAction("lco delete"), gone.ID))
	auditEntries := len(h.auditEntries())
	late := staffAction("lco undelete")
	late.At = noon.Add(30 * 24 * time.Hour)
	for _, row := range []struct {
		id          int64
		staffAction admin.StaffAction
		says        string
	}{
		{living.ID, staffAction("lco undelete"), "not deleted"},
		{4711, staffAction("lco undelete"), "no operator 4711"},
		{gone.ID, late, "until 2027-03-31 12:00:00 +05:30"},
	} {
		_, err := h.UndeleteOperator(h.Context(), row.staffAction, row.id)
		h.refused(row.says, err)
		if err != nil && !strings.Contains(err.Error(), row.says) {
			h.Errorf("the refusal is %q; want %q in it", err, row.says)
		}
	}
	if operator, err := h.Operator(h.Context(), gone.ID); err != nil || operator.Status != subscription.OperatorDeleted {
		h.Errorf("after 30 days it is %s, %v", operator.Status, err)
	}
	if got := len(h.auditEntries()); got != auditEntries {
		h.Errorf("%d audit entries were written for what was refused", got-auditEntries)
	}
}

// deletedFixture returns a deleted operator that has subscribers 100001 and 100002, one of
// them renewed, and another operator that wants their numbers.
func (h *harness) deletedFixture() (gone, other *fixture) {
	h.Helper()
	gone = h.fixture("597")
	gone.subscriber("100001", "9800000001")
	gone.subscriber("100002", "9800000002")
	_, err := gone.contactEdit("100001", 0, operation.Contact{Name: "Asha", Area: "Sector 4"})
	gone.must(err)
	gone.settle(gone.reserve(gone.renewal("renewed", "100001")), operation.Success)
	gone.must(gone.DeleteOperator(gone.Context(), staffAction("lco delete"), gone.operator.ID))
	other = &fixture{harness: h, operator: h.operator("other"), plan: gone.plan, sold: 100}
	other.topUp(other.operator, "1990")
	return gone, other
}

// afterwards is when a deleted operator's numbers and ids are free again.
var afterwards = noon.Add(30*24*time.Hour + 10*time.Minute)

func (s *fixture) wants(mobile, id string, now time.Time) operation.Snapshot {
	s.Helper()
	return s.snapshot(operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Activate, Mobile: mobile, SubscriberID: id, PlanID: s.plan.ID, Now: now})
}

func numbersReleased(h *harness) {
	gone, other := h.deletedFixture()
	for _, now := range []time.Time{noon, noon.Add(30 * 24 * time.Hour), afterwards.Add(-time.Millisecond)} {
		if snapshot := other.wants("9800000001", "", now); snapshot.Subscriber == nil {
			h.Errorf("%s after the deletion the number is free", now.Sub(noon))
		}
		if snapshot := other.wants("9800000009", "100001", now); snapshot.FreeID == "100001" {
			h.Errorf("%s after the deletion the id is free", now.Sub(noon))
		}
	}
	// Only the number is wanted; the id stays taken.
	if snapshot := other.wants("9800000002", "", afterwards); snapshot.Subscriber != nil || snapshot.FreeID == "100002" {
		h.Errorf("the number is %+v's, the free id %s", snapshot.Subscriber, snapshot.FreeID)
	}
	other.subscriber("200002", "9800000002")
	if snapshot := other.wants("9800000001", "100001", afterwards); snapshot.Subscriber != nil || snapshot.FreeID != "100001" {
		h.Fatalf("the number is %+v's, the free id %s", snapshot.Subscriber, snapshot.FreeID)
	}
	d := other.activation("again", "9800000001", "100001")
	other.settle(other.reserve(d), operation.Success)

	// The deleted operator's rows are still there, and belong to no other.
	released := fmt.Sprintf("released:%d:100001", gone.operator.ID)
	operatorID, old, err := h.FindSubscriber(h.Context(), released)
	h.must(err)
	if operatorID != gone.operator.ID || len(old.Cycles) != 2 || old.Mobile != fmt.Sprintf("released:%d:9800000001", gone.operator.ID) {
		h.Errorf("the released subscriber is %d's, %+v", operatorID, old)
	}
	operations, err := h.ListOperations(h.Context(), admin.OperationFilter{OperatorID: gone.operator.ID, Subscriber: released, Limit: 10})
	if err != nil || len(operations) != 2 {
		h.Errorf("%d operations are found under %s, %v; want 2", len(operations), released, err)
	}
	operatorID, now, err := h.FindSubscriber(h.Context(), "100001")
	h.must(err)
	if operatorID != other.operator.ID || len(now.Cycles) != 1 || now.Mobile != "9800000001" {
		h.Errorf("the new subscriber is %d's, %+v", operatorID, now)
	}
	if found, is, err := h.SubscriptionOf(h.Context(), other.operator.ID, "", "9800000002"); err != nil || !is || found.ID != "200002" {
		h.Errorf("the number leads to %+v, %v, %v", found.Subscriber, is, err)
	}
}

func releasedOnce(h *harness) {
	_, other := h.deletedFixture()
	var wins atomic.Int32
	concurrently(8, func(i int) {
		snapshot, err := other.Snapshot(other.Context(), operation.SnapshotQuery{
			OperatorID: other.operator.ID, Kind: operation.Activate, Mobile: "9800000001", SubscriberID: "100001", PlanID: other.plan.ID, Now: afterwards,
		})
		if err != nil {
			h.Errorf("snapshot: %v", err)
			return
		}
		if snapshot.Subscriber != nil {
			return // another one was faster
		}
		switch _, err := other.Reserve(other.Context(), other.activation(name("race", i), "9800000001", snapshot.FreeID)); {
		case err == nil:
			wins.Add(1)
		case !errors.Is(err, operation.ErrStale):
			h.Errorf("reserve: %v", err)
		}
	})
	if wins.Load() != 1 {
		h.Errorf("%d got the number; want 1", wins.Load())
	}
}

func importReleases(h *harness) {
	_, other := h.deletedFixture()
	service := func(now time.Time) *admin.Service {
		return admin.NewService(h, nil, "test:asha", func() time.Time { return now })
	}
	file := fmt.Sprintf("lco,subscriber_id,mobile,name,plan_id,expiry\n%d,100001,9800000001,Asha,%s,2027-12-31\n", other.operator.ID, other.plan.ID)
	none := func(int, int) {}
	report, err := service(noon).ImportSubscribers(h.Context(), strings.NewReader(file), false, none)
	if err != nil || len(report.Problems) != 1 || report.Added != 0 {
		h.Errorf("at once: %+v, %v; want the line refused", report, err)
	}
	report, err = service(afterwards).ImportSubscribers(h.Context(), strings.NewReader(file), true, none)
	if err != nil || len(report.Problems) != 0 {
		h.Errorf("checked after 30 days: %+v, %v; want no problem", report, err)
	}
	if _, old, err := h.FindSubscriber(h.Context(), "100001"); err != nil || old.Mobile != "9800000001" {
		h.Errorf("a check has changed the old subscriber to %+v, %v", old.Subscriber, err)
	}
	report, err = service(afterwards).ImportSubscribers(h.Context(), strings.NewReader(file), false, none)
	if err != nil || report.Added != 1 {
		h.Errorf("after 30 days: %+v, %v; want it imported", report, err)
	}
}

func followedUpKeepsNumber(h *harness) {
	s := h.fixture("199")
	combo := plan("COMBO-1", "199", "TV-BASIC")
	combo.Type, combo.Addon = subscription.Combo, "OTT-PLUS"
	saved, err := h.SetPlan(h.Context(), staffAction("plan set"), combo)
	h.must(err)
	s.plan = saved
	d := s.activation("combo", "9800000001", "100001")
	d.Addon, d.AddonState = "OTT-PLUS", operation.AddonWaiting
	st := settlement(s.reserve(d), operation.Success)
	st.AddonState, st.AddonNextAt = operation.AddonUnknown, noon.Add(time.Minute)
	_, did, err := s.Settle(s.Context(), st)
	if err != nil || !did {
		h.Fatalf("settled: %v, %v", did, err)
	}
	s.must(s.DeleteOperator(s.Context(), staffAction("lco delete"), s.operator.ID))
	other := &fixture{harness: h, operator: h.operator("other"), plan: s.plan}
	if snapshot := other.wants("9800000001", "100001", afterwards); snapshot.Subscriber == nil {
		h.Error("the number is free while the add-on is followed up")
	}
}
