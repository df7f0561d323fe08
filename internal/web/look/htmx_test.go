package look

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// serveSearch serves a page whose list htmx updates, under the pages' policy.
func serveSearch(t *testing.T) string {
	t.Helper()
	l := guide(t)
	mux := http.NewServeMux()
	mux.Handle("GET /static/", Static())
	mux.HandleFunc("GET /search", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		data := struct{ Query string }{r.FormValue("q")}
		show := l.Page
		if r.Header.Get("Hx-Request") != "" {
			show = func(w io.Writer, page string, f Frame, data any) error { return l.Fragment(w, page, "list", f, data) }
		}
		if err := show(w, "search", guideFrame("en", "", "panel"), data); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("GET /broken", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no", http.StatusInternalServerError)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestSearch_UpdatesWhileTyping(t *testing.T) {
	at := serveSearch(t)
	tab := looktest.New(t)
	tab.Open(at + "/search")
	tab.Fill("Who", "Asha")
	tab.Sees("Looked for: Asha")
	tab.Until("the address can be kept", `location.search === "?q=Asha"`)
	tab.Press("Next")
	tab.Sees("Looked for: second")
	if got := tab.Text("h1"); got != "Search" {
		t.Errorf("the page's head is %q now: more than the list was replaced", got)
	}
}

func TestSearch_WithoutScript(t *testing.T) {
	at := serveSearch(t) // first, so that it outlives the tab
	tab := looktest.WithoutScript(t)
	tab.Open(at + "/search")
	tab.Fill("Who", "Asha")
	tab.Press("Search")
	tab.Sees("Looked for: Asha")
	if !strings.HasSuffix(tab.URL(), "/search?q=Asha") {
		t.Errorf("at %s", tab.URL())
	}
}

func TestHTMX_FailureIsShownOnce(t *testing.T) {
	at := serveSearch(t)
	tab := looktest.New(t)
	tab.Forgive("/broken")
	tab.Open(at + "/search")
	for range 2 {
		tab.Press("Break")
		tab.Sees("This part of the page could not be updated.")
	}
	tab.Until("it is said once", `document.querySelectorAll("[data-told=\"trouble\"]").length === 1`)
}
