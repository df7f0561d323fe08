package audit_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/subscription"
)

// approvalStore is a healthyStore in which two people then worked in the console:
// proposals 1 to 5 were approved (a top-up, an adjustment, a settlement), declined
// and withdrawn, the sixth is open, and March is closed for the first two operators.
// Asha and Binu have the logins 5 and 6. Then two administrators, 7 and 8, agreed to
// proposals 7 to 10 about login 9: to create it, raise it, and reset its password and
// second factor. Login 10, whom one of them created alone, is switched off, and its
// proposal 11 has lapsed.
func approvalStore(t testing.TB) fixture {
	t.Helper()
	closed, s := healthyEnv(t)
	clerk := func(name string) *admin.Service {
		return admin.NewService(s.store, nil, "web:"+name, func() time.Time { return closed.now }).
			WithRole(admin.Finance, admin.Limits{ApprovalAbove: rupees("100")}).WithOrigin(netip.MustParseAddr("192.0.2.7"))
	}
	for _, name := range []string{"asha", "binu"} {
		s.create(name, login.Finance, 0)
	}
	asha, binu, ctx := clerk("asha"), clerk("binu"), s.Context()
	proposed := must[admin.ActionResult](s)
	topUp := func(reference string) admin.ActionResult {
		return proposed(asha.SubmitTopUp(ctx, admin.TopUp{OperatorID: 2, Amount: rupees("60000"), Reference: reference}))
	}
	for _, wanted := range []admin.ActionResult{
		topUp("NEFT-60"),
		proposed(asha.SubmitAdjustment(ctx, 2, rupees("-2000"), "too much")),
		proposed(asha.SubmitSettlement(ctx, s.keys["open-1"], false, "the provider has no trace of it")),
	} {
		must[admin.ActionResult](s)(binu.Approve(ctx, wanted.Proposal.ID))
	}
	must[admin.Proposal](s)(binu.Decline(ctx, topUp("NEFT-61").Proposal.ID, "no such payment"))
	must[admin.Proposal](s)(asha.Withdraw(ctx, topUp("NEFT-62").Proposal.ID, "typed wrongly"))
	topUp("NEFT-63")
	for _, operator := range []int64{1, 2} {
		must[[]admin.ClosedPeriod](s)(binu.ClosePeriod(ctx, admin.MonthOf(opening), operator))
	}
	for _, entry := range must[[]admin.AuditEntry](s)(asha.AuditPage(ctx, admin.ListQuery{OperatorID: 2})) {
		if entry.Action == "proposal approve" && entry.Subject == "proposal 1" {
			s.keys["approval"] = fmt.Sprint(entry.ID)
		}
	}
	s.giveAccess()
	closed.now = s.now
	s.ok(s.store.Close())
	return closed
}

// giveAccess has two administrators give a login access, and one of them another.
func (s *testEnv) giveAccess() {
	s.create("chitra", login.Administrator, 0)
	s.create("deepa", login.Administrator, 0)
	as := func(name string, role admin.Role) *admin.Service {
		return admin.NewService(s.store, nil, "web:"+name, s.clock).WithRole(role, admin.Limits{})
	}
	chitra, deepa, ctx := as("chitra", admin.Administrator), as("deepa", admin.Administrator), s.Context()
	agreed := func(wanted admin.ActionResult, err error) admin.ActionResult {
		s.Helper()
		s.ok(err)
		s.advance(time.Second)
		return must[admin.ActionResult](s)(deepa.Approve(ctx, wanted.Proposal.ID))
	}
	agreed(chitra.SubmitLogin(ctx, admin.NewLogin{Username: "esha", Name: "Name of esha", Role: login.Finance}))
	agreed(chitra.SubmitRole(ctx, 9, login.Administrator))
	_, _, err := s.service.CreateLogin(ctx, admin.NewLogin{Username: "unused", Name: "Unused", Role: login.Viewer, Password: madeUp})
	s.ok(err)
	s.enrol("esha", agreed(chitra.SubmitPasswordReset(ctx, 9)).Password)
	agreed(chitra.SubmitTOTPReset(ctx, 9))
	proposer := must[login.Person](s)(s.store.LoginNamed(ctx, "unused"))
	must[login.Person](s)(s.service.ChangeLogin(ctx, proposer.ID, admin.LoginChange{Role: new(login.Finance)}))
	must[admin.ActionResult](s)(as("unused", admin.Finance).SubmitTopUp(ctx, admin.TopUp{OperatorID: 2, Amount: rupees("60000"), Reference: "NEFT-64"}))
	s.advance(time.Second)
	must[login.Person](s)(chitra.ChangeLogin(ctx, proposer.ID, admin.LoginChange{Disabled: new(true)}))
	_, _, err = chitra.CreateLogin(ctx, admin.NewLogin{Username: "viewer", Name: "A viewer", Role: login.Viewer})
	s.ok(err)
}

