package pages

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// Money comes in, in two browsers: the operator shows a QR code and announces the payment, the
// MSO's staff upload the bank's statement and credit it.
func TestBrowser_MoneyIn(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	tab, office := looktest.New(t), looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Press("Add money")
	tab.Sees("democable@demobank")
	tab.Do(fill("#qr-amount", "5,000"))
	tab.Press("Show the QR code")
	tab.Sees("Scan it with any UPI app")
	tab.Fill("UTR", "12345")
	tab.Press("Announce the payment")
	tab.Sees("UPI and IMPS have 12 digits, such as")
	tab.Sees("it pays ₹5,000.00 with reference")
	tab.Until("the page leads to the field with the error", `(() => {
		const field = document.activeElement, box = field.getBoundingClientRect();
		return field.name === "reference" && box.top >= 0 && box.bottom <= innerHeight;
	})()`)
	tab.Check("panel-add-money")
	tab.Fill("Amount paid", "5,000")
	tab.Fill("UTR", "631245678901")
	tab.Press("Announce the payment")
	tab.Sees("It will be added to your wallet when the MSO confirms it.")
	// The others are quicker without a browser.
	b := w.SignIn(t, w.Demo.Operator)
	for _, payment := range [][2]string{{"700", "631245670007"}, {"900", "631245670009"}} {
		b.Post("/panel/add-money", announcementForm(w, payment[0], "upi", payment[1])).RedirectsTo(t, "/panel/add-money")
	}
	tab.Open(w.URL("/panel/statement"))
	tab.Sees("3 announced payments of ₹6,600.00 in all are not in the wallet yet.")
	tab.Check("panel-statement-announced")

	tabSignIn(w, office, w.Demo.Admin)
	office.Press("Money in")
	office.Sees("631245678901")
	office.Check("console-payments")
	file := filepath.Join(t.TempDir(), "november.csv")
	if err := os.WriteFile(file, []byte(statementOf(w, [2]string{"BY TRANSFER-UPI/CR/631245678901/RAVI KUM/HDFC/ravicable@", "5,000.00"},
		[2]string{"BY TRANSFER-UPI/CR/631245670009/RAVI KUM/HDFC/ravicable@", "899.00"}, [2]string{"CASH DEPOSIT-CASH DEPOSIT SELF", "1,12,000.00"})), 0o600); err != nil {
		t.Fatal(err)
	}
	office.Do(chromedp.SetUploadFiles(`input[type="file"]`, []string{file}, chromedp.ByQuery))
	office.Press("Upload and compare")
	office.Sees("Which column is which?")
	office.Check("console-payment-columns")
	office.Press("Compare with announced payments")
	office.Sees("Nothing is credited yet")
	office.Sees("Amount fits 1")
	office.Check("console-statement")
	chosen := func(count, sum string) {
		t.Helper()
		office.Until(count+" lines are chosen, "+sum, `document.querySelector("[data-choose-count]").textContent === "`+count+`" &&
			document.querySelector("[data-choose-sum]").textContent === "`+sum+`" && document.querySelector("[data-choose-go]").disabled === (`+count+` === 0)`)
	}
	chosen("1", "₹5,000.00")
	office.Click(`input[name="line"]`)
	chosen("0", "₹0.00")
	office.Click("[data-choose-all]")
	chosen("1", "₹5,000.00")
	office.Press("Credit the chosen lines")
	office.Sees("Nothing is posted yet")
	office.Check("console-statement-confirm")
	office.Press("Credit ₹5,000.00")
	office.Sees("1 credited, ₹5,000.00 in all.")
	office.Open(w.URL("/console/payments/statements/1/3"))
	office.Sees("Credit it by hand")
	office.Check("console-payment-line")
	office.Open(w.URL("/console/payments/2"))
	office.Fill("Reason", "The bank does not have it")
	office.Check("console-payment")
	office.Press("Reject the payment")
	office.Sees("The operator sees the reason.")
	office.Open(w.URL("/console/payments?show=all"))
	office.Sees("Credited")
	office.Check("console-payments-all")

	tab.Open(w.URL("/panel/add-money"))
	tab.Sees("The bank does not have it")
	tab.Sees("Credited")
	tab.Check("panel-add-money-list")

	// Withdrawing asks once more. Announced again, the payment is found twice.
	for range 2 {
		b.Post("/panel/add-money", announcementForm(w, "120", "upi", "631245670011")).RedirectsTo(t, "/panel/add-money")
		tab.Open(w.URL("/panel/add-money"))
		tab.Click(`a[href$="/withdraw"]`)
		tab.Sees("Withdraw this payment?")
		tab.Sees("631245670011")
		tab.Check("panel-withdraw-payment")
		tab.Press("Withdraw ₹120.00")
		tab.Sees("The announcement of ₹120.00 with UTR 631245670011 is withdrawn.")
	}
	tab.Open(w.URL(searched("panel", "6312 4567 0011")))
	tab.Sees("₹120.00")
	tab.Check("panel-search-payments")
	office.Open(w.URL(searched("console", "6312 4567 0011")))
	office.Sees("Withdrawn")
	office.Check("console-search-payments")
	office.Open(w.URL("/console/audit-log"))
	office.Sees("Wallet of Demo Cable")
	office.Check("console-audit-log-amounts")
	office.Open(w.URL("/console/"))
	office.Sees("Overview")
	office.Check("console-home-health")
	tab.Open(w.URL("/panel/"))
	tab.Sees("₹15,000.00")

	for _, visit := range []struct {
		tab   *looktest.Tab
		as    *e2e.Browser
		pages map[string]string
	}{
		{tab, b, map[string]string{"panel-add-money-hindi": "/panel/add-money?amount=5000"}},
		{office, w.SignIn(t, w.Demo.Admin), map[string]string{"console-payments-hindi": "/console/payments?show=all", "console-statement-hindi": "/console/payments/statements/1"}},
	} {
		visit.as.Post("/account/language", url.Values{"language": {"hi"}})
		for name, path := range visit.pages {
			visit.as.Get(path).Shows(t, http.StatusOK, `lang="hi"`)
			visit.tab.Open(w.URL(path))
			visit.tab.Check(name)
		}
	}
	w.CheckAudit()
}
