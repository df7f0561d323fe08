package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const reviewedPath = "/console/review/operations/"

// reviewRoutes are the pages of operations in review. Settling one moves money.
func (c console) reviewRoutes() []web.Route {
	const area, form = web.Console, reviewedPath + "{id}"
	return []web.Route{
		{Method: http.MethodGet, Path: "/console/review", Area: area, Allow: everyone, Keys: "g r", Menu: look.Text("Review queue"), Icon: "scale", Handle: c.showReviews},
		{Method: http.MethodGet, Path: "/console/review/addons", Area: area, Allow: everyone, Handle: c.showAddons},
		{Method: http.MethodGet, Path: "/console/review/exceptions", Area: area, Allow: everyone, Handle: c.showExceptions},
		{Method: http.MethodPost, Path: "/console/review/exceptions/{exception}/close", Area: area, Allow: whoMay(admin.ExceptionClose), Form: "/console/review/exceptions", Handle: c.closeException},
		{Method: http.MethodGet, Path: form, Area: area, Allow: everyone, Handle: c.showReviewed},
		{Method: http.MethodPost, Path: form + "/settle", Area: area, Allow: whoMay(admin.ReviewSettle), StepUp: true, Form: form, Handle: c.settle},
		{Method: http.MethodPost, Path: form + "/proposals/{proposal}/approve", Area: area, Allow: whoMay(admin.ProposalApprove), StepUp: true, Form: form, Handle: c.approveSettlement},
		{Method: http.MethodPost, Path: form + "/proposals/{proposal}/dismiss", Area: area, Allow: whoMay(admin.ProposalDecline), Form: form, Handle: c.dismissSettlement},
		{Method: http.MethodPost, Path: form + "/addon", Area: area, Allow: whoMay(admin.AddonClose), Form: form, Handle: c.closeAddon},
	}
}

// may reports whether the visitor may do an action, so that no page offers what would be
// refused.
func may(v *web.Visit, action admin.Action) bool { return rightsOf(v).May(string(action)) }

// reviewedAddress returns the URL of an operation's page.
func reviewedAddress(id string) string { return reviewedPath + url.PathEscape(id) }

// reversalsRead is how many reversals are read where all open ones or those of a month are needed.
const reversalsRead = 500

// reviewTabs are the counts beside the three lists.
type reviewTabs struct {
	Here                         string
	Reviews, Addons, Exceptions  int
	Reversals                    int
	Overdue, NeedPerson, Waiting int
}

type reviewPage struct {
	Tabs reviewTabs
	Rows []reviewRow
	// Self is this page's URL, from which it is refreshed.
	Self  string
	Pager web.Pager
	// Reversals are those without an outcome, oldest first; More are not shown.
	Reversals []reversalRow
	More      bool
}

// reviewRow is an operation in review.
type reviewRow struct {
	report.Review
	Overdue bool
	// Proposed: there is an open proposal to settle it.
	Proposed bool
}

// Href is where the operation's page stands.
func (r reviewRow) Href() string { return reviewedAddress(r.ID) }

func (c console) showReviews(v *web.Visit) error {
	tabs, err := c.reviewTabs(v, "/console/review")
	if err != nil {
		return err
	}
	found, err := c.Reports.Reviews(v.Context(), v.Query("after"), web.PageRows)
	if errors.Is(err, report.ErrCursor) {
		return web.NotFound()
	}
	if err != nil {
		return err
	}
	proposals, err := c.openSettlements(v)
	if err != nil {
		return err
	}
	page := reviewPage{Tabs: tabs, Self: v.R.URL.RequestURI(), Pager: v.Pager(found.Next)}
	if page.Reversals, err = c.openReversals(v); err != nil {
		return err
	}
	if page.More = len(page.Reversals) > web.PageRows; page.More {
		page.Reversals = page.Reversals[:web.PageRows]
	}
	for _, review := range found.Rows {
		_, proposed := proposals[review.ID]
		page.Rows = append(page.Rows, reviewRow{Review: review, Overdue: review.Overdue(v.Now), Proposed: proposed})
	}
	if v.ByHTMX() {
		return v.ShowPart("console/review", "queue", page)
	}
	return v.Show("console/review", page)
}

// reviewTabs returns the counts.
func (c console) reviewTabs(v *web.Visit, here string) (tabs reviewTabs, err error) {
	totals, err := c.Reports.Totals(v.Context())
	if err != nil {
		return tabs, err
	}
	overdue, err := c.service(v).OverdueReviews(v.Context(), v.Now)
	if err != nil {
		return tabs, err
	}
	reversals, err := c.service(v).Reversals(v.Context(), admin.ReversalFilter{Open: true, Limit: reversalsRead})
	if err != nil {
		return tabs, err
	}
	waiting, err := c.openSettlements(v)
	return reviewTabs{
		Here: here, Reviews: totals.InReview, Addons: totals.MissingAddons, Exceptions: totals.OpenExceptions,
		Reversals: len(reversals), Overdue: len(overdue), NeedPerson: totals.NeedPerson, Waiting: len(waiting),
	}, err
}

// openSettlements returns the open proposals to settle, by operation or reversal.
func (c console) openSettlements(v *web.Visit) (map[string]admin.Proposal, error) {
	open, err := c.service(v).Proposals(v.Context(), admin.ProposalFilter{Open: true, Limit: 1000})
	found := map[string]admin.Proposal{}
	for _, proposal := range open {
		if proposal.Kind == admin.ProposedSettlement {
			found[proposal.TransactionID] = proposal
		}
	}
	return found, err
}

