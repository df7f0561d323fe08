package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

const proposalColumns = `id, kind, operator_id, amount_paise, reference, transaction_id, confirm = 1, reason, maker, made_at,
	status, coalesce(checker, ''), decided_at, answer, subject, change`

func readProposal(row Row) (admin.Proposal, error) {
	var p admin.Proposal
	var amount int64
	var made, decided sql.NullInt64
	err := row.Scan(&p.ID, &p.Kind, &p.OperatorID, &amount, &p.Reference, &p.TransactionID, &p.Confirm, &p.Reason, &p.Maker, &made,
		&p.Status, &p.Checker, &decided, &p.Answer, &p.Subject, &p.Change)
	p.Amount, p.MadeAt, p.DecidedAt = money.Paise(amount), Time(made), Time(decided)
	return p, err
}

// Propose saves a change that needs the approval of a second person.
func (db *Store) Propose(ctx context.Context, action admin.StaffAction, p admin.Proposal) (kept admin.Proposal, known bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		kept, known = admin.Proposal{}, false
		if err := checkMaker(tx, p); err != nil {
			return err
		}
		if err := lockProposalOperator(tx, p.OperatorID); err != nil {
			return err
		}
		if err := sweepProposals(tx, action, p.OperatorID); err != nil {
			return err
		}
		if err := sweepReference(tx, action, p); err != nil {
			return err
		}
		var err error
		if kept, known, err = openDuplicate(tx, p); known || err != nil {
			return err
		}
		if known, err = checkProposal(tx, action, p); known || err != nil {
			return err
		}
		kept, err = readProposal(tx.QueryRow(`
			INSERT INTO proposals (kind, operator_id, amount_paise, reference, transaction_id, confirm, reason, matter, maker, made_at, status, subject, change, reference_key)
			VALUES ($1, $2, $3, $4, $5, $6::boolean::int, $7, $8, $9, $10, 'open', $11, $12, $13)
			ON CONFLICT DO NOTHING
			RETURNING `+proposalColumns,
			p.Kind, p.OperatorID, p.Amount.Paise(), p.Reference, p.TransactionID, p.Confirm, p.Reason, p.UniqueKey(), p.Maker, p.MadeAt.UnixMilli(),
			p.Subject, p.Change, ReferenceKey(p)))
		if errors.Is(err, sql.ErrNoRows) {
			// Another proposal with this key was committed meanwhile. It concerns no operator,
			// or is another operator's with the same reference: this operator's row is locked.
			// A proposal of an older binary has no reference_key.
			if kept, known, err = openDuplicate(tx, p); known || err != nil {
				return err
			}
			if kept, known, err = openByKey(tx, p); err == nil && !known {
				err = fmt.Errorf("save the proposal: an open proposal with key %q prevented it, and was decided meanwhile", p.UniqueKey())
			} else if err == nil && !kept.Same(p) {
				err = admin.RefuseDuplicateProposal(kept)
			}
			return err
		}
		if err != nil {
			return fmt.Errorf("save the proposal: %w", err)
		}
		return logAction(tx, action, p.OperatorID, fmt.Sprintf("proposal %d", kept.ID), nil, admin.ProposalState(kept))
	})
	if err != nil {
		return admin.Proposal{}, false, err
	}
	return kept, known, nil
}

// sweepProposals marks expired proposals as lapsed, so that the same change can be proposed again.
func sweepProposals(tx Tx, action admin.StaffAction, operatorID int64) error {
	_, err := tx.Exec(`
		UPDATE proposals SET status = 'lapsed', decided_at = made_at + $3
		 WHERE operator_id = $1 AND status = 'open' AND made_at + $3 <= $2`,
		operatorID, action.At.UnixMilli(), admin.ProposalLifetime.Milliseconds())
	if err != nil {
		return fmt.Errorf("mark proposals as lapsed: %w", err)
	}
	return nil
}

// openDuplicate finds an open proposal of the same change, and refuses if an open proposal
// with the same key proposes something else.
func openDuplicate(tx Tx, p admin.Proposal) (admin.Proposal, bool, error) {
	open, found, err := openProposal(tx, p)
	if err == nil && found && !open.Same(p) {
		err = admin.RefuseDuplicateProposal(open)
	}
	return open, found, err
}

// openProposal reads the open proposal with the same key; for a top-up, with the same
// reference, of any operator.
func openProposal(tx Tx, p admin.Proposal) (admin.Proposal, bool, error) {
	if p.Kind != admin.ProposedTopUp {
		return openByKey(tx, p)
	}
	return foundProposal(tx.QueryRow(`SELECT `+proposalColumns+` FROM proposals WHERE reference_key = $1 AND status = 'open'`, ReferenceKey(p)))
}

