// Package login authenticates the people who use the pages: passwords, second factors
// and sessions. It knows no HTTP, no cookies and no SQL.
//
// It is separate from the API: a key and its secret are no login, and a session signs no
// request.
package login

import (
	"context"
	"net/netip"
	"time"
)

// Realm separates operators' logins from staff logins.
type Realm string

// Operator logins see their operator's data; staff logins belong to the MSO.
const (
	Operator Realm = "operator"
	Staff    Realm = "staff"
)

// Role is what a login may do within its realm.
type Role string

// The first three are an operator's roles, the others are staff. An owner may do
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

// Roles returns the roles that a login of the realm can have.
func (r Realm) Roles() []Role {
	switch r {
	case Operator:
		return []Role{Owner, Counter, ReadOnly}
	case Staff:
		return []Role{Viewer, Support, Finance, Administrator}
	}
	return nil
}

// privileged reports whether a role moves money or sees secrets, so that a leaked
// password must not be enough for it.
func (r Role) privileged() bool { return r == Finance || r == Administrator }

// The languages of the pages.
const (
	English = "en"
	Hindi   = "hi"
)

// Person is a login as pages show it; Account adds the secrets.
type Person struct {
	ID    int64
	Realm Realm
	// OperatorID is 0 for staff.
	OperatorID     int64
	Username, Name string
	Role           Role
	Language       string
	// TOTP: an authenticator app is set up as a second factor. Passkeys counts passkeys.
	TOTP     bool
	Passkeys int
	// MustChangePassword: the present one is temporary, chosen by somebody else.
	MustChangePassword, Disabled bool
	// PasswordEnds is when a temporary password expires; zero for one of their own.
	PasswordEnds          time.Time
	CreatedAt, LastSignIn time.Time
	// OperatorSuspended: the operator is inactive, so its people can read but change
	// nothing.
	OperatorSuspended bool
	// OperatorRequiresTOTP: the operator's people must have a second factor.
	OperatorRequiresTOTP bool
}

// Stage is how far a session has come in signing in. Only a complete session may do
// anything.
type Stage string

// In this order; stages that do not apply are skipped.
const (
	NeedsCode     Stage = "needs code"     // the password was correct, the second factor is outstanding
	NeedsPassword Stage = "needs password" // a temporary password has to be replaced first
	NeedsTOTP     Stage = "needs totp"     // a second factor has to be set up first
	Complete      Stage = "complete"
)

// Session is a person's sign-in on one device.
type Session struct {
	// ID identifies the session among the person's others. It is not the token, and
	// grants nothing.
	ID                string
	Person            Person
	CreatedAt, SeenAt time.Time
	// SteppedUpAt is when the password, and the second factor if one is set up, were last
	// verified; zero if that is outstanding.
	SteppedUpAt time.Time
	Stage       Stage
	Address     netip.Addr
	Agent       string
	// Changes are the changes of the person's second factors that they have not
	// acknowledged, except for those made in this session.
	Changes []FactorNotice
}

// freshFor is how long a step-up is valid.
const freshFor = 5 * time.Minute

// Fresh reports whether the person stepped up recently, as is required before secrets are
// shown and money is moved, so that an unattended device is not enough for either.
func (s Session) Fresh(now time.Time) bool {
	return !s.SteppedUpAt.IsZero() && now.Sub(s.SteppedUpAt) < freshFor
}

// Defaults of Config.
const (
	DefaultIdle     = 30 * time.Minute
	DefaultAbsolute = 12 * time.Hour
)

const (
	// seenEvery is how often a session's last use is written. A write for every page
	// would be most of what the page costs.
	seenEvery = time.Minute

	// codeWithin is how long a session waits for its second factor: long enough to find
	// the telephone.
	codeWithin = 10 * time.Minute

	maxAgentLength = 200
)

// Config configures a Service.
type Config struct {
	Now func() time.Time
	// Idle is how long a session lives after its last use, Absolute how long after its
	// creation; the defaults above if zero.
	Idle, Absolute time.Duration
	// StaffTOTP: staff who move money or see secrets must have a second factor.
	StaffTOTP bool
	// Pause delays a response; nil uses a timer.
	Pause func(context.Context, time.Duration) error
	// Observe receives events; may be nil.
	Observe func(context.Context, Event)
}

// Service authenticates people and manages their sessions.
type Service struct {
	store  Store
	vault  Vault
	config Config
	slowed slowed
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
	return &Service{store: store, vault: vault, config: config}
}

// RequiresSecondFactor reports whether a person must have a second factor.
func (svc *Service) RequiresSecondFactor(p Person) bool {
	if p.Realm == Operator {
		return p.OperatorRequiresTOTP
	}
	return svc.config.StaffTOTP && p.Realm == Staff && p.Role.privileged()
}

// session converts a record. The stage is not stored: it follows from the person's
// present row, so that a new role or a reset password takes effect immediately on every
// node.
func (svc *Service) session(r Record) Session {
	s := Session{
		ID: r.ID, Person: r.Account.Person, CreatedAt: r.CreatedAt, SeenAt: r.SeenAt, SteppedUpAt: r.SteppedUpAt,
		Address: r.Address, Agent: r.Agent, Stage: Complete, Changes: noticesFor(r.Account.FactorNotice, r.ID),
	}
	switch p := r.Account.Person; {
	case p.SecondFactor() && !r.CodeVerified:
		s.Stage = NeedsCode
	case p.MustChangePassword:
		s.Stage = NeedsPassword
	case svc.RequiresSecondFactor(p) && !p.SecondFactor():
		s.Stage = NeedsTOTP
	}
	return s
}

// alive reports whether a session is still valid. Its last use is known to the minute, so
// it may end that much early, never late.
func (svc *Service) alive(r Record, now time.Time) bool {
	switch {
	case r.Account.Disabled || r.Account.OperatorDeleted:
		return false
	case now.Sub(r.SeenAt) >= svc.config.Idle || now.Sub(r.CreatedAt) >= svc.config.Absolute:
		return false
	}
	return r.CodeVerified || !r.Account.SecondFactor() || now.Sub(r.CreatedAt) < codeWithin
}
