package console

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// reviewedPage is one operation with its events and provider calls.
type reviewedPage struct {
	admin.OperationHistory
	Href string
	// Latest and Earlier are the provider calls, newest first; Earlier is folded, because
	// there can be many.
	Latest, Earlier []askedCall
	OperatorName    string
	InReview        bool
	Overdue         bool
	// Proposal is the open proposal; nil if there is none.
	Proposal *admin.Proposal
	Own      bool // the visitor's own proposal
	// Barred is why the visitor cannot approve it; empty if they can.
	Barred string
	// Second is why a second person is needed; empty if none is.
	Second                            string
	MaySettle, MayDecide, MayEndAddon bool
	Exceptions                        []exceptionRow
	Timeline                          []timelineStep
	Reversal                          reversalPart

	// The values of a refused form, and the reason.
	Form                    settleForm
	Problem, AddonProblem   string
	DismissProblem          string
	AddonReason, DismissWhy string
}

// Question returns the kind of call in English.
func (p reviewedPage) Question() string { return questionName(string(p.Kind)) }

// AddonCalls counts the provider calls about the add-on.
func (p reviewedPage) AddonCalls() (count int) {
	for _, call := range p.Calls {
		if call.Component == p.Addon {
			count++
		}
	}
	return count
}

// askedCall is a provider call.
type askedCall struct{ admin.OperationCall }

// Question returns the kind of call in English.
func (c askedCall) Question() string { return questionName(c.What) }

type settleForm struct {
	Verdict, Reason string
	Problems        map[string]string
}

// callsShown is the number of calls that are shown unfolded.
const callsShown = 6

func (c console) showReviewed(v *web.Visit) error { return c.reviewed(v, reviewedPage{}) }

// reviewed shows the page; fields of page that are set come from a refused form.
func (c console) reviewed(v *web.Visit, page reviewedPage) error {
	service := c.service(v)
	history, err := service.OperationHistory(v.Context(), v.R.PathValue("id"))
	if err != nil {
		return orNotFound(err)
	}
	names, err := c.operatorNames(v)
	if err != nil {
		return err
	}
	waiting, err := c.openSettlements(v)
	if err != nil {
		return err
	}
	exceptions, err := service.Exceptions(v.Context(), true)
	if err != nil {
		return err
	}
	page.OperationHistory, page.Href, page.OperatorName = history, reviewedAddress(history.ID), names[history.OperatorID]
	for _, call := range slices.Backward(history.Calls) {
		page.Earlier = append(page.Earlier, askedCall{call})
	}
	page.Latest, page.Earlier = page.Earlier[:min(len(page.Earlier), callsShown)], page.Earlier[min(len(page.Earlier), callsShown):]
	page.Timeline = timeline(v, history)
	page.InReview = history.State == operation.NeedsReview
	page.Overdue = page.InReview && v.Now.Sub(history.ReviewSince) >= admin.ReviewDue
	second, err := service.NeedsApproval(v.Context(), history.OperatorID, history.Amount)
	if err != nil {
		return err
	}
	page.Second = whyText(v, second)
	if page.Reversal, err = c.reversalPart(v, history, page.Reversal); err != nil {
		return err
	}
	page.MaySettle, page.MayDecide, page.MayEndAddon = may(v, admin.ReviewSettle), may(v, admin.ProposalApprove), may(v, admin.AddonClose)
	if proposal, there := waiting[history.ID]; there {
		page.Proposal, page.Own = &proposal, proposal.Maker == v.Actor()
		refuse, err := service.Approvable(v.Context())
		if err != nil {
			return err
		}
		page.Barred = barred(v, refuse(proposal))
	}
	for _, entry := range exceptions {
		if entry.TransactionID == history.ID {
			words := exceptionTexts[entry.Kind]
			page.Exceptions = append(page.Exceptions, exceptionRow{ExceptionEntry: entry, Customer: page.CustomerName, Title: words.title, Meaning: words.meaning})
		}
	}
	page.Form.Verdict, page.Form.Reason = v.FormValue("verdict", ""), v.FormValue("reason", "")
	if page.Problem != "" || page.AddonProblem != "" || page.DismissProblem != "" || page.Reversal.Problem != "" || page.Reversal.SettleProblem != "" || len(page.Reversal.Settle.Problems) > 0 || len(page.Form.Problems) > 0 {
		v.Status = http.StatusUnprocessableEntity
	}
	if v.ByHTMX() {
		if !page.InReview && !page.Reversal.Open {
			v.W.Header().Set("Hx-Refresh", "true") // the rest of the page is outdated
		}
		return v.ShowPart("console/review-operation", "outcome", page)
	}
	return v.Show("console/review-operation", page)
}

// The two ways to settle.
const (
	confirmed = "confirmed"
	rejected  = "rejected"
)

