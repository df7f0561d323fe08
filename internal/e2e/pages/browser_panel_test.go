package pages

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// A customer's life in the panel: activation, search, renewal, advance renewal while the
// provider does not answer, and a password reset.
func TestBrowser_PanelDay(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=10s")
	me := w.DemoCaller()
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("No active subscribers yet")
	tab.Check("panel-home-empty")

	// A new customer. An error is shown beside its field, and the rest of the form is kept.
	tab.Press("Activate a subscriber")
	tab.Fill("Full name", "Asha Rao")
	tab.Fill("Mobile", "98123")
	tab.Set("Plan", "BASIC-1")
	tab.Press("See the price")
	tab.Sees("It has to be exactly 10 digits.")
	tab.Check("panel-activate-refused")
	tab.Fill("Mobile", "9812345678")
	tab.Press("See the price")
	tab.Sees("Wallet after")
	tab.Sees("₹9,801.00")
	tab.Check("panel-activate-confirm")
	if got := w.WalletPaise(me); got != [2]int64{1_000_000, 0} {
		t.Errorf("showing the price moved money: %v", got)
	}
	tab.Press("Pay ₹199.00 from the wallet")
	tab.Sees("The subscriber is activated.")
	tab.Check("panel-activated")
	if password := tab.Text(".copyable-value"); len(password) != 12 {
		t.Errorf("the password that is shown is %q; want one of 12 characters", password)
	}

	// The search runs while typing.
	id := w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?mobile=9812345678"}).Text("customer.subscriber_id")
	tab.Open(w.URL("/panel/subscribers"))
	tab.Fill("Search", "nobody")
	tab.Sees("No subscribers match this search")
	tab.Fill("Search", "98123")
	tab.Sees("Asha Rao")
	tab.Check("panel-subscribers")
	tab.Press("Asha Rao")
	tab.Sees("Timeline")
	tab.Check("panel-subscriber")

	// A renewal with a double click.
	tab.Press("Renew")
	tab.Sees("The plan begins now")
	tab.Set("Which plan", "FAMILY-1")
	tab.Sees("₹9,452.00")
	tab.Check("panel-renew")
	tab.Do(chromedp.DoubleClick(`#order form[method="post"] button`, chromedp.ByQuery, chromedp.NodeVisible))
	tab.Sees("The subscriber is renewed.")
	tab.Check("panel-renewed")
	if got := w.WalletPaise(me); got != [2]int64{1_000_000 - 19_900 - 34_900, 0} {
		t.Errorf("after one activation and one renewal the wallet holds %v", got)
	}
	tab.Do(chromedp.Reload())
	tab.Sees("The subscriber is renewed.")

	// The provider carries out the next order and does not reply. The page updates by
	// itself when the service settles it.
	w.ScriptProvider("9812345678", "timeout_applied")
	tab.Open(w.URL("/panel/subscribers/" + id + "/advance-renew"))
	tab.Sees("Choose a plan to see its price and the new expiry.")
	tab.Set("Which plan", "BASIC-1")
	tab.Sees("₹9,253.00")
	tab.Check("panel-advance-renew")
	tab.Press("Pay ₹199.00 from the wallet")
	tab.Sees("Do not buy it a second time.")
	tab.Check("panel-in-review")
	if got := w.WalletPaise(me); got != [2]int64{1_000_000 - 19_900 - 34_900 - 19_900, 19_900} {
		t.Errorf("while one is in review the wallet holds %v", got)
	}
	w.Advance(11 * time.Second)
	tab.Sees("The next cycle is booked.")
	tab.Check("panel-booked")

	// The panel's orders are in the request log, with their answers.
	tab.Open(w.URL("/panel/requests"))
	tab.Set("Key", "pages")
	tab.Sees("202 PENDING_REVIEW")
	tab.Sees("POST /panel/subscribers/" + id + "/renew")
	tab.Sees("Panel: Demo Operator")
	tab.Check("panel-requests-pages")
	tab.Press("POST /panel/activate")
	tab.Sees("The request succeeded.")
	tab.Check("panel-request-page")

	tab.Open(w.URL("/panel/subscribers/" + id + "/password"))
	tab.Check("panel-password")
	tab.Press("Replace password")
	tab.Sees("The password was changed.")
	tab.Check("panel-password-replaced")

	tab.Open(w.URL("/panel/"))
	tab.Sees("Expiring next")
	tab.Sees("of 1 active subscriber")
	tab.Check("panel-home")
	w.CheckAudit()
}

// The panel in Hindi and without JavaScript.
func TestBrowser_PanelHindiWithoutScript(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	w.Activate(w.DemoCaller(), "9812345678", "BASIC-1")
	tab := looktest.WithoutScript(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("Welcome")
	tab.Press("हिन्दी")
	tab.Sees("नमस्ते")
	tab.Check("panel-home-hindi")
	tab.Open(w.URL("/panel/subscribers"))
	tab.Fill("खोजें", "asha")
	tab.Press("खोजें")
	tab.Press("Asha")
	tab.Sees("क्या हुआ")
	tab.Press("रिन्यू करें")
	tab.Set("कौन-सा प्लान", "FAMILY-1")
	tab.Press("दाम दिखाएँ")
	tab.Sees("₹9,452.00")
	tab.Check("panel-renew-hindi")
	tab.Press("वॉलेट से ₹349.00 चुकाएँ")
	tab.Sees("ग्राहक रिन्यू हो गया है।")
	tab.Check("panel-renewed-hindi")
	w.CheckAudit()
}
