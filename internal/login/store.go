package login

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"time"
)

// Vault seals the secrets of second factors so that only the service can open them
// again, each for its own person only, and has keys for what the desk signs.
type Vault interface {
	SealTOTP(secret []byte, personID int64) ([]byte, error)
	OpenTOTP(sealed []byte, personID int64) ([]byte, error)
	// Derive returns 32 bytes of each key of the master key for one purpose, and
	// PrimaryID the key that is used for what is new.
	Derive(purpose string) map[uint32][]byte
	PrimaryID() uint32
}

// Account is a person with what they are known by.
type Account struct {
	Person
	PasswordHash      string
	PasswordChangedAt time.Time
	// SealedTOTP is nil where no second factor is set up, PendingTOTP where none is
	// being set up.
	SealedTOTP, PendingTOTP []byte
	// TOTPStep is the last step whose code was used.
	TOTPStep int64
	// OperatorDeleted: the operator whose books they would see was deleted. One that
	// is suspended still has its books, and its people may look at them.
	OperatorDeleted bool
	// OperatorName is empty for staff.
	OperatorName string
	// BrowserEpoch grows with whatever ends the browsers that the login is known by.
	BrowserEpoch int64
	// Version grows with whatever changes who may sign in, and how.
	Version int64
}

// TokenHash is what a session is found by. A token is 256 random bits, so that
// neither salt nor a slow function would add anything.
type TokenHash [sha256.Size]byte

// HashToken returns what a token is stored and looked up by.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// Record is a session as it is stored, with its person as they are now.
type Record struct {
	ID                             string
	CreatedAt, SeenAt, SteppedUpAt time.Time
	// CodeGiven: the second factor was shown in this session. One that began before
	// it was set up has yet to show it.
	CodeGiven bool
	Address   netip.Addr
	Agent     string
	Account   Account
}

// Deed is what somebody did to their own login, for the log of acts.
type Deed struct {
	// Actor is the person and the door they came through, such as web:asha.
	Actor, Action string
	At            time.Time
}

// What a store answers where nothing was done.
var (
	// ErrMoved: the account or the session has changed since it was read.
	ErrMoved = errors.New("the login was changed meanwhile")
	// ErrSpent: the code was used before.
	ErrSpent = errors.New("the code was used before")
)

// Store is what the desk needs kept. Each method is one transaction, and each that
// follows from a proof names the account's version that was proved against: a
// password that was reset meanwhile opens nothing.
type Store interface {
	AccountByUsername(ctx context.Context, username string) (account Account, found bool, err error)

	// OpenSession begins a session, unless the account has moved or is disabled.
	OpenSession(ctx context.Context, opening Opening) error
	// SessionByToken reads a session and its person, at one moment.
	SessionByToken(ctx context.Context, token TokenHash) (record Record, found bool, err error)
	// TouchSession notes that a session is in use.
	TouchSession(ctx context.Context, token TokenHash, at time.Time) error
	// RaiseSession gives a session more standing and another token, and uses up the
	// proof: ErrSpent if it was used before.
	RaiseSession(ctx context.Context, rise Rise) error
	// CloseSession ends a session; one that is gone already is no error.
	CloseSession(ctx context.Context, token TokenHash) error

	// ChangePassword replaces a password, ends the person's other sessions and gives
	// this one another token.
	ChangePassword(ctx context.Context, deed Deed, change PasswordChange) error
	// OfferTOTP keeps the secret of a second factor that is being set up.
	OfferTOTP(ctx context.Context, personID, version int64, sealed []byte) error
	// AdoptTOTP makes the offered secret the person's second factor, with fresh
	// recovery codes, and gives the session another token.
	AdoptTOTP(ctx context.Context, deed Deed, adoption Adoption) error
	// DropTOTP takes the second factor and its recovery codes away.
	DropTOTP(ctx context.Context, deed Deed, personID, version int64) error
	// RecoveryCodesLeft counts a person's recovery codes that were not used.
	RecoveryCodesLeft(ctx context.Context, personID int64) (int, error)
	SetLanguage(ctx context.Context, personID int64, language string) error

	// SessionsOf lists a person's sessions, the last used first.
	SessionsOf(ctx context.Context, personID int64) ([]Record, error)
	// CloseSessionOf ends one of a person's sessions by its public name.
	CloseSessionOf(ctx context.Context, personID int64, id string) error
	// CountTries counts a try under each of the counters, in windows that begin with a
	// counter's first try, and returns what they stand at then, in the same order. If one
	// of them is at its limit nothing is counted, and counted is false.
	CountTries(ctx context.Context, at time.Time, window time.Duration, counters []TryCounter) (counts []TryCount, counted bool, err error)
	// TakeBackTries takes one try back from each counter whose window is still the one
	// that it was counted in.
	TakeBackTries(ctx context.Context, counts []TryCount) error
	// PurgeTries removes up to so many counters whose windows began before.
	PurgeTries(ctx context.Context, before time.Time, most int) (removed int, err error)
	// PurgeSessions removes up to so many sessions that were last seen before.
	PurgeSessions(ctx context.Context, seenBefore time.Time, most int) (removed int, err error)
}

// Opening is a session that begins.
type Opening struct {
	Token TokenHash
	// Record's account is the one whose password was given.
	Record Record
	// RenewedHash is the password under today's parameters; empty if it has them.
	RenewedHash string
}

// Proof is a code that was shown: the step that it is of, or a recovery code's hash;
// neither where there is no second factor.
type Proof struct {
	Step     int64
	Recovery []byte
}

// Rise is a session that gains standing.
type Rise struct {
	Old, New          TokenHash
	PersonID, Version int64
	Proof             Proof
	SteppedUpAt       time.Time
	// SigningIn: this is the end of signing in, not a later step up.
	SigningIn bool
}

// PasswordChange is a new password, and the session that it was given in.
type PasswordChange struct {
	PersonID, Version int64
	Hash              string
	Old, New          TokenHash
	// SteppedUpAt is the session's from now on.
	SteppedUpAt time.Time
}

// Adoption is a second factor that was set up, and the session that it was done in.
type Adoption struct {
	PersonID, Version int64
	// Sealed is the offered secret that the code was of.
	Sealed []byte
	Step   int64
	// RecoveryCodes are the hashes of the new ones; the old ones go.
	RecoveryCodes [][]byte
	Old, New      TokenHash
	At            time.Time
}
