package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

var steps = []string{
	">processing", "processing>success", "processing>failed", "processing>needs_review", "needs_review>success", "needs_review>failed",
}

func (m *model) takeEvent(l row) {
	var e struct {
		Operation string  `json:"operation_id"`
		From      *string `json:"from_status"`
		To        string  `json:"to_status"`
		Epoch     int64   `json:"epoch"`
		Node      string  `json:"node"`
		Actor     string  `json:"actor"`
		Reason    string  `json:"reason"`
		At        int64   `json:"at"`
	}
	l.into(&e)
	op := m.operations[e.Operation]
	if op == nil {
		m.violate("S1", e.Operation, "an event to %s of an operation that does not exist", e.To)
		return
	}
	m.touched[op.ID] = true
	from := ""
	if e.From != nil {
		from = *e.From
	}
	if step := from + ">" + e.To; !slices.Contains(steps, step) || from != op.state {
		m.violate("S1", op.ID, "it goes %s and was %q", step, op.state)
	}
	taken := from == "processing" && e.To == "needs_review" && e.Epoch > op.held
	if from != "" && !taken && e.Actor == "" && e.Epoch != op.Epoch {
		m.violate("S1", op.ID, "it was settled under epoch %d while its epoch is %d", e.Epoch, op.Epoch)
	}
	op.state = e.To
	if from == "needs_review" && e.Actor == "" && m.env.provider.hangingNow() {
		m.env.occurred("review settles an operation while a query about another hangs")
	}
	switch {
	case from == "":
		m.reserved(op)
	case taken:
		m.takenOver(op, e.Node)
	case e.To == "success":
		m.succeeded(op, e.Actor)
	case e.To == "failed":
		m.failed(op, e.Actor)
	}
	op.held = op.Epoch
	if !open(op.state) {
		if s := m.subscribers[op.Subscriber]; s != nil && s.open == op.ID {
			s.open = ""
		}
	}
	m.env.occurred("operation " + from + ">" + e.To)
}

// reserved checks everything that must hold for a new operation when its price is
// debited.
func (m *model) reserved(op *mOperation) {
	if op.Epoch != 1 || op.Channel != "api" {
		m.violate("S1", op.ID, "it begins with epoch %d in channel %s", op.Epoch, op.Channel)
	}
	op.by = m.env.processNamed(op.Node)
	m.matchRequest(op)
	plan := m.plans[op.Plan]
	switch {
	case plan == nil || plan.Retired == 1 || m.unsellable[plan.Main] || plan.Addon != nil && m.unsellable[*plan.Addon]:
		if plan == nil || plan.Retired == 1 {
			m.violate("M6", op.ID, "plan %s is not for sale", op.Plan)
		}
	case plan.Price != op.Amount || plan.Months != op.Months || plan.Name != op.PlanName:
		m.violate("M6", op.ID, "it costs %d paise for %d months; plan %s is %d paise for %d", op.Amount, op.Months, op.Plan, plan.Price, plan.Months)
	}
	if o := m.operators[op.Operator]; o.BPS != op.BPS && !(m.env.realTime && o.ratesHad[op.BPS]) {
		// The rate is the operator's at the reservation. In real time the journal
		// does not show which of the two commits was first.
		m.violate("M6", op.ID, "its commission rate is %d; the operator's is %d", op.BPS, o.BPS)
	}
	s := m.subscribers[op.Subscriber]
	if s == nil || s.Operator != op.Operator || s.Mobile != op.Mobile || s.Name != op.Name {
		m.violate("S2", op.ID, "its customer %s is not one of the operator's", op.Subscriber)
		return
	}
	if s.open != "" {
		m.violate("S2", op.ID, "its customer %s is busy with %s", op.Subscriber, m.env.nickname(s.open))
	}
	if s.Reversing != nil {
		m.violate("S2", op.ID, "its customer %s is busy with the reversal of %s", op.Subscriber, m.env.nickname(*s.Reversing))
	}
	s.open = op.ID
	now := op.Created
	if op.Kind == "activate" {
		if s.Expires != nil || op.Previous != nil || op.Planned != now+30*dayMS || op.Starts != now {
			m.violate("S6", op.ID, "an activation at %d that leads to %d", now, op.Planned)
		}
		return
	}
	if s.Expires == nil || op.Previous == nil || *s.Expires != *op.Previous {
		m.violate("S6", op.ID, "it was computed from another expiry than the subscriber has")
		return
	}
	if wantStarts, want := extended(op.Kind, *s.Expires, now, op.Months); op.Planned != want || op.Starts != wantStarts {
		m.violate("S6", op.ID, "a %s of %d months at %d on an expiry of %d: it starts at %d and ends at %d; %d and %d are right",
			op.Kind, op.Months, now, *s.Expires, op.Starts, op.Planned, wantStarts, want)
	}
	// If the clock was set back after the snapshot was read, an earlier renewal can be
	// in the future.
	movedUnder := op.flight == nil || m.env.timesMoved() > op.flight.timesMoved
	if twin := m.duplicateOf(op.Subscriber, op.Plan, now); twin != nil && !(movedUnder && *twin.Completed > now) {
		m.violate("I5", op.ID, "%s was %d ms before, with the same plan", m.env.nickname(twin.ID), now-*twin.Completed)
	}
	if op.Kind == "advance_renew" && activePlan(s, now) == op.Plan {
		m.violate("S6", op.ID, "plan %s is the active one", op.Plan)
	}
}

