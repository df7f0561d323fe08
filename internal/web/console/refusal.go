package console

import (
	"errors"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// told returns the text of a refusal in the visitor's language; empty for any other error.
func told(v *web.Visit, err error) string {
	var refused *admin.Refusal
	if !errors.As(err, &refused) {
		return ""
	}
	return v.T("This could not be done: %s", sentence(v, say(v, refused)))
}

// refused reports whether an error is a refusal that the user can act on.
func refused(err error) bool {
	var refusal *admin.Refusal
	return errors.As(err, &refusal)
}

// say translates a refusal. Admin returns an English format string and its arguments.
func say(v *web.Visit, refusal *admin.Refusal) string {
	args := make([]any, len(refusal.Args))
	for i, arg := range refusal.Args {
		args[i] = spoken(v, arg)
	}
	if len(args) == 0 {
		return strings.ReplaceAll(v.T(refusal.Form), "%%", "%") // it is a format string without arguments
	}
	return v.T(refusal.Form, args...)
}

// spoken formats an argument of a refusal: amounts, months, and the names of roles and
// actions.
func spoken(v *web.Visit, arg any) any {
	switch a := arg.(type) {
	case *admin.Refusal:
		return say(v, a)
	case money.Amount:
		return look.Rupees(a)
	case admin.Month:
		return monthText(v, a)
	case time.Duration:
		return span(a)
	case admin.Role:
		return roleName(v, string(a))
	case login.Role:
		return roleName(v, string(a))
	case admin.Action:
		return actionName(v, string(a))
	case admin.ProposalStatus, operation.State, catalogue.Role:
		if text, known := stateTexts[a]; known {
			return v.T(text)
		}
	}
	return v.RefusalArg(arg)
}

// roleName returns a role's name; an unknown role unchanged.
func roleName(v *web.Visit, role string) string {
	if name := web.RoleName(login.Role(role)); name != "" {
		return v.T(name)
	}
	return role
}

// stateTexts are the states' names within a sentence.
var stateTexts = map[any]string{
	admin.ProposalApproved:  look.Text("approved"),
	admin.ProposalDeclined:  look.Text("declined"),
	admin.ProposalWithdrawn: look.Text("withdrawn"),
	operation.Processing:    look.Text("in progress"),
	operation.Success:       look.Text("carried out"),
	operation.Failed:        look.Text("not carried out"),
	operation.NeedsReview:   look.Text("in review"),
	catalogue.Main:          look.Text("main"),
	catalogue.Addon:         look.Text("add-on"),
}

// sentence adds a full stop to a reason.
func sentence(v *web.Visit, reason string) string {
	if strings.HasSuffix(reason, ".") || strings.HasSuffix(reason, "।") {
		return reason
	}
	return v.T("%s.", reason)
}
