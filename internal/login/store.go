package login

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/passkey"
)

// Vault seals the secrets of second factors so that only the service can open them
// again, each for its own person only, and has keys for what the service signs.
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
	// SealedTOTP is nil where no codes of an app are set up.
	SealedTOTP []byte
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
	// FactorNotice is what became of the second factors since the person last took notice;
	// see AddNotice.
	FactorNotice string
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

// OwnAction is what somebody did to their own login, for the log of acts.
type OwnAction struct {
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
	// ErrKnown: the passkey was added before.
	ErrKnown = errors.New("the passkey was added before")
)

// Store is what the service needs kept. Each method is one transaction, and each that
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
	// RaiseSession gives a session more standing and another token, uses up the proof
	// (ErrSpent if it was used before), and keeps the challenge that it begins with.
	RaiseSession(ctx context.Context, rise Rise) error
	// CloseSession ends a session; one that is gone already is no error.
	CloseSession(ctx context.Context, token TokenHash) error

	// ChangePassword replaces a password, ends the person's other sessions and gives
	// this one another token.
	ChangePassword(ctx context.Context, deed OwnAction, change PasswordChange) error
	// ChangeFactors changes a person's second factors, ends their other sessions and gives
	// this one another token. ErrSpent if the proof or the challenge was used before,
	// ErrKnown if the passkey is somebody's already.
	ChangeFactors(ctx context.Context, deed OwnAction, change FactorChange) error
	// KeepChallenge keeps a challenge of a session, in place of an earlier one of its kind.
	KeepChallenge(ctx context.Context, challenge Challenge) error
	// ChallengeOf reads the challenge of a kind that a session has.
	ChallengeOf(ctx context.Context, sessionID string, kind ChallengeKind) (challenge Challenge, found bool, err error)
	// Passkeys lists a person's passkeys, the oldest first.
	Passkeys(ctx context.Context, personID int64) ([]Passkey, error)
	// RecoverySalt is how a person's recovery codes are hashed; empty if they have none, or
	// some from before they were hashed slowly.
	RecoverySalt(ctx context.Context, personID int64) (string, error)
	// ReplaceFactorNotice keeps what a person has not taken notice of yet. It changes
	// nothing where there is more to tell by now.
	ReplaceFactorNotice(ctx context.Context, personID int64, was, left string) error
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

// Proof is what was shown of a second factor: the step that a code is of, a recovery
// code's hash, or a passkey; none of them where there is no second factor.
type Proof struct {
	Step     int64
	Recovery []byte
	Passkey  *PasskeyProof
}

// Shown reports whether there is anything in the proof.
func (p Proof) Shown() bool { return p.Step != 0 || p.Recovery != nil || p.Passkey != nil }

// PasskeyProof is a passkey that answered the session's challenge.
type PasskeyProof struct {
	ID        int64
	SignCount uint32
	// Challenge is what it answered, which is used up.
	Challenge ChallengeRef
}

// Rise is a session that gains standing.
type Rise struct {
	Old, New          TokenHash
	PersonID, Version int64
	Proof             Proof
	SteppedUpAt       time.Time
	// Begins is a challenge that the session goes on with; nil if there is none.
	Begins *Challenge
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

// FactorChange is a change of somebody's second factors, and the session that it was
// made in.
type FactorChange struct {
	PersonID, Version int64
	// Proof is used up, and so is the challenge if there is one.
	Proof     Proof
	Challenge *ChallengeRef
	Old, New  TokenHash
	At        time.Time
	// Notice is the account's FactorNotice from now on.
	Notice string

	// SetTOTP is the sealed secret of the new codes and the step that was shown; nil leaves
	// them alone.
	SetTOTP  *NewTOTP
	DropTOTP bool
	// AddPasskey is a new one; nil for none. DropPasskey is the id of one that goes; 0 for none.
	AddPasskey  *Passkey
	DropPasskey int64
	// RecoveryCodes come in place of the present ones; nil leaves those alone.
	RecoveryCodes *RecoveryCodes
}

// NewTOTP is a secret that codes were set up with.
type NewTOTP struct {
	Sealed []byte
	Step   int64
}

// RecoveryCodes are hashes of recovery codes, all with one salt; without any, the codes go.
type RecoveryCodes struct {
	Salt   string
	Hashes [][]byte
}

// Passkey is one of a person's passkeys.
type Passkey struct {
	ID                    int64
	Name                  string
	CreatedAt, LastUsedAt time.Time
	// SiteID is where it was made; it works nowhere else.
	SiteID string
	Key    passkey.Key
}

// ChallengeKind is what a challenge is for.
type ChallengeKind string

// A session has one challenge of each kind at most.
const (
	ChallengeTOTP ChallengeKind = "totp" // set up codes of an app
	ChallengeAdd  ChallengeKind = "add"  // add a passkey
	ChallengeUse  ChallengeKind = "use"  // show a passkey
)

// Challenge is something that a session has to answer once, before it ends.
type Challenge struct {
	ChallengeRef
	State     []byte
	ExpiresAt time.Time
}

// ChallengeRef names one challenge.
type ChallengeRef struct {
	SessionID string
	Kind      ChallengeKind
	// Ticket is the hash of a random text that tells it from an earlier challenge. Where a
	// form is given that text, whoever has only the session's cookie cannot send the form.
	Ticket TokenHash
}
