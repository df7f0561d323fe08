// Package admin is every act of staff, one function each: what it demands, what
// it refuses, and who is written down as having done it. The command line and
// the console both act through it. It knows no HTTP and no SQL.
package admin

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// MaxGrace is how long a rotated key may stay valid.
const MaxGrace = 72 * time.Hour

// maxRateLimit keeps a slip of the keyboard from becoming no limit at all.
const maxRateLimit = 1_000_000

// Sealer seals a secret so that only the service can open it again.
type Sealer interface {
	Seal(secret access.Secret, operatorID int64, hash access.KeyHash) ([]byte, error)
}

// Service is where a member of staff acts. Each Service has one actor.
type Service struct {
	store Store
	vault Sealer
	actor string
	now   func() time.Time

	origin  string
	voucher string
	within  int64 // see StaffAction.Within
	// limited desks have a role and limits; the others are the command line's.
	limited bool
	role    Role
	limits  Limits
	// maxMonths is the longest term that a plan is set to; zero is mostMonths.
	maxMonths int
	// stale: see Stale.
	stale bool
}

// NewService returns the service of one actor, who may do everything: see As and From.
func NewService(store Store, vault Sealer, actor string, now func() time.Time) *Service {
	return &Service{store: store, vault: vault, actor: actor, now: now}
}

func (d *Service) act(action Action) StaffAction {
	act := StaffAction{Actor: d.actor, Action: string(action), At: d.now(), Origin: d.origin, Voucher: d.voucher, Within: d.within, barred: d.permit(action)}
	act.Reason = act.noted("")
	if d.limited {
		limits := d.limits
		act.limits = &limits
	}
	act.stale = d.stale
	return act
}

// CreateOperator opens an account with an empty wallet. It starts active, with
// the API enabled, and blocked for everybody until an address is whitelisted.
func (d *Service) CreateOperator(ctx context.Context, name string, terms OperatorChange) (subscription.Operator, error) {
	name = strings.TrimSpace(name)
	if err := checkText("operator's name", name, 1, 100); err != nil {
		return subscription.Operator{}, err
	}
	if err := checkTerms(terms); err != nil {
		return subscription.Operator{}, err
	}
	operator := subscription.Operator{
		Name:       name,
		Status:     subscription.OperatorActive,
		API:        subscription.APIEnabled,
		RateLimit:  subscription.DefaultRateLimit,
		LowBalance: subscription.DefaultLowBalance,
		CreatedAt:  d.now(),
	}
	return d.store.CreateOperator(ctx, d.act(OperatorCreate), terms.Apply(operator))
}

// ChangeOperator changes the terms of an account; every node obeys at once.
func (d *Service) ChangeOperator(ctx context.Context, id int64, change OperatorChange) (subscription.Operator, error) {
	if change == (OperatorChange{}) {
		return subscription.Operator{}, Refuse("nothing to change: give at least one setting")
	}
	if err := checkTerms(change); err != nil {
		return subscription.Operator{}, err
	}
	return d.store.ChangeOperator(ctx, d.act(OperatorSet), id, change)
}

// Apply returns the operator with the change made.
func (c OperatorChange) Apply(operator subscription.Operator) subscription.Operator {
	if c.Status != nil {
		operator.Status = *c.Status
	}
	if c.API != nil {
		operator.API = *c.API
	}
	if c.RateLimit != nil {
		operator.RateLimit = *c.RateLimit
	}
	if c.CommissionBPS != nil {
		operator.CommissionBPS = *c.CommissionBPS
	}
	if c.LowBalance != nil {
		operator.LowBalance = *c.LowBalance
	}
	if c.SecondFactorRequired != nil {
		operator.SecondFactorRequired = *c.SecondFactorRequired
	}
	return operator
}

func checkTerms(change OperatorChange) error {
	if s := change.Status; s != nil && *s != subscription.OperatorActive && *s != subscription.OperatorInactive {
		return Refuse("status %q is not known: give active or inactive", *s)
	}
	if a := change.API; a != nil && *a != subscription.APIEnabled && *a != subscription.APIDisabled && *a != subscription.APIBlocked {
		return Refuse("API access %q is not known: give enabled, disabled or blocked", *a)
	}
	if n := change.RateLimit; n != nil && (*n < 1 || *n > maxRateLimit) {
		return Refuse("a rate limit of %d requests a minute is outside 1 to %d", *n, maxRateLimit)
	}
	if n := change.CommissionBPS; n != nil && (*n < 0 || *n > 10_000) {
		return Refuse("a commission of %d basis points is outside 0 to 10000 (250 is 2.5 %%)", *n)
	}
	if a := change.LowBalance; a != nil && a.IsNegative() {
		return Refuse("a low-balance threshold of %s is below zero", *a)
	}
	return nil
}

