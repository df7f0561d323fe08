package simulator

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// state is the state of an order in the provider's records.
type state string

const (
	received   state = ""        // it was received and had no effect
	pending    state = "pending" // in progress; lost in a restart
	applied    state = "applied"
	rejected   state = "rejected"
	voided     state = "voided"
	unknowable state = "unknowable"
)

// order is the record of one reference.
type order struct {
	Reference    string `json:"reference"`
	Kind         string `json:"kind,omitempty"`
	SubscriberID string `json:"subscriber_id,omitempty"`
	Mobile       string `json:"mobile,omitempty"`
	Component    string `json:"component,omitempty"`
	ClientKey    string `json:"client_key,omitempty"`
	Months       int    `json:"months,omitempty"`
	ExpiresAt    string `json:"expires_at,omitempty"`
	State        state  `json:"state"`
	Transaction  string `json:"transaction_id,omitempty"`
	// CarriedOutAt is the time of the decision of an applied order.
	CarriedOutAt time.Time `json:"carried_out_at,omitzero"`
	Message      string    `json:"message,omitempty"`
	// Reverses and ReversesAddon are the orders that a reversal undoes; ReversedBy is the
	// reversal that undid this order, or is about to.
	Reverses      string `json:"order,omitempty"`
	ReversesAddon string `json:"addon_order,omitempty"`
	ReversedBy    string `json:"-"`
}

// Call is one call that the simulator received, and its result.
type Call struct {
	Reference string `json:"reference"`
	// Kind is activate, renew, advance_renew, reset_password, reverse, contact, status, void,
	// orders or catalogue.
	Kind      string `json:"kind"`
	Component string `json:"component"`
	// Applied: this call carried the order out. Over all calls that is true at
	// most once for a reference.
	Applied      bool   `json:"applied"`
	Mobile       string `json:"mobile,omitempty"`
	SubscriberID string `json:"subscriber_id,omitempty"`
	// Outcome is the outcome of an order; empty if it was decided before.
	Outcome Outcome `json:"outcome,omitempty"`
	// Answer is the reply: a status of the protocol, or none, dropped, 503,
	// wrong_reference, conflict, listed.
	Answer        string `json:"answer"`
	Transaction   string `json:"transaction_id,omitempty"`
	Months        int    `json:"months,omitempty"`
	StartDate     string `json:"start_date,omitempty"`
	ExpiresAt     string `json:"expires_at,omitempty"`
	PasswordGiven bool   `json:"password_given,omitempty"`
	// Contact is what a contact call brought.
	Contact *Contact `json:"contact,omitempty"`
	// Traceparent is the header of an order, status or void.
	Traceparent string    `json:"traceparent,omitempty"`
	At          time.Time `json:"at,omitzero"`
}

// book holds the provider's records. One lock guards them, so that an order is
// decided once, even with concurrent calls. The lock is released while a decision
// is written to disk, so that one write can hold many decisions; until it is
// written, its reference can be neither read nor changed.
type book struct {
	mu      sync.Mutex
	orders  map[string]*order
	effects map[string]int
	// carriedOut has the applied orders by transaction number, which begins at 1. An
	// entry is nil while its decision is in flight.
	carriedOut []*order
	calls      []*Call
	byMobile   map[string][]*Call
	lastAt     time.Time // when the last order was carried out
	journal    *journal  // nil: in memory only
	// inFlight holds the references whose decision is being written to disk; the
	// channel is closed when the write ends.
	inFlight map[string]chan struct{}
}

// lockFor locks the book once no decision on a reference is in flight.
func (b *book) lockFor(reference string) {
	for {
		b.mu.Lock()
		done, busy := b.inFlight[reference]
		if !busy {
			return
		}
		b.mu.Unlock()
		<-done
	}
}

// persist writes a decision to disk. It is called with the lock held, releases it
// during the write, and holds it again when it returns.
func (b *book) persist(reference string, happened entry) error {
	lines, err := b.journal.append(happened, synced)
	if err != nil || lines == nil {
		return err // in memory there is nothing to wait for
	}
	done := make(chan struct{})
	b.inFlight[reference] = done
	b.mu.Unlock()
	err = b.journal.flush(lines)
	b.mu.Lock()
	delete(b.inFlight, reference)
	close(done)
	return err
}