// matchRequest finds the request that an operation was made for.
func (m *model) matchRequest(op *mOperation) {
	for _, f := range m.requests[keyOf(op.Operator, op.Key)] {
		if f.task == m.env.reserverOf(op.ID) && f.kind == op.Kind && f.fields["plan_id"] == op.Plan && f.names(op) && f.process == op.by {
			op.flight = f
			break
		}
	}
	if op.flight == nil {
		m.violate("I2", op.ID, "no request asked the node %s for a %s of %s under %s", op.Node, op.Kind, op.Plan, op.Key)
	}
}

// takenOver checks that a processing operation is taken over only if its owner crashed,
// was paused or lost the store. An owner without a fault finishes its operation, even
// if the client hangs up.
func (m *model) takenOver(op *mOperation, node string) {
	m.env.occurred("an operation is taken over")
	if m.env.realTime {
		return // whether the owner had a fault then is not known
	}
	excused := op.flight == nil || op.flight.excused || op.by == nil || op.by.isDisturbed() || m.env.timesMoved() > op.flight.timesMoved || m.env.skewed()
	if !excused {
		m.violate("S4", op.ID, "%s took it over from %s, which met no fault", node, op.Node)
	}
}

func (m *model) succeeded(op *mOperation, actor string) {
	op.person = actor != ""
	if n := m.env.provider.effectsOf(op.ID); n != 1 && actor == "" {
		m.violate("S9", op.ID, "it succeeded, and the provider carried it out %d times", n)
	}
	if s := m.subscribers[op.Subscriber]; s == nil || s.Expires == nil || *s.Expires != op.Planned {
		m.violate("S6", op.ID, "it succeeded, and its subscriber's expiry is not %d", op.Planned)
	} else if last := s.cycles[len(s.cycles)-1]; last.Operation == nil || *last.Operation != op.ID || last.Plan != op.Plan || last.Ends != op.Planned {
		m.violate("S6", op.ID, "it succeeded, and the last cycle is not its own")
	}
}

// failed checks a refund: either the provider has reported that it did nothing and
// never will, or a person decided.
func (m *model) failed(op *mOperation, actor string) {
	op.person = actor != ""
	if actor != "" {
		return
	}
	p := m.env.provider
	p.mu.Lock()
	o := p.orders[op.ID]
	var ordered, effects int
	var rejected, voided, ignoresVoid bool
	if o != nil {
		ordered, effects, rejected, voided, ignoresVoid = o.ordered, o.effects, o.rejected, o.voided, o.ignoresVoid
	}
	p.mu.Unlock()
	ok := false
	switch reason := *op.Reason; reason {
	case "PROVIDER_REJECTED":
		ok = rejected || voided
	case "NOT_CONFIRMED":
		ok = voided || rejected
	case "PROVIDER_UNREACHABLE":
		ok = ordered == 0
	}
	if !ok || effects > 0 && !ignoresVoid {
		m.violate("S9", op.ID, "it is refunded as %s; the provider was asked %d times, did it %d times, rejected %v, voided %v",
			*op.Reason, ordered, effects, rejected, voided)
	}
}

