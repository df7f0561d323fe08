package panel

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// bulkRoutes are the pages of bulk renewals: a list is checked, reviewed by the user, and
// then started.
func (p panel) bulkRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: "/panel/bulk", Area: web.Panel, Allow: everyone, Keys: "g b", Menu: look.Text("Bulk renewal"), Icon: "list-checks", Handle: p.showBulk},
		{Method: http.MethodPost, Path: "/panel/bulk", Area: web.Panel, Allow: counters, Upload: 2 * bulk.MaxFile, Handle: p.checkBulk},
		{Method: http.MethodGet, Path: "/panel/bulk/{id}", Area: web.Panel, Allow: everyone, Handle: p.showJob},
		{Method: http.MethodPost, Path: "/panel/bulk/{id}/start", Area: web.Panel, Allow: counters, Form: "/panel/bulk/{id}", Handle: p.startJob},
		{Method: http.MethodPost, Path: "/panel/bulk/{id}/continue", Area: web.Panel, Allow: counters, Form: "/panel/bulk/{id}", Handle: p.continueJob},
		{Method: http.MethodPost, Path: "/panel/bulk/{id}/cancel", Area: web.Panel, Allow: counters, Form: "/panel/bulk/{id}", Handle: p.cancelJob},
		{Method: http.MethodPost, Path: "/panel/bulk/{id}/again", Area: web.Panel, Allow: counters, Form: "/panel/bulk/{id}", Handle: p.tryJobAgain},
		{Method: http.MethodGet, Path: "/panel/bulk/{id}/csv", Area: web.Panel, Allow: everyone, Handle: p.exportJob},
		{Method: http.MethodGet, Path: "/panel/bulk/{id}/xlsx", Area: web.Panel, Allow: everyone, Handle: p.exportJob},
	}
}

const (
	// draftsShown is how many drafts are listed: they live for an hour.
	draftsShown = 30
	// offered is the number of subscribers that the expiry list offers at once. A file may
	// have more.
	offered = 500
)

// bulkPage is the page that starts a bulk renewal.
type bulkPage struct {
	// Within is the chosen expiry list: 3, 7 or 15 days, or "expired"; empty for none.
	Within string
	// Offer has the subscribers in two parts: on a phone the second one is folded away, with
	// its ticks. Offered counts both.
	Offer   [2][]offer
	Offered int
	// InProgress and WithoutPlan count who of the list is left out: another operation is open, or
	// there never was a plan.
	InProgress, WithoutPlan int
	Wallet                  money.Amount // what the chosen ones can cost
	More                    bool         // the list has more subscribers than are offered
	None                    bool         // no subscriber is preselected
	Kind                    string
	Drafts                  []bulk.Job // that were checked and not started
	Jobs                    []jobEntry
	Pager                   web.Pager // of the jobs

	Once     string        // the voucher of the form
	Problem  string        // in the visitor's language
	Problems []fileProblem // of a file
}

// jobEntry is one job of the list with the badge of its state.
type jobEntry struct {
	bulk.Job
	Badge string
}

// jobBadge is the badge of a job's state; that of a finished job says how it went.
func jobBadge(job bulk.Job) string {
	p := job.Progress
	switch {
	case !job.CancelledAt.IsZero():
		return "cancelled"
	case job.Waits():
		return "waiting"
	case job.State != bulk.Finished:
		return string(job.State)
	case p.InReview > 0:
		return "needs_review"
	case p.Done == 0:
		return "none_done"
	case p.Done < p.Rows:
		return "part_done"
	}
	return "finished"
}

// offer is one subscriber of the expiry list.
type offer struct {
	report.Subscriber
	Chosen bool
}

// fileProblem is something wrong with a file.
type fileProblem struct {
	Line         int
	Column, Text string
}

// expiryLists are the lists that a bulk renewal can begin from.
var expiryLists = map[string]report.SubscriberFilter{
	"3":       {Status: report.Expiring, Within: 3, Limit: offered},
	"7":       {Status: report.Expiring, Within: 7, Limit: offered},
	"15":      {Status: report.Expiring, Within: 15, Limit: offered},
	"expired": {Status: report.Expired, Descending: true, Limit: offered},
}

func (p panel) showBulk(v *web.Visit) error {
	page := bulkPage{Within: v.Query("within"), Kind: v.Query("kind"), None: v.Query("choose") == "none"}
	var chosen map[string]bool
	if page.None {
		chosen = map[string]bool{}
	}
	return p.bulkForm(v, page, chosen)
}

