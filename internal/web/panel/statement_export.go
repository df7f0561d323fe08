package panel

import (
	"path"

	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// The formats of downloads.
const (
	asCSV  = "text/csv; charset=utf-8"
	asXLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
)

// beginSheet starts a download in the format that the path names.
func beginSheet(v *web.Visit, name, title string, columns []sheet.Column) (sheet.Writer, error) {
	for i := range columns {
		columns[i].Title = v.T(columns[i].Title)
	}
	if path.Base(v.R.URL.Path) == "xlsx" {
		v.Download(name+".xlsx", asXLSX)
		return sheet.NewXLSX(v.W, v.T(title), columns...)
	}
	v.Download(name+".csv", asCSV)
	return sheet.NewCSV(v.W, true, columns...)
}

// exportStatement downloads a statement: oldest line first, between opening and closing
// balance.
func (p panel) exportStatement(v *web.Visit) error {
	f, d := statementFilter(v)
	f.NewestFirst = false
	var out sheet.Writer
	var statement report.Statement
	begin := func(s report.Statement) (err error) {
		statement = s
		out, err = beginSheet(v, "statement-"+d.From+"-"+d.Until, look.Text("Statement"), []sheet.Column{
			{Title: look.Text("Time"), Kind: sheet.Moment}, {Title: look.Text("Line"), Kind: sheet.Number},
			{Title: look.Text("Description")}, {Title: look.Text("Customer")}, {Title: look.Text("Mobile")}, {Title: look.Text("Transaction")},
			{Title: look.Text("Debit"), Kind: sheet.Rupees}, {Title: look.Text("Credit"), Kind: sheet.Rupees},
			{Title: look.Text("Balance"), Kind: sheet.Rupees},
		})
		if err != nil {
			return err
		}
		return out.Row(s.From, nil, v.T(look.Text("Opening balance")), nil, nil, nil, nil, nil, s.Opening)
	}
	each := func(l report.LedgerLine) error {
		if l.Side == report.Debit {
			return out.Row(l.At, l.Line, v.LedgerText(l.Description), l.Customer, l.Mobile, l.TransactionID, l.Amount, nil, l.BalanceAfter)
		}
		return out.Row(l.At, l.Line, v.LedgerText(l.Description), l.Customer, l.Mobile, l.TransactionID, nil, l.Amount, l.BalanceAfter)
	}
	if err := p.Report.EachLine(v.Context(), v.Operator(), f, begin, each); err != nil {
		return err
	}
	if err := out.Row(nil, nil, v.T(look.Text("Closing balance")), nil, nil, nil, nil, nil, statement.Closing); err != nil {
		return err
	}
	return out.Close()
}
