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

// ProposalLifetime is how long a proposal waits for approval. After that it lapses and
// has to be made again, so that nothing is approved whose circumstances are forgotten.
const ProposalLifetime = 24 * time.Hour

// ProposalKind is the kind of change that is proposed.
type ProposalKind string

// What can be proposed.
const (
	ProposedTopUp      ProposalKind = "topup"
	ProposedAdjustment ProposalKind = "adjust"
	ProposedSettlement ProposalKind = "settle"
	ProposedReversal   ProposalKind = "reverse"
	ProposedPlan       ProposalKind = "plan"
	// A login that may approve: see loginproposals.go.
	ProposedLogin    ProposalKind = "login"
	ProposedRole     ProposalKind = "role"
	ProposedPassword ProposalKind = "password"
	ProposedTOTP     ProposalKind = "totp"
)

// Action is the staff action that the proposal carries out. Its maker and its approver must
// both have the right to it.
func (p Proposal) Action() Action {
	if p.SettlesReversal() {
		return ReversalSettle
	}
	return map[ProposalKind]Action{
		ProposedTopUp: WalletTopUp, ProposedAdjustment: WalletAdjust, ProposedSettlement: ReviewSettle, ProposedPlan: PlanSet,
		ProposedReversal: OperationReverse,
		ProposedLogin:    LoginCreate, ProposedRole: LoginSet, ProposedPassword: LoginResetPassword, ProposedTOTP: LoginResetTOTP,
	}[p.Kind]
}

// SettlesReversal reports whether a settlement is that of a reversal, which its TransactionID names.
func (p Proposal) SettlesReversal() bool {
	return p.Kind == ProposedSettlement && operation.IsReversalReference(p.TransactionID)
}

// ProposalStatus is the status of a proposal.
type ProposalStatus string

// All but ProposalOpen are final.
const (
	ProposalOpen      ProposalStatus = "open"
	ProposalApproved  ProposalStatus = "approved"
	ProposalDeclined  ProposalStatus = "declined"
	ProposalWithdrawn ProposalStatus = "withdrawn"
	ProposalLapsed    ProposalStatus = "lapsed"
)

// Proposal is a staff action that one person proposes and another has to approve.
type Proposal struct {
	ID         int64
	Kind       ProposalKind
	OperatorID int64
	// Amount is the amount moved; for a settlement or a reversal, the operation's price.
	Amount money.Amount
	// Reference is the reference of a top-up.
	Reference string
	// TransactionID belongs to a settlement or a reversal, Confirm to a settlement. The settlement of
	// a reversal has the reversal's reference; Confirm says that it was undone.
	TransactionID string
	Confirm       bool
	// Subject is what a proposal that moves no money changes, such as plan FAMILY-1;
	// empty for one that moves money. Change is the new state, as JSON. OperatorID is 0
	// where the subject belongs to no operator.
	Subject, Change string
	// Reason is the maker's; a top-up has its reference instead.
	Reason string

	Maker  string
	MadeAt time.Time

	Status ProposalStatus
	// Checker is who approved or declined it, or the maker who withdrew it.
	Checker   string
	DecidedAt time.Time
	// Answer is why it was declined or withdrawn.
	Answer string
}

// UniqueKey identifies what is proposed: an operator has at most one open proposal of a
// key. A top-up's is unique across all operators.
func (p Proposal) UniqueKey() string {
	switch p.Kind {
	case ProposedTopUp:
		return "topup " + NormaliseReference(p.Reference)
	case ProposedSettlement, ProposedReversal:
		return string(p.Kind) + " " + p.TransactionID
	case ProposedAdjustment:
		return fmt.Sprintf("adjust %s %s", p.Amount, p.Reason)
	}
	return string(p.Kind) + " " + p.Subject
}

// Same reports whether another proposal would do the same.
func (p Proposal) Same(q Proposal) bool {
	return p.UniqueKey() == q.UniqueKey() && p.OperatorID == q.OperatorID && p.Amount == q.Amount && p.Confirm == q.Confirm && p.Change == q.Change
}

// LapsesAt is from when on the proposal can no longer be approved.
func (p Proposal) LapsesAt() time.Time { return p.MadeAt.Add(ProposalLifetime) }

// At returns the proposal as of a moment: one that was not decided in time has lapsed,
// whether or not the store says so.
func (p Proposal) At(now time.Time) Proposal {
	if p.Status == ProposalOpen && !now.Before(p.LapsesAt()) {
		p.Status, p.DecidedAt = ProposalLapsed, p.LapsesAt()
	}
	return p
}

// LapsedWithMaker reports whether the proposal lapsed before its time, because its
// maker's login was disabled or lost the right to make it.
func (p Proposal) LapsedWithMaker() bool {
	return p.Status == ProposalLapsed && p.DecidedAt.Before(p.LapsesAt())
}

