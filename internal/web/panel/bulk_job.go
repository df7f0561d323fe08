package panel

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// rowsShown is the number of rows on a page.
const rowsShown = 50

// jobPage is one bulk renewal, from its check to its results.
type jobPage struct {
	bulk.Check
	After money.Amount // the wallet after the whole job
	Rows  []jobRow
	Only  string // the state by which rows are filtered
	Self  string // this page's URL with its filter
	Pager web.Pager
	Left  int  // rows that are not settled
	Again bool // it is over, and failed rows can be tried again
}

// jobRow is a row with the badge of its state.
type jobRow struct {
	bulk.Row
	Badge string
	// Plan is the plan's name, or its id if it is not on sale.
	Plan string
	// Note is the row's result, in the visitor's language.
	Note string
}

// rowBadges maps the states of rows to those of badges.
var rowBadges = map[bulk.RowState]string{
	bulk.RowQueued: "queued", bulk.RowRunning: "running", bulk.RowDone: "done",
	bulk.RowRefused: "refused", bulk.RowInReview: "needs_review", bulk.RowCancelled: "cancelled",
}

func (p panel) showJob(v *web.Visit) error {
	id := v.R.PathValue("id")
	check, err := p.Bulk.Check(v.Context(), v.Operator(), id)
	if errors.Is(err, bulk.ErrNoJob) {
		return web.NotFound()
	}
	if err != nil {
		return err
	}
	page := jobPage{Check: check, Only: v.Query("only"), Left: check.Job.Progress.Queued + check.Job.Progress.Running}
	base := "/panel/bulk/" + url.PathEscape(check.Job.ID)
	if v.ByHTMX() && check.Job.State == bulk.Finished {
		return v.Redirect(base, nil) // the job has changed state: show its page as a whole
	}
	if page.Again, err = p.Bulk.CanRetry(v.Context(), check.Job); err != nil {
		return err
	}
	if after := check.Wallet.Sub(check.Job.Progress.Outstanding); !after.IsNegative() {
		page.After = after
	}
	if rowBadges[bulk.RowState(page.Only)] == "" {
		page.Only = ""
	}
	after, _ := strconv.Atoi(v.Query("after"))
	found, err := p.Bulk.Rows(v.Context(), v.Operator(), id, bulk.Page{State: bulk.RowState(page.Only), After: max(0, after), Limit: rowsShown + 1})
	if err != nil {
		return err
	}
	next := ""
	if len(found) > rowsShown {
		found = found[:rowsShown]
		next = strconv.Itoa(found[rowsShown-1].Number)
	}
	page.Pager, page.Self = v.Pager(next), v.R.URL.RequestURI()
	names, err := p.planNames(v)
	if err != nil {
		return err
	}
	for _, r := range found {
		badge := rowBadges[r.State]
		if waits(check.Job, r) {
			badge = "waiting"
		}
		page.Rows = append(page.Rows, jobRow{r, badge, cmp.Or(names[r.PlanID], r.PlanID), rowNote(v, r)})
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/bulk-job", "job", page)
	}
	return v.Show("panel/bulk-job", page)
}

// waits reports whether a row waits until a user continues its job.
func waits(job bulk.Job, r bulk.Row) bool {
	return job.Waits() && (r.State == bulk.RowQueued || r.State == bulk.RowRunning)
}

// planNames returns the names of the plans on sale, by id. While prices are not verified
// nothing is on sale, and the map is empty.
func (p panel) planNames(v *web.Visit) (map[string]string, error) {
	plans, err := p.Plans.Plans(v.Context())
	var refused *fault.Error
	if err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	names := map[string]string{}
	for _, plan := range plans {
		names[plan.ID] = plan.Name
	}
	return names, nil
}

// rowNote returns a row's note beyond its state.
func rowNote(v *web.Visit, r bulk.Row) string {
	if text, known := refusalTexts[r.Code]; known {
		return v.T(text)
	}
	return r.Message
}

func (p panel) startJob(v *web.Visit) error {
	id := v.R.PathValue("id")
	back := "/panel/bulk/" + url.PathEscape(id)
	job, err := p.Bulk.Start(v.Context(), v.Operator(), id)
	if errors.Is(err, bulk.ErrNoJob) {
		return web.NotFound()
	}
	if why, refused := bulkRefusal(v, err); refused {
		return v.Redirect(back, &look.Notice{Kind: "bad", Text: why})
	}
	if err != nil {
		return err
	}
	return v.Redirect("/panel/bulk/"+job.ID, nil)
}

