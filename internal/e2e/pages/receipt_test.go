package pages

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

var (
	linkShown     = regexp.MustCompile(`data-copy="(https://[^"]+/r/[A-Za-z0-9_-]+\?lang=(?:en|hi))"`)
	whatsAppShown = regexp.MustCompile(`href="(https://wa\.me/[^"]+)"`)
)

// markedDuplicate is on a receipt that was printed or sent before. On others a script may show the mark.
const markedDuplicate = `<span class="receipt-mark">Duplicate</span>`

// sold activates a customer and returns the path of its receipt.
func sold(w *e2e.Env, mobile string) string {
	w.TB.Helper()
	w.Activate(w.DemoCaller(), mobile, "BASIC-1")
	return "/panel/transactions/" + w.LookUp(w.DemoCaller(), "activate-"+mobile).Text("transaction_id") + "/receipt"
}

func TestReceipt_FromTheSaleToTheCustomer(t *testing.T) {
	w := e2e.NewEnv(t)
	first := sold(w, "9812345678")
	second := sold(w, "9812345679")
	b := w.SignIn(t, w.Demo.Operator)

	// What receipts say about the operator is refused if it is mistyped.
	const details = "/panel/receipt-details"
	for gstin, why := range map[string]string{"27AAPFU0939F1ZA": "its last character does not fit", "27AAPFU": "has 7 characters: a GSTIN has 15"} {
		b.Post(details, url.Values{"address": {"12 Lake Road, Kochi"}, "gstin": {gstin}}).Shows(t, http.StatusUnprocessableEntity, why, gstin, "12 Lake Road, Kochi")
	}
	b.Post(details, url.Values{"address": {"12 Lake Road, Kochi"}, "gstin": {" 27 aapfu0939f 1zv "}}).RedirectsTo(t, details)
	b.Get(details).Shows(t, http.StatusOK, "27AAPFU0939F1ZV")

	for from, to := range map[string]string{strings.TrimSuffix(first, "/receipt"): first, "/panel/transactions": second} {
		b.Get(from).Shows(t, http.StatusOK, `href="`+to+`"`)
	}
	page := b.Get(second).Shows(t, http.StatusOK, "12 Lake Road, Kochi", "27AAPFU0939F1ZV", "/000002", "••••••5679", "₹199.00", "not a tax invoice", "Asha")
	b.Get(first).Shows(t, http.StatusOK, "/000001")

	// The first print, on a roll, and later ones.
	printed := b.Post(second, url.Values{"paper": {"80mm"}}).Shows(t, http.StatusOK, `class="receipt receipt-80mm"`, "This is the first print.")
	if strings.Contains(printed.Body, markedDuplicate) {
		t.Error("the first print is called a duplicate")
	}
	w.Advance(time.Minute)
	b.Post(second, url.Values{"paper": {"a4"}}).Shows(t, http.StatusOK, `class="receipt receipt-a4"`, markedDuplicate, "Printed or sent before on")
	b.Get(second).Shows(t, http.StatusOK, "Printed or sent before on")
	if first := b.Post(first, url.Values{"paper": {"a4"}}); strings.Contains(first.Body, markedDuplicate) {
		t.Error("the first print of another receipt is called a duplicate")
	}

	// The message to the customer has the link that is shown.
	found, message := linkShown.FindStringSubmatch(page.Body), whatsAppShown.FindStringSubmatch(page.Body)
	if found == nil || message == nil {
		t.Fatalf("the page has no link or no message:\n%s", page.Body)
	}
	link := found[1]
	opened, err := url.Parse(html.UnescapeString(message[1]))
	if text := opened.Query().Get("text"); err != nil || opened.Path != "/919812345679" || !strings.HasSuffix(text, ": "+link) || !strings.Contains(text, "₹199.00 received for") {
		t.Errorf("the message to %s is %q, %v", opened.Path, text, err)
	}

	// The customer opens it without signing in, and sees no wallet and no number.
	path, _, _ := strings.Cut(strings.TrimPrefix(link, w.URL("")), "?")
	shared := w.Browser(t).Get(path).Shows(t, http.StatusOK, "/000002", "12 Lake Road, Kochi", "Asha", "₹199.00", "Electronic copy", "••••••5679")
	for _, hidden := range []string{"9812345679", "Wallet", "allet", "ommission", "/panel/", "/sign-out"} {
		if strings.Contains(shared.Body, hidden) {
			t.Errorf("the shared receipt has %q:\n%s", hidden, shared.Body)
		}
	}
	if got := shared.Header.Get("X-Robots-Tag"); !strings.Contains(got, "noindex") || shared.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("robots are told %q, caches %q", got, shared.Header.Get("Cache-Control"))
	}
	if got := b.Get(path).Shows(t, http.StatusOK, "Electronic copy"); strings.Contains(got.Body, "/panel/") {
		t.Error("a signed-in visitor sees the navigation of the panel around a shared receipt")
	}

	// A wrong link, one of no receipt, and one that has ended are one page.
	anyone := w.Browser(t)
	anyone.Get(path+"A").Shows(t, http.StatusNotFound, "This link is not valid any more.")
	anyone.Get("/r/"+strings.Repeat("A", 5000)).Shows(t, http.StatusNotFound, "This link is not valid any more.")
	anyone.Get("/r/x").Shows(t, http.StatusNotFound, "This link is not valid any more.")
	w.Advance(30*24*time.Hour - 2*time.Minute)
	anyone.Get(path).Shows(t, http.StatusOK)
	w.Advance(2 * time.Minute)
	anyone.Get(path).Shows(t, http.StatusNotFound, "This link is not valid any more.")
	if strings.Contains(w.Log.String(), path) {
		t.Error("the log has the link")
	}
	w.CheckAudit()
}

