package pages

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// operationsOf reads an operator's operations, newest first.
func operationsOf(t testing.TB, w *e2e.Env, operatorID int64) []operation.Operation {
	t.Helper()
	found, err := w.Admin.ListOperations(t.Context(), admin.OperationFilter{OperatorID: operatorID, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// keysWork waits until the script of the shortcuts has run.
func keysWork(tab *looktest.Tab) {
	tab.Until("the keys work", `document.readyState === "complete" && document.querySelector(".side [data-shortcuts]:not([hidden])")`)
}

// slash presses the key as people do: chromedp.KeyEvent would type it even if the page
// has taken the key.
func slash(tab *looktest.Tab) {
	tab.Do(input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithCode("Slash").WithText("/"), input.DispatchKeyEvent(input.KeyUp).WithKey("/").WithCode("Slash"))
}

func searched(area, text string) string {
	return "/" + area + "/search?" + url.Values{"q": {text}}.Encode()
}

// checkProviderSearch checks that a provider's transaction is looked for after the page, and that
// what is found leads to its page.
func checkProviderSearch(t *testing.T, b *e2e.Browser, area, text, want string) {
	t.Helper()
	later := searched(area, text) + "&provider=yes"
	page := b.Get(searched(area, text)).Shows(t, http.StatusOK, "are being looked through", `hx-trigger="load"`)
	if !strings.Contains(page.Body, `href="/`+area+`/search?provider=yes&amp;q=`) {
		t.Error("without scripts the provider's transactions cannot be looked through")
	}
	if page := b.Get(later); page.Status != http.StatusSeeOther || page.Location != want {
		t.Errorf("%s: %d to %q; want %q", later, page.Status, page.Location, want)
	}
	b.Get(searched(area, "nobody-1")+"&provider=yes").Shows(t, http.StatusOK, "Nothing found")
}

// receiptOf reads the receipt number of an operation.
func receiptOf(t *testing.T, w *e2e.Env, id string) string {
	t.Helper()
	receipt, found, err := w.Node.Store.Receipt(t.Context(), 0, id)
	if err != nil || !found || receipt.Number.Number == 0 {
		t.Fatalf("the receipt of %s: %+v, %v, %v", id, receipt, found, err)
	}
	return receipt.Number.String()
}

// typed is a receipt number as people type it: without the R and the zeros, with blanks.
func typed(receipt string) string {
	year, number, _ := strings.Cut(strings.TrimPrefix(receipt, "R"), "/")
	return " " + year + " / " + strings.TrimLeft(number, "0")
}

// One text finds subscribers, transactions and keys of the visitor's own operator, as far
// as the role may see them. What is exactly one thing's id leads to its page.
func TestSearch_OfThePanel(t *testing.T) {
	w := e2e.NewEnv(t)
	me, ids := w.NewSubscribers(10)
	op := operationsOf(t, w, me.OperatorID)[0]
	hint, receipt := access.Hint(me.Key), receiptOf(t, w, op.ID)
	keys := "/panel/keys/"
	owner := w.SignIn(t, w.Demo.Operator)
	for text, want := range map[string]string{
		ids[3]:                 "/panel/subscribers/" + ids[3],
		"+91 98000-00003":      "/panel/subscribers/" + ids[3],
		op.ID:                  "/panel/transactions/" + op.ID,
		strings.ToLower(op.ID): "/panel/transactions/" + op.ID,
		op.IdempotencyKey:      "/panel/transactions/" + op.ID,
		receipt:                "/panel/transactions/" + op.ID,
		typed(receipt):         "/panel/transactions/" + op.ID,
		hint:                   keys,
		me.Key:                 keys,
	} {
		if page := owner.Get(searched("panel", text)); page.Status != http.StatusSeeOther || !strings.HasPrefix(page.Location, want) {
			t.Errorf("%q: %d to %q; want %q", text, page.Status, page.Location, want)
		}
	}
	checkProviderSearch(t, owner, "panel", op.ProviderTransaction, "/panel/transactions/"+op.ID)
	owner.Get(searched("panel", "asha")).Shows(t, http.StatusOK, "Search: asha", "/panel/subscribers?q=asha", "All matching subscribers")
	owner.Get(searched("panel", "98000")).Shows(t, http.StatusOK, "9800000007", "All matching subscribers")
	// The list's own search, and its file, know the spellings, too.
	for _, text := range []string{"9800000003", "+91 98000-00003", " 0 98000 00003 "} {
		query := "?q=" + url.QueryEscape(text)
		list := owner.Get("/panel/subscribers"+query).Shows(t, http.StatusOK, "/panel/subscribers/"+ids[3])
		if strings.Contains(list.Body, "/panel/subscribers/"+ids[4]) {
			t.Errorf("%q: the list shows others, too", text)
		}
		if rows := csvRows(t, owner.Get("/panel/subscribers/export/csv"+query)); len(rows) != 2 || rows[1][0] != ids[3] {
			t.Errorf("%q: the file has %q; want one subscriber", text, rows)
		}
	}
	owner.Get(searched("panel", hint[:len(hint)-2])).Shows(t, http.StatusOK, hint)
	owner.Get(searched("panel", "")).Shows(t, http.StatusOK, "What are you looking for?", "beginning of an API key")
	for _, text := range []string{"nobody at all", " . ", "%_'\"<b>", "\x00\xff", strings.Repeat("long ", 1000), "P-1"} {
		if page := owner.Get(searched("panel", text)); page.Status != http.StatusOK || strings.Contains(page.Body, "<b>") {
			t.Errorf("%q: status %d", text, page.Status)
		}
	}

	// The counter role may not see keys, and another operator sees nothing of this one.
	counter := w.SignIn(t, w.NewLogin(t, "counter", login.Counter, me.OperatorID))
	stranger := w.SignIn(t, w.NewLogin(t, "stranger", login.Owner, w.NewOperator("Another", access.AllPermissions).OperatorID))
	for _, text := range []string{hint, me.Key} {
		counter.Get(searched("panel", text)).Shows(t, http.StatusOK, "Nothing found")
	}
	if page := counter.Get(searched("panel", "")); strings.Contains(page.Body, "API key") {
		t.Error("a role that sees no keys is offered to search them")
	}
	for _, text := range []string{ids[3], "9800000003", "asha", op.ID, op.IdempotencyKey, op.ProviderTransaction, receipt, hint} {
		stranger.Get(searched("panel", text)).Shows(t, http.StatusOK, "Nothing found")
		stranger.Get(searched("panel", text)+"&provider=yes").Shows(t, http.StatusOK, "Nothing found")
	}
}

// Staff finds operators, and what all of them have, with the operator it belongs to.
func TestSearch_OfTheConsole(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	_, ids := w.NewSubscribers(3)
	other := w.LiftRateLimit(w.NewOperator("Sagar Cable", access.AllPermissions))
	if _, err := w.Admin.Adjust(t.Context(), other.OperatorID, money.Paise(1000_00), "for a test"); err != nil {
		t.Fatal(err)
	}
	theirs := w.Activate(other, "9811111111", "BASIC-1")
	op := operationsOf(t, w, other.OperatorID)[0]
	staff := w.SignIn(t, w.Demo.Admin)
	operator := func(id int64) string { return "/console/operators/" + strconv.FormatInt(id, 10) }
	for text, want := range map[string]string{
		op.ID:                                   "/console/review/operations/" + op.ID,
		op.IdempotencyKey:                       "/console/review/operations/" + op.ID,
		access.Hint(other.Key):                  operator(other.OperatorID) + "/keys/",
		strconv.FormatInt(other.OperatorID, 10): operator(other.OperatorID),
	} {
		if page := staff.Get(searched("console", text)); page.Status != http.StatusSeeOther || !strings.HasPrefix(page.Location, want) {
			t.Errorf("%q: %d to %q; want %q", text, page.Status, page.Location, want)
		}
	}
	checkProviderSearch(t, staff, "console", op.ProviderTransaction, "/console/review/operations/"+op.ID)
	// Receipts are numbered for each operator.
	receipt := receiptOf(t, w, op.ID)
	for _, text := range []string{receipt, typed(receipt)} {
		staff.Get(searched("console", text)).Shows(t, http.StatusOK, "Sagar Cable", "Demo Cable", "/console/review/operations/"+op.ID)
	}
	staff.Get(searched("console", "sagar")).Shows(t, http.StatusOK, "Sagar Cable", operator(other.OperatorID))
	staff.Get(searched("console", theirs)).Shows(t, http.StatusOK, "9811111111", "Sagar Cable", "/console/review/operations/"+op.ID)
	staff.Get(searched("console", "+91 98000 00001")).Shows(t, http.StatusOK, ids[1], "Demo Cable")
	staff.Get(searched("console", "asha")).Shows(t, http.StatusOK, "9811111111", "9800000002", "Sagar Cable", "Demo Cable")
	staff.Get(searched("console", "nobody")).Shows(t, http.StatusOK, "Nothing found")
	staff.Get("/console/search").Shows(t, http.StatusOK, "What are you looking for?")
}

// The field of every page searches, without scripts and on a phone too; / and Ctrl-K put
// the cursor there.
func TestBrowser_SearchFromAnyPage(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	_, ids := w.NewSubscribers(10)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	keysWork(tab)
	const inField = `document.activeElement.closest("form.search")`
	key := func(keys string) { t.Helper(); tab.Do(chromedp.KeyEvent(keys)) }
	controlK := func() {
		t.Helper()
		tab.Do(input.DispatchKeyEvent(input.KeyDown).WithKey("k").WithCode("KeyK").WithModifiers(input.ModifierCtrl))
	}
	slash(tab)
	tab.Until("the field has the cursor, and no slash in it", inField+` && document.activeElement.value === ""`)
	key("asha" + kb.Enter)
	tab.Sees("Search: asha")
	tab.Sees("All matching subscribers")
	tab.Until("the field keeps the text", `document.querySelector(".side form.search input").value === "asha"`)
	tab.Check("panel-search")
	keysWork(tab)
	controlK()
	tab.Until("the field has the cursor", inField)
	key(ids[2] + kb.Enter)
	tab.Until("the subscriber's page is open", `location.pathname === "/panel/subscribers/`+ids[2]+`"`)
	tab.Open(w.URL(searched("panel", "nobody1")))
	tab.Until("all was looked through", `!document.querySelector("#found[hx-trigger]")`)
	tab.Sees("Nothing found")
	tab.Check("panel-search-nothing")
	op := operationsOf(t, w, w.Demo.LCOID)[0]
	tab.Open(w.URL(searched("panel", op.ProviderTransaction)))
	tab.Until("the provider's transaction has led to ours", `location.pathname === "/panel/transactions/`+op.ID+`"`)
	tab.Open(w.URL(searched("panel", "98000000")))
	tab.Check("panel-search-mobiles")

	tab.As(looktest.Phone, looktest.Light)
	tab.Click("details.finder > summary")
	tab.Until("the field has the cursor", inField)
	tab.Shot("panel-search-field", looktest.Phone, looktest.Light)
	key("asha" + kb.Enter)
	tab.Sees("Search: asha")

	plain := looktest.WithoutScript(t)
	tabSignIn(w, plain, w.Demo.Admin)
	plain.WaitFor(".side form.search")
	plain.As(looktest.Phone, looktest.Light)
	plain.Click("details.finder > summary")
	plain.Do(chromedp.SendKeys("details.finder form.search input", "9800000001"+kb.Enter, chromedp.ByQuery, chromedp.NodeVisible))
	plain.Sees("Demo Cable")
	plain.Sees(ids[1])
	plain.As(looktest.Desk, looktest.Light)
	plain.Check("console-search-subscriber")
	plain.Open(w.URL("/console/health"))
	plain.Do(chromedp.SendKeys(".side form.search input", "demo", chromedp.ByQuery, chromedp.NodeVisible))
	plain.Click(".side form.search button")
	plain.Sees("Search: demo")
	plain.Sees("Operator " + strconv.FormatInt(w.Demo.LCOID, 10))
	plain.Check("console-search")
}

// Keys open pages, except while somebody types; the sheet lists them, and switches single
// keys off.
func TestBrowser_KeyboardShortcuts(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	w.NewSubscribers(1)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	keysWork(tab)
	key := func(keys string) { t.Helper(); tab.Do(chromedp.KeyEvent(keys)) }
	at := func(path string) {
		t.Helper()
		tab.Until("the page is "+path, `location.pathname === "`+path+`"`)
		keysWork(tab)
	}
	key("gt")
	at("/panel/transactions")
	key("gx") // no page
	key("gs")
	at("/panel/subscribers")
	key("n")
	at("/panel/activate")
	tab.Fill("Full name", "gh/?n")
	tab.Until("it was typed", `document.querySelector("[name=full_name]").value === "gh/?n" && !document.querySelector("dialog[open]")`)
	tab.Do(chromedp.Evaluate(`document.activeElement.blur()`, nil))

	// On a Hindi keyboard the keys are at the same places.
	devanagari := func(letter, code string) chromedp.Action {
		return input.DispatchKeyEvent(input.KeyDown).WithKey(letter).WithCode(code)
	}
	tab.Do(devanagari("ु", "KeyG"), devanagari("प", "KeyH"))
	at("/panel/")

	key("?")
	tab.WaitFor("dialog#shortcuts[open]")
	tab.Sees("Keyboard shortcuts")
	tab.Sees("Request log")
	key("gs")
	at("/panel/")
	tab.As(looktest.Phone, looktest.Light)
	tab.Until("the sheet fits on a phone", looktest.DialogFits)
	tab.Check("panel-shortcuts")
	tab.Click("[data-shortcuts-on]")
	key(kb.Escape)
	tab.Until("the sheet is closed", `!document.querySelector("dialog[open]")`)
	key("gs?/")
	tab.Until("single keys do nothing", `location.pathname === "/panel/" && !document.querySelector("dialog[open]") && !document.activeElement.closest("form")`)
	tab.Open(w.URL("/panel/people"))
	keysWork(tab)
	key("gs")
	tab.Click(".side [data-shortcuts]")
	tab.WaitFor("dialog#shortcuts[open]")
	tab.Until("it stays switched off", `location.pathname === "/panel/people" && !document.querySelector("[data-shortcuts-on]").checked`)
	tab.Click("[data-shortcuts-on]")
	key(kb.Escape)
	tab.Press("हिन्दी")
	tab.Until("the page is Hindi", `document.documentElement.lang === "hi"`)
	keysWork(tab)
	key("?")
	tab.Sees("कीबोर्ड शॉर्टकट")
	tab.Shot("panel-shortcuts-hi", looktest.Phone, looktest.Light)
	tab.Until("the sheet fits on a phone in Hindi", looktest.DialogFits)
	tab.Shot("panel-shortcuts-hi", looktest.Desk, looktest.Dark)
	tab.As(looktest.Desk, looktest.Light)
	key(kb.Escape)
	tab.Until("the sheet is closed", `!document.querySelector("dialog[open]")`)
	slash(tab)
	tab.Until("the field has the cursor", `document.activeElement.closest("form.search")`)
	key("asha" + kb.Enter)
	tab.Sees("खोज: asha")
	tab.Check("panel-search-hi")

	counter := looktest.New(t)
	tabSignIn(w, counter, w.NewLogin(t, "counter", login.Counter, w.DemoCaller().OperatorID))
	keysWork(counter)
	counter.Do(chromedp.KeyEvent("gk?"))
	counter.WaitFor("dialog#shortcuts[open]")
	counter.Until("keys of pages that the role may not see are not there", `location.pathname === "/panel/" && !document.querySelector('[data-keys="g k"]')`)

	staff := looktest.New(t)
	tabSignIn(w, staff, w.Demo.Admin)
	keysWork(staff)
	staff.Do(chromedp.KeyEvent("?"))
	staff.Sees("New operator")
	staff.As(looktest.Phone, looktest.Light)
	staff.Until("the sheet fits on a phone", looktest.DialogFits)
	staff.Check("console-shortcuts")
	staff.Do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("n"))
	staff.Until("the form is open", `location.pathname === "/console/new-operator"`)
}
