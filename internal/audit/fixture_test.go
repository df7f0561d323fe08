package audit_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// setUp creates the accounts and the catalogue.
func (s *testEnv) setUp() {
	ctx := s.Context()
	s.ok(s.store.RecordComparison(ctx, catalogue.Comparison{Provider: "test", At: opening, Components: []catalogue.Component{
		{Code: "TV", Name: "TV", Role: catalogue.Main}, {Code: "OTT", Name: "OTT", Role: catalogue.Addon},
	}}))
	plan := func(id, price string, months int) subscription.Plan {
		return subscription.Plan{ID: id, Name: "Plan " + id, Price: rupees(price), Months: months, Type: subscription.Standard, Main: "TV"}
	}
	combo := plan("COMBO-1", "499", 1)
	combo.Type, combo.Addon = subscription.Combo, "OTT"
	for _, p := range []subscription.Plan{plan("BASIC-1", "199", 1), plan("FAMILY-3", "999.99", 3), combo, plan("OLD-1", "99", 1)} {
		must[subscription.Plan](s)(s.service.SetPlan(ctx, p))
	}
	s.advance(time.Minute)
	s.ok(s.service.RetirePlan(ctx, "OLD-1"))

	for i, name := range []string{"Asha Cable", "Binu Net", "Chandra", "Devi", "Esha"} {
		must[subscription.Operator](s)(s.service.CreateOperator(ctx, name, admin.OperatorChange{CommissionBPS: new(250 * i)}))
	}
	s.topUp(1, "20000", "NEFT-1")
	s.topUp(2, "9000.50", "NEFT-2")
	s.topUp(2, "500", "UPI 77")
	s.topUp(3, "10", "cash")
	must[subscription.Wallet](s)(s.service.Adjust(ctx, 2, rupees("-250.25"), "entered twice"))
	must[subscription.Wallet](s)(s.service.Adjust(ctx, 1, rupees("12.34"), "rounding"))
	must[subscription.Operator](s)(s.service.ChangeOperator(ctx, 2, admin.OperatorChange{CommissionBPS: new(1333), RateLimit: new(600)}))
	must[subscription.Operator](s)(s.service.ChangeOperator(ctx, 4, admin.OperatorChange{Status: new(subscription.OperatorInactive)}))
	s.ok(s.service.DeleteOperator(ctx, 4))
	must[subscription.Operator](s)(s.service.UndeleteOperator(ctx, 4))
	s.ok(s.service.DeleteOperator(ctx, 5))

	first := must[admin.IssuedKey](s)(s.service.IssueKey(ctx, 1, access.AllPermissions))
	second := must[admin.IssuedKey](s)(s.service.IssueKey(ctx, 2, access.PermissionsOf(access.Renew, access.CheckBalance)))
	must[admin.IssuedKey](s)(s.service.RotateKey(ctx, first.ID, time.Hour))
	s.ok(s.service.PermitKey(ctx, second.ID, access.PermissionsOf(access.Renew)))
	s.ok(s.service.RevokeKey(ctx, second.ID))
	for _, address := range []string{"203.0.113.7", "198.51.100.0/24", "2001:db8::/48"} {
		_, err := s.service.AllowAddress(ctx, 1, address)
		s.ok(err)
	}
	_, err := s.service.DisallowAddress(ctx, 1, "198.51.100.0/24")
	s.ok(err)
	_, err = s.service.AllowAddress(ctx, 2, "192.0.2.1")
	s.ok(err)
	_, err = s.service.DisallowAddress(ctx, 2, "192.0.2.1")
	s.ok(err)
	s.createLogins()
	s.advance(time.Hour)
}

func (s *testEnv) topUp(operator int64, amount, reference string) {
	s.Helper()
	_, credited, err := s.service.TopUp(s.Context(), admin.TopUp{OperatorID: operator, Amount: rupees(amount), Reference: reference})
	if err != nil || !credited {
		s.Fatalf("top up: %v, %v", credited, err)
	}
}

