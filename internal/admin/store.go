package admin

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Store holds what staff actions read and change. Every method that changes something
// takes the StaffAction and writes its audit entry in the same transaction: there is no
// change without its author. A second action under a voucher is refused, and changes
// nothing.
//
// A method returns a *Refusal for what a person can correct (an operator that does not
// exist, a list that is full); nothing has changed then.
type Store interface {
	CreateOperator(ctx context.Context, action StaffAction, operator subscription.Operator) (subscription.Operator, error)
	// ChangeOperator changes an account. Suspending it interrupts its running bulk
	// renewals, in the same transaction.
	ChangeOperator(ctx context.Context, action StaffAction, id int64, change OperatorChange) (subscription.Operator, error)
	// DeleteOperator closes an account, unless it is InUse. No reservation can happen
	// afterwards: the wallet is empty, and a deleted operator's cannot be topped up.
	DeleteOperator(ctx context.Context, action StaffAction, id int64) error
	// UndeleteOperator gives a deleted operator its former status back, while that is
	// allowed (subscription.Operator.Undeletable).
	UndeleteOperator(ctx context.Context, action StaffAction, id int64) (subscription.Operator, error)
	Operator(ctx context.Context, id int64) (subscription.Operator, error)
	Operators(ctx context.Context) ([]subscription.Operator, error)

	// TopUp credits a wallet once per reference, which is compared by its normalised form
	// across all operators. Repeated with the same reference, amount and operator, it
	// changes nothing and returns credited false.
	TopUp(ctx context.Context, action StaffAction, topUp TopUp) (wallet subscription.Wallet, credited bool, err error)
	// CreditUnder reads the top-up that has used the reference of another; false if there is none.
	CreditUnder(ctx context.Context, topUp TopUp) (before Credit, found bool, err error)
	// Adjust moves a wallet's balance by an amount of either sign, never below
	// zero, once per reference if there is one, compared as a top-up's is. Repeated with
	// the same reference, amount and operator, it changes nothing and returns booked false.
	Adjust(ctx context.Context, action StaffAction, adjustment Adjustment) (wallet subscription.Wallet, booked bool, err error)
	Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error)
	// MovedWithoutApproval adds up what was moved without approval. TopUp, Adjust, SettleReview,
	// RequestReversal and SettleReversalByReview add to it; ApproveProposal does not. If the actor
	// has limits and StaffAction.CheckAmount returns an *ApprovalNeeded, they return it and change
	// nothing.
	MovedWithoutApproval(ctx context.Context, query MovedQuery) (MovedWithoutApproval, error)

	// Propose stores a proposal. An open one with the same UniqueKey is returned if it is
	// the Same, and the new one refused if not; a top-up whose reference was credited is
	// refused, too. Lapsed proposals do not count.
	Propose(ctx context.Context, action StaffAction, proposal Proposal) (stored Proposal, known bool, err error)
	// ApproveProposal decides a proposal that is still open and carries it out, both
	// or neither, unless StaffAccess.MayApprove refuses. The approval's audit entry follows
	// that of the action carried out.
	ApproveProposal(ctx context.Context, approval Approval) (ActionResult, error)
	// DismissProposal decides a proposal that is still open, and does nothing else.
	DismissProposal(ctx context.Context, action StaffAction, id int64, as ProposalStatus) (Proposal, error)
	Proposal(ctx context.Context, id int64) (Proposal, error)
	// Proposals lists proposals, newest first.
	Proposals(ctx context.Context, filter ProposalFilter) ([]Proposal, error)

	// ClosePeriod closes a month that is over, of one operator or, if operatorID is
	// zero, of all operators that it is not closed for. It refuses while an operation from
	// before the month's end is open, and where there is nothing left to close.
	ClosePeriod(ctx context.Context, action StaffAction, month Month, operatorID int64) ([]ClosedPeriod, error)
	ClosedPeriods(ctx context.Context, operatorID int64) ([]ClosedPeriod, error)
	// Pages of long lists. Each begins after the query's cursor: the ledger by line,
	// commissions by when their operation began, audit entries and subscribers by id.
	LedgerPage(ctx context.Context, query ListQuery) ([]LedgerEntry, error)
	CommissionPage(ctx context.Context, query ListQuery) ([]CommissionEntry, error)
	AuditPage(ctx context.Context, query ListQuery) ([]AuditEntry, error)
	SubscriberPage(ctx context.Context, query ListQuery) ([]SubscriberEntry, error)

	// SetPlan creates or changes a plan. It refuses a component that the provider's
	// catalogue, as last seen, does not sell. If StaffAction.CheckPlanChange returns a
	// *PlanApprovalNeeded, it returns that and changes nothing.
	SetPlan(ctx context.Context, action StaffAction, plan subscription.Plan) (subscription.Plan, error)
	// PlanComparison reads what a change of a plan is compared with.
	PlanComparison(ctx context.Context, id string) (PlanComparison, error)
	RetirePlan(ctx context.Context, action StaffAction, id string) error
	AllPlans(ctx context.Context) ([]subscription.Plan, error)
	// PlanHistory reads every version of a plan, the newest first.
	PlanHistory(ctx context.Context, id string) ([]PlanVersion, error)
	CatalogueState(ctx context.Context, provider string) (CatalogueState, error)

	IssueKey(ctx context.Context, action StaffAction, key access.Credential) (access.Credential, error)
	// RotateKey creates the successor and sets the old key to expire, atomically.
	RotateKey(ctx context.Context, action StaffAction, oldID int64, oldExpires time.Time, successor access.Credential) (access.Credential, error)
	RevokeKey(ctx context.Context, action StaffAction, id int64) error
	PermitKey(ctx context.Context, action StaffAction, id int64, permissions access.Permissions) error
	Key(ctx context.Context, id int64) (access.Credential, error)
	Keys(ctx context.Context, operatorID int64) ([]access.Credential, error)
	// FindKeys reads the keys of all operators whose hint begins with a text, newest first.
	FindKeys(ctx context.Context, hint string, limit int) ([]access.Credential, error)

	// AllowAddress adds an entry to an operator's whitelist, of at most limit entries. An
	// entry that is listed already is left as it is.
	AllowAddress(ctx context.Context, action StaffAction, operatorID int64, entry netip.Prefix, limit int) error
	DisallowAddress(ctx context.Context, action StaffAction, operatorID int64, entry netip.Prefix) error
	Whitelist(ctx context.Context, operatorID int64) ([]netip.Prefix, error)

	// CreateLogin creates a login; it refuses a username that is taken. This and the three
	// below record who gave a staff login its access (StaffAction.Grants). They return
	// RefuseWithoutApproval where a console user gives access to a login that may approve
	// and somebody else could approve it (StaffAccess.HasApprover).
	// In an action by an operator's owner (StaffAction.OperatorScope), ChangeLogin also
	// refuses to disable or demote the operator's last enabled owner.
	CreateLogin(ctx context.Context, action StaffAction, account login.Account) (login.Person, error)
	// ChangeLogin changes a login; one that is disabled is signed out everywhere. Its
	// open proposals that it may no longer make lapse (Proposal.MakerMayPropose).
	ChangeLogin(ctx context.Context, action StaffAction, id int64, change LoginChange) (login.Person, error)
	// ResetPassword gives a login a password that has to be changed at the first
	// sign-in; ResetTOTP removes its second factors. Both end its sessions.
	ResetPassword(ctx context.Context, action StaffAction, id int64, hash string) (login.Person, error)
	ResetTOTP(ctx context.Context, action StaffAction, id int64) (login.Person, error)
	Login(ctx context.Context, id int64) (login.Person, error)
	LoginNamed(ctx context.Context, username string) (login.Person, error)
	Logins(ctx context.Context, filter LoginFilter) ([]login.Person, error)
	// StaffAccess reads every staff login and who gave it access, at one moment.
	StaffAccess(ctx context.Context) (StaffAccess, error)

	// ListOperations lists operations, newest first unless the filter says otherwise.
	ListOperations(ctx context.Context, filter OperationFilter) ([]operation.Operation, error)
	OperationHistory(ctx context.Context, id string) (OperationHistory, error)

	// SettleReview settles an operation in review, whichever node holds its lease. The
	// store fills in the settlement's epoch.
	SettleReview(ctx context.Context, action StaffAction, settlement operation.Settlement) (operation.Operation, error)
	// OverdueReviews lists the operations that have been in review since a moment or
	// longer, the oldest first; CountOverdueReviews counts them.
	OverdueReviews(ctx context.Context, since time.Time, limit int) ([]operation.Operation, error)
	CountOverdueReviews(ctx context.Context, since time.Time) (int, error)
	// Holds sums up the operations that hold money, by status; a status without any is left out.
	Holds(ctx context.Context) (map[operation.State]Hold, error)
	// Exceptions lists what only a person can decide; closed ones too, if closed is set.
	Exceptions(ctx context.Context, closed bool) ([]ExceptionEntry, error)
	CloseException(ctx context.Context, action StaffAction, id int64) error
	// MissingAddons lists the combos whose add-on is being followed up.
	MissingAddons(ctx context.Context) ([]operation.Operation, error)
	// CustomerNames are the customers' names of operations, by operation.
	CustomerNames(ctx context.Context, ids []string) (map[string]string, error)
	// AddonCalls counts the provider calls about the add-ons of operations, by operation.
	AddonCalls(ctx context.Context, ids []string) (map[string]int, error)
	CloseAddon(ctx context.Context, action StaffAction, transactionID string) error

	// ReversalSnapshot reads what decides whether an operation can be reversed. RequestReversal reads
	// it again, refuses by it, and records the reversal, for a node to carry out; until that has an
	// outcome, no operation of the subscriber can begin. Its amount counts towards the limits.
	ReversalSnapshot(ctx context.Context, transactionID string) (ReversalSnapshot, error)
	RequestReversal(ctx context.Context, action StaffAction, request ReversalRequest) (operation.Reversal, error)
	// Reversal reads a reversal by its reference, and refuses if there is none.
	Reversal(ctx context.Context, reference string) (operation.Reversal, error)
	Reversals(ctx context.Context, filter ReversalFilter) ([]operation.Reversal, error)
	// SettleReversalByReview settles a reversal as a person has decided, or refuses by the
	// settlement. Of a person and an answer of the provider, the first takes effect. Its amount
	// counts towards the limits.
	SettleReversalByReview(ctx context.Context, action StaffAction, settlement ReversalSettlement) (operation.Reversal, error)

	// AdoptOperation records an operation that the provider has carried out and the store has
	// forgotten, with its debit, charge and extension; false if it is there already. It
	// refuses outside maintenance, and if the wallet does not hold the price, and returns
	// operation.ErrStale if the subscriber is not as the operation was computed from.
	AdoptOperation(ctx context.Context, action StaffAction, a operation.AdoptedOperation) (op operation.Operation, adopted bool, err error)
	// OperationsByID reads those of the operations that exist, of any operator.
	OperationsByID(ctx context.Context, ids []string) ([]operation.Operation, error)
	// SubscriberNames reads the names of those of the subscribers that exist, of any operator.
	SubscriberNames(ctx context.Context, ids []string) (map[string]string, error)
	// SubscribersNamed reads the subscribers of any operator that have the id or the mobile
	// number: two at most.
	SubscribersNamed(ctx context.Context, id, mobile string) ([]operation.Subscriber, error)
	// PlanVersions reads every version of every plan, by plan and version; UpdatedAt is
	// since when it was the plan's.
	PlanVersions(ctx context.Context) ([]subscription.Plan, error)

	PasswordStore
	ContactStore
	KeyringStore
	StatementStore

	// FindSubscriber reads a subscriber of any operator.
	FindSubscriber(ctx context.Context, id string) (operatorID int64, s operation.Subscription, err error)
	// ReleaseLapsed frees those of the numbers and ids whose subscriber's operator was
	// deleted too long ago to be undeleted. The subscriber stays, under another number
	// or id (subscription.Released). Others are left alone.
	ReleaseLapsed(ctx context.Context, claims []subscription.Claim, now time.Time) (released int, err error)
	// CheckImport returns for each row the problem that prevents its import, or that it
	// is known already; nothing is changed.
	CheckImport(ctx context.Context, rows []ImportRow, now time.Time) ([]ImportResult, error)
	// ForgetSubscriber replaces the personal data of a subscriber; see Service.ForgetSubscriber.
	ForgetSubscriber(ctx context.Context, action StaffAction, id string, keep time.Duration) (Forgotten, error)
	// ExportSubscriber reads all that the store has about a subscriber.
	ExportSubscriber(ctx context.Context, id string) (SubscriberData, error)
	// ImportSubscribers adds the rows that are not known yet, all or none.
	ImportSubscribers(ctx context.Context, action StaffAction, rows []ImportRow) (added int, err error)

	// AuditEntryByVoucher reads the entry of the action that was done under a voucher.
	AuditEntryByVoucher(ctx context.Context, voucher string) (entry AuditEntry, found bool, err error)
	// StartMaintenance switches maintenance mode on and interrupts the running bulk
	// renewals. Once it has returned, no node makes a reservation. If the mode is on
	// already, it changes the reason. EndMaintenance switches it off; false if it was off.
	// While a restore is open it returns ErrRestored, unless the store is accepted as it is,
	// or the caller has just compared it with the provider and found no difference; this
	// ends the restore. Both return ErrUnfinishedCopy for such a store.
	StartMaintenance(ctx context.Context, action StaffAction) (Maintenance, error)
	EndMaintenance(ctx context.Context, action StaffAction, accepted, compared bool) (ended bool, err error)
	Maintenance(ctx context.Context) (Maintenance, error)

	// StoreMark reads the store's mark, and AdvanceMark moves it.
	StoreMark(ctx context.Context) (StoreMark, error)
	AdvanceMark(ctx context.Context, advance MarkAdvance) (value int64, err error)
	// LastKnown returns when the newest operation or staff action began; zero if there is none.
	LastKnown(ctx context.Context) (time.Time, error)
	// OpenRestore reads the restore that nobody has accepted or compared yet.
	OpenRestore(ctx context.Context) (Restore, error)
	// RecordRestore records a restore, switches maintenance mode on, interrupts the running
	// bulk renewals, ends every login session, and moves the mark above a value. If a
	// restore is open, that one stays. LogRestore writes the staff action of an open
	// restore that was recorded without one.
	RecordRestore(ctx context.Context, action StaffAction, restore Restore, above int64) (Maintenance, error)
	LogRestore(ctx context.Context, action StaffAction) error

	// FindAuditEntries lists audit entries, newest first.
	FindAuditEntries(ctx context.Context, query AuditQuery) ([]AuditEntry, error)
}

