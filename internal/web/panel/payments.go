package panel

import (
	"cmp"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const addMoneyPath = "/panel/add-money"

// paymentRoutes are the page on which an operator's people see where to pay and announce what
// they have paid.
func (p panel) paymentRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: addMoneyPath, Area: web.Panel, Allow: everyone, Keys: "g a", Menu: look.Text("Add money"), Icon: "wallet", Handle: p.showAddMoney},
		{Method: http.MethodPost, Path: addMoneyPath, Area: web.Panel, Allow: counters, Handle: p.announce},
		{Method: http.MethodGet, Path: addMoneyPath + "/{id}/withdraw", Area: web.Panel, Allow: counters, Handle: p.confirmWithdrawal},
		{Method: http.MethodPost, Path: addMoneyPath + "/{id}/withdraw", Area: web.Panel, Allow: counters, Form: addMoneyPath, Handle: p.withdrawAnnouncement},
	}
}

// addMoneyPage shows where to pay, the form of an announcement, and those that were made.
type addMoneyPage struct {
	Bank admin.BankDetails
	// Code is our reference of the payment that is about to be made.
	Code string
	// Asked is the amount that the QR code asks for, as it was typed; Wrong is what is wrong
	// with it.
	Asked, Wrong string
	Pays         money.Amount
	QR           template.HTML
	// Link opens a UPI app on the same phone.
	Link    template.URL
	Methods []look.Choice
	Today   string

	Rows  []announcementRow
	Links web.Pager
	announcedMoney

	// Fields are the form's values.
	Fields  map[string]string
	Problem string
	Errors  map[string]string
}

// announcedMoney counts the open announcements of an operator, and adds them up.
type announcedMoney struct {
	Open int
	Sum  money.Amount
}

// announcementRow is an announced payment in a list.
type announcementRow struct {
	admin.Announcement
	// Differs: another amount was credited than announced.
	Differs bool
}

func (p panel) showAddMoney(v *web.Visit) error { return p.addMoney(v, "", nil) }

func (p panel) addMoney(v *web.Visit, problem string, wrong map[string]string) error {
	page := addMoneyPage{
		Bank: p.Payments.Bank, Problem: problem, Errors: wrong, Today: report.Day(v.Now).Format(dayForm), Asked: v.FormValue("asked", v.Query("amount")),
		Code: cmp.Or(v.FormValue("code", ""), v.Query("code")),
	}
	if !admin.ValidPaymentCode(page.Code) {
		page.Code = v.Offer(admin.ValidPaymentCode, admin.NewPaymentCode)
	}
	for _, method := range admin.Methods {
		page.Methods = append(page.Methods, look.Choice{Value: string(method), Text: v.T(method.Name())})
	}
	if page.Asked != "" && page.Bank.UPIID != "" {
		if err := page.draw(v); err != nil {
			return err
		}
	}
	page.Fields = map[string]string{
		"amount": v.FormValue("amount", page.Asked), "method": v.FormValue("method", string(admin.MethodUPI)), "reference": v.FormValue("reference", ""),
		"paid_on": v.FormValue("paid_on", page.Today), "note": v.FormValue("note", ""),
	}
	before, _ := strconv.ParseInt(v.Query("after"), 10, 64)
	announced, err := p.Payments.Announcements(v.Context(), v.Operator(), before, web.PageRows+1)
	if err != nil {
		return err
	}
	next := ""
	if len(announced) > web.PageRows {
		announced = announced[:web.PageRows]
		next = strconv.FormatInt(announced[len(announced)-1].ID, 10)
	}
	page.Links = v.Pager(next)
	for _, a := range announced {
		page.Rows = append(page.Rows, announcementRow{a, a.State == admin.Credited && a.Credited != a.Amount})
	}
	if page.Open, page.Sum, err = p.Payments.Announced(v.Context(), v.Operator()); err != nil {
		return err
	}
	if problem != "" || len(wrong) > 0 {
		v.Status = http.StatusUnprocessableEntity
	}
	return v.Show("panel/add-money", page)
}

// draw draws the QR code of the amount that was asked for.
func (page *addMoneyPage) draw(v *web.Visit) error {
	amount, ok := readAmount(page.Asked)
	if !ok {
		page.Wrong = v.T("Write an amount above zero in rupees, such as 5000 or 5,000.00.")
		return nil
	}
	page.Pays, page.Asked = amount, strings.TrimPrefix(look.Rupees(amount), "₹")
	link := upiLink(page.Bank, amount, page.Code)
	page.Link = template.URL(link)
	var err error
	page.QR, err = web.DrawQR(link, v.T("UPI QR code for %s", look.Rupees(amount)))
	return err
}

