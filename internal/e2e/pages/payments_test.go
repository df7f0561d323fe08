package pages

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/sheet"
)

// announcementForm is the form of an announced payment, made today.
func announcementForm(w *e2e.Env, amount, method, reference string) url.Values {
	return url.Values{"amount": {amount}, "method": {method}, "reference": {reference}, "paid_on": {report.Day(w.Now()).Format("2006-01-02")}}
}

// statementOf returns a statement as SBI exports it, with lines of today: narration and credit.
func statementOf(w *e2e.Env, lines ...[2]string) string {
	var b strings.Builder
	b.WriteString("Account Name     : ,DEMO CABLE DISTRIBUTION,,,,,\nTxn Date,Value Date,Description,Ref No./Cheque No.,        Debit,Credit,Balance\n")
	day := report.Day(w.Now()).Format("2 Jan 2006")
	for _, line := range lines {
		fmt.Fprintf(&b, "%s,%s,%q,TRANSFER FROM 4897690162091, ,%q,\"9,99,999.00\"\n", day, day, line[0], line[1])
	}
	fmt.Fprintf(&b, "%s,%s,TO TRANSFER-UPI/DR/631245678999/BSNL,TRANSFER TO 4897693162095,\"1,179.00\", ,\"9,98,820.00\"\n", day, day)
	return b.String()
}

// sbiColumns are the columns of statementOf, as the form has them.
func sbiColumns(content string) url.Values {
	return url.Values{
		"form": {"columns"}, "name": {"november.csv"}, "content": {base64.RawURLEncoding.EncodeToString([]byte(content))}, "date": {"0"}, "narration": {"2"}, "reference": {"3"}, "credit": {"5"}, "amount": {"-1"}, "side": {"-1"},
	}
}

