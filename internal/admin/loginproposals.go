package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/login"
)

// In the console, a login that may approve is created, raised or reset by two people,
// where there is a second person. Otherwise somebody could make the login that
// approves what they propose.

// LoginProposal is what a proposal about a login wants: who it is about, and the role
// that they are to have. It never has a password.
type LoginProposal struct {
	Username string     `json:"username"`
	Name     string     `json:"name"`
	Role     login.Role `json:"role"`
	// From is the role that is to be replaced, of a proposal to change it.
	From login.Role `json:"from,omitempty"`
}

// Login is what the proposal wants of a login, and its id; 0 for one that is to be
// created.
func (p Proposal) Login() (id int64, wanted LoginProposal, err error) {
	if err := json.Unmarshal([]byte(p.Change), &wanted); err != nil {
		return 0, wanted, fmt.Errorf("read what proposal %d wants: %w", p.ID, err)
	}
	if p.Kind == ProposedLogin {
		return 0, wanted, nil
	}
	id, err = strconv.ParseInt(strings.TrimPrefix(p.Subject, "login "), 10, 64)
	if err != nil {
		return 0, wanted, fmt.Errorf("read whom proposal %d is about: %w", p.ID, err)
	}
	return id, wanted, nil
}

// AboutLogin reports whether the proposal gives a login access.
func (p Proposal) AboutLogin() bool {
	switch p.Kind {
	case ProposedLogin, ProposedRole, ProposedPassword, ProposedTOTP:
		return true
	}
	return false
}

// CheckLogin refuses a proposal that cannot be carried out on the login as it is now.
func (p Proposal) CheckLogin(person login.Person) error {
	_, wanted, err := p.Login()
	switch {
	case err != nil:
		return err
	case p.Kind == ProposedTOTP && !person.SecondFactor():
		return Refuse("login %s has no second factor", person.Username)
	case p.Kind != ProposedRole:
		return nil
	case person.Role != wanted.From:
		return Refuse("%s has the role %q now, and not the one that was to be changed: decline the proposal", person.Username, person.Role)
	}
	return LoginChange{Role: &wanted.Role}.Fits(person)
}

// SubmitLogin creates a login, or proposes to where that takes a second person. The
// password is then made up at the approval.
func (d *Service) SubmitLogin(ctx context.Context, n NewLogin) (Outcome, error) {
	person, password, err := d.CreateLogin(ctx, n)
	if !needsSecondPerson(err) {
		return Outcome{Person: person, Password: password}, err
	}
	account, err := n.account()
	if err != nil {
		return Outcome{}, err
	}
	return d.proposeLogin(ctx, ProposedLogin, "login "+account.Username, LoginProposal{Username: account.Username, Name: account.Name, Role: account.Role})
}

// SubmitRole changes a login's role, or proposes to where that takes a second person.
func (d *Service) SubmitRole(ctx context.Context, id int64, role login.Role) (Outcome, error) {
	person, err := d.ChangeLogin(ctx, id, LoginChange{Role: &role})
	if !needsSecondPerson(err) {
		return Outcome{Person: person}, err
	}
	if person, err = d.store.Login(ctx, id); err != nil {
		return Outcome{}, err
	}
	wanted := about(person)
	wanted.Role, wanted.From = role, person.Role
	return d.proposeLogin(ctx, ProposedRole, subjectOf(person), wanted)
}

// SubmitPasswordReset resets a password, or proposes to where that takes a second
// person. It is then made up at the approval.
func (d *Service) SubmitPasswordReset(ctx context.Context, id int64) (Outcome, error) {
	person, password, err := d.ResetPassword(ctx, id)
	if !needsSecondPerson(err) {
		return Outcome{Person: person, Password: password}, err
	}
	if person, err = d.store.Login(ctx, id); err != nil {
		return Outcome{}, err
	}
	return d.proposeLogin(ctx, ProposedPassword, subjectOf(person), about(person))
}

// SubmitTOTPReset takes all second factors away, or proposes to where that takes a second
// person.
func (d *Service) SubmitTOTPReset(ctx context.Context, id int64) (Outcome, error) {
	person, err := d.ResetTOTP(ctx, id)
	if !needsSecondPerson(err) {
		return Outcome{Person: person}, err
	}
	if person, err = d.store.Login(ctx, id); err != nil {
		return Outcome{}, err
	}
	return d.proposeLogin(ctx, ProposedTOTP, subjectOf(person), about(person))
}

func about(p login.Person) LoginProposal {
	return LoginProposal{Username: p.Username, Name: p.Name, Role: p.Role}
}

func subjectOf(p login.Person) string { return fmt.Sprintf("login %d", p.ID) }

// proposeLogin proposes something that there is one open proposal of at a time, with
// or without a voucher.
func (d *Service) proposeLogin(ctx context.Context, kind ProposalKind, subject string, wanted LoginProposal) (Outcome, error) {
	change, err := json.Marshal(wanted)
	if err != nil {
		return Outcome{}, err
	}
	return d.Under("").propose(ctx, Proposal{Kind: kind, Subject: subject, Change: string(change)})
}

// makeUpPassword gives an approval that needs one a password, which it returns.
func (a *Approval) makeUpPassword(ctx context.Context) (string, error) {
	p := a.Proposal
	if p.Kind != ProposedLogin && p.Kind != ProposedPassword {
		return "", nil
	}
	_, wanted, err := p.Login()
	if err != nil {
		return "", err
	}
	password := login.NewPassword()
	if a.PasswordHash, err = login.HashPassword(ctx, password); err != nil {
		return "", err
	}
	if p.Kind == ProposedLogin {
		if a.Account, err = (NewLogin{Username: wanted.Username, Name: wanted.Name, Role: wanted.Role}).account(); err != nil {
			return "", err
		}
		a.Account.PasswordHash, a.Account.MustChangePassword, a.Account.CreatedAt = a.PasswordHash, true, a.CarryOut.At
	}
	return password, nil
}

// SecondPerson reports whether somebody else can approve what this service's actor
// proposes about a login, or about a new one if id is 0; where not, it is done at once.
func (d *Service) SecondPerson(ctx context.Context, id int64) (bool, error) {
	staff, err := d.store.StaffAccess(ctx)
	return staff.SecondPerson(d.actor, id), err
}

// Approvable returns why this service's actor cannot approve a proposal; nil if they can.
func (d *Service) Approvable(ctx context.Context) (func(Proposal) error, error) {
	staff, err := d.store.StaffAccess(ctx)
	return func(p Proposal) error {
		if err := d.permit(p.Kind.Action()); err != nil {
			return err
		}
		return staff.MayApprove(p, d.actor, d.now(), d.limits.NewLoginWait)
	}, err
}
