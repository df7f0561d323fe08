// Package subscription has the rules for operators, plans, subscribers, cycles, expiry and
// commission. It is pure: it reads no clock, opens no connection and stores nothing.
package subscription

import (
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// OperatorStatus is the status of an operator's account.
type OperatorStatus string

// A deleted operator is kept, so that requests with its keys get LCO_NOT_FOUND.
const (
	OperatorActive   OperatorStatus = "active"
	OperatorInactive OperatorStatus = "inactive"
	OperatorDeleted  OperatorStatus = "deleted"
)

// APIAccess says whether an operator may use the API, besides its account's status. Disabled is a
// setting; blocked is a sanction.
type APIAccess string

// The values of APIAccess.
const (
	APIEnabled  APIAccess = "enabled"
	APIDisabled APIAccess = "disabled"
	APIBlocked  APIAccess = "blocked"
)

// DefaultRateLimit is the RateLimit of an operator for whom none was set.
const DefaultRateLimit = 60

// RateWindow is the length of the fixed windows in which an operator's requests are counted.
const RateWindow = time.Minute

// RateWindowAt returns the number of the rate window that a moment falls in, counted from the
// Unix epoch. Stores keep it in the column minute.
func RateWindowAt(at time.Time) int64 { return at.UnixMilli() / RateWindow.Milliseconds() }

// DefaultLowBalance is the threshold below which a wallet is called low.
var DefaultLowBalance = money.Paise(500_00)

// Operator is a local cable operator: the owner of a wallet, of API keys and
// of subscribers.
type Operator struct {
	ID     int64
	Name   string
	Status OperatorStatus
	API    APIAccess
	// RateLimit is how many requests the operator may make in a RateWindow.
	RateLimit     int
	CommissionBPS int
	LowBalance    money.Amount
	// SecondFactorRequired: the operator's people must have a second factor.
	SecondFactorRequired bool
	// Address and GSTIN stand on receipts; either may be empty.
	Address, GSTIN string
	// Version grows with every change that access checks depend on: status, API access, rate
	// limit, whitelist.
	Version   int64
	CreatedAt time.Time
	// DeletedAt is when the account was deleted. It is zero for one that an early release
	// deleted with money in its wallet; that deletion can always be undone.
	DeletedAt time.Time
}

// UndeleteWithin is how long the deletion of an operator can be undone.
const UndeleteWithin = 30 * 24 * time.Hour

// releaseGrace separates the last undo from the release of mobile numbers, because the clocks of
// nodes differ.
const releaseGrace = 10 * time.Minute

// UndeletableUntil is the end of the time in which the deletion can be undone; zero if the operator
// is not deleted, or if there is no time limit.
func (o Operator) UndeletableUntil() time.Time {
	if o.DeletedAt.IsZero() {
		return time.Time{}
	}
	return o.DeletedAt.Add(UndeleteWithin)
}

// Undeletable reports whether the deletion can be undone now.
func (o Operator) Undeletable(now time.Time) bool {
	return o.Status == OperatorDeleted && (o.DeletedAt.IsZero() || now.Before(o.UndeletableUntil()))
}

// ReleasedBefore returns the time before which an operator must have been deleted for its
// subscribers' mobile numbers and ids to be free again.
func ReleasedBefore(now time.Time) time.Time { return now.Add(-UndeleteWithin - releaseGrace) }

// Claim is a mobile number and a subscriber id that a new subscriber is to get; either may be empty.
type Claim struct{ Mobile, SubscriberID string }

// Released is what replaces the mobile number or id of a deleted operator's subscriber when another
// subscriber gets it. It is unique: the operator id is part of it, and each operator had it once.
func Released(operatorID int64, text string) string {
	prefix := fmt.Sprintf("released:%d:", operatorID)
	if strings.HasPrefix(text, prefix) {
		return text
	}
	return prefix + text
}

// Wallet is an operator's prepaid money.
type Wallet struct {
	OperatorID int64
	// Balance can be spent; Held is reserved by open operations. Their sum is the ledger's.
	Balance money.Amount
	Held    money.Amount
	// LowBelow is the operator's own threshold.
	LowBelow money.Amount
}

// Low reports whether the operator should be warned.
func (w Wallet) Low() bool { return w.Balance.Less(w.LowBelow) }
