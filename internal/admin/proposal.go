package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// ProposalLife is how long a proposal waits for its second person. After that
// nobody remembers well enough what was agreed to; it has to be made again.
const ProposalLife = 24 * time.Hour

// ProposalKind is what a proposal wants done.
type ProposalKind string

// What can be proposed.
const (
	ProposedTopUp      ProposalKind = "topup"
	ProposedAdjustment ProposalKind = "adjust"
	ProposedSettlement ProposalKind = "settle"
	ProposedPlan       ProposalKind = "plan"
	// A login that may approve: see loginproposals.go.
	ProposedLogin    ProposalKind = "login"
	ProposedRole     ProposalKind = "role"
	ProposedPassword ProposalKind = "password"
	ProposedTOTP     ProposalKind = "totp"
)

// Action is the staff action that a proposal of this kind comes to. Who makes or
// approves the proposal must have the right to it.
func (k ProposalKind) Action() Action {
	return map[ProposalKind]Action{
		ProposedTopUp: WalletTopUp, ProposedAdjustment: WalletAdjust, ProposedSettlement: ReviewSettle, ProposedPlan: PlanSet,
		ProposedLogin: LoginCreate, ProposedRole: LoginSet, ProposedPassword: LoginResetPassword, ProposedTOTP: LoginResetTOTP,
	}[k]
}

// ProposalStatus is what became of a proposal.
type ProposalStatus string

// An open proposal goes to one of the others, and stays there.
const (
	ProposalOpen      ProposalStatus = "open"
	ProposalApproved  ProposalStatus = "approved"
	ProposalDeclined  ProposalStatus = "declined"
	ProposalWithdrawn ProposalStatus = "withdrawn"
	ProposalLapsed    ProposalStatus = "lapsed"
)

// Proposal is something that one person wants done and another has to agree to.
type Proposal struct {
	ID         int64
	Kind       ProposalKind
	OperatorID int64
	// Amount is what is moved; of a settlement, what its operation costs.
	Amount money.Amount
	// Reference is a top-up's.
	Reference string
	// TransactionID and Confirm are a settlement's.
	TransactionID string
	Confirm       bool
	// Subject is what a proposal that moves no money changes, such as plan FAMILY-1;
	// empty for one that does. Change is what it wants, as JSON. OperatorID is 0 where
	// the subject is no operator's.
	Subject, Change string
	// Reason is why the maker wants it; a top-up has its reference instead.
	Reason string

	Maker  string
	MadeAt time.Time

	Status ProposalStatus
	// Checker decided it: who approved, declined or, being the maker, withdrew it.
	Checker   string
	DecidedAt time.Time
	// Answer is why it was declined or withdrawn.
	Answer string
}

// Matter is what the proposal is about: of one operator, one matter waits for a
// decision once. A top-up's reference does so across all operators.
func (p Proposal) Matter() string {
	switch p.Kind {
	case ProposedTopUp:
		return "topup " + NormaliseReference(p.Reference)
	case ProposedSettlement:
		return "settle " + p.TransactionID
	case ProposedAdjustment:
		return fmt.Sprintf("adjust %s %s", p.Amount, p.Reason)
	}
	return string(p.Kind) + " " + p.Subject
}

// Same reports whether another proposal of the same matter wants the same.
func (p Proposal) Same(q Proposal) bool {
	return p.Matter() == q.Matter() && p.OperatorID == q.OperatorID && p.Amount == q.Amount && p.Confirm == q.Confirm && p.Change == q.Change
}

// Lapses is when the proposal can no longer be approved.
func (p Proposal) Lapses() time.Time { return p.MadeAt.Add(ProposalLife) }

// At is the proposal as it stands at a moment: one that nobody decided in time has
// lapsed, whether or not that was written down.
func (p Proposal) At(now time.Time) Proposal {
	if p.Status == ProposalOpen && !now.Before(p.Lapses()) {
		p.Status, p.DecidedAt = ProposalLapsed, p.Lapses()
	}
	return p
}

// LapsedWithMaker reports whether the proposal lapsed before its time, because its
// maker's login was disabled or lost the right to make it.
func (p Proposal) LapsedWithMaker() bool {
	return p.Status == ProposalLapsed && p.DecidedAt.Before(p.Lapses())
}

// Approval is a second person's yes, with what is carried out because of it.
type Approval struct {
	Act      StaffAction
	Proposal Proposal
	// CarryOut is the act that was proposed, which is now the checker's own.
	CarryOut StaffAction
	// Settlement is what a settlement comes to.
	Settlement operation.Settlement
	// Account is the login that a proposal to create one comes to, and PasswordHash what
	// a proposal to reset a password does. The password is made up at the approval.
	Account      login.Account
	PasswordHash string
	// NewLoginWait is Limits.NewLoginWait.
	NewLoginWait time.Duration
	// Plan is what a plan is changed to, with the version that it must still have.
	Plan subscription.Plan
}

