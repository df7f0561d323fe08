package admin

import (
	"context"
	"slices"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

// OwnerService is where an operator's owner manages the operator's own logins, ends its
// keys and demands second factors. It acts on that one operator: staff logins and other
// operators' logins and keys do not exist for it. While the operator is suspended, it
// only reads.
type OwnerService struct {
	service    *Service
	operatorID int64
	ownerID    int64
}

// ForOwner is the service of an operator's owner.
func (d *Service) ForOwner(owner login.Person) *OwnerService {
	own := *d
	own.within = owner.OperatorID
	if owner.Realm != login.Operator || owner.Role != login.Owner || owner.OperatorID == 0 {
		own.within = nobody
	}
	return &OwnerService{service: &own, operatorID: own.within, ownerID: owner.ID}
}

// nobody is the id of no operator: whatever acts within it is refused.
const nobody = -1

// Under is the service for the one act that a voucher names; see Service.Under.
func (o *OwnerService) Under(voucher string) *OwnerService {
	bound := *o
	bound.service = o.service.Under(voucher)
	return &bound
}

// Done is the act that was done under the service's voucher, if one was.
func (o *OwnerService) Done(ctx context.Context) (act AuditEntry, found bool, err error) {
	act, found, err = o.service.Done(ctx)
	if act.OperatorID != o.operatorID {
		return AuditEntry{}, false, err
	}
	return act, found, err
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

// CreateLogin makes a login of the operator; its password is made up and shown this once.
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
// or enables it. An owner does not change their own role, nor disable themself; and an
// operator keeps at least one enabled owner.
func (o *OwnerService) ChangeLogin(ctx context.Context, id int64, change LoginChange) (login.Person, error) {
	if change.Role != nil && !slices.Contains(login.Operator.Roles(), *change.Role) {
		return login.Person{}, refuseOwnersRole(*change.Role)
	}
	person, err := o.Login(ctx, id)
	switch {
	case err != nil:
		return person, err
	case id == o.ownerID && change.Role != nil && *change.Role != person.Role:
		return person, Refuse("nobody changes their own role")
	case id == o.ownerID && change.Disabled != nil && *change.Disabled:
		return person, Refuse("nobody switches their own login off")
	}
	return o.service.ChangeLogin(ctx, id, change)
}

// RefuseLastOwner refuses to leave an operator without an enabled owner.
func RefuseLastOwner(username string) *Refusal {
	return Refuse("%s is the operator's last owner who can sign in: make somebody else an owner first", username)
}

// TakesOwner reports whether a change leaves an operator with one enabled owner less.
func (c LoginChange) TakesOwner(p login.Person) bool {
	after := c.Apply(p)
	return p.Role == login.Owner && !p.Disabled && (after.Role != login.Owner || after.Disabled)
}

// ResetPassword makes up a password for one of the operator's people, shown this once.
func (o *OwnerService) ResetPassword(ctx context.Context, id int64) (login.Person, string, error) {
	if id == o.ownerID {
		return login.Person{}, "", Refuse("your own password is changed on your account's page")
	}
	if person, err := o.Login(ctx, id); err != nil {
		return person, "", err
	}
	return o.service.ResetPassword(ctx, id)
}

// ResetTOTP takes the second factor away from one of the operator's people who lost it.
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

// RevokeKey ends one of the operator's keys at once, as Service.RevokeKey does.
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

// RequireSecondFactor demands a second factor of all the operator's people. Only staff
// can take that back: whoever gets hold of an owner's session must not.
func (o *OwnerService) RequireSecondFactor(ctx context.Context) (subscription.Operator, error) {
	required := true
	return o.service.ChangeOperator(ctx, o.operatorID, OperatorChange{SecondFactorRequired: &required})
}
