package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The contract's checks, one by one, as the model reads them.

// check is one of the contract's checks: which refusals it allows at a moment, and
// whether a request can pass it then.
type check func(m *model, f *flight, now int64) (refusals []string, passes bool)

// checks are all of them, in the contract's order.
var checks = []check{checkTransport, checkThrottle, checkRoute, checkKey, checkNonce, checkAccount, checkRate, checkPermission, checkForm, checkIdempotency, checkPlan, checkCustomer}

func refuse(answer string) ([]string, bool) { return []string{answer}, false }

func pass() ([]string, bool) { return nil, true }

func checkTransport(m *model, f *flight, _ int64) ([]string, bool) {
	if f.plain {
		return refuse("HTTPS_REQUIRED")
	}
	return pass()
}

func checkThrottle(m *model, f *flight, _ int64) ([]string, bool) {
	if throttled, sure := m.throttled(f); throttled && sure {
		return refuse("TOO_MANY_FAILED_ATTEMPTS")
	} else if throttled {
		return one("TOO_MANY_FAILED_ATTEMPTS"), true
	}
	return pass()
}

func checkRoute(_ *model, f *flight, _ int64) ([]string, bool) {
	if code := map[string]string{
		"path": "NOT_FOUND", "method": "METHOD_NOT_ALLOWED", "size": "PAYLOAD_TOO_LARGE", "header": "MISSING_AUTH_HEADERS",
	}[f.flaw]; code != "" {
		return refuse(code)
	}
	return pass()
}

func checkKey(m *model, f *flight, _ int64) ([]string, bool) {
	if f.key == nil {
		return refuse("INVALID_API_KEY")
	}
	key := m.credentials[f.key.id]
	ts, _ := strconv.ParseInt(f.headers["X-Timestamp"], 10, 64)
	switch {
	case key.Revoked != nil:
		return refuse("CREDENTIAL_REVOKED")
	case key.Expires != nil && *key.Expires <= f.at.UnixMilli():
		return refuse("CREDENTIAL_EXPIRED")
	case ts < f.at.Unix()-300 || ts > f.at.Unix()+300:
		return refuse("TIMESTAMP_EXPIRED")
	case f.flaw == "signature":
		return refuse("INVALID_SIGNATURE")
	case f.flaw == "nonce":
		return refuse("INVALID_NONCE")
	}
	return pass()
}

func checkNonce(m *model, f *flight, _ int64) ([]string, bool) {
	if f.replayable {
		return refuse("REPLAY_DETECTED")
	}
	if f.shared {
		return one("REPLAY_DETECTED"), true // or the other request with the nonce is
	}
	return pass()
}

func checkAccount(m *model, f *flight, _ int64) ([]string, bool) {
	o := m.operators[f.key.operator]
	switch {
	case o.Status == "deleted":
		return refuse("LCO_NOT_FOUND")
	case o.Status == "inactive":
		return refuse("LCO_INACTIVE")
	case o.API == "blocked":
		return refuse("API_ACCESS_BLOCKED")
	case o.API == "disabled":
		return refuse("API_DISABLED")
	case !o.allows(f.address):
		return refuse("IP_NOT_WHITELISTED " + f.address.String())
	}
	return pass()
}

func checkRate(m *model, f *flight, _ int64) ([]string, bool) {
	o := m.operators[f.key.operator]
	if m.used[keyOf(o.ID, fmt.Sprint(f.at.Unix()/60))] >= o.Limit {
		// The last admitted request is itself counted, and not refused.
		return one("RATE_LIMITED"), m.nonces[f.nonceKey()] != ""
	}
	return pass()
}

func checkPermission(m *model, f *flight, _ int64) ([]string, bool) {
	if !slices.Contains(strings.Split(m.credentials[f.key.id].Permissions, ","), permissionOf[f.path]) {
		return refuse("PERMISSION_DENIED")
	}
	return pass()
}

