package admin

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// CustomerContactChange is the action of a change of a customer's contact data. It needs no
// role: an operator's own people make it.
const CustomerContactChange = "contact change"

// ContactState says whether the provider has the latest contact data.
type ContactState string

const (
	ContactUnchanged   ContactState = "" // the provider has been told of no change, and needs not
	ContactUntold      ContactState = "untold"
	ContactTold        ContactState = "told"
	ContactUnsupported ContactState = "unsupported" // the provider takes no contact data
	ContactRefused     ContactState = "refused"
)

// ContactChange is one changed field.
type ContactChange struct {
	Field, Old, New string
	// Actor is as in the audit log; Name is the person's, if there is still such a login.
	Actor, Name string
	At          time.Time
}

// ContactRecord is a subscriber's contact data and what became of it.
type ContactRecord struct {
	operation.Contact
	SubscriberID, Mobile string
	// Version is the number of the latest change; zero before the first.
	Version int64
	// Settled: the subscriber's activation is.
	Settled bool
	// State, and the provider's message and the time of the last try, are about Version.
	State   ContactState
	Message string
	At      time.Time
	// Changes are the latest ones, newest first.
	Changes []ContactChange
}

// ContactEdit is a change of contact data by an operator's own people.
type ContactEdit struct {
	OperatorID   int64
	SubscriberID string
	// Seen is the version that the editor was shown.
	Seen    int64
	Contact operation.Contact
}

// BoxQuery looks for another of an operator's subscribers who has a box number, however its letters
// are written.
type BoxQuery struct {
	OperatorID int64
	BoxNumber  string
	// Except is the subscriber whom it is asked for; empty for a new one.
	Except string
}

// BoxHolder is a subscriber who has a box number.
type BoxHolder struct{ SubscriberID, Name string }

// ErrContactChanged refuses an edit of contact data that has changed since it was shown.
var ErrContactChanged = errors.New("the contact data has changed since it was shown")

// ContactStore keeps contact data and its changes.
type ContactStore interface {
	// Contact reads the contact data of an operator's own subscriber with its latest changes;
	// false if there is no such subscriber.
	Contact(ctx context.Context, operatorID int64, subscriberID string, changes int) (ContactRecord, bool, error)
	// BoxHolder finds who has a box number; false if nobody else has. Two may have the same one.
	BoxHolder(ctx context.Context, q BoxQuery) (holder BoxHolder, found bool, err error)
	// ChangeContact changes contact data and returns its version, which stays if nothing
	// differs. The audit entry names the fields only: what it says cannot be removed later. It
	// refuses another operator's subscriber, one whose activation is not settled, and a
	// suspended operator, and returns ErrContactChanged if Seen is not the latest version.
	ChangeContact(ctx context.Context, action StaffAction, edit ContactEdit) (version int64, err error)
	// SetContactState records whether the provider has a version; nothing if that is no longer
	// the latest.
	SetContactState(ctx context.Context, subscriberID string, version int64, state ContactState, message string, at time.Time) error
}

// Contacts changes customers' contact data and tells the provider.
type Contacts struct {
	store    ContactStore
	provider operation.ContactTaker
	now      func() time.Time

	// locks serialise what is told of one customer.
	locks [64]sync.Mutex
	seed  maphash.Seed
}

// NewContacts returns a Contacts. A node has one.
func NewContacts(store ContactStore, provider operation.ContactTaker, now func() time.Time) *Contacts {
	return &Contacts{store: store, provider: provider, now: now, seed: maphash.MakeSeed()}
}

// Record reads the contact data of an operator's own subscriber; false if there is none.
func (c *Contacts) Record(ctx context.Context, operatorID int64, subscriberID string) (ContactRecord, bool, error) {
	return c.store.Contact(ctx, operatorID, subscriberID, ContactChangesShown)
}

// BoxHolder finds another of the operator's subscribers who has a box number, which may be a mistake.
func (c *Contacts) BoxHolder(ctx context.Context, q BoxQuery) (holder BoxHolder, found bool, err error) {
	if q.BoxNumber == "" {
		return BoxHolder{}, false, nil
	}
	return c.store.BoxHolder(ctx, q)
}

// ContactChangesShown is how many changes a page shows. An export has all.
const ContactChangesShown = 30

// Change stores an edit, and then tells the provider. The edit stays, whatever the provider says.
func (c *Contacts) Change(ctx context.Context, actor string, edit ContactEdit) error {
	action := StaffAction{Actor: actor, Action: CustomerContactChange, At: c.now()}
	version, err := c.store.ChangeContact(ctx, action, edit)
	if err != nil || version == edit.Seen {
		return err
	}
	return c.Tell(ctx, edit.OperatorID, edit.SubscriberID)
}

// Tell tells the provider the latest contact data, unless it has it. A try whose outcome is unknown
// may be repeated: the data is whole and has a version.
func (c *Contacts) Tell(ctx context.Context, operatorID int64, subscriberID string) error {
	lock := &c.locks[maphash.String(c.seed, subscriberID)%uint64(len(c.locks))]
	lock.Lock()
	defer lock.Unlock()
	ctx = context.WithoutCancel(ctx)
	record, found, err := c.store.Contact(ctx, operatorID, subscriberID, 0)
	if err != nil || !found || record.Version == 0 || record.State == ContactTold {
		return err
	}
	reply, supported := c.provider.UpdateContact(ctx, operation.ContactUpdate{
		Reference: operation.NewContactReference(c.now()), SubscriberID: subscriberID, Mobile: record.Mobile,
		Version: record.Version, Contact: record.Contact,
	})
	state := ContactUntold
	switch {
	case !supported:
		state = ContactUnsupported
	case reply.Outcome == operation.Confirmed:
		state = ContactTold
	case reply.Outcome == operation.Rejected && !reply.NotSent:
		state = ContactRefused
	}
	return c.store.SetContactState(ctx, subscriberID, record.Version, state, reply.Message, c.now())
}
