package panel

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
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
	// StepsRemoved is when the steps were removed because they were old; zero if they were not.
	StepsRemoved time.Time
	// Reversing: the provider is being asked to undo it. WhyNotReversible is why the MSO's staff
	// cannot reverse it, in the visitor's language; empty if they can.
	Reversing        bool
	WhyNotReversible string
	// Later is the operation that has to be reversed before this one; empty if there is none.
	Later string
	// Password is the customer's app password, shown this once. KeepOpen: a page with it is open, so
	// links open beside it; going back would not bring it again.
	Password string
	KeepOpen bool
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
	page := operationPage{entry: entryOf(op), Headline: headline(op), Asked: len(history.Calls), Password: password, StepsRemoved: history.EventsRemoved}
	page.KeepOpen = password != "" || v.ByHTMX() && v.Query("keep") == "open"
	for i := len(history.Reversals) - 1; i >= 0; i-- {
		r := history.Reversals[i]
		page.Reversing = page.Reversing || r.State.Open()
		switch r.State {
		case operation.Reversed:
			page.Steps = append(page.Steps, step{r.CompletedAt, look.Text("Undone by the provider; the amount was given back"), "is-good"})
		case operation.ReversalRefused:
			page.Steps = append(page.Steps, step{r.CompletedAt, look.Text("The provider did not undo it"), "is-bad"})
		}
		page.Steps = append(page.Steps, step{r.RequestedAt, look.Text("The MSO's staff asked the provider to undo it"), "is-warn"})
	}
	if op.State == operation.Success && !op.Reversed() && !page.Reversing {
		facts, err := p.Store.ReversalSnapshot(v.Context(), op.ID)
		if err != nil {
			return err
		}
		age := cmp.Or(p.ReversalAge, admin.DefaultReversalAge)
		if why := facts.FinalRefusal(v.Now, age); why == nil {
			// What staff can put right is theirs: the reason may name nodes and exceptions.
			if facts.Refusal(v.Now, age) != nil {
				page.WhyNotReversible = v.T("It cannot be reversed at the moment. Ask your MSO.")
			}
		} else {
			page.WhyNotReversible = v.T("It cannot be reversed any more: %s.", strings.TrimSuffix(strings.TrimSuffix(say(v, why), "."), "।"))
			if v.Now.Sub(op.CompletedAt) <= age {
				page.Later = facts.LaterOperation()
			}
		}
	}
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
		operation.Processing:  look.Text("Requested; the amount was held"),
		operation.Success:     look.Text("Confirmed by the provider"),
		operation.Failed:      look.Text("Failed; the amount was refunded"),
		operation.NeedsReview: look.Text("No clear answer from the provider; in review"),
	}
	staffWords = map[operation.State]string{
		operation.Processing:  stepWords[operation.Processing],
		operation.Success:     look.Text("Confirmed by staff"),
		operation.Failed:      look.Text("Cancelled by staff; the amount was refunded"),
		operation.NeedsReview: stepWords[operation.NeedsReview],
	}
)

// headline describes an operation's state in one sentence.
func headline(op operation.Operation) string {
	switch op.State {
	case operation.Success:
		if op.Reversed() {
			return look.Text("It was reversed, and the amount was given back.")
		}
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
		return look.Text("It failed. Nothing was charged.")
	case operation.NeedsReview:
		return look.Text("The provider has not confirmed this yet. The amount is held, and the provider is asked again until the outcome is known. Do not buy it a second time.")
	}
	return look.Text("Waiting for the provider.")
}

var failures = map[operation.Reason]string{
	operation.ProviderRejected:    look.Text("The provider refused. Nothing was charged."),
	operation.ProviderUnreachable: look.Text("The provider could not be reached. Nothing was charged."),
	operation.NotConfirmed:        look.Text("The provider never confirmed it. The amount was refunded."),
	operation.RejectedByReview:    look.Text("Staff cancelled it. The amount was refunded."),
}
