// Package admin has every staff action, one function each: what it requires, what it
// refuses, and its audit entry. The command line and the console both use it. It knows no
// HTTP and no SQL.
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

// maxRateLimit catches typing errors that would amount to no limit.
const maxRateLimit = 1_000_000

// Sealer seals a secret so that only the service can open it again.
type Sealer interface {
	Seal(secret access.Secret, operatorID int64, hash access.KeyHash) ([]byte, error)
}

// Service carries out the staff actions of one actor.
type Service struct {
	store Store
	vault Sealer
	actor string
	now   func() time.Time

	origin  string
	voucher string
	scope   int64 // see StaffAction.OperatorScope
	// limited: the actor has a role and limits; the command line has neither.
	limited bool
	role    Role
	limits  Limits
	// maxMonths is the longest term of a plan; zero is maxPlanMonths.
	maxMonths int
	// reversalAge: see WithReversalAge; zero is DefaultReversalAge.
	reversalAge time.Duration
	// reversalWait: see WithReversalWait.
	reversalWait time.Duration
	// stale: see WithoutStepUp.
	stale bool
}

// NewService returns a Service for an actor who may do everything; WithRole restricts it.
func NewService(store Store, vault Sealer, actor string, now func() time.Time) *Service {
	return &Service{store: store, vault: vault, actor: actor, now: now, reversalWait: DefaultReversalWait}
}

func (s *Service) newAction(name Action) StaffAction {
	action := StaffAction{Actor: s.actor, Action: string(name), At: s.now(), Origin: s.origin, Voucher: s.voucher, OperatorScope: s.scope, refusal: s.permit(name)}
	action.Reason = action.withVoucherNote("")
	if s.limited {
		limits := s.limits
		action.limits = &limits
	}
	action.stale = s.stale
	return action
}

// CreateOperator opens an account with an empty wallet. It starts active, with the API
// enabled and an empty whitelist, which admits no address.
func (s *Service) CreateOperator(ctx context.Context, name string, terms OperatorChange) (subscription.Operator, error) {
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
		CreatedAt:  s.now(),
	}
	return s.store.CreateOperator(ctx, s.newAction(OperatorCreate), terms.Apply(operator))
}