// planStore is a healthyStore in which two people then made a plan, and one of them
// topped a wallet up alone.
func planStore(t testing.TB) fixture {
	t.Helper()
	closed, s := healthyEnv(t)
	clerk := func(name string) *admin.Service {
		return admin.NewService(s.store, nil, "web:"+name, func() time.Time { return closed.now }).
			WithRole(admin.Administrator, admin.Limits{ApprovalAbove: rupees("100"), Window: time.Hour, PriceChange: 20})
	}
	s.create("asha", login.Administrator, 0)
	s.create("binu", login.Administrator, 0)
	asha, binu, ctx := clerk("asha"), clerk("binu"), s.Context()
	plans := must[[]subscription.Plan](s)(asha.Plans(ctx))
	plan := plans[slices.IndexFunc(plans, func(p subscription.Plan) bool { return !p.Retired })]
	plan.ID, plan.Price = "CHEAP-1", subscription.MinPrice
	wanted := must[admin.ActionResult](s)(asha.SubmitPlan(ctx, plan))
	must[admin.ActionResult](s)(binu.Approve(ctx, wanted.Proposal.ID))
	must[admin.ActionResult](s)(asha.SubmitTopUp(ctx, admin.TopUp{OperatorID: 2, Amount: rupees("99"), Reference: "NEFT-99"}))
	acts := must[[]admin.AuditEntry](s)(asha.AuditPage(ctx, admin.ListQuery{}))
	s.keys["topped"], s.keys["planned"] = fmt.Sprint(acts[len(acts)-1].ID), fmt.Sprint(acts[len(acts)-3].ID)
	s.ok(s.store.Close())
	return closed
}

func TestAudit_ApprovedPlanIsClean(t *testing.T) {
	s := planStore(t)
	report, err := audited(t, s.path, s.now)
	if err != nil || !report.OK || report.Counts.Proposals != 1 {
		t.Errorf("%+v, %v; want it clean", report, err)
	}
}

func approvalsMigration() string {
	if pgtest.Chosen() {
		return "6"
	}
	return "8"
}

func TestAudit_ApprovedChangesAreClean(t *testing.T) {
	s := approvalStore(t)
	report, err := audited(t, s.path, s.now)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range report.Violations {
		t.Error(violation)
	}
	if report.Counts.Proposals != 11 || report.Counts.Periods != 2 {
		t.Errorf("%d proposals and %d closed months; want 11 and 2", report.Counts.Proposals, report.Counts.Periods)
	}
}

// A store that no node of this release has opened has no proposals, no closed
// months and no origins, and is proved all the same.
func TestAudit_StoreBeforeProposals(t *testing.T) {
	s := healthyStore(t)
	damage{sql: `DROP TABLE proposals; DROP TABLE commission_periods; ALTER TABLE staff_acts DROP COLUMN origin;
		DELETE FROM schema_tolerance WHERE migration = ` + approvalsMigration()}.plant(t, s)
	report, err := audited(t, s.path, s.now)
	if err != nil || !report.OK || report.Counts.Actions == 0 {
		t.Errorf("%+v, %v; want it clean", report, err)
	}
}

