package sim

import (
	"fmt"
	"strings"
	"time"
)

// Which answers are allowed: an answer must have been true at some moment between the
// request's start and its end.

// begin registers a request as its handler starts.
func (m *model) begin(f *flight) {
	f.at = f.process.node.now()
	f.allowed = map[string]bool{}
	f.timesMoved = m.env.timesMoved()
	if f.key != nil {
		f.replayable = m.nonces[f.nonceKey()] != ""
		for other := range m.flights {
			if other.nonceKey() == f.nonceKey() {
				f.shared, other.shared = true, true
			}
		}
		if f.kind != "" && f.idem != "" {
			m.requests[keyOf(f.key.operator, f.idem)] = append(m.requests[keyOf(f.key.operator, f.idem)], f)
		}
		minute := keyOf(f.key.operator, fmt.Sprint(f.at.Unix()/60))
		m.limits[minute] = max(m.limits[minute], m.operators[f.key.operator].Limit)
	}
	m.flights[f] = true
	m.consider(f, f.at)
	if f.key != nil && !f.replayable {
		m.env.capture(f)
	}
}

// look updates the allowed answers of a request as one of its tasks passes a gate: with
// the time at which it arrived there, and with the present time.
func (m *model) look(s *waiter) {
	if s.process == nil {
		return
	}
	task, _, _ := strings.Cut(s.who, "/")
	for f := range m.flights {
		if f.task == task {
			m.consider(f, s.process.node.now())
			m.consider(f, s.process.node.now().Add(-time.Since(s.since)))
		}
	}
}

// consider adds the answers that a request may get if it is checked now. The checks
// run one after the other, each at its own moment: a check counts as soon as those
// before it could have been passed.
func (m *model) consider(f *flight, now time.Time) {
	for i := 0; i < len(checks) && i <= f.stage; i++ {
		refusals, passes := checks[i](m, f, now.UnixMilli())
		for _, would := range refusals {
			f.allowed[would] = true
		}
		if passes && i == f.stage {
			f.stage++
		}
	}
}

// excuse notes that a task met a fault, so that its request may get a 5xx.
func (m *model) excuse(task string) {
	m.faulted[task] = true
	task, _, _ = strings.Cut(task, "/")
	for f := range m.flights {
		if f.task == task {
			f.excused = true
		}
	}
	for _, op := range m.operations {
		if op.flight != nil && op.flight.task == task {
			op.flight.excused = true
		}
	}
}

// died drops the requests of a process that has ended.
func (m *model) died(l *process) {
	for f := range m.flights {
		if f.process == l {
			delete(m.flights, f)
		}
	}
}

// answered checks an answer against the allowed ones.
func (m *model) answered(f *flight, a answer) {
	now := f.process.node.now()
	m.consider(f, now)
	delete(m.flights, f)
	m.env.occurred("code " + a.code)
	said := a.normal(f)
	m.env.trace.answer(f, a)
	if !f.allowed[said] && !m.excusable(f, a) {
		m.violate("S7", f.task, "%s %s was told\n      %s\n    where only these were true:\n      %s", f.method, f.path, said, strings.Join(keys(f.allowed), "\n      "))
	}
	m.checkDelay(f)
	m.checkAdmission(f, a)
	if f.kind != "" && a.isResult() {
		m.checkResult(f, a)
	}
}

// excusable reports whether an answer that asks the client to retry is justified by a
// fault of the node, its store, the clocks or the provider.
func (m *model) excusable(f *flight, a answer) bool {
	disturbed := f.excused || f.process.isDisturbed() || f.timesMoved != m.env.timesMoved()
	switch a.code {
	case "SERVICE_UNAVAILABLE":
		return disturbed || f.kind != "" && m.env.provider.recentlyFailed()
	case "INTERNAL_ERROR", "REQUEST_IN_PROGRESS", "BAD_REQUEST":
		return disturbed
	case "PLANS_UNAVAILABLE":
		return m.stale(f.process.node.now().UnixMilli()) || disturbed && f.timesMoved != m.env.timesMoved()
	}
	return f.timesMoved != m.env.timesMoved() && clockCodes[a.code] || f.process.isDisturbed() && a.code == "TOO_MANY_FAILED_ATTEMPTS"
}

// clockCodes are codes that depend on the time; if clocks are moved during a request,
// they are allowed.
var clockCodes = map[string]bool{"TIMESTAMP_EXPIRED": true, "RATE_LIMITED": true, "DUPLICATE_REQUEST": true, "PLAN_ALREADY_ACTIVE": true}

// checkAdmission: a nonce lets one request in, and a minute no more than its
// limit.
func (m *model) checkAdmission(f *flight, a answer) {
	if f.key == nil || a.limit == "" {
		return // refused before it was counted
	}
	if by := m.nonces[f.nonceKey()]; by != a.request && !m.outlived(f.nonceKey(), f) {
		m.violate("A1", f.task, "the nonce %s let in request %s, and was used by %q", f.headers["X-Nonce"], a.request, by)
	}
	if a.code == "RATE_LIMITED" {
		return
	}
	minute := keyOf(f.key.operator, fmt.Sprint(a.reset/60-1))
	m.accepted[minute]++
	if limit := m.limits[minute]; limit > 0 && m.accepted[minute] > limit {
		m.violate("A6", f.task, "operator %d had %d requests let in in one minute; %d are allowed", f.key.operator, m.accepted[minute], limit)
	}
}

// checkResult: one answer of an operation is the original, all others are replays, and
// only the original may contain a password.
func (m *model) checkResult(f *flight, a answer) {
	op := m.byKey[keyOf(f.key.operator, f.idem)]
	if op == nil {
		return // already reported as not allowed
	}
	own := op.flight == f
	if a.replayed == own {
		m.violate("I1", op.ID, "Idempotent-Replayed is %v on an answer that is its own: %v", a.replayed, own)
	}
	if !a.replayed {
		if m.results[op.ID]++; m.results[op.ID] > 1 {
			m.violate("I1", op.ID, "it was answered as new twice")
		}
	}
	given := f.fields["password"] != ""
	if want := op.Kind == "activate" && own && !given && a.code != "PROVIDER_ERROR"; a.password != want {
		m.violate("A7", op.ID, "a password in the answer: %v; replayed: %v", a.password, a.replayed)
	}
}