// ChangeOperator changes the terms of an account, with immediate effect on every node.
func (s *Service) ChangeOperator(ctx context.Context, id int64, change OperatorChange) (subscription.Operator, error) {
	if change == (OperatorChange{}) {
		return subscription.Operator{}, Refuse("nothing to change: give at least one setting")
	}
	if err := checkTerms(change); err != nil {
		return subscription.Operator{}, err
	}
	return s.store.ChangeOperator(ctx, s.newAction(OperatorSet), id, change)
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
	if c.Address != nil {
		operator.Address = *c.Address
	}
	if c.GSTIN != nil {
		operator.GSTIN = *c.GSTIN
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
	if a := change.Address; a != nil {
		if err := checkText("operator's address", *a, 0, 200); err != nil {
			return err
		}
	}
	switch g := change.GSTIN; {
	case g == nil || *g == "":
	case utf8.RuneCountInString(*g) != subscription.GSTINLength:
		return Refuse("%q has %d characters: a GSTIN has 15", *g, utf8.RuneCountInString(*g))
	case !subscription.HasGSTINForm(*g):
		return Refuse("%q is not a GSTIN: write its 15 characters in capital letters, such as 27AAPFU0939F1ZV", *g)
	case !subscription.IsGSTIN(*g):
		return Refuse("%q is not a GSTIN: its last character does not fit the others, so one of them is mistyped", *g)
	}
	return nil
}

// checkText requires minLen to maxLen characters on one line, without control characters
// or surrounding blanks.
func checkText(name Term, text string, minLen, maxLen int) error {
	form, args := subscription.WhyUnprintable(text)
	switch n := utf8.RuneCountInString(text); {
	case n < minLen || n > maxLen:
		return Refuse("the %s has %d characters; give %d to %d", name, n, minLen, maxLen)
	case form != "":
		return Refuse("the %s cannot be used: %v", name, Refuse(form, args...))
	case strings.TrimSpace(text) != text:
		return Refuse("the %s has blanks around it", name)
	}
	return nil
}

// DeleteOperator closes an account that has no money, no open operation and no
// running bulk job. Its records stay, and for UndeleteWithin it can be undone.
func (s *Service) DeleteOperator(ctx context.Context, id int64) error {
	return s.store.DeleteOperator(ctx, s.newAction(OperatorDelete), id)
}

// UndeleteOperator opens a deleted account again as it was: status, keys, whitelist,
// logins and subscribers.
func (s *Service) UndeleteOperator(ctx context.Context, id int64) (subscription.Operator, error) {
	return s.store.UndeleteOperator(ctx, s.newAction(OperatorUndelete), id)
}

// InUse is what prevents an operator's deletion.
type InUse struct {
	Wallet subscription.Wallet
	// Operations counts the open operations, BulkJobs the running bulk renewals.
	Operations, BulkJobs int64
}

// Refusal refuses to delete an operator that is in use, and says what to do first; nil if
// it is not in use.
func (u InUse) Refusal() error {
	w := u.Wallet
	switch {
	case w.Balance.IsPositive() && w.Held.IsZero() && u.Operations == 0:
		return Refuse("operator %s cannot be deleted: its wallet has %s; pay it out: coax admin wallet adjust --lco %d --amount=-%s --reason TEXT",
			OperatorID(w.OperatorID), w.Balance, w.OperatorID, w.Balance.String())
	case w.Balance.IsPositive():
		return Refuse("operator %s cannot be deleted: its wallet has %s, and %s are held by %d open operations; once none is open, pay the balance out: coax admin wallet adjust --lco %d --amount=-%s --reason TEXT",
			OperatorID(w.OperatorID), w.Balance, w.Held, u.Operations, w.OperatorID, w.Balance.String())
	case w.Held.IsPositive() || u.Operations > 0:
		return Refuse("operator %s cannot be deleted: its wallet has %s, and %s are held by %d open operations; wait until they are settled, and pay out what is refunded: coax admin wallet adjust --lco %d --amount=-AMOUNT --reason TEXT",
			OperatorID(w.OperatorID), w.Balance, w.Held, u.Operations, w.OperatorID)
	case u.BulkJobs > 0:
		return Refuse("operator %s cannot be deleted while a bulk renewal of it is running: wait until it has ended, or sign in with a login of that operator and press Stop on its page; a suspended operator has to be activated for that, and the renewal does not go on by itself", OperatorID(w.OperatorID))
	}
	return nil
}

// RefuseDeleted refuses to change a deleted operator.
func RefuseDeleted(id int64) *Refusal {
	return Refuse("operator %s was deleted and cannot be changed; coax admin lco undelete --lco %d opens it again within 30 days of the deletion", OperatorID(id), id)
}

// RefuseSuspended refuses a change by a suspended operator's own people.
func RefuseSuspended(id int64) *Refusal {
	return Refuse("operator %s is suspended: its people can view everything but change nothing until the MSO reactivates it", OperatorID(id))
}

// RefuseUndelete refuses to undo the deletion of an operator that is not deleted, or
// was deleted too long ago.
func RefuseUndelete(o subscription.Operator) *Refusal {
	if o.Status != subscription.OperatorDeleted {
		return Refuse("operator %s is not deleted", OperatorID(o.ID))
	}
	return Refuse("operator %s was deleted on %s; that could be undone for 30 days, until %s", OperatorID(o.ID), Moment(o.DeletedAt), Moment(o.UndeletableUntil()))
}

// CreditUnder reads the top-up that has used the reference of another, in any spelling; false if
// there is none.
func (s *Service) CreditUnder(ctx context.Context, topUp TopUp) (before Credit, found bool, err error) {
	return s.store.CreditUnder(ctx, topUp)
}

// TopUp credits an operator's wallet with money that arrived outside the API.
func (s *Service) TopUp(ctx context.Context, topUp TopUp) (wallet subscription.Wallet, credited bool, err error) {
	if topUp, err = checkTopUp(topUp); err != nil {
		return wallet, false, err
	}
	if err := s.checkAmount(topUp.Amount); err != nil {
		return wallet, false, err
	}
	return s.store.TopUp(ctx, s.newAction(WalletTopUp), topUp)
}

func checkTopUp(topUp TopUp) (TopUp, error) {
	topUp.Reference = strings.TrimSpace(topUp.Reference)
	if !topUp.Amount.IsPositive() {
		return topUp, Refuse("a top-up of %s is not money coming in: give an amount above zero", topUp.Amount)
	}
	return topUp, checkReference(topUp.Reference)
}

// Adjust corrects a wallet by hand, up or down, for a recorded reason.
func (s *Service) Adjust(ctx context.Context, operatorID int64, amount money.Amount, reason string) (subscription.Wallet, error) {
	wallet, _, err := s.AdjustOnce(ctx, Adjustment{OperatorID: operatorID, Amount: amount}, reason)
	return wallet, err
}

// AdjustOnce is Adjust, once per reference if there is one; booked is false if the
// reference was used before.
func (s *Service) AdjustOnce(ctx context.Context, adjustment Adjustment, reason string) (wallet subscription.Wallet, booked bool, err error) {
	action, err := s.newReasonedAction(WalletAdjust, reason)
	if err != nil {
		return wallet, false, err
	}
	if adjustment.Reference = strings.TrimSpace(adjustment.Reference); adjustment.Reference != "" {
		if err := checkReference(adjustment.Reference); err != nil {
			return wallet, false, err
		}
		action.Reason = action.withVoucherNote(strings.TrimSpace(reason) + " (reference " + adjustment.Reference + ")")
	}
	if adjustment.Amount.IsZero() {
		return wallet, false, Refuse("an adjustment of 0.00 changes nothing")
	}
	if err := s.checkAmount(adjustment.Amount); err != nil {
		return wallet, false, err
	}
	return s.store.Adjust(ctx, action, adjustment)
}

// WithVoucher returns a copy of the service whose actions are done at most once under a
// voucher. A form carries one from the moment it is shown, so that sending it twice acts once.
func (s *Service) WithVoucher(voucher string) *Service {
	bound := *s
	bound.voucher = voucher
	return &bound
}

// Done returns the entry of the action that was done under the service's voucher, if any.
func (s *Service) Done(ctx context.Context) (entry AuditEntry, found bool, err error) {
	if s.voucher == "" {
		return AuditEntry{}, false, nil
	}
	return s.store.AuditEntryByVoucher(ctx, s.voucher)
}

// RetirePlan takes a plan off sale. Running subscriptions keep it.
func (s *Service) RetirePlan(ctx context.Context, id string) error {
	return s.store.RetirePlan(ctx, s.newAction(PlanRetire), id)
}

// IssuedKey is a new key with its secret, which is shown once.
type IssuedKey struct {
	ID     int64
	Key    string
	Secret access.Secret
}

// IssueKey makes an API key for an operator.
func (s *Service) IssueKey(ctx context.Context, operatorID int64, permissions access.Permissions) (IssuedKey, error) {
	issued, credential, err := s.newKey(operatorID, permissions)
	if err != nil {
		return IssuedKey{}, err
	}
	credential, err = s.store.IssueKey(ctx, s.newAction(KeyIssue), credential)
	issued.ID = credential.ID
	return issued, err
}

// RotateKey replaces a key. The old one stays valid for the grace period; the
// new one has the same permissions.
func (s *Service) RotateKey(ctx context.Context, id int64, grace time.Duration) (IssuedKey, error) {
	if grace < 0 || grace > MaxGrace {
		return IssuedKey{}, Refuse("a grace of %s is outside 0 to %s", grace, MaxGrace)
	}
	old, err := s.store.Key(ctx, id)
	if err != nil {
		return IssuedKey{}, err
	}
	issued, successor, err := s.newKey(old.OperatorID, old.Permissions)
	if err != nil {
		return IssuedKey{}, err
	}
	successor, err = s.store.RotateKey(ctx, s.newAction(KeyRotate), id, s.now().Add(grace), successor)
	issued.ID = successor.ID
	return issued, err
}

func (s *Service) newKey(operatorID int64, permissions access.Permissions) (IssuedKey, access.Credential, error) {
	key, secret := access.NewKey()
	hash := access.HashKey(key)
	sealed, err := s.vault.Seal(secret, operatorID, hash)
	if err != nil {
		return IssuedKey{}, access.Credential{}, err
	}
	return IssuedKey{Key: key, Secret: secret}, access.Credential{
		OperatorID:   operatorID,
		KeyHash:      hash,
		Hint:         access.Hint(key),
		SealedSecret: sealed,
		Permissions:  permissions,
		CreatedAt:    s.now(),
	}, nil
}

// RevokeKey ends a key immediately, even within its grace period.
func (s *Service) RevokeKey(ctx context.Context, id int64) error {
	return s.store.RevokeKey(ctx, s.newAction(KeyRevoke), id)
}

// PermitKey replaces what a key may do.
func (s *Service) PermitKey(ctx context.Context, id int64, permissions access.Permissions) error {
	return s.store.PermitKey(ctx, s.newAction(KeyPermit), id, permissions)
}

// parseEntry reads a whitelist entry, or refuses it with what to write instead.
func parseEntry(text string) (netip.Prefix, error) {
	entry, err := access.ParseWhitelistEntry(text)
	var advice *access.RangeError
	switch {
	case errors.As(err, &advice):
		return entry, Refuse("whitelist entry %q: %v", text, Refuse(advice.Format, advice.Args...))
	case err != nil:
		return entry, Refuse("whitelist entry %q: %v", text, err)
	}
	return entry, nil
}

// AllowAddress adds an address or range to an operator's whitelist.
func (s *Service) AllowAddress(ctx context.Context, operatorID int64, text string) (netip.Prefix, error) {
	entry, err := parseEntry(text)
	if err != nil {
		return entry, err
	}
	return entry, s.store.AllowAddress(ctx, s.newAction(WhitelistAdd), operatorID, entry, access.MaxWhitelistEntries)
}

// DisallowAddress takes an entry off an operator's whitelist.
func (s *Service) DisallowAddress(ctx context.Context, operatorID int64, text string) (netip.Prefix, error) {
	entry, err := parseEntry(text)
	if err != nil {
		return entry, err
	}
	return entry, s.store.DisallowAddress(ctx, s.newAction(WhitelistRemove), operatorID, entry)
}

// Reads, so that callers need no store besides the service.

// Operator returns one operator's account.
func (s *Service) Operator(ctx context.Context, id int64) (subscription.Operator, error) {
	return s.store.Operator(ctx, id)
}

// Operators lists all accounts, deleted ones included.
func (s *Service) Operators(ctx context.Context) ([]subscription.Operator, error) {
	return s.store.Operators(ctx)
}

// Wallet returns an operator's balance and holds.
func (s *Service) Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error) {
	return s.store.Wallet(ctx, operatorID)
}

