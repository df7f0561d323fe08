//go:build long

package pages

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// Every page and list, on a phone and on a desk, light and dark, in both languages: nothing
// is wider than the screen, and axe-core finds nothing.
func TestBrowser_EveryPage(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := newHistoryEnv(t)
	pages := timedPages(t, w)
	for _, language := range []string{look.English, look.Hindi} {
		t.Run("language="+language, func(t *testing.T) {
			tabs := map[web.Area]*looktest.Tab{web.Panel: looktest.New(t), web.Console: looktest.New(t), web.Docs: looktest.New(t)}
			tabSignIn(w, tabs[web.Panel], w.Demo.Operator)
			tabs[web.Panel].WaitFor(".side")
			tabSignIn(w, tabs[web.Console], w.Demo.Admin)
			tabs[web.Console].WaitFor(".side")
			if language == look.Hindi {
				for _, tab := range tabs {
					if tab == tabs[web.Docs] {
						tab.Open(w.URL("/sign-in"))
					}
					tab.Do(chromedp.Evaluate(`[...document.querySelectorAll('button[name="language"][value="hi"]')].find(b => b.checkVisibility()).click()`, nil))
					tab.Until("the page is in Hindi", `document.documentElement.lang === "hi"`)
				}
			}
			for _, page := range pages {
				area, _, _ := strings.Cut(strings.TrimPrefix(page.path, "/"), "/")
				tab := tabs[web.Area(area)]
				switch {
				case strings.HasPrefix(page.path, "/openapi."), strings.HasSuffix(page.path, ".svg"), strings.Contains(page.path, "/csv"), strings.Contains(page.path, "/xlsx"):
					continue // no page
				case area == "account" || page.path == "/step-up":
					tab = tabs[web.Panel]
				case area == "r": // a customer's link
					tab, page.path = tabs[web.Docs], page.path+"?lang="+language
				case tab == nil || area == "docs":
					if tab = tabs[web.Docs]; language == look.Hindi && page.path != "/sign-in" {
						continue // the documentation is in English
					}
				}
				tab.Open(w.URL(page.path))
				tab.WaitFor("main")
				tab.Excuse()
				if page.path == "/docs" {
					tab.Excuse(redocRules...)
				}
				name, _, _ := strings.Cut(strings.NewReplacer("/", "-", "?", "-", "&", "-", "=", "-").Replace(strings.Trim(page.path, "/")), "#")
				tab.CheckEveryView("every-" + name[:min(len(name), 60)] + "-" + language)
			}
		})
	}
}