// bulkForm shows the page with the form and the chosen subscribers; nil means all of the
// list.
func (p panel) bulkForm(v *web.Visit, page bulkPage, chosen map[string]bool) error {
	if filter, known := expiryLists[page.Within]; known {
		found, err := p.Report.Subscribers(v.Context(), v.Operator(), filter)
		if err != nil {
			return err
		}
		for _, s := range found.Rows {
			switch {
			case s.Open != "":
				page.InProgress++
			case s.PlanID == "":
				page.WithoutPlan++
			default:
				part := min(page.Offered/web.PageRows, 1)
				page.Offer[part] = append(page.Offer[part], offer{s, chosen == nil || chosen[s.ID]})
				page.Offered++
			}
		}
		page.More = found.Next != ""
		if page.Wallet, err = p.Bulk.Wallet(v.Context(), v.Operator()); err != nil {
			return err
		}
	} else {
		page.Within = ""
	}
	if page.Once == "" {
		page.Once = web.NewVoucher()
	}
	var err error
	if page.Drafts, err = p.Bulk.Drafts(v.Context(), v.Operator(), draftsShown); err != nil {
		return err
	}
	var before time.Time
	if after, err := strconv.ParseInt(v.Query("after"), 10, 64); err == nil {
		before = time.UnixMilli(after)
	}
	jobs, err := p.Bulk.Jobs(v.Context(), v.Operator(), before, web.PageRows+1)
	if err != nil {
		return err
	}
	next := ""
	if len(jobs) > web.PageRows {
		jobs = jobs[:web.PageRows]
		next = strconv.FormatInt(jobs[web.PageRows-1].StartedAt.UnixMilli(), 10)
	}
	page.Pager = v.PagerOf("/panel/bulk", next).At("jobs")
	for _, job := range jobs {
		page.Jobs = append(page.Jobs, jobEntry{job, jobBadge(job)})
	}
	return v.Show("panel/bulk", page)
}

// checkBulk checks a list and saves it as a draft. It charges nothing.
func (p panel) checkBulk(v *web.Visit) error {
	page := bulkPage{Within: v.Field("within"), Kind: v.Field("kind")}
	order := bulk.Order{OperatorID: v.Operator(), Actor: v.Actor(), Kind: operation.Renew}
	if voucher, brought := v.Voucher(); brought {
		order.Voucher, page.Once = voucher, voucher
	}
	if page.Kind == string(operation.AdvanceRenew) {
		order.Kind = operation.AdvanceRenew
	}
	var chosen map[string]bool
	var notice *look.Notice
	if page.Within != "" {
		ids := v.R.PostForm["subscriber"]
		chosen = map[string]bool{}
		for _, id := range ids {
			chosen[id] = true
		}
		order.Title, order.Selections = p.listTitle(v, page.Within), bulk.SelectSubscribers(ids)
	} else {
		list, title, err := p.uploaded(v)
		var wrong *bulk.FileError
		switch {
		case errors.As(err, &wrong):
			for _, problem := range wrong.Problems {
				page.Problems = append(page.Problems, fileProblem{problem.Line, problem.Column, v.T(problem.Form, problem.Args...)})
			}
			v.Status = http.StatusUnprocessableEntity
			return p.bulkForm(v, page, nil)
		case err != nil:
			return err
		case title == "":
			page.Problem = v.T(look.Text("Choose a file first."))
			v.Status = http.StatusUnprocessableEntity
			return p.bulkForm(v, page, nil)
		}
		order.Title, order.Selections, notice = title, list.Selections, ignoredNotice(v, list)
	}
	job, err := p.Bulk.Prepare(v.Context(), order)
	if why, refused := bulkRefusal(v, err); refused {
		page.Problem = why
		v.Status = http.StatusUnprocessableEntity
		return p.bulkForm(v, page, chosen)
	}
	if err != nil {
		return err
	}
	return v.Redirect("/panel/bulk/"+job.ID, notice)
}

// ignoredNotice names what of a file is not used; nil if all is.
func ignoredNotice(v *web.Visit, list bulk.List) *look.Notice {
	var texts []string
	if len(list.Ignored) > 0 {
		texts = append(texts, v.T(look.Text("These columns of the file are not used: %s."), enumeration(list.Ignored)))
	}
	if len(list.Beyond) > 0 {
		lines := make([]string, len(list.Beyond))
		for i, line := range list.Beyond {
			lines[i] = strconv.Itoa(line)
		}
		texts = append(texts, v.T(look.Text("What stands beyond the last title is not used. It is on line: %s."), enumeration(lines)))
	}
	if len(texts) == 0 {
		return nil
	}
	return &look.Notice{Kind: "info", Text: strings.Join(texts, " ")}
}

// enumeration joins names, and cuts what is too long for the cookie that carries a notice.
func enumeration(names []string) string {
	const longest = 200
	all := []rune(strings.Join(names, ", "))
	if len(all) > longest {
		all = append(all[:longest], '…')
	}
	return string(all)
}

// listTitle returns the title of a job made from an expiry list.
func (p panel) listTitle(v *web.Visit, within string) string {
	if within == "expired" {
		return v.T(look.Text("Expired"))
	}
	days, _ := strconv.Atoi(within)
	return v.T(look.Text("Expiring within %d days"), days)
}

// uploaded reads the file of a form; the title is empty if there is none.
func (p panel) uploaded(v *web.Visit) (list bulk.List, title string, err error) {
	file, header, err := v.R.FormFile("file")
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) {
		return bulk.List{}, "", nil
	}
	if err != nil {
		return bulk.List{}, "", err
	}
	defer func() { _ = file.Close() }()
	plans, err := p.plansOnSale(v)
	if err != nil {
		return bulk.List{}, "", err
	}
	list, err = bulk.ReadFile(file, plans)
	return list, shortened(header.Filename), err
}

// shortened cuts a file's name to the length limit of a title.
func shortened(name string) string {
	const longest = 80
	letters := []rune(name)
	if len(letters) == 0 {
		return "CSV"
	}
	return string(letters[:min(len(letters), longest)])
}

// bulkRefusal returns the reason of a refusal in the visitor's language; refused is false
// for any other error.
func bulkRefusal(v *web.Visit, err error) (why string, refused bool) {
	var no *bulk.Refusal
	if errors.As(err, &no) {
		return v.T(no.Form, no.Args...), true
	}
	return "", false
}
