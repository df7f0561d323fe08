package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var amountTests = []test{
	{"a person's sum of top-ups over the limit needs approval", sumPerPerson},
	{"an operator's sum of top-ups over the limit needs approval", sumPerOperator},
	{"an amount counts until the window has passed", sumWindow},
	{"a command-line amount counts and is not refused", sumCommandLine},
	{"adjustments of either sign and manual settlements count", sumKinds},
	{"of ten concurrent top-ups by one person one passes", sumAtOnce},
	{"of ten concurrent top-ups for one operator one passes", sumAtOnceForOperator},
	{"approved amounts do not count", sumApproved},
	{"a repeated top-up counts once", sumRepeats},
	{"a limit of zero always needs approval", sumZeroLimit},
	{"logins with one sole sponsor count as that person", sumAcrossLogins},
}

// split are limits that four top-ups of 50,000.00 exceed.
var split = admin.Limits{ApprovalAbove: rupees("50000"), Window: 24 * time.Hour, PriceChange: 20}

// limitedUser returns the service of a console user, within the limits of split.
func (h *harness) limitedUser(name string, now time.Time) *admin.Service {
	h.createLogin(name, admin.Finance)
	return admin.NewService(h.Store, sealer{}, "web:"+name, func() time.Time { return now }).WithRole(admin.Finance, split)
}

// tops has a user top up an operator, and checks whether that waits for approval.
func (s *fixture) tops(service *admin.Service, operator subscription.Operator, amount, reference string, waits bool) admin.ActionResult {
	s.Helper()
	outcome, err := service.SubmitTopUp(s.Context(), admin.TopUp{OperatorID: operator.ID, Amount: rupees(amount), Reference: reference})
	s.must(err)
	if outcome.Waits() != waits || (outcome.Why != nil) != waits {
		s.Errorf("%s of %s for %s: waits %v because of %+v; want %v", reference, amount, operator.Name, outcome.Waits(), outcome.Why, waits)
	}
	return outcome
}

func sumPerPerson(h *harness) {
	s := h.fixture("0")
	others := []subscription.Operator{h.operator("second"), h.operator("third"), h.operator("fourth")}
	asha := s.limitedUser("asha", noon)
	s.tops(asha, s.operator, "50000", "NEFT-1", false)
	for i, other := range others {
		outcome := s.tops(asha, other, "50000", name("NEFT", i), true)
		want := admin.ApprovalNeeded{Amount: rupees("50000"), Limit: rupees("50000"), Window: 24 * time.Hour, Moved: rupees("50000"), Person: "asha", OperatorID: other.ID}
		if outcome.Why == nil || *outcome.Why != want {
			s.Errorf("it waits because of %+v; want %+v", outcome.Why, want)
		}
	}
	// The methods without approval refuse it too, with a reason.
	before := len(s.auditEntries())
	_, _, err := asha.TopUp(s.Context(), admin.TopUp{OperatorID: others[0].ID, Amount: rupees("0.01"), Reference: "NEFT-2"})
	s.refused("one paisa more, alone", err)
	if err != nil && (!strings.Contains(err.Error(), "50000.00 that asha moved alone") || !strings.Contains(err.Error(), "above 50000.00")) {
		s.Errorf("it is refused with %q; want the sum so far, whose it is and the limit", err)
	}
	if after := len(s.auditEntries()); after != before {
		s.Errorf("%d staff actions were written for what was refused", after-before)
	}
	for _, other := range others {
		if wallet, err := s.Wallet(s.Context(), other.ID); err != nil || !wallet.Balance.IsZero() {
			s.Errorf("the wallet of %s has %s, %v; want nothing", other.Name, wallet.Balance, err)
		}
	}
	if moved, err := asha.MovedWithoutApproval(s.Context(), s.operator.ID); err != nil || moved != (admin.MovedWithoutApproval{ByPerson: rupees("50000"), ForOperator: rupees("50000")}) {
		s.Errorf("asha moved %+v, %v", moved, err)
	}
	// Another person has a separate sum.
	s.tops(s.limitedUser("binu", noon), others[1], "50000", "NEFT-3", false)
}

