package main

import (
	"encoding/csv"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// customers activates some subscribers of the demo's operator.
func (w *world) customers(n int) (me caller, ids []string) {
	w.t.Helper()
	me = w.unlimited(w.demoCaller())
	for i := range n {
		ids = append(ids, w.activated(me, fmt.Sprintf("98%08d", i), "BASIC-1"))
	}
	return me, ids
}

// An operator's people read their books in a browser: the statement, what is held
// apart from it, the list of transactions, and both as files.
func TestOperatorsReadTheirBooksInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, _ := w.customers(4)
	w.inReview(me, "activate", "unknowable", "9700000001", "in-review")
	tab := looktest.New(t)
	tabSignIn(w, tab, w.line.Operator)
	tab.Sees("₹")

	tab.Open(w.at("/panel/statement"))
	tab.Sees("Opening balance")
	tab.Sees("Held for what is under way")
	tab.Check("panel-statement")
	tab.Set("Show", "credit")
	tab.Until("debits are left out", `![...document.querySelectorAll("#lines tbody td")].some(c => c.dataset.label === "Debit" && c.textContent.includes("₹"))`)
	tab.Open(w.at("/panel/statement/print"))
	tab.Sees("Closing balance")
	tab.Check("panel-statement-print")

	tab.Open(w.at("/panel/transactions"))
	tab.Sees("Activation")
	tab.Check("panel-transactions")
	tab.Set("State", "needs_review")
	tab.Until("one is left", `document.querySelectorAll("#list tbody tr").length === 1`)

	b := w.as(t, w.line.Operator)
	file := b.get("/panel/statement/export/csv").shows(t, http.StatusOK)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(file.body, "\ufeff"))).ReadAll()
	if err != nil || len(rows) < 6 {
		t.Fatalf("%d rows, %v:\n%s", len(rows), err, file.body)
	}
	last := len(rows[0]) - 1
	balance := w.money(me)[0]
	// What is held has left the wallet, and is in no line yet.
	held := w.money(me)[1]
	if got, want := strings.ReplaceAll(rows[len(rows)-1][last], ".", ""), fmt.Sprint(balance+held); got != want {
		t.Errorf("the statement closes at %s paise; the wallet and its holds are %s", got, want)
	}
	if workbook := b.get("/panel/statement/export/xlsx").shows(t, http.StatusOK, "PK"); !strings.Contains(workbook.header.Get("Content-Disposition"), ".xlsx") {
		t.Errorf("the workbook comes as %q", workbook.header.Get("Content-Disposition"))
	}
	list := b.get("/panel/transactions/export/csv").shows(t, http.StatusOK, "9700000001")
	if lines := strings.Count(list.body, "\r\n"); lines != 6 {
		t.Errorf("the file of transactions has %d lines; want a title and 5:\n%s", lines, list.body)
	}
	b.get("/panel/statement?from=yesterday").shows(t, http.StatusOK, "That is not a day.")
	b.get("/panel/statement?after=nonsense!").shows(t, http.StatusNotFound)
}

// A bulk renewal from the expiry list and one from a file: checked, started, run,
// looked at row by row; and what another operator cannot see of it.
func TestOperatorsRenewInBulkInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, ids := w.customers(5)
	before := w.money(me)[0]
	tab := looktest.New(t)
	tabSignIn(w, tab, w.line.Operator)
	tab.Sees("₹")

	tab.Open(w.at("/panel/bulk"))
	tab.Sees("From the expiry list")
	tab.Check("panel-bulk")
	w.pass(24 * 24 * time.Hour) // they expire in a few days
	tab = looktest.New(t)
	tabSignIn(w, tab, w.line.Operator)
	tab.Sees("₹")
	tab.Open(w.at("/panel/bulk?within=15"))
	tab.Sees("5 subscribers")
	tab.Check("panel-bulk-offer")
	tab.Do(chromedp.Click(`input[value="`+ids[4]+`"]`, chromedp.ByQuery))
	tab.Press("Check these")
	tab.Sees("the wallet covers the sum")
	tab.Check("panel-bulk-draft")
	if now := w.money(me)[0]; now != before {
		t.Fatalf("a check has cost %d paise", before-now)
	}
	draft := tab.URL()
	tab.Press("Renew 4 subscribers")
	tab.Sees("Finished")
	tab.Check("panel-bulk-finished")
	if cost := before - w.money(me)[0]; cost != 4*199_00 {
		t.Errorf("four renewals cost %d paise", cost)
	}

	// Sent once more, the form of a job that was started changes nothing.
	b := w.as(t, w.line.Operator)
	at, err := url.Parse(draft)
	if err != nil {
		t.Fatal(err)
	}
	b.post(at.Path+"/start", nil).sends(t, at.Path)
	if cost := before - w.money(me)[0]; cost != 4*199_00 {
		t.Errorf("started twice, they cost %d paise", cost)
	}
	b.get(at.Path+"/csv").shows(t, http.StatusOK, ids[0], "Done")

	// To another operator it is not there.
	other := w.newOperator("Another", access.AllPermissions)
	stranger := w.as(t, w.person(t, "stranger", "owner", other.operatorID))
	for _, path := range []string{at.Path, at.Path + "/csv"} {
		stranger.get(path).shows(t, http.StatusNotFound)
	}
	for _, path := range []string{at.Path + "/start", at.Path + "/cancel"} {
		stranger.post(path, nil).shows(t, http.StatusNotFound)
	}

	file := filepath.Join(t.TempDir(), "november.csv")
	if err := os.WriteFile(file, []byte("mobile,plan_id\n9800000004,\n9999999999,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tab.Open(w.at("/panel/bulk"))
	tab.Do(chromedp.SetUploadFiles(`input[type="file"]`, []string{file}, chromedp.ByQuery))
	tab.Press("Check the file")
	tab.Sees("There is no such subscriber.")
	tab.Check("panel-bulk-file")
	w.script("9800000004", "reject")
	tab.Press("Renew 1 subscriber")
	tab.Sees("The provider refused it.")
	tab.Check("panel-bulk-failed")
	tab.Press("Try the failed rows again")
	tab.Sees("Again: november.csv")
	tab.Press("Renew 1 subscriber")
	tab.Sees("Finished")
	if cost := before - w.money(me)[0]; cost != 5*199_00 {
		t.Errorf("five renewals cost %d paise", cost)
	}

	// A list that is put away stays away, and one that is sent as another operator's
	// finds none of these subscribers.
	put := b.post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).location
	b.post(put+"/cancel", nil).sends(t, "/panel/bulk")
	b.post(put+"/start", nil).sends(t, put)
	theirs := stranger.post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).location
	stranger.get(theirs).shows(t, http.StatusOK, "None of the rows can be renewed.", "There is no such subscriber.")
	if cost := before - w.money(me)[0]; cost != 5*199_00 {
		t.Errorf("with a list that was put away, five renewals cost %d paise", cost)
	}
	b.upload("/panel/bulk", "file", "bad.csv", "name\nAsha\n").shows(t, http.StatusUnprocessableEntity, "The file cannot be used as it is", "name")
	b.post("/panel/bulk", url.Values{"within": {"7"}}).shows(t, http.StatusUnprocessableEntity, "Choose at least one subscriber.")
	w.audited()
}

