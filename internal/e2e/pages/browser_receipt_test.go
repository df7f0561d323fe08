package pages

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// A customer pays at the counter, gets a receipt on paper and as a link, and opens the link.
func TestBrowser_Receipt(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("No active subscribers yet")
	tab.Open(w.URL("/panel/receipt-details"))
	tab.Fill("Address", "12 Lake Road, Kochi 682001")
	tab.Fill("GSTIN", "27AAPFU0939F1ZA")
	tab.Forgive("422")
	tab.Press("Save")
	tab.Sees("its last character does not fit the others")
	tab.Check("receipt-details-refused")
	tab.Fill("GSTIN", "27AAPFU0939F1ZV")
	tab.Press("Save")
	tab.Sees("Saved.")

	tab.Open(w.URL("/panel/activate"))
	tab.Fill("Full name", "Meena Das")
	tab.Fill("Mobile", "9812345678")
	tab.Set("Plan", "BASIC-1")
	tab.Press("See the price")
	tab.Press("Pay ₹199.00 from the wallet")
	tab.Sees("The subscriber is activated.")
	tab.Open(w.URL(receiptLink(t, tab)))
	tab.Sees("As a link")
	tab.Check("receipt")
	link := tab.Text(".copyable-value")
	if number := tab.Text(".receipt .facts .mono"); !strings.HasPrefix(number, "R") || !strings.HasSuffix(number, "/000001") {
		t.Errorf("the first receipt has the number %q", number)
	}

	address := tab.URL()
	for range 3 { // a page that is opened counts nothing
		tab.Open(address)
		tab.Until("it is no duplicate", unmarked)
	}
	tab.Set("Paper", "80mm")
	tab.Click(`.choice button`)
	tab.WaitFor(`.receipt-80mm`)
	tab.Until("the first print has no mark", unmarked)
	if width, height := paper(t, tab, "receipt-80mm", 1); width != 227 || height < width {
		t.Errorf("the roll is %d by %d points; want 227, which is 80 mm, and longer", width, height)
	}
	tab.Open(address)
	tab.Sees("The next print says that it is a duplicate.")
	tab.Until("the paper is remembered", `document.querySelector("select[name=paper]").value === "80mm"`)
	tab.Set("Paper", "a4")
	tab.Click(`.choice button`)
	tab.WaitFor(`.receipt-a4`)
	tab.Sees("Duplicate")
	tab.Check("receipt-duplicate")
	if width, height := paper(t, tab, "receipt-a4", 1); width != 595 || height != 842 {
		t.Errorf("the sheet is %d by %d points; want 595 by 842, which is A4", width, height)
	}

	customer := looktest.New(t)
	customer.Open(link)
	customer.Sees("Electronic copy")
	customer.Sees("Meena Das")
	customer.Check("receipt-shared")
	customer.Forgive("404")
	customer.Open(strings.Replace(link, "?", "x?", 1))
	customer.Sees("This link is not valid any more.")
	customer.Check("receipt-link-ended")
}

// receiptLink returns the address of the receipt that a page leads to.
func receiptLink(t *testing.T, tab *looktest.Tab) (path string) {
	t.Helper()
	tab.WaitFor(`main a[href$="/receipt"]`)
	tab.Do(chromedp.Evaluate(`document.querySelector('main a[href$="/receipt"]').getAttribute("href")`, &path))
	return path
}