// claimResult is the result of claiming a reference for an order.
type claimResult int

const (
	claimed  claimResult = iota // the caller decides the order
	known                       // the order is decided, or pending in another call
	conflict                    // the reference belongs to another order
)

// logCall adds a call to the list before it is handled. A status call has only a
// reference; the customer comes from the records.
func (b *book) logCall(call Call) *Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	if about, found := b.orders[call.Reference]; found && call.Mobile == "" {
		call.Mobile, call.SubscriberID, call.Component = about.Mobile, about.SubscriberID, about.Component
	}
	b.appendCall(&call)
	return &call
}

func (b *book) appendCall(call *Call) {
	b.calls = append(b.calls, call)
	if call.Mobile != "" {
		b.byMobile[call.Mobile] = append(b.byMobile[call.Mobile], call)
	}
}

// claim makes an order pending for the caller, unless its reference is known.
func (b *book) claim(requested order) (order, claimResult) {
	b.lockFor(requested.Reference)
	defer b.mu.Unlock()
	has, found := b.orders[requested.Reference]
	switch {
	case !found:
		requested.State = pending
		b.orders[requested.Reference] = &requested
		return requested, claimed
	case has.State == voided:
		return *has, known
	case has.Kind != requested.Kind || has.SubscriberID != requested.SubscriberID || has.Mobile != requested.Mobile || has.Component != requested.Component,
		has.Reverses != requested.Reverses, has.ReversesAddon != requested.ReversesAddon:
		return *has, conflict
	case has.State == received, has.State == unknowable:
		has.ClientKey, has.Months, has.ExpiresAt = requested.ClientKey, requested.Months, requested.ExpiresAt
		has.State = pending
		return *has, claimed
	}
	return *has, known
}

// setOutcome records the outcome of an order.
func (b *book) setOutcome(call *Call, outcome Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	call.Outcome = outcome
}

// decision is the new state of a pending order, and the reply to it.
type decision struct {
	state   state
	message string
	answer  string
	at      time.Time
}

// decide settles a pending order and returns its record. If it was voided in the
// meantime it stays voided, and nothing is carried out.
func (b *book) decide(call *Call, made decision) (order, error) {
	b.lockFor(call.Reference)
	defer b.mu.Unlock()
	has := b.orders[call.Reference]
	if has.State != pending {
		if made.answer == string(made.state) {
			made.answer = has.toOrder().Status
		}
		b.recordAnswer(call, made.answer)
		return *has, nil
	}
	if made.state == applied && has.Kind == kindReversal {
		if why := b.beginReversal(*has); why != "" {
			made = decision{state: rejected, message: why, answer: "rejected", at: made.at}
		}
	}
	next, said := *has, *call
	next.State, next.Message, said.Answer = made.state, made.message, made.answer
	number := 0
	if made.state == applied {
		number = b.nextNumber()
		next.Transaction, next.CarriedOutAt = fmt.Sprintf("SIM-%08d", number), b.notBeforeLast(made.at)
		said.Applied, said.Transaction = true, next.Transaction
	}
	if err := b.persist(call.Reference, entry{Order: &next, Call: &said}); err != nil {
		if number > 0 {
			b.carriedOut[number-1] = &order{} // this number is not used
			b.markReversed(next, "")
		}
		has.State = received
		b.recordAnswer(call, "503")
		return *has, err
	}
	b.store(next)
	if number > 0 {
		b.carriedOut[number-1] = &next
	}
	*call = said
	return next, nil
}

// nextNumber takes a transaction number, for an order that is in flight until its
// entry is set.
func (b *book) nextNumber() int {
	b.carriedOut = append(b.carriedOut, nil)
	return len(b.carriedOut)
}

// notBeforeLast returns a time for the next order to be carried out: the order of
// the numbers is that of the times, also if the clock was set back.
func (b *book) notBeforeLast(at time.Time) time.Time {
	at = at.Round(0) // without the monotonic clock, which the list does not show
	if at.Before(b.lastAt) {
		return b.lastAt
	}
	b.lastAt = at
	return at
}

