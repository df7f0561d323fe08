package panel

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// refusal is why something was not done, in the visitor's language.
type refusal struct {
	Code fault.Code
	// Problem is shown above the form, Errors beside its fields.
	Problem string
	Errors  map[string]string
	// Notice is something to know before going on.
	Notice string
	// Before is the conflicting transaction, if there is one.
	Before string
	// Known is the operator's own subscriber with the mobile number, if there is one.
	Known string
	// PlanID is the plan of an order that was refused because of maintenance, for the request log.
	PlanID string
}

// explain describes a refusal for users: the API's messages are about headers and keys.
func explain(v *web.Visit, err error) refusal {
	f := fault.From(err)
	told := worded(v, f)
	told.Code, told.PlanID = f.Code, operation.PlanInMaintenance(err)
	return told
}

func worded(v *web.Visit, f *fault.Error) refusal {
	if errors.Is(f, operation.ErrMaintenance) {
		return refusal{Problem: v.T("New operations are stopped for maintenance. Nothing was charged; try again later.")}
	}
	switch f.Code {
	case fault.ValidationError:
		fields, _ := f.Data["fields"].(map[string]string)
		problems := make(map[string]string, len(fields))
		for name, text := range fields {
			problems[name] = explainField(v, text)
		}
		return refusal{Problem: v.T("Check the marked fields."), Errors: problems}
	case fault.InvalidPlan:
		text := v.T("This plan is not on sale. Choose another one.")
		return refusal{Problem: text, Errors: map[string]string{"plan_id": text}}
	case fault.PlansUnavailable:
		return refusal{Problem: v.T("The prices could not be verified with the provider, so nothing can be bought at the moment. Try again in a few minutes.")}
	case fault.InsufficientBalance:
		missing, _ := f.Data["shortfall"].(money.Amount)
		return refusal{Problem: v.T("The wallet is %s short. Top it up first.", look.Rupees(missing))}
	case fault.SubscriberExists:
		return refusal{
			Problem: v.T("This mobile number is registered already. Renew the subscriber instead."),
			Errors:  map[string]string{"mobile": v.T("It belongs to a subscriber.")},
		}
	case fault.SubscriberNotFound:
		return refusal{Problem: v.T("There is no such subscriber.")}
	case fault.OperationInProgress:
		open, _ := f.Data["transaction_id"].(string)
		return refusal{Problem: v.T("Another operation for this customer is in progress. Wait until it is complete."), Before: open}
	case fault.DuplicateRequest:
		before, _ := f.Data["previous_transaction_id"].(string)
		return refusal{Problem: v.T("This subscriber was renewed with this plan less than two minutes ago. To renew again, wait a moment."), Before: before}
	case fault.PlanAlreadyActive:
		text := v.T("The subscriber already has this plan. Renew it, or book another plan in advance.")
		return refusal{Problem: text, Errors: map[string]string{"plan_id": text}}
	case fault.ProviderError:
		return refusal{Problem: v.T("The provider cannot be reached at the moment. Nothing was charged; try again in a few minutes.")}
	case fault.LCOInactive:
		return refusal{Problem: v.T("This operator's account is suspended: you can view everything but not buy.")}
	}
	return refusal{Problem: v.T("The service could not do this right now. Send the form again in a moment: it is charged at most once.")}
}

// fieldForms are the format strings of an activation's field errors.
var fieldForms = []string{
	look.Text("It is required."),
	look.Text("It has to be exactly %d digits."),
	look.Text("It has more than 64 characters."),
	look.Text("It is not an e-mail address."),
	look.Text("It may have letters, digits and hyphens only."),
	look.Text("It has %d characters; at most %d are allowed."),
	look.Text("It has to be a text in quotes."),
	look.Text("It is not valid UTF-8."),
	look.Text("It contains the control character U+%04X."),
	look.Text("It contains U+%04X, which turns the direction of the text."),
	look.Text("It contains U+%04X, which is not a character."),
}

// places matches the verbs of such a format string.
var places = strings.NewReplacer(`%d`, `(\d+)`, `%04X`, `([0-9A-F]+)`)

// explainField translates the API's message about a field.
func explainField(v *web.Visit, text string) string {
	for _, form := range fieldForms {
		found := regexp.MustCompile("^" + places.Replace(strings.NewReplacer(".", `\.`, "+", `\+`).Replace(form)) + "$").FindStringSubmatch(text)
		if found == nil {
			continue
		}
		base := 10
		if strings.Contains(form, "%04X") {
			base = 16
		}
		var args []any
		for _, number := range found[1:] {
			n, err := strconv.ParseInt(number, base, 64)
			if err != nil {
				return text
			}
			args = append(args, n)
		}
		return v.T(form, args...)
	}
	return text
}
