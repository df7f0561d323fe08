// Package looktest tests pages in Chromium: it opens them, clicks and types, takes pictures
// at the widths of a phone and of a desktop, light and dark, and fails a test on browser
// errors and on accessibility problems. Only tests import it.
//
// A test binary that uses it has
//
//	func TestMain(m *testing.M) { os.Exit(looktest.Run(m)) }
//
// and then looktest.New(t) in as many tests as it likes.
package looktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// actionTimeout bounds every browser action; it is long because the machine may be busy
// with other tests.
const actionTimeout = 3 * time.Minute

// programs are the browser's names in distributions. The first is headless Chromium: the
// program itself, because the script in /usr/bin starts it as a child, which would survive
// the script.
var programs = []string{"/usr/lib/chromium/chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

var errNoBrowser = errors.New("there is no Chromium on this machine; scripts/tools-present installs it")

// The one browser of a test binary, started by the first test that opens a tab and ended
// by Run.
var shared struct {
	sync.Mutex
	hosted bool // Run or Host was called, so it will be ended
	ctx    context.Context
	err    error
	end    func()
}

// Run runs the tests and then ends the browser.
func Run(m *testing.M) int {
	shared.Lock()
	shared.hosted = true
	shared.Unlock()
	defer Close()
	return m.Run()
}

// Host is for a TestMain with other duties: it allows tabs to be opened, and its caller
// ends the browser with Close.
func Host() {
	shared.Lock()
	defer shared.Unlock()
	shared.hosted = true
}

// Close ends the browser, if one was started, and removes its files.
func Close() {
	shared.Lock()
	defer shared.Unlock()
	if shared.end != nil {
		shared.end()
		shared.end, shared.ctx = nil, nil
	}
}

// browser returns the browser of this test binary, and starts it if needed.
func browser(t testing.TB) context.Context {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.hosted {
		t.Fatal("looktest: TestMain has to call looktest.Run, which ends the browser")
	}
	if shared.ctx == nil && shared.err == nil {
		shared.ctx, shared.end, shared.err = start()
	}
	switch {
	case errors.Is(shared.err, errNoBrowser) && os.Getenv("CI") == "":
		t.Skip(shared.err)
	case shared.err != nil:
		t.Fatal(shared.err)
	}
	return shared.ctx
}

func start() (context.Context, func(), error) {
	program := ""
	for _, name := range programs {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		return nil, nil, errNoBrowser
	}
	profile, err := os.MkdirTemp("", "coax-browser-")
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.UserDataDir(profile),
		// It opens only pages of this test, and a container may have no namespaces for a
		// sandbox.
		chromedp.NoSandbox,
		// Containers have little shared memory.
		chromedp.Flag("disable-dev-shm-usage", true),
		// The demo's certificate is its own.
		chromedp.Flag("ignore-certificate-errors", true),
		// There is no network: a page that needs another host fails.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
		chromedp.Flag("lang", "en-IN"),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("hide-scrollbars", true),
		// There is no graphics card, and emulating one takes processor time.
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-software-rasterizer", true),
		chromedp.WSURLReadTimeout(2*actionTimeout),
	)
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endBrowser := chromedp.NewContext(allocator, chromedp.WithErrorf(ignore))
	end := func() {
		endBrowser()
		endAllocator() // waits for the process
		os.RemoveAll(profile)
	}
	// The browser lives as long as the context of the first run, so that context has no
	// deadline; WSURLReadTimeout bounds the start.
	if err := chromedp.Run(ctx); err != nil {
		end()
		return nil, nil, fmt.Errorf("start %s: %w", program, err)
	}
	return ctx, end, nil
}

// ignore drops the driver's messages about unknown events.
func ignore(string, ...any) {}