func sumPerOperator(h *harness) {
	s := h.fixture("0")
	s.tops(s.limitedUser("asha", noon), s.operator, "30000", "NEFT-1", false)
	outcome := s.tops(s.limitedUser("binu", noon), s.operator, "20000.01", "NEFT-2", true)
	if why := outcome.Why; why == nil || why.Person != "" || why.Moved != rupees("30000") || why.OperatorID != s.operator.ID {
		s.Errorf("it waits because of %+v; want what was moved for the operator", why)
	}
	_, _, err := s.limitedUser("binu", noon).TopUp(s.Context(), s.paid("20000.01", "NEFT-3"))
	s.refused("alone", err)
	if err != nil && !strings.Contains(err.Error(), "moved alone for operator") {
		s.Errorf("it is refused with %q; want the operator named", err)
	}
	s.tops(s.limitedUser("binu", noon), s.operator, "20000", "NEFT-4", false)
	s.money("after all", "50000", "0")
}

func sumWindow(h *harness) {
	s := h.fixture("0")
	s.tops(s.limitedUser("asha", noon), s.operator, "50000", "NEFT-1", false)
	s.tops(s.limitedUser("asha", noon.Add(24*time.Hour-time.Millisecond)), s.operator, "0.01", "NEFT-2", true)
	s.tops(s.limitedUser("asha", noon.Add(24*time.Hour)), s.operator, "50000", "NEFT-3", false)
	// Amounts dated in the future by another node's clock count.
	s.tops(s.limitedUser("asha", noon.Add(24*time.Hour-time.Second)), h.operator("other"), "0.01", "NEFT-4", true)
}

func sumCommandLine(h *harness) {
	s := h.fixture("0")
	other := h.operator("other")
	root := admin.NewService(s.Store, sealer{}, "cli:Asha", func() time.Time { return noon })
	for i := range 4 {
		_, _, err := root.TopUp(s.Context(), s.paid("50000", name("NEFT", i)))
		s.must(err)
	}
	s.money("from the command line", "200000", "0")
	// The same person in the console, and another person for the same operator.
	if why := s.tops(s.limitedUser("asha", noon), other, "0.01", "NEFT-1", true).Why; why.Person != "asha" || why.Moved != rupees("200000") {
		s.Errorf("asha's waits because of %+v", why)
	}
	if why := s.tops(s.limitedUser("binu", noon), s.operator, "0.01", "NEFT-2", true).Why; why.Person != "" || why.Moved != rupees("200000") {
		s.Errorf("binu's waits because of %+v", why)
	}
	s.tops(s.limitedUser("binu", noon), other, "50000", "NEFT-3", false)
	_, _, err := root.TopUp(s.Context(), admin.TopUp{OperatorID: other.ID, Amount: rupees("50000"), Reference: "NEFT-4"})
	s.must(err)
}

func sumKinds(h *harness) {
	s := h.fixture("100000")
	service := func(name string, above string) *admin.Service {
		return admin.NewService(s.Store, sealer{}, "web:"+name, func() time.Time { return noon.Add(48 * time.Hour) }).
			WithRole(admin.Finance, admin.Limits{ApprovalAbove: rupees(above), Window: time.Hour})
	}
	_, err := service("asha", "1000").SubmitAdjustment(s.Context(), s.operator.ID, rupees("-600"), "counted wrongly")
	s.must(err)
	outcome, err := service("asha", "1000").SubmitAdjustment(s.Context(), s.operator.ID, rupees("600"), "counted wrongly again")
	s.must(err)
	if !outcome.Waits() || outcome.Why.Moved != rupees("600") {
		s.Errorf("an adjustment back: %+v; want it to wait, because signs do not cancel out", outcome)
	}
	_, err = service("asha", "1000").Adjust(s.Context(), s.operator.ID, rupees("600"), "alone")
	s.refused("an adjustment back, alone", err)
	for i, confirm := range []bool{true, false} {
		op := s.settle(s.reserve(s.activation(name("key", i), fmt.Sprintf("980000000%d", i+1), fmt.Sprintf("10000%d", i+1))), operation.NeedsReview)
		_, err := service("binu", "2000").SettleReview(s.Context(), op.ID, confirm, "asked them")
		s.must(err)
	}
	if moved, err := service("binu", "1").MovedWithoutApproval(s.Context(), s.operator.ID); err != nil || moved.ByPerson != rupees("398") || moved.ForOperator != rupees("998") {
		s.Errorf("binu moved %+v, %v; want both operations", moved, err)
	}
	op := s.settle(s.reserve(s.activation("key-9", "9800000009", "100009")), operation.NeedsReview)
	settled, err := service("chitra", "1000").SubmitSettlement(s.Context(), op.ID, true, "asked them")
	s.must(err)
	if !settled.Waits() || settled.Why.Moved != rupees("998") {
		s.Errorf("a third settlement: %+v; want it to wait for what was moved for the operator", settled)
	}
	_, err = service("chitra", "1000").SettleReview(s.Context(), op.ID, true, "asked them")
	s.refused("a third settlement, alone", err)
}