func TestReceipt_OtherOperatorsOrFailedIs404(t *testing.T) {
	w := e2e.NewEnv(t, "provider.timeout=2s")
	path := sold(w, "9812345678")
	w.ScriptProvider("9812345679", "reject")
	refused := w.Operate(w.DemoCaller(), "activate", "refused-0001", e2e.Order{"full_name": "Asha Rao", "mobile": "9812345679", "plan_id": "BASIC-1"})
	b := w.SignIn(t, w.Demo.Operator)
	failed := "/panel/transactions/" + w.LookUp(w.DemoCaller(), "refused-0001").Text("transaction_id")
	if page := b.Get(failed).Shows(t, http.StatusOK); strings.Contains(page.Body, "/receipt") {
		t.Errorf("a failed operation has a receipt: %v", refused)
	}
	for _, missing := range []string{failed + "/receipt", "/panel/transactions/CX-NONE/receipt"} {
		b.Get(missing).Shows(t, http.StatusNotFound)
		b.Post(missing, url.Values{"paper": {"a4"}}).Shows(t, http.StatusNotFound)
	}
	w.Browser(t).Get(path).RedirectsTo(t, "/sign-in?to="+url.QueryEscape(path))
}

func TestReceipt_HidesRemovedPersonalData(t *testing.T) {
	w := e2e.NewEnv(t)
	path := sold(w, "9812345678")
	id := w.LookUp(w.DemoCaller(), "activate-9812345678").Text("customer.subscriber_id")
	b := w.SignIn(t, w.Demo.Operator)
	link := linkShown.FindStringSubmatch(b.Get(path).Shows(t, http.StatusOK, "Asha", "wa.me").Body)[1]
	w.Advance(30*24*time.Hour - time.Second)
	if _, err := w.Admin.ForgetSubscriber(t.Context(), id, 0, "asked for it"); err == nil {
		t.Fatal("a subscriber was forgotten whose subscription runs")
	}
	w.Advance(time.Second)
	if _, err := w.Admin.ForgetSubscriber(t.Context(), id, 0, "asked for it"); err != nil {
		t.Fatal(err)
	}
	b = w.SignIn(t, w.Demo.Operator)
	renewed := b.Get(path).Shows(t, http.StatusOK, "removed on request", "/000001", "₹199.00")
	link2 := linkShown.FindStringSubmatch(renewed.Body)[1]
	for what, page := range map[string]string{
		"the page": renewed.Body, "the print": b.Post(path, url.Values{"paper": {"a4"}}).Shows(t, http.StatusOK).Body,
		"the new link": w.Browser(t).Get(strings.TrimPrefix(link2, w.URL(""))).Shows(t, http.StatusOK, "removed on request").Body,
		"the old link": w.Browser(t).Get(strings.TrimPrefix(link, w.URL(""))).Body,
	} {
		for _, part := range []string{"Asha", "9812345678", "5678", "wa.me", "0000000000"} {
			if strings.Contains(page, part) {
				t.Errorf("%s has %q:\n%s", what, part, page)
			}
		}
	}
}

// A link opens in the language of the message that it was sent with, whatever the customer's browser
// asks for. One without a language, from before an upgrade, opens in the browser's.
func TestReceipt_LinkOpensInLanguageOfMessage(t *testing.T) {
	w := e2e.NewEnv(t)
	path := sold(w, "9812345678")
	b := w.SignIn(t, w.Demo.Operator)
	opened := func(link, asked string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL(link), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Language", asked)
		page := w.Browser(t).Send(request).Shows(t, http.StatusOK)
		return regexp.MustCompile(`<html lang="(..)"`).FindStringSubmatch(page.Body)[1]
	}
	for language, text := range map[string]string{"hi": "मिले, प्लान", "en": "received for"} {
		b.Post("/account/language", url.Values{"language": {language}, "back": {path}}).RedirectsTo(t, path)
		page := b.Get(path).Shows(t, http.StatusOK)
		link := linkShown.FindStringSubmatch(page.Body)[1]
		message, err := url.Parse(html.UnescapeString(whatsAppShown.FindStringSubmatch(page.Body)[1]))
		if sent := message.Query().Get("text"); err != nil || !strings.Contains(sent, text) || !strings.HasSuffix(sent, ": "+link) {
			t.Errorf("in %s the message is %q, %v", language, sent, err)
		}
		link = strings.TrimPrefix(link, w.URL(""))
		bare, _, _ := strings.Cut(link, "?")
		for asked, own := range map[string]string{"hi-IN,hi;q=0.9,en;q=0.8": "hi", "en-US,en;q=0.9": "en"} {
			if got := opened(link, asked); got != language {
				t.Errorf("the link of a message in %s opens in %s", language, got)
			}
			for _, other := range []string{bare, bare + "?lang=xx"} {
				if got := opened(other, asked); got != own {
					t.Errorf("%s opens in %s; want the browser's %s", other, got, own)
				}
			}
		}
	}
}
