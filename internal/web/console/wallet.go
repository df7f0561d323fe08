package console

import (
	"net/http"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

func (c console) walletRoutes() []web.Route {
	const page = "/console/operators/{id}/wallet"
	return []web.Route{
		{Method: http.MethodGet, Path: page, Area: web.Console, Allow: everyone, Handle: c.showWallet},
		guarded(admin.WalletTopUp, page+"/top-up", page, c.topUp),
		guarded(admin.WalletAdjust, page+"/adjust", page, c.adjust),
	}
}

const (
	// walletDays and walletLines limit the ledger lines on a wallet's page.
	walletDays  = 90
	walletLines = 20
)

type walletPage struct {
	Head   operatorHead
	Form   *form
	Wallet subscription.Wallet
	Lines  []report.LedgerLine
	// Described translates a ledger line's description.
	Described func(description string) string
	// Waiting are the open proposals about this wallet.
	Waiting []proposal
	Above   money.Amount
	// Window is how long an amount counts towards the limit, Moved the amount that counts
	// now.
	Window string
	Moved  admin.MovedWithoutApproval
}

func (c console) showWallet(v *web.Visit) error { return c.walletPage(v, newForm(v, "")) }

func (c console) walletPage(v *web.Visit, f *form) error {
	head, err := c.head(v, "wallet")
	if err != nil {
		return err
	}
	statement, err := c.Reports.Statement(v.Context(), head.ID, report.StatementFilter{
		From: v.Now.Add(-walletDays * 24 * time.Hour), Until: v.Now, NewestFirst: true, Limit: walletLines,
	})
	if err != nil {
		return err
	}
	open, err := c.service(v).Proposals(v.Context(), admin.ProposalFilter{OperatorID: head.ID, Open: true, Limit: proposalRows})
	if err != nil {
		return err
	}
	data := walletPage{Head: head, Form: f, Wallet: statement.Wallet, Lines: statement.Rows, Described: v.LedgerText, Above: c.Limits.ApprovalAbove, Window: windowText(v, c.Limits.Window)}
	if data.Moved, err = c.service(v).MovedWithoutApproval(v.Context(), head.ID); err != nil {
		return err
	}
	if data.Waiting, err = c.seen(v, open); err != nil {
		return err
	}
	if !f.ok() {
		return again(v, "console/wallet", data)
	}
	return v.Show("console/wallet", data)
}

func (c console) topUp(v *web.Visit) error {
	operator, err := c.operator(v)
	if err != nil {
		return err
	}
	f := newForm(v, "top-up")
	amount, reference := f.positive("amount"), f.text("reference")
	if !f.ok() {
		return c.walletPage(v, f)
	}
	outcome, err := c.service(v).SubmitTopUp(lasting(v), admin.TopUp{OperatorID: operator.ID, Amount: amount, Reference: reference})
	if err != nil {
		if err := f.refused(err); err != nil {
			return err
		}
		return c.walletPage(v, f)
	}
	return v.Redirect(operatorPath(operator.ID)+"/wallet", moved(v, outcome, amount))
}

func (c console) adjust(v *web.Visit) error {
	operator, err := c.operator(v)
	if err != nil {
		return err
	}
	f := newForm(v, "adjust")
	amount, reason := f.positive("amount"), f.text("reason")
	switch v.Field("direction") {
	case "add":
	case "take":
		amount = amount.Neg()
	default:
		f.wrong("direction", v.T("Choose one of these."))
	}
	service := c.service(v).WithVoucher(f.once())
	if !f.ok() {
		return c.walletPage(v, f)
	}
	outcome, err := service.SubmitAdjustment(lasting(v), operator.ID, amount, reason)
	if err != nil {
		return c.undone(v, service, f, err, func() error { return c.walletPage(v, f) })
	}
	return v.Redirect(operatorPath(operator.ID)+"/wallet", moved(v, outcome, amount))
}

// moved redirects with a notice about a top-up or adjustment.
func moved(v *web.Visit, outcome admin.ActionResult, amount money.Amount) *look.Notice {
	switch {
	case outcome.Waits() && outcome.Already:
		return v.Info("The same was proposed before and still waits for a second person. Nothing was added.")
	case outcome.Waits() && outcome.Why != nil && !outcome.Why.Moved.IsZero():
		return v.Info("%s It now waits for somebody else to approve it.", whyText(v, outcome.Why))
	case outcome.Waits():
		return v.Info("%s is more than one person moves alone. It now waits for somebody else to approve it.", look.Rupees(amount))
	case outcome.Already:
		return v.Info("This was done before, so nothing was moved now. The wallet holds %s.", look.Rupees(outcome.Wallet.Balance))
	case amount.IsNegative():
		return v.Success("%s were taken from the wallet. It now holds %s.", look.Rupees(amount.Neg()), look.Rupees(outcome.Wallet.Balance))
	}
	return v.Success("%s were credited. The wallet now holds %s.", look.Rupees(amount), look.Rupees(outcome.Wallet.Balance))
}
