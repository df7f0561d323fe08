package pages

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// The width of a sheet between its margins of 14 mm, in CSS pixels: A4 is the narrower one.
const (
	a4Between     = (210 - 2*14) * 96 / 25.4
	letterBetween = (216 - 2*14) * 96 / 25.4
)

// Nothing that is printed begins left of the sheet's margin or ends right of it, where it would be cut off.
func TestBrowser_PrintedTablesFitSheet(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	w.NewSubscribers(2)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("₹")
	for _, path := range []string{
		"/panel/subscribers/list/due?within=30", "/panel/statement/print", "/panel/statement", "/panel/subscribers", "/panel/transactions",
	} {
		tab.Open(w.URL(path))
		tab.WaitFor("tbody td")
		for _, width := range []float64{a4Between, letterBetween} {
			fitsSheet(t, tab, path, int64(width))
		}
	}
}

// fitsSheet looks at the page as it is printed, and at each piece of its text.
func fitsSheet(t *testing.T, tab *looktest.Tab, path string, width int64) {
	t.Helper()
	var found struct {
		Texts int
		Cut   []string
	}
	tab.Do(
		emulation.SetDeviceMetricsOverride(width, 1000, 1, false),
		emulation.SetEmulatedMedia().WithMedia("print"),
		chromedp.Evaluate(`(() => {
			const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = {Texts: 0, Cut: []};
			for (let text; text = texts.nextNode();) {
				if (!text.data.trim() || !text.parentElement.checkVisibility() || text.parentElement.closest(".unseen, option, script")) continue;
				const range = document.createRange();
				range.selectNodeContents(text);
				const box = range.getBoundingClientRect();
				found.Texts++;
				if (box.left < -0.5 || box.right > innerWidth + 0.5) found.Cut.push(text.data.trim() + " from " + box.left + " to " + box.right);
			}
			return found;
		})()`, &found),
		emulation.SetEmulatedMedia().WithMedia(""),
		emulation.SetDeviceMetricsOverride(looktest.Desk.Width, looktest.Desk.Height, 1, false),
	)
	if where := fmt.Sprintf("%s on a sheet of %d px", path, width); found.Texts < 10 || len(found.Cut) > 0 {
		t.Errorf("%s has %d texts; cut off: %q", where, found.Texts, found.Cut)
	}
}
