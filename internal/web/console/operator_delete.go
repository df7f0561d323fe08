package console

import (
	"strings"

	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
)

// deletePage asks for confirmation before an account is deleted.
type deletePage struct {
	Head   operatorHead
	Form   *form
	Wallet subscription.Wallet
	Counts report.SubscriberCounts
}

func (c console) showDelete(v *web.Visit) error { return c.deletePage(v, newForm(v, "")) }

func (c console) deletePage(v *web.Visit, f *form) error {
	head, err := c.head(v, "overview")
	if err != nil {
		return err
	}
	if head.Closed() {
		return alreadyDeleted(v, head)
	}
	data := deletePage{Head: head, Form: f}
	if data.Wallet, err = c.service(v).Wallet(v.Context(), head.ID); err != nil {
		return err
	}
	if data.Counts, err = c.Reports.Counts(v.Context(), head.ID); err != nil {
		return err
	}
	if !f.ok() {
		return again(v, "console/operator-delete", data)
	}
	return v.Show("console/operator-delete", data)
}

func alreadyDeleted(v *web.Visit, head operatorHead) error {
	return v.Redirect(head.Path(), v.Info("This account is deleted already."))
}

// deleteOperator deletes an account. Its id has to be typed, so that a click in the wrong
// row is not enough.
func (c console) deleteOperator(v *web.Visit) error {
	head, err := c.head(v, "overview")
	if err != nil {
		return err
	}
	if head.Closed() { // the second of two clicks
		return alreadyDeleted(v, head)
	}
	f := newForm(v, "delete")
	if strings.TrimSpace(v.Field("operator")) != number(head.ID) {
		f.wrong("operator", v.T("Type %s, the id of this operator.", number(head.ID)))
		return c.deletePage(v, f)
	}
	if err := c.service(v).DeleteOperator(lasting(v), head.ID); err != nil {
		if err := f.refused(err); err != nil {
			return err
		}
		return c.deletePage(v, f)
	}
	return v.Redirect(head.Path(), v.Success("%s is deleted. Its keys and logins no longer work; its records are kept.", head.Name))
}

// undeleteOperator restores a deleted account.
func (c console) undeleteOperator(v *web.Visit) error {
	head, err := c.head(v, "overview")
	if err != nil {
		return err
	}
	if !head.Closed() { // the second of two clicks
		return v.Redirect(head.Path(), v.Info("This account is open."))
	}
	f := newForm(v, "undelete")
	if _, err := c.service(v).UndeleteOperator(lasting(v), head.ID); err != nil {
		if err := f.refused(err); err != nil {
			return err
		}
		return c.operatorPage(v, f)
	}
	return v.Redirect(head.Path(), v.Success("%s is open again. Its keys and logins work as before.", head.Name))
}
