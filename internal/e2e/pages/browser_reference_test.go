package pages

import (
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// The reference works for an anonymous visitor on a desktop and on a phone, and its search
// finds endpoints. The browser requests nothing from another host.
func TestBrowser_Reference(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	tab := looktest.New(t)
	var mu sync.Mutex
	var requested []string
	tab.Do(network.Enable())
	tab.Listen(func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			mu.Lock()
			defer mu.Unlock()
			requested = append(requested, sent.Request.URL)
		}
	})

	for _, size := range []looktest.Size{looktest.Desk, looktest.Phone} {
		tab.As(size, looktest.Light)
		tab.Open(w.URL("/docs"))
		tab.WaitFor("#reference[data-ready]")
		tab.Sees("Activate a new subscriber")
		tab.Until("the reference names this service", `document.body.textContent.includes("`+w.URL("/api/v1")+`")`)
		tab.Fits("reference", size)
		tab.Screen("reference", size)
		if size == looktest.Phone {
			// The menu, and with it the search, is behind a button at the bottom.
			tab.Do(chromedp.Evaluate(`[...document.querySelectorAll("#reference div")].find(e => getComputedStyle(e).position === "fixed" && e.offsetWidth > 0 && e.offsetWidth < 100 && e.querySelector("svg")).click()`, nil))
		}
		tab.WaitFor("[role=search] input")
		tab.Do(chromedp.SendKeys("[role=search] input", "balance", chromedp.ByQuery))
		tab.Until("the search finds an endpoint", `[...document.querySelectorAll("[data-role='search:results'] li")].some(e => e.innerText.includes("Read the wallet"))`)
		tab.Screen("reference-search", size)
	}
	// Code samples and schemas open without an error in the browser's console.
	tab.As(looktest.Desk, looktest.Light)
	tab.Open(w.URL("/docs#tag/Operations/operation/activate"))
	tab.WaitFor("#reference[data-ready]")
	tab.Do(chromedp.Evaluate(`document.querySelectorAll("#reference button[aria-expanded=false], #reference [role=button][aria-expanded=false]").forEach(e => e.click())`, nil))
	tab.Sees("SUBSCRIBER_EXISTS")
	tab.Do(chromedp.Evaluate(`[...document.querySelectorAll("#reference [role=tab]")].filter(e => e.innerText === "PHP").forEach(e => e.click())`, nil))
	tab.Until("there are samples in PHP", `document.body.textContent.includes("$client->activate(")`)

	tab.Screen("samples", looktest.Desk)
	tab.Excuse(redocRules...)
	tab.Check("reference")
	tab.Excuse()
	tab.Press("Guide")
	tab.Sees("Signing, step by step")
	tab.Check("guide")
	tab.Click(`.docs-guide a[href="/docs/what-happens-when"]`)
	tab.Sees("Somebody clicks twice")
	// The picture has its colours: the first bar is amber.
	tab.Until("the picture is shown", `(picture => {
		if (picture.naturalWidth !== 400) return false;
		const canvas = Object.assign(document.createElement("canvas"), {width: 400, height: 200}).getContext("2d");
		canvas.drawImage(picture, 0, 0);
		const [red, , blue] = canvas.getImageData(15, 105, 1, 1).data;
		return red > 100 && blue < 80;
	})(document.querySelector(".docs-guide img"))`)
	tab.Check("what-happens-when")
	tab.Click(`.docs-guide a[href="/docs/guide"]`)
	tab.Sees("Signing, step by step")
	tab.Press("SDKs")
	tab.Sees("How every SDK behaves")
	tab.Check("sdk-behaviour")
	tab.Press("Reference")
	tab.WaitFor("#reference[data-ready]")

	// So it has when it is opened on its own.
	tab.Open(w.URL("/docs/after-each-answer.svg"))
	var fill string
	tab.Do(chromedp.Evaluate(`getComputedStyle(document.querySelector(".page")).fill`, &fill))
	if fill != "rgb(255, 255, 255)" {
		t.Errorf("the picture's page is %q; want white", fill)
	}

	mu.Lock()
	defer mu.Unlock()
	if len(requested) < 6 {
		t.Errorf("only these requests were seen: %q", requested)
	}
	for _, url := range requested {
		if !strings.HasPrefix(url, w.URL("/")) && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:"+w.URL("/")) {
			t.Errorf("the browser requested %s", url)
		}
	}
}

// redocRules are the rules of axe-core that Redoc's own markup breaks.
var redocRules = []string{"heading-order", "empty-table-header"}

// Without scripts the reference names where else to read.
func TestBrowser_ReferenceWithoutScript(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	tab := looktest.WithoutScript(t)
	tab.Open(w.URL("/docs"))
	if got := tab.Text("#reference noscript"); !strings.Contains(got, "The reference needs JavaScript.") {
		t.Errorf("the page reads %q", got)
	}
}
