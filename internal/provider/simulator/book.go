package simulator

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// state is where an order stands in the provider's books.
type state string

const (
	heard      state = ""        // it came by and left nothing behind
	pending    state = "pending" // it is being worked on; forgotten by a restart
	applied    state = "applied"
	rejected   state = "rejected"
	voided     state = "voided"
	unknowable state = "unknowable"
)

// order is one reference in the books.
type order struct {
	Reference    string `json:"reference"`
	Kind         string `json:"kind,omitempty"`
	SubscriberID string `json:"subscriber_id,omitempty"`
	Mobile       string `json:"mobile,omitempty"`
	Component    string `json:"component,omitempty"`
	State        state  `json:"state"`
	Transaction  string `json:"transaction_id,omitempty"`
	Message      string `json:"message,omitempty"`
}

// Call is one thing the simulator was asked, and what it did.
type Call struct {
	Reference string `json:"reference"`
	// Kind is activate, renew, advance_renew, reset_password, status, void or
	// catalogue.
	Kind      string `json:"kind"`
	Component string `json:"component"`
	// Applied: this call carried the order out. Over all calls that is true at
	// most once for a reference.
	Applied      bool   `json:"applied"`
	Mobile       string `json:"mobile,omitempty"`
	SubscriberID string `json:"subscriber_id,omitempty"`
	// Outcome is what an order met; empty where the books had the answer.
	Outcome Outcome `json:"outcome,omitempty"`
	// Answer is what was said: a status of the protocol, or none, dropped,
	// 503, wrong_reference, conflict, listed.
	Answer        string    `json:"answer"`
	Transaction   string    `json:"transaction_id,omitempty"`
	Months        int       `json:"months,omitempty"`
	StartDate     string    `json:"start_date,omitempty"`
	ExpiresAt     string    `json:"expires_at,omitempty"`
	PasswordGiven bool      `json:"password_given,omitempty"`
	At            time.Time `json:"at,omitzero"`
}

// book is the provider's memory. Everything in it happens under one lock, so
// that an order is decided once however many calls name it. The lock is let go
// only while a decision travels to the disk, for many can share one journey; its
// reference is nobody's to read or change until it has arrived.
type book struct {
	mu       sync.Mutex
	orders   map[string]*order
	effects  map[string]int
	numbered int // transaction numbers given out
	calls    []*Call
	byMobile map[string][]*Call
	journal  *journal // nil: in memory only
	// travelling holds the references with a decision on its way to the disk;
	// the channel is closed when that is over.
	travelling map[string]chan struct{}
}

// lockFor locks the book when nothing about a reference is under way.
func (b *book) lockFor(reference string) {
	for {
		b.mu.Lock()
		arrival, under := b.travelling[reference]
		if !under {
			return
		}
		b.mu.Unlock()
		<-arrival
	}
}

// record writes a decision to the disk. It is called with the lock held, lets go
// of it meanwhile, and holds it again when it returns.
func (b *book) record(reference string, happened entry) error {
	lines, err := b.journal.put(happened, durably)
	if err != nil || lines == nil {
		return err // in memory there is nothing to wait for
	}
	arrival := make(chan struct{})
	b.travelling[reference] = arrival
	b.mu.Unlock()
	err = b.journal.flush(lines)
	b.mu.Lock()
	delete(b.travelling, reference)
	close(arrival)
	return err
}

// standing is how an order that comes in relates to the books.
type standing int

const (
	taken   standing = iota // it is the caller's to decide
	known                   // it is decided, or somebody else is at it
	another                 // the reference belongs to another order
)

// hear lists a call before anything is done about it. A question names only a
// reference; whose it is the books may know.
func (b *book) hear(call Call) *Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	if about, found := b.orders[call.Reference]; found && call.Mobile == "" {
		call.Mobile, call.SubscriberID, call.Component = about.Mobile, about.SubscriberID, about.Component
	}
	b.list(&call)
	return &call
}

func (b *book) list(call *Call) {
	b.calls = append(b.calls, call)
	if call.Mobile != "" {
		b.byMobile[call.Mobile] = append(b.byMobile[call.Mobile], call)
	}
}