// ListOperations lists operations, newest first.
func (s *Service) ListOperations(ctx context.Context, filter OperationFilter) ([]operation.Operation, error) {
	return s.store.ListOperations(ctx, filter)
}

// OperationHistory returns an operation with its events and provider calls.
func (s *Service) OperationHistory(ctx context.Context, id string) (OperationHistory, error) {
	return s.store.OperationHistory(ctx, id)
}

// FindSubscriber returns a subscriber of any operator.
func (s *Service) FindSubscriber(ctx context.Context, id string) (int64, operation.Subscription, error) {
	return s.store.FindSubscriber(ctx, id)
}

// LedgerPage lists a page of an operator's ledger, oldest line first.
func (s *Service) LedgerPage(ctx context.Context, query ListQuery) ([]LedgerEntry, error) {
	return s.store.LedgerPage(ctx, query)
}

// CommissionPage lists a page of commissions, in the order in which the operations began.
func (s *Service) CommissionPage(ctx context.Context, query ListQuery) ([]CommissionEntry, error) {
	return s.store.CommissionPage(ctx, query)
}

// AuditPage lists a page of the audit log, oldest first.
func (s *Service) AuditPage(ctx context.Context, query ListQuery) ([]AuditEntry, error) {
	return s.store.AuditPage(ctx, query)
}

