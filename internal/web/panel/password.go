package panel

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// passwordPage asks to confirm the reset of a customer's app password, and shows its
// result.
type passwordPage struct {
	Subscriber report.SubscriberDetail
	Result     *admin.NewPassword
	Problem    string
	// Once is the form's voucher; Done: it was sent before.
	Once string
	Done bool
}

// Confirmed reports whether the new password is valid. If the outcome is unknown, neither
// Confirmed nor Rejected is true.
func (p passwordPage) Confirmed() bool { return p.Result.Outcome == operation.Confirmed }

// Rejected reports whether the customer's old password is still valid.
func (p passwordPage) Rejected() bool { return p.Result.Outcome == operation.Rejected }

func (p panel) passwordForm(v *web.Visit) error {
	detail, err := p.found(v)
	if err != nil {
		return err
	}
	return v.Show("panel/password", passwordPage{Subscriber: detail, Once: web.NewVoucher()})
}

func (p panel) resetPassword(v *web.Visit) error {
	detail, err := p.found(v)
	if err != nil {
		return err
	}
	page := passwordPage{Subscriber: detail}
	voucher, brought := v.Voucher()
	if !brought {
		v.Status, page.Once = http.StatusUnprocessableEntity, web.NewVoucher()
		page.Problem = v.T("The form was incomplete. Fill it in again.")
		return v.Show("panel/password", page)
	}
	var tooMany *admin.TooManyResets
	result, err := p.Passwords.ResetOnce(v.Context(), voucher, v.Actor(), v.Operator(), detail.ID, "")
	switch {
	case admin.DoneAlready(err):
		page.Done = true
	case err == nil, errors.Is(err, admin.ErrNotLogged):
		// The password is stored nowhere, so it is shown in the response to the form.
		page.Result = &result
	case errors.As(err, &tooMany):
		v.Status, page.Once = http.StatusTooManyRequests, voucher
		wait := int((tooMany.RetryAfter + time.Second - 1) / time.Second)
		v.W.Header().Set("Retry-After", strconv.Itoa(wait))
		page.Problem = v.T("%s app passwords were replaced within a minute, which is the most. Nothing was replaced now; try again in %s seconds.", look.Count(admin.ResetsAMinute), look.Count(int64(wait)))
	case detail.Expires.IsZero():
		v.Status = http.StatusUnprocessableEntity
		page.Problem = v.T("The activation is not complete yet, so there is no password to replace.")
	default:
		if page.Problem = told(v, err); page.Problem == "" {
			return err
		}
		v.Status, page.Once = http.StatusUnprocessableEntity, web.NewVoucher()
	}
	return v.Show("panel/password", page)
}
