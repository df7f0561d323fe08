package look

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/coaxhq/coax/internal/web/look/looktest"
)

func TestMain(m *testing.M) { os.Exit(looktest.Run(m)) }

// policy is the content security policy of the pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; manifest-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// serveGuide serves the style guide with the assets and the policy of the pages.
func serveGuide(t *testing.T) string {
	t.Helper()
	l := guide(t)
	mux := http.NewServeMux()
	mux.Handle("GET /static/", Static())
	mux.HandleFunc("GET /{page}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		theme := ""
		if c, err := r.Cookie("theme"); err == nil {
			theme = c.Value
		}
		frame := guideFrame(r.FormValue("lang"), theme, r.FormValue("area"))
		if err := l.Page(w, r.PathValue("page"), frame, guideData()); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestStyleGuide_Check(t *testing.T) {
	t.Setenv(looktest.LooksVariable, "all") // these pages have every component
	url := serveGuide(t)
	tab := looktest.New(t)
	for name, address := range map[string]string{
		"guide-panel":   "/guide?area=panel",
		"guide-console": "/guide?area=console",
		"guide-hindi":   "/guide?area=panel&lang=hi",
		"account":       "/sign-in?area=account",
		"account-hindi": "/sign-in?area=account&lang=hi",
	} {
		tab.Open(url + address)
		tab.Check(name)
	}
}

// A printed page has no buttons, and tables are complete.
func TestPrint_HasNoNavigation(t *testing.T) {
	at := serveGuide(t)
	tab := looktest.New(t)
	tab.Open(at + "/guide?area=panel")
	tab.Do(emulation.SetEmulatedMedia().WithMedia("print"), emulation.SetDeviceMetricsOverride(690, 1000, 1, false))
	tab.Until("only what was asked for is on paper", `[".side", ".top", ".tabs-bottom", ".page-head-actions", ".filters", ".pager-steps", ".actions"]
		.every(s => [...document.querySelectorAll(s)].every(e => !e.checkVisibility()))
		&& [...document.querySelectorAll(".table-cards tbody tr")].every(e => e.checkVisibility())
		&& getComputedStyle(document.querySelector(".card > .table-scroll")).overflowX === "visible"`)
	tab.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		paper, _, err := page.PrintToPDF().WithPrintBackground(true).Do(ctx)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(looktest.Folder(t), "guide-printed.pdf"), paper, 0o644)
	}))
}

func TestTheme_SwitchIsRemembered(t *testing.T) {
	url := serveGuide(t)
	tab := looktest.New(t)
	tab.Open(url + "/guide?area=panel")
	tab.Click(".side [data-theme-switch]")
	tab.Until("the page is dark", `document.documentElement.dataset.theme === "dark"`)
	tab.Open(url + "/guide?area=panel")
	tab.Until("the next page is dark too", `getComputedStyle(document.body).colorScheme === "dark"`)
}

// The values of a chart are shown under the pointer and at the focus, which arrow keys move.
func TestChart_ShowsValues(t *testing.T) {
	at := serveGuide(t)
	tab := looktest.New(t)
	tab.Open(at + "/guide?area=panel")
	shown := func(label string) string {
		return `(() => {
			const tips = [...document.querySelectorAll(".chart-tip")].filter(e => e.checkVisibility());
			const box = tips[0]?.getBoundingClientRect();
			return tips.length === 1 && tips[0].querySelector("b").innerText === "` + label + `" && box.left >= 0 && box.right <= innerWidth
				&& [...tips[0].closest(".chart").querySelectorAll(".chart-title, .chart-change, .chart-legend")].every(e => e.getBoundingClientRect().bottom <= box.top || e.getBoundingClientRect().top >= box.bottom);
		})()`
	}
	tab.As(looktest.Phone, looktest.Light)
	tab.Do(chromedp.Focus(".chart-spot", chromedp.ByQuery))
	tab.Until("the first value is shown", shown("17 Oct"))
	tab.Do(chromedp.KeyEvent(kb.ArrowRight))
	tab.Until("the second value is shown", shown("18 Oct"))
	tab.Do(chromedp.KeyEvent(kb.End))
	tab.Until("the last value is shown", shown("15 Nov"))
	tab.Shot("chart-value", looktest.Phone, looktest.Dark)
	tab.Do(chromedp.Evaluate(`document.querySelectorAll(".chart")[2].querySelector(".chart-spot").focus()`, nil))
	tab.Until("the value is shown below the legend", shown("Mon"))
	tab.Shot("chart-legend", looktest.Phone, looktest.Light)
	tab.Do(chromedp.Focus(".chart-spot", chromedp.ByQuery))
	tab.As(looktest.Desk, looktest.Light)
	tab.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		var box []float64
		if err := chromedp.Evaluate(`(b => [b.left + b.width / 2, b.top + b.height / 2])(document.querySelectorAll(".chart-spot")[9].getBoundingClientRect())`, &box).Do(ctx); err != nil {
			return err
		}
		return chromedp.MouseEvent(input.MouseMoved, box[0], box[1]).Do(ctx)
	}))
	tab.Until("the value under the pointer is shown, and no other", shown("26 Oct"))
	tab.Shot("chart-hover", looktest.Desk, looktest.Light)
}

func TestDialog_Keyboard(t *testing.T) {
	at := serveGuide(t)
	tab := looktest.New(t)
	tab.Open(at + "/guide?area=panel")
	tab.Do(chromedp.Focus(`[commandfor="renew"][command="show-modal"]`, chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	tab.WaitFor("dialog#renew[open]")
	tab.As(looktest.Phone, looktest.Light)
	tab.Until("the dialog fits on a phone", looktest.DialogFits)
	tab.Shot("dialog", looktest.Phone, looktest.Light)
	tab.Do(chromedp.KeyEvent(kb.Escape))
	tab.Until("the dialog is closed", `!document.getElementById("renew").open`)
}

func TestDrawer_WorksWithoutScript(t *testing.T) {
	at := serveGuide(t)
	tab := looktest.WithoutScript(t)
	tab.As(looktest.Phone, looktest.Light)
	tab.Open(at + "/guide?area=panel")
	tab.Click("details.drawer > summary")
	tab.WaitFor(".drawer-sheet .nav a[href='/keys']")
	tab.Shot("drawer", looktest.Phone, looktest.Light)
}

func TestPage_SkipLinkComesFirst(t *testing.T) {
	at := serveGuide(t)
	tab := looktest.New(t)
	tab.Open(at + "/guide?area=panel")
	tab.Do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	tab.Until("the content has the focus", `document.activeElement.id === "main"`)
}

func TestForm_SubmitsOnce(t *testing.T) {
	at := serveGuide(t)
	tab := looktest.New(t)
	tab.Open(at + "/guide?area=panel")
	tab.Until("only the first of two clicks counts", `(() => {
		const form = [...document.forms].find(f => f.elements.reference && f.method === "post");
		let sent = 0;
		form.addEventListener("submit", e => { sent++; e.preventDefault(); });
		form.requestSubmit(); form.requestSubmit();
		return sent === 1;
	})()`)
}

func TestNotice_CanBeClosed(t *testing.T) {
	at := serveGuide(t)
	tab := looktest.New(t)
	tab.Open(at + "/guide?area=panel")
	tab.Click("#notices [data-dismiss]")
	tab.Until("the notice is gone", `!document.querySelector("#notices .notice")`)
}