// Outcome is what came of a wish to move money: it was done, or it waits.
type Outcome struct {
	// Proposal is what waits for a second person, or was approved by one; its ID is
	// zero where none was needed.
	Proposal Proposal
	// Already: it had been done, or proposed, before, and nothing has changed now.
	Already bool
	// Why a second person is needed to move money; nil where none was.
	Why *ApprovalNeeded
	// What it left behind, where it was done: of a top-up or an adjustment the
	// wallet, of a settlement the operation, of a plan the plan, of an action on a login
	// the person.
	Wallet    subscription.Wallet
	Operation operation.Operation
	Plan      subscription.Plan
	Person    login.Person
	// Password is one that was made up for the person, shown this once.
	Password string
}

// Waits reports whether nothing has been done yet.
func (o Outcome) Waits() bool { return o.Proposal.Status == ProposalOpen }

// SubmitTopUp tops a wallet up, or proposes to where that takes a second person.
func (d *Service) SubmitTopUp(ctx context.Context, topUp TopUp) (Outcome, error) {
	topUp, err := checkTopUp(topUp)
	if err != nil {
		return Outcome{}, err
	}
	wanted := Proposal{Kind: ProposedTopUp, OperatorID: topUp.OperatorID, Amount: topUp.Amount, Reference: topUp.Reference}
	if why := d.tooMuch(topUp.Amount); why != nil {
		return d.proposeBecause(ctx, why, wanted)
	}
	wallet, credited, err := d.TopUp(ctx, topUp)
	if why := secondNeeded(err); why != nil {
		return d.proposeBecause(ctx, why, wanted)
	}
	return Outcome{Wallet: wallet, Already: !credited}, err
}

// SubmitAdjustment corrects a wallet, or proposes to where that takes a second
// person.
func (d *Service) SubmitAdjustment(ctx context.Context, operatorID int64, amount money.Amount, reason string) (Outcome, error) {
	act, err := d.reasoned(WalletAdjust, reason)
	if err != nil {
		return Outcome{}, err
	}
	wanted := Proposal{Kind: ProposedAdjustment, OperatorID: operatorID, Amount: amount, Reason: act.Reason}
	if why := d.tooMuch(amount); why != nil {
		return d.proposeBecause(ctx, why, wanted)
	}
	wallet, err := d.Adjust(ctx, operatorID, amount, reason)
	if why := secondNeeded(err); why != nil {
		return d.proposeBecause(ctx, why, wanted)
	}
	return Outcome{Wallet: wallet}, err
}

// SubmitSettlement decides an operation in review, or proposes to where its amount
// takes a second person.
func (d *Service) SubmitSettlement(ctx context.Context, transactionID string, confirm bool, reason string) (Outcome, error) {
	act, err := d.reasoned(ReviewSettle, reason)
	if err != nil {
		return Outcome{}, err
	}
	op, err := d.store.OperationHistory(ctx, transactionID)
	if err != nil {
		return Outcome{}, err
	}
	wanted := Proposal{
		Kind: ProposedSettlement, OperatorID: op.OperatorID, Amount: op.Amount, TransactionID: op.ID, Confirm: confirm, Reason: act.Reason,
	}
	if why := d.tooMuch(op.Amount); why != nil {
		return d.proposeBecause(ctx, why, wanted)
	}
	settled, err := d.SettleReview(ctx, transactionID, confirm, reason)
	if why := secondNeeded(err); why != nil {
		return d.proposeBecause(ctx, why, wanted)
	}
	return Outcome{Operation: settled}, err
}

// proposeBecause proposes to move an amount, and says why that is necessary.
func (d *Service) proposeBecause(ctx context.Context, why *ApprovalNeeded, p Proposal) (Outcome, error) {
	outcome, err := d.propose(ctx, p)
	outcome.Why = why
	return outcome, err
}

func (d *Service) propose(ctx context.Context, p Proposal) (Outcome, error) {
	if err := d.permit(p.Kind.Action()); err != nil {
		return Outcome{}, err
	}
	act := d.act(ProposalMake)
	if p.Reason != "" {
		act.Reason = p.Reason
	}
	p.Status, p.Maker, p.MadeAt = ProposalOpen, act.Actor, act.At
	kept, known, err := d.store.Propose(ctx, act, p)
	return Outcome{Proposal: kept, Already: known}, err
}