// Approval is an approval of a proposal, with what is carried out.
type Approval struct {
	Action   StaffAction
	Proposal Proposal
	// CarryOut is the action that was proposed; the checker is its actor.
	CarryOut StaffAction
	// Settlement is for a proposed settlement.
	Settlement operation.Settlement
	// Reversal is for a proposed reversal, ReversalSettlement for the proposed settlement of one.
	Reversal           ReversalRequest
	ReversalSettlement ReversalSettlement
	// Account is for a proposal to create a login, PasswordHash for one to reset a
	// password. The password is generated at the approval.
	Account      login.Account
	PasswordHash string
	// NewLoginWait is Limits.NewLoginWait.
	NewLoginWait time.Duration
	// Plan is the new state of a plan, with the version that it must still have.
	Plan subscription.Plan
}

// ActionResult is the result of a submitted or approved action: it was done, or proposed.
type ActionResult struct {
	// Proposal is the proposal that was made or approved; its ID is zero where no approval
	// was needed.
	Proposal Proposal
	// Already: it had been done, or proposed, before, and nothing has changed now.
	Already bool
	// Why is why an amount needs approval; nil where it does not.
	Why *ApprovalNeeded
	// The new state, where the action was done: the wallet after a top-up or an
	// adjustment, the operation after a settlement, the reversal that was requested or settled, the plan, or the
	// login's person.
	Wallet    subscription.Wallet
	Operation operation.Operation
	Reversal  operation.Reversal
	Plan      subscription.Plan
	Person    login.Person
	// Password is one that was generated for the person, to be shown once.
	Password string
}

// Waits reports whether the action waits for approval.
func (o ActionResult) Waits() bool { return o.Proposal.Status == ProposalOpen }

// SubmitTopUp tops a wallet up, or proposes it where that needs approval.
func (s *Service) SubmitTopUp(ctx context.Context, topUp TopUp) (ActionResult, error) {
	topUp, err := checkTopUp(topUp)
	if err != nil {
		return ActionResult{}, err
	}
	wanted := Proposal{Kind: ProposedTopUp, OperatorID: topUp.OperatorID, Amount: topUp.Amount, Reference: topUp.Reference}
	if why := s.aboveLimit(topUp.Amount); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	wallet, credited, err := s.TopUp(ctx, topUp)
	if why := asApprovalNeeded(err); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	return ActionResult{Wallet: wallet, Already: !credited}, err
}

// SubmitAdjustment corrects a wallet, or proposes it where that needs approval.
func (s *Service) SubmitAdjustment(ctx context.Context, operatorID int64, amount money.Amount, reason string) (ActionResult, error) {
	action, err := s.newReasonedAction(WalletAdjust, reason)
	if err != nil {
		return ActionResult{}, err
	}
	wanted := Proposal{Kind: ProposedAdjustment, OperatorID: operatorID, Amount: amount, Reason: action.Reason}
	if why := s.aboveLimit(amount); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	wallet, err := s.Adjust(ctx, operatorID, amount, reason)
	if why := asApprovalNeeded(err); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	return ActionResult{Wallet: wallet}, err
}

// SubmitSettlement decides an operation in review, or proposes it where its amount needs
// approval.
func (s *Service) SubmitSettlement(ctx context.Context, transactionID string, confirm bool, reason string) (ActionResult, error) {
	action, err := s.newReasonedAction(ReviewSettle, reason)
	if err != nil {
		return ActionResult{}, err
	}
	op, err := s.store.OperationHistory(ctx, transactionID)
	if err != nil {
		return ActionResult{}, err
	}
	wanted := Proposal{
		Kind: ProposedSettlement, OperatorID: op.OperatorID, Amount: op.Amount, TransactionID: op.ID, Confirm: confirm, Reason: action.Reason,
	}
	if why := s.aboveLimit(op.Amount); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	settled, err := s.SettleReview(ctx, transactionID, confirm, reason)
	if why := asApprovalNeeded(err); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	return ActionResult{Operation: settled}, err
}

// proposeBecause proposes to move an amount, and returns why it needs approval.
func (s *Service) proposeBecause(ctx context.Context, why *ApprovalNeeded, p Proposal) (ActionResult, error) {
	outcome, err := s.propose(ctx, p)
	outcome.Why = why
	return outcome, err
}

func (s *Service) propose(ctx context.Context, p Proposal) (ActionResult, error) {
	if err := s.permit(p.Action()); err != nil {
		return ActionResult{}, err
	}
	action := s.newAction(ProposalMake)
	if p.Reason != "" {
		action.Reason = p.Reason
	}
	p.Status, p.Maker, p.MadeAt = ProposalOpen, action.Actor, action.At
	stored, known, err := s.store.Propose(ctx, action, p)
	return ActionResult{Proposal: stored, Already: known}, err
}

