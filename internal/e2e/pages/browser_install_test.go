package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// relay passes connections on to the service, at an address that stays the same while the
// connection is lost and found again.
type relay struct {
	t       *testing.T
	address string
	to      string

	mu       sync.Mutex
	listener net.Listener
	open     []net.Conn
}

func newRelay(t *testing.T, w *e2e.Env) *relay {
	t.Helper()
	r := &relay{t: t, address: "127.0.0.1:0", to: strings.TrimPrefix(w.URL(""), "https://")}
	r.connect()
	t.Cleanup(r.lose)
	return r
}

// url returns the URL of a path by way of the relay.
func (r *relay) url(path string) string { return "https://" + r.address + path }

func (r *relay) connect() {
	r.t.Helper()
	listener, err := net.Listen("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listener, r.address = listener, listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", r.to)
			if err != nil {
				_ = client.Close()
				continue
			}
			r.mu.Lock()
			r.open = append(r.open, client, server)
			r.mu.Unlock()
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // ends with either connection
				_ = to.Close()
			}
			go pass(server, client)
			go pass(client, server)
		}
	}()
}

// lose closes every connection and refuses new ones.
func (r *relay) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.listener.Close()
	for _, c := range r.open {
		_ = c.Close()
	}
	r.open = nil
}

const (
	nothingSent      = "No connection. Nothing was sent."
	nothingSentHindi = "कनेक्शन नहीं है। कुछ भी नहीं भेजा गया।"
	tryAgain         = "[data-language]:not([hidden]) .button-primary"
)

// Without a connection there is a page that says so and has no data; with one it goes on.
// What the browser stores is that page and its style, never a page of the panel.
func TestBrowser_WithoutConnection(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	w.Activate(w.DemoCaller(), "9812345678", "BASIC-1")
	lines := newRelay(t, w)
	tab := looktest.New(t)
	tab.Forgive("net::ERR_")
	// What an earlier version has stored goes away with it.
	tab.Open(lines.url("/sign-in"))
	tab.Until("the worker controls the page", `navigator.serviceWorker.controller?.state === "activated"`)
	tab.Do(awaited(`(async () => {
		for (const r of await navigator.serviceWorker.getRegistrations()) await r.unregister();
		await (await caches.open("/static/offline.000000000000.html")).put("/static/style.000000000000.css", new Response("old"));
	})()`, nil))
	tab.Open(lines.url("/sign-in"))
	tab.Until("the worker controls the page", `navigator.serviceWorker.controller?.state === "activated"`)

	tab.Fill("Username", w.Demo.Operator.Username)
	tab.Fill("Password", w.Demo.Operator.Password)
	tab.Press("Sign in")
	tab.Sees("Expiring next")
	for _, path := range []string{"/panel/subscribers", "/panel/transactions", "/panel/statement", "/panel/subscribers"} {
		tab.Open(lines.url(path))
		tab.WaitFor("main")
	}
	tab.Sees("9812345678")
	kept := []string{look.Asset("favicon.svg"), look.Asset("offline.html"), look.Asset("offline.js"), look.Asset("style.css")}
	slices.Sort(kept)
	checkKept := func() {
		t.Helper()
		var stored []string
		tab.Do(awaited(`(async () => {
			const all = [];
			for (const name of await caches.keys()) for (const r of await (await caches.open(name)).keys()) all.push(new URL(r.url).pathname + new URL(r.url).search);
			return all;
		})()`, &stored))
		if slices.Sort(stored); !slices.Equal(stored, kept) {
			t.Errorf("the browser has stored %q; want %q", stored, kept)
		}
	}
	checkKept()

	lines.lose()
	tab.Do(chromedp.ActionFunc(network.ClearBrowserCache().Do))
	tab.Open(lines.url("/panel/statement"))
	tab.Sees(nothingSent)
	tab.Until("the page has its style", `getComputedStyle(document.querySelector(".button-primary")).backgroundColor !== "rgba(0, 0, 0, 0)"`)
	tab.Check("offline")
	tab.Open(lines.url("/panel/subscribers"))
	tab.Sees(nothingSent)
	tab.Until("there is no data on it", `!document.body.innerText.includes("9812345678")`)
	tab.Click(tryAgain)
	tab.Sees(nothingSent)
	lines.connect()
	tab.Sees("9812345678") // by itself

	// It is in the language of the page before it.
	tab.Press("हिन्दी")
	tab.Sees("ग्राहक")
	tab.Until("the page has stored its language", `localStorage.getItem("language") === "hi"`)
	lines.lose()
	tab.Open(lines.url("/panel/subscribers"))
	tab.Sees(nothingSentHindi)
	tab.Until("it is in Hindi alone", `document.documentElement.lang === "hi" && document.title === "कनेक्शन नहीं है · Coax" && !document.body.innerText.includes("No connection")`)
	tab.Check("offline-hindi")
	tab.Shot("offline-hindi", looktest.Desk, looktest.Light)
	// The browser may know that the connection is back, long before the page asks by itself.
	tab.Do(chromedp.Evaluate(`sessionStorage.setItem("reloads", 20)`, nil))
	tab.Click(tryAgain)
	tab.Sees(nothingSentHindi)
	lines.connect()
	tab.Do(chromedp.Evaluate(`dispatchEvent(new Event("online"))`, nil))
	tab.Sees("9812345678")

	// Who signed out sees nothing of what was there before.
	tab.Click(".side form[action='/sign-out'] button")
	tab.WaitFor(`form[action="/sign-in"]`)
	lines.lose()
	tab.Open(lines.url("/panel/subscribers"))
	tab.Sees(nothingSentHindi)
	lines.connect()
	tab.WaitFor(`form[action="/sign-in"]`)
	checkKept()
}