// Approve agrees to another person's proposal, which is carried out with that.
func (d *Service) Approve(ctx context.Context, id int64) (Outcome, error) {
	p, err := d.openProposal(ctx, id)
	if err != nil {
		return Outcome{}, err
	}
	if p.Maker == d.actor {
		return Outcome{}, Refuse("proposal %d is your own: somebody else has to approve it", id)
	}
	approval := Approval{Act: d.act(ProposalApprove), Proposal: p, CarryOut: d.act(p.Kind.Action()), NewLoginWait: d.limits.NewLoginWait}
	// One moment for both: the books and the log say the same.
	approval.CarryOut.At, approval.CarryOut.Reason, approval.CarryOut.Voucher = approval.Act.At, p.Reason, ""
	if p.Kind == ProposedSettlement {
		approval.Settlement = settlementBy(approval.CarryOut, p.TransactionID, p.Confirm)
	}
	if p.Kind == ProposedPlan {
		if approval.Plan, err = d.approvedPlan(ctx, p, approval.CarryOut); err != nil {
			return Outcome{}, err
		}
	}
	password, err := approval.makeUpPassword(ctx)
	if err != nil {
		return Outcome{}, err
	}
	outcome, err := d.store.ApproveProposal(ctx, approval)
	if err == nil {
		outcome.Password = password
	}
	return outcome, err
}

// Decline refuses another person's proposal, for a reason that is kept.
func (d *Service) Decline(ctx context.Context, id int64, reason string) (Proposal, error) {
	act, err := d.reasoned(ProposalDecline, reason)
	if err != nil {
		return Proposal{}, err
	}
	p, err := d.openProposal(ctx, id)
	if err != nil {
		return p, err
	}
	if p.Maker == d.actor {
		return p, Refuse("proposal %d is your own: withdraw it instead", id)
	}
	return d.store.DismissProposal(ctx, act, id, ProposalDeclined)
}

// Withdraw takes one's own proposal back.
func (d *Service) Withdraw(ctx context.Context, id int64, reason string) (Proposal, error) {
	act, err := d.reasoned(ProposalWithdraw, reason)
	if err != nil {
		return Proposal{}, err
	}
	p, err := d.openProposal(ctx, id)
	if err != nil {
		return p, err
	}
	if p.Maker != d.actor {
		return p, Refuse("proposal %d is %s's: decline it instead", id, p.Maker)
	}
	return d.store.DismissProposal(ctx, act, id, ProposalWithdrawn)
}

// openProposal reads a proposal that can still be decided.
func (d *Service) openProposal(ctx context.Context, id int64) (Proposal, error) {
	p, err := d.store.Proposal(ctx, id)
	if err != nil {
		return p, err
	}
	return p, p.At(d.now()).Decidable()
}

// Decidable refuses a proposal that is no longer open.
func (p Proposal) Decidable() error {
	switch p.Status {
	case ProposalOpen:
		return nil
	case ProposalLapsed:
		if p.LapsedWithMaker() {
			return refuseMaker(p)
		}
		return Refuse("proposal %d lapsed, because nobody decided it within %d hours: make it again", p.ID, int(ProposalLife.Hours()))
	}
	return Refuse("proposal %d was %s already, by %s", p.ID, p.Status, p.Checker)
}

// ProposalFilter picks proposals; a zero field picks all.
type ProposalFilter struct {
	OperatorID int64
	// Open leaves out what was decided. Some of what is left may have lapsed: see
	// Proposal.At.
	Open bool
	// Most is how many are listed.
	Most int
}

// Proposals lists proposals as they stand now, newest first.
func (d *Service) Proposals(ctx context.Context, filter ProposalFilter) ([]Proposal, error) {
	all, err := d.store.Proposals(ctx, filter)
	now, listed := d.now(), all[:0]
	for _, p := range all {
		if p = p.At(now); !filter.Open || p.Status == ProposalOpen {
			listed = append(listed, p)
		}
	}
	return listed, err
}

// Proposal reads one proposal as it stands now.
func (d *Service) Proposal(ctx context.Context, id int64) (Proposal, error) {
	p, err := d.store.Proposal(ctx, id)
	return p.At(d.now()), err
}

// RefuseMatter refuses what another proposal of the same matter stands in the way
// of.
func RefuseMatter(open Proposal) *Refusal {
	what := Refuse("the same adjustment")
	switch open.Kind {
	case ProposedTopUp:
		return Refuse("reference %s waits for approval already: proposal %d of %s, for %s to operator %d; it has to be decided or withdrawn first",
			open.Reference, open.ID, open.Maker, open.Amount, open.OperatorID)
	case ProposedSettlement:
		what = Refuse("transaction %s", open.TransactionID)
	}
	if open.Subject != "" {
		return Refuse("%s waits for approval already: proposal %d of %s; it has to be decided or withdrawn first", open.Subject, open.ID, open.Maker)
	}
	return Refuse("%v waits for approval already: proposal %d of %s, for %s; it has to be decided or withdrawn first", what, open.ID, open.Maker, open.Amount)
}
