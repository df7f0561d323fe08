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
	// Short says why it holds too little; empty if it does not.
	Short string
	Lines []report.LedgerLine
	// Described translates a ledger line's description.
	Described func(description string) string
	// Waiting are the open proposals about this wallet.
	Waiting []proposal
	Above   money.Amount
	// Window is how long an amount counts towards the limit, Moved the amount that counts
	// now.
	Window string
	Moved  admin.MovedWithoutApproval
	// Amount and Reference prefill a top-up, as a link of a bank's line asks for.
	Amount, Reference string
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
	data := walletPage{Head: head, Form: f, Wallet: statement.Wallet, Lines: statement.Rows, Described: v.LedgerText, Above: c.Limits.ApprovalAbove, Window: windowText(v, c.Limits.Window),
		Amount: v.Query("amount"), Reference: v.Query("reference")}
	if data.Short, err = c.short(v, statement.Wallet); err != nil {
		return err
	}
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
	topUp := admin.TopUp{OperatorID: operator.ID, Amount: amount, Reference: reference}
	switch {
	case v.Field("step") == editStep || !f.ok():
		return c.walletPage(v, f)
	case v.Field("step") != confirmStep:
		return c.confirmTopUp(v, f, topUp)
	}
	outcome, err := c.service(v).SubmitTopUp(lasting(v), topUp)
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
	switch {
	case v.Field("step") == editStep || !f.ok():
		return c.walletPage(v, f)
	case v.Field("step") != confirmStep:
		return c.confirmWallet(v, f, amount, "")
	}
	outcome, err := service.SubmitAdjustment(lasting(v), operator.ID, amount, reason)
	if err != nil {
		return c.undone(v, service, f, err, func() error { return c.walletPage(v, f) })
	}
	return v.Redirect(operatorPath(operator.ID)+"/wallet", moved(v, outcome, amount))
}

// The steps of a form that moves money. Without one the form is only asked about.
const (
	confirmStep = "confirm"
	editStep    = "edit"
)

// confirmWalletPage asks once more before a top-up or adjustment is posted.
type confirmWalletPage struct {
	Head operatorHead
	Form *form
	// Amount is negative if it is taken from the wallet.
	Amount         money.Amount
	Balance, After money.Amount
	// Held is not part of these balances.
	Held money.Amount
	// Why says why the amount will wait for a second person; empty if it will not.
	Why string
	// Credited says what the reference was credited for; empty if it was not. Nothing is offered then.
	Credited string
}

// TopUp reports whether it is a top-up and not an adjustment.
func (p confirmWalletPage) TopUp() bool { return p.Form.Name == "top-up" }

// Action returns the URL that the form is posted to.
func (p confirmWalletPage) Action() string { return p.Head.Path() + "/wallet/" + p.Form.Name }

// Unsigned is the amount as the form has it.
func (p confirmWalletPage) Unsigned() money.Amount {
	if p.Amount.IsNegative() {
		return p.Amount.Neg()
	}
	return p.Amount
}

// confirmTopUp shows what a top-up would post, or that its reference was credited before.
func (c console) confirmTopUp(v *web.Visit, f *form, topUp admin.TopUp) error {
	before, found, err := c.service(v).CreditUnder(v.Context(), topUp)
	if err != nil {
		return err
	}
	if !found {
		return c.confirmWallet(v, f, topUp.Amount, "")
	}
	names, err := c.operatorNames(v)
	if err != nil {
		return err
	}
	return c.confirmWallet(v, f, topUp.Amount, v.T("%s was credited under this reference on %s to %s: nothing will be credited.",
		look.Rupees(before.Amount), v.Look.When(v.Language(), before.At), names[before.OperatorID]))
}

// confirmWallet shows what a form would post. Nothing is posted.
func (c console) confirmWallet(v *web.Visit, f *form, amount money.Amount, credited string) error {
	head, err := c.head(v, "wallet")
	if err != nil {
		return err
	}
	wallet, err := c.service(v).Wallet(v.Context(), head.ID)
	if err != nil {
		return err
	}
	why, err := c.service(v).NeedsApproval(v.Context(), head.ID, amount)
	if err != nil {
		return err
	}
	return v.Show("console/wallet-confirm", confirmWalletPage{
		Head: head, Form: f, Amount: amount, Balance: wallet.Balance, After: wallet.Balance.Add(amount), Held: wallet.Held, Why: whyText(v, why), Credited: credited,
	})
}

// moved redirects with a notice about a top-up or adjustment.
func moved(v *web.Visit, outcome admin.ActionResult, amount money.Amount) *look.Notice {
	switch {
	case outcome.Waits() && outcome.Already:
		return v.Info("The same proposal already needs a second approval. Nothing was added.")
	case outcome.Waits() && outcome.Why != nil && !outcome.Why.Moved.IsZero():
		return v.Info("%s It now needs a second approval.", whyText(v, outcome.Why))
	case outcome.Waits():
		return v.Info("%s is above the limit for one person. It now needs a second approval.", look.Rupees(amount))
	case outcome.Already:
		return v.Info("This was already done; no money was moved now. The wallet balance is %s.", look.Rupees(outcome.Wallet.Balance))
	case amount.IsNegative():
		return v.Success("%s deducted. The wallet balance is now %s.", look.Rupees(amount.Neg()), look.Rupees(outcome.Wallet.Balance))
	}
	return v.Success("%s credited. The wallet balance is now %s.", look.Rupees(amount), look.Rupees(outcome.Wallet.Balance))
}
