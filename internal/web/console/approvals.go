package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const (
	approvalsPath = "/console/approvals"
	// proposalRows are read at once, openProposalRows limit the list of open proposals.
	proposalRows     = 100
	openProposalRows = 1000
)

func (c console) approvalRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: approvalsPath, Area: web.Console, Allow: everyone, Keys: "g a", Menu: look.Text("Approvals"), Icon: "list-checks", Handle: c.approvals},
		guarded(admin.ProposalApprove, approvalsPath+"/{proposal}/approve", approvalsPath, c.approve),
		actionRoute(admin.ProposalDecline, approvalsPath+"/{proposal}/decline", approvalsPath, c.decline),
		actionRoute(admin.ProposalWithdraw, approvalsPath+"/{proposal}/withdraw", approvalsPath, c.withdraw),
	}
}

// proposal is a proposal as the visitor sees it.
type proposal struct {
	admin.Proposal
	// OperatorName is empty if the proposal concerns no operator.
	OperatorName string
	// Own: the visitor made it, so they can withdraw it but not decide it.
	Own bool
	// Why is why the amount needs a second person; empty if no money moves or the proposal
	// was decided.
	Why string
	// Barred is why the visitor cannot approve it, in their language; empty if they can.
	Barred string
	// Plan is the change of an open proposal to set a plan, Login that of a proposal about a
	// login; nil for others.
	Plan  *planDifference
	Login *admin.LoginProposal
	named func(actor string) string
	rights
}

// seer returns a function that prepares proposals for the visitor, given the operators'
// names.
func (c console) seer(v *web.Visit) (func(p admin.Proposal, operatorName string) (proposal, error), error) {
	refuse, err := c.service(v).Approvable(v.Context())
	return func(p admin.Proposal, operatorName string) (seen proposal, err error) {
		seen = proposal{Proposal: p, OperatorName: operatorName, Own: p.Maker == v.Actor(), named: v.Who, rights: rightsOf(v)}
		if p.AboutLogin() {
			_, wanted, err := p.Login()
			if err != nil {
				return seen, err
			}
			seen.Login = &wanted
		}
		if p.Status != admin.ProposalOpen {
			return seen, nil
		}
		seen.Barred = barred(v, refuse(p))
		why, err := c.service(v).WhyApprovalNeeded(v.Context(), p)
		if err != nil {
			return seen, err
		}
		seen.Why = whyText(v, why)
		if p.Kind == admin.ProposedPlan {
			seen.Plan, err = c.planDifference(v, p)
		}
		return seen, err
	}, err
}

// barred returns a refusal to approve, in the visitor's language.
func barred(v *web.Visit, err error) string {
	var refusal *admin.Refusal
	if !errors.As(err, &refusal) {
		return ""
	}
	return v.T("You cannot approve this: %s", sentence(v, say(v, refusal)))
}

// Title returns the proposal's title in English.
func (p proposal) Title() string {
	switch {
	case p.Kind == admin.ProposedTopUp:
		return look.Text("Top up the wallet")
	case p.Kind == admin.ProposedAdjustment:
		return look.Text("Adjust the wallet")
	case p.SettlesReversal() && p.Confirm:
		return look.Text("Settle a reversal: undone")
	case p.SettlesReversal():
		return look.Text("Settle a reversal: not undone")
	case p.Kind == admin.ProposedReversal:
		return look.Text("Reverse an operation")
	case p.Kind == admin.ProposedPlan:
		return look.Text("Create or change a plan")
	case p.Kind == admin.ProposedLogin:
		return look.Text("Create a login")
	case p.Kind == admin.ProposedRole:
		return look.Text("Change a login's role")
	case p.Kind == admin.ProposedPassword:
		return look.Text("Reset a login's password")
	case p.Kind == admin.ProposedTOTP:
		return look.Text("Remove a login's second factor")
	case p.Confirm:
		return look.Text("Confirm an operation in review")
	}
	return look.Text("Reject an operation in review")
}

// MakerName and CheckerName return the names of maker and checker.
func (p proposal) MakerName() string   { return p.named(p.Maker) }
func (p proposal) CheckerName() string { return p.named(p.Checker) }

// MovesMoney reports whether there is an amount to show.
func (p proposal) MovesMoney() bool { return p.Subject == "" }

// RoleName and FromName return a login's proposed and present role, in English.
func (p proposal) RoleName() string { return web.RoleName(p.Login.Role) }
func (p proposal) FromName() string { return web.RoleName(p.Login.From) }

// About returns the operator whose money moves, the login, or else the changed object.
func (p proposal) About() string {
	switch {
	case p.Login != nil:
		return p.Login.Username
	case p.OperatorName != "":
		return p.OperatorName
	}
	return p.Subject
}

// Path returns the URL for the proposal's forms.
func (p proposal) Path() string { return approvalsPath + "/" + number(p.ID) }

// TransactionPath returns the page of the transaction that is settled or reversed.
func (p proposal) TransactionPath() string {
	if p.SettlesReversal() {
		return reversalsPath + "?transaction=" + url.QueryEscape(p.TransactionID)
	}
	return reviewedAddress(p.TransactionID)
}

// OperatorPath returns the page of the operator.
func (p proposal) OperatorPath() string { return operatorPath(p.OperatorID) }

type approvalsPage struct {
	Form    *form
	Waiting []proposal
	Decided []proposal
	Pager   web.Pager // of those decided
	second
	rights
}

func (c console) approvals(v *web.Visit) error { return c.approvalsPage(v, newForm(v, "")) }