// passed has ten people or operators submit amounts concurrently, and requires that one
// passes.
func (s *fixture) passed(top func(i int) (admin.ActionResult, error)) {
	s.Helper()
	var done, wait atomic.Int32
	concurrently(10, func(i int) {
		outcome, err := top(i)
		// On a busy machine the ten may wait for each other longer than a store lets them, and
		// nothing has changed then: a person tries again.
		for try := 0; errors.Is(err, operation.ErrUnavailable) && try < 20; try++ {
			outcome, err = top(i)
		}
		switch {
		case err != nil:
			s.Errorf("top-up %d: %v", i, err)
		case outcome.Waits():
			wait.Add(1)
		default:
			done.Add(1)
		}
	})
	if done.Load() != 1 || wait.Load() != 9 {
		s.Errorf("%d were done and %d wait; want 1 and 9", done.Load(), wait.Load())
	}
}

func sumAtOnce(h *harness) {
	s := h.fixture("0")
	operators := make([]subscription.Operator, 10)
	for i := range operators {
		operators[i] = h.operator(name("operator", i))
	}
	s.passed(func(i int) (admin.ActionResult, error) {
		return s.limitedUser("asha", noon).SubmitTopUp(s.Context(), admin.TopUp{OperatorID: operators[i].ID, Amount: rupees("50000"), Reference: name("NEFT", i)})
	})
}

func sumAtOnceForOperator(h *harness) {
	s := h.fixture("0")
	s.passed(func(i int) (admin.ActionResult, error) {
		return s.limitedUser(name("clerk", i), noon).SubmitTopUp(s.Context(), s.paid("50000", name("NEFT", i)))
	})
	s.money("after all", "50000", "0")
}

func sumApproved(h *harness) {
	s := h.fixture("0")
	p := s.tops(s.limitedUser("asha", noon), s.operator, "900000", "NEFT-1", true).Proposal
	if why := s.tops(s.limitedUser("chitra", noon), s.operator, "900000", "NEFT-2", true).Why; !why.Moved.IsZero() {
		s.Errorf("a large amount waits because of %+v; want the amount alone", why)
	}
	_, err := s.limitedUser("binu", noon).Approve(s.Context(), p.ID)
	s.must(err)
	s.money("approved", "900000", "0")
	s.tops(s.limitedUser("asha", noon), s.operator, "25000", "NEFT-3", false)
	s.tops(s.limitedUser("binu", noon), s.operator, "25000", "NEFT-4", false)
	// A proposal of an amount that alone would be below the limit says why it waits.
	p = s.tops(s.limitedUser("asha", noon), s.operator, "26000", "NEFT-5", true).Proposal
	if why, err := s.limitedUser("binu", noon).WhyApprovalNeeded(s.Context(), p); err != nil || why == nil || why.Person != "asha" || why.Moved != rupees("25000") {
		s.Errorf("it waits because of %+v, %v", why, err)
	}
	_, err = s.limitedUser("binu", noon).Approve(s.Context(), p.ID)
	s.must(err)
	if moved, err := s.limitedUser("asha", noon).MovedWithoutApproval(s.Context(), s.operator.ID); err != nil || moved.ByPerson != rupees("25000") || moved.ForOperator != rupees("50000") {
		s.Errorf("asha moved %+v, %v; want the approved amounts left out", moved, err)
	}
}

func sumRepeats(h *harness) {
	s := h.fixture("0")
	asha := s.limitedUser("asha", noon)
	s.tops(asha, s.operator, "30000", "NEFT-1", false)
	for range 3 {
		if again := s.tops(asha, s.operator, "30000", "NEFT-1", false); !again.Already {
			s.Errorf("again: %+v; want it known", again)
		}
	}
	s.tops(asha, s.operator, "20000", "NEFT-2", false)
	if again := s.tops(asha, s.operator, "30000", "NEFT-1", false); !again.Already {
		s.Errorf("again, above the limit: %+v; want it known", again)
	}
}

