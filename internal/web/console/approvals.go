package console

import (
	"context"
	"net/http"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const (
	approvalsPath = "/console/approvals"
	// proposalRows is how many proposals are listed: those that wait, and the latest
	// that were decided.
	proposalRows = 100
)

func (c console) approvalRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: approvalsPath, Area: web.Console, Who: everyone, Menu: look.Word("Approvals"), Icon: "list-checks", Handle: c.approvals},
		guarded(admin.ProposalApprove, approvalsPath+"/{proposal}/approve", approvalsPath, c.approve),
		act(admin.ProposalDecline, approvalsPath+"/{proposal}/decline", approvalsPath, c.decline),
		act(admin.ProposalWithdraw, approvalsPath+"/{proposal}/withdraw", approvalsPath, c.withdraw),
	}
}

// proposal is a proposal as the visitor sees it.
type proposal struct {
	admin.Proposal
	OperatorName string
	// Own: the visitor made it, and so can withdraw it and not decide it.
	Own bool
	// Why money waits for a second person; empty where that was not asked.
	Why string
	// Plan is what a proposal to set a plan changes; nil for any other.
	Plan *planDifference
	rights
}

// MayApprove reports whether the visitor has the right to what is proposed, and to
// approve it.
func (p proposal) MayApprove() bool {
	return p.May(string(admin.ProposalApprove)) && p.May(string(p.Kind.Action()))
}

// waiting is a proposal that waits, with why, and what it changes.
func (c console) waiting(v *web.Visit, p admin.Proposal, operatorName string) (proposal, error) {
	seen := c.asSeen(v, p, operatorName)
	why, err := c.desk(v).WhySecond(v.Context(), p)
	if err != nil {
		return seen, err
	}
	seen.Why = whyText(v, why)
	if p.Kind == admin.ProposedPlan {
		seen.Plan, err = c.planDifference(v, p)
	}
	return seen, err
}

func (c console) asSeen(v *web.Visit, p admin.Proposal, operatorName string) proposal {
	return proposal{Proposal: p, OperatorName: operatorName, Own: p.Maker == v.Actor(), rights: rightsOf(v)}
}

// Title says what is proposed, in English.
func (p proposal) Title() string {
	switch {
	case p.Kind == admin.ProposedTopUp:
		return look.Word("Top up the wallet")
	case p.Kind == admin.ProposedAdjustment:
		return look.Word("Adjust the wallet")
	case p.Kind == admin.ProposedPlan:
		return look.Word("Make or change a plan")
	case p.Confirm:
		return look.Word("Confirm an operation in review")
	}
	return look.Word("Reject an operation in review")
}

// MakerName and CheckerName are the people behind it.
func (p proposal) MakerName() string   { return who(p.Maker) }
func (p proposal) CheckerName() string { return who(p.Checker) }

// Path is where the proposal's acts are sent to.
func (p proposal) Path() string { return approvalsPath + "/" + number(p.ID) }

// OperatorPath is the page of whose money it is.
func (p proposal) OperatorPath() string { return operatorPath(p.OperatorID) }

type approvalsPage struct {
	Form    *form
	Waiting []proposal
	Decided []proposal
	rights
}

func (c console) approvals(v *web.Visit) error { return c.approvalsPage(v, newForm(v, "")) }

func (c console) approvalsPage(v *web.Visit, f *form) error {
	desk := c.desk(v)
	all, err := desk.Proposals(v.Context(), admin.ProposalFilter{Most: proposalRows})
	if err != nil {
		return err
	}
	names := map[int64]string{}
	data := approvalsPage{Form: f, rights: rightsOf(v)}
	for _, p := range all {
		name, known := names[p.OperatorID]
		if !known && p.OperatorID != 0 {
			operator, err := desk.Operator(v.Context(), p.OperatorID)
			if err != nil {
				return err
			}
			name, names[p.OperatorID] = operator.Name, operator.Name
		}
		if p.Status != admin.ProposalOpen {
			data.Decided = append(data.Decided, c.asSeen(v, p, name))
			continue
		}
		seen, err := c.waiting(v, p, name)
		if err != nil {
			return err
		}
		data.Waiting = append(data.Waiting, seen)
	}
	if !f.ok() {
		return again(v, "console/approvals", data)
	}
	return v.Show("console/approvals", data)
}

func (c console) approve(v *web.Visit) error {
	id, err := pathID(v, "proposal")
	if err != nil {
		return err
	}
	f := newForm(v, "approve")
	if _, err := c.desk(v).Approve(lasting(v), id); err != nil {
		return c.undecided(v, f, err)
	}
	return v.See(approvalsPath, v.Good("Approved, and carried out with that."))
}

func (c console) decline(v *web.Visit) error {
	return c.dismiss(v, "decline", (*admin.Desk).Decline, func() *look.Notice { return v.Good("Declined. Nothing was moved.") })
}

func (c console) withdraw(v *web.Visit) error {
	return c.dismiss(v, "withdraw", (*admin.Desk).Withdraw, func() *look.Notice { return v.Good("Withdrawn. Nothing was moved.") })
}

// undecided shows the list again with the reason why a proposal stays as it was.
func (c console) undecided(v *web.Visit, f *form, err error) error {
	if err := f.refused(err); err != nil {
		return err
	}
	return c.approvalsPage(v, f)
}

// dismiss ends a proposal without carrying it out, for a reason that is kept.
func (c console) dismiss(v *web.Visit, name string, end func(*admin.Desk, context.Context, int64, string) (admin.Proposal, error), done func() *look.Notice) error {
	id, err := pathID(v, "proposal")
	if err != nil {
		return err
	}
	f := newForm(v, name)
	reason := v.Field("reason")
	if reason == "" {
		f.Problem = v.T("Say why: the reason is kept with the proposal.")
		return c.approvalsPage(v, f)
	}
	if _, err := end(c.desk(v), lasting(v), id, reason); err != nil {
		return c.undecided(v, f, err)
	}
	return v.See(approvalsPath, done())
}