// An operator announces payments; staff upload the bank's statement, approve what matches, and
// the wallet grows by exactly that: once, and above the limit only with a second person.
func TestPayments_AnnouncedMatchedAndCredited(t *testing.T) {
	w := e2e.NewEnv(t)
	owner, staff, second := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Admin), w.SignIn(t, w.Demo.Finance)
	balance := func(want string) {
		t.Helper()
		if wallet, err := w.Admin.Wallet(t.Context(), w.Demo.LCOID); err != nil || wallet.Balance != e2e.Rupees(t, want) {
			t.Errorf("the wallet holds %s, %v; want %s", wallet.Balance, err, want)
		}
	}
	announce := func(amount, method, reference string) {
		t.Helper()
		owner.Post("/panel/add-money", announcementForm(w, amount, method, reference)).RedirectsTo(t, "/panel/add-money")
	}
	calm := func(want bool) {
		t.Helper()
		if page := staff.Get("/console/"); strings.Contains(page.Body, "No action needed.") != want {
			t.Errorf("the console's home says that no action is needed: %t; want %t\n%s", !want, want, plainText(page.Body))
		}
	}
	balance("10000.00")
	calm(true)
	offered := owner.Get("/panel/add-money?amount=5,000").Shows(t, http.StatusOK, "50100000012345", "DEMO0000001", "democable@demobank", `class="qr"`, `href="upi://pay?pa=democable@demobank`, "am=5000.00", "it pays ₹5,000.00 with", "UPI QR code for ₹5,000.00")
	code := offered.HiddenFields().Get("code")
	if again := owner.Get("/panel/add-money").Shows(t, http.StatusOK, code).HiddenFields().Get("code"); again != code {
		t.Errorf("the page offers %q when it is loaded again; want %q until it is used", again, code)
	}
	form := announcementForm(w, "5,000", "upi", "6312 4567 8901")
	form.Set("code", code)
	owner.Post("/panel/add-money", form).RedirectsTo(t, "/panel/add-money")
	owner.Post("/panel/add-money", form).RedirectsTo(t, "/panel/add-money") // sent twice
	calm(false)
	owner.Get("/panel/add-money").Shows(t, http.StatusOK, "This payment was announced before.", code, "631245678901")
	if next := owner.Get("/panel/add-money").HiddenFields().Get("code"); next == code {
		t.Errorf("%q is offered after it was used", next)
	}
	announce("60000", "neft", "sbin526306123456")
	announce("700", "upi", "631245670007")
	announce("900", "imps", "631245670009")
	owner.Post("/panel/add-money", announcementForm(w, "1", "upi", "631245670007")).Shows(t, http.StatusUnprocessableEntity, "is announced already")
	owner.Post("/panel/add-money", announcementForm(w, "1", "upi", "12345")).Shows(t, http.StatusUnprocessableEntity, "Enter a valid UTR: UPI and IMPS have 12 digits, such as 526123456789.")
	owner.Get("/panel/statement").Shows(t, http.StatusOK, "announced payments of ₹66,600.00 in all are not in the wallet yet.")
	balance("10000.00")

	staff.Get("/console/payments").Shows(t, http.StatusOK, "₹66,600.00", code)
	content := statementOf(w,
		[2]string{"BY TRANSFER-UPI/CR/6312 45678901/RAVI KUM/HDFC/" + code, "5,000.00"},
		[2]string{"BY TRANSFER-NEFT*SBIN0000454*SBIN526306123456*RAVI CABLE", "60,000.00"},
		[2]string{"BY TRANSFER-IMPS/631245670009/RAVI", "899.00"},
		[2]string{"CASH DEPOSIT SELF", "12,000.00"})
	staff.Upload("/console/payments/statements", "file", "november.csv", content).Shows(t, http.StatusOK, "Which column is which?", `<option value="5" selected>Credit</option>`)
	staff.Post("/console/payments/columns", sbiColumns(content)).RedirectsTo(t, "/console/payments/statements/1")
	staff.Get("/console/payments/statements/1").Shows(t, http.StatusOK, "Amount fits 2", "Amount differs 1", "Not announced 1", "1 debit was left out.", `value="1-1" data-paise="500000" checked`, `value="2-2" data-paise="6000000" checked`)
	owner.Get("/panel/add-money").Shows(t, http.StatusOK, "Found at the bank", "Announced")
	balance("10000.00")

	// Looking at the sum credits nothing.
	chosen := url.Values{"form": {"credit"}, "kind": {"exact"}, "line": {"1-1", "2-2"}}
	staff.Post("/console/payments/statements/1/credit", chosen).Shows(t, http.StatusOK, "Nothing is posted yet", "Credit ₹65,000.00")
	balance("10000.00")
	chosen.Set("step", "confirm")
	staff.Post("/console/payments/statements/1/credit", chosen).RedirectsTo(t, "/console/payments/statements/1")
	staff.Get("/console/payments/statements/1").Shows(t, http.StatusOK, "1 credited, ₹5,000.00 in all. 1 more need a second approval, ₹60,000.00 in all.")
	balance("15000.00")
	owner.Get("/panel/add-money").Shows(t, http.StatusOK, "Credited", "Needs a second approval")

	// Nobody approves their own; somebody else does.
	staff.Post("/console/approvals/1/approve", nil).Shows(t, http.StatusUnprocessableEntity)
	balance("15000.00")
	second.Post("/console/approvals/1/approve", nil).RedirectsTo(t, "/console/approvals")
	balance("75000.00")

	// The same lines and the same file again credit nothing.
	staff.Post("/console/payments/statements/1/credit", chosen).Shows(t, http.StatusUnprocessableEntity, "Choose the lines to credit first.")
	staff.Upload("/console/payments/statements", "file", "again.csv", content).RedirectsTo(t, "/console/payments/statements/1")
	staff.Get("/console/payments/statements/1?kind=credited").Shows(t, http.StatusOK, "Every credit of this file was uploaded before.", "Credited 2")
	balance("75000.00")

	// What differs is credited as the bank received it.
	staff.Post("/console/payments/statements/1/credit", url.Values{"form": {"credit"}, "kind": {"differs"}, "line": {"3-4"}, "step": {"confirm"}}).RedirectsTo(t, "/console/payments/statements/1")
	balance("75899.00")
	owner.Get("/panel/add-money").Shows(t, http.StatusOK, "₹899.00 credited")

	// A line that nobody announced goes through the form of a top-up.
	staff.Get("/console/payments/statements/1/4").Shows(t, http.StatusOK, "CASH DEPOSIT SELF", "Fill in the top-up", `<option value="" selected>Choose the operator`)
	filled := staff.Get(fmt.Sprintf("/console/payments/statements/1/4?operator=%d", w.Demo.LCOID))
	if filled.Status != http.StatusSeeOther {
		t.Fatalf("status %d", filled.Status)
	}
	staff.Get(filled.Location).Shows(t, http.StatusOK, `value="12000.00"`, `value="BANK-`)
	at, _ := url.Parse(filled.Location)
	topUp := url.Values{"form": {"top-up"}, "amount": {at.Query().Get("amount")}, "reference": {at.Query().Get("reference")}, "step": {"confirm"}}
	staff.Post(at.Path+"/top-up", topUp).RedirectsTo(t, at.Path)
	balance("87899.00")
	staff.Get("/console/payments/statements/1/4").Shows(t, http.StatusOK, "₹12,000.00 were credited under this reference")

	// Each is found by the bank's reference and by our code.
	for text, want := range map[string]string{"6312 4567 8901": "/console/payments/1", strings.ToLower(code): "/console/payments/1", topUp.Get("reference"): at.Path} {
		staff.Get(searched("console", text)).RedirectsTo(t, want)
	}
	for _, text := range []string{"6312-45678901", strings.ToLower(code)} {
		owner.Get(searched("panel", text)).Shows(t, http.StatusOK, "Payments", "631245678901", code, "₹5,000.00", "Credited", "/panel/add-money?after=2#announced")
	}
	owner.Get(searched("panel", topUp.Get("reference"))).Shows(t, http.StatusOK, "₹12,000.00", "Credited", "/panel/statement?from=")
	owner.Get("/panel/add-money?after=2").Shows(t, http.StatusOK, "631245678901")
	// The list of what staff did says which money, and whose.
	staff.Get("/console/audit-log").Shows(t, http.StatusOK, "Wallet of Demo Cable", "₹60,000.00", "₹12,000.00", "₹899.00", "Announced payment "+code, "Top up the wallet", "Proposal 1 · SBIN526306123456", "Bank statement november.csv")

	// A rejection needs a reason, which the operator sees.
	staff.Post("/console/payments/3/reject", url.Values{"form": {"reject"}}).Shows(t, http.StatusUnprocessableEntity, "This is required.")
	staff.Post("/console/payments/3/reject", url.Values{"form": {"reject"}, "reason": {"No such payment at the bank"}}).RedirectsTo(t, "/console/payments/3")
	owner.Get("/panel/add-money").Shows(t, http.StatusOK, "Rejected", "No such payment at the bank")
	if strings.Contains(owner.Get("/panel/statement").Body, "not in the wallet yet") {
		t.Error("the statement still shows announced money")
	}

	entries, err := w.Admin.FindAuditEntries(t.Context(), admin.AuditQuery{Action: string(admin.WalletTopUp), Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, entry := range entries.Entries {
		if strings.Contains(entry.After, `"announcement":"CXP`) {
			named++
		}
	}
	if named != 3 {
		t.Errorf("%d top-ups name an announcement; want 3", named)
	}
	w.CheckAudit()
}

// A payment that is announced after the statement was uploaded is found in it.
func TestPayments_AnnouncedAfterTheStatement(t *testing.T) {
	w := e2e.NewEnv(t)
	owner, staff := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Admin)
	staff.Post("/console/payments/columns", sbiColumns(statementOf(w, [2]string{"UPI/CR/631245678901/RAVI", "5,000.00"}))).RedirectsTo(t, "/console/payments/statements/1")
	staff.Get("/console/payments/statements/1").Shows(t, http.StatusOK, "Not announced 1")
	owner.Post("/panel/add-money", announcementForm(w, "5000", "upi", "631245678901")).RedirectsTo(t, "/panel/add-money")
	owner.Get("/panel/add-money").Shows(t, http.StatusOK, "It will be added to your wallet when the MSO confirms it.", "Found at the bank")
	staff.Get("/console/payments/statements/1").Shows(t, http.StatusOK, "Amount fits 1")
	// It is withdrawn once that was confirmed; the line is free again.
	owner.Get("/panel/add-money").Shows(t, http.StatusOK, `href="/panel/add-money/1/withdraw"`)
	owner.Get("/panel/add-money/1/withdraw").Shows(t, http.StatusOK, "Withdraw this payment?", "Withdraw ₹5,000.00", "631245678901", `method="post" action="/panel/add-money/1/withdraw"`, "Keep it")
	owner.Get("/panel/add-money").Shows(t, http.StatusOK, "Found at the bank")
	owner.Post("/panel/add-money/1/withdraw", nil).RedirectsTo(t, "/panel/add-money")
	owner.Get("/panel/add-money").Shows(t, http.StatusOK, "The announcement of ₹5,000.00 with UTR 631245678901 is withdrawn.")
	owner.Get("/panel/add-money/1/withdraw").RedirectsTo(t, "/panel/add-money")
	staff.Get("/console/payments/statements/1").Shows(t, http.StatusOK, "Not announced 1")
	w.CheckAudit()
}

