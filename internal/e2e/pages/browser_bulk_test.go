package pages

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// The bar below the expiry list follows the ticks, and its button is off while nothing is
// ticked or the wallet does not cover the sum. Without scripts the next page shows the sum
// of what was sent, before anything is charged.
func TestBrowser_BulkSumFollowsTicks(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me, ids := w.NewSubscribers(8)
	if _, err := w.Admin.Adjust(t.Context(), me.OperatorID, money.Paise(1500_00-w.WalletPaise(me)[0]), "for a test"); err != nil {
		t.Fatal(err)
	}
	w.Advance(24 * 24 * time.Hour) // they expire in a few days
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")
	tab.Open(w.URL("/panel/bulk?within=15"))
	tick := func(tab *looktest.Tab, id string) {
		t.Helper()
		tab.Do(chromedp.Evaluate(`document.querySelector('input[value="`+id+`"]').click()`, nil)) // it may be below the bar
	}
	const off, on = `document.querySelector("[data-choose-go]").disabled`, `!document.querySelector("[data-choose-go]").disabled`

	tab.Sees("8 / 8")
	tab.Sees("₹1,592.00")
	tab.Sees("The wallet is short by")
	tab.Sees("₹92.00")
	tab.Sees("The wallet is short: select fewer, or add money first.")
	tab.WaitFor(`.choice-bar a[href="/panel/add-money"]`)
	tab.Until("what is not covered cannot be sent", off)
	tab.Check("panel-bulk-short")
	tab.Shot("panel-bulk-short-desk", looktest.Desk, looktest.Light)
	tick(tab, ids[0])
	tab.Sees("7 / 8")
	tab.Sees("₹1,393.00")
	tab.Sees("₹107.00")
	tab.Until("what is covered can be sent", on)
	tab.Until("the bar is in sight", `(bar => bar.top >= 0 && bar.bottom <= innerHeight)(document.querySelector(".choice-bar").getBoundingClientRect())`)
	tab.Set("Select all", "false")
	tab.Sees("0 / 8")
	tab.Sees("₹0.00")
	tab.Until("nothing cannot be sent", off)
	tick(tab, ids[6])
	tick(tab, ids[7])
	tab.Sees("2 / 8")
	tab.Sees("₹398.00")
	tab.Press("Check selected")
	tab.Sees("Renew 2 subscribers")
	tab.Sees("₹398.00")

	plain := looktest.WithoutScript(t)
	tabSignIn(w, plain, w.Demo.Operator)
	plain.WaitFor(".stat")
	plain.Open(w.URL("/panel/bulk?within=15"))
	plain.WaitFor(".choice-bar")
	tick(plain, ids[0])
	tick(plain, ids[1])
	plain.Press("Check selected")
	plain.Sees("Renew 6 subscribers")
	plain.Sees("₹1,194.00")
	if now := w.WalletPaise(me)[0]; now != 1500_00 {
		t.Errorf("before any list is started the wallet holds %d paise; want 150000", now)
	}
	w.CheckAudit()
}

// A phone shows the first page of a long list and folds away the rest, which stays ticked, in the
// sum, and in what is sent, with and without scripts. Who is left out is counted.
func TestBrowser_BulkOfferIsFoldedOnPhones(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s")
	me, ids := w.NewSubscribers(30)
	w.StartReview(me, "renew", "unknowable", "9812345671", "in-review")
	if _, err := w.Admin.Adjust(t.Context(), me.OperatorID, money.Paise(10_000_00-w.WalletPaise(me)[0]), "for a test"); err != nil {
		t.Fatal(err)
	}
	w.Advance(24 * 24 * time.Hour)
	const lastInSight = `(boxes => boxes[boxes.length-1].checkVisibility())(document.querySelectorAll('input[name="subscriber"]'))`

	tab := looktest.New(t)
	tab.As(looktest.Phone, looktest.Light)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")
	tab.Open(w.URL("/panel/bulk?within=15"))
	tab.Sees("30 subscribers can be selected. 1 with another operation in progress is left out.")
	tab.Sees("30 / 30")
	tab.Sees("₹5,970.00")
	tab.Until("the rest is folded away", `!`+lastInSight)
	tab.Check("panel-bulk-offer")
	tab.As(looktest.Desk, looktest.Light)
	tab.Open(w.URL("/panel/bulk?within=15"))
	tab.Until("a wide page shows all", lastInSight)
	tab.Shot("panel-bulk-offer", looktest.Desk, looktest.Light)
	tab.As(looktest.Phone, looktest.Light)
	tab.Open(w.URL("/panel/bulk?within=15"))
	tab.Click("details.fold:has(.table-offer) > summary")
	tab.Until("it is unfolded", lastInSight)
	for _, id := range []string{ids[0], ids[29]} {
		tab.Do(chromedp.Evaluate(`document.querySelector('input[value="`+id+`"]').click()`, nil)) // it may be below the bar
	}
	tab.Sees("28 / 30")
	tab.Sees("₹5,572.00")
	tab.Click("details.fold:has(.table-offer) > summary")
	tab.Press("Check selected")
	tab.Sees("Renew 28 subscribers")
	tab.Until("a page of the checked list has 25 rows", `document.querySelectorAll("#job tbody tr").length === 25`)

	plain := looktest.WithoutScript(t)
	plain.As(looktest.Phone, looktest.Light)
	tabSignIn(w, plain, w.Demo.Operator)
	plain.WaitFor(".stat")
	plain.Open(w.URL("/panel/bulk?within=15"))
	plain.Press("Check selected")
	plain.Sees("Renew 30 subscribers")
	plain.Sees("₹5,970.00")
	w.CheckAudit()
}