// Approve approves another person's proposal and carries it out.
func (s *Service) Approve(ctx context.Context, id int64) (ActionResult, error) {
	p, err := s.openProposal(ctx, id)
	if err != nil {
		return ActionResult{}, err
	}
	if p.Maker == s.actor {
		return ActionResult{}, Refuse("proposal %d is your own: somebody else has to approve it", id)
	}
	approval := Approval{Action: s.newAction(ProposalApprove), Proposal: p, CarryOut: s.newAction(p.Action()), NewLoginWait: s.limits.NewLoginWait}
	// Both have one timestamp, so that the books and the audit log agree.
	approval.CarryOut.At, approval.CarryOut.Reason, approval.CarryOut.Voucher = approval.Action.At, p.Reason, ""
	switch {
	case p.SettlesReversal():
		approval.ReversalSettlement = s.reversalSettlement(p.TransactionID, p.Confirm)
	case p.Kind == ProposedSettlement:
		approval.Settlement = settlementBy(approval.CarryOut, p.TransactionID, p.Confirm)
	case p.Kind == ProposedReversal:
		approval.Reversal = s.reversalRequest(p.TransactionID, approval.CarryOut.At)
	}
	if p.Kind == ProposedPlan {
		if approval.Plan, err = s.approvedPlan(ctx, p, approval.CarryOut); err != nil {
			return ActionResult{}, err
		}
	}
	password, err := approval.generatePassword(ctx)
	if err != nil {
		return ActionResult{}, err
	}
	outcome, err := s.store.ApproveProposal(ctx, approval)
	if err == nil {
		outcome.Password = password
	}
	return outcome, err
}

// Decline refuses another person's proposal, for a recorded reason.
func (s *Service) Decline(ctx context.Context, id int64, reason string) (Proposal, error) {
	action, err := s.newReasonedAction(ProposalDecline, reason)
	if err != nil {
		return Proposal{}, err
	}
	p, err := s.openProposal(ctx, id)
	if err != nil {
		return p, err
	}
	if p.Maker == s.actor {
		return p, Refuse("proposal %d is your own: withdraw it instead", id)
	}
	return s.store.DismissProposal(ctx, action, id, ProposalDeclined)
}

// Withdraw takes one's own proposal back.
func (s *Service) Withdraw(ctx context.Context, id int64, reason string) (Proposal, error) {
	action, err := s.newReasonedAction(ProposalWithdraw, reason)
	if err != nil {
		return Proposal{}, err
	}
	p, err := s.openProposal(ctx, id)
	if err != nil {
		return p, err
	}
	if p.Maker != s.actor {
		return p, Refuse("proposal %d is %s's: decline it instead", id, Actor(p.Maker))
	}
	return s.store.DismissProposal(ctx, action, id, ProposalWithdrawn)
}

// openProposal reads a proposal that can still be decided.
func (s *Service) openProposal(ctx context.Context, id int64) (Proposal, error) {
	p, err := s.store.Proposal(ctx, id)
	if err != nil {
		return p, err
	}
	return p, p.At(s.now()).CheckOpen()
}

// CheckOpen refuses a proposal that is no longer open.
func (p Proposal) CheckOpen() error {
	switch p.Status {
	case ProposalOpen:
		return nil
	case ProposalLapsed:
		if p.LapsedWithMaker() {
			return refuseMaker(p)
		}
		return Refuse("proposal %d expired, because nobody decided it within %d hours: make it again", p.ID, int(ProposalLifetime.Hours()))
	}
	return Refuse("proposal %d was %s already, by %s", p.ID, p.Status, Actor(p.Checker))
}

// ProposalFilter selects proposals; a zero field selects all.
type ProposalFilter struct {
	OperatorID int64
	// Open leaves out what was decided. Some of the rest may have lapsed: see Proposal.At.
	Open bool
	// Before is the id of the proposal that the list continues after; zero begins it.
	Before int64
	// Limit is how many are listed at most.
	Limit int
}

// Proposals lists proposals with their present status, newest first.
func (s *Service) Proposals(ctx context.Context, filter ProposalFilter) ([]Proposal, error) {
	all, err := s.store.Proposals(ctx, filter)
	now, listed := s.now(), all[:0]
	for _, p := range all {
		if p = p.At(now); !filter.Open || p.Status == ProposalOpen {
			listed = append(listed, p)
		}
	}
	return listed, err
}

// Proposal reads one proposal with its present status.
func (s *Service) Proposal(ctx context.Context, id int64) (Proposal, error) {
	p, err := s.store.Proposal(ctx, id)
	return p.At(s.now()), err
}

// RefuseDuplicateProposal refuses a proposal while another one with its UniqueKey is open.
func RefuseDuplicateProposal(open Proposal) *Refusal {
	what := Refuse("the same adjustment")
	switch open.Kind {
	case ProposedTopUp:
		return Refuse("reference %s waits for approval already: proposal %d of %s, for %s to operator %s; it has to be decided or withdrawn first",
			open.Reference, open.ID, Actor(open.Maker), open.Amount, OperatorID(open.OperatorID))
	case ProposedSettlement, ProposedReversal:
		what = Refuse("transaction %s", open.TransactionID)
		if open.SettlesReversal() {
			what = Refuse("reversal %s", open.TransactionID)
		}
	}
	if open.Subject != "" {
		return Refuse("%s waits for approval already: proposal %d of %s; it has to be decided or withdrawn first", open.Subject, open.ID, Actor(open.Maker))
	}
	return Refuse("%v waits for approval already: proposal %d of %s, for %s; it has to be decided or withdrawn first", what, open.ID, Actor(open.Maker), open.Amount)
}