// checkText takes a text of so many characters that a person can read on one
// line: no control characters, no blanks around it.
func checkText(name Term, text string, least, most int) error {
	form, args := subscription.WhyUnprintable(text)
	switch n := utf8.RuneCountInString(text); {
	case n < least || n > most:
		return Refuse("the %s has %d characters; give %d to %d", name, n, least, most)
	case form != "":
		return Refuse("the %s is not fit to be shown: %v", name, Refuse(form, args...))
	case strings.TrimSpace(text) != text:
		return Refuse("the %s has blanks around it", name)
	}
	return nil
}

// DeleteOperator closes an account that has no money, no open operation and no
// running bulk job. Its records stay, and for UndeleteWithin it can be undone.
func (d *Service) DeleteOperator(ctx context.Context, id int64) error {
	return d.store.DeleteOperator(ctx, d.act(OperatorDelete), id)
}

// UndeleteOperator opens a deleted account again as it was: status, keys, whitelist,
// logins and subscribers.
func (d *Service) UndeleteOperator(ctx context.Context, id int64) (subscription.Operator, error) {
	return d.store.UndeleteOperator(ctx, d.act(OperatorUndelete), id)
}

// InUse is what keeps an operator from being deleted.
type InUse struct {
	Wallet subscription.Wallet
	// Operations counts the open operations, BulkJobs the running bulk renewals.
	Operations, BulkJobs int64
}

// Refusal refuses to delete an operator that is in use, and says how to go on; nil
// if nothing is in the way.
func (u InUse) Refusal() error {
	w := u.Wallet
	switch {
	case w.Balance.IsPositive() && w.Held.IsZero() && u.Operations == 0:
		return Refuse("operator %d cannot be deleted: its wallet has %s; pay it out: coax admin wallet adjust --lco %d --amount=-%s --reason TEXT",
			w.OperatorID, w.Balance, w.OperatorID, w.Balance.String())
	case w.Balance.IsPositive():
		return Refuse("operator %d cannot be deleted: its wallet has %s, and %s are held by %d open operations; once none is open, pay the balance out: coax admin wallet adjust --lco %d --amount=-%s --reason TEXT",
			w.OperatorID, w.Balance, w.Held, u.Operations, w.OperatorID, w.Balance.String())
	case w.Held.IsPositive() || u.Operations > 0:
		return Refuse("operator %d cannot be deleted: its wallet has %s, and %s are held by %d open operations; wait until they are settled, and pay out what is refunded: coax admin wallet adjust --lco %d --amount=-AMOUNT --reason TEXT",
			w.OperatorID, w.Balance, w.Held, u.Operations, w.OperatorID)
	case u.BulkJobs > 0:
		return Refuse("operator %d cannot be deleted while a bulk renewal of it is running: wait until it has ended, or sign in with a login of that operator and press Stop on its page; a suspended operator has to be activated for that, and the renewal does not go on by itself", w.OperatorID)
	}
	return nil
}

// RefuseDeleted refuses to change a deleted operator.
func RefuseDeleted(id int64) *Refusal {
	return Refuse("operator %d was deleted and cannot be changed; coax admin lco undelete --lco %d opens it again within 30 days of the deletion", id, id)
}

// RefuseSuspended refuses what an operator's own people want to change while the
// operator is suspended.
func RefuseSuspended(id int64) *Refusal {
	return Refuse("operator %d is suspended: its people can look at everything and change nothing until the MSO activates it again", id)
}

// RefuseUndelete refuses to undo the deletion of an operator that is not deleted, or
// was deleted too long ago.
func RefuseUndelete(o subscription.Operator) *Refusal {
	if o.Status != subscription.OperatorDeleted {
		return Refuse("operator %d is not deleted", o.ID)
	}
	return Refuse("operator %d was deleted on %s; that could be undone for 30 days, until %s", o.ID, stamp(o.DeletedAt), stamp(o.UndeletableUntil()))
}

func stamp(t time.Time) string { return t.In(subscription.IST).Format("2006-01-02 15:04:05 -07:00") }

// TopUp credits an operator's wallet with money that arrived outside the API.
func (d *Service) TopUp(ctx context.Context, topUp TopUp) (wallet subscription.Wallet, credited bool, err error) {
	if topUp, err = checkTopUp(topUp); err != nil {
		return wallet, false, err
	}
	if err := d.alone(topUp.Amount); err != nil {
		return wallet, false, err
	}
	return d.store.TopUp(ctx, d.act(WalletTopUp), topUp)
}

func checkTopUp(topUp TopUp) (TopUp, error) {
	topUp.Reference = strings.TrimSpace(topUp.Reference)
	if !topUp.Amount.IsPositive() {
		return topUp, Refuse("a top-up of %s is not money coming in: give an amount above zero", topUp.Amount)
	}
	return topUp, checkReference(topUp.Reference)
}