type addonsPage struct {
	Tabs  reviewTabs
	Rows  []addonRow
	Pager web.Pager
}

type addonRow struct {
	operation.Operation
	OperatorName string
	// Calls is how often the provider was called about the add-on.
	Calls int
}

// Href is where the operation's page stands.
func (r addonRow) Href() string { return reviewedAddress(r.ID) }

func (c console) showAddons(v *web.Visit) error {
	tabs, err := c.reviewTabs(v, "/console/review/addons")
	if err != nil {
		return err
	}
	missing, err := c.service(v).MissingAddons(v.Context())
	if err != nil {
		return err
	}
	names, err := c.operatorNames(v)
	if err != nil {
		return err
	}
	page := addonsPage{Tabs: tabs}
	page.Tabs.Addons = len(missing)
	missing, page.Pager = web.PageOf(v, v.R.URL.Path, missing, -1)
	var ids []string
	for _, op := range missing {
		ids = append(ids, op.ID)
	}
	calls, err := c.service(v).AddonCalls(v.Context(), ids)
	if err != nil {
		return err
	}
	for _, op := range missing {
		page.Rows = append(page.Rows, addonRow{op, names[op.OperatorID], calls[op.ID]})
	}
	return v.Show("console/review-addons", page)
}

// operatorNames returns the operators' names by id.
func (c console) operatorNames(v *web.Visit) (map[int64]string, error) {
	operators, err := c.service(v).Operators(v.Context())
	names := map[int64]string{}
	for _, operator := range operators {
		names[operator.ID] = operator.Name
	}
	return names, err
}

type exceptionsPage struct {
	Tabs   reviewTabs
	Rows   []exceptionRow
	Pager  web.Pager
	Closed bool
	MayEnd bool
	// Refused: a form of one of the rows was refused, which a phone must not fold away.
	Refused bool
}

type exceptionRow struct {
	admin.ExceptionEntry
	Customer       string
	Title, Meaning string
	// Reason and Problem are those of a refused form.
	Reason, Problem string
}

// Href is where the operation's page stands.
func (r exceptionRow) Href() string { return reviewedAddress(r.TransactionID) }

// exceptionTexts say what happened, and what staff has to decide.
var exceptionTexts = map[operation.ExceptionKind]struct{ title, meaning string }{
	operation.LateSuccess: {
		look.Text("Late success"),
		look.Text("It was refunded, but then the provider said that it had carried it out. The subscriber has a plan that nobody paid for: have it reversed, or charge it."),
	},
	operation.RejectedAfterSuccess: {
		look.Text("Rejected after success"),
		look.Text("It was charged, but the provider says that it never carried it out. Ask the provider, then refund it or have it carried out."),
	},
	operation.DuplicateEffect: {
		look.Text("Carried out twice"),
		look.Text("The provider reports two transactions for one operation. Ask it to reverse one of them."),
	},
	operation.AddonContradiction: {
		look.Text("Conflicting add-on replies"),
		look.Text("The provider's replies about the add-on conflict: it was closed as missing and then delivered, or both confirmed and rejected. Ask the provider what the subscriber has."),
	},
	operation.VoidUnanswered: {
		look.Text("Void not answered"),
		look.Text("Staff refunded it, and the provider never confirmed that it will not carry it out. Ask the provider whether it did."),
	},
	operation.ReversalContradiction: {
		look.Text("Reversal contradicted"),
		look.Text("The provider's reply to a reversal came after it was settled, and says the opposite. Ask the provider what the subscriber has, and correct the wallet."),
	},
	operation.WrongAnswer: {
		look.Text("Wrong answer"),
		look.Text("The provider's response does not match the request. Ask it what it did."),
	},
}

func (c console) showExceptions(v *web.Visit) error {
	return c.exceptions(v, 0, "")
}

// exceptions shows the list, one of them with a refused form.
func (c console) exceptions(v *web.Visit, refused int64, problem string) error {
	tabs, err := c.reviewTabs(v, "/console/review/exceptions")
	if err != nil {
		return err
	}
	page := exceptionsPage{Tabs: tabs, Closed: v.Query("closed") == "yes", MayEnd: may(v, admin.ExceptionClose)}
	entries, err := c.service(v).Exceptions(v.Context(), page.Closed)
	if err != nil {
		return err
	}
	var ids []string
	for _, entry := range entries {
		ids = append(ids, entry.TransactionID)
	}
	customers, err := c.service(v).CustomerNames(v.Context(), ids)
	if err != nil {
		return err
	}
	page.Tabs.Exceptions = 0
	for _, entry := range entries {
		if entry.ClosedAt.IsZero() {
			page.Tabs.Exceptions++
		}
	}
	must := slices.IndexFunc(entries, func(e admin.ExceptionEntry) bool { return e.ID == refused })
	page.Refused = must >= 0
	entries, page.Pager = web.PageOf(v, "/console/review/exceptions", entries, must)
	for _, entry := range entries {
		words := exceptionTexts[entry.Kind]
		row := exceptionRow{ExceptionEntry: entry, Customer: customers[entry.TransactionID], Title: words.title, Meaning: words.meaning}
		if entry.ID == refused {
			row.Reason, row.Problem = v.FormValue("reason", ""), problem
		}
		page.Rows = append(page.Rows, row)
	}
	return v.Show("console/review-exceptions", page)
}