// trade makes a few dozen operations with all kinds of outcomes.
func (s *testEnv) trade() {
	const activate, renew, advance = operation.Activate, operation.Renew, operation.AdvanceRenew
	s.order(1, activate, "activate-1", "BASIC-1", "100001", "success")
	s.order(1, activate, "activate-2", "FAMILY-3", "100002", "success") // thirty days, whatever the plan
	s.order(1, activate, "activate-3", "BASIC-1", "100003", "failed")
	s.order(2, activate, "activate-4", "BASIC-1", "100003", "success") // the id is free again, for anybody
	s.order(2, activate, "activate-5", "COMBO-1", "100005", "success")
	s.order(2, activate, "activate-10", "COMBO-1", "100010", "success")
	plansTerm := operation.NewProcessor(crashableStore{s.store, s}, s.prices(), s, operation.NewBreaker(nil), s.config(subscription.PlanTerm))
	s.orderBy(plansTerm, operation.API, 2, activate, "activate-6", "FAMILY-3", "100006", "success")
	s.orderBy(s.processor, operation.Web, 1, activate, "activate-7", "BASIC-1", "100007", "success")
	s.order(1, activate, "activate-8", "BASIC-1", "100008", "review")
	s.settle("activate-8", true)
	s.order(1, activate, "activate-9", "BASIC-1", "100009", "review")
	s.settle("activate-9", false)

	s.order(1, renew, "renew-1", "BASIC-1", "100001", "success")
	s.order(1, renew, "renew-2", "BASIC-1", "100001", "success")
	s.order(1, renew, "renew-9", "BASIC-1", "100001", "failed")
	s.order(1, renew, "renew-3", "FAMILY-3", "100001", "failed")
	s.order(1, advance, "advance-1", "FAMILY-3", "100001", "success") // beyond the cap
	s.orderBy(s.processor, operation.Web, 2, renew, "renew-4", "BASIC-1", "100003", "success")
	s.order(2, advance, "advance-2", "BASIC-1", "100005", "success") // the day after
	s.order(2, advance, "advance-3", "FAMILY-3", "100005", "review")
	s.settle("advance-3", true)

	plan := must[[]subscription.Plan](s)(s.service.Plans(s.Context()))[0]
	plan.Price = rupees("229")
	must[subscription.Plan](s)(s.service.SetPlan(s.Context(), plan))
	s.advance(40 * 24 * time.Hour)
	s.order(1, renew, "renew-5", "BASIC-1", "100002", "success")      // at the new price, expired
	s.order(1, advance, "advance-4", "FAMILY-3", "100007", "success") // expired: from today
	must[subscription.Operator](s)(s.service.ChangeOperator(s.Context(), 1, admin.OperatorChange{CommissionBPS: new(175)}))
	s.order(1, renew, "renew-6", "BASIC-1", "100008", "success") // at the new rate

	csv := "lco,subscriber_id,mobile,name,plan_id,expiry\n" +
		"1,200001,9811100001,Imported One,BASIC-1,2027-06-01 00:00:00\n" +
		"2,200002,9811100002,Imported Two,FAMILY-3,2026-01-01 00:00:00\n"
	report, err := s.service.ImportSubscribers(s.Context(), strings.NewReader(csv), false, func(int, int) {})
	if err != nil || report.Added != 2 {
		s.Fatalf("import: %+v, %v", report, err)
	}
	s.advance(time.Minute)
	s.order(1, renew, "renew-7", "BASIC-1", "200001", "success")
	s.order(2, renew, "renew-8", "BASIC-1", "200002", "success")
	s.decide()
	s.admit()
	for i := range 12 {
		s.order(1, activate, fmt.Sprintf("bulk-%d", i), "BASIC-1", fmt.Sprintf("3000%02d", i), []string{"success", "success", "failed"}[i%3])
	}

	// Operations that stay open, last so that their leases are valid at the audit.
	s.order(1, activate, "open-1", "BASIC-1", "100011", "review")
	s.order(1, renew, "open-2", "BASIC-1", "100007", "review")
	s.order(2, activate, "open-3", "COMBO-1", "100012", "crash")
	s.order(1, renew, "open-4", "BASIC-1", "100001", "crash")
	s.advance(-10 * time.Minute)
}

// decide has staff close an add-on and one of two exceptions.
func (s *testEnv) decide() {
	ctx := s.Context()
	s.ok(s.service.CloseAddon(ctx, s.keys["activate-5"], "it is not sold there"))
	for _, key := range []string{"activate-9", "renew-3"} {
		s.ok(s.store.CloseLateCheck(ctx, operation.LateCheck{OperationID: s.keys[key], Node: "node-1", Exception: &operation.Exception{
			OperationID: s.keys[key], Kind: operation.LateSuccess, Detail: "carried out after all", At: s.clock(),
		}}))
	}
	exceptions := must[[]admin.ExceptionEntry](s)(s.service.Exceptions(ctx, false))
	s.ok(s.service.CloseException(ctx, exceptions[0].ID, "settled with the operator"))
	s.advance(time.Minute)
}

// admit admits requests, in one minute as many as the operator's limit.
func (s *testEnv) admit() {
	record := func(key int64) access.Admission {
		credential := must[access.Credential](s)(s.store.Key(s.Context(), key))
		operator := must[subscription.Operator](s)(s.store.Operator(s.Context(), credential.OperatorID))
		return access.Admission{
			CredentialID: key, OperatorID: operator.ID, CredentialVersion: credential.Version, OperatorVersion: operator.Version,
			Limit: operator.RateLimit, Count: true,
		}
	}
	for _, key := range []int64{1, 2, 3} {
		for i := range 61 {
			a := record(key)
			a.Nonce, a.RequestID, a.Now = fmt.Sprintf("nonce-%04d", i), fmt.Sprintf("req_%d_%d", key, i), s.clock()
			admitted, err := s.store.Admit(s.Context(), a)
			if err != nil || admitted.Replayed || admitted.Fresh != nil {
				s.Fatalf("request %d of key %d: %+v, %v", i, key, admitted, err)
			}
		}
		s.advance(time.Minute)
	}
}