// What is credited is what was shown: a line that has another announcement since is refused.
func TestPayments_CreditIsOfTheShownAnnouncement(t *testing.T) {
	w := e2e.NewEnv(t)
	owner, staff := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Admin)
	announce := func() {
		t.Helper()
		owner.Post("/panel/add-money", announcementForm(w, "5000", "upi", "631245678901")).RedirectsTo(t, "/panel/add-money")
	}
	announce()
	staff.Post("/console/payments/columns", sbiColumns(statementOf(w, [2]string{"UPI/CR/631245678901/RAVI", "5,000.00"}))).RedirectsTo(t, "/console/payments/statements/1")
	shown := url.Values{"form": {"credit"}, "kind": {"exact"}, "line": {"1-1"}}
	credit := staff.Post("/console/payments/statements/1/credit", shown).Shows(t, http.StatusOK, "Credit ₹5,000.00", `value="1-1"`).HiddenFields()
	credit.Set("step", "confirm")
	owner.Post("/panel/add-money/1/withdraw", nil).RedirectsTo(t, "/panel/add-money")
	staff.Post("/console/payments/statements/1/credit", credit).Shows(t, http.StatusUnprocessableEntity, "Not credited", "UPI/CR/631245678901/RAVI", "it has no announced payment any more")
	announce()
	second, err := w.Admin.Announcement(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []url.Values{shown, credit} {
		staff.Post("/console/payments/statements/1/credit", form).Shows(t, http.StatusUnprocessableEntity, "Not credited", "it is of announced payment "+second.Code)
	}
	if wallet, err := w.Admin.Wallet(t.Context(), w.Demo.LCOID); err != nil || wallet.Balance != e2e.Rupees(t, "10000.00") {
		t.Errorf("the wallet holds %s, %v; want nothing credited", wallet.Balance, err)
	}
	credit.Set("line", "1-2")
	staff.Post("/console/payments/statements/1/credit", credit).RedirectsTo(t, "/console/payments/statements/1")
	// Later, the form of the announcement before says nothing new.
	staff.Post("/console/payments/statements/1/credit", shown).Shows(t, http.StatusUnprocessableEntity, "Choose the lines to credit first.")
	w.CheckAudit()
}

