package pages

import (
	"fmt"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// uncovered is true if the button that pays is on top at every scroll position where its
// middle is on the screen, and at least at one.
const uncovered = `(() => {
	const pays = document.querySelector("form.form-pays button.button-primary");
	let seen = 0;
	for (let at = 0; at <= document.documentElement.scrollHeight; at += 10) {
		window.scrollTo({top: at, behavior: "instant"});
		const box = pays.getBoundingClientRect(), x = box.left + box.width / 2, y = box.bottom - 2;
		if (box.top < 60 || y > innerHeight - 2) continue;
		seen++;
		if (!pays.contains(document.elementFromPoint(x, y))) return false;
	}
	return seen > 0;
})()`

// On a phone filters are folded away, a list has 25 rows, and no bar covers the button that
// pays.
func TestBrowser_PhoneLists(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	_, ids := w.NewSubscribers(30)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("Expiring next")
	for _, page := range []string{"transactions", "statement", "requests"} {
		tab.Open(w.URL("/panel/" + page))
		tab.Until("the filters are open on a desk", `document.querySelector(".filters").checkVisibility() && !document.querySelector(".fold > summary").checkVisibility()`)
		if page != "requests" {
			tab.Until("a page has 25 rows", `document.querySelectorAll("table tbody tr").length == 25`)
		}
		tab.As(looktest.Phone, looktest.Light)
		tab.Until("the filters are folded on a phone", `!document.querySelector(".filters .button").checkVisibility() && document.querySelector(".fold > summary").checkVisibility()`)
		tab.Check("phone-" + page)
		tab.As(looktest.Phone, looktest.Light)
		tab.Click(".fold > summary")
		tab.Until("the filters unfold", `document.querySelector(".filters .button").checkVisibility()`)
		tab.As(looktest.Desk, looktest.Light)
	}
	tab.Open(w.URL("/panel/statement?side=debit"))
	tab.Until("filters that are set stay open", `document.querySelector(".fold").open`)

	for _, size := range []looktest.Size{looktest.Phone, {Name: "small", Width: 360, Height: 640}} {
		tab.As(size, looktest.Light)
		tab.Open(w.URL(fmt.Sprintf("/panel/subscribers/%s/renew", ids[0])))
		tab.Until("nothing covers the button that renews at "+size.Name, uncovered)
		tab.Open(w.URL("/panel/activate"))
		tab.Until("nothing covers the button that shows the price at "+size.Name, uncovered)
		tab.Fill("Full name", "Asha Rao")
		tab.Fill("Mobile", "9812345678")
		tab.Set("Plan", "BASIC-1")
		tab.Press("See the price")
		tab.Sees("Wallet after")
		tab.Until("nothing covers the button that activates at "+size.Name, uncovered)
	}
}
