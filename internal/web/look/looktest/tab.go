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

// Tab is one tab of the browser with its own cookies. It is closed at the end of its test,
// which fails if the browser reported an error.
type Tab struct {
	t        testing.TB
	ctx      context.Context
	scripted bool

	mu         sync.Mutex
	complaints []string
	forgiven   []string
	excused    []string // rules of axe-core
}

// New opens a tab as wide as a desktop.
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

// newWindow opens a window with its own cookies. The driver would open a tab, which
// Chromium refuses where there is no window.
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
		// An error means that the browser has ended.
		_ = target.DisposeBrowserContext(jar).Do(whole)
	}
}

// hear records what appears in the browser's console: exceptions, errors and violations of
// the content security policy.
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

// answered reports whether an entry is about a page with an error status, such as 422 to a
// form, rather than about a missing asset: the browser logs both.
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

// Forgive ignores browser errors that contain a text, for tests that cause them.
func (tab *Tab) Forgive(part string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.forgiven = append(tab.forgiven, part)
}

// Excuse ignores some rules of axe-core, for markup that is not ours.
func (tab *Tab) Excuse(rules ...string) { tab.excused = rules }

// Listen calls a function with every event of the tab.
func (tab *Tab) Listen(each func(event any)) { chromedp.ListenTarget(tab.ctx, each) }

// Do runs actions of the driver, all within actionTimeout.
func (tab *Tab) Do(actions ...chromedp.Action) {
	tab.t.Helper()
	if err := tab.try(actionTimeout, actions...); err != nil {
		tab.t.Fatalf("%v\n%s", err, tab.state())
	}
}

func (tab *Tab) try(limit time.Duration, actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(tab.ctx, limit)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// state describes the page, for failure messages.
func (tab *Tab) state() string {
	var url, text string
	if err := tab.try(5*time.Second, chromedp.Location(&url), chromedp.Evaluate(`document.body ? document.body.innerText : ""`, &text)); err != nil {
		return "(and the page cannot be asked: " + err.Error() + ")"
	}
	return "at " + url + ", which reads:\n" + text
}

// Open navigates to a URL and waits until it is loaded.
func (tab *Tab) Open(url string) {
	tab.t.Helper()
	tab.Do(chromedp.Navigate(url))
}

// URL returns the tab's URL.
func (tab *Tab) URL() string {
	tab.t.Helper()
	var url string
	tab.Do(chromedp.Location(&url))
	return url
}

// Click clicks the first element that a selector finds, once it is visible.
func (tab *Tab) Click(selector string) {
	tab.t.Helper()
	tab.click(selector, chromedp.ByQuery)
}

// click clicks an element once it is visible. If the page replaces the element before it is
// clicked, it clicks the new one.
func (tab *Tab) click(selector string, by chromedp.QueryOption) {
	tab.t.Helper()
	for tries := 1; ; tries++ {
		err := tab.try(actionTimeout, chromedp.Click(selector, by, chromedp.NodeVisible))
		if err == nil {
			return
		}
		if tries == 5 || !strings.Contains(err.Error(), "Could not find node with given id") {
			tab.t.Fatalf("%v\n%s", err, tab.state())
		}
	}
}

// Press clicks the button or link with this text, once it is visible.
func (tab *Tab) Press(text string) {
	tab.t.Helper()
	tab.click(found(`button, a, summary`, text), chromedp.ByJSPath)
}

// Fill types into the field with that label, replacing its value.
func (tab *Tab) Fill(label, value string) {
	tab.t.Helper()
	field := fieldOf(label)
	tab.Do(
		chromedp.WaitVisible(field, chromedp.ByJSPath),
		chromedp.Evaluate(`(field => { field.value = "" })(`+field+`)`, nil),
		chromedp.SendKeys(field, value, chromedp.ByJSPath),
	)
}

// Set sets the value of the field with that label: for selects, dates and check boxes
// ("true" and "false").
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

// WaitFor waits until an element that a selector finds is visible.
func (tab *Tab) WaitFor(selector string) {
	tab.t.Helper()
	tab.Do(chromedp.WaitVisible(selector, chromedp.ByQuery))
}

// Sees waits until the page contains a text.
func (tab *Tab) Sees(text string) {
	tab.t.Helper()
	tab.Until(fmt.Sprintf("the page reads %q", text), `document.body.innerText.includes(`+quoted(text)+`)`)
}

// Until waits until an expression is true, even if another page is loaded meanwhile.
func (tab *Tab) Until(what, expression string) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, actionTimeout)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		var holds bool
		// Between two pages there is nothing to evaluate.
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

// Text returns the visible text of the first element that a selector finds.
func (tab *Tab) Text(selector string) string {
	tab.t.Helper()
	var text string
	tab.Do(chromedp.Text(selector, &text, chromedp.ByQuery))
	return strings.TrimSpace(text)
}

// found is the expression for the first visible element with this text. Badges may follow
// on lines of their own.
func found(selector, text string) string {
	return `[...document.querySelectorAll(` + quoted(selector) + `)].find(e => e.checkVisibility() && e.innerText.trim().split("\n")[0].trim() === ` + quoted(text) + `)`
}

// fieldOf is the expression for the field of a label.
func fieldOf(label string) string {
	return `[...document.querySelectorAll("label")].find(l => l.checkVisibility() && l.innerText.trim() === ` + quoted(label) + `)?.control`
}

func quoted(text string) string { return strconv.Quote(text) }