func checkForm(m *model, f *flight, now int64) ([]string, bool) {
	if f.kind == "" {
		return m.expectRead(f, m.operators[f.key.operator], now), false
	}
	if code := map[string]string{
		"media": "UNSUPPORTED_MEDIA_TYPE", "json": "INVALID_JSON", "no key": "MISSING_IDEMPOTENCY_KEY", "bad key": "INVALID_IDEMPOTENCY_KEY",
	}[f.flaw]; code != "" {
		return refuse(code)
	}
	return pass()
}

func one(answer string) []string { return []string{answer} }

// throttled reports whether the address has failed to authenticate too often at this
// process in the last minute. It is not sure if clocks were moved since.
func (m *model) throttled(f *flight) (throttled, sure bool) {
	recent, uncertain := 0, 0
	for _, failed := range f.process.failuresOf(f.address) {
		if failed.timesMoved != m.env.timesMoved() {
			uncertain++
		} else if f.at.Sub(failed.at) < time.Minute {
			recent++
		}
	}
	return recent+uncertain >= failedAuthLimit, recent >= failedAuthLimit && !f.process.isDisturbed()
}

var permissionOf = map[string]string{
	"/api/v1/activate": "Activate", "/api/v1/renew": "Renew", "/api/v1/advance-renew": "Advance Renew", "/api/v1/balance": "Check Balance",
	"/api/v1/plans": "Get Plans", "/api/v1/subscription": "Check Subscription", "/api/v1/transaction": "Check Transaction",
}

// stale reports whether prices were verified too long ago.
func (m *model) stale(now int64) bool { return now-m.verifiedAt > catalogueMaxAge.Milliseconds() }

func (m *model) sells(p *mPlan) bool {
	return p != nil && p.Retired == 0 && !m.unsellable[p.Main] && (p.Addon == nil || !m.unsellable[*p.Addon])
}

func checkIdempotency(m *model, f *flight, _ int64) ([]string, bool) {
	op := m.byKey[keyOf(f.key.operator, f.idem)]
	if op == nil {
		return pass()
	}
	switch {
	case op.Kind != f.kind || op.flight == nil || string(op.flight.body) != string(f.body):
		return refuse("IDEMPOTENCY_KEY_REUSED")
	case op.state == "success":
		return refuse("OK " + op.view())
	case op.state == "failed":
		return refuse("PROVIDER_ERROR " + op.view())
	case op.state == "needs_review":
		return refuse("PENDING_REVIEW " + op.view())
	}
	return refuse("REQUEST_IN_PROGRESS")
}

func checkPlan(m *model, f *flight, now int64) (refusals []string, passes bool) {
	if f.flaw == "fields" {
		return refuse("VALIDATION_ERROR")
	}
	if m.stale(now) {
		// If the provider answers now, the comparison is repeated and the plan is sold.
		refusals = one("PLANS_UNAVAILABLE")
	}
	plan := m.plans[f.fields["plan_id"]]
	if !m.sells(plan) {
		return append(refusals, "INVALID_PLAN"), false
	}
	if !slices.Contains(f.prices, plan.Price) {
		f.prices = append(f.prices, plan.Price)
	}
	return refusals, true
}

// checkCustomer checks the business rules and the balance, on a snapshot of one moment
// and with any price that was in force.
func checkCustomer(m *model, f *flight, now int64) (refusals []string, passes bool) {
	if op := m.byKey[keyOf(f.key.operator, f.idem)]; op != nil && op.flight == f {
		return nil, false // its own reservation is no reason to refuse it
	}
	o := m.operators[f.key.operator]
	if refusal := m.refuseCustomer(f, m.customerOf(f, o), f.fields["plan_id"], now); refusal != "" {
		return refuse(refusal)
	}
	for _, price := range f.prices {
		if o.balance < price {
			refusals = append(refusals, fmt.Sprintf("INSUFFICIENT_BALANCE %s of %s, %s short", rupees(o.balance), rupees(price), rupees(price-o.balance)))
		}
	}
	return refusals, false // if it is not refused, its result is predicted after the reservation
}