// The form of a top-up is filled in with the whole reference, whatever characters it has.
func TestPayments_CreditByHandKeepsTheReference(t *testing.T) {
	w := e2e.NewEnv(t)
	owner, staff := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Admin)
	owner.Post("/panel/add-money", announcementForm(w, "5000", "other", "CHQ #004512 & 13+1")).RedirectsTo(t, "/panel/add-money")
	page := staff.Get("/console/payments/1").Shows(t, http.StatusOK, "Credit it by hand")
	link := regexp.MustCompile(`href="([^"]*/wallet\?[^"]*)"`).FindStringSubmatch(page.Body)
	if link == nil {
		t.Fatal("the page has no link to the form of a top-up")
	}
	if form := html.UnescapeString(staff.Get(html.UnescapeString(link[1])).Shows(t, http.StatusOK, `value="5000.00"`).Body); !strings.Contains(form, `value="CHQ #004512 & 13+1"`) {
		t.Error("the form has not the whole reference")
	}
}

// A bank has another reference than the operator typed. Credited by hand under one, the payment
// is not credited under the other.
func TestPayments_CreditedUnderEitherReference(t *testing.T) {
	w := e2e.NewEnv(t)
	owner, staff := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Admin)
	code := owner.Get("/panel/add-money?amount=5000").Shows(t, http.StatusOK).HiddenFields().Get("code")
	form := announcementForm(w, "5000", "upi", "631245678901")
	form.Set("code", code)
	owner.Post("/panel/add-money", form).RedirectsTo(t, "/panel/add-money")
	staff.Post("/console/payments/columns", sbiColumns(statementOf(w, [2]string{"UPI/CR/631277777777/RAVI/" + code, "5,000.00"}))).RedirectsTo(t, "/console/payments/statements/1")
	staff.Get("/console/payments/1").Shows(t, http.StatusOK, "Reference at the bank", "631277777777")
	wallet := fmt.Sprintf("/console/operators/%d/wallet", w.Demo.LCOID)
	topUp := func(reference string) e2e.Page {
		return staff.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "amount": {"5000"}, "reference": {reference}, "step": {"confirm"}})
	}
	topUp("631245678901").RedirectsTo(t, wallet)
	topUp("631277777777").Shows(t, http.StatusUnprocessableEntity, "the payment with reference 631277777777 was credited already, as 631245678901")
	staff.Post("/console/payments/statements/1/credit", url.Values{"form": {"credit"}, "kind": {"exact"}, "line": {"1-1"}, "step": {"confirm"}}).Shows(t, http.StatusUnprocessableEntity, "Choose the lines to credit first.")
	staff.Get("/console/payments/statements/1/1").Shows(t, http.StatusOK, "₹5,000.00 were credited under reference 631245678901")
	owner.Post("/panel/add-money", announcementForm(w, "5000", "upi", "631277777777")).Shows(t, http.StatusUnprocessableEntity, "was credited already")
	if wallet, err := w.Admin.Wallet(t.Context(), w.Demo.LCOID); err != nil || wallet.Balance != e2e.Rupees(t, "15000.00") {
		t.Errorf("the wallet holds %s, %v; want it credited once", wallet.Balance, err)
	}
	w.CheckAudit()
}