// OperatorChange is what to change of an operator; a nil field stays as it is.
type OperatorChange struct {
	Status        *subscription.OperatorStatus
	API           *subscription.APIAccess
	RateLimit     *int
	CommissionBPS *int
	LowBalance    *money.Amount
	// SecondFactorRequired demands a second factor of the operator's people.
	SecondFactorRequired *bool
	// Address and GSTIN stand on receipts. Empty removes them.
	Address, GSTIN *string
}

// TopUp is money that was paid outside the API. The reference is the payment's own, and
// makes the credit idempotent.
type TopUp struct {
	OperatorID int64
	Amount     money.Amount
	Reference  string
}

// Adjustment is a correction of a wallet by hand, of either sign. A reference makes it
// idempotent. References of adjustments and of top-ups are separate: reversing a payment
// may use the payment's own reference.
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

// LedgerEntry is one line of an operator's ledger. BalanceAfter is the ledger's running
// sum, which does not include holds.
type LedgerEntry struct {
	ID           int64
	Line         int64
	Credit       bool
	Amount       money.Amount
	BalanceAfter money.Amount
	Description  string
	// TransactionID is the operation that was paid for, or reversed; empty for what staff moved.
	TransactionID string
	CreatedAt     time.Time
}

// CommissionEntry is what one operation earned the MSO, at the rate of its time, or what its reversal
// took back.
type CommissionEntry struct {
	TransactionID string
	// Reversal is the reference of the reversal; empty for what was earned. The amount is below zero.
	Reversal   string
	OperatorID int64
	Amount     money.Amount
	RateBPS    int
	CreatedAt  time.Time
	// BegunAt is when the operation began, or the reversal was requested; only pages have it.
	BegunAt time.Time
}