// A server that can be reached and still does not bring the page is asked ever more rarely.
func TestBrowser_OfflinePageReloadsInNoLoop(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	lines := newRelay(t, w)
	tab := looktest.New(t)
	tab.Forgive("net::ERR_")
	tab.Open(lines.url("/sign-in"))
	tab.Until("the worker controls the page", `navigator.serviceWorker.controller?.state === "activated"`)
	lines.lose()
	// The page believes that the server answers, waits for no pause, and stops after seven reloads.
	tab.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`
			const pauses = JSON.parse(sessionStorage.pauses || "[]"), waits = setInterval;
			fetch = async () => new Response();
			setInterval = (again, pause) => {
				sessionStorage.pauses = JSON.stringify([...pauses, pause]);
				if (pauses.length < 7) waits(again, 1);
			};
		`).Do(ctx)
		return err
	}))
	tab.Open(lines.url("/sign-in"))
	tab.Until("the pauses double, up to a minute", `sessionStorage.pauses === "[3000,6000,12000,24000,48000,60000,60000,60000]"`)
	tab.Sees(nothingSent)
}

// awaited evaluates an expression and waits for its promise.
func awaited(expression string, result any) chromedp.Action {
	return chromedp.Evaluate(expression, result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) })
}

// A form is not sent without a connection: the page says so and keeps what was typed. A
// browser that is offline may still reach a server on its own machine; then it is sent.
func TestBrowser_FormWithoutConnection(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	lines := newRelay(t, w)
	tab := looktest.New(t)
	tab.Forgive("net::ERR_")
	tab.Open(lines.url("/"))
	tab.Fill("Username", w.Demo.Operator.Username)
	tab.Fill("Password", w.Demo.Operator.Password)
	tab.Press("Sign in")
	tab.Sees("Activate a subscriber")
	tab.Open(lines.url("/panel/activate"))
	tab.Fill("Full name", "Asha Rao")
	tab.Fill("Mobile", "9812345678")
	tab.Set("Plan", "BASIC-1")
	tab.Press("See the price")
	tab.Sees("Wallet after")
	tab.Do(network.OverrideNetworkState(true, 0, -1, -1))
	tab.Until("the browser is offline", `!navigator.onLine`)
	lines.lose()
	tab.As(looktest.Phone, looktest.Light)
	tab.Do(chromedp.Evaluate(`scrollTo(0, document.body.scrollHeight)`, nil))
	tab.Press("Pay ₹199.00 from the wallet")
	tab.Sees(nothingSent)
	tab.Until("the notice is in sight", `(() => {
		const told = document.querySelector('[data-told="offline"][role="alert"]').getBoundingClientRect();
		return scrollY > 0 && told.top >= 0 && told.bottom <= innerHeight;
	})()`)
	tab.Check("offline-form")
	if w.ProviderOrders() != 0 {
		t.Error("an order was sent")
	}
	lines.connect()
	tab.Press("Pay ₹199.00 from the wallet")
	tab.Sees("The subscriber is activated.")
	if got := w.ProviderOrders(); got != 1 {
		t.Errorf("the provider got %d orders; want 1", got)
	}
	w.CheckAudit()
}