// A payment was credited by hand before the bank's line came, which has another reference. A
// person who looks at the line is told.
func TestPayments_LineOfACreditedPayment(t *testing.T) {
	w := e2e.NewEnv(t)
	owner, staff := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Admin)
	code := owner.Get("/panel/add-money?amount=5000").Shows(t, http.StatusOK).HiddenFields().Get("code")
	form := announcementForm(w, "5000", "upi", "631245678901")
	form.Set("code", code)
	owner.Post("/panel/add-money", form).RedirectsTo(t, "/panel/add-money")
	wallet := fmt.Sprintf("/console/operators/%d/wallet", w.Demo.LCOID)
	staff.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "amount": {"5000"}, "reference": {"631245678901"}, "step": {"confirm"}}).RedirectsTo(t, wallet)
	staff.Post("/console/payments/columns", sbiColumns(statementOf(w, [2]string{"UPI/CR/631277777777/RAVI/" + code, "5,000.00"}, [2]string{"UPI/CR/631245 678901", "5,000.00"}, [2]string{"UPI/CR/631288888888", "70"}))).RedirectsTo(t, "/console/payments/statements/1")
	for _, line := range []string{"1", "2"} {
		staff.Get("/console/payments/statements/1/"+line).Shows(t, http.StatusOK, "A payment that this line names was credited already: ₹5,000.00, reference 631245678901.")
	}
	if page := staff.Get("/console/payments/statements/1/3").Shows(t, http.StatusOK, "Fill in the top-up"); strings.Contains(page.Body, "was credited already") {
		t.Error("a line of another payment warns, too")
	}
}

