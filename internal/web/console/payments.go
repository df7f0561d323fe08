package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const (
	paymentsPath   = "/console/payments"
	statementsPath = paymentsPath + "/statements"
	statementPath  = statementsPath + "/{id}"
	// statementsShown is how many uploaded statements are listed.
	statementsShown = 10
)

// paymentRoutes are the pages of money that comes in: announced payments, bank statements, and
// the top-ups that follow.
func (c console) paymentRoutes() []web.Route {
	upload := func(path string, handle func(*web.Visit) error) web.Route {
		route := actionRoute(admin.StatementImport, path, paymentsPath, handle)
		route.Upload = maxStatementForm
		return route
	}
	get := func(path string, handle func(*web.Visit) error) web.Route {
		return web.Route{Method: http.MethodGet, Path: path, Area: web.Console, Allow: everyone, Handle: handle}
	}
	menu := get(paymentsPath, c.payments)
	menu.Menu, menu.Icon, menu.Keys = look.Text("Money in"), "indian-rupee", "g i"
	return []web.Route{
		menu,
		get(paymentsPath+"/{id}", c.showAnnouncement),
		actionRoute(admin.PaymentReject, paymentsPath+"/{id}/reject", paymentsPath+"/{id}", c.rejectAnnouncement),
		upload(statementsPath, c.uploadStatement),
		upload(paymentsPath+"/columns", c.chooseColumns),
		get(statementPath, c.showStatement),
		guarded(admin.WalletTopUp, statementPath+"/credit", statementPath, c.creditLines),
		get(statementPath+"/{line}", c.showLine),
	}
}

// announced is an announcement with its operator's name.
type announced struct {
	admin.Announcement
	OperatorName string
}

// Path is the URL of the announcement's page.
func (a announced) Path() string { return paymentsPath + "/" + strconv.FormatInt(a.ID, 10) }

// OperatorPath is the prefix of its operator's pages.
func (a announced) OperatorPath() string { return operatorPath(a.OperatorID) }

// Differs reports whether another amount was credited than announced.
func (a announced) Differs() bool { return a.State == admin.Credited && a.Credited != a.Amount }

// ByBank reports whether the bank's reference is another than the operator's.
func (a announced) ByBank() bool { return a.TopUpReference() != a.Reference }

// TopUpPath is the URL of the form that credits it by hand, filled in.
func (a announced) TopUpPath() string { return topUpPath(a.OperatorID, a.Amount, a.TopUpReference()) }

// topUpPath is the URL of an operator's form of a top-up, filled in.
func topUpPath(operatorID int64, amount money.Amount, reference string) string {
	return operatorPath(operatorID) + "/wallet?" + url.Values{"amount": {amount.String()}, "reference": {reference}}.Encode()
}

// paymentsPage lists announced payments and statements, and takes a statement.
type paymentsPage struct {
	Form *form
	// All lists decided announcements, too.
	All        bool
	Rows       []announced
	Pager      web.Pager
	Open       int
	Sum        money.Amount
	Statements []admin.BankStatement
	// Problems are those of a refused file.
	Problems []fileProblem
	rights
}

// fileProblem is something wrong with a file, in the visitor's language.
type fileProblem struct {
	Line int
	Text string
}

func (c console) payments(v *web.Visit) error { return c.paymentsPage(v, newForm(v, ""), nil) }

func (c console) paymentsPage(v *web.Visit, f *form, problems []fileProblem) error {
	service := c.service(v)
	data := paymentsPage{Form: f, Problems: problems, All: v.Query("show") == "all", rights: rightsOf(v)}
	before, _ := strconv.ParseInt(v.Query("after"), 10, 64)
	found, err := service.Announcements(v.Context(), admin.AnnouncementFilter{Open: !data.All, Before: before, Limit: web.PageRows + 1})
	if err != nil {
		return err
	}
	next := ""
	if len(found) > web.PageRows {
		found = found[:web.PageRows]
		next = strconv.FormatInt(found[len(found)-1].ID, 10)
	}
	names, err := c.operatorNames(v)
	if err != nil {
		return err
	}
	for _, a := range found {
		data.Rows = append(data.Rows, announced{a, names[a.OperatorID]})
	}
	data.Pager = v.Pager(next)
	if data.Open, data.Sum, err = service.OpenAnnouncements(v.Context()); err != nil {
		return err
	}
	if data.Statements, err = service.BankStatements(v.Context(), statementsShown); err != nil {
		return err
	}
	if !f.ok() || len(problems) > 0 {
		return again(v, "console/payments", data)
	}
	return v.Show("console/payments", data)
}

// paymentPage is one announced payment.
type paymentPage struct {
	announced
	Form  *form
	Lines []bankLine
	rights
}

func (c console) showAnnouncement(v *web.Visit) error { return c.announcementPage(v, newForm(v, "")) }

func (c console) announcementPage(v *web.Visit, f *form) error {
	id, err := pathID(v, "id")
	if err != nil {
		return err
	}
	a, err := c.service(v).Announcement(v.Context(), id)
	if err != nil {
		return orNotFound(err)
	}
	names, err := c.operatorNames(v)
	if err != nil {
		return err
	}
	data := paymentPage{announced: announced{a, names[a.OperatorID]}, Form: f, rights: rightsOf(v)}
	lines, err := c.service(v).LinesOfAnnouncement(v.Context(), id)
	if err != nil {
		return err
	}
	data.Lines = c.shownLines(v, lines, names)
	if !f.ok() {
		return again(v, "console/payment", data)
	}
	return v.Show("console/payment", data)
}

func (c console) rejectAnnouncement(v *web.Visit) error {
	id, err := pathID(v, "id")
	if err != nil {
		return err
	}
	f := newForm(v, "reject")
	reason := f.text("reason")
	if !f.ok() {
		return c.announcementPage(v, f)
	}
	a, err := c.service(v).RejectAnnouncement(lasting(v), id, reason)
	if err != nil {
		if err := f.refused(err); err != nil {
			return err
		}
		return c.announcementPage(v, f)
	}
	return v.Redirect(announced{Announcement: a}.Path(), v.Success("Rejected. The operator sees the reason."))
}