// duplicateOf returns a renewal of the same subscriber and plan that succeeded less
// than two minutes before.
func (m *model) duplicateOf(subscriber, plan string, now int64) *mOperation {
	var latest *mOperation
	for _, op := range m.operations {
		if op.Subscriber == subscriber && op.Plan == plan && op.Kind != "activate" && op.state == "success" && op.Reversed == nil && *op.Completed > now-120_000 {
			if latest == nil || *op.Completed > *latest.Completed || *op.Completed == *latest.Completed && op.ID > latest.ID {
				latest = op
			}
		}
	}
	return latest
}

// The model's calendar: days are days in India, 5 h 30 min ahead of UTC.

const (
	dayMS      = 24 * 60 * 60 * 1000
	indiaAhead = (5*60 + 30) * 60 * 1000
)

func indianMidnight(ms int64) int64 { return (ms+indiaAhead)/dayMS*dayMS - indiaAhead }

// extended returns when the cycle of a renewal or advance renewal begins, and when the
// subscription then ends.
func extended(kind string, expires, now, months int64) (starts, ends int64) {
	term := months * 30 * dayMS
	if kind == "renew" {
		return now, max(expires, now) + term
	}
	start := indianMidnight(now)
	if expires > now {
		start = min(indianMidnight(expires)+dayMS, start+29*dayMS)
	}
	start = max(start, now)
	return start, max(expires, start, now) + term
}

// activePlan returns the plan of the cycle that began last, if the subscription has
// not expired.
func activePlan(s *mSubscriber, now int64) string {
	if s.Expires == nil || *s.Expires <= now {
		return ""
	}
	plan, began := "", int64(-1)
	for _, c := range s.cycles {
		if c.Starts <= now && c.Starts >= began {
			plan, began = c.Plan, c.Starts
		}
	}
	return plan
}

func india(ms int64) string {
	return millis(ms).Add(indiaAhead * time.Millisecond).Format("2006-01-02 15:04:05")
}

func rupees(paise int64) string {
	sign := ""
	if paise < 0 {
		sign, paise = "-", -paise
	}
	return fmt.Sprintf("%s%d.%02d", sign, paise/100, paise%100)
}

// view formats an operation as every answer must show it, in one line.
func (op *mOperation) view() string {
	after, charged := op.Before-op.Amount, int64(0)
	completed, planned, start, previous, txn := "null", "null", "null", "null", "null"
	switch op.state {
	case "failed":
		after = op.Before
	case "success":
		charged, planned = op.Amount, india(op.Planned)
	}
	if op.Completed != nil {
		completed = india(*op.Completed)
	}
	if op.Previous != nil {
		previous = india(*op.Previous)
	}
	if op.ProviderTxn != nil {
		txn = *op.ProviderTxn
	}
	if op.Kind == "advance_renew" {
		start = india(op.Starts)[:10]
	}
	warnings := ""
	if op.state == "success" && op.Addon != nil && *op.AddonStatus != "success" {
		warnings = "COMBO_SECONDARY_FAILED"
	}
	reason := ""
	if op.Reason != nil {
		reason = *op.Reason
	}
	return strings.Join([]string{
		op.ID, op.Key, op.Kind, op.state, op.Channel, op.Subscriber, op.Name, op.Mobile, txn, op.Plan, fmt.Sprint(op.Months),
		rupees(op.Amount), previous, planned, start, rupees(op.Before), rupees(after), rupees(charged),
		fmt.Sprint(op.state == "failed"), fmt.Sprint(open(op.state)), warnings, india(op.Created), completed, reason,
	}, "|")
}
