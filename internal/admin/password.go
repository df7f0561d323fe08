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

// What the log calls the two halves of a reset. No role is asked: an operator's own
// people do it, too.
const (
	CustomerPasswordReset    = "password reset"
	CustomerPasswordAnswered = "password reset answered"
)

// PasswordStore is what the resetting of customers' app passwords needs kept: who
// did it, and what came of it. No password is among it.
type PasswordStore interface {
	// BeginPasswordReset writes down who is about to reset the app password of
	// an operator's own subscriber, and says which mobile that is. It refuses a
	// subscriber of anybody else, and one whose activation is not settled. Where the
	// operator's own people ask, it also refuses a suspended operator, and one whose
	// ResetsAMinute are used up, with a *TooManyResets.
	BeginPasswordReset(ctx context.Context, act StaffAction, reset PasswordReset) (mobile string, err error)
	// EndPasswordReset writes down what came of it.
	EndPasswordReset(ctx context.Context, act StaffAction, reset PasswordReset, verdict operation.Outcome) error
}

// PasswordReset is a reset as the log of acts knows it.
type PasswordReset struct {
	OperatorID   int64
	SubscriberID string
	Reference    string
	// ByOperator: the operator's own people ask, and not staff at the command line.
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

// State describes a reset for the log.
func (r PasswordReset) State(outcome string) map[string]any {
	return map[string]any{"reference": r.Reference, "outcome": outcome}
}

// Subject is what the log says was acted on.
func (r PasswordReset) Subject() string { return "app password of subscriber " + r.SubscriberID }

// Passwords resets customers' app passwords through the provider.
type Passwords struct {
	store    PasswordStore
	provider operation.PasswordResetter
	now      func() time.Time

	// turns has the resets of one customer follow each other: of two clicks the
	// later one's password is the one that holds, and the one that is shown last.
	turns [64]sync.Mutex
	seed  maphash.Seed
}

// NewPasswords returns the one that a node needs.
func NewPasswords(store PasswordStore, provider operation.PasswordResetter, now func() time.Time) *Passwords {
	return &Passwords{store: store, provider: provider, now: now, seed: maphash.MakeSeed()}
}

// NewPassword is what became of a reset.
type NewPassword struct {
	// Outcome is Confirmed if the new password holds and Rejected if the old one
	// does. If it is Unknown nobody can say: the customer can try the new one,
	// and it may be reset again.
	Verdict operation.Outcome
	// Password is shown this once; empty where it was rejected.
	Password string
	// Message is the provider's word for people, if it had one.
	Message string
}

// Reset replaces the app password of one of an operator's subscribers, by the given
// one or, if that is empty, by one that is made up. The actor is a member
// of staff at the command line, such as cli:asha.
func (p *Passwords) Reset(ctx context.Context, actor string, operatorID int64, subscriberID, password string) (NewPassword, error) {
	return p.reset(ctx, "", actor, PasswordReset{OperatorID: operatorID, SubscriberID: subscriberID}, password)
}

// ResetUnder is Reset by the operator's own people, under a form's voucher: sent again,
// the form is refused, as DoneAlready tells. A suspended operator's people are refused,
// and so is a reset beyond ResetsAMinute.
func (p *Passwords) ResetUnder(ctx context.Context, voucher, actor string, operatorID int64, subscriberID, password string) (NewPassword, error) {
	return p.reset(ctx, voucher, actor, PasswordReset{OperatorID: operatorID, SubscriberID: subscriberID, ByOperator: true}, password)
}

func (p *Passwords) reset(ctx context.Context, voucher, actor string, logged PasswordReset, password string) (NewPassword, error) {
	if password != "" {
		if err := checkText("password", password, 8, 64); err != nil {
			return NewPassword{}, err
		}
	}
	turn := &p.turns[maphash.String(p.seed, logged.SubscriberID)%uint64(len(p.turns))]
	turn.Lock()
	defer turn.Unlock()

	reset := operation.NewPasswordReset(logged.SubscriberID, password, p.now())
	logged.Reference = reset.Reference
	// Before anything is sent, so that no password is ever changed by nobody.
	act := StaffAction{Actor: actor, Action: CustomerPasswordReset, At: p.now(), Voucher: voucher}
	act.Reason = act.noted("")
	mobile, err := p.store.BeginPasswordReset(ctx, act, logged)
	if err != nil {
		return NewPassword{}, err
	}
	reset.Mobile = mobile
	ctx = context.WithoutCancel(ctx)
	answer := p.provider.ResetPassword(ctx, reset)
	result := NewPassword{Verdict: answer.Outcome, Password: reset.Password, Message: answer.Message}
	if answer.Outcome == operation.Rejected {
		result.Password = ""
	}
	err = p.store.EndPasswordReset(ctx, StaffAction{Actor: actor, Action: CustomerPasswordAnswered, At: p.now()}, logged, answer.Outcome)
	if err != nil {
		// The customer needs the password all the same: it is set and shown
		// nowhere else. That it was asked for stands in the log.
		return result, errors.Join(ErrNotLogged, err)
	}
	return result, nil
}

// ErrNotLogged says that something was done and its outcome could not be written
// down. The result beside it holds.
var ErrNotLogged = errors.New("the outcome of a password reset was not written down")