// openByKey reads the operator's open proposal with the same key.
func openByKey(tx Tx, p admin.Proposal) (admin.Proposal, bool, error) {
	return foundProposal(tx.QueryRow(`SELECT `+proposalColumns+` FROM proposals WHERE operator_id = $1 AND matter = $2 AND status = 'open'`,
		p.OperatorID, p.UniqueKey()))
}

func foundProposal(row Row) (admin.Proposal, bool, error) {
	open, err := readProposal(row)
	if errors.Is(err, sql.ErrNoRows) {
		return open, false, nil
	}
	if err != nil {
		return open, false, fmt.Errorf("look for an earlier proposal: %w", err)
	}
	return open, true, nil
}

// checkProposal refuses a proposal that could not be carried out now, and reports a
// top-up that was credited already.
func checkProposal(tx Tx, action admin.StaffAction, p admin.Proposal) (known bool, err error) {
	if p.SettlesReversal() {
		return false, checkSettleable(tx, p)
	}
	if p.Kind == admin.ProposedSettlement {
		_, err := inReview(tx, p.TransactionID)
		return false, err
	}
	if p.Kind == admin.ProposedReversal {
		return false, checkReversible(tx, p)
	}
	if p.AboutLogin() {
		return false, checkLoginProposal(tx, p)
	}
	if p.OperatorID != 0 {
		if _, err := undeletedOperator(tx, p.OperatorID); err != nil {
			return false, err
		}
	}
	if p.Kind != admin.ProposedTopUp {
		return false, nil
	}
	topUp := admin.TopUp{OperatorID: p.OperatorID, Amount: p.Amount, Reference: p.Reference}
	announced, known, err := checkTopUp(tx, topUp)
	if known || err != nil {
		return known, err
	}
	return false, refuseProposed(tx, action, topUp, announced)
}

// ApproveProposal decides a proposal and carries it out, in one transaction.
func (db *Store) ApproveProposal(ctx context.Context, a admin.Approval) (admin.ActionResult, error) {
	var outcome admin.ActionResult
	err := db.engine.Write(ctx, func(tx Tx) error {
		outcome = admin.ActionResult{}
		if err := lockApprovalLogins(tx, a); err != nil {
			return err
		}
		before, err := decidable(tx, a.Action, a.Proposal.ID)
		if err != nil {
			return err
		}
		if err := mayApprove(tx, a, before); err != nil {
			return err
		}
		// Decided first: an open proposal would refuse its own change.
		if outcome.Proposal, err = decideProposal(tx, a.Action, before.ID, admin.ProposalApproved); err != nil {
			return err
		}
		if err := carryOut(tx, a, &outcome); err != nil {
			return err
		}
		return logDecision(tx, a.Action, before, outcome.Proposal)
	})
	if err != nil {
		return admin.ActionResult{}, err
	}
	return outcome, nil
}

// carryOut carries out a proposal as the action of its checker.
func carryOut(tx Tx, a admin.Approval, outcome *admin.ActionResult) (err error) {
	switch p := outcome.Proposal; p.Kind {
	case admin.ProposedTopUp:
		credited := false
		outcome.Wallet, credited, err = topUp(tx, a.CarryOut, admin.TopUp{OperatorID: p.OperatorID, Amount: p.Amount, Reference: p.Reference})
		if err == nil && !credited {
			err = admin.Refuse("reference %s was credited already: decline the proposal", p.Reference)
		}
	case admin.ProposedAdjustment:
		outcome.Wallet, _, err = adjust(tx, a.CarryOut, admin.Adjustment{OperatorID: p.OperatorID, Amount: p.Amount})
	case admin.ProposedSettlement:
		if p.SettlesReversal() {
			outcome.Reversal, err = settleReversalByReview(tx, a.CarryOut, a.ReversalSettlement)
		} else {
			outcome.Operation, err = settleReview(tx, a.CarryOut, a.Settlement)
		}
	case admin.ProposedReversal:
		outcome.Reversal, err = requestReversal(tx, a.CarryOut, a.Reversal)
	case admin.ProposedLogin:
		outcome.Person, err = createLogin(tx, a.CarryOut, a.Account, p.Maker)
	case admin.ProposedRole, admin.ProposedPassword, admin.ProposedTOTP:
		outcome.Person, err = carryOutOnLogin(tx, a, p)
	case admin.ProposedPlan:
		outcome.Plan, err = changePlan(tx, a.CarryOut, a.Plan)
	default:
		err = fmt.Errorf("proposal %d is of an unknown kind, %q", p.ID, p.Kind)
	}
	return err
}

