package pages

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look"
)

// The list of pages that BenchmarkPages times is complete, each of them answers, and their texts are all from
// message files.
func TestPages_AllAnswerOnDemoHistory(t *testing.T) {
	w := newHistoryEnv(t)
	pages := timedPages(t, w)
	for _, as := range []demo.Login{w.Demo.Operator, w.Demo.Admin} {
		person, err := w.Node.Store.LoginNamed(t.Context(), as.Username)
		if err == nil {
			err = w.Node.Store.SetLanguage(t.Context(), person.ID, look.Pseudo)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var customers []string
	for _, name := range e2e.QueryRows(t, e2e.OpenReadOnly(t, w.Node.Config.Store), `SELECT DISTINCT name FROM subscribers`) {
		customers = append(customers, name, "")
	}
	if len(pages) < 80 {
		t.Errorf("only %d pages were found; want at least 80", len(pages))
	}
	for _, page := range pages {
		page.by.HTTP.Jar.SetCookies(&url.URL{Scheme: "https", Host: "127.0.0.1", Path: "/"}, []*http.Cookie{{Name: "__Host-coax-language", Value: look.Pseudo, Path: "/", Secure: true}})
		got := page.by.Get(page.path)
		if got.Status != http.StatusOK {
			t.Errorf("%s: %d to %q; want the page", page.path, got.Status, got.Location)
		}
		if !strings.Contains(got.Body, `data-area="docs"`) { // in English only
			checkPseudo(t, page.path, got, customers...)
		}
	}
}
