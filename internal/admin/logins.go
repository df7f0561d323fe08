package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/login"
)

// NewLogin is a login to be created.
type NewLogin struct {
	Username, Name string
	// Role implies the realm: owner, counter and readonly belong to an operator, all
	// others are staff.
	Role login.Role
	// OperatorID is 0 for staff.
	OperatorID int64
	// Password is the person's own choice. If it is empty one is generated, which has to
	// be replaced at the first sign-in.
	Password string
}

// LoginChange is what to change of a login; a nil field stays as it is.
type LoginChange struct {
	Name     *string
	Role     *login.Role
	Disabled *bool
}

// LoginFilter selects logins; a zero field selects all.
type LoginFilter struct {
	Realm      login.Realm
	OperatorID int64
}

// CreateLogin creates a login. It refuses one that needs approval: see SubmitLogin. It
// returns the generated password, to be shown once; empty if one was given.
func (s *Service) CreateLogin(ctx context.Context, n NewLogin) (person login.Person, password string, err error) {
	account, err := n.account()
	if err != nil {
		return person, "", err
	}
	chosen := n.Password
	if chosen == "" {
		password = login.NewPassword()
		chosen, account.MustChangePassword = password, true
	} else if err := s.checkPassword(ctx, chosen, account); err != nil {
		return person, "", err
	}
	if account.PasswordHash, err = login.HashPassword(ctx, chosen); err != nil {
		return person, "", err
	}
	account.CreatedAt = s.now()
	person, err = s.store.CreateLogin(ctx, s.newAction(LoginCreate), account)
	if err != nil {
		return person, "", err
	}
	return person, password, nil
}

// checkPassword refuses a password that the account may not have.
func (s *Service) checkPassword(ctx context.Context, password string, account login.Account) error {
	names := []string{account.Username, account.Name}
	if account.OperatorID != 0 {
		operator, err := s.store.Operator(ctx, account.OperatorID)
		if err != nil {
			return err
		}
		names = append(names, operator.Name)
	}
	if err := login.CheckPassword(password, names...); err != nil {
		return Refuse("%s", Term(err.Error()))
	}
	return nil
}

// account returns the account to be created, without a password yet.
func (n NewLogin) account() (login.Account, error) {
	username, ok := login.FoldUsername(n.Username)
	if !ok {
		return login.Account{}, Refuse("username %q will not do: give 3 to 64 of a-z, 0-9 and . _ - @", n.Username)
	}
	name := strings.TrimSpace(n.Name)
	if err := checkText("name", name, 1, 100); err != nil {
		return login.Account{}, err
	}
	realm := login.Staff
	if slices.Contains(login.Operator.Roles(), n.Role) {
		realm = login.Operator
	}
	switch {
	case !slices.Contains(realm.Roles(), n.Role):
		return login.Account{}, unknownRole(n.Role)
	case realm == login.Operator && n.OperatorID < 1:
		return login.Account{}, Refuse("role %s belongs to an operator: say to which", n.Role)
	case realm == login.Staff && n.OperatorID != 0:
		return login.Account{}, Refuse("role %s is staff's, and belongs to no operator: leave the operator out, or choose owner, counter or readonly", n.Role)
	}
	return login.Account{Person: login.Person{
		Realm: realm, OperatorID: n.OperatorID, Username: username, Name: name, Role: n.Role, Language: login.English,
	}}, nil
}

func unknownRole(role login.Role) error {
	return Refuse("role %q is not known: give viewer, support, finance or administrator for staff; owner, counter or readonly for an operator's own people", role)
}

// ChangeLogin changes a login's name or role, or disables or enables it, with immediate
// effect on every node. It refuses a role that needs approval: see SubmitRole.
func (s *Service) ChangeLogin(ctx context.Context, id int64, change LoginChange) (login.Person, error) {
	if change == (LoginChange{}) {
		return login.Person{}, Refuse("nothing to change: give at least one setting")
	}
	if change.Name != nil {
		name := strings.TrimSpace(*change.Name)
		if err := checkText("name", name, 1, 100); err != nil {
			return login.Person{}, err
		}
		change.Name = &name
	}
	return s.store.ChangeLogin(ctx, s.newAction(LoginSet), id, change)
}

// Apply returns the person with the change made.
func (c LoginChange) Apply(p login.Person) login.Person {
	if c.Name != nil {
		p.Name = *c.Name
	}
	if c.Role != nil {
		p.Role = *c.Role
	}
	if c.Disabled != nil {
		p.Disabled = *c.Disabled
	}
	return p
}

// CheckRole refuses a role of the other realm: a login stays with staff or its operator.
func (c LoginChange) CheckRole(p login.Person) error {
	switch {
	case c.Role == nil || slices.Contains(p.Realm.Roles(), *c.Role):
		return nil
	case !slices.Contains(slices.Concat(login.Staff.Roles(), login.Operator.Roles()), *c.Role):
		return unknownRole(*c.Role)
	case p.Realm == login.Operator:
		return Refuse("%s is an operator's login and stays one: make a login of its own for staff", p.Username)
	}
	return Refuse("%s is staff's login and stays one: make a login of its own for the operator", p.Username)
}

// ResetPassword generates a password for somebody who has lost theirs. It is shown once,
// and has to be replaced at the next sign-in. It refuses a login whose reset needs
// approval: see SubmitPasswordReset.
func (s *Service) ResetPassword(ctx context.Context, id int64) (person login.Person, password string, err error) {
	password = login.NewPassword()
	hash, err := login.HashPassword(ctx, password)
	if err != nil {
		return person, "", err
	}
	if person, err = s.store.ResetPassword(ctx, s.newAction(LoginResetPassword), id, hash); err != nil {
		return person, "", err
	}
	return person, password, nil
}

// ResetTOTP removes all second factors of somebody who has lost theirs: codes, passkeys
// and recovery codes. They are notified at the next sign-in. It refuses a login whose
// reset needs approval: see SubmitTOTPReset.
func (s *Service) ResetTOTP(ctx context.Context, id int64) (login.Person, error) {
	return s.store.ResetTOTP(ctx, s.newAction(LoginResetTOTP), id)
}

// Login returns one login.
func (s *Service) Login(ctx context.Context, id int64) (login.Person, error) {
	return s.store.Login(ctx, id)
}

// LoginNamed returns the login of a username.
func (s *Service) LoginNamed(ctx context.Context, username string) (login.Person, error) {
	folded, ok := login.FoldUsername(username)
	if !ok {
		return login.Person{}, Refuse("there is no login %s", username)
	}
	return s.store.LoginNamed(ctx, folded)
}

// Logins lists logins by their usernames, disabled ones included.
func (s *Service) Logins(ctx context.Context, filter LoginFilter) ([]login.Person, error) {
	return s.store.Logins(ctx, filter)
}