// DismissProposal decides a proposal that is not to be carried out.
func (db *Store) DismissProposal(ctx context.Context, action admin.StaffAction, id int64, as admin.ProposalStatus) (admin.Proposal, error) {
	var decided admin.Proposal
	err := db.engine.Write(ctx, func(tx Tx) error {
		before, err := decidable(tx, action, id)
		if err != nil {
			return err
		}
		if decided, err = decideProposal(tx, action, id, as); err != nil {
			return err
		}
		return logDecision(tx, action, before, decided)
	})
	return decided, err
}

// lockProposalOperator locks the operator's row, if the proposal concerns one. Every
// transaction that credits or adjusts its wallet, or makes or decides a proposal, does so
// first.
func lockProposalOperator(tx Tx, operatorID int64) error {
	if operatorID == 0 {
		return nil
	}
	_, err := operatorWhere(tx, `id = $1 FOR NO KEY UPDATE`, operatorID)
	return err
}

// decidable reads a proposal that can be decided at the time of the action. Its subject
// never changes; its status is read under the lock.
func decidable(tx Tx, action admin.StaffAction, id int64) (admin.Proposal, error) {
	p, err := proposalByID(tx, id)
	if err != nil {
		return p, err
	}
	if err := lockProposalOperator(tx, p.OperatorID); err != nil {
		return p, err
	}
	if p, err = readProposal(tx.QueryRow(`SELECT `+proposalColumns+` FROM proposals WHERE id = $1 FOR NO KEY UPDATE`, id)); err != nil {
		return p, fmt.Errorf("lock proposal %d: %w", id, err)
	}
	return p, p.At(action.At).CheckOpen()
}

func decideProposal(tx Tx, action admin.StaffAction, id int64, as admin.ProposalStatus) (admin.Proposal, error) {
	decided, err := readProposal(tx.QueryRow(`
		UPDATE proposals SET status = $2, checker = $3, decided_at = $4, answer = $5 WHERE id = $1 AND status = 'open'
		RETURNING `+proposalColumns, id, as, action.Actor, action.At.UnixMilli(), action.Reason))
	if err != nil {
		return decided, fmt.Errorf("decide proposal %d: %w", id, err)
	}
	return decided, nil
}

func logDecision(tx Tx, action admin.StaffAction, before, after admin.Proposal) error {
	return logAction(tx, action, after.OperatorID, fmt.Sprintf("proposal %d", after.ID), admin.ProposalState(before), admin.ProposalState(after))
}

func proposalByID(from Querier, id int64) (admin.Proposal, error) {
	p, err := readProposal(from.QueryRow(`SELECT `+proposalColumns+` FROM proposals WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return p, admin.Refuse("there is no proposal %d", id)
	}
	if err != nil {
		return p, fmt.Errorf("read proposal %d: %w", id, err)
	}
	return p, nil
}

// Proposal reads one proposal.
func (db *Store) Proposal(ctx context.Context, id int64) (admin.Proposal, error) {
	return proposalByID(db.engine.Read(ctx), id)
}

// Proposals reads proposals, newest first.
func (db *Store) Proposals(ctx context.Context, filter admin.ProposalFilter) ([]admin.Proposal, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+proposalColumns+` FROM proposals
		 WHERE ($1::bigint = 0 OR operator_id = $1) AND (NOT $2::boolean OR status = 'open') AND ($4::bigint = 0 OR id < $4)
		 ORDER BY id DESC LIMIT $3`, filter.OperatorID, filter.Open, filter.Limit, filter.Before)
	return Collect(rows, err, readProposal)
}

// refuseProposed refuses a top-up while a proposal with one of the payment's references is open.
func refuseProposed(tx Tx, action admin.StaffAction, paid admin.TopUp, announced announcedPayment) error {
	for _, reference := range []string{paid.Reference, announced.other} {
		if reference == "" {
			continue
		}
		open, found, err := openProposal(tx, admin.Proposal{Kind: admin.ProposedTopUp, OperatorID: paid.OperatorID, Reference: reference})
		if err != nil {
			return err
		}
		if found && open.At(action.At).Status == admin.ProposalOpen {
			return admin.RefuseDuplicateProposal(open)
		}
	}
	return nil
}
