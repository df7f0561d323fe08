package panel

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// jobPage is one bulk renewal, from its check to its results.
type jobPage struct {
	bulk.Check
	After money.Amount // the wallet after the whole job
	Rows  []jobRow
	Only  string // the state by which rows are filtered
	Self  string // this page's URL with its filter
	Pager web.Pager
	Badge string
	Left  int  // rows that are not settled
	Again bool // it is over, and failed rows can be tried again
	// Outdated is why a draft has to be checked again before it can be started, in the visitor's
	// language; Recent counts its customers who were renewed in the last 24 hours.
	Outdated string
	Recent   int
}

// jobRow is a row with the badge of its state.
type jobRow struct {
	bulk.Row
	Badge string
	// Plan is the plan's name, or its id if it is not on sale.
	Plan string
	// Note is the row's result, in the visitor's language.
	Note string
	// Renewed says when the customer was renewed in the last 24 hours, in the visitor's language;
	// Expires is the expiry since then.
	Renewed string
	Expires time.Time
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
	page := jobPage{Check: check, Only: v.Query("only"), Badge: jobBadge(check.Job), Left: check.Job.Progress.Queued + check.Job.Progress.Running}
	base := "/panel/bulk/" + url.PathEscape(check.Job.ID)
	if v.ByHTMX() && check.Job.State == bulk.Finished {
		return v.Redirect(base, nil) // the job has changed state: show its page as a whole
	}
	if page.Again, err = p.Bulk.CanRetry(v.Context(), check.Job); err != nil {
		return err
	}
	why, err := p.Bulk.Outdated(v.Context(), check.Job)
	if err != nil {
		return err
	}
	page.Outdated, _ = bulkRefusal(v, why)
	renewed, err := p.Bulk.RecentlyRenewed(v.Context(), check.Job)
	if err != nil {
		return err
	}
	page.Recent = len(renewed)
	if after := check.Wallet.Sub(check.Job.Progress.Outstanding); !after.IsNegative() {
		page.After = after
	}
	if rowBadges[bulk.RowState(page.Only)] == "" {
		page.Only = ""
	}
	after, _ := strconv.Atoi(v.Query("after"))
	found, err := p.Bulk.Rows(v.Context(), v.Operator(), id, bulk.Page{State: bulk.RowState(page.Only), After: max(0, after), Limit: web.PageRows + 1})
	if err != nil {
		return err
	}
	next := ""
	if len(found) > web.PageRows {
		found = found[:web.PageRows]
		next = strconv.Itoa(found[web.PageRows-1].Number)
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
		row := jobRow{Row: r, Badge: badge, Plan: cmp.Or(names[r.PlanID], r.PlanID), Note: rowNote(v, r)}
		if before, is := renewed[r.Number]; is {
			row.Renewed, row.Expires = v.T(look.Text("Renewed yesterday")), before.Expires
			if report.Day(before.RenewedAt).Equal(report.Day(v.Now)) {
				row.Renewed = v.T(look.Text("Renewed today"))
			}
		}
		page.Rows = append(page.Rows, row)
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

// plansOnSale returns none while prices are not verified.
func (p panel) plansOnSale(v *web.Visit) ([]subscription.Plan, error) {
	plans, err := p.Plans.Plans(v.Context())
	var refused *fault.Error
	if errors.As(err, &refused) {
		return nil, nil
	}
	return plans, err
}

// planNames returns the names of the plans on sale, by id.
func (p panel) planNames(v *web.Visit) (map[string]string, error) {
	plans, err := p.plansOnSale(v)
	names := map[string]string{}
	for _, plan := range plans {
		names[plan.ID] = plan.Name
	}
	return names, err
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
		return v.Redirect("/panel/bulk", v.Info(look.Text("The list was discarded. Nothing was charged.")))
	}
	return v.Redirect("/panel/bulk/"+job.ID, v.Info(look.Text("The remaining rows are cancelled. Rows in progress are completed.")))
}

// tryJobAgain makes a new draft out of the failed rows, or of all rows of a list that was not
// started, to be started like any other.
func (p panel) tryJobAgain(v *web.Visit) error {
	first, err := p.job(v)
	if err != nil {
		return err
	}
	var second bulk.Job
	if first.State == bulk.Draft {
		second, err = p.Bulk.CheckAgain(v.Context(), first, v.Actor())
	} else {
		second, err = p.Bulk.Retry(v.Context(), first.ID, bulk.Order{OperatorID: v.Operator(), Actor: v.Actor(), Title: againTitle(v, first.Title)})
	}
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
	again := v.T(look.Text("Retry: %s"), title)
	if strings.HasPrefix(title, strings.TrimSuffix(again, title)) {
		return title
	}
	return shortened(again)
}

// job reads one of the operator's jobs.
func (p panel) job(v *web.Visit) (bulk.Job, error) {
	job, err := p.Bulk.Job(v.Context(), v.Operator(), v.R.PathValue("id"))
	if errors.Is(err, bulk.ErrNoJob) {
		return job, web.NotFound()
	}
	return job, err
}

// exportJob downloads the result of every row.
func (p panel) exportJob(v *web.Visit) error {
	job, err := p.job(v)
	if err != nil {
		return err
	}
	out, err := beginSheet(v, "bulk-renewal-"+job.ID, look.Text("Bulk renewal"), []sheet.Column{
		{Title: look.Text("Row"), Kind: sheet.Number}, {Title: look.Text("Subscriber")}, {Title: look.Text("Mobile")},
		{Title: look.Text("Customer")}, {Title: look.Text("Plan")}, {Title: look.Text("State")}, {Title: look.Text("Code")},
		{Title: look.Text("Outcome")}, {Title: look.Text("Amount"), Kind: sheet.Rupees}, {Title: look.Text("New expiry"), Kind: sheet.Moment},
		{Title: look.Text("Transaction")}, {Title: look.Text("Can be retried")},
	})
	if err != nil {
		return err
	}
	for r, err := range p.Bulk.Results(v.Context(), v.Operator(), job.ID) {
		if err != nil {
			return err
		}
		var amount any
		var expiry time.Time
		if r.OperationID != "" && !r.NotRenewed() {
			amount, expiry = r.Amount, r.Expiry
		}
		again := ""
		if r.CanRetry() {
			again = v.T(look.Text("Yes"))
		}
		state := rowStates[r.State]
		if waits(job, r) {
			state = look.Text("Awaiting confirmation")
		}
		if err := out.Row(r.Number, r.SubscriberID, r.Mobile, r.CustomerName, r.PlanID, v.T(state), string(r.Code), rowNote(v, r), amount,
			expiry, r.OperationID, again); err != nil {
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
