package access

import (
	"context"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/subscription"
)

// Credential is an API key as stored: a hash of the key, the sealed secret, and the permissions.
type Credential struct {
	ID         int64
	OperatorID int64
	KeyHash    KeyHash
	// Hint is the beginning of the key, by which people tell keys apart.
	Hint         string
	SealedSecret []byte
	Permissions  Permissions
	// RevokedAt is zero unless the key was revoked; ExpiresAt is the end of the grace period
	// after a rotation, else zero. ReplacedBy is the key that it was rotated to, zero if none.
	RevokedAt  time.Time
	ExpiresAt  time.Time
	ReplacedBy int64
	// Version grows with every change of the row.
	Version   int64
	CreatedAt time.Time
}

// Record is everything that the checks of a key need, read at one moment.
type Record struct {
	Credential Credential
	Operator   subscription.Operator
	Whitelist  []netip.Prefix
}

// Store is the storage of keys and admissions. Each method is one transaction.
type Store interface {
	// CredentialByHash reads the current record of a key.
	CredentialByHash(ctx context.Context, hash KeyHash) (record Record, found bool, err error)

	// Admit uses up a nonce, counts the request in its operator's rate window, and compares
	// the versions of the record that the request was checked on, in one durable transaction.
	Admit(ctx context.Context, admission Admission) (Admitted, error)

	// PurgeAdmissions removes nonces used before noncesBefore and rate counters of earlier
	// windows than minutesBefore, at most limit rows, and returns how many.
	PurgeAdmissions(ctx context.Context, noncesBefore time.Time, minutesBefore int64, limit int) (removed int, err error)
}

// Admission is a request with a valid signature, to be admitted.
type Admission struct {
	// RequestID is stored with the nonce, so that the same request can be admitted again after
	// its record was read again.
	RequestID    string
	CredentialID int64
	OperatorID   int64
	Nonce        string
	Now          time.Time
	// CredentialVersion and OperatorVersion are those of the record that was checked. If
	// either has changed, nothing is counted.
	CredentialVersion int64
	OperatorVersion   int64
	// Count is false for a request that will be refused anyway: its nonce is used up, but it
	// does not count against the rate limit.
	Count bool
	// Limit is the operator's rate limit.
	Limit int
}

// Minute is the number of the rate window that the request is counted in.
func (a Admission) Minute() int64 { return subscription.RateWindowAt(a.Now) }

// Admitted is the result of Admit.
type Admitted struct {
	// Replayed: the nonce was used by another request.
	Replayed bool
	// Fresh is the current record if it has changed since the checks, which must then be
	// repeated; else nil.
	Fresh *Record
	// Counted: the request was counted. If Count was set and neither Replayed nor Fresh is,
	// false means that the rate limit is reached.
	Counted bool
	// Used is the number of requests counted in the window, this one included.
	Used int
}