func (m *model) customerOf(f *flight, o *mOperator) *mSubscriber {
	id, mobile := f.fields["subscriber_id"], f.fields["mobile"]
	for _, s := range m.subscribers {
		switch {
		case f.kind == "activate":
			if s.Mobile == mobile {
				return s
			}
		case s.Operator != o.ID:
		case id != "" && s.ID == id, id == "" && s.Mobile == mobile:
			return s
		}
	}
	return nil
}

func (m *model) refuseCustomer(f *flight, s *mSubscriber, plan string, now int64) string {
	switch {
	case f.kind == "activate" && s == nil:
		return ""
	case f.kind == "activate" && s.Expires == nil && s.Operator != f.key.operator:
		return "OPERATION_IN_PROGRESS missing" // another operator's, which is not named
	case f.kind == "activate" && s.Expires == nil:
		return "OPERATION_IN_PROGRESS " + s.open
	case f.kind == "activate":
		return "SUBSCRIBER_EXISTS"
	case s == nil:
		return "SUBSCRIBER_NOT_FOUND"
	case s.open != "":
		return "OPERATION_IN_PROGRESS " + s.open
	case s.Reversing != nil:
		return "OPERATION_IN_PROGRESS " + *s.Reversing
	}
	if twin := m.duplicateOf(s.ID, plan, now); twin != nil {
		return "DUPLICATE_REQUEST " + twin.ID
	}
	if f.kind == "advance_renew" && activePlan(s, now) == plan {
		return "PLAN_ALREADY_ACTIVE"
	}
	return ""
}

func (m *model) expectRead(f *flight, o *mOperator, now int64) []string {
	switch f.path {
	case "/api/v1/balance":
		return one("OK " + rupees(o.balance) + " " + fmt.Sprint(o.balance < o.Low))
	case "/api/v1/plans":
		list := []string{}
		for _, id := range keys(m.plans) {
			if p := m.plans[id]; m.sells(p) {
				list = append(list, p.ID+"="+rupees(p.Price)+"/"+fmt.Sprint(p.Months))
			}
		}
		listed := one("OK " + strings.Join(list, " "))
		if m.stale(now) {
			return append(listed, "PLANS_UNAVAILABLE")
		}
		return listed
	case "/api/v1/transaction":
		op := m.byKey[keyOf(o.ID, f.fields["idempotency_key"])]
		if id := f.fields["transaction_id"]; id != "" {
			if op = m.operations[id]; op != nil && op.Operator != o.ID {
				op = nil
			}
		}
		if op == nil {
			return one("TRANSACTION_NOT_FOUND")
		}
		code := map[string]string{"success": "OK", "failed": "PROVIDER_ERROR", "needs_review": "PENDING_REVIEW", "processing": "REQUEST_IN_PROGRESS"}
		return one("OK " + code[op.state] + " " + op.view())
	}
	s := m.customerOf(f, o)
	if s == nil {
		return one("SUBSCRIBER_NOT_FOUND")
	}
	return m.viewsOf(s, f.at.UnixMilli())
}

// viewsOf returns a subscriber as GET /subscription shows it. The plan is that of the
// cycle that began last; before the first cycle, that of the open activation.
func (m *model) viewsOf(s *mSubscriber, now int64) []string {
	status, expiry, days := "pending", "null", int64(0)
	plan, began := "", int64(-1)
	for _, c := range s.cycles {
		if c.Starts <= now && c.Starts >= began {
			plan, began = c.Plan, c.Starts
		}
	}
	pending := ""
	if op := m.operations[s.open]; op != nil {
		pending = op.ID + ":" + op.state
		if s.Expires == nil {
			plan = op.Plan
		}
	}
	if s.Expires != nil {
		expiry, status = india(*s.Expires), "expired"
		if *s.Expires > now {
			status, days = "active", (*s.Expires-now+dayMS-1)/dayMS
		}
	}
	return one("OK " + strings.Join([]string{s.ID, status, fmt.Sprint(status == "active"), expiry, fmt.Sprint(days), plan, pending}, "|"))
}
