package panel

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// booksRoutes are the pages of the statement and the transactions.
func (p panel) booksRoutes() []web.Route {
	get := func(path string, handle func(*web.Visit) error) web.Route {
		return web.Route{Method: http.MethodGet, Path: path, Area: web.Panel, Allow: everyone, Handle: handle}
	}
	statement := get("/panel/statement", p.showStatement)
	statement.Menu, statement.Icon, statement.Keys = look.Text("Statement"), "receipt-indian-rupee", "g m"
	transactions := get("/panel/transactions", p.showTransactions)
	transactions.Menu, transactions.Icon, transactions.Keys = look.Text("Transactions"), "arrow-left-right", "g t"
	return []web.Route{
		statement,
		get("/panel/statement/print", p.printStatement),
		get("/panel/statement/export/csv", p.exportStatement),
		get("/panel/statement/export/xlsx", p.exportStatement),
		transactions,
		get("/panel/transactions/export/csv", p.exportTransactions),
		get("/panel/transactions/export/xlsx", p.exportTransactions),
	}
}

const (
	// statementDays is the default period of a statement.
	statementDays = 30
	// printedLines is the line limit of the print page; longer statements have the file.
	printedLines = 1000
)

// period is a range of Indian days from a form, and what is wrong with it.
type period struct {
	From, Until string
	from, until time.Time
	Problem     string // English
}

const dayForm = "2006-01-02"

// readPeriod parses the days of the query; a missing day is zero.
func readPeriod(v *web.Visit) period {
	d := period{From: v.Query("from"), Until: v.Query("until")}
	var wrong, wrongToo bool
	d.from, wrong = readDay(d.From)
	d.until, wrongToo = readDay(d.Until)
	switch {
	case wrong || wrongToo:
		d.Problem = look.Text("That is not a date. Enter it as 2026-11-30.")
	case !d.from.IsZero() && !d.until.IsZero() && d.until.Before(d.from):
		d.Problem = look.Text("The end date is before the start date.")
		d.until = d.from
	}
	return d
}

func readDay(text string) (at time.Time, wrong bool) {
	if text == "" {
		return at, false
	}
	at, err := time.ParseInLocation(dayForm, text, subscription.IST)
	// Refuse years that no ledger has.
	if err != nil || at.Year() < 2000 || at.Year() > 2200 {
		return time.Time{}, true
	}
	return at, false
}

// fill sets missing days.
func (d *period) fill(now time.Time) {
	if d.until.IsZero() {
		d.until = report.Day(now)
		if d.from.After(d.until) {
			d.until = d.from
		}
	}
	if d.from.IsZero() {
		d.from = d.until.AddDate(0, 0, 1-statementDays)
	}
	d.From, d.Until = d.from.Format(dayForm), d.until.Format(dayForm)
}

// statementPage is the data of the statement.
type statementPage struct {
	report.Statement
	Period  period
	Side    string
	Text    string
	Newest  bool
	Narrow  bool // some lines of the period are left out
	Holds   []transactionRow
	Months  []monthLink
	Links   links
	HasMore bool
	// Announced are the announced payments that are not in the wallet yet.
	Announced announcedMoney

	// Described translates a ledger line's description.
	Described func(description string) string
}

// links are the URLs of a list: pager, downloads and print page.
type links struct {
	web.Pager
	CSV, XLSX, Print string
}

// monthLink is a link to a month.
type monthLink struct {
	Text, Href string
	Here       bool
}

// statementFilter parses the filters of a statement.
func statementFilter(v *web.Visit) (report.StatementFilter, period) {
	d := readPeriod(v)
	d.fill(v.Now)
	f := report.StatementFilter{
		From: d.from, Until: d.until, Text: v.Query("q"), NewestFirst: v.Query("order") != "oldest", After: v.Query("after"), Limit: web.PageRows,
	}
	switch side := report.Side(v.Query("side")); side {
	case report.Credit, report.Debit:
		f.Side = side
	}
	return f, d
}

func (p panel) showStatement(v *web.Visit) error {
	f, d := statementFilter(v)
	page, err := p.statement(v, f, d)
	if err != nil {
		return err
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/statement", "lines", page)
	}
	return v.Show("panel/statement", page)
}

func (p panel) statement(v *web.Visit, f report.StatementFilter, d period) (page statementPage, err error) {
	s, err := p.Report.Statement(v.Context(), v.Operator(), f)
	if errors.Is(err, report.ErrCursor) {
		return page, web.NotFound()
	}
	if err != nil {
		return page, err
	}
	page = statementPage{
		Statement: s, Period: d, Side: string(f.Side), Text: f.Text, Newest: f.NewestFirst,
		Narrow: f.Side != report.Both || f.Text != "", Links: linksOf(v, "/panel/statement", s.Next), HasMore: s.Next != "", Described: v.LedgerText,
	}
	if page.Announced.Open, page.Announced.Sum, err = p.Payments.Announced(v.Context(), v.Operator()); err != nil {
		return page, err
	}
	if s.Wallet.Held.IsPositive() {
		held, err := p.Report.Holds(v.Context(), v.Operator())
		if err != nil {
			return page, err
		}
		page.Holds = transactionRows(held)
	}
	page.Months = monthLinks(v, d)
	return page, nil
}

// monthLinks returns this month, the two before it, and the last days.
func monthLinks(v *web.Visit, d period) []monthLink {
	today := report.Day(v.Now)
	link := func(text string, from, until time.Time) monthLink {
		q := url.Values{"from": {from.Format(dayForm)}, "until": {until.Format(dayForm)}}
		return monthLink{text, "/panel/statement?" + q.Encode(), d.from.Equal(from) && d.until.Equal(until)}
	}
	month := report.Month(v.Now)
	return []monthLink{
		link(v.T(look.Text("Last 30 days")), today.AddDate(0, 0, 1-statementDays), today),
		link(v.T(look.Text("This month")), month, today),
		link(v.T(look.Text("Last month")), month.AddDate(0, -1, 0), month.AddDate(0, 0, -1)),
		link(v.T(look.Text("Last 90 days")), today.AddDate(0, 0, -89), today),
	}
}

// linksOf returns the links of a list, with its filters.
func linksOf(v *web.Visit, path, next string) links {
	return links{
		Pager: v.Pager(next), CSV: v.FilterURL(path + "/export/csv"), XLSX: v.FilterURL(path + "/export/xlsx"), Print: v.FilterURL(path + "/print"),
	}
}

// printStatement shows all lines on one page, oldest first.
func (p panel) printStatement(v *web.Visit) error {
	f, d := statementFilter(v)
	f.After, f.Limit, f.NewestFirst, f.NoScanLimit = "", printedLines, false, true
	page, err := p.statement(v, f, d)
	if err != nil {
		return err
	}
	return v.Show("panel/statement-print", page)
}

// transactionRow is an operation in a list.
type transactionRow struct {
	operation.Operation
	KindName, ChannelName string // English
}

func transactionRows(operations []operation.Operation) []transactionRow {
	rows := make([]transactionRow, len(operations))
	for i, o := range operations {
		rows[i] = transactionRow{o, whatWords[o.Kind], channelNames[o.Channel]}
	}
	return rows
}

var channelNames = map[operation.Channel]string{
	operation.API: look.Text("API"),
	operation.Web: look.Text("Web"),
}
