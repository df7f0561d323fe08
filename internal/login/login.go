// Package login knows the people who use the pages: who they are, how they prove
// it, and for how long that is believed. It speaks of usernames, passwords, codes
// and sessions; it knows no HTTP, no cookie and no SQL.
//
// Nothing of it opens the API, and nothing of the API opens it: a key and its secret
// are no login, and a session signs no request.
package login

import (
	"context"
	"net/netip"
	"time"
)

// Realm is which side of the counter somebody stands on.
type Realm string

// Operators see their own books; staff is the MSO's.
const (
	Operator Realm = "operator"
	Staff    Realm = "staff"
)

// Role is what somebody may do there.
type Role string

// The first three are an operator's own people, the others are staff. An owner does
// everything in the panel and manages the operator's other logins; a counter sells and
// looks after subscribers; a read-only login changes nothing.
const (
	Owner         Role = "owner"
	Counter       Role = "counter"
	ReadOnly      Role = "readonly"
	Viewer        Role = "viewer"
	Support       Role = "support"
	Finance       Role = "finance"
	Administrator Role = "administrator"
)

// Roles are those that a login of the realm can have.
func (r Realm) Roles() []Role {
	switch r {
	case Operator:
		return []Role{Owner, Counter, ReadOnly}
	case Staff:
		return []Role{Viewer, Support, Finance, Administrator}
	}
	return nil
}

// trusted reports whether a role moves money or sees secrets, so that a password
// that somebody has overheard must not be enough for it.
func (r Role) trusted() bool { return r == Finance || r == Administrator }

// The languages that the pages speak.
const (
	English = "en"
	Hindi   = "hi"
)

// Person is somebody who can sign in.
type Person struct {
	ID    int64
	Realm Realm
	// OperatorID is whose books they see; 0 for staff.
	OperatorID     int64
	Username, Name string
	Role           Role
	Language       string
	// TOTP: codes of an app are set up as a second factor. Passkeys is how many passkeys are.
	TOTP     bool
	Passkeys int
	// MustChangePassword: the one they have was chosen by somebody else.
	MustChangePassword, Disabled bool
	// PasswordEnds is when a password that was chosen by somebody else ends; zero for
	// one of their own.
	PasswordEnds          time.Time
	CreatedAt, LastSignIn time.Time
	// OperatorSuspended: the operator is inactive, so its people can look at everything
	// and change nothing.
	OperatorSuspended bool
	// OperatorRequiresTOTP: the operator's people must have a second factor.
	OperatorRequiresTOTP bool
}

// Stage is how far somebody has come in signing in. Only a whole session is for
// doing anything.
type Stage string

// In the order in which they are passed; who has nothing to do in one skips it.
const (
	NeedsCode     Stage = "needs code"     // the password was given, the code is outstanding
	NeedsPassword Stage = "needs password" // a password of their own has to be chosen first
	NeedsTOTP     Stage = "needs totp"     // a second factor has to be set up first
	Whole         Stage = "whole"
)

// Session is somebody's being signed in, on one device.
type Session struct {
	// ID names the session among a person's others. It is not the token, and opens
	// nothing.
	ID                string
	Person            Person
	CreatedAt, SeenAt time.Time
	// SteppedUpAt is when the password was last given, and the code where one is
	// set up; zero if that is still to come.
	SteppedUpAt time.Time
	Stage       Stage
	Address     netip.Addr
	Agent       string
	// Changes are what became of the person's second factors since they last took notice,
	// but for what was done in this session.
	Changes []FactorNotice
}

// freshFor is how long a proof of identity is good for secrets and money.
const freshFor = 5 * time.Minute

// Fresh reports whether the person has proved themselves a short while ago, as is
// demanded before secrets are shown and money is moved. A device that was left
// alone for a moment is thereby not enough for either.
func (s Session) Fresh(now time.Time) bool {
	return !s.SteppedUpAt.IsZero() && now.Sub(s.SteppedUpAt) < freshFor
}

// What a Service goes by unless it is told otherwise.
const (
	DefaultIdle     = 30 * time.Minute
	DefaultAbsolute = 12 * time.Hour
)

const (
	// seenEvery is how often it is written down that a session is in use. Pages
	// come by the second, and a write for each would be most of what they cost.
	seenEvery = time.Minute

	// codeWithin is how long a session waits for its code: long enough to find the
	// telephone.
	codeWithin = 10 * time.Minute

	agentMost = 200
)

// Config is what a Service can be told.
type Config struct {
	Now func() time.Time
	// Idle is for how long a session outlives its last use, Absolute for how long
	// its beginning; the defaults above if zero.
	Idle, Absolute time.Duration
	// StaffTOTP: staff who move money or see secrets must have a second factor.
	StaffTOTP bool
	// Pause delays an answer; nil is a timer.
	Pause func(context.Context, time.Duration) error
	// Observe is told what people do here, and what failed; nil tells nobody.
	Observe func(context.Context, Event)
}

// Service is where people prove who they are.
type Service struct {
	store       Store
	vault       Vault
	config      Config
	tryKey      []byte
	browserKeys map[uint32][]byte
	slowed      slowed
}

// New returns a service.
func New(store Store, vault Vault, config Config) *Service {
	if config.Idle <= 0 {
		config.Idle = DefaultIdle
	}
	if config.Absolute <= 0 {
		config.Absolute = DefaultAbsolute
	}
	if config.Pause == nil {
		config.Pause = pause
	}
	return &Service{
		store: store, vault: vault, config: config,
		tryKey: vault.Derive("sign-in tries")[vault.PrimaryID()], browserKeys: vault.Derive("known browsers"),
	}
}

// Requires reports whether a person must have a second factor.
func (d *Service) Requires(p Person) bool {
	if p.Realm == Operator {
		return p.OperatorRequiresTOTP
	}
	return d.config.StaffTOTP && p.Realm == Staff && p.Role.trusted()
}

// session is a record as it stands now. The stage is not kept: it follows from what
// the person's row says at this moment, so that a role that grows, or a password
// that is reset, counts at once and on every node.
func (d *Service) session(r Record) Session {
	s := Session{
		ID: r.ID, Person: r.Account.Person, CreatedAt: r.CreatedAt, SeenAt: r.SeenAt, SteppedUpAt: r.SteppedUpAt,
		Address: r.Address, Agent: r.Agent, Stage: Whole, Changes: noticesFor(r.Account.FactorNotice, r.ID),
	}
	switch p := r.Account.Person; {
	case p.SecondFactor() && !r.CodeGiven:
		s.Stage = NeedsCode
	case p.MustChangePassword:
		s.Stage = NeedsPassword
	case d.Requires(p) && !p.SecondFactor():
		s.Stage = NeedsTOTP
	}
	return s
}

// alive reports whether a session is still one. Its last use is known to a minute,
// so that it may end that much early, never late.
func (d *Service) alive(r Record, now time.Time) bool {
	switch {
	case r.Account.Disabled || r.Account.OperatorDeleted:
		return false
	case now.Sub(r.SeenAt) >= d.config.Idle || now.Sub(r.CreatedAt) >= d.config.Absolute:
		return false
	}
	return r.CodeGiven || !r.Account.SecondFactor() || now.Sub(r.CreatedAt) < codeWithin
}