// upload posts a form with a file in it.
func (b *browser) upload(path, field, name, content string) page {
	b.t.Helper()
	var body strings.Builder
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile(field, name)
	if err != nil {
		b.t.Fatal(err)
	}
	_, _ = part.Write([]byte(content))
	_ = form.Close()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.w.at(path), strings.NewReader(body.String()))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", form.FormDataContentType())
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.send(request)
}

// Whoever writes an operator's programs sees the keys, finds a refused call in the
// log, and is told what is wrong with its signature.
func TestIntegratorsFindOutWhyASignatureWasRefusedInABrowser(t *testing.T) {
	aboutNoStore(t)
	t.Parallel()
	w := newWorld(t)
	me := w.demoCaller()
	w.expect("a balance", call{as: me, path: balance}, fault.OK)
	other := w.newOperator("Another", access.AllPermissions)
	theirs := w.expect("another's", call{as: other, path: balance}, fault.OK)
	wrong := me
	wrong.secret = "cxs_" + strings.Repeat("0", 64)
	refused := w.expect("a wrong secret", call{as: wrong, path: "/api/v1/subscription?mobile=9876543210"}, fault.InvalidSignature)

	tab := looktest.New(t)
	tabSignIn(w, tab, w.line.Operator)
	tab.Sees("₹")
	tab.Open(w.at("/panel/keys"))
	tab.Sees(access.Hint(me.key))
	if body := tab.Text("main"); strings.Contains(body, me.key) {
		t.Error("the page shows a whole key")
	}
	tab.Check("panel-keys")
	tab.Open(w.at("/panel/requests"))
	tab.Sees(refused.id)
	if body := tab.Text("main"); strings.Contains(body, theirs.id) {
		t.Error("the log shows another operator's call")
	}
	tab.Check("panel-requests")
	tab.Fill("Search", refused.id)
	tab.Until("one call is left", `document.querySelectorAll("#list tbody tr").length === 1`)
	tab.Open(w.at("/panel/signature"))
	tab.Check("panel-signature")
	tab.Fill("Request id", refused.id)
	tab.Press("Find it")
	tab.Sees("The six lines that the server computed")
	tab.Check("panel-request")

	entry, err := w.node.requests.Search(t.Context(), me.operatorID, requestlog.Query{RequestID: refused.id})
	if err != nil || len(entry.Entries) != 1 {
		t.Fatalf("%v, %v", entry, err)
	}
	server := entry.Entries[0].Evidence.StringToSign
	tab.Fill("The string that your program signs", strings.Replace(server, "GET", "get", 1))
	tab.Press("Compare")
	tab.Sees("The method has to be in upper case: GET.")
	tab.Check("panel-request-compared")

	b := w.as(t, w.line.Operator)
	at := "/panel/requests/" + entry.Entries[0].ID
	b.post(at, url.Values{"theirs": {strings.ReplaceAll(server, "\n", "\r\n")}}).shows(t, http.StatusOK, "byte by byte.", "so it is the secret")
	b.upload(at, "file", "signed.txt", strings.ReplaceAll(server, "\n", "\r\n")).shows(t, http.StatusOK, "CR LF")
	b.post(at, nil).shows(t, http.StatusUnprocessableEntity, "Paste the string")
	stranger := w.as(t, w.person(t, "stranger", "owner", other.operatorID))
	stranger.get(at).shows(t, http.StatusNotFound)
	stranger.post(at, url.Values{"theirs": {server}}).shows(t, http.StatusNotFound)
	stranger.get("/panel/signature?request="+refused.id).shows(t, http.StatusOK, "There is no such request in the log.")
}