// The form that asks for the columns brings the file back as it was uploaded.
func TestPayments_ColumnsAreOfTheUploadedFile(t *testing.T) {
	e2e.StoreIndependent(t)
	w := e2e.NewEnv(t)
	staff := w.SignIn(t, w.Demo.Admin)
	choose := func(name, content string, columns url.Values) e2e.Page {
		form := staff.Upload("/console/payments/statements", "file", name, content).Shows(t, http.StatusOK, "Which column is which?").HiddenFields()
		for name, value := range columns {
			if name != "content" {
				form[name] = value
			}
		}
		return staff.Post("/console/payments/columns", form)
	}
	// A small workbook whose text is larger than a file may be.
	var file bytes.Buffer
	table, err := sheet.NewXLSX(&file, "November", sheet.Column{Title: "Date"}, sheet.Column{Title: "Narration"}, sheet.Column{Title: "Credit"})
	for i := 0; err == nil && i < 2000; i++ {
		err = table.Row(report.Day(w.Now()).Format("2 Jan 2006"), fmt.Sprintf("UPI/631245%06d/%s", i, strings.Repeat("RAVI ", 150)), "5,000.00")
	}
	if err := errors.Join(err, table.Close()); err != nil {
		t.Fatal(err)
	}
	if file.Len() > 1<<20 {
		t.Fatalf("the workbook has %d bytes", file.Len())
	}
	choose("november.xlsx", file.String(), url.Values{"date": {"0"}, "narration": {"1"}, "credit": {"2"}}).RedirectsTo(t, "/console/payments/statements/1")
	staff.Get("/console/payments/statements/1").Shows(t, http.StatusOK, "2,000 new credits.")

	words := "Account,1234\n\nBranch,Pune\n" + statementOf(w, [2]string{"UPI/631245678901", "five thousand"})
	choose("words.csv", words, sbiColumns("")).Shows(t, http.StatusUnprocessableEntity, "“five thousand” is not an amount such as 1,00,000.00.", ">6<")
}

// Nobody reaches the announcements of another operator, and who may only read announces none.
func TestPayments_AreTheOperatorsOwn(t *testing.T) {
	w := e2e.NewEnv(t)
	owner := w.SignIn(t, w.Demo.Operator)
	owner.Post("/panel/add-money", announcementForm(w, "5000", "upi", "631245678901")).RedirectsTo(t, "/panel/add-money")
	other := w.NewFundedOperator("Sagar Cable", "100")
	neighbour := w.SignIn(t, w.NewLogin(t, "sagar", login.Owner, other.OperatorID))
	if page := neighbour.Get("/panel/add-money").Shows(t, http.StatusOK, "No announced payments"); strings.Contains(page.Body, "631245678901") {
		t.Error("another operator's payment is shown")
	}
	neighbour.Get("/panel/add-money/1/withdraw").Shows(t, http.StatusNotFound)
	neighbour.Post("/panel/add-money/1/withdraw", nil).Shows(t, http.StatusNotFound)
	neighbour.Get(searched("panel", "631245678901")).Shows(t, http.StatusOK, "Nothing found")
	reader := w.SignIn(t, w.NewLogin(t, "reader", login.ReadOnly, w.Demo.LCOID))
	if page := reader.Get("/panel/add-money").Shows(t, http.StatusOK, "631245678901", "50100000012345"); strings.Contains(page.Body, "Announce the payment") {
		t.Error("who may only read is offered the form")
	}
	reader.Post("/panel/add-money", announcementForm(w, "5000", "upi", "631245678902")).Shows(t, http.StatusForbidden)
}

