package admin

import (
	"context"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Store is what the acts of staff need kept. Every method that changes
// something takes the StaffAction and writes its row in the same transaction: there is
// no change without its author. An act under a voucher that another was done under
// is refused, and with it the change.
//
// A method returns a *Refusal for what a person can mend (an operator that does
// not exist, a list that is full); nothing has changed then.
type Store interface {
	CreateOperator(ctx context.Context, act StaffAction, operator subscription.Operator) (subscription.Operator, error)
	// ChangeOperator changes an account. One that is suspended by it has its running bulk
	// renewals interrupted, in the same transaction.
	ChangeOperator(ctx context.Context, act StaffAction, id int64, change OperatorChange) (subscription.Operator, error)
	// DeleteOperator closes an account, unless it is InUse. No reservation can happen
	// afterwards: the wallet is empty, and only a living operator's is filled.
	DeleteOperator(ctx context.Context, act StaffAction, id int64) error
	// UndeleteOperator gives a deleted operator its former status back, while that is
	// allowed (subscription.Operator.Undeletable).
	UndeleteOperator(ctx context.Context, act StaffAction, id int64) (subscription.Operator, error)
	Operator(ctx context.Context, id int64) (subscription.Operator, error)
	Operators(ctx context.Context) ([]subscription.Operator, error)

	// TopUp credits a wallet once per reference, which is compared by its normalised form
	// across all operators. Asked again with the same reference and amount for the same
	// operator it changes nothing and says so.
	TopUp(ctx context.Context, act StaffAction, topUp TopUp) (wallet subscription.Wallet, credited bool, err error)
	// Adjust moves a wallet's balance by an amount of either sign, never below
	// zero, once per reference if there is one, compared as a top-up's is. Asked again
	// with the same reference and amount for the same operator it changes nothing and
	// says so.
	Adjust(ctx context.Context, act StaffAction, adjustment Adjustment) (wallet subscription.Wallet, booked bool, err error)
	Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error)
	// MovedAlone adds up what was moved without a second person. TopUp, Adjust and
	// SettleReview add to it; ApproveProposal does not. Of an actor who has limits they
	// return a *SecondNeeded, and change nothing, where StaffAction.MovesAlone does.
	MovedAlone(ctx context.Context, query MovedQuery) (MovedAlone, error)

	// Propose keeps a proposal. One of the same matter that is open already is
	// returned if it wants the same, and refused if it does not; so is a top-up
	// whose reference was credited. What has lapsed stands in nobody's way.
	Propose(ctx context.Context, act StaffAction, proposal Proposal) (kept Proposal, known bool, err error)
	// ApproveProposal decides a proposal that is still open and carries it out, both
	// or neither, unless StaffAccess.MayApprove refuses. The approval's act follows that
	// of what is carried out.
	ApproveProposal(ctx context.Context, approval Approval) (Outcome, error)
	// DismissProposal decides a proposal that is still open, and does nothing else.
	DismissProposal(ctx context.Context, act StaffAction, id int64, as ProposalStatus) (Proposal, error)
	Proposal(ctx context.Context, id int64) (Proposal, error)
	// Proposals lists proposals, newest first.
	Proposals(ctx context.Context, filter ProposalFilter) ([]Proposal, error)

	// ClosePeriod closes a month that is over, of one operator or, if operatorID is
	// zero, of all that it is not closed for. It refuses while an operation from
	// before the month's end is open, and where there is nothing left to close.
	ClosePeriod(ctx context.Context, act StaffAction, month Month, operatorID int64) ([]ClosedPeriod, error)
	ClosedPeriods(ctx context.Context, operatorID int64) ([]ClosedPeriod, error)
	// The pages of lists that may be long. Each begins after the row that the query
	// names: the ledger by its lines, commissions by when their operation began, acts
	// and subscribers by their ids.
	LedgerPage(ctx context.Context, query ListQuery) ([]LedgerEntry, error)
	CommissionPage(ctx context.Context, query ListQuery) ([]CommissionEntry, error)
	AuditPage(ctx context.Context, query ListQuery) ([]AuditEntry, error)
	SubscriberPage(ctx context.Context, query ListQuery) ([]SubscriberEntry, error)

	// SetPlan makes or changes a plan. It refuses a component that the
	// provider's catalogue, as last seen, does not sell, and returns a
	// *PlanSecondNeeded, and changes nothing, where StaffAction.SetsPlanAlone does.
	SetPlan(ctx context.Context, act StaffAction, plan subscription.Plan) (subscription.Plan, error)
	// PlanComparison reads what a change of a plan is compared with.
	PlanComparison(ctx context.Context, id string) (PlanComparison, error)
	RetirePlan(ctx context.Context, act StaffAction, id string) error
	AllPlans(ctx context.Context) ([]subscription.Plan, error)
	// PlanHistory reads every version of a plan, the newest first.
	PlanHistory(ctx context.Context, id string) ([]PlanVersion, error)
	CatalogueState(ctx context.Context, provider string) (CatalogueState, error)

	IssueKey(ctx context.Context, act StaffAction, key access.Credential) (access.Credential, error)
	// RotateKey makes the successor and sets the old key to expire, together.
	RotateKey(ctx context.Context, act StaffAction, oldID int64, oldExpires time.Time, successor access.Credential) (access.Credential, error)
	RevokeKey(ctx context.Context, act StaffAction, id int64) error
	PermitKey(ctx context.Context, act StaffAction, id int64, permissions access.Permissions) error
	Key(ctx context.Context, id int64) (access.Credential, error)
	Keys(ctx context.Context, operatorID int64) ([]access.Credential, error)

	// AllowAddress adds to an operator's whitelist unless it holds that many
	// entries already. An entry that is there already is left as it is.
	AllowAddress(ctx context.Context, act StaffAction, operatorID int64, entry netip.Prefix, most int) error
	DisallowAddress(ctx context.Context, act StaffAction, operatorID int64, entry netip.Prefix) error
	Whitelist(ctx context.Context, operatorID int64) ([]netip.Prefix, error)

	// CreateLogin makes a login; it refuses a username that is taken. This and the three
	// below keep who gave a staff login its access (StaffAction.Grants), and answer RefuseAlone
	// where an act of the console gives access to a login that may approve, and there
	// is a second person (StaffAccess.SecondPerson).
	// In an act of an operator's owner (StaffAction.Within), ChangeLogin also refuses to disable
	// or demote the operator's last enabled owner.
	CreateLogin(ctx context.Context, act StaffAction, account login.Account) (login.Person, error)
	// ChangeLogin changes a login; one that is disabled is signed out everywhere. Its
	// open proposals that it may no longer make lapse (Proposal.StandsWith).
	ChangeLogin(ctx context.Context, act StaffAction, id int64, change LoginChange) (login.Person, error)
	// ResetPassword gives a login a password that has to be changed at the first
	// sign-in, and ends its sessions; ResetTOTP takes its second factor away, and
	// does so, too.
	ResetPassword(ctx context.Context, act StaffAction, id int64, hash string) (login.Person, error)
	ResetTOTP(ctx context.Context, act StaffAction, id int64) (login.Person, error)
	Login(ctx context.Context, id int64) (login.Person, error)
	LoginNamed(ctx context.Context, username string) (login.Person, error)
	Logins(ctx context.Context, filter LoginFilter) ([]login.Person, error)
	// StaffAccess reads every staff login and who gave it access, at one moment.
	StaffAccess(ctx context.Context) (StaffAccess, error)

	// ListOperations lists operations, newest first unless the filter says otherwise.
	ListOperations(ctx context.Context, filter OperationFilter) ([]operation.Operation, error)
	OperationHistory(ctx context.Context, id string) (OperationHistory, error)

	// SettleReview settles an operation in review, whoever holds it, as the
	// settlement says; its epoch is the store's to find.
	SettleReview(ctx context.Context, act StaffAction, settlement operation.Settlement) (operation.Operation, error)
	// OverdueReviews lists the operations that are in review since a moment or
	// longer, the oldest first; CountOverdueReviews counts them.
	OverdueReviews(ctx context.Context, since time.Time, most int) ([]operation.Operation, error)
	CountOverdueReviews(ctx context.Context, since time.Time) (int, error)
	// Exceptions lists what only a person can decide, closed ones too if asked.
	Exceptions(ctx context.Context, closed bool) ([]ExceptionEntry, error)
	CloseException(ctx context.Context, act StaffAction, id int64) error
	// MissingAddons lists the combos whose add-on is being followed up.
	MissingAddons(ctx context.Context) ([]operation.Operation, error)
	CloseAddon(ctx context.Context, act StaffAction, transactionID string) error

	PasswordStore

	// FindSubscriber reads a subscriber of any operator.
	FindSubscriber(ctx context.Context, id string) (operatorID int64, s operation.Subscription, err error)
	// ReleaseLapsed frees those of the numbers and ids whose subscriber's operator was
	// deleted too long ago to be undeleted. The subscriber stays, under another number
	// or id (subscription.Released). Others are left alone.
	ReleaseLapsed(ctx context.Context, claims []subscription.Claim, now time.Time) (released int, err error)
	// CheckImport says of each row what stands in the way of importing it, or
	// that it is there already; nothing is changed.
	CheckImport(ctx context.Context, rows []ImportRow, now time.Time) ([]ImportResult, error)
	// ImportSubscribers adds the rows that are not there yet, all or none.
	ImportSubscribers(ctx context.Context, act StaffAction, rows []ImportRow) (added int, err error)

	// AuditEntryByVoucher reads the act that was done under a voucher.
	AuditEntryByVoucher(ctx context.Context, voucher string) (act AuditEntry, found bool, err error)
	// StartMaintenance switches maintenance mode on and interrupts the bulk renewals
	// that run. Once it has returned, no reservation is made by any node. Where the mode
	// is on, the reason is changed. EndMaintenance switches it off; false if it was off.
	StartMaintenance(ctx context.Context, act StaffAction) (Maintenance, error)
	EndMaintenance(ctx context.Context, act StaffAction, accepted bool) (ended bool, err error)
	Maintenance(ctx context.Context) (Maintenance, error)

	// FindAuditEntries lists some of what staff did, newest first.
	FindAuditEntries(ctx context.Context, query AuditQuery) ([]AuditEntry, error)
}

