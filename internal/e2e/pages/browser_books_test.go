package pages

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// Statement, held amounts and transactions in a browser, and as files.
func TestBrowser_StatementAndTransactions(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s")
	me, _ := w.NewSubscribers(4)
	w.StartReview(me, "activate", "unknowable", "9700000001", "in-review")
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")

	tab.Open(w.URL("/panel/statement"))
	tab.Sees("Opening balance")
	tab.Sees("Held for operations in progress")
	tab.Check("panel-statement")
	tab.Set("Show", "credit")
	tab.Until("debits are left out", `![...document.querySelectorAll("#lines tbody td")].some(c => c.dataset.label === "Debit" && c.textContent.includes("₹"))`)
	tab.Open(w.URL("/panel/statement/print"))
	tab.Sees("Closing balance")
	tab.Check("panel-statement-print")

	tab.Open(w.URL("/panel/transactions"))
	tab.Sees("Activation")
	tab.Check("panel-transactions")
	tab.Set("State", "needs_review")
	tab.Until("one is left", `document.querySelectorAll("#list tbody tr").length === 1`)

	b := w.SignIn(t, w.Demo.Operator)
	file := b.Get("/panel/statement/export/csv").Shows(t, http.StatusOK)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(file.Body, "\ufeff"))).ReadAll()
	if err != nil || len(rows) < 6 {
		t.Fatalf("%d rows, %v:\n%s", len(rows), err, file.Body)
	}
	last := len(rows[0]) - 1
	balance := w.WalletPaise(me)[0]
	// The held amount has left the wallet and has no ledger line yet.
	held := w.WalletPaise(me)[1]
	if got, want := strings.ReplaceAll(rows[len(rows)-1][last], ".", ""), fmt.Sprint(balance+held); got != want {
		t.Errorf("the statement closes at %s paise; the wallet and its holds are %s", got, want)
	}
	if workbook := b.Get("/panel/statement/export/xlsx").Shows(t, http.StatusOK, "PK"); !strings.Contains(workbook.Header.Get("Content-Disposition"), ".xlsx") {
		t.Errorf("the workbook comes as %q", workbook.Header.Get("Content-Disposition"))
	}
	b.Post("/account/language", url.Values{"language": {"hi"}})
	b.Get("/panel/statement/export/csv").Shows(t, http.StatusOK, "शुरुआती बैलेंस", "एक्टिवेशन")
	b.Post("/account/language", url.Values{"language": {"en"}})
	list := b.Get("/panel/transactions/export/csv").Shows(t, http.StatusOK, "9700000001")
	if lines := strings.Count(list.Body, "\r\n"); lines != 6 {
		t.Errorf("the file of transactions has %d lines; want a title and 5:\n%s", lines, list.Body)
	}
	b.Get("/panel/statement?from=yesterday").Shows(t, http.StatusOK, "That is not a date.")
	b.Get("/panel/statement?after=nonsense!").Shows(t, http.StatusNotFound)
}

