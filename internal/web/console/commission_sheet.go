package console

import (
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// startSheet starts a download in the format that the path names.
func startSheet(v *web.Visit, name string, columns ...sheet.Column) (sheet.Writer, error) {
	for i := range columns {
		columns[i].Title = v.T(columns[i].Title)
	}
	switch v.R.PathValue("format") {
	case "csv":
		v.Download(name+".csv", "text/csv; charset=utf-8")
		return sheet.NewCSV(v.W, true, columns...)
	case "xlsx":
		v.Download(name+".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")
		return sheet.NewXLSX(v.W, v.T("Commission"), columns...)
	}
	return nil, web.NotFound()
}

// downloadSums downloads the report by operator and plan.
func (c console) downloadSums(v *web.Visit) error {
	month, operatorID, err := c.asked(v)
	if err != nil {
		return err
	}
	sums, err := c.Reports.Commission(v.Context(), operatorID, month.Begins())
	if err != nil {
		return err
	}
	table, err := startSheet(v, "commission-"+month.String(),
		sheet.Column{Title: look.Text("Month")}, sheet.Column{Title: look.Text("Operator id"), Kind: sheet.Number}, sheet.Column{Title: look.Text("Operator")},
		sheet.Column{Title: look.Text("Plan id")}, sheet.Column{Title: look.Text("Plan")}, sheet.Column{Title: look.Text("Operations"), Kind: sheet.Number},
		sheet.Column{Title: look.Text("Sales"), Kind: sheet.Rupees}, sheet.Column{Title: look.Text("Commission"), Kind: sheet.Rupees}, sheet.Column{Title: look.Text("Reversals"), Kind: sheet.Number})
	if err != nil {
		return err
	}
	for _, sum := range sums {
		if err := table.Row(month.String(), sum.OperatorID, sum.OperatorName, sum.PlanID, sum.PlanName, sum.Count, sum.Sales, sum.Commission, sum.Reversals); err != nil {
			return err
		}
	}
	return table.Close()
}

// downloadLines downloads every single commission.
func (c console) downloadLines(v *web.Visit) error {
	month, operatorID, err := c.asked(v)
	if err != nil {
		return err
	}
	table, err := startSheet(v, "commission-lines-"+month.String(),
		sheet.Column{Title: look.Text("Time"), Kind: sheet.Moment}, sheet.Column{Title: look.Text("Operator id"), Kind: sheet.Number}, sheet.Column{Title: look.Text("Operator")},
		sheet.Column{Title: look.Text("Transaction")}, sheet.Column{Title: look.Text("Subscriber")}, sheet.Column{Title: look.Text("Plan id")}, sheet.Column{Title: look.Text("Plan")},
		sheet.Column{Title: look.Text("Sale"), Kind: sheet.Rupees}, sheet.Column{Title: look.Text("Rate in basis points"), Kind: sheet.Number},
		sheet.Column{Title: look.Text("Commission"), Kind: sheet.Rupees})
	if err != nil {
		return err
	}
	err = c.Reports.EachCommission(v.Context(), operatorID, month.Begins(), func(line report.CommissionLine) error {
		return table.Row(line.At, line.OperatorID, line.OperatorName, line.TransactionID, line.SubscriberID, line.PlanID, line.PlanName, line.Sale, line.RateBPS, line.Commission)
	})
	if err != nil {
		return err
	}
	return table.Close()
}