// Adjust corrects a wallet by hand, up or down, for a reason that is kept.
func (d *Service) Adjust(ctx context.Context, operatorID int64, amount money.Amount, reason string) (subscription.Wallet, error) {
	wallet, _, err := d.AdjustOnce(ctx, Adjustment{OperatorID: operatorID, Amount: amount}, reason)
	return wallet, err
}

// AdjustOnce corrects a wallet as Adjust does, once per reference if there is one;
// booked is false if it was done before.
func (d *Service) AdjustOnce(ctx context.Context, adjustment Adjustment, reason string) (wallet subscription.Wallet, booked bool, err error) {
	act, err := d.reasoned(WalletAdjust, reason)
	if err != nil {
		return wallet, false, err
	}
	if adjustment.Reference = strings.TrimSpace(adjustment.Reference); adjustment.Reference != "" {
		if err := checkReference(adjustment.Reference); err != nil {
			return wallet, false, err
		}
		act.Reason = act.noted(strings.TrimSpace(reason) + " (reference " + adjustment.Reference + ")")
	}
	if adjustment.Amount.IsZero() {
		return wallet, false, Refuse("an adjustment of 0.00 changes nothing")
	}
	if err := d.alone(adjustment.Amount); err != nil {
		return wallet, false, err
	}
	return d.store.Adjust(ctx, act, adjustment)
}

// Under is the service for the one act that a voucher names: a form has one from the
// moment it is shown, and so does what it is for once, however often it is sent.
func (d *Service) Under(voucher string) *Service {
	bound := *d
	bound.voucher = voucher
	return &bound
}

// Done is the act that was done under the service's voucher, if one was.
func (d *Service) Done(ctx context.Context) (act AuditEntry, found bool, err error) {
	if d.voucher == "" {
		return AuditEntry{}, false, nil
	}
	return d.store.AuditEntryByVoucher(ctx, d.voucher)
}

// RetirePlan takes a plan out of the catalogue. What was bought runs on.
func (d *Service) RetirePlan(ctx context.Context, id string) error {
	return d.store.RetirePlan(ctx, d.act(PlanRetire), id)
}

// IssuedKey is a new key with its secret, which is shown this once.
type IssuedKey struct {
	ID     int64
	Key    string
	Secret access.Secret
}

// IssueKey makes an API key for an operator.
func (d *Service) IssueKey(ctx context.Context, operatorID int64, permissions access.Permissions) (IssuedKey, error) {
	issued, credential, err := d.newKey(operatorID, permissions)
	if err != nil {
		return IssuedKey{}, err
	}
	credential, err = d.store.IssueKey(ctx, d.act(KeyIssue), credential)
	issued.ID = credential.ID
	return issued, err
}

// RotateKey replaces a key. The old one stays valid for the grace period; the
// new one has the same permissions.
func (d *Service) RotateKey(ctx context.Context, id int64, grace time.Duration) (IssuedKey, error) {
	if grace < 0 || grace > MaxGrace {
		return IssuedKey{}, Refuse("a grace of %s is outside 0 to %s", grace, MaxGrace)
	}
	old, err := d.store.Key(ctx, id)
	if err != nil {
		return IssuedKey{}, err
	}
	issued, successor, err := d.newKey(old.OperatorID, old.Permissions)
	if err != nil {
		return IssuedKey{}, err
	}
	successor, err = d.store.RotateKey(ctx, d.act(KeyRotate), id, d.now().Add(grace), successor)
	issued.ID = successor.ID
	return issued, err
}

func (d *Service) newKey(operatorID int64, permissions access.Permissions) (IssuedKey, access.Credential, error) {
	key, secret := access.NewKey()
	hash := access.HashKey(key)
	sealed, err := d.vault.Seal(secret, operatorID, hash)
	if err != nil {
		return IssuedKey{}, access.Credential{}, err
	}
	return IssuedKey{Key: key, Secret: secret}, access.Credential{
		OperatorID:   operatorID,
		KeyHash:      hash,
		Hint:         access.Hint(key),
		SealedSecret: sealed,
		Permissions:  permissions,
		CreatedAt:    d.now(),
	}, nil
}

// RevokeKey ends a key at once, grace or no grace.
func (d *Service) RevokeKey(ctx context.Context, id int64) error {
	return d.store.RevokeKey(ctx, d.act(KeyRevoke), id)
}

// PermitKey replaces what a key may do.
func (d *Service) PermitKey(ctx context.Context, id int64, permissions access.Permissions) error {
	return d.store.PermitKey(ctx, d.act(KeyPermit), id, permissions)
}

