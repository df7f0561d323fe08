package login

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/passkey"
)

// Vault encrypts the secrets of second factors, each bound to its person, and derives keys
// for what the service signs.
type Vault interface {
	SealTOTP(secret []byte, personID int64) ([]byte, error)
	OpenTOTP(sealed []byte, personID int64) ([]byte, error)
	// DeriveKey derives 32 bytes for a purpose from a data key; DataKeyID is the id of the
	// one for what is new.
	DeriveKey(id uint32, purpose string) ([]byte, error)
	DataKeyID() uint32
}

// Account is a person with their credentials.
type Account struct {
	Person
	PasswordHash      string
	PasswordChangedAt time.Time
	// SealedTOTP is nil if no authenticator app is set up.
	SealedTOTP []byte
	// TOTPStep is the last step whose code was used.
	TOTPStep int64
	// OperatorDeleted: the person's operator was deleted. The people of a suspended one
	// can still sign in.
	OperatorDeleted bool
	// OperatorName is empty for staff.
	OperatorName string
	// BrowserEpoch is incremented by whatever invalidates known browsers.
	BrowserEpoch int64
	// Version is incremented by whatever changes who may sign in, and how.
	Version int64
	// FactorNotice has the changes of second factors that the person has not acknowledged;
	// see AddNotice.
	FactorNotice string
}

// TokenHash identifies a session in the store. A token is 256 random bits, so that neither
// a salt nor a slow hash would add anything.
type TokenHash [sha256.Size]byte

// HashToken returns the hash of a token.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// Record is a stored session, with its person as they are now.
type Record struct {
	ID                             string
	CreatedAt, SeenAt, SteppedUpAt time.Time
	// CodeVerified: the second factor was verified in this session. A session from before it was
	// set up has yet to do so.
	CodeVerified bool
	Address      netip.Addr
	Agent        string
	Account      Account
}

// OwnAction is what a person did to their own login, for the audit log.
type OwnAction struct {
	// Actor is the channel and the person, such as web:asha.
	Actor, Action string
	At            time.Time
}

// Errors of a store that has changed nothing.
var (
	// ErrChanged: the account or the session has changed since it was read.
	ErrChanged = errors.New("the login was changed meanwhile")
	// ErrUsed: the second factor, or the challenge, was used before.
	ErrUsed = errors.New("the code was used before")
	// ErrPasskeyExists: the passkey was added before.
	ErrPasskeyExists = errors.New("the passkey was added before")
)

// Store holds logins and sessions. Each method is one transaction. A change after a
// verification carries the account's version that was verified, and returns ErrChanged if
// the account has another one, such as after a password reset.
type Store interface {
	AccountByUsername(ctx context.Context, username string) (account Account, found bool, err error)

	// OpenSession creates a session, unless the account has changed or is disabled.
	OpenSession(ctx context.Context, session NewSession) error
	// SessionByToken reads a session and its person, in one snapshot.
	SessionByToken(ctx context.Context, token TokenHash) (record Record, found bool, err error)
	// TouchSession records the last use of a session.
	TouchSession(ctx context.Context, token TokenHash, at time.Time) error
	// UpgradeSession records a verification in a session: it gives it a new token, uses up
	// the proof (ErrUsed if it was used before), and stores the challenge that it begins.
	UpgradeSession(ctx context.Context, upgrade SessionUpgrade) error
	// CloseSession ends a session; it is no error if there is none.
	CloseSession(ctx context.Context, token TokenHash) error

	// ChangePassword replaces a password, ends the person's other sessions and gives this
	// one a new token.
	ChangePassword(ctx context.Context, action OwnAction, change PasswordChange) error
	// ChangeFactors changes a person's second factors, ends their other sessions and gives
	// this one a new token. ErrUsed if the proof or the challenge was used before,
	// ErrPasskeyExists if the passkey belongs to a login already.
	ChangeFactors(ctx context.Context, action OwnAction, change FactorChange) error
	// SaveChallenge stores a challenge of a session, replacing an earlier one of its kind.
	SaveChallenge(ctx context.Context, challenge Challenge) error
	// ChallengeOf reads a session's challenge of a kind.
	ChallengeOf(ctx context.Context, sessionID string, kind ChallengeKind) (challenge Challenge, found bool, err error)
	// Passkeys lists a person's passkeys, the oldest first.
	Passkeys(ctx context.Context, personID int64) ([]Passkey, error)
	// RecoverySalt is the salt and cost of a person's recovery codes; empty if they have
	// none, or codes of an older release.
	RecoverySalt(ctx context.Context, personID int64) (string, error)
	// ReplaceFactorNotice replaces a person's FactorNotice, unless it has changed
	// meanwhile.
	ReplaceFactorNotice(ctx context.Context, personID int64, was, left string) error
	// RecoveryCodesLeft counts a person's unused recovery codes.
	RecoveryCodesLeft(ctx context.Context, personID int64) (int, error)
	SetLanguage(ctx context.Context, personID int64, language string) error

	// SessionsOf lists a person's sessions, the last used first.
	SessionsOf(ctx context.Context, personID int64) ([]Record, error)
	// CloseSessionOf ends one of a person's sessions by its ID.
	CloseSessionOf(ctx context.Context, personID int64, id string) error
	// CountTries counts a try under each of the counters, in windows that begin with a
	// counter's first try, and returns the counts in the same order. If one of them is at
	// its limit nothing is counted, and counted is false.
	CountTries(ctx context.Context, at time.Time, window time.Duration, counters []TryCounter) (counts []TryCount, counted bool, err error)
	// UncountTries takes one try back from each counter, unless its window has ended since.
	UncountTries(ctx context.Context, counts []TryCount) error
	// PurgeTries removes at most limit counters whose windows began before a moment.
	PurgeTries(ctx context.Context, before time.Time, limit int) (removed int, err error)
	// PurgeSessions removes at most limit sessions that were last seen before a moment.
	PurgeSessions(ctx context.Context, seenBefore time.Time, limit int) (removed int, err error)
}