// OperatorChange names what is to change of an operator; nil leaves it alone.
type OperatorChange struct {
	Status        *subscription.OperatorStatus
	API           *subscription.APIAccess
	RateLimit     *int
	CommissionBPS *int
	LowBalance    *money.Amount
	// SecondFactorRequired demands a second factor of the operator's people.
	SecondFactorRequired *bool
}

// TopUp is money that reached us outside the API. The reference is the
// payment's own, and makes the credit happen once.
type TopUp struct {
	OperatorID int64
	Amount     money.Amount
	Reference  string
}

// Adjustment is a correction of a wallet by hand, of either sign. With a reference,
// it happens once. References of adjustments and of top-ups are apart: a payment that
// is taken back may carry the payment's own.
type Adjustment struct {
	OperatorID int64
	Amount     money.Amount
	Reference  string
}

// Credit is what the top-up's reference is used for.
func (t TopUp) Credit() Credit {
	return Credit{OperatorID: t.OperatorID, Amount: t.Amount, Reference: t.Reference}
}

// Credit is what the adjustment's reference is used for.
func (a Adjustment) Credit() Credit {
	return Credit{OperatorID: a.OperatorID, Amount: a.Amount, Reference: a.Reference}
}

// LedgerEntry is one line of an operator's books. BalanceAfter is the ledger's
// own running sum, which holds do not touch.
type LedgerEntry struct {
	ID           int64
	Line         int64
	Credit       bool
	Amount       money.Amount
	BalanceAfter money.Amount
	Description  string
	// TransactionID is the operation that was paid for; empty for what staff moved.
	TransactionID string
	CreatedAt     time.Time
}