func TestPayments_WithoutBankDetails(t *testing.T) {
	e2e.StoreIndependent(t)
	w := e2e.NewEnv(t, "payments.account_number=", "payments.ifsc=", "payments.upi_id=")
	owner := w.SignIn(t, w.Demo.Operator)
	if page := owner.Get("/panel/add-money").Shows(t, http.StatusOK, "Payments cannot be announced here"); strings.Contains(page.Body, "Announce the payment") {
		t.Error("the form is offered without bank details")
	}
	owner.Post("/panel/add-money", announcementForm(w, "5000", "upi", "631245678901")).Shows(t, http.StatusUnprocessableEntity, "the MSO has not given its bank details")
}

// A file that is no statement is refused with what is wrong, and stores nothing.
func TestPayments_RubbishUploads(t *testing.T) {
	e2e.StoreIndependent(t)
	w := e2e.NewEnv(t)
	staff := w.SignIn(t, w.Demo.Admin)
	for _, tt := range []struct{ name, content, want string }{
		{"photo.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "neither a workbook nor text"},
		{"letter.txt", "Dear customer,\nyour statement is ready.\n", "does not look like a bank&#39;s statement"},
		{"empty.csv", "", "does not look like a bank&#39;s statement"},
		{"page.xls", "<html><table><tr><td>Date</td></tr></table></html>", "web page"},
		{"old.xls", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1aaaa", "old versions of Excel"},
		{"large.csv", strings.Repeat("a,b,c\n", 250_000), "larger than 1 MB"},
		{"header.csv", "Date,Narration,Credit\n", "no rows below its header"},
	} {
		staff.Upload("/console/payments/statements", "file", tt.name, tt.content).Shows(t, http.StatusUnprocessableEntity, "The file has errors", tt.want)
	}
	staff.Upload("/console/payments/statements", "file", "huge.csv", strings.Repeat("a,b,c\n", 1_000_000)).Shows(t, http.StatusRequestEntityTooLarge)
	staff.Post("/console/payments/statements", nil).Shows(t, http.StatusUnprocessableEntity, "Choose a file first.")
	words := statementOf(w, [2]string{"UPI/631245678901", "five thousand"})
	staff.Post("/console/payments/columns", sbiColumns(words)).Shows(t, http.StatusUnprocessableEntity, "“five thousand” is not an amount such as 1,00,000.00.", ">3<")
	wrong := sbiColumns(statementOf(w, [2]string{"UPI/631245678901", "5,000.00"}))
	wrong.Set("date", "2")
	staff.Post("/console/payments/columns", wrong).Shows(t, http.StatusUnprocessableEntity, "No row has a date in column “Description”.")
	future := sbiColumns("Date,Narration,Credit\n31/12/2098,UPI/631245678901,5\n")
	future.Set("narration", "1")
	future.Set("reference", "-1")
	future.Set("credit", "2")
	staff.Post("/console/payments/columns", future).Shows(t, http.StatusUnprocessableEntity, "which is still to come")
	old := future
	old.Set("content", base64.RawURLEncoding.EncodeToString([]byte("Date,Narration,Credit\n31/12/2008,UPI/631245678901,5\n")))
	staff.Post("/console/payments/columns", old).Shows(t, http.StatusUnprocessableEntity, "no credit of the last 400 days")
	if statements, err := w.Admin.BankStatements(t.Context(), 10); err != nil || len(statements) > 0 {
		t.Errorf("%d statements were stored, %v; want none", len(statements), err)
	}
}
