package admin

import (
	"context"
	"slices"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

// OwnerService lets an operator's owner manage the operator's logins, revoke its keys and
// require second factors. It is limited to that operator: staff logins and other operators'
// logins and keys are not found. While the operator is suspended, it only reads.
type OwnerService struct {
	service    *Service
	operatorID int64
	ownerID    int64
}

// ForOwner returns the service for an operator's owner.
func (s *Service) ForOwner(owner login.Person) *OwnerService {
	own := *s
	own.scope = owner.OperatorID
	if owner.Realm != login.Operator || owner.Role != login.Owner || owner.OperatorID == 0 {
		own.scope = noOperator
	}
	return &OwnerService{service: &own, operatorID: own.scope, ownerID: owner.ID}
}

// noOperator is the id of no operator: every action of this scope is refused.
const noOperator = -1

// WithVoucher is Service.WithVoucher.
func (o *OwnerService) WithVoucher(voucher string) *OwnerService {
	bound := *o
	bound.service = o.service.WithVoucher(voucher)
	return &bound
}

// Done is Service.Done, for entries of the operator.
func (o *OwnerService) Done(ctx context.Context) (entry AuditEntry, found bool, err error) {
	entry, found, err = o.service.Done(ctx)
	if entry.OperatorID != o.operatorID {
		return AuditEntry{}, false, err
	}
	return entry, found, err
}

// Logins lists the operator's logins by their usernames, disabled ones included.
func (o *OwnerService) Logins(ctx context.Context) ([]login.Person, error) {
	return o.service.Logins(ctx, LoginFilter{Realm: login.Operator, OperatorID: o.operatorID})
}

// Login returns one of the operator's logins. Any other is refused as if there were none.
func (o *OwnerService) Login(ctx context.Context, id int64) (login.Person, error) {
	person, err := o.service.Login(ctx, id)
	if err == nil && (person.Realm != login.Operator || person.OperatorID != o.operatorID) {
		return login.Person{}, Refuse("there is no login %d", id)
	}
	return person, err
}

// CreateLogin creates a login of the operator, with a generated password to be shown once.
func (o *OwnerService) CreateLogin(ctx context.Context, username, name string, role login.Role) (login.Person, string, error) {
	if !slices.Contains(login.Operator.Roles(), role) {
		return login.Person{}, "", refuseOwnersRole(role)
	}
	return o.service.CreateLogin(ctx, NewLogin{Username: username, Name: name, Role: role, OperatorID: o.operatorID})
}

func refuseOwnersRole(role login.Role) *Refusal {
	return Refuse("role %q is not known: give owner, counter or readonly", role)
}

// ChangeLogin changes the name or the role of one of the operator's logins, or disables
// or enables it. Owners cannot change their own role or disable themselves, and an operator
// keeps at least one enabled owner.
func (o *OwnerService) ChangeLogin(ctx context.Context, id int64, change LoginChange) (login.Person, error) {
	if change.Role != nil && !slices.Contains(login.Operator.Roles(), *change.Role) {
		return login.Person{}, refuseOwnersRole(*change.Role)
	}
	person, err := o.Login(ctx, id)
	switch {
	case err != nil:
		return person, err
	case id == o.ownerID && change.Role != nil && *change.Role != person.Role:
		return person, Refuse("you cannot change your own role")
	case id == o.ownerID && change.Disabled != nil && *change.Disabled:
		return person, Refuse("you cannot disable your own login")
	}
	return o.service.ChangeLogin(ctx, id, change)
}

// RefuseLastOwner refuses to leave an operator without an enabled owner.
func RefuseLastOwner(username string) *Refusal {
	return Refuse("%s is the operator's last owner who can sign in: make somebody else an owner first", username)
}

// RemovesOwner reports whether a change leaves an operator with one enabled owner less.
func (c LoginChange) RemovesOwner(p login.Person) bool {
	after := c.Apply(p)
	return p.Role == login.Owner && !p.Disabled && (after.Role != login.Owner || after.Disabled)
}

// ResetPassword generates a password for one of the operator's people, to be shown once.
func (o *OwnerService) ResetPassword(ctx context.Context, id int64) (login.Person, string, error) {
	if id == o.ownerID {
		return login.Person{}, "", Refuse("your own password is changed on your account's page")
	}
	if person, err := o.Login(ctx, id); err != nil {
		return person, "", err
	}
	return o.service.ResetPassword(ctx, id)
}

// ResetTOTP removes the second factors of one of the operator's people.
func (o *OwnerService) ResetTOTP(ctx context.Context, id int64) (login.Person, error) {
	if id == o.ownerID {
		return login.Person{}, Refuse("your own second factor is replaced on your account's page")
	}
	if person, err := o.Login(ctx, id); err != nil {
		return person, err
	}
	return o.service.ResetTOTP(ctx, id)
}

// Key returns one of the operator's keys. Any other is refused as if there were none.
func (o *OwnerService) Key(ctx context.Context, id int64) (access.Credential, error) {
	key, err := o.service.store.Key(ctx, id)
	if err == nil && key.OperatorID != o.operatorID {
		return access.Credential{}, Refuse("there is no key %d", id)
	}
	return key, err
}

// RevokeKey is Service.RevokeKey, for the operator's keys.
func (o *OwnerService) RevokeKey(ctx context.Context, id int64) error {
	if _, err := o.Key(ctx, id); err != nil {
		return err
	}
	return o.service.RevokeKey(ctx, id)
}

// Operator returns the operator's account.
func (o *OwnerService) Operator(ctx context.Context) (subscription.Operator, error) {
	return o.service.Operator(ctx, o.operatorID)
}

// SetReceiptDetails sets the address and the GSTIN that stand on the operator's receipts.
func (o *OwnerService) SetReceiptDetails(ctx context.Context, address, gstin string) (subscription.Operator, error) {
	return o.service.ChangeOperator(ctx, o.operatorID, OperatorChange{Address: &address, GSTIN: &gstin})
}

// RequireSecondFactor requires a second factor of all the operator's people. Only staff
// can undo that: a stolen owner session must not.
func (o *OwnerService) RequireSecondFactor(ctx context.Context) (subscription.Operator, error) {
	required := true
	return o.service.ChangeOperator(ctx, o.operatorID, OperatorChange{SecondFactorRequired: &required})
}
