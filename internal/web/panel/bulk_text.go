package panel

import (
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/web/look"
)

// refusalTexts say in operators' terms why a row was not renewed. For other codes the
// refusal's own message is shown.
var refusalTexts = map[fault.Code]string{
	fault.InsufficientBalance: look.Text("The wallet does not cover it. Nothing was charged."),
	fault.SubscriberNotFound:  look.Text("There is no such subscriber."),
	fault.PlanAlreadyActive:   look.Text("That plan is the subscriber's active one. Renew it, or book another plan in advance."),
	fault.InvalidPlan:         look.Text("There is no such plan, or the subscriber has none yet."),
	fault.DuplicateRequest:    look.Text("The same subscriber is in the list already, or has been renewed already."),
	fault.OperationInProgress: look.Text("Another operation is in progress for this subscriber."),
	fault.PlansUnavailable:    look.Text("The prices are not confirmed by the provider at the moment."),
	fault.ServiceUnavailable:  look.Text("The provider cannot be reached at the moment."),
	fault.LCOInactive:         look.Text("Your account is suspended. Ask your MSO."),
	fault.ProviderError:       look.Text("The provider refused it. The money is back in the wallet."),
	fault.PendingReview:       look.Text("The provider has not confirmed it yet. The money is held until it does."),
	fault.OK:                  look.Text("Renewed"),
}