// A list that a counter keeps in Excel is uploaded as it is: with columns of its own, in
// their order, and mobiles stored as numbers. The page says what it does not use.
func TestBrowser_BulkFromWorkbook(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	w.NewSubscribers(3)
	file, err := os.Create(filepath.Join(t.TempDir(), "march.xlsx"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table, err := sheet.NewXLSX(file, "March", sheet.Column{Title: "Customer name"}, sheet.Column{Title: "Area"}, sheet.Column{Title: "Mobile No.", Kind: sheet.Number}, sheet.Column{})
	if err == nil {
		err = errors.Join(table.Row("Asha", "Sector 5", int64(9800000001), nil), table.Row("Ben", "", int64(9800000002), "pays on Monday"), table.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")
	tab.Open(w.URL("/panel/bulk"))
	tab.Do(chromedp.SetUploadFiles(`input[type="file"]`, []string{file.Name()}, chromedp.ByQuery))
	tab.Press("Check the file")
	tab.Sees("These columns of the file are not used: Customer name, Area.")
	tab.Sees("What stands beyond the last title is not used. It is on line: 3.")
	tab.Sees("Renew 2 subscribers")
	tab.Check("panel-bulk-workbook")

	b := w.SignIn(t, w.Demo.Operator)
	for content, want := range map[string]string{
		"\ufeffMobile;Notes\n+91 98000-00000;paid\n": "",
		"mobile\n9.80000E+09\n":                      "a number that the spreadsheet has rounded",
		"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00":       "old versions of Excel (.xls)",
		"<html><table>":                              "is a web page",
		"PK\x03\x04":                                 "The workbook is damaged",
	} {
		if page := b.Upload("/panel/bulk", "file", "list.xlsx", content); want != "" {
			page.Shows(t, http.StatusUnprocessableEntity, want)
		} else {
			b.Get(page.Location).Shows(t, http.StatusOK, "Renew 1 subscriber", "These columns of the file are not used: Notes.")
		}
	}
	w.CheckAudit()
}

// A checked list stays in the list of jobs until it is started or put away. A job of which
// nothing was renewed says so, and its refused row has no new expiry and no amount.
func TestBrowser_BulkOutcomeShown(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(2)
	w.ScriptProvider("9800000000", "reject")
	b := w.SignIn(t, w.Demo.Operator)
	check := func(chosen ...string) string {
		t.Helper()
		return b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": chosen}).Location
	}
	none := check(ids[0])
	w.Advance(time.Minute) // the newest list comes first
	some := check(ids...)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.WaitFor(".stat")
	open := func(path string) {
		t.Helper()
		tab.Open(w.URL(path))
	}
	open("/panel/bulk")
	tab.Sees("Checked, not started")
	tab.Sees("2 / 2")
	const above = `(above, below) => above.getBoundingClientRect().bottom <= below.getBoundingClientRect().top`
	for _, size := range []looktest.Size{looktest.Phone, looktest.Desk} {
		tab.As(size, looktest.Light)
		tab.Until("checked lists are above the form that uploads one, at "+size.Name,
			`(`+above+`)(document.querySelector('form[action$="/cancel"]'), document.querySelector('input[type="file"]').form)`)
	}
	tab.As(looktest.Desk, looktest.Light)
	tab.Open(w.URL("/panel/bulk?within=expired"))
	tab.Until("so are the subscribers to choose from", `(`+above+`)(document.getElementById("offer"), document.querySelector('input[type="file"]').form)`)
	tab.Check("panel-bulk-offer")
	open("/panel/bulk")
	tab.Sees("2 / 2")
	tab.Check("panel-bulk-drafts")
	tab.Shot("panel-bulk-drafts-desk", looktest.Desk, looktest.Light)
	tab.Press("Continue")
	tab.Sees("Renew 2 subscribers")
	open("/panel/bulk")
	tab.Press("Discard")
	tab.Sees("The list was discarded.")
	b.Post(some+"/start", nil).RedirectsTo(t, some)
	b.Get(some).Shows(t, http.StatusOK, "Cancelled")
	tab.Until("one list is left", `document.querySelectorAll('form[action$="/cancel"]').length === 1`)
	b.Post(none+"/start", nil).RedirectsTo(t, none)
	open(none)
	tab.Sees("None renewed")
	tab.Until("the refused row has no new expiry and no amount", `[...document.querySelectorAll("tbody td")].slice(-2).every(c => c.innerText.trim().endsWith("–"))`)
	tab.Check("panel-bulk-none")
	tab.Shot("panel-bulk-none-desk", looktest.Desk, looktest.Light)
	open("/panel/bulk")
	tab.Until("the list of jobs says it in red", `document.querySelector(".badge-bad").innerText.trim() === "None renewed"`)

	w.ScriptProvider("9800000000", "reject")
	w.Advance(time.Minute) // no list is as old as the start of another
	some = check(ids...)
	b.Post(some+"/start", nil).RedirectsTo(t, some)
	open(some)
	tab.Sees("They cost nothing.")
	open("/panel/bulk")
	tab.Until("the list of jobs says it in amber", `document.querySelector(".badge-warn").innerText.trim() === "Some refused"`)
	if file := b.Get(none + "/csv").Body; strings.Count(file, "2026") > 0 || strings.Contains(file, "199") {
		t.Errorf("the file gives a refused row an amount or a new expiry:\n%s", file)
	}
	w.CheckAudit()
}