// parseEntry reads a whitelist entry, or refuses it with what to write instead.
func parseEntry(text string) (netip.Prefix, error) {
	entry, err := access.ParseWhitelistEntry(text)
	var advice *access.Advice
	switch {
	case errors.As(err, &advice):
		return entry, Refuse("whitelist entry %q: %v", text, Refuse(advice.Form, advice.Args...))
	case err != nil:
		return entry, Refuse("whitelist entry %q: %v", text, err)
	}
	return entry, nil
}

// AllowAddress adds an address or range to an operator's whitelist.
func (d *Service) AllowAddress(ctx context.Context, operatorID int64, text string) (netip.Prefix, error) {
	entry, err := parseEntry(text)
	if err != nil {
		return entry, err
	}
	return entry, d.store.AllowAddress(ctx, d.act(WhitelistAdd), operatorID, entry, access.MaxWhitelistEntries)
}

// DisallowAddress takes an entry off an operator's whitelist.
func (d *Service) DisallowAddress(ctx context.Context, operatorID int64, text string) (netip.Prefix, error) {
	entry, err := parseEntry(text)
	if err != nil {
		return entry, err
	}
	return entry, d.store.DisallowAddress(ctx, d.act(WhitelistRemove), operatorID, entry)
}

// Reads, so that whoever holds a service needs nothing else.

// Operator returns one operator's account.
func (d *Service) Operator(ctx context.Context, id int64) (subscription.Operator, error) {
	return d.store.Operator(ctx, id)
}

// Operators lists all accounts, deleted ones included.
func (d *Service) Operators(ctx context.Context) ([]subscription.Operator, error) {
	return d.store.Operators(ctx)
}

// Wallet returns an operator's balance and holds.
func (d *Service) Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error) {
	return d.store.Wallet(ctx, operatorID)
}

// ListOperations lists operations, newest first.
func (d *Service) ListOperations(ctx context.Context, filter OperationFilter) ([]operation.Operation, error) {
	return d.store.ListOperations(ctx, filter)
}

// OperationHistory returns an operation with all that happened to it.
func (d *Service) OperationHistory(ctx context.Context, id string) (OperationHistory, error) {
	return d.store.OperationHistory(ctx, id)
}

// FindSubscriber returns a subscriber of any operator.
func (d *Service) FindSubscriber(ctx context.Context, id string) (int64, operation.Subscription, error) {
	return d.store.FindSubscriber(ctx, id)
}

// LedgerPage lists some of an operator's books, oldest line first.
func (d *Service) LedgerPage(ctx context.Context, query ListQuery) ([]LedgerEntry, error) {
	return d.store.LedgerPage(ctx, query)
}

// CommissionPage lists some of what the MSO earned, in the order in which the
// operations began.
func (d *Service) CommissionPage(ctx context.Context, query ListQuery) ([]CommissionEntry, error) {
	return d.store.CommissionPage(ctx, query)
}

// AuditPage lists some of what staff did, oldest first.
func (d *Service) AuditPage(ctx context.Context, query ListQuery) ([]AuditEntry, error) {
	return d.store.AuditPage(ctx, query)
}

// SubscriberPage lists some of the subscribers, by id.
func (d *Service) SubscriberPage(ctx context.Context, query ListQuery) ([]SubscriberEntry, error) {
	query.Now = d.now()
	return d.store.SubscriberPage(ctx, query)
}

// Plans lists all plans, retired ones included.
func (d *Service) Plans(ctx context.Context) ([]subscription.Plan, error) {
	return d.store.AllPlans(ctx)
}

// Keys lists an operator's keys, ended ones included.
func (d *Service) Keys(ctx context.Context, operatorID int64) ([]access.Credential, error) {
	return d.store.Keys(ctx, operatorID)
}

// Whitelist lists the addresses an operator may call from.
func (d *Service) Whitelist(ctx context.Context, operatorID int64) ([]netip.Prefix, error) {
	return d.store.Whitelist(ctx, operatorID)
}

// FindAuditEntries lists some of what staff did, newest first. Where it has looked at very many
// acts and found few, it says so instead of looking on.
func (d *Service) FindAuditEntries(ctx context.Context, query AuditQuery) (AuditPage, error) {
	var page AuditPage
	if query.passedByFew() {
		newest, err := d.store.FindAuditEntries(ctx, AuditQuery{Most: 1})
		if err != nil || len(newest) == 0 {
			return page, err
		}
		query.Above = max(query.Above, min(query.Top(), newest[0].ID+1)-int64(cmp.Or(query.LookedAt, actsLookedAt))-1)
	}
	var err error
	if page.Entries, err = d.store.FindAuditEntries(ctx, query); err != nil {
		return page, err
	}
	if query.Above > 0 && len(page.Entries) < query.Most {
		page.SearchedTo = query.Above + 1
	}
	return page, nil
}
