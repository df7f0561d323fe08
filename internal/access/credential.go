package access

import (
	"context"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/subscription"
)

// Credential is an API key as the store keeps it: a hash of the key, a sealed
// copy of the secret, and what the key may do. Neither can be read back.
type Credential struct {
	ID         int64
	OperatorID int64
	KeyHash    KeyHash
	// Hint is the beginning of the key, enough for people to tell keys apart.
	Hint         string
	SealedSecret []byte
	Permissions  Permissions
	// RevokedAt and ExpiresAt are zero until the key is revoked, or rotated
	// with a grace period that ends then. ReplacedBy is the key it was
	// rotated to, zero if none.
	RevokedAt  time.Time
	ExpiresAt  time.Time
	ReplacedBy int64
	// Version grows with every change of the row.
	Version   int64
	CreatedAt time.Time
}

// Record is all that decides whether a caller is let in, read in one snapshot.
type Record struct {
	Credential Credential
	Operator   subscription.Operator
	Whitelist  []netip.Prefix
}

// Store is what access needs kept. Every method is one business fact.
type Store interface {
	// CredentialByHash reads a key's record as it stands now.
	CredentialByHash(ctx context.Context, hash KeyHash) (record Record, found bool, err error)

	// Admit burns a nonce, counts the request in its operator's minute, and
	// tells whether the caller's record is still the one it was judged on,
	// all in one durable transaction.
	Admit(ctx context.Context, admission Admission) (Admitted, error)

	// PurgeAdmissions removes at most so many nonces used before one moment
	// and rate counters of minutes before another, and says how many rows
	// went.
	PurgeAdmissions(ctx context.Context, noncesBefore time.Time, minutesBefore int64, most int) (removed int, err error)
}

// Admission is a request whose signature was right, asking to be let in.
type Admission struct {
	// RequestID tells this request's own nonce from one that was used before,
	// so that the same admission can be asked for twice.
	RequestID    string
	CredentialID int64
	OperatorID   int64
	Nonce        string
	Now          time.Time
	// CredentialVersion and OperatorVersion name the rows the caller was
	// judged on. If either has moved on, nothing is counted.
	CredentialVersion int64
	OperatorVersion   int64
	// Count is false for a caller who is going to be refused anyway: the
	// nonce is burned, the minute is not charged.
	Count bool
	// Limit is how many requests the operator may make in a minute.
	Limit int
}

// Minute is the number of the rate window that the request is counted in.
func (a Admission) Minute() int64 { return subscription.RateWindowAt(a.Now) }

// Admitted is what Admit did.
type Admitted struct {
	// Replayed: the nonce had been used by another request.
	Replayed bool
	// Fresh is set if the record has changed since the caller was judged; it
	// is the record as it stands now, to judge again.
	Fresh *Record
	// Counted: the request took a place in the minute. If Count was asked and
	// neither Replayed nor Fresh is set, false means that the limit is reached.
	Counted bool
	// Used is how many places of the minute are taken, this request included.
	Used int
}