var approvalDamage = []damage{
	{
		name: "a staff action of another origin", want: []string{"A9", "A10"}, subject: "staff action {approval}", store: approvalStore,
		sql: `UPDATE staff_acts SET origin = '192.0.2.8' WHERE id = {approval}`,
	}, {
		name: "an approved plan of another price", want: []string{"A10", "A9"}, subject: "proposal 1", store: planStore,
		sql: `UPDATE staff_acts SET after_state = replace(after_state, '"price":0.01', '"price":0.02') WHERE id = {planned}`,
	}, {
		name: "an amount that counts for less", want: []string{"A10"}, subject: "staff action {topped}", store: planStore,
		sql: `UPDATE staff_amounts SET amount_paise = 1 WHERE act_id = {topped}`,
	}, {
		name: "an amount that counts for another person", want: []string{"A10"}, subject: "staff action {topped}", store: planStore,
		sql: `UPDATE staff_amounts SET person = 'binu' WHERE act_id = {topped}`,
	}, {
		name: "a staff action without its origin", want: []string{"A9", "A10"}, subject: "staff action {approval}", store: approvalStore,
		sql: `UPDATE staff_acts SET origin = '' WHERE id = {approval}`,
	}, {
		name: "an origin for an action that had none", want: []string{"A9"}, subject: "staff action 7",
		sql: `UPDATE staff_acts SET origin = '192.0.2.8' WHERE id = 7`,
	}, {
		name: "a proposal approved by its maker", want: []string{"A10"}, subject: "proposal 1", store: approvalStore,
		sql: `UPDATE proposals SET checker = maker WHERE id = 1`,
	}, {
		name: "a proposal of another amount", want: []string{"A10"}, subject: "proposal 6", store: approvalStore,
		sql: `UPDATE proposals SET amount_paise = amount_paise + 1 WHERE id = 6`,
	}, {
		name: "a proposal for another payment", want: []string{"A10"}, subject: "proposal 6", store: approvalStore,
		sql: `UPDATE proposals SET reference = 'NEFT-64' WHERE id = 6`,
	}, {
		name: "a proposal that was declined and is open again", want: []string{"A10"}, subject: "proposal 4", store: approvalStore,
		sql: `UPDATE proposals SET status = 'open', checker = NULL, decided_at = NULL, answer = '' WHERE id = 4`,
	}, {
		name: "a proposal approved without a staff action", want: []string{"A10"}, subject: "proposal 6", store: approvalStore,
		sql: `UPDATE proposals SET status = 'approved', checker = 'web:binu', decided_at = made_at WHERE id = 6`,
	}, {
		name: "a proposal that lapsed at once", want: []string{"A10"}, subject: "proposal 6", store: approvalStore,
		sql: `UPDATE proposals SET status = 'lapsed', decided_at = made_at WHERE id = 6`,
	}, {
		name: "a proposal that went", want: []string{"A10"}, subject: "proposal 5", store: approvalStore,
		sql: `DELETE FROM proposals WHERE id = 5`,
	}, {
		name: "a proposal without its staff action", want: []string{"A10"}, subject: "proposal 77", store: approvalStore,
		sql: `INSERT INTO proposals (id, kind, operator_id, amount_paise, reference, matter, maker, made_at, status)
		      VALUES (77, 'topup', 1, 5, 'x', 'topup x', 'web:asha', 0, 'open')`,
	}, {
		name: "an approval of something else than was done", want: []string{"A10", "A9"}, subject: "proposal 1", store: approvalStore,
		sql: `UPDATE staff_acts SET after_state = replace(after_state, '60000.00', '70000.00') WHERE id = {approval}`,
	}, {
		name: "an approved login of another role", want: []string{"A10", "A9", "A11"}, subject: "proposal 7", store: approvalStore,
		sql: `UPDATE staff_acts SET after_state = replace(after_state, '"finance"', '"administrator"') WHERE subject = 'login 9' AND action = 'login create'`,
	}, {
		name: "a proposal that lapsed when its maker was not disabled", want: []string{"A10"}, subject: "proposal 11", store: approvalStore,
		sql: `UPDATE proposals SET decided_at = decided_at + 1 WHERE id = 11`,
	}, {
		name: "a grant of a missing login", want: []string{"A11"}, subject: "login 99", store: approvalStore,
		sql: `INSERT INTO login_grants VALUES (99, 'created', 'web:chitra', 1, 1, 0)`,
	}, {
		name: "a grant of an operator's login", want: []string{"A11"}, subject: "login 2", store: approvalStore,
		sql: `INSERT INTO login_grants VALUES (2, 'created', 'web:chitra', 1, 1, 0)`,
	}, {
		name: "a grant of the command line", want: []string{"A11"}, subject: "login 5", store: approvalStore,
		sql: `INSERT INTO login_grants SELECT 5, 'created', actor, 1, 1, at FROM staff_acts WHERE subject = 'login 5' AND action = 'login create'`,
	}, {
		name: "a grant by another person", want: []string{"A11"}, subject: "login 11", store: approvalStore,
		sql: `UPDATE login_grants SET actor = 'web:deepa' WHERE login_id = 11`,
	}, {
		name: "a grant older than it is", want: []string{"A11"}, subject: "login 11", store: approvalStore,
		sql: `UPDATE login_grants SET at = at - 86400000 WHERE login_id = 11`,
	}, {
		name: "one of two who gave a login access taken out", want: []string{"A11"}, subject: "login 9", store: approvalStore,
		sql: `DELETE FROM login_grants WHERE login_id = 9 AND what = 'role' AND actor = 'web:chitra'`,
	}, {
		name: "a commission added to a closed month", want: []string{"C2", "T1"}, subject: "commission 2027-03 of lco 2", store: approvalStore,
		sql: `UPDATE commissions SET created_at = (SELECT max(created_at) FROM commissions WHERE operation_id = '{renew-4}') WHERE operation_id = '{renew-8}'`,
	}, {
		name: "a closed sum that was changed", want: []string{"A9", "C2"}, subject: "commission 2027-03 of lco 1", store: approvalStore,
		sql: `UPDATE commission_periods SET amount_paise = amount_paise + 1 WHERE operator_id = 1`,
	}, {
		name: "a month that was opened again", want: []string{"A9"}, subject: "commission 2027-03 of lco 1", store: approvalStore,
		sql: `DELETE FROM commission_periods WHERE operator_id = 1`,
	}, {
		name: "a month closed without a staff action", want: []string{"A9"}, subject: "commission 2027-03 of lco 4", store: approvalStore,
		sql: `INSERT INTO commission_periods VALUES (4, '2027-03', 0, 0, 'web:binu', 0)`,
	},
}