// SubscriberPage lists a page of subscribers, by id.
func (s *Service) SubscriberPage(ctx context.Context, query ListQuery) ([]SubscriberEntry, error) {
	query.Now = s.now()
	return s.store.SubscriberPage(ctx, query)
}

// Plans lists all plans, retired ones included.
func (s *Service) Plans(ctx context.Context) ([]subscription.Plan, error) {
	return s.store.AllPlans(ctx)
}

// Keys lists an operator's keys, including revoked and expired ones.
func (s *Service) Keys(ctx context.Context, operatorID int64) ([]access.Credential, error) {
	return s.store.Keys(ctx, operatorID)
}

// FindKeys finds the keys of all operators by a whole key or the beginning of one. A
// shorter text than the keys' common prefix finds none.
func (s *Service) FindKeys(ctx context.Context, text string, limit int) ([]access.Credential, error) {
	hint := access.HintPrefix(text)
	if hint == "" {
		return nil, nil
	}
	return s.store.FindKeys(ctx, hint, limit)
}

// Whitelist lists the addresses an operator may call from.
func (s *Service) Whitelist(ctx context.Context, operatorID int64) ([]netip.Prefix, error) {
	return s.store.Whitelist(ctx, operatorID)
}

// FindAuditEntries lists a page of the audit log, newest first. A query that no index
// answers scans at most ScanLimit entries; the page then says how far it got.
func (s *Service) FindAuditEntries(ctx context.Context, query AuditQuery) (AuditPage, error) {
	var page AuditPage
	if query.needsScan() {
		newest, err := s.store.FindAuditEntries(ctx, AuditQuery{Limit: 1})
		if err != nil || len(newest) == 0 {
			return page, err
		}
		query.Above = max(query.Above, min(query.UpperID(), newest[0].ID+1)-int64(cmp.Or(query.ScanLimit, defaultScanLimit))-1)
	}
	var err error
	if page.Entries, err = s.store.FindAuditEntries(ctx, query); err != nil {
		return page, err
	}
	if query.Above > 0 && len(page.Entries) < query.Limit {
		page.SearchedTo = query.Above + 1
	}
	return page, nil
}