// The panel can be installed as an app: the manifest has what browsers ask for. The console,
// where the app does not begin, offers none.
func TestManifest_IsInstallable(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	link := regexp.MustCompile(`<link rel="manifest" href="([^"]+)">`)
	if link.MatchString(w.SignIn(t, w.Demo.Admin).Get("/console/").Body) {
		t.Error("the console has a manifest")
	}
	b := w.SignIn(t, w.Demo.Operator)
	found := link.FindStringSubmatch(b.Get("/panel/").Shows(t, http.StatusOK, `<link rel="apple-touch-icon" href="/static/apple-touch-icon.`).Body)
	if found == nil {
		t.Fatal("the panel has no manifest")
	}
	file := b.Get(found[1])
	var manifest struct {
		Name, Display, Scope string
		ShortName            string `json:"short_name"`
		StartURL             string `json:"start_url"`
		Icons                []struct{ Src, Sizes, Type, Purpose string }
	}
	if err := json.Unmarshal([]byte(file.Body), &manifest); err != nil || file.Header.Get("Content-Type") != "application/manifest+json" {
		t.Fatalf("%v, %s:\n%s", err, file.Header.Get("Content-Type"), file.Body)
	}
	if manifest.Name != "Coax" || manifest.ShortName == "" || manifest.StartURL != "/panel/" || manifest.Scope != "/" || manifest.Display != "standalone" {
		t.Errorf("the manifest is %+v", manifest)
	}
	var icons []string
	for _, icon := range manifest.Icons {
		served := b.Get(icon.Src)
		drawn, err := png.DecodeConfig(strings.NewReader(served.Body))
		if got := fmt.Sprintf("%dx%d", drawn.Width, drawn.Height); err != nil || got != icon.Sizes || icon.Type != "image/png" {
			t.Errorf("%s is %s, %v; the manifest says %s", icon.Src, got, err, icon.Sizes)
		}
		icons = append(icons, icon.Purpose+" "+icon.Sizes)
	}
	if want := []string{"any 192x192", "any 512x512", "maskable 512x512"}; !slices.Equal(icons, want) {
		t.Errorf("the icons are %q; want %q", icons, want)
	}
	worker := b.Get("/static/worker.js").Shows(t, http.StatusOK, look.Asset("offline.html"), look.Asset("style.css"))
	if got := worker.Header.Get("Service-Worker-Allowed") + ", " + worker.Header.Get("Cache-Control"); got != "/, no-cache" {
		t.Errorf("the worker is served with %s", got)
	}
}

// Chromium reads the panel's manifest without an error and finds nothing that keeps it from
// being installed; the console has no manifest.
func TestBrowser_Installable(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t)
	for who, want := range map[demo.Login]string{w.Demo.Operator: w.URL(look.Asset("manifest.webmanifest")), w.Demo.Admin: ""} {
		tab := looktest.New(t)
		tabSignIn(w, tab, who)
		tab.WaitFor(".side-nav")
		tab.Do(chromedp.ActionFunc(func(ctx context.Context) error {
			url, problems, _, _, err := page.GetAppManifest().Do(ctx)
			if err != nil {
				return err
			}
			if url != want || len(problems) > 0 {
				t.Errorf("the manifest of %s is %q, with %d problems; want %q", who.Username, url, len(problems), want)
			}
			missing, err := page.GetInstallabilityErrors().Do(ctx)
			for _, m := range missing {
				t.Errorf("the pages of %s cannot be installed: %s", who.Username, m.ErrorID)
			}
			return err
		}))
	}
}