func sumZeroLimit(h *harness) {
	s := h.fixture("0")
	always := admin.NewService(s.Store, sealer{}, "web:asha", func() time.Time { return noon }).WithRole(admin.Finance, admin.Limits{Window: time.Hour})
	s.tops(always, s.operator, "0.01", "NEFT-1", true)
	_, _, err := s.Store.TopUp(s.Context(), staffAction("wallet topup"), s.paid("1", "NEFT-2"))
	s.must(err)
	var why *admin.ApprovalNeeded
	if _, _, err := always.TopUp(s.Context(), s.paid("0.01", "NEFT-3")); !errors.As(err, &why) {
		s.Errorf("one paisa alone: %v; want a second person", err)
	}
	if got := s.auditEntries(); slices.ContainsFunc(got, func(a admin.AuditEntry) bool { return a.Actor == "web:asha" && a.Action == "wallet topup" }) {
		s.Error("asha topped up alone")
	}
}

// RefilledAmounts has staff move money in every way, and requires that refill, which
// empties the table of amounts and fills it as its migration does, finds all amounts
// that count.
func RefilledAmounts(t *testing.T, opener Opener, refill func(t *testing.T)) {
	h := newHarness(t, opener)
	s := h.fixture("0")
	root := admin.NewService(s.Store, sealer{}, "cli:Asha", func() time.Time { return noon })
	_, _, err := root.TopUp(s.Context(), s.paid("60000.01", "NEFT-1"))
	s.must(err)
	_, err = root.Adjust(s.Context(), s.operator.ID, rupees("-0.07"), "counted wrongly")
	s.must(err)
	s.tops(s.limitedUser("binu", noon.Add(25*time.Hour)), s.operator, "29.99", "NEFT-2", false)
	op := s.settle(s.reserve(s.activation("key-1", "9800000001", "100001")), operation.NeedsReview)
	_, err = s.limitedUser("binu", noon.Add(25*time.Hour)).SettleReview(s.Context(), op.ID, false, "asked them")
	s.must(err)
	p := s.tops(s.limitedUser("binu", noon.Add(25*time.Hour)), s.operator, "70000", "NEFT-3", true).Proposal
	_, err = s.limitedUser("asha", noon.Add(25*time.Hour)).Approve(s.Context(), p.ID)
	s.must(err)
	want := []admin.MovedWithoutApproval{
		{ByPerson: rupees("60000.08"), ForOperator: rupees("60229.07")},
		{ByPerson: rupees("228.99"), ForOperator: rupees("60229.07")},
	}
	check := func(when string) {
		s.Helper()
		for i, person := range []string{"asha", "binu"} {
			moved, err := s.MovedWithoutApproval(s.Context(), admin.MovedQuery{People: []string{person}, OperatorID: s.operator.ID, After: noon.Add(-time.Hour), Until: noon.Add(48 * time.Hour)})
			if err != nil || moved != want[i] {
				s.Errorf("%s: %s moved %+v, %v; want %+v", when, person, moved, err, want[i])
			}
		}
	}
	check("as counted")
	refill(t)
	check("as filled by the migration")
}

// A sole administrator creates finance logins to move more than one person may.
func sumAcrossLogins(h *harness) {
	s := h.fixture("0")
	h.createLogin("asha", admin.Administrator)
	in := func(name string, role admin.Role) *admin.Service {
		return admin.NewService(h.Store, sealer{}, "web:"+name, func() time.Time { return noon }).WithRole(role, split)
	}
	for _, name := range []string{"one", "two"} {
		made, err := in("asha", admin.Administrator).SubmitLogin(h.Context(), admin.NewLogin{Username: name, Name: name, Role: login.Finance})
		h.must(err)
		if made.Waits() {
			h.Fatalf("login %s waits; want it made, because no other person could approve it", name)
		}
	}
	h.createLogin("independent", admin.Finance)
	for _, one := range []struct {
		name  string
		role  admin.Role
		waits bool
	}{{"one", admin.Finance, false}, {"two", admin.Finance, true}, {"asha", admin.Administrator, true}, {"independent", admin.Finance, false}} {
		operator := h.operator("of " + one.name)
		outcome, err := in(one.name, one.role).SubmitTopUp(h.Context(), admin.TopUp{OperatorID: operator.ID, Amount: rupees("50000"), Reference: "NEFT " + one.name})
		h.must(err)
		if outcome.Waits() != one.waits {
			h.Errorf("50,000.00 by %s: %+v; want it to wait: %v", one.name, outcome, one.waits)
		}
	}
	s.money("after all", "0", "0")
}
