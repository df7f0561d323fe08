package panel

import (
	"errors"
	"net/http"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
)

// passwordPage asks whether a customer's app password is to be replaced, and shows
// what became of it.
type passwordPage struct {
	Subscriber report.SubscriberDetail
	Result     *admin.NewPassword
	Problem    string
}

// Confirmed reports whether the new password holds. Neither this nor Rejected holds
// where nobody can say.
func (p passwordPage) Confirmed() bool { return p.Result.Verdict == operation.Confirmed }

// Rejected reports whether the customer's old password still holds.
func (p passwordPage) Rejected() bool { return p.Result.Verdict == operation.Rejected }

func (p panel) passwordForm(v *web.Visit) error {
	detail, err := p.found(v)
	if err != nil {
		return err
	}
	return v.Show("panel/password", passwordPage{Subscriber: detail})
}

func (p panel) resetPassword(v *web.Visit) error {
	detail, err := p.found(v)
	if err != nil {
		return err
	}
	page := passwordPage{Subscriber: detail}
	result, err := p.Passwords.Reset(v.Context(), v.Actor(), v.Operator(), detail.ID, "")
	switch {
	case err == nil, errors.Is(err, admin.ErrNotLogged):
		// The password is nowhere but here, so it is shown in answer to the form.
		page.Result = &result
	case detail.Expires.IsZero():
		v.Status = http.StatusUnprocessableEntity
		page.Problem = v.T("The activation is not settled yet, so there is no password to replace.")
	default:
		return err
	}
	return v.Show("panel/password", page)
}