// A bulk renewal from the expiry list and one from a file are checked, started and run;
// another operator sees nothing of them.
func TestBrowser_BulkRenewal(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me, ids := w.NewSubscribers(5)
	before := w.WalletPaise(me)[0]
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")

	tab.Open(w.URL("/panel/bulk"))
	tab.Sees("From the expiry list")
	tab.Check("panel-bulk")
	w.Advance(24 * 24 * time.Hour) // they expire in a few days
	tab = looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")
	tab.Open(w.URL("/panel/bulk?within=15"))
	tab.Sees("5 / 5")
	tab.Check("panel-bulk-offer")
	tab.Do(chromedp.Evaluate(`document.querySelector('input[value="`+ids[4]+`"]').click()`, nil)) // it may be below the bar
	tab.Sees("4 / 5")
	tab.Press("Check selected")
	tab.Sees("the wallet covers the total")
	tab.Check("panel-bulk-draft")
	if now := w.WalletPaise(me)[0]; now != before {
		t.Fatalf("checking cost %d paise", before-now)
	}
	draft := tab.URL()
	tab.Press("Renew 4 subscribers")
	tab.Sees("Finished")
	tab.Check("panel-bulk-finished")
	if cost := before - w.WalletPaise(me)[0]; cost != 4*199_00 {
		t.Errorf("four renewals cost %d paise", cost)
	}

	// Sending the form of a started job again changes nothing.
	b := w.SignIn(t, w.Demo.Operator)
	at, err := url.Parse(draft)
	if err != nil {
		t.Fatal(err)
	}
	b.Post(at.Path+"/start", nil).RedirectsTo(t, at.Path)
	if cost := before - w.WalletPaise(me)[0]; cost != 4*199_00 {
		t.Errorf("started twice, they cost %d paise", cost)
	}
	b.Get(at.Path+"/csv").Shows(t, http.StatusOK, ids[0], "Done")

	// Another operator gets 404.
	other := w.NewOperator("Another", access.AllPermissions)
	stranger := w.SignIn(t, w.NewLogin(t, "stranger", "owner", other.OperatorID))
	for _, path := range []string{at.Path, at.Path + "/csv"} {
		stranger.Get(path).Shows(t, http.StatusNotFound)
	}
	for _, path := range []string{at.Path + "/start", at.Path + "/cancel"} {
		stranger.Post(path, nil).Shows(t, http.StatusNotFound)
	}

	file := filepath.Join(t.TempDir(), "november.csv")
	if err := os.WriteFile(file, []byte("mobile,plan_id\n9800000004,\n9999999999,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tab.Open(w.URL("/panel/bulk"))
	tab.Do(chromedp.SetUploadFiles(`input[type="file"]`, []string{file}, chromedp.ByQuery))
	tab.Press("Check the file")
	tab.Sees("There is no such subscriber.")
	tab.Check("panel-bulk-file")
	w.ScriptProvider("9800000004", "reject")
	tab.Press("Renew 1 subscriber")
	tab.Sees("The provider refused it.")
	tab.Check("panel-bulk-failed")
	tab.Press("Retry failed rows")
	tab.Sees("Retry: november.csv")
	tab.Press("Renew 1 subscriber")
	tab.Sees("Finished")
	if cost := before - w.WalletPaise(me)[0]; cost != 5*199_00 {
		t.Errorf("five renewals cost %d paise", cost)
	}

	// A cancelled list cannot be started, and a list of another operator finds none of
	// these subscribers.
	put := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	b.Post(put+"/cancel", nil).RedirectsTo(t, "/panel/bulk")
	b.Post(put+"/start", nil).RedirectsTo(t, put)
	theirs := stranger.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	stranger.Get(theirs).Shows(t, http.StatusOK, "None of the rows can be renewed.", "There is no such subscriber.")
	if cost := before - w.WalletPaise(me)[0]; cost != 5*199_00 {
		t.Errorf("with a cancelled list, five renewals cost %d paise", cost)
	}
	b.Upload("/panel/bulk", "file", "bad.csv", "name\nAsha\n").Shows(t, http.StatusUnprocessableEntity, "The file has errors", "name")
	b.Post("/panel/bulk", url.Values{"within": {"7"}}).Shows(t, http.StatusUnprocessableEntity, "Select at least one subscriber.")
	w.CheckAudit()
}

// An integrator sees the keys, finds a refused call in the request log, and learns what is
// wrong with its signature.
func TestBrowser_RefusedSignatureExplained(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.DemoCaller()
	w.Expect("a balance", e2e.Call{As: me, Path: e2e.Balance}, fault.OK)
	other := w.NewOperator("Another", access.AllPermissions)
	theirs := w.Expect("a call of another operator", e2e.Call{As: other, Path: e2e.Balance}, fault.OK)
	wrong := me
	wrong.Secret = "cxs_" + strings.Repeat("0", 64)
	refused := w.Expect("a wrong secret", e2e.Call{As: wrong, Path: "/api/v1/subscription?mobile=9876543210"}, fault.InvalidSignature)

	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")
	tab.Open(w.URL("/panel/keys"))
	tab.Sees(access.Hint(me.Key))
	if body := tab.Text("main"); strings.Contains(body, me.Key) {
		t.Error("the page shows a whole key")
	}
	tab.Check("panel-keys")
	tab.Open(w.URL("/panel/requests"))
	tab.Sees(refused.ID)
	if body := tab.Text("main"); strings.Contains(body, theirs.ID) {
		t.Error("the log shows another operator's call")
	}
	tab.Check("panel-requests")
	tab.Fill("Search", refused.ID)
	tab.Until("one call is left", `document.querySelectorAll("#list tbody tr").length === 1`)
	tab.Open(w.URL("/panel/signature"))
	tab.Check("panel-signature")
	tab.Fill("Request id", refused.ID)
	tab.Press("Find")
	tab.Sees("The six lines that the server computed")
	tab.Check("panel-request")

	entry, err := w.Node.Requests.Search(t.Context(), me.OperatorID, requestlog.Query{RequestID: refused.ID})
	if err != nil || len(entry.Entries) != 1 {
		t.Fatalf("%v, %v", entry, err)
	}
	server := entry.Entries[0].Signature.StringToSign
	tab.Fill("The string that your program signs", strings.Replace(server, "GET", "get", 1))
	tab.Press("Compare")
	tab.Sees("The method has to be in upper case: GET.")
	tab.Check("panel-request-compared")

	b := w.SignIn(t, w.Demo.Operator)
	at := "/panel/requests/" + entry.Entries[0].ID
	b.Post(at, url.Values{"theirs": {strings.ReplaceAll(server, "\n", "\r\n")}}).Shows(t, http.StatusOK, "byte by byte.", "so the secret or its use is wrong")
	b.Upload(at, "file", "signed.txt", strings.ReplaceAll(server, "\n", "\r\n")).Shows(t, http.StatusOK, "CR LF")
	b.Post(at, nil).Shows(t, http.StatusUnprocessableEntity, "Paste the string")
	stranger := w.SignIn(t, w.NewLogin(t, "stranger", "owner", other.OperatorID))
	stranger.Get(at).Shows(t, http.StatusNotFound)
	stranger.Post(at, url.Values{"theirs": {server}}).Shows(t, http.StatusNotFound)
	stranger.Get("/panel/signature?request="+refused.ID).Shows(t, http.StatusOK, "There is no such request in the log.")
}
