package admin

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// The actions of the two audit entries of a reset. They need no role: an operator's own
// people reset passwords, too.
const (
	CustomerPasswordReset    = "password reset"
	CustomerPasswordAnswered = "password reset answered"
)

// PasswordStore records resets of customers' app passwords and their outcome, but no
// password.
type PasswordStore interface {
	// BeginPasswordReset records who is about to reset the app password of an operator's
	// own subscriber, and returns the subscriber's mobile. It refuses another operator's
	// subscriber, and one whose activation is not settled. For the operator's own people it
	// also refuses a suspended operator, and returns a *TooManyResets beyond ResetsAMinute.
	BeginPasswordReset(ctx context.Context, action StaffAction, reset PasswordReset) (mobile string, err error)
	// EndPasswordReset records the outcome.
	EndPasswordReset(ctx context.Context, action StaffAction, reset PasswordReset, outcome operation.Outcome) error
}

// PasswordReset is a reset as the audit log has it.
type PasswordReset struct {
	OperatorID   int64
	SubscriberID string
	Reference    string
	// ByOperator: the operator's own people reset it, not staff at the command line.
	ByOperator bool
}

// ResetsAMinute is how many app passwords an operator's own people may reset within a
// minute, on all nodes together. Resets by staff count and are not refused.
const ResetsAMinute = 10

// TooManyResets refuses a reset beyond ResetsAMinute.
type TooManyResets struct{ RetryAfter time.Duration }

func (t *TooManyResets) Error() string {
	return fmt.Sprintf("%d app passwords were reset within a minute, which is the most: try again in %s", ResetsAMinute, t.RetryAfter)
}

// CheckResets refuses one more reset at a moment if there were ResetsAMinute within the
// minute before; latest are the moments of the latest ResetsAMinute resets, newest first.
func CheckResets(latest []time.Time, now time.Time) error {
	if len(latest) < ResetsAMinute {
		return nil
	}
	if wait := latest[ResetsAMinute-1].Add(time.Minute).Sub(now); wait > 0 {
		return &TooManyResets{RetryAfter: min(wait, time.Minute)}
	}
	return nil
}

// State describes a reset for the audit log.
func (r PasswordReset) State(outcome string) map[string]any {
	return map[string]any{"reference": r.Reference, "outcome": outcome}
}

// Subject is the audit log's subject.
func (r PasswordReset) Subject() string { return "app password of subscriber " + r.SubscriberID }

// Passwords resets customers' app passwords through the provider.
type Passwords struct {
	store    PasswordStore
	provider operation.PasswordResetter
	now      func() time.Time

	// locks serialise the resets of one customer, so that of two clicks the password shown
	// last is the one in force.
	locks [64]sync.Mutex
	seed  maphash.Seed
}

// NewPasswords returns a Passwords. A node has one.
func NewPasswords(store PasswordStore, provider operation.PasswordResetter, now func() time.Time) *Passwords {
	return &Passwords{store: store, provider: provider, now: now, seed: maphash.MakeSeed()}
}

// NewPassword is the result of a reset.
type NewPassword struct {
	// Outcome is Confirmed if the new password is in force and Rejected if the old one
	// still is. If it is Unknown either may be: the customer can try the new one, and it
	// may be reset again.
	Outcome operation.Outcome
	// Password is shown once; empty where it was rejected.
	Password string
	// Message is the provider's message for people, if any.
	Message string
}

// Reset replaces the app password of one of an operator's subscribers by the given one
// or, if that is empty, by a generated one. The actor is a member of staff at the command
// line, such as cli:asha.
func (p *Passwords) Reset(ctx context.Context, actor string, operatorID int64, subscriberID, password string) (NewPassword, error) {
	return p.reset(ctx, "", actor, PasswordReset{OperatorID: operatorID, SubscriberID: subscriberID}, password)
}

// ResetOnce is Reset by the operator's own people, under a form's voucher: if the form is
// sent again, the error is DoneAlready. A suspended operator's people are refused, and so
// is a reset beyond ResetsAMinute.
func (p *Passwords) ResetOnce(ctx context.Context, voucher, actor string, operatorID int64, subscriberID, password string) (NewPassword, error) {
	return p.reset(ctx, voucher, actor, PasswordReset{OperatorID: operatorID, SubscriberID: subscriberID, ByOperator: true}, password)
}

func (p *Passwords) reset(ctx context.Context, voucher, actor string, logged PasswordReset, password string) (NewPassword, error) {
	if password != "" {
		if err := checkText("password", password, 8, 64); err != nil {
			return NewPassword{}, err
		}
	}
	lock := &p.locks[maphash.String(p.seed, logged.SubscriberID)%uint64(len(p.locks))]
	lock.Lock()
	defer lock.Unlock()

	reset := operation.NewPasswordReset(logged.SubscriberID, password, p.now())
	logged.Reference = reset.Reference
	// Recorded before anything is sent, so that no password is changed without an actor.
	action := StaffAction{Actor: actor, Action: CustomerPasswordReset, At: p.now(), Voucher: voucher}
	action.Reason = action.withVoucherNote("")
	mobile, err := p.store.BeginPasswordReset(ctx, action, logged)
	if err != nil {
		return NewPassword{}, err
	}
	reset.Mobile = mobile
	ctx = context.WithoutCancel(ctx)
	reply := p.provider.ResetPassword(ctx, reset)
	result := NewPassword{Outcome: reply.Outcome, Password: reset.Password, Message: reply.Message}
	if reply.Outcome == operation.Rejected {
		result.Password = ""
	}
	err = p.store.EndPasswordReset(ctx, StaffAction{Actor: actor, Action: CustomerPasswordAnswered, At: p.now()}, logged, reply.Outcome)
	if err != nil {
		// The customer needs the password all the same: it is set, and shown nowhere
		// else. The audit log has the first of the two entries.
		return result, errors.Join(ErrNotLogged, err)
	}
	return result, nil
}

// ErrNotLogged is returned together with a valid result whose audit entry could not be
// written.
var ErrNotLogged = errors.New("the outcome of a password reset was not written down")