// NewSession is a session to be created.
type NewSession struct {
	Token TokenHash
	// Record's account is the one whose password was verified.
	Record Record
	// RenewedHash is the password's hash with the current parameters; empty if the stored
	// one has them.
	RenewedHash string
}

// Proof is a verified second factor: the step of a TOTP code, a recovery code's hash, or a
// passkey; zero if no second factor is set up.
type Proof struct {
	Step     int64
	Recovery []byte
	Passkey  *PasskeyProof
}

// Present reports whether the proof has a second factor.
func (p Proof) Present() bool { return p.Step != 0 || p.Recovery != nil || p.Passkey != nil }

// PasskeyProof is a passkey with a valid response to the session's challenge.
type PasskeyProof struct {
	ID        int64
	SignCount uint32
	// Challenge is the challenge, which is used up.
	Challenge ChallengeRef
}

// SessionUpgrade is the result of a verification in a session.
type SessionUpgrade struct {
	Old, New          TokenHash
	PersonID, Version int64
	Proof             Proof
	SteppedUpAt       time.Time
	// Begins is a challenge that the verification starts; nil if there is none.
	Begins *Challenge
	// SigningIn: this completes the sign-in; otherwise it is a later step-up.
	SigningIn bool
}

// PasswordChange is a new password, and the session that it was changed in.
type PasswordChange struct {
	PersonID, Version int64
	Hash              string
	Old, New          TokenHash
	// SteppedUpAt is the session's new value.
	SteppedUpAt time.Time
}

// FactorChange is a change of a person's second factors, and the session that it was made
// in.
type FactorChange struct {
	PersonID, Version int64
	// Proof is used up, and so is the challenge if there is one.
	Proof     Proof
	Challenge *ChallengeRef
	Old, New  TokenHash
	At        time.Time
	// Notice is the account's new FactorNotice.
	Notice string

	// SetTOTP replaces the authenticator app; nil for no change.
	SetTOTP  *NewTOTP
	DropTOTP bool
	// AddPasskey is a new passkey; nil for none. DropPasskey is the id of one to be removed;
	// 0 for none.
	AddPasskey  *Passkey
	DropPasskey int64
	// RecoveryCodes replace the present ones; nil for no change.
	RecoveryCodes *RecoveryCodes
}

// NewTOTP is the sealed secret of an authenticator app, and the step of its first code.
type NewTOTP struct {
	Sealed []byte
	Step   int64
}

// RecoveryCodes are hashes of recovery codes, all with one salt; empty removes the codes.
type RecoveryCodes struct {
	Salt   string
	Hashes [][]byte
}

// Passkey is one of a person's passkeys.
type Passkey struct {
	ID                    int64
	Name                  string
	CreatedAt, LastUsedAt time.Time
	// SiteID is the site that it was created for; it works nowhere else.
	SiteID string
	Key    passkey.Key
}

// ChallengeKind is what a challenge is for.
type ChallengeKind string

// A session has at most one challenge of each kind.
const (
	ChallengeTOTP ChallengeKind = "totp" // set up an authenticator app
	ChallengeAdd  ChallengeKind = "add"  // add a passkey
	ChallengeUse  ChallengeKind = "use"  // verify a passkey
)

// Challenge is a one-time challenge of a session.
type Challenge struct {
	ChallengeRef
	State     []byte
	ExpiresAt time.Time
}

// ChallengeRef identifies a challenge.
type ChallengeRef struct {
	SessionID string
	Kind      ChallengeKind
	// Ticket is the hash of a random text that tells it from an earlier challenge. A form
	// that carries the text cannot be sent with the session's cookie alone.
	Ticket TokenHash
}