// CommissionEntry is what one operation earned the MSO, at the rate of its time.
type CommissionEntry struct {
	TransactionID string
	OperatorID    int64
	Amount        money.Amount
	RateBPS       int
	CreatedAt     time.Time
	// BegunAt is when the operation began; only pages have it.
	BegunAt time.Time
}

// ListQuery picks a page of a list; a zero field picks all.
type ListQuery struct {
	OperatorID int64
	// From and To bound when a row was made; To is not part of it.
	From, To time.Time
	// After is the last row of the page before.
	After Cursor
	// Most is how many are listed; zero for all.
	Most int
	// Now is the moment at which a subscriber's plan is told.
	Now time.Time
}

// Cursor is a place in a list: a number, or a moment with an id, or an id.
type Cursor struct {
	Number int64
	At     time.Time
	ID     string
}

// SubscriberEntry is a subscriber in a list.
type SubscriberEntry struct {
	ID         string
	OperatorID int64
	Mobile     string
	Name       string
	// PlanID is the plan that is active, or was last; empty while an activation is
	// open.
	PlanID    string
	Expires   time.Time
	CreatedAt time.Time
}

// ExceptionEntry is something that only a person can decide.
type ExceptionEntry struct {
	ID            int64
	TransactionID string
	Kind          operation.ExceptionKind
	Detail        string
	CreatedAt     time.Time
	ClosedAt      time.Time
	ClosedBy      string
	CloseReason   string
}

// OperationFilter picks operations; a zero field picks all.
type OperationFilter struct {
	OperatorID int64
	State      operation.State
	Subscriber string
	// From and To bound when an operation began; To is not part of it.
	From, To time.Time
	// After is the last operation of the page before.
	After Cursor
	// OldestFirst turns the order around.
	OldestFirst bool
	// Most is how many are listed; zero for all.
	Most int
}

// OperationHistory is an operation with every state it went through and every
// question that was put to the provider.
type OperationHistory struct {
	operation.Operation
	Events []OperationEvent
	Calls  []OperationCall
}

// OperationEvent is one step between states.
type OperationEvent struct {
	From, To operation.State
	Epoch    int64
	Node     string
	Actor    string
	Why      string
	At       time.Time
}

// OperationCall is one question to the provider and what it came to.
type OperationCall struct {
	Reference   string
	What        string
	Component   string
	Outcome     string
	Transaction string
	Detail      string
	Node        string
	AskedAt     time.Time
	AnsweredAt  time.Time
}