// continueJob continues an interrupted job.
func (p panel) continueJob(v *web.Visit) error {
	id := v.R.PathValue("id")
	job, err := p.Bulk.Continue(v.Context(), v.Operator(), id, v.Actor())
	if errors.Is(err, bulk.ErrNoJob) {
		return web.NotFound()
	}
	if why, refused := bulkRefusal(v, err); refused {
		return v.Redirect("/panel/bulk/"+url.PathEscape(id), &look.Notice{Kind: "bad", Text: why})
	}
	if err != nil {
		return err
	}
	return v.Redirect("/panel/bulk/"+job.ID, nil)
}

func (p panel) cancelJob(v *web.Visit) error {
	job, err := p.Bulk.Cancel(v.Context(), v.Operator(), v.R.PathValue("id"))
	if errors.Is(err, bulk.ErrNoJob) {
		return web.NotFound()
	}
	if err != nil {
		return err
	}
	if job.StartedAt.IsZero() {
		return v.Redirect("/panel/bulk", v.Info(look.Text("The list was put away. Nothing was charged.")))
	}
	return v.Redirect("/panel/bulk/"+job.ID, v.Info(look.Text("What had not begun is cancelled. What had is carried through.")))
}

// tryJobAgain makes a new draft out of the failed rows, to be started like any other.
func (p panel) tryJobAgain(v *web.Visit) error {
	id := v.R.PathValue("id")
	first, err := p.Bulk.Job(v.Context(), v.Operator(), id)
	if errors.Is(err, bulk.ErrNoJob) {
		return web.NotFound()
	}
	if err != nil {
		return err
	}
	second, err := p.Bulk.Retry(v.Context(), first.ID, bulk.Order{OperatorID: v.Operator(), Actor: v.Actor(), Title: againTitle(v, first.Title)})
	if why, refused := bulkRefusal(v, err); refused {
		return v.Redirect("/panel/bulk/"+first.ID, &look.Notice{Kind: "bad", Text: why})
	}
	if err != nil {
		return err
	}
	return v.Redirect("/panel/bulk/"+second.ID, nil)
}

// againTitle is the title of a retry; that of a second retry does not get longer.
func againTitle(v *web.Visit, title string) string {
	again := v.T(look.Text("Again: %s"), title)
	if strings.HasPrefix(title, strings.TrimSuffix(again, title)) {
		return title
	}
	return shortened(again)
}

// exportJob downloads the result of every row.
func (p panel) exportJob(v *web.Visit) error {
	job, err := p.Bulk.Job(v.Context(), v.Operator(), v.R.PathValue("id"))
	if errors.Is(err, bulk.ErrNoJob) {
		return web.NotFound()
	}
	if err != nil {
		return err
	}
	out, err := beginSheet(v, "bulk-renewal-"+job.ID, look.Text("Bulk renewal"), []sheet.Column{
		{Title: look.Text("Row"), Kind: sheet.Number}, {Title: look.Text("Subscriber")}, {Title: look.Text("Mobile")},
		{Title: look.Text("Customer")}, {Title: look.Text("Plan")}, {Title: look.Text("State")}, {Title: look.Text("Code")},
		{Title: look.Text("What came of it")}, {Title: look.Text("Amount"), Kind: sheet.Rupees}, {Title: look.Text("New expiry"), Kind: sheet.Moment},
		{Title: look.Text("Transaction")}, {Title: look.Text("Can be tried again")},
	})
	if err != nil {
		return err
	}
	for r, err := range p.Bulk.Results(v.Context(), v.Operator(), job.ID) {
		if err != nil {
			return err
		}
		var amount any
		if r.OperationID != "" {
			amount = r.Amount
		}
		again := ""
		if r.CanRetry() {
			again = v.T(look.Text("Yes"))
		}
		state := rowStates[r.State]
		if waits(job, r) {
			state = look.Text("Waits for confirmation")
		}
		if err := out.Row(r.Number, r.SubscriberID, r.Mobile, r.CustomerName, r.PlanID, v.T(state), string(r.Code), rowNote(v, r), amount,
			r.Expiry, r.OperationID, again); err != nil {
			return err
		}
	}
	return out.Close()
}

// rowStates are the names of the rows' states.
var rowStates = map[bulk.RowState]string{
	bulk.RowQueued:    look.Text("Queued"),
	bulk.RowRunning:   look.Text("Running"),
	bulk.RowDone:      look.Text("Done"),
	bulk.RowRefused:   look.Text("Refused"),
	bulk.RowInReview:  look.Text("In review"),
	bulk.RowCancelled: look.Text("Cancelled"),
}