// The app password of a new customer stays on its page while the receipt is opened, since going back
// would not bring it again: it is stored nowhere. So it is if the provider takes its time.
func TestBrowser_AppPasswordStaysBesideReceipt(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s")
	for mobile, script := range map[string]string{"9812345678": "", "9812345679": "reset_applied"} {
		tab := looktest.New(t)
		tabSignIn(w, tab, w.Demo.Operator)
		tab.Sees("Activate a subscriber")
		if script != "" {
			w.ScriptProvider(mobile, script)
		}
		tab.Open(w.URL("/panel/activate"))
		tab.Fill("Full name", "Meena Das")
		tab.Fill("Mobile", mobile)
		tab.Set("Plan", "BASIC-1")
		tab.Press("See the price")
		tab.Press("Pay ₹199.00 from the wallet")
		tab.Sees("The receipt opens in a new tab")
		password, address := tab.Text(".copyable-value"), tab.URL()
		if script != "" {
			tab.Sees("Do not give it to the customer yet")
			var id string
			tab.Do(chromedp.Evaluate(`document.getElementById("outcome").getAttribute("hx-get").split(/[/?]/)[3]`, &id))
			polls := 0
			w.WaitUntil("it is settled", func() bool {
				if polls++; polls%200 == 1 {
					w.Advance(2 * time.Minute) // the provider is asked again
				}
				op, found, err := w.Node.Store.OperationByID(t.Context(), w.DemoCaller().OperatorID, id)
				if err != nil || !found {
					t.Fatalf("operation %q: %v, %v", id, found, err)
				}
				return op.State == operation.Success
			})
		}
		tab.Sees("The subscriber is activated.")
		tab.Sees("Give it to the customer now")
		tab.Until("it may be given away", `!document.body.innerText.includes("Do not give it")`)
		tab.Check("panel-activated")
		path := receiptLink(t, tab)
		tab.Press("Receipt")
		w.WaitUntil("the receipt is opened", func() (opened bool) {
			tab.Do(chromedp.ActionFunc(func(ctx context.Context) error {
				tabs, err := chromedp.Targets(ctx)
				opened = slices.ContainsFunc(tabs, func(other *target.Info) bool { return other.URL == w.URL(path) })
				return err
			}))
			return opened
		})
		if got := tab.Text(".copyable-value"); got != password || got == "" || tab.URL() != address {
			t.Errorf("after the receipt was opened, %s shows %q; want %q", tab.URL(), got, password)
		}
		// A page without the password opens the receipt in its place.
		tab.Open(w.URL(strings.TrimSuffix(path, "/receipt")))
		tab.Press("Receipt")
		tab.Sees("As a link")
	}
	w.CheckAudit()
}

var mediaBox = regexp.MustCompile(`/MediaBox \[\s*0 0 ([0-9.]+) ([0-9.]+)\s*\]`)

// unmarked is true if no mark of a receipt is in sight.
const unmarked = `![...document.querySelectorAll(".receipt-mark")].some(it => it.checkVisibility())`

// paper prints the page and returns the size of the paper in points. A receipt takes one page.
func paper(t *testing.T, tab *looktest.Tab, name string, receipts int) (width, height int) {
	t.Helper()
	var printed []byte
	tab.Do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		printed, _, err = page.PrintToPDF().WithPreferCSSPageSize(true).WithPrintBackground(true).Do(ctx)
		return err
	}))
	if err := os.WriteFile(filepath.Join(looktest.Folder(t), name+".pdf"), printed, 0o644); err != nil {
		t.Fatal(err)
	}
	boxes := mediaBox.FindAllSubmatch(printed, -1)
	if len(boxes) != receipts {
		t.Fatalf("%s has %d pages, in %d bytes; want %d", name, len(boxes), len(bytes.TrimSpace(printed)), receipts)
	}
	size := func(text []byte) int {
		points, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			t.Fatal(err)
		}
		return int(points + 0.5)
	}
	return size(boxes[0][1]), size(boxes[0][2])
}

// A print from the browser's own menu counts, and so does a link that is copied or sent. A page that
// was printed from before prints duplicates.
func TestBrowser_ReceiptPrintsCount(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	paths := []string{sold(w, "9812345678"), sold(w, "9812345679"), sold(w, "9812345680")}
	given := func(path string) bool {
		t.Helper()
		id := strings.Split(path, "/")[3]
		r, found, err := w.Node.Store.Receipt(t.Context(), 0, id)
		if err != nil || !found {
			t.Fatalf("the receipt of %s: %v, %v", id, found, err)
		}
		return !r.PrintedAt.IsZero()
	}
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("Expiring next")
	const fromMenu = `dispatchEvent(new Event("beforeprint"))`
	for i, use := range []string{
		fromMenu,
		`document.querySelector("[data-sends] [data-copy]").click()`,
		`(link => { link.addEventListener("click", event => event.preventDefault()); link.click(); })(document.querySelector("[data-sends] a"))`,
	} {
		tab.Open(w.URL(paths[i]))
		tab.Sees("As a link")
		tab.Until("the script is ready", `!document.querySelector("[data-uncounted]")`)
		if given(paths[i]) {
			t.Errorf("%s: opening the page has counted a print", paths[i])
		}
		tab.Do(chromedp.Evaluate(`navigator.clipboard.writeText = async () => {}`, nil)) // without a window there is no clipboard
		tab.Do(chromedp.Evaluate(use, nil))
		w.WaitUntil("it is counted", func() bool { return given(paths[i]) })
		tab.Until("it has no mark", unmarked)
		tab.Do(chromedp.Evaluate(fromMenu, nil))
		tab.Until("what is printed next is a duplicate", `document.querySelector(".receipt-mark").checkVisibility()`)
		tab.Open(w.URL(paths[i]))
		tab.Sees("Printed or sent before on")
	}

	// Without scripts the browser's own menu prints a preview, and the button a print.
	path := sold(w, "9812345681")
	plain := looktest.WithoutScript(t)
	tabSignIn(w, plain, w.Demo.Operator)
	plain.WaitFor(".stat")
	plain.Open(w.URL(path))
	plain.WaitFor(".receipt")
	plain.Do(emulation.SetEmulatedMedia().WithMedia("print"))
	plain.WaitFor("[data-uncounted]")
	plain.Do(emulation.SetEmulatedMedia().WithMedia(""))
	plain.Press("Print")
	plain.WaitFor(".notice")
	if !given(path) || !strings.Contains(plain.Text(".notice"), "This is the first print.") {
		t.Errorf("printed %v, and the page says %q", given(path), plain.Text(".notice"))
	}
	plain.Check("receipt-plain-print")
	w.CheckAudit()
}

