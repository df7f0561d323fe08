package looktest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// Tab is one tab of the browser, with cookies of its own: two tabs are two
// people. It is closed at the end of its test, which fails if the browser
// complained about anything meanwhile.
type Tab struct {
	t        testing.TB
	ctx      context.Context
	scripted bool

	mu         sync.Mutex
	complaints []string
	forgiven   []string
}

// New opens a tab as wide as a service.
func New(t testing.TB) *Tab {
	t.Helper()
	return open(t, true)
}

// WithoutScript opens a tab that runs no scripts.
func WithoutScript(t testing.TB) *Tab {
	t.Helper()
	return open(t, false)
}

func open(t testing.TB, scripted bool) *Tab {
	t.Helper()
	chromium := browser(t)
	window, discard := newWindow(t, chromium)
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithTargetID(window))
	tab := &Tab{t: t, ctx: ctx, scripted: scripted}
	t.Cleanup(func() {
		cancel()
		discard()
		tab.mu.Lock()
		defer tab.mu.Unlock()
		for _, c := range tab.complaints {
			t.Errorf("the browser complains: %s", c)
		}
	})
	chromedp.ListenTarget(ctx, tab.hear)
	if err := chromedp.Run(ctx, runtime.Enable(), log.Enable()); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	tab.As(Desk, Light)
	if !scripted {
		tab.Do(emulation.SetScriptExecutionDisabled(true))
	}
	return tab
}

// newWindow opens a window with a jar of cookies of its own. The driver would ask
// for a tab there, and a Chromium of today has none to give where no window is.
func newWindow(t testing.TB, chromium context.Context) (window target.ID, discard func()) {
	t.Helper()
	whole := cdp.WithExecutor(chromium, chromedp.FromContext(chromium).Browser)
	jar, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(whole)
	if err != nil {
		t.Fatalf("make room for a window: %v", err)
	}
	window, err = target.CreateTarget("about:blank").WithBrowserContextID(jar).WithNewWindow(true).Do(whole)
	if err != nil {
		t.Fatalf("open a window: %v", err)
	}
	return window, func() {
		// With the browser gone, so are its windows.
		_ = target.DisposeBrowserContext(jar).Do(whole)
	}
}

// hear notes what a page would leave in the browser's console: exceptions,
// errors, and what its own policy forbade it.
func (tab *Tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		tab.complain("exception: " + e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeAssert {
			var words []string
			for _, arg := range e.Args {
				words = append(words, strings.TrimSpace(string(arg.Value)+" "+arg.Description))
			}
			tab.complain("console: " + strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError && !answered(e.Entry) {
			tab.complain(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// answered tells a page that said no, such as 422 to a form, from an asset that
// is missing: the browser logs both.
func answered(entry *log.Entry) bool {
	return entry.Source == log.SourceNetwork &&
		strings.Contains(entry.Text, "responded with a status of 4") &&
		!strings.Contains(entry.URL, "/static/")
}

func (tab *Tab) complain(text string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	for _, part := range tab.forgiven {
		if strings.Contains(text, part) {
			return
		}
	}
	tab.complaints = append(tab.complaints, text)
}

// Forgive lets the browser complain about what contains a text, where the test
// is about just that.
func (tab *Tab) Forgive(part string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.forgiven = append(tab.forgiven, part)
}

// Do takes actions of the driver's own, all within the patience that tests have.
func (tab *Tab) Do(actions ...chromedp.Action) {
	tab.t.Helper()
	if err := tab.try(patience, actions...); err != nil {
		tab.t.Fatalf("%v\n%s", err, tab.state())
	}
}

func (tab *Tab) try(limit time.Duration, actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(tab.ctx, limit)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// state says where a test got stuck.
func (tab *Tab) state() string {
	var url, text string
	if err := tab.try(5*time.Second, chromedp.Location(&url), chromedp.Evaluate(`document.body ? document.body.innerText : ""`, &text)); err != nil {
		return "(and the page cannot be asked: " + err.Error() + ")"
	}
	return "at " + url + ", which reads:\n" + text
}

// Open goes to an address and waits until it is loaded.
func (tab *Tab) Open(url string) {
	tab.t.Helper()
	tab.Do(chromedp.Navigate(url))
}

// URL is where the tab is.
func (tab *Tab) URL() string {
	tab.t.Helper()
	var url string
	tab.Do(chromedp.Location(&url))
	return url
}

// Click clicks what a selector finds first, once it can be seen.
func (tab *Tab) Click(selector string) {
	tab.t.Helper()
	tab.Do(chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// Press clicks the button or link that reads so, once it can be seen.
func (tab *Tab) Press(text string) {
	tab.t.Helper()
	tab.Do(chromedp.Click(found(`button, a, summary`, text), chromedp.ByJSPath, chromedp.NodeVisible))
}

// Fill types into the field with that label, in place of what was there.
func (tab *Tab) Fill(label, value string) {
	tab.t.Helper()
	field := fieldOf(label)
	tab.Do(
		chromedp.WaitVisible(field, chromedp.ByJSPath),
		chromedp.Evaluate(`(field => { field.value = "" })(`+field+`)`, nil),
		chromedp.SendKeys(field, value, chromedp.ByJSPath),
	)
}

// Set gives the field with that label a value as a choice would: for selects,
// dates and check boxes ("true" and "false").
func (tab *Tab) Set(label, value string) {
	tab.t.Helper()
	tab.Do(
		chromedp.WaitVisible(fieldOf(label), chromedp.ByJSPath),
		chromedp.Evaluate(`(() => {
			const field = `+fieldOf(label)+`, value = `+quoted(value)+`;
			if (field.type === "checkbox") field.checked = value === "true"; else field.value = value;
			for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, {bubbles: true}));
		})()`, nil),
	)
}

// WaitFor waits until something that a selector finds can be seen.
func (tab *Tab) WaitFor(selector string) {
	tab.t.Helper()
	tab.Do(chromedp.WaitVisible(selector, chromedp.ByQuery))
}

// Sees waits until the page reads so somewhere.
func (tab *Tab) Sees(text string) {
	tab.t.Helper()
	tab.Until(fmt.Sprintf("the page reads %q", text), `document.body.innerText.includes(`+quoted(text)+`)`)
}

// Until waits until an expression is true of the page, whichever page that is by
// then.
func (tab *Tab) Until(what, expression string) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		var holds bool
		// While one page gives way to the next there is nothing to ask.
		if err := chromedp.Run(ctx, chromedp.Evaluate(`!!(document.body && (`+expression+`))`, &holds)); err == nil && holds {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			tab.t.Fatalf("waited in vain until %s\n%s", what, tab.state())
		}
	}
}

// Text is what can be read in the first element that a selector finds.
func (tab *Tab) Text(selector string) string {
	tab.t.Helper()
	var text string
	tab.Do(chromedp.Text(selector, &text, chromedp.ByQuery))
	return strings.TrimSpace(text)
}

// found is the expression for the first visible element that reads so. Badges
// and the like may follow the words, on lines of their own.
func found(selector, text string) string {
	return `[...document.querySelectorAll(` + quoted(selector) + `)].find(e => e.checkVisibility() && e.innerText.trim().split("\n")[0].trim() === ` + quoted(text) + `)`
}

// fieldOf is the expression for the field that a label belongs to.
func fieldOf(label string) string {
	return `[...document.querySelectorAll("label")].find(l => l.checkVisibility() && l.innerText.trim() === ` + quoted(label) + `)?.control`
}

func quoted(text string) string { return strconv.Quote(text) }
