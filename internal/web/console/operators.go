package console

import (
	"errors"
	"net/http"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

func (c console) operatorRoutes() []web.Route {
	const one = "/console/operators/{id}"
	return []web.Route{
		{Method: http.MethodGet, Path: "/console/operators", Area: web.Console, Allow: everyone, Keys: "g o", Menu: look.Text("Operators"), Icon: "building-2", Handle: c.operators},
		{Method: http.MethodGet, Path: "/console/new-operator", Area: web.Console, Allow: whoMay(admin.OperatorCreate), Keys: "n", KeysText: look.Text("New operator"), Under: "/console/operators", Handle: c.newOperator},
		actionRoute(admin.OperatorCreate, "/console/new-operator", "", c.createOperator),
		{Method: http.MethodGet, Path: one, Area: web.Console, Allow: everyone, Handle: c.showOperator},
		actionRoute(admin.OperatorSet, one+"/status", one, c.setStatus),
		actionRoute(admin.OperatorSet, one+"/api", one, c.setAPI),
		actionRoute(admin.OperatorSet, one+"/rate-limit", one, c.setRateLimit),
		actionRoute(admin.OperatorSet, one+"/low-balance", one, c.setLowBalance),
		actionRoute(admin.OperatorSet, one+"/receipt-details", one, c.setReceiptDetails),
		guarded(admin.OperatorSet, one+"/second-factor", one, c.setSecondFactor),
		guarded(admin.OperatorSet, one+"/commission", one, c.setCommission),
		{Method: http.MethodGet, Path: one + "/delete", Area: web.Console, Allow: whoMay(admin.OperatorDelete), Handle: c.showDelete},
		guarded(admin.OperatorDelete, one+"/delete", "", c.deleteOperator),
		guarded(admin.OperatorUndelete, one+"/undelete", one, c.undeleteOperator),
	}
}

// accountRows is the number of operators on a page.
const accountRows = web.PageRows

type operatorsPage struct {
	Search, Status string
	Rows           []report.Account
	Pager          web.Pager
	// Later is the address of the list with what falls due; empty if this is it.
	Later string
	rights
}

func (c console) operators(v *web.Visit) error {
	data := operatorsPage{Search: v.Query("q"), Status: v.Query("status"), rights: rightsOf(v)}
	found, err := c.Reports.Accounts(v.Context(), report.AccountFilter{
		Search: data.Search, Status: subscription.OperatorStatus(data.Status), Counted: true, After: v.Query("after"), Limit: accountRows,
	})
	if errors.Is(err, report.ErrCursor) {
		return web.NotFound()
	}
	if err != nil {
		return err
	}
	dues, later, err := c.Reports.WeekDues(v.Context(), v.ByHTMX())
	if err != nil {
		return err
	}
	for i := range found.Rows {
		found.Rows[i].Due = dues[found.Rows[i].ID]
	}
	if later {
		data.Later = v.R.URL.RequestURI()
	}
	data.Rows, data.Pager = found.Rows, v.Pager(found.Next)
	if v.ByHTMX() {
		return v.ShowPart("console/operators", "list", data)
	}
	return v.Show("console/operators", data)
}

type newOperatorPage struct {
	Form *form
	// The defaults of a new operator.
	RateLimit  int
	LowBalance money.Amount
}

func newOperatorData(f *form) newOperatorPage {
	return newOperatorPage{Form: f, RateLimit: subscription.DefaultRateLimit, LowBalance: subscription.DefaultLowBalance}
}

func (c console) newOperator(v *web.Visit) error {
	return v.Show("console/new-operator", newOperatorData(newForm(v, "")))
}

func (c console) createOperator(v *web.Visit) error {
	f := newForm(v, "create")
	name, rate, commission, low := f.text("name"), f.number("rate_limit", 1, 1_000_000), f.basisPoints("commission"), f.amount("low_balance")
	service := c.service(v).WithVoucher(f.once())
	show := func() error { return again(v, "console/new-operator", newOperatorData(f)) }
	if !f.ok() {
		return show()
	}
	made, err := service.CreateOperator(lasting(v), name, admin.OperatorChange{RateLimit: &rate, CommissionBPS: &commission, LowBalance: &low})
	if err != nil {
		return c.undone(v, service, f, err, show)
	}
	return v.Redirect(operatorPath(made.ID), v.Success("%s was created. Next: create a login, issue a key and add the addresses it calls from.", made.Name))
}

// recentEntries is the number of audit entries on an operator's page.
const recentEntries = 8

type operatorPage struct {
	Head   operatorHead
	Form   *form
	Wallet subscription.Wallet
	// Short says why the wallet holds too little; empty if it does not.
	Short   string
	Counts  report.SubscriberCounts
	Entries []shownEntry
}

func (c console) showOperator(v *web.Visit) error { return c.operatorPage(v, newForm(v, "")) }

// operatorPage shows an operator, with a refused form if there is one.
func (c console) operatorPage(v *web.Visit, f *form) error {
	head, err := c.head(v, "overview")
	if err != nil {
		return err
	}
	data := operatorPage{Head: head, Form: f}
	service := c.service(v)
	if data.Wallet, err = service.Wallet(v.Context(), head.ID); err != nil {
		return err
	}
	if data.Counts, err = c.Reports.Counts(v.Context(), head.ID); err != nil {
		return err
	}
	if data.Short, err = c.short(v, data.Wallet); err != nil {
		return err
	}
	recent, err := service.FindAuditEntries(v.Context(), admin.AuditQuery{OperatorID: head.ID, Limit: recentEntries})
	if err != nil {
		return err
	}
	for _, entry := range recent.Entries {
		data.Entries = append(data.Entries, shownEntry{entry, v.Who})
	}
	if !f.ok() {
		return again(v, "console/operator", data)
	}
	return v.Show("console/operator", data)
}

// short says why a wallet holds too little: less than its threshold, or than what falls due within 7 days.
func (c console) short(v *web.Visit, wallet subscription.Wallet) (string, error) {
	due, err := c.Reports.WeekDue(v.Context(), wallet.OperatorID)
	switch {
	case err != nil:
		return "", err
	case wallet.Low():
		return v.T("low below %s", look.Rupees(wallet.LowBelow)), nil
	case wallet.Balance.Less(due):
		return v.T("%s due in 7 days", look.Rupees(due)), nil
	}
	return "", nil
}

// Percent formats basis points as a percentage: 250 is 2.50.
func (h operatorHead) Percent() string { return money.Paise(int64(h.CommissionBPS)).String() }

// change parses one form of an operator's page: it returns the change, or sets the form's
// errors.
func (c console) change(v *web.Visit, name string, read func(*form) admin.OperatorChange) error {
	operator, err := c.operator(v)
	if err != nil {
		return err
	}
	f := newForm(v, name)
	change := read(f)
	if !f.ok() {
		return c.operatorPage(v, f)
	}
	changed, err := c.service(v).ChangeOperator(lasting(v), operator.ID, change)
	if err != nil {
		if err := f.refused(err); err != nil {
			return err
		}
		return c.operatorPage(v, f)
	}
	return v.Redirect(operatorPath(changed.ID), v.Success("Changed. The new setting applies immediately, on every node."))
}

func (c console) setStatus(v *web.Visit) error {
	return c.change(v, "status", func(*form) admin.OperatorChange {
		status := subscription.OperatorStatus(v.Field("status"))
		return admin.OperatorChange{Status: &status}
	})
}

func (c console) setAPI(v *web.Visit) error {
	return c.change(v, "api", func(*form) admin.OperatorChange {
		api := subscription.APIAccess(v.Field("api"))
		return admin.OperatorChange{API: &api}
	})
}

func (c console) setRateLimit(v *web.Visit) error {
	return c.change(v, "rate-limit", func(f *form) admin.OperatorChange {
		rate := f.number("rate_limit", 1, 1_000_000)
		return admin.OperatorChange{RateLimit: &rate}
	})
}

func (c console) setLowBalance(v *web.Visit) error {
	return c.change(v, "low-balance", func(f *form) admin.OperatorChange {
		low := f.amount("low_balance")
		return admin.OperatorChange{LowBalance: &low}
	})
}

func (c console) setReceiptDetails(v *web.Visit) error {
	return c.change(v, "receipt-details", func(*form) admin.OperatorChange {
		address, gstin := v.Field("address"), subscription.ReadGSTIN(v.Field("gstin"))
		return admin.OperatorChange{Address: &address, GSTIN: &gstin}
	})
}

func (c console) setSecondFactor(v *web.Visit) error {
	return c.change(v, "second-factor", func(f *form) admin.OperatorChange {
		required := v.Field("second_factor") == "required"
		if !required && v.Field("second_factor") != "optional" {
			f.wrong("second_factor", v.T("Choose one of these."))
		}
		return admin.OperatorChange{SecondFactorRequired: &required}
	})
}

func (c console) setCommission(v *web.Visit) error {
	return c.change(v, "commission", func(f *form) admin.OperatorChange {
		rate := f.basisPoints("commission")
		return admin.OperatorChange{CommissionBPS: &rate}
	})
}
