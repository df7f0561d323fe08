package looktest

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed testdata/axe.min.js
var axe string

// Size is a screen size.
type Size struct {
	Name          string
	Width, Height int64
	touch         bool
}

// Theme is the system's preferred colour scheme.
type Theme string

// The sizes that pages are tested at.
var (
	Phone = Size{"phone", 390, 844, true}
	Desk  = Size{"desk", 1440, 900, false}
)

// The themes.
const (
	Light Theme = "light"
	Dark  Theme = "dark"
)

// ShotsVariable names the environment variable with the folder for pictures. Without it
// they go to the test's artefacts.
const ShotsVariable = "COAX_TEST_SHOTS"

// LooksVariable names the environment variable with the views of Check: "all" for both
// sizes and both themes, "no" for none (pages look the same on the other store), else only
// the width on a phone: pictures and axe-core take most of a story's time.
const LooksVariable = "COAX_TEST_LOOKS"

// view is a size and a theme in which Check tests pages.
type view struct {
	size  Size
	theme Theme
	// pictured: a picture is saved. accessible: axe-core checks the page as well.
	pictured, accessible bool
}

// views returns the views of LooksVariable. The two of all four that axe-core checks cover
// both sizes and both themes.
func views() []view {
	switch os.Getenv(LooksVariable) {
	case "all":
		return []view{{Phone, Light, true, true}, {Phone, Dark, true, false}, {Desk, Light, true, false}, {Desk, Dark, true, true}}
	case "no":
		return nil
	}
	return []view{{Phone, Light, false, false}}
}

// everyView are both sizes in both themes, all checked by axe-core.
var everyView = []view{{Phone, Light, true, true}, {Phone, Dark, true, true}, {Desk, Light, true, true}, {Desk, Dark, true, true}}

// As sets the tab's screen size and theme. Animations are off: a picture must not depend on
// when it is taken.
func (tab *Tab) As(size Size, theme Theme) {
	tab.t.Helper()
	tab.Do(
		emulation.SetDeviceMetricsOverride(size.Width, size.Height, 1, size.touch),
		emulation.SetTouchEmulationEnabled(size.touch),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: string(theme)},
			{Name: "prefers-reduced-motion", Value: "reduce"},
		}),
	)
}

// Check tests the current page in the views of LooksVariable: it fails the test if the page
// is wider than the screen or, in all views, if axe-core finds a serious accessibility
// problem, and saves pictures of them. Afterwards the tab has desktop size and the light theme.
func (tab *Tab) Check(name string) {
	tab.t.Helper()
	tab.check(name, views(), false)
}

// CheckEveryView is Check in both sizes and both themes, whatever LooksVariable says, and
// fails on every problem that axe-core finds.
func (tab *Tab) CheckEveryView(name string) {
	tab.t.Helper()
	tab.check(name, everyView, true)
}

func (tab *Tab) check(name string, views []view, strict bool) {
	tab.t.Helper()
	for _, v := range views {
		tab.As(v.size, v.theme)
		shown := fmt.Sprintf("%s-%s-%s", name, v.size.Name, v.theme)
		if v.pictured {
			tab.shoot(shown, v.size)
		}
		tab.Fits(shown, v.size)
		if tab.scripted && v.accessible {
			tab.accessible(shown, strict)
		}
	}
	tab.As(Desk, Light)
}

// Shot saves one picture of the current page.
func (tab *Tab) Shot(name string, size Size, theme Theme) {
	tab.t.Helper()
	tab.As(size, theme)
	tab.shoot(fmt.Sprintf("%s-%s-%s", name, size.Name, theme), size)
}

// shoot saves a picture of the page.
func (tab *Tab) shoot(view string, size Size) {
	tab.t.Helper()
	name := strings.ReplaceAll(view, "/", "-") + ".png"
	if err := os.WriteFile(filepath.Join(Folder(tab.t), name), tab.Picture(size), 0o644); err != nil {
		tab.t.Fatal(err)
	}
}

// Screen saves a picture of what is on the screen, for pages that are too long for a picture
// of the whole.
func (tab *Tab) Screen(name string, size Size) {
	tab.t.Helper()
	var picture []byte
	tab.Do(chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(Folder(tab.t), name+"-"+size.Name+".png"), picture, 0o644); err != nil {
		tab.t.Fatal(err)
	}
}

// Picture returns a PNG of the whole page. The screen is made as tall as the page, so that
// elements fixed to an edge are in their place.
func (tab *Tab) Picture(size Size) (picture []byte) {
	tab.t.Helper()
	var tall int64
	tab.Do(chromedp.Evaluate(`document.documentElement.scrollHeight`, &tall))
	tab.Do(
		emulation.SetDeviceMetricsOverride(size.Width, max(tall, size.Height), 1, size.touch),
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			picture, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).WithOptimizeForSpeed(true).Do(ctx)
			return err
		}),
		emulation.SetDeviceMetricsOverride(size.Width, size.Height, 1, size.touch),
	)
	return picture
}

// Folder returns the folder for a test's pictures.
func Folder(t testing.TB) string {
	t.Helper()
	folder := os.Getenv(ShotsVariable)
	if folder == "" {
		return t.ArtifactDir()
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Fits fails the test if the page is wider than the screen, which has this size.
func (tab *Tab) Fits(view string, size Size) {
	tab.t.Helper()
	var wide struct {
		Width int64
		Who   string
	}
	tab.Do(chromedp.Evaluate(`(() => {
		const room = document.documentElement.clientWidth;
		const scrolls = (e) => { for (; e; e = e.parentElement) if (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX)) return true; return false; };
		const who = [...document.body.querySelectorAll("*")].find(e => e.checkVisibility() && e.getBoundingClientRect().right > room + 1 && !scrolls(e));
		return {Width: document.documentElement.scrollWidth, Who: who ? who.outerHTML.slice(0, 200) : ""};
	})()`, &wide))
	if wide.Width > size.Width {
		tab.t.Errorf("%s is %d px wide on a screen of %d: %s", view, wide.Width, size.Width, wide.Who)
	}
}

// DialogFits is true in a page whose open dialog is within the screen, and scrolls only downwards.
const DialogFits = `(d => { const b = d.getBoundingClientRect(); return b.left >= 0 && b.right <= innerWidth && b.top >= 0 && b.bottom <= innerHeight && d.scrollWidth <= d.clientWidth; })(document.querySelector("dialog[open]"))`

// violation is axe-core's report on one rule.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string `json:"html"`
		FailureSummary string `json:"failureSummary"`
	}
}

// accessible fails the test on problems that axe-core finds; unless it is strict, on those
// that it calls serious or critical.
func (tab *Tab) accessible(view string, strict bool) {
	tab.t.Helper()
	var found []violation
	tab.Do(
		chromedp.Evaluate(axe+`; undefined`, nil),
		chromedp.Evaluate(`axe.run(document, {preload: false, resultTypes: ["violations"]}).then(r => r.violations)`, &found,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
	)
	for _, v := range found {
		if slices.Contains(tab.excused, v.ID) || !strict && v.Impact != "serious" && v.Impact != "critical" {
			continue
		}
		for _, n := range v.Nodes {
			tab.t.Errorf("%s: %s (%s, %s)\n%s\n%s", view, v.Help, v.ID, v.Impact, n.HTML, n.FailureSummary)
		}
	}
}
