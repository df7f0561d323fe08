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

// form is a form as it is shown: what is in its fields, and what is wrong with
// them. Its zero value has neither.
type form struct {
	v *web.Visit
	// Name is which of a page's forms was sent; empty if none was.
	Name string
	// Problem is what is wrong with the form as a whole, Errors with a field.
	Problem string
	Errors  map[string]string
}

// newForm is the form that a visit sent, which is still to be judged, or the empty
// one that a page begins with.
func newForm(v *web.Visit, name string) *form {
	return &form{v: v, Name: name, Errors: map[string]string{}}
}

// Was is what was filled into a field of the form of that name, else what is given.
// Every form says its name in a hidden field, since two of a page may have a field
// in common, and one that was interrupted by a step-up is sent to neither.
func (f *form) Was(name, field, standard string) string {
	if f.v.FormValue("form", "") != name {
		return standard
	}
	return f.v.FormValue(field, standard)
}

// Wrong is what is wrong with a field of the form of that name, or nothing.
func (f *form) Wrong(name, field string) string {
	if f.Name != name {
		return ""
	}
	return f.Errors[field]
}

// ProblemOf is what is wrong with the form of that name as a whole, or nothing.
func (f *form) ProblemOf(name string) string {
	if f.Name != name {
		return ""
	}
	return f.Problem
}

// ok reports whether nothing was found wrong so far.
func (f *form) ok() bool { return f.Problem == "" && len(f.Errors) == 0 }

// wrong notes what is wrong with a field, in the visitor's language.
func (f *form) wrong(field, why string) { f.Errors[field] = why }

// amount reads a sum of money as people write it: with commas, a rupee sign, a
// minus of either kind.
func (f *form) amount(field string) money.Amount {
	text := strings.NewReplacer(",", "", "₹", "", " ", "", "−", "-", "\u00a0", "").Replace(f.v.Field(field))
	value, err := money.Parse(strings.TrimPrefix(text, "+"))
	if err != nil {
		f.wrong(field, f.v.T("Write an amount in rupees, such as 5000.00."))
	}
	return value
}

// positive reads a sum of money above zero.
func (f *form) positive(field string) money.Amount {
	value := f.amount(field)
	if f.Errors[field] == "" && !value.IsPositive() {
		f.wrong(field, f.v.T("Give an amount above zero."))
	}
	return value
}

// number reads a whole number between two others.
func (f *form) number(field string, least, most int) int {
	n, err := strconv.Atoi(strings.ReplaceAll(f.v.Field(field), ",", ""))
	if err != nil || n < least || n > most {
		f.wrong(field, f.v.T("Write a whole number from %s to %s.", look.Count(int64(least)), look.Count(int64(most))))
	}
	return n
}

// basisPoints reads a percentage with up to two decimals: 2.5 is 250.
func (f *form) basisPoints(field string) int {
	value, err := money.Parse(strings.TrimSpace(strings.TrimSuffix(f.v.Field(field), "%")))
	if err != nil || value.IsNegative() || money.Paise(100_00).Less(value) {
		f.wrong(field, f.v.T("Write a percentage from 0 to 100, such as 2.5."))
		return 0
	}
	return int(value.Paise())
}

// text reads what must not be empty.
func (f *form) text(field string) string {
	value := f.v.Field(field)
	if value == "" {
		f.wrong(field, f.v.T("This is needed."))
	}
	return value
}

// refused takes an error of a service: what a person can mend is the form's problem,
// anything else is returned.
func (f *form) refused(err error) error {
	if !refused(err) {
		return err
	}
	f.Problem = told(f.v, err)
	return nil
}

// again shows a page once more, with what was wrong in its form.
func again(v *web.Visit, page string, data any) error {
	v.Status = http.StatusUnprocessableEntity
	return v.Show(page, data)
}

// pathID is a number in the page's address; a page without it is not there.
func pathID(v *web.Visit, name string) (int64, error) {
	id, err := strconv.ParseInt(v.R.PathValue(name), 10, 64)
	if err != nil || id < 1 {
		return 0, web.NotFound()
	}
	return id, nil
}

// operator reads the operator that the page's address names.
func (c console) operator(v *web.Visit) (subscription.Operator, error) {
	id, err := pathID(v, "id")
	if err != nil {
		return subscription.Operator{}, err
	}
	operator, err := c.service(v).Operator(v.Context(), id)
	return operator, orNotFound(err)
}

// operatorHead is what every page about one operator shows above all else.
type operatorHead struct {
	subscription.Operator
	// Tab is which of its pages this is.
	Tab string
	rights
}

// Path is where the operator's pages begin.
func (h operatorHead) Path() string { return operatorPath(h.ID) }

// Closed: the account was deleted, and nothing about it changes but that it may be
// undeleted.
func (h operatorHead) Closed() bool { return h.Status == subscription.OperatorDeleted }

// May reports whether the visitor may do an act here.
func (h operatorHead) May(action string) bool { return !h.Closed() && h.rights.May(action) }

// MayUndelete reports whether the visitor may open a deleted account again.
func (h operatorHead) MayUndelete() bool { return h.rights.May("lco undelete") }

func operatorPath(id int64) string { return "/console/operators/" + strconv.FormatInt(id, 10) }

// head reads the head of a page about the operator in the address.
func (c console) head(v *web.Visit, tab string) (operatorHead, error) {
	operator, err := c.operator(v)
	return operatorHead{Operator: operator, Tab: tab, rights: rightsOf(v)}, err
}
