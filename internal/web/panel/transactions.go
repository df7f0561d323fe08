package panel

import (
	"errors"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// transactionsPage is a list of operations.
type transactionsPage struct {
	Rows       []transactionRow
	Period     period
	State      string
	Kind       string
	Channel    string
	Subscriber string
	Links      links
	// LookedBackTo is how far back was searched, if there is more.
	LookedBackTo string
}

func transactionFilter(v *web.Visit) (report.TransactionFilter, period) {
	d := readPeriod(v)
	f := report.TransactionFilter{From: d.from, Until: d.until, Subscriber: v.Query("subscriber"), After: v.Query("after"), Limit: web.PageRows}
	switch state := operation.State(v.Query("state")); state {
	case operation.Success, operation.State(operation.Reversed), operation.Failed, operation.NeedsReview, operation.Processing:
		f.State = state
	}
	if kind := operation.Kind(v.Query("kind")); whatWords[kind] != "" {
		f.Kind = kind
	}
	if channel := operation.Channel(v.Query("channel")); channelNames[channel] != "" {
		f.Channel = channel
	}
	return f, d
}

func (p panel) showTransactions(v *web.Visit) error {
	f, d := transactionFilter(v)
	found, err := p.Report.Transactions(v.Context(), v.Operator(), f)
	if errors.Is(err, report.ErrCursor) {
		return web.NotFound()
	}
	if err != nil {
		return err
	}
	page := transactionsPage{
		Rows: transactionRows(found.Rows), Period: d, State: string(f.State), Kind: string(f.Kind), Channel: string(f.Channel),
		Subscriber: f.Subscriber, Links: linksOf(v, "/panel/transactions", found.Next),
	}
	if !found.SearchedTo.IsZero() {
		page.LookedBackTo = v.Look.Day(v.Language(), found.SearchedTo)
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/transactions", "list", page)
	}
	return v.Show("panel/transactions", page)
}

func (p panel) exportTransactions(v *web.Visit) error {
	f, _ := transactionFilter(v)
	out, err := beginSheet(v, "transactions-"+report.Day(v.Now).Format(dayForm), look.Text("Transactions"), []sheet.Column{
		{Title: look.Text("Time"), Kind: sheet.Moment}, {Title: look.Text("Transaction")}, {Title: look.Text("Kind")},
		{Title: look.Text("Channel")}, {Title: look.Text("Subscriber")}, {Title: look.Text("Customer")}, {Title: look.Text("Mobile")},
		{Title: look.Text("Plan")}, {Title: look.Text("Amount"), Kind: sheet.Rupees}, {Title: look.Text("State")},
		{Title: look.Text("Settled"), Kind: sheet.Moment}, {Title: look.Text("New expiry"), Kind: sheet.Moment},
		{Title: look.Text("Idempotency key")},
	})
	if err != nil {
		return err
	}
	err = p.Report.EachTransaction(v.Context(), v.Operator(), f, func(o operation.Operation) error {
		var expiry time.Time
		if o.State == operation.Success && !o.Reversed() {
			expiry = o.ExpiryPlanned
		}
		return out.Row(o.CreatedAt, o.ID, v.T(whatWords[o.Kind]), v.T(channelNames[o.Channel]), o.SubscriberID, o.CustomerName, o.Mobile,
			o.PlanName, o.Amount, v.T(stateNames[operation.State(o.DisplayState())]), o.CompletedAt, expiry, o.KnownKey())
	})
	if err != nil {
		return err
	}
	return out.Close()
}

var stateNames = map[operation.State]string{
	operation.Processing:  look.Text("Processing"),
	operation.Success:     look.Text("Success"),
	operation.Failed:      look.Text("Failed"),
	operation.NeedsReview: look.Text("In review"),

	operation.State(operation.Reversed): look.Text("Reversed"),
}