// The receipts of a whole bulk renewal are on one page, each printed on its own sheet or length of the roll.
func TestBrowser_ReceiptsOfBulkRenewal(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(4)
	w.ScriptProvider("9800000002", "reject")
	b := w.SignIn(t, w.Demo.Operator)
	job := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	b.Get(job+"/receipts").Shows(t, http.StatusOK, "No receipts yet")
	b.Post(job+"/start", nil).RedirectsTo(t, job)
	w.WaitUntil("it is finished", func() bool { return strings.Contains(b.Get(job).Body, "Finished") })

	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")
	tab.Open(w.URL(job))
	tab.Press("Receipts")
	tab.Sees("3 receipts")
	tab.Until("each that succeeded has one", `document.querySelectorAll(".receipt").length === 3`)
	tab.Until("none has a mark", unmarked)
	tab.Check("bulk-receipts")
	tab.Shot("bulk-receipts", looktest.Desk, looktest.Light)

	// One of them was printed alone before.
	one := regexp.MustCompile(`/panel/transactions/[^"]+`).FindString(b.Get(job + "?only=done").Body)
	b.Post(one+"/receipt", url.Values{"paper": {"a4"}}).Shows(t, http.StatusOK, "This is the first print.")
	tab.Do(chromedp.Evaluate(`asked = 0; print = () => { asked++; }`, nil))
	tab.Set("Paper", "80mm")
	tab.Press("Print")
	tab.WaitFor(".receipt-80mm")
	tab.Until("the dialog is opened once", `asked === 1`)
	tab.Until("the one alone is a duplicate", `[...document.querySelectorAll(".receipt-mark")].filter(it => it.checkVisibility()).length === 1`)
	if width, _ := paper(t, tab, "bulk-receipts-80mm", 3); width != 227 {
		t.Errorf("the roll is %d points wide; want 227, which is 80 mm", width)
	}
	tab.Open(w.URL(job + "/receipts"))
	tab.Sees("3 were printed or sent before and say that they are duplicates.")
	tab.Set("Paper", "a4")
	tab.Press("Print")
	tab.WaitFor(".receipt-a4")
	tab.Until("all are duplicates", `[...document.querySelectorAll(".receipt-mark")].filter(it => it.checkVisibility()).length === 3`)
	if width, height := paper(t, tab, "bulk-receipts-a4", 3); width != 595 || height != 842 {
		t.Errorf("the sheet is %d by %d points; want 595 by 842, which is A4", width, height)
	}
	tab.Check("bulk-receipts-duplicates")

	// Without scripts the button answers with a page that is ready to print.
	b.Post(job+"/receipts", url.Values{"paper": {"a4"}}).Shows(t, http.StatusOK, "data-print-now", markedDuplicate)
	other := w.NewOperator("Another", access.AllPermissions)
	stranger := w.SignIn(t, w.NewLogin(t, "stranger", login.Owner, other.OperatorID))
	stranger.Get(job+"/receipts").Shows(t, http.StatusNotFound)
	stranger.Post(job+"/receipts", url.Values{"paper": {"a4"}}).Shows(t, http.StatusNotFound)
	w.CheckAudit()
}
