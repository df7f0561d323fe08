package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/login"
)

// NewLogin is somebody who is to sign in to the pages.
type NewLogin struct {
	Username, Name string
	// Role says on which side, too: owner, counter and readonly are an operator's, all
	// others are staff.
	Role login.Role
	// OperatorID is whose books an operator's person sees; 0 for staff.
	OperatorID int64
	// Password is one that its person has chosen. If it is empty one is made up,
	// which they have to replace when they first sign in.
	Password string
}

// LoginChange names what is to change of a login; nil leaves it alone.
type LoginChange struct {
	Name     *string
	Role     *login.Role
	Disabled *bool
}

// LoginFilter picks logins; a zero field picks all.
type LoginFilter struct {
	Realm      login.Realm
	OperatorID int64
}

// CreateLogin makes a login. In the console it refuses one that may approve where that
// takes a second person: see SubmitLogin. The password that it returns is the one that was made
// up, shown this once; empty if one was given.
func (d *Service) CreateLogin(ctx context.Context, n NewLogin) (person login.Person, password string, err error) {
	account, err := n.account()
	if err != nil {
		return person, "", err
	}
	chosen := n.Password
	if chosen == "" {
		password = login.NewPassword()
		chosen, account.MustChangePassword = password, true
	} else if err := d.checkPassword(ctx, chosen, account); err != nil {
		return person, "", err
	}
	if account.PasswordHash, err = login.HashPassword(ctx, chosen); err != nil {
		return person, "", err
	}
	account.CreatedAt = d.now()
	person, err = d.store.CreateLogin(ctx, d.act(LoginCreate), account)
	if err != nil {
		return person, "", err
	}
	return person, password, nil
}

// checkPassword refuses a password that somebody cannot have.
func (d *Service) checkPassword(ctx context.Context, password string, account login.Account) error {
	names := []string{account.Username, account.Name}
	if account.OperatorID != 0 {
		operator, err := d.store.Operator(ctx, account.OperatorID)
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

// account is the login that is asked for, without a password yet.
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

// ChangeLogin changes somebody's name or role, or switches their login off or on;
// every node obeys at once. A role that takes a second person is refused: see
// SubmitRole.
func (d *Service) ChangeLogin(ctx context.Context, id int64, change LoginChange) (login.Person, error) {
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
	return d.store.ChangeLogin(ctx, d.act(LoginSet), id, change)
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

// Fits refuses a role that the person cannot have: nobody changes sides.
func (c LoginChange) Fits(p login.Person) error {
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

// ResetPassword makes up a password for somebody who has lost theirs. It is shown
// this once, and has to be replaced when they sign in. Of a login that may approve it
// is refused where that takes a second person: see SubmitPasswordReset.
func (d *Service) ResetPassword(ctx context.Context, id int64) (person login.Person, password string, err error) {
	password = login.NewPassword()
	hash, err := login.HashPassword(ctx, password)
	if err != nil {
		return person, "", err
	}
	if person, err = d.store.ResetPassword(ctx, d.act(LoginResetPassword), id, hash); err != nil {
		return person, "", err
	}
	return person, password, nil
}

// ResetTOTP takes all second factors away from somebody who has lost theirs: codes,
// passkeys and recovery codes. They are told when they next sign in. Of a login that
// may approve it is refused where that takes a second person: see SubmitTOTPReset.
func (d *Service) ResetTOTP(ctx context.Context, id int64) (login.Person, error) {
	return d.store.ResetTOTP(ctx, d.act(LoginResetTOTP), id)
}

// Login returns one login.
func (d *Service) Login(ctx context.Context, id int64) (login.Person, error) {
	return d.store.Login(ctx, id)
}

// LoginNamed returns the login of a username.
func (d *Service) LoginNamed(ctx context.Context, username string) (login.Person, error) {
	folded, ok := login.FoldUsername(username)
	if !ok {
		return login.Person{}, Refuse("there is no login %s", username)
	}
	return d.store.LoginNamed(ctx, folded)
}

// Logins lists logins by their usernames, disabled ones included.
func (d *Service) Logins(ctx context.Context, filter LoginFilter) ([]login.Person, error) {
	return d.store.Logins(ctx, filter)
}