// Cursor is the entry's position in a list.
func (c CommissionEntry) Cursor() Cursor {
	return Cursor{At: c.BegunAt, ID: cmp.Or(c.Reversal, c.TransactionID)}
}

// ListQuery selects a page of a list; a zero field selects all.
type ListQuery struct {
	OperatorID int64
	// From and To bound when a row was made; To is exclusive.
	From, To time.Time
	// After is the last row of the page before.
	After Cursor
	// Limit is how many are listed at most; zero for all.
	Limit int
	// Now is the moment for which a subscriber's plan is returned.
	Now time.Time
}

// Cursor is a position in a list: a number, or a moment with an id, or an id.
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

// OperationFilter selects operations; a zero field selects all.
type OperationFilter struct {
	OperatorID int64
	State      operation.State
	Subscriber string
	// From and To bound when an operation began; To is exclusive.
	From, To time.Time
	// After is the last operation of the page before.
	After Cursor
	// OldestFirst reverses the order.
	OldestFirst bool
	// Limit is how many are listed at most; zero for all.
	Limit int
}

// OperationHistory is an operation with every state it went through and every provider
// call.
type OperationHistory struct {
	operation.Operation
	Events []OperationEvent
	Calls  []OperationCall
	// Reversals are the requests to undo it, oldest first; all but the last were refused.
	Reversals []operation.Reversal
	// EventsRemoved and CallsRemoved are when they were removed because they were old; zero if they
	// were not.
	EventsRemoved, CallsRemoved time.Time
}

// OperationEvent is one transition between states.
type OperationEvent struct {
	From, To operation.State
	Epoch    int64
	Node     string
	Actor    string
	Why      string
	At       time.Time
}

// OperationCall is one call to the provider and its outcome.
type OperationCall struct {
	Reference   string
	What        string
	Component   string
	Outcome     string
	Transaction string
	Detail      string
	Node        string
	CalledAt    time.Time
	RepliedAt   time.Time
}
