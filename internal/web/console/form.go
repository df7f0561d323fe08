package console

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// form is a form to show: its values and errors. The zero value has neither.
type form struct {
	v *web.Visit
	// Name is the posted form of a page; empty if none was posted.
	Name string
	// Problem is about the form as a whole, Errors are by field.
	Problem string
	Errors  map[string]string
}

// newForm returns the posted form, not yet checked, or an empty form.
func newForm(v *web.Visit, name string) *form {
	return &form{v: v, Name: name, Errors: map[string]string{}}
}

// Was returns the posted value of a field of the named form, else the given one. Every form
// has its name in a hidden field, because two forms of a page may have a field in common.
func (f *form) Was(name, field, standard string) string {
	if f.v.FormValue("form", "") != name {
		return standard
	}
	return f.v.FormValue(field, standard)
}

// Wrong returns the error of a field of the named form, or "".
func (f *form) Wrong(name, field string) string {
	if f.Name != name {
		return ""
	}
	return f.Errors[field]
}

// ProblemOf returns the problem of the named form as a whole, or "".
func (f *form) ProblemOf(name string) string {
	if f.Name != name {
		return ""
	}
	return f.Problem
}

// ok reports whether the form has no error so far.
func (f *form) ok() bool { return f.Problem == "" && len(f.Errors) == 0 }

// wrong sets a field's error, in the visitor's language.
func (f *form) wrong(field, why string) { f.Errors[field] = why }

// amount parses an amount, with commas, a rupee sign and either minus sign.
func (f *form) amount(field string) money.Amount {
	text := strings.NewReplacer(",", "", "₹", "", " ", "", "−", "-", "\u00a0", "").Replace(f.v.Field(field))
	value, err := money.Parse(strings.TrimPrefix(text, "+"))
	if err != nil {
		f.wrong(field, f.v.T("Enter an amount in rupees, such as 5000.00."))
	}
	return value
}

// positive parses an amount above zero.
func (f *form) positive(field string) money.Amount {
	value := f.amount(field)
	if f.Errors[field] == "" && !value.IsPositive() {
		f.wrong(field, f.v.T("Enter an amount above zero."))
	}
	return value
}

// number parses a whole number within limits.
func (f *form) number(field string, least, most int) int {
	n, err := strconv.Atoi(strings.ReplaceAll(f.v.Field(field), ",", ""))
	if err != nil || n < least || n > most {
		f.wrong(field, f.v.T("Enter a whole number from %s to %s.", look.Count(int64(least)), look.Count(int64(most))))
	}
	return n
}

// basisPoints parses a percentage with up to two decimals: 2.5 is 250.
func (f *form) basisPoints(field string) int {
	value, err := money.Parse(strings.TrimSpace(strings.TrimSuffix(f.v.Field(field), "%")))
	if err != nil || value.IsNegative() || money.Paise(100_00).Less(value) {
		f.wrong(field, f.v.T("Enter a percentage from 0 to 100, such as 2.5."))
		return 0
	}
	return int(value.Paise())
}

// text returns a field that must not be empty.
func (f *form) text(field string) string {
	value := f.v.Field(field)
	if value == "" {
		f.wrong(field, f.v.T("This is required."))
	}
	return value
}

// refused handles an error of a service: a refusal becomes the form's problem, any other
// error is returned.
func (f *form) refused(err error) error {
	if !refused(err) {
		return err
	}
	f.Problem = told(f.v, err)
	return nil
}

// again shows a page again, with its form's errors.
func again(v *web.Visit, page string, data any) error {
	v.Status = http.StatusUnprocessableEntity
	return v.Show(page, data)
}

// pathID parses a number in the page's path; 404 if it is not one.
func pathID(v *web.Visit, name string) (int64, error) {
	id, err := strconv.ParseInt(v.R.PathValue(name), 10, 64)
	if err != nil || id < 1 {
		return 0, web.NotFound()
	}
	return id, nil
}

// operator returns the operator in the page's path.
func (c console) operator(v *web.Visit) (subscription.Operator, error) {
	id, err := pathID(v, "id")
	if err != nil {
		return subscription.Operator{}, err
	}
	operator, err := c.service(v).Operator(v.Context(), id)
	return operator, orNotFound(err)
}

// operatorHead is the header of every page about one operator.
type operatorHead struct {
	subscription.Operator
	// Tab is the current one of the operator's pages.
	Tab string
	rights
}

// Path returns the prefix of the operator's pages.
func (h operatorHead) Path() string { return operatorPath(h.ID) }

// Closed reports whether the account is deleted: then it can only be undeleted.
func (h operatorHead) Closed() bool { return h.Status == subscription.OperatorDeleted }

// May reports whether the visitor may do an action here.
func (h operatorHead) May(action string) bool { return !h.Closed() && h.rights.May(action) }

// MayUndelete reports whether the visitor may restore a deleted account.
func (h operatorHead) MayUndelete() bool { return h.rights.May("lco undelete") }

func operatorPath(id int64) string { return "/console/operators/" + strconv.FormatInt(id, 10) }

// head returns the header for the operator in the page's path.
func (c console) head(v *web.Visit, tab string) (operatorHead, error) {
	operator, err := c.operator(v)
	return operatorHead{Operator: operator, Tab: tab, rights: rightsOf(v)}, err
}
