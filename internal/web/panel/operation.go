package panel

import (
	"net/http"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

func (p panel) operationRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: "/panel/transactions/{id}", Area: web.Panel, Allow: everyone, Handle: p.operation},
	}
}

// step is one event of an operation.
type step struct {
	At   time.Time
	Text string // in English
	Tone string
}

type operationPage struct {
	entry
	Headline string // in English
	Steps    []step // the latest first
	Asked    int    // number of provider calls
	AskedAt  time.Time
	// Password is the customer's app password, shown this once.
	Password string
}

func (p panel) operation(v *web.Visit) error {
	op, err := p.Operations.Transaction(v.Context(), v.Operator(), v.R.PathValue("id"), "")
	switch {
	case fault.Is(err, fault.TransactionNotFound):
		return web.NotFound()
	case err != nil:
		return err
	}
	return p.showOperation(v, op, "")
}

// showOperation shows an operation, which must be the visitor's own.
func (p panel) showOperation(v *web.Visit, op operation.Operation, password string) error {
	history, err := p.Histories.OperationHistory(v.Context(), op.ID)
	if err != nil {
		return err
	}
	page := operationPage{entry: entryOf(op), Headline: headline(op), Asked: len(history.Calls), Password: password}
	for i := len(history.Events) - 1; i >= 0; i-- {
		event := history.Events[i]
		text := stepWords[event.To]
		if event.Actor != "" {
			text = staffWords[event.To]
		}
		page.Steps = append(page.Steps, step{event.At, text, tones[event.To]})
	}
	for _, call := range history.Calls {
		if call.CalledAt.After(page.AskedAt) {
			page.AskedAt = call.CalledAt
		}
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/operation", "outcome", page)
	}
	return v.Show("panel/operation", page)
}

// The texts of an operation's state changes: automatic ones, and those decided by staff.
var (
	stepWords = map[operation.State]string{
		operation.Processing:  look.Text("Asked for; the amount was set aside"),
		operation.Success:     look.Text("Confirmed by the provider"),
		operation.Failed:      look.Text("Not carried out; the amount was given back"),
		operation.NeedsReview: look.Text("No clear answer from the provider; in review"),
	}
	staffWords = map[operation.State]string{
		operation.Processing:  stepWords[operation.Processing],
		operation.Success:     look.Text("Confirmed by the service's staff"),
		operation.Failed:      look.Text("Ended by the service's staff; the amount was given back"),
		operation.NeedsReview: stepWords[operation.NeedsReview],
	}
)

// headline describes an operation's state in one sentence.
func headline(op operation.Operation) string {
	switch op.State {
	case operation.Success:
		switch op.Kind {
		case operation.Activate:
			return look.Text("The subscriber is activated.")
		case operation.Renew:
			return look.Text("The subscriber is renewed.")
		}
		return look.Text("The next cycle is booked.")
	case operation.Failed:
		if why := failures[op.Reason]; why != "" {
			return why
		}
		return look.Text("It was not carried out. Nothing was charged.")
	case operation.NeedsReview:
		return look.Text("The provider has not confirmed this yet. The amount is held, nothing is lost: it is asked again until the outcome is known. Do not buy it a second time.")
	}
	return look.Text("The provider is being asked.")
}

var failures = map[operation.Reason]string{
	operation.ProviderRejected:    look.Text("The provider refused. Nothing was charged."),
	operation.ProviderUnreachable: look.Text("The provider could not be reached. Nothing was charged."),
	operation.NotConfirmed:        look.Text("The provider never confirmed it. The amount was given back."),
	operation.RejectedByReview:    look.Text("The service's staff ended it. The amount was given back."),
}
