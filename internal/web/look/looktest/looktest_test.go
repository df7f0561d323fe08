package looktest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

// listener is a testing.TB that records errors.
type listener struct {
	*testing.T
	said     []string
	cleanups []func()
}

func (l *listener) Errorf(format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
}
func (l *listener) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// end runs the cleanups.
func (l *listener) end() {
	for _, f := range l.cleanups {
		f()
	}
}

func serve(t *testing.T, body string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; form-action 'self'")
		fmt.Fprintf(w, `<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>A page</title><link rel="icon" href="data:,"></head><body><main><h1>A page</h1>%s</main></body></html>`, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Each kind of problem is shown to Check once: a check that reports nothing would pass
// every page.
func TestCheck_ReportsEachProblem(t *testing.T) {
	t.Setenv(ShotsVariable, t.TempDir()) // not in the shared folder
	t.Setenv(LooksVariable, "all")
	for name, tt := range map[string]struct{ body, want string }{
		"to a script inline":            {`<script>document.title = "no"</script>`, "Content Security Policy"},
		"to a style inline":             {`<p style="color: red">red</p>`, "Content Security Policy"},
		"to an asset that is not there": {`<script src="/static/gone.js"></script>`, "/static/gone.js"},
		"to a field without a label":    {`<form><input name="x"></form>`, "label"},
		"to a page wider than a phone":  {`<svg width="900" height="10" aria-hidden="true"></svg>`, "px wide on a screen of 390"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &listener{T: t}
			tab := New(l)
			tab.Open(serve(t, tt.body))
			tab.Check("trouble")
			l.end()
			if got := strings.Join(l.said, "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("it said %q; want something about %q", got, tt.want)
			}
		})
	}
}

func TestCheck_SavesPictureOfEachView(t *testing.T) {
	tab := New(t)
	tab.Open(serve(t, `<form action="/"><label for="n">Name</label><input id="n" name="n"><button>Send</button></form>`))
	for looks, want := range map[string]int{"": 0, "all": 4, "no": 0} {
		folder := t.TempDir()
		t.Setenv(ShotsVariable, folder)
		t.Setenv(LooksVariable, looks)
		tab.Check("order")
		shots, err := filepath.Glob(filepath.Join(folder, "order-*.png"))
		if err != nil || len(shots) != want {
			t.Errorf("with %s=%q there are %d pictures, %v; want %d", LooksVariable, looks, len(shots), err, want)
		}
	}

	tab.Fill("Name", "Asha")
	tab.Press("Send")
	tab.Until("the form arrived", `location.search === "?n=Asha"`)
}

func TestTab_OwnCookies(t *testing.T) {
	url := serve(t, "")
	a, b := New(t), WithoutScript(t)
	a.Open(url)
	b.Open(url)
	a.Until("a cookie is set", `(document.cookie = "who=a; Secure") && document.cookie === "who=a"`)
	b.Until("the other tab has no cookie", `document.cookie === ""`)
}