func (c console) approvalsPage(v *web.Visit, f *form) error {
	service := c.service(v)
	// Open proposals are listed apart, so that decided ones do not push them off the page.
	open, err := service.Proposals(v.Context(), admin.ProposalFilter{Open: true, Limit: openProposalRows})
	if err != nil {
		return err
	}
	data := approvalsPage{Form: f, rights: rightsOf(v)}
	decided, err := c.decided(v, &data)
	if err != nil {
		return err
	}
	all := slices.Concat(open, decided)
	if data.second, err = c.second(v); err != nil {
		return err
	}
	seen, err := c.seen(v, all)
	if err != nil {
		return err
	}
	for _, p := range seen {
		if p.Status == admin.ProposalOpen {
			data.Waiting = append(data.Waiting, p)
		} else {
			data.Decided = append(data.Decided, p)
		}
	}
	if !f.ok() {
		return again(v, "console/approvals", data)
	}
	return v.Show("console/approvals", data)
}

// decided reads a page of the proposals that are not open any more, latest first.
func (c console) decided(v *web.Visit, data *approvalsPage) (found []admin.Proposal, err error) {
	filter := admin.ProposalFilter{Limit: proposalRows}
	filter.Before, _ = strconv.ParseInt(v.Query("after"), 10, 64)
	for len(found) <= web.PageRows {
		latest, err := c.service(v).Proposals(v.Context(), filter)
		if err != nil {
			return nil, err
		}
		for _, p := range latest {
			if filter.Before = p.ID; p.Status != admin.ProposalOpen {
				found = append(found, p)
			}
		}
		if len(latest) < filter.Limit {
			break
		}
	}
	next := ""
	if len(found) > web.PageRows {
		found = found[:web.PageRows]
		next = number(found[web.PageRows-1].ID)
	}
	data.Pager = v.PagerOf(approvalsPath, next).At("decided")
	return found, nil
}

// seen prepares proposals for the visitor.
func (c console) seen(v *web.Visit, all []admin.Proposal) ([]proposal, error) {
	see, err := c.seer(v)
	if err != nil {
		return nil, err
	}
	names, list := map[int64]string{0: ""}, []proposal{}
	for _, p := range all {
		name, known := names[p.OperatorID]
		if !known {
			operator, err := c.service(v).Operator(v.Context(), p.OperatorID)
			if err != nil {
				return nil, err
			}
			name, names[p.OperatorID] = operator.Name, operator.Name
		}
		one, err := see(p, name)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// second says whether there is a second administrator who could approve, for pages that
// need one.
type second struct {
	// NoSecond: the visitor is an administrator, and no other one can approve their
	// proposals.
	NoSecond bool
	// FinanceApproves: somebody in finance can approve the visitor's amounts.
	FinanceApproves bool
	// Above is the amount above which a second person is needed.
	Above money.Amount
}

func (c console) second(v *web.Visit) (second, error) {
	if v.Session.Person.Role != login.Administrator {
		return second{}, nil
	}
	there, err := c.service(v).HasApprover(v.Context(), 0)
	if err != nil {
		return second{}, err
	}
	finance, err := c.service(v).HasFinanceApprover(v.Context())
	return second{NoSecond: !there, FinanceApproves: finance, Above: c.Limits.ApprovalAbove}, err
}

func (c console) approve(v *web.Visit) error {
	id, err := pathID(v, "proposal")
	if err != nil {
		return err
	}
	f := newForm(v, "approve")
	outcome, err := c.carryOut(v, id)
	if err != nil {
		return c.undecided(v, f, err)
	}
	if outcome.Password != "" {
		return v.Show("console/password", passwordPage{Login: shownLogin{outcome.Person}, Password: outcome.Password, Back: approvalsPath})
	}
	return v.Redirect(approvalsPath, v.Success("Approved and carried out."))
}

// carryOut approves a proposal. A refusal is written to the security log, because the login
// may be under the control of the proposal's maker.
func (c console) carryOut(v *web.Visit, id int64) (admin.ActionResult, error) {
	outcome, err := c.service(v).Approve(lasting(v), id)
	if refusal := (*admin.Refusal)(nil); errors.As(err, &refusal) {
		v.LogRefused("approval_refused", formVerb.ReplaceAllString(refusal.Form, "…"), fmt.Sprintf("proposal %d", id))
	}
	return outcome, err
}

// formVerb matches the verbs of a refusal, whose arguments may be user input.
var formVerb = regexp.MustCompile(`%[a-z]`)

func (c console) decline(v *web.Visit) error {
	return c.dismiss(v, "decline", (*admin.Service).Decline, func() *look.Notice { return v.Success("Declined. Nothing was changed.") })
}

func (c console) withdraw(v *web.Visit) error {
	return c.dismiss(v, "withdraw", (*admin.Service).Withdraw, func() *look.Notice { return v.Success("Withdrawn. Nothing was changed.") })
}

// undecided shows the list again with the reason why a proposal was not decided.
func (c console) undecided(v *web.Visit, f *form, err error) error {
	if err := f.refused(err); err != nil {
		return err
	}
	return c.approvalsPage(v, f)
}

// dismiss withdraws or declines a proposal, with a reason that is recorded.
func (c console) dismiss(v *web.Visit, name string, end func(*admin.Service, context.Context, int64, string) (admin.Proposal, error), done func() *look.Notice) error {
	id, err := pathID(v, "proposal")
	if err != nil {
		return err
	}
	f := newForm(v, name)
	reason := v.Field("reason")
	if reason == "" {
		f.Problem = v.T("Enter a reason: it is stored with the proposal.")
		return c.approvalsPage(v, f)
	}
	if _, err := end(c.service(v), lasting(v), id, reason); err != nil {
		return c.undecided(v, f, err)
	}
	return v.Redirect(approvalsPath, done())
}
