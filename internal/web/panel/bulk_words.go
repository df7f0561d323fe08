package panel

import (
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/web/look"
)

// refusalTexts say in an operator's words why a row of a list was not renewed. What
// is not here is said as whoever refused it did.
var refusalTexts = map[fault.Code]string{
	fault.InsufficientBalance: look.Word("The wallet does not cover it. Nothing was charged."),
	fault.SubscriberNotFound:  look.Word("There is no such subscriber."),
	fault.PlanAlreadyActive:   look.Word("That plan is the subscriber's active one. Renew it, or book another plan in advance."),
	fault.InvalidPlan:         look.Word("There is no such plan, or the subscriber has none yet."),
	fault.DuplicateRequest:    look.Word("The same subscriber is in the list already, or has been renewed already."),
	fault.OperationInProgress: look.Word("Something else is under way for this subscriber."),
	fault.PlansUnavailable:    look.Word("The prices are not confirmed by the provider at the moment."),
	fault.ServiceUnavailable:  look.Word("The provider cannot be reached at the moment."),
	fault.LCOInactive:         look.Word("Your account is suspended. Ask your MSO."),
	fault.ProviderError:       look.Word("The provider refused it. The money is back in the wallet."),
	fault.PendingReview:       look.Word("The provider has not confirmed it yet. The money is held until it does."),
	fault.OK:                  look.Word("Renewed"),
}
