package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/login"
)

// In the console, creating, raising or resetting a login that may approve needs approval,
// if anybody can give it. Otherwise somebody could create the login that approves what
// they propose.

// LoginProposal is what a proposal about a login would set: the person and their role. It
// never has a password.
type LoginProposal struct {
	Username string     `json:"username"`
	Name     string     `json:"name"`
	Role     login.Role `json:"role"`
	// From is the present role, for a proposal to change it.
	From login.Role `json:"from,omitempty"`
}

// Login reads the LoginProposal and the login's id, which is 0 for one to be created.
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
	return LoginChange{Role: &wanted.Role}.CheckRole(person)
}

// SubmitLogin creates a login, or proposes it where that needs approval. The password is
// then generated at the approval.
func (s *Service) SubmitLogin(ctx context.Context, n NewLogin) (ActionResult, error) {
	person, password, err := s.CreateLogin(ctx, n)
	if !isRefusedWithoutApproval(err) {
		return ActionResult{Person: person, Password: password}, err
	}
	account, err := n.account()
	if err != nil {
		return ActionResult{}, err
	}
	return s.proposeLogin(ctx, ProposedLogin, "login "+account.Username, LoginProposal{Username: account.Username, Name: account.Name, Role: account.Role})
}

// SubmitRole changes a login's role, or proposes it where that needs approval.
func (s *Service) SubmitRole(ctx context.Context, id int64, role login.Role) (ActionResult, error) {
	person, err := s.ChangeLogin(ctx, id, LoginChange{Role: &role})
	if !isRefusedWithoutApproval(err) {
		return ActionResult{Person: person}, err
	}
	if person, err = s.store.Login(ctx, id); err != nil {
		return ActionResult{}, err
	}
	wanted := about(person)
	wanted.Role, wanted.From = role, person.Role
	return s.proposeLogin(ctx, ProposedRole, subjectOf(person), wanted)
}

// SubmitPasswordReset resets a password, or proposes it where that needs approval. The
// password is then generated at the approval.
func (s *Service) SubmitPasswordReset(ctx context.Context, id int64) (ActionResult, error) {
	person, password, err := s.ResetPassword(ctx, id)
	if !isRefusedWithoutApproval(err) {
		return ActionResult{Person: person, Password: password}, err
	}
	if person, err = s.store.Login(ctx, id); err != nil {
		return ActionResult{}, err
	}
	return s.proposeLogin(ctx, ProposedPassword, subjectOf(person), about(person))
}

// SubmitTOTPReset removes all second factors, or proposes it where that needs approval.
func (s *Service) SubmitTOTPReset(ctx context.Context, id int64) (ActionResult, error) {
	person, err := s.ResetTOTP(ctx, id)
	if !isRefusedWithoutApproval(err) {
		return ActionResult{Person: person}, err
	}
	if person, err = s.store.Login(ctx, id); err != nil {
		return ActionResult{}, err
	}
	return s.proposeLogin(ctx, ProposedTOTP, subjectOf(person), about(person))
}

func about(p login.Person) LoginProposal {
	return LoginProposal{Username: p.Username, Name: p.Name, Role: p.Role}
}

func subjectOf(p login.Person) string { return fmt.Sprintf("login %d", p.ID) }

// proposeLogin proposes without a voucher: a login has one open proposal of a kind anyway.
func (s *Service) proposeLogin(ctx context.Context, kind ProposalKind, subject string, wanted LoginProposal) (ActionResult, error) {
	change, err := json.Marshal(wanted)
	if err != nil {
		return ActionResult{}, err
	}
	return s.WithVoucher("").propose(ctx, Proposal{Kind: kind, Subject: subject, Change: string(change)})
}

// generatePassword sets the hash of a new password where the approval needs one, and
// returns the password.
func (a *Approval) generatePassword(ctx context.Context) (string, error) {
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

// HasApprover reports whether somebody else can approve what this service's actor
// proposes about a login, or about a new one if id is 0. If not, no approval is needed.
func (s *Service) HasApprover(ctx context.Context, id int64) (bool, error) {
	staff, err := s.store.StaffAccess(ctx)
	return staff.HasApprover(s.actor, id), err
}

// Approvable returns a function that says why the actor cannot approve a proposal.
func (s *Service) Approvable(ctx context.Context) (func(Proposal) error, error) {
	staff, err := s.store.StaffAccess(ctx)
	return func(p Proposal) error {
		if err := s.permit(p.Action()); err != nil {
			return err
		}
		return staff.MayApprove(p, s.actor, s.now(), s.limits.NewLoginWait)
	}, err
}

// HasFinanceApprover reports whether somebody in finance can approve the amounts that this
// service's actor proposes.
func (s *Service) HasFinanceApprover(ctx context.Context) (bool, error) {
	staff, err := s.store.StaffAccess(ctx)
	return staff.HasFinanceApprover(s.actor), err
}