func (c console) settle(v *web.Visit) error {
	id, verdict, reason := v.R.PathValue("id"), v.Field("verdict"), v.Field("reason")
	page := reviewedPage{Form: settleForm{Problems: map[string]string{}}}
	if !slices.Contains([]string{confirmed, rejected}, verdict) {
		page.Form.Problems["verdict"] = v.T("Select what the provider did.")
	}
	if reason == "" {
		page.Form.Problems["reason"] = v.T("Enter the evidence: whom you asked, and what they said.")
	}
	if len(page.Form.Problems) > 0 {
		return c.reviewed(v, page)
	}
	outcome, err := c.service(v).SubmitSettlement(lasting(v), id, verdict == confirmed, reason)
	if err != nil {
		return c.refused(v, id, err, func(why string) error { page.Problem = why; return c.reviewed(v, page) })
	}
	if outcome.Waits() {
		return v.Redirect(reviewedAddress(id), v.Info(look.Text("Your proposal needs a second approval. Nothing is settled until then.")))
	}
	return v.Redirect(reviewedAddress(id), c.settled(v, outcome.Operation.State))
}

// settled redirects with a notice about a settlement.
func (c console) settled(v *web.Visit, state operation.State) *look.Notice {
	if state == operation.Success {
		return v.Success(look.Text("Settled: it is charged, and the subscription runs."))
	}
	return v.Success(look.Text("Settled: the money went back to the operator's wallet."))
}

// refused shows why an action was refused. After a double click the operation is settled
// already, which is not shown as an error.
func (c console) refused(v *web.Visit, id string, err error, again func(why string) error) error {
	why := told(v, err)
	if why == "" {
		return err
	}
	history, lookUp := c.service(v).OperationHistory(v.Context(), id)
	if lookUp != nil {
		return orNotFound(lookUp)
	}
	if history.State != operation.NeedsReview {
		return v.Redirect(reviewedAddress(id), v.Info(look.Text("This operation is settled.")))
	}
	return again(why)
}

// settlement returns the proposal in the path, if it is open and about the operation in the
// path.
func (c console) settlement(v *web.Visit) (admin.Proposal, error) {
	id, err := strconv.ParseInt(v.R.PathValue("proposal"), 10, 64)
	if err != nil {
		return admin.Proposal{}, web.NotFound()
	}
	proposal, err := c.service(v).Proposal(v.Context(), id)
	if err != nil {
		return proposal, orNotFound(err)
	}
	if proposal.Kind != admin.ProposedSettlement || proposal.SettlesReversal() || proposal.TransactionID != v.R.PathValue("id") {
		return proposal, web.NotFound()
	}
	return proposal, nil
}

func (c console) approveSettlement(v *web.Visit) error {
	proposal, err := c.settlement(v)
	if err != nil {
		return err
	}
	outcome, err := c.carryOut(v, proposal.ID)
	if err != nil {
		return c.refused(v, proposal.TransactionID, err, func(why string) error { return c.reviewed(v, reviewedPage{DismissProblem: why}) })
	}
	return v.Redirect(reviewedAddress(proposal.TransactionID), c.settled(v, outcome.Operation.State))
}

// dismissSettlement withdraws the visitor's own proposal, or declines another's.
func (c console) dismissSettlement(v *web.Visit) error {
	proposal, err := c.settlement(v)
	if err != nil {
		return err
	}
	dismiss, done := c.service(v).Decline, v.Success(look.Text("The proposal is declined."))
	if proposal.Maker == v.Actor() {
		dismiss, done = c.service(v).Withdraw, v.Success(look.Text("Your proposal is withdrawn."))
	}
	why := v.Field("why")
	if _, err := dismiss(lasting(v), proposal.ID, why); err != nil {
		return c.refused(v, proposal.TransactionID, err, func(problem string) error {
			return c.reviewed(v, reviewedPage{DismissProblem: problem, DismissWhy: why})
		})
	}
	return v.Redirect(reviewedAddress(proposal.TransactionID), done)
}

func (c console) closeAddon(v *web.Visit) error {
	id, reason := v.R.PathValue("id"), v.Field("addon_reason")
	if err := c.service(v).CloseAddon(lasting(v), id, reason); err != nil {
		why := told(v, err)
		if why == "" {
			return err
		}
		return c.reviewed(v, reviewedPage{AddonProblem: why, AddonReason: reason})
	}
	return v.Redirect(reviewedAddress(id), v.Success(look.Text("The add-on is no longer retried.")))
}

func (c console) closeException(v *web.Visit) error {
	id, err := strconv.ParseInt(v.R.PathValue("exception"), 10, 64)
	if err != nil {
		return web.NotFound()
	}
	if err := c.service(v).CloseException(lasting(v), id, v.Field("reason")); err != nil {
		why := told(v, err)
		if why == "" {
			return err
		}
		v.Status = http.StatusUnprocessableEntity
		return c.exceptions(v, id, why)
	}
	return v.Redirect("/console/review/exceptions", v.Success(look.Text("The exception is closed.")))
}