// upiLink is what a UPI app reads from a QR code: whom to pay, how much, and our reference,
// which the bank's statement shows.
func upiLink(bank admin.BankDetails, amount money.Amount, code string) string {
	name := strings.ReplaceAll(url.QueryEscape(cmp.Or(bank.PayeeName, bank.AccountName)), "+", "%20")
	return "upi://pay?pa=" + bank.UPIID + "&pn=" + name + "&am=" + amount.String() + "&cu=INR&tn=" + code + "&tr=" + code
}

// readAmount parses an amount above zero, with commas, blanks and a rupee sign.
func readAmount(text string) (money.Amount, bool) {
	amount, err := money.Parse(strings.NewReplacer(",", "", "₹", "", " ", "", "\u00a0", "").Replace(text))
	return amount, err == nil && amount.IsPositive()
}

func (p panel) payer(v *web.Visit) admin.Payer {
	payer := admin.Payer{OperatorID: v.Operator(), Actor: v.Actor()}
	if v.Address.IsValid() {
		payer.Origin = v.Address.Unmap().WithZone("").String()
	}
	return payer
}

func (p panel) announce(v *web.Visit) error {
	wrong := map[string]string{}
	amount, ok := readAmount(v.Field("amount"))
	if !ok {
		wrong["amount"] = v.T("Write an amount above zero in rupees, such as 5000 or 5,000.00.")
	}
	paidOn, err := admin.PaymentDay(v.Field("paid_on"))
	if err != nil {
		wrong["paid_on"] = v.T("Give the day of the payment.")
	}
	if v.Field("reference") == "" {
		wrong["reference"] = v.T("This is required.")
	} else if _, err := admin.CheckPaymentReference(admin.Method(v.Field("method")), v.Field("reference")); err != nil {
		wrong["reference"] = sentence(v, err)
	}
	if len(wrong) > 0 {
		return p.addMoney(v, "", wrong)
	}
	made, known, err := p.Payments.Announce(lasting(v), p.payer(v), admin.NewAnnouncement{
		Code: v.Field("code"), Amount: amount, Method: admin.Method(v.Field("method")), Reference: v.Field("reference"), PaidOn: paidOn, Note: v.Field("note"),
	})
	if why := told(v, err); why != "" {
		return p.addMoney(v, why, nil)
	}
	if err != nil {
		return err
	}
	v.TakeOffer()
	notice := v.Success("Payment of %s reported. It will be added to your wallet when the MSO confirms it.", look.Rupees(made.Amount))
	if known {
		notice = v.Info("This payment was announced before. Nothing was added.")
	}
	return v.Redirect(addMoneyPath, notice)
}

// sentence is admin's refusal in the visitor's language, as a sentence of its own.
func sentence(v *web.Visit, err error) string {
	var refusal *admin.Refusal
	if !errors.As(err, &refusal) {
		return err.Error()
	}
	first, size := utf8.DecodeRuneInString(say(v, refusal))
	return string(unicode.ToUpper(first)) + say(v, refusal)[size:] + "."
}

// announcement returns the announcement in the path.
func (p panel) announcement(v *web.Visit) (a admin.Announcement, err error) {
	id, err := number(v, "id")
	if err != nil {
		return a, err
	}
	a, err = p.Payments.Announcement(v.Context(), v.Operator(), id)
	return a, orNotFound(err)
}

// confirmWithdrawal asks whether an announcement is to be withdrawn.
func (p panel) confirmWithdrawal(v *web.Visit) error {
	a, err := p.announcement(v)
	if err != nil {
		return err
	}
	if !a.Open() {
		return v.Redirect(addMoneyPath, v.Info("This payment has already been processed."))
	}
	return v.Show("panel/withdraw-payment", announcementRow{Announcement: a})
}

func (p panel) withdrawAnnouncement(v *web.Visit) error {
	a, err := p.announcement(v)
	if err != nil {
		return err
	}
	_, err = p.Payments.Withdraw(lasting(v), p.payer(v), a.ID)
	if why := told(v, err); why != "" {
		return p.addMoney(v, why, nil)
	}
	if err != nil {
		return err
	}
	return v.Redirect(addMoneyPath, v.Success("The announcement of %s with UTR %s is withdrawn. No money was moved.", look.Rupees(a.Amount), a.Reference))
}