// listCarriedOut returns up to limit orders that were carried out at or after a time,
// with transaction numbers after the given one, and the number of the last; 0 if no
// order follows. It ends before the first order that is in flight, because a caller
// who has read past it would miss it. What is not paid for is not listed.
func (b *book) listCarriedOut(since time.Time, after, limit int) (page []order, last int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if after > len(b.carriedOut) {
		return nil, 0, errNoSuchNumber
	}
	for i, has := range b.carriedOut[after:] {
		switch {
		case has == nil:
			return page, 0, nil
		case has.State != applied, !isPaid(has.Kind), has.CarriedOutAt.Before(since):
			continue
		case len(page) == limit:
			return page, last, nil
		}
		listed := *has
		listed.ReversedBy = b.reversedBy(has.Reference)
		page, last = append(page, listed), after+i+1
	}
	return page, 0, nil
}

var errNoSuchNumber = errors.New("no order has this number yet")

// void closes a reference permanently, unless it was carried out.
func (b *book) void(call *Call) (order, error) {
	b.lockFor(call.Reference)
	defer b.mu.Unlock()
	stands := order{
		Reference: call.Reference, SubscriberID: call.SubscriberID, Mobile: call.Mobile, Component: call.Component,
	}
	if has, found := b.orders[call.Reference]; found {
		stands = *has
	}
	switch stands.State {
	case applied:
		b.recordAnswer(call, "applied")
		return stands, nil
	case rejected, voided:
		b.recordAnswer(call, "voided")
		return stands, nil
	case unknowable:
		b.recordAnswer(call, "503")
		return stands, nil
	}
	said := *call
	stands.State, said.Answer = voided, "voided"
	if err := b.persist(call.Reference, entry{Order: &stands, Call: &said}); err != nil {
		b.recordAnswer(call, "503")
		return stands, err
	}
	b.store(stands)
	*call = said
	return stands, nil
}

// store adds a decided order to the records. Orders are carried out only here.
func (b *book) store(decided order) {
	if decided.State == applied {
		b.effects[decided.Reference]++
		b.markReversed(decided, decided.Reference)
	}
	b.orders[decided.Reference] = &decided
}

// lookup returns the record of a reference.
func (b *book) lookup(call *Call) order {
	b.lockFor(call.Reference)
	defer b.mu.Unlock()
	if has, found := b.orders[call.Reference]; found {
		return *has
	}
	return order{Reference: call.Reference}
}

// release ends a pending order without a decision.
func (b *book) release(call *Call, answer string) {
	b.lockFor(call.Reference)
	defer b.mu.Unlock()
	if has := b.orders[call.Reference]; has.State == pending {
		has.State = received
	}
	b.recordAnswer(call, answer)
}

// setAnswer records the reply to a call that changed nothing.
func (b *book) setAnswer(call *Call, answer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recordAnswer(call, answer)
}

func (b *book) recordAnswer(call *Call, answer string) {
	call.Answer = answer
	// If this line is lost, no order is.
	_, _ = b.journal.append(entry{Call: call}, unsynced)
	b.journal.tryFlush()
}

func (b *book) countEffects() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.effects)
}

func (b *book) listCalls(mobile string) []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.calls
	if mobile != "" {
		from = b.byMobile[mobile]
	}
	listed := make([]Call, len(from))
	for i, call := range from {
		listed[i] = *call
	}
	return listed
}

// toOrder returns the reply to an order.
func (o order) toOrder() answer {
	if o.State == voided {
		return answer{Reference: o.Reference, Status: "rejected", Message: "The order was cancelled before it arrived."}
	}
	return o.toStatus()
}

// toVoid returns the reply to a void. A rejected order counts as voided: it will
// never be carried out.
func (o order) toVoid() answer {
	if o.State == applied {
		return o.toStatus()
	}
	return answer{Reference: o.Reference, Status: "voided"}
}

// toStatus returns the reply to a status call.
func (o order) toStatus() answer {
	said := answer{Reference: o.Reference, Status: string(o.State)}
	switch o.State {
	case received:
		said.Status = "unknown_reference"
	case rejected:
		said.Message = o.Message
	case applied:
		said.SubscriberID, said.Mobile, said.Component = o.SubscriberID, o.Mobile, o.Component
		said.Transaction = o.Transaction
		if o.Kind == kindReversal {
			said.Status, said.Order, said.Addon = "reversed", o.Reverses, o.ReversesAddon
		}
	}
	return said
}
