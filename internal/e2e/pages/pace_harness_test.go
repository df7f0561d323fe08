package pages

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/web"
)

// longStay keeps people signed in, and prices verified, while the clock is moved on.
var longStay = []string{"panel.idle=24h", "panel.absolute=700h", "catalogue.max_age=700h"}

// historicWorld is the world of a demo with a history.
func historicWorld(t testing.TB) *e2e.Env {
	t.Helper()
	w := &e2e.Env{TB: t, Folder: t.TempDir(), Log: &e2e.LogBuffer{}, History: true}
	w.Time.Store(time.Now().UnixMilli())
	w.Start(slices.Concat(e2e.NewStoreSettings(t), longStay)...)
	t.Cleanup(func() { w.Stop() })
	return w
}

// grownWorld is a world whose demo's operator is the first of a store that has grown.
func grownWorld(t testing.TB, shape growth.Shape) *e2e.Env {
	t.Helper()
	w := &e2e.Env{TB: t, Folder: t.TempDir(), Log: &e2e.LogBuffer{}}
	w.Time.Store(time.Now().UnixMilli())
	masterKey, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Folder, "master.key"), masterKey, 0o400); err != nil {
		t.Fatal(err)
	}
	sets := longStay
	if pgtest.Chosen() {
		address := pgtest.NewDatabase(t)
		sets = append(slices.Clone(sets), "store.url="+address)
		_, err = growth.FillPostgresAs(t.Context(), address, shape, w.Now(), masterKey, nil)
	} else {
		place := filepath.Join(w.Folder, "data")
		if err := os.Mkdir(place, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err = growth.FillSQLiteAs(t.Context(), filepath.Join(place, "coax.db"), shape, w.Now(), masterKey, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Start(sets...)
	t.Cleanup(func() { w.Stop() })
	return w
}

// paced is a page that is timed, and whose.
type paced struct {
	path string
	by   *e2e.Browser
}

// noPages are routes that are got and are no pages to be timed.
var noPages = map[string]string{
	"/":                                  "it sends on",
	"/sign-in/code":                      "for those who owe a code",
	"/account/passkeys/{passkey}/remove": "for those who have a passkey",
	"/panel/statement/export/csv":        "a file of as many lines as there are",
	"/panel/statement/export/xlsx":       "a file of as many lines as there are",
	"/panel/transactions/export/csv":     "a file of as many rows as there are",
	"/panel/transactions/export/xlsx":    "a file of as many rows as there are",
	"/panel/bulk/{id}/csv":               "a file",
	"/panel/bulk/{id}/xlsx":              "a file",
	"/console/commission/sums/{format}":  "a file",
	"/console/commission/lines/{format}": "a file of as many rows as there are",
}

// pacedPages are all pages that there are, each of those about something with
// something that there is, and the lists in every way that they can be asked for.
func pacedPages(t testing.TB, w *e2e.Env) (pages []paced) {
	t.Helper()
	people := map[web.Area]*e2e.Browser{web.Panel: w.SignIn(t, w.Demo.Operator), web.Console: w.SignIn(t, w.Demo.Admin)}
	people[web.Account] = people[web.Panel]
	about := w.SampleRoutes(t, people[web.Panel])
	for _, route := range w.Node.Site.Routes() {
		if route.Method != http.MethodGet || noPages[route.Path] != "" {
			continue
		}
		path := route.Path
		for _, one := range about {
			path = strings.Replace(path, one.Pattern, one.Path, 1)
		}
		if strings.Contains(path, "{") {
			t.Errorf("%s is about something that is not known here: add it to somethings, or to noPages", route.Path)
			continue
		}
		by := people[route.Area]
		if route.Path == "/sign-in" {
			by = w.Browser(t)
		}
		pages = append(pages, paced{path, by})
	}
	for area, paths := range w.ListQueries(about[0].Path[len("/panel/subscribers/"):]) {
		for _, path := range paths {
			pages = append(pages, paced{path, people[area]})
		}
	}
	slices.SortStableFunc(pages, func(a, b paced) int { return strings.Compare(a.path, b.path) })
	return pages
}

// timed gets a page, and says how long it took until the last of it was there.
func (p paced) timed(t testing.TB) time.Duration {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.by.Env.URL(p.path), nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	response, err := p.by.HTTP.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", p.path, err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	took := time.Since(began)
	response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s: %d to %q, %v; want the page", p.path, response.StatusCode, response.Header.Get("Location"), err)
	}
	return took
}
