package console

import (
	"net/http"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const reversalsPath = "/console/review/reversals"

// reversalRoutes are the list of reversals and the form that asks for one.
func (c console) reversalRoutes() []web.Route {
	const form = reviewedPath + "{id}"
	return []web.Route{
		{Method: http.MethodGet, Path: reversalsPath, Area: web.Console, Allow: everyone, Handle: c.showReversals},
		guarded(admin.OperationReverse, form+"/reverse", form, c.reverse),
		guarded(admin.ReversalSettle, form+"/reversal", form, c.settleReversal),
	}
}

// reversalsPage is the list of reversals, with a search for the transaction to reverse.
type reversalsPage struct {
	Tabs        reviewTabs
	Rows        []reversalRow
	Pager       web.Pager
	Transaction string
	Problem     string
}

type reversalRow struct {
	operation.Reversal
	OperatorName, Customer string
	// RequestedBy is the name of the person who asked for it, SettledByName of the one who settled it.
	RequestedBy, SettledByName string
	// NeedsPerson: a person can settle it. Overdue: it has been open for long. Proposed: there is an
	// open proposal to settle it.
	NeedsPerson, Overdue, Proposed bool
}

// Href is where the operation's page stands.
func (r reversalRow) Href() string { return reviewedAddress(r.OperationID) }

// reversalRowsOf prepares reversals for the visitor.
func (c console) reversalRowsOf(v *web.Visit, reversals []operation.Reversal) (rows []reversalRow, err error) {
	names, err := c.operatorNames(v)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range reversals {
		ids = append(ids, r.OperationID)
	}
	customers, err := c.service(v).CustomerNames(v.Context(), ids)
	if err != nil {
		return nil, err
	}
	proposals, err := c.openSettlements(v)
	for _, r := range reversals {
		_, proposed := proposals[r.Reference]
		rows = append(rows, reversalRow{
			Reversal: r, OperatorName: names[r.OperatorID], Customer: customers[r.OperationID], RequestedBy: v.Who(r.Actor), SettledByName: v.Who(r.SettledBy), NeedsPerson: c.service(v).NeedsPerson(r),
			Overdue: r.State.Open() && v.Now.Sub(r.RequestedAt) >= admin.ReviewDue, Proposed: proposed,
		})
	}
	return rows, err
}

// openReversals lists the reversals without an outcome, oldest first.
func (c console) openReversals(v *web.Visit) ([]reversalRow, error) {
	open, err := c.service(v).Reversals(v.Context(), admin.ReversalFilter{Open: true, Limit: reversalsRead})
	if err != nil {
		return nil, err
	}
	return c.reversalRowsOf(v, open)
}

func (c console) showReversals(v *web.Visit) error {
	page := reversalsPage{Transaction: v.Query("transaction")}
	if page.Transaction != "" {
		switch id, err := c.transactionOf(v, page.Transaction); {
		case err == nil:
			return v.Redirect(reviewedAddress(id), nil)
		case !refused(err):
			return err
		}
		page.Problem = v.T("There is no transaction with this number. It is on the operator's page of the transaction.")
		v.Status = http.StatusUnprocessableEntity
	}
	var err error
	if page.Tabs, err = c.reviewTabs(v, reversalsPath); err != nil {
		return err
	}
	reversals, err := c.service(v).Reversals(v.Context(), admin.ReversalFilter{After: v.Query("after"), Limit: web.PageRows + 1})
	if err != nil {
		return err
	}
	next := ""
	if len(reversals) > web.PageRows {
		reversals = reversals[:web.PageRows]
		next = reversals[web.PageRows-1].Reference
	}
	page.Pager = v.Pager(next)
	if page.Rows, err = c.reversalRowsOf(v, reversals); err != nil {
		return err
	}
	return v.Show("console/review-reversals", page)
}

// transactionOf returns the id of a transaction that is there, given the id or the reference of its
// reversal.
func (c console) transactionOf(v *web.Visit, text string) (string, error) {
	if operation.IsReversalReference(text) {
		r, err := c.service(v).Reversal(v.Context(), text)
		return r.OperationID, err
	}
	_, err := c.service(v).OperationHistory(v.Context(), text)
	return text, err
}

// reversalPart is what an operation's page says about its reversal.
type reversalPart struct {
	// Shown: the operation is a success, so that it could be reversed.
	Shown bool
	// WhyNot is why it cannot be reversed, in the visitor's language; empty if it can.
	WhyNot string
	// MayReverse: the visitor may ask for it. Proposed: a proposal waits for a second person.
	MayReverse, Proposed bool
	Reversals            []reversalRow
	// Open: the provider is being asked. Waiting is the reversal that a person can settle, because the
	// provider leaves it unknown; nil if there is none. MaySettle: the visitor may.
	Open      bool
	Waiting   *reversalRow
	MaySettle bool
	// Reason and Problem are those of a refused form.
	Reason, Problem string
	// Settle is a refused form that settles a reversal, SettleProblem why it was refused.
	Settle        settleForm
	SettleProblem string
}

func (c console) reversalPart(v *web.Visit, history admin.OperationHistory, part reversalPart) (reversalPart, error) {
	part.Shown, part.MayReverse, part.MaySettle = history.State == operation.Success, may(v, admin.OperationReverse), may(v, admin.ReversalSettle)
	rows, err := c.reversalRowsOf(v, history.Reversals)
	if err != nil {
		return part, err
	}
	part.Reversals = rows
	for i, r := range rows {
		part.Open = part.Open || r.State.Open()
		if r.NeedsPerson {
			part.Waiting = &rows[i]
		}
	}
	if !part.Shown {
		return part, nil
	}
	why, err := c.service(v).WhyNotReversible(v.Context(), history.ID)
	if err != nil {
		return part, err
	}
	if why != nil {
		part.WhyNot = v.T("It cannot be reversed: %s", sentence(v, say(v, why)))
	}
	open, err := c.service(v).Proposals(v.Context(), admin.ProposalFilter{OperatorID: history.OperatorID, Open: true, Limit: openProposalRows})
	for _, p := range open {
		part.Proposed = part.Proposed || p.Kind == admin.ProposedReversal && p.TransactionID == history.ID
	}
	return part, err
}

func (c console) reverse(v *web.Visit) error {
	id, reason := v.R.PathValue("id"), v.Field("reverse_reason")
	page := reviewedPage{Reversal: reversalPart{Reason: reason}}
	if reason == "" {
		page.Reversal.Problem = v.T("Write why it is reversed: who asked for it, and what went wrong.")
		return c.reviewed(v, page)
	}
	switch v.Field("step") {
	case confirmStep:
	case editStep:
		return c.reviewed(v, page)
	default:
		return c.confirmReversal(v, page)
	}
	outcome, err := c.service(v).SubmitReversal(lasting(v), id, reason)
	if err != nil {
		if page.Reversal.Problem = told(v, err); page.Reversal.Problem == "" {
			return err
		}
		return c.reviewed(v, page)
	}
	if outcome.Waits() {
		return v.Redirect(reviewedAddress(id), v.Info(look.Text("The reversal needs a second approval. Nothing changes before that.")))
	}
	return v.Redirect(reviewedAddress(id), v.Info(look.Text("The provider is being asked. The money goes back once it has confirmed.")))
}

// The two ways to settle a reversal.
const (
	undone    = "undone"
	notUndone = "not_undone"
)

// settleReversal records what a person found out about a reversal that the provider leaves unknown.
func (c console) settleReversal(v *web.Visit) error {
	id, reference := v.R.PathValue("id"), v.Field("reference")
	form := settleForm{Verdict: v.Field("undone"), Reason: v.Field("evidence"), Problems: map[string]string{}}
	page := reviewedPage{Reversal: reversalPart{Settle: form}}
	if !slices.Contains([]string{undone, notUndone}, form.Verdict) {
		form.Problems["undone"] = v.T("Select what the provider did.")
	}
	if form.Reason == "" {
		form.Problems["evidence"] = v.T("Enter the evidence: whom you asked, and what they said.")
	}
	if len(form.Problems) > 0 {
		return c.reviewed(v, page)
	}
	outcome, err := c.service(v).SubmitReversalSettlement(lasting(v), reference, form.Verdict == undone, form.Reason)
	if err != nil {
		if page.Reversal.SettleProblem = told(v, err); page.Reversal.SettleProblem == "" {
			return err
		}
		return c.notSettled(v, id, reference, page)
	}
	switch {
	case outcome.Waits():
		return v.Redirect(reviewedAddress(id), v.Info(look.Text("Your proposal needs a second approval. Nothing is settled until then.")))
	case outcome.Reversal.State == operation.Reversed:
		return v.Redirect(reviewedAddress(id), v.Success(look.Text("Settled: it was undone, and the money went back to the operator's wallet.")))
	}
	return v.Redirect(reviewedAddress(id), v.Success(look.Text("Settled: it was not undone, and the operation stays as it is.")))
}

// notSettled shows why a reversal was not settled. After a double click, or if the provider has answered
// meanwhile, it has an outcome, which is not shown as an error.
func (c console) notSettled(v *web.Visit, id, reference string, page reviewedPage) error {
	history, err := c.service(v).OperationHistory(v.Context(), id)
	if err != nil {
		return orNotFound(err)
	}
	for _, r := range history.Reversals {
		if r.Reference == reference && !r.State.Open() {
			return v.Redirect(reviewedAddress(id), v.Info(look.Text("This reversal has an outcome.")))
		}
	}
	return c.reviewed(v, page)
}

// confirmReversalPage asks once more before a reversal is requested.
type confirmReversalPage struct {
	operation.Operation
	Href, OperatorName, Reason string
	// Why says why it will wait for a second person; empty if it will not.
	Why string
}

// confirmReversal shows what a reversal would change. Nothing is requested.
func (c console) confirmReversal(v *web.Visit, page reviewedPage) error {
	service := c.service(v)
	history, err := service.OperationHistory(v.Context(), v.R.PathValue("id"))
	if err != nil {
		return orNotFound(err)
	}
	refusal, err := service.WhyNotReversible(v.Context(), history.ID)
	if err != nil {
		return err
	}
	if refusal != nil {
		page.Reversal.Problem = told(v, refusal)
		return c.reviewed(v, page)
	}
	why, err := service.NeedsApproval(v.Context(), history.OperatorID, history.Amount)
	if err != nil {
		return err
	}
	names, err := c.operatorNames(v)
	if err != nil {
		return err
	}
	return v.Show("console/reversal-confirm", confirmReversalPage{
		Operation: history.Operation, Href: reviewedAddress(history.ID), OperatorName: names[history.OperatorID], Reason: page.Reversal.Reason, Why: whyText(v, why),
	})
}
