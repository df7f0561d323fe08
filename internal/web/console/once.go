package console

import (
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/web"
)

// Once returns the voucher of the named form: the posted one if the form was refused, else a
// new one.
func (f *form) Once(name string) string {
	if brought, ok := f.v.Voucher(); ok && f.v.FormValue("form", "") == name {
		return brought
	}
	return web.NewVoucher()
}

// once returns the voucher of the posted form.
func (f *form) once() string {
	voucher, brought := f.v.Voucher()
	if !brought {
		f.Problem = f.v.T("The form was incomplete. Fill it in again.")
	}
	return voucher
}

// undone handles the error of an action with a voucher. If the form was sent before and
// succeeded then, it shows that result. Otherwise it shows the form again with the refusal.
func (c console) undone(v *web.Visit, service *admin.Service, f *form, err error, show func() error) error {
	if !refused(err) {
		return err
	}
	first, found, lookUp := service.Done(v.Context())
	switch {
	case lookUp != nil:
		return lookUp
	case found:
		return c.showDone(v, first)
	}
	f.Problem = told(v, err)
	return show()
}

// donePage says that a form was sent twice, and what it did the first time.
type donePage struct {
	Entry auditedEntry
	// Key or Login: what was created has a secret that was shown once.
	Key, Login bool
	// Path is the URL of what was created.
	Path string
}

// showDone shows what the form did when it was first sent. It says so if a secret was shown
// then and cannot be shown again.
func (c console) showDone(v *web.Visit, first admin.AuditEntry) error {
	_, id, _ := strings.Cut(first.Subject, " ")
	entry, err := c.audited(v, first)
	if err != nil {
		return err
	}
	page := donePage{Entry: entry}
	switch admin.Action(first.Action) {
	case admin.OperatorCreate:
		return v.Redirect(operatorPath(first.OperatorID), v.Info("This form was already sent, and the operator was created then. It was not created twice."))
	case admin.KeyIssue, admin.KeyRotate:
		page.Key, page.Path = true, operatorPath(first.OperatorID)+"/keys/"+id
	case admin.LoginCreate, admin.LoginResetPassword:
		page.Login, page.Path = true, staffPath+"/"+id
		if first.OperatorID != 0 {
			page.Path = operatorPath(first.OperatorID) + "/logins/" + id
		}
	case admin.WalletAdjust, admin.ProposalMake:
		return v.Redirect(operatorPath(first.OperatorID)+"/wallet", v.Info("This form was already sent and carried out or proposed. No money was moved now."))
	}
	return v.Show("console/done", page)
}