// take makes an order pending in the caller's hands, unless the books have it.
func (b *book) take(asked order) (order, standing) {
	b.lockFor(asked.Reference)
	defer b.mu.Unlock()
	has, found := b.orders[asked.Reference]
	switch {
	case !found:
		asked.State = pending
		b.orders[asked.Reference] = &asked
		return asked, taken
	case has.State == voided:
		return *has, known
	case has.Kind != asked.Kind || has.SubscriberID != asked.SubscriberID || has.Mobile != asked.Mobile || has.Component != asked.Component:
		return *has, another
	case has.State == heard, has.State == unknowable:
		has.State = pending
		return *has, taken
	}
	return *has, known
}

// meets notes which outcome an order was given.
func (b *book) meets(call *Call, outcome Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	call.Outcome = outcome
}

// decision is what is to become of a pending order, and what is said about it.
type decision struct {
	state   state
	message string
	answer  string
}

// decide settles a pending order and returns it as it then stands. If it was
// voided in the meantime, that stands and nothing is carried out.
func (b *book) decide(call *Call, made decision) (order, error) {
	b.lockFor(call.Reference)
	defer b.mu.Unlock()
	has := b.orders[call.Reference]
	if has.State != pending {
		if made.answer == string(made.state) {
			made.answer = has.toOrder().Status
		}
		b.note(call, made.answer)
		return *has, nil
	}
	next, said := *has, *call
	next.State, next.Message, said.Answer = made.state, made.message, made.answer
	if made.state == applied {
		b.numbered++
		next.Transaction = fmt.Sprintf("SIM-%08d", b.numbered)
		said.Applied, said.Transaction = true, next.Transaction
	}
	if err := b.record(call.Reference, entry{Order: &next, Call: &said}); err != nil {
		has.State = heard
		b.note(call, "503")
		return *has, err
	}
	b.enter(next)
	*call = said
	return next, nil
}

// void closes a reference for good, unless it was carried out.
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
		b.note(call, "applied")
		return stands, nil
	case rejected, voided:
		b.note(call, "voided")
		return stands, nil
	case unknowable:
		b.note(call, "503")
		return stands, nil
	}
	said := *call
	stands.State, said.Answer = voided, "voided"
	if err := b.record(call.Reference, entry{Order: &stands, Call: &said}); err != nil {
		b.note(call, "503")
		return stands, err
	}
	b.enter(stands)
	*call = said
	return stands, nil
}

// enter makes a decided order part of the books. It is the one place where
// something is carried out.
func (b *book) enter(decided order) {
	if decided.State == applied {
		b.effects[decided.Reference]++
	}
	b.orders[decided.Reference] = &decided
}

// look returns a reference as it stands.
func (b *book) look(call *Call) order {
	b.lockFor(call.Reference)
	defer b.mu.Unlock()
	if has, found := b.orders[call.Reference]; found {
		return *has
	}
	return order{Reference: call.Reference}
}

// letGo gives a pending order up without a trace but that it came by.
func (b *book) letGo(call *Call, answer string) {
	b.lockFor(call.Reference)
	defer b.mu.Unlock()
	if has := b.orders[call.Reference]; has.State == pending {
		has.State = heard
	}
	b.note(call, answer)
}

// answered notes what was said to a call that changed nothing.
func (b *book) answered(call *Call, answer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(call, answer)
}

func (b *book) note(call *Call, answer string) {
	call.Answer = answer
	// Losing this line loses no order.
	_, _ = b.journal.put(entry{Call: call}, sometime)
	b.journal.flushSoon()
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

// toOrder answers an order with what the books say.
func (o order) toOrder() answer {
	if o.State == voided {
		return answer{Reference: o.Reference, Status: "rejected", Message: "The order was cancelled before it arrived."}
	}
	return o.toStatus()
}

// toVoid answers a void: of what was rejected, too, nothing will ever come.
func (o order) toVoid() answer {
	if o.State == applied {
		return o.toStatus()
	}
	return answer{Reference: o.Reference, Status: "voided"}
}

// toStatus answers the question what became of a reference.
func (o order) toStatus() answer {
	said := answer{Reference: o.Reference, Status: string(o.State)}
	switch o.State {
	case heard:
		said.Status = "unknown_reference"
	case rejected:
		said.Message = o.Message
	case applied:
		said.SubscriberID, said.Mobile, said.Component = o.SubscriberID, o.Mobile, o.Component
		said.Transaction = o.Transaction
	}
	return said
}
