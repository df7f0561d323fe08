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

// longSessions are settings that keep sessions and verified prices valid while the clock is
// advanced.
var longSessions = []string{"panel.idle=24h", "panel.absolute=700h", "catalogue.max_age=700h"}

// newHistoryEnv returns an Env whose demo operator has a history.
func newHistoryEnv(t testing.TB) *e2e.Env {
	t.Helper()
	w := &e2e.Env{TB: t, Folder: t.TempDir(), Log: &e2e.LogBuffer{}, History: true}
	w.Time.Store(time.Now().UnixMilli())
	w.Start(slices.Concat(e2e.NewStoreSettings(t), longSessions)...)
	t.Cleanup(func() { w.Stop() })
	return w
}

// newGrownEnv returns an Env on a large generated store, whose first operator is the demo's.
func newGrownEnv(t testing.TB, shape growth.Shape) *e2e.Env {
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
	sets := longSessions
	if pgtest.Chosen() {
		address := pgtest.NewDatabase(t)
		sets = append(slices.Clone(sets), "store.url="+address)
		_, err = growth.FillPostgresAs(t.Context(), address, shape, w.Now(), masterKey, nil)
	} else {
		folder := filepath.Join(w.Folder, "data")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err = growth.FillSQLiteAs(t.Context(), filepath.Join(folder, "coax.db"), shape, w.Now(), masterKey, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Start(sets...)
	t.Cleanup(func() { w.Stop() })
	return w
}

// timedPage is a page to time and the browser that loads it.
type timedPage struct {
	path string
	by   *e2e.Browser
}

// noPages are GET routes that are not timed, with the reason.
var noPages = map[string]string{
	"/":                                  "a redirect",
	"/sign-in/code":                      "only during a sign-in",
	"/account/passkeys/{passkey}/remove": "needs a passkey",
	"/r/{link}":                          "needs a link that a receipt's page makes",
	"/panel/statement/export/csv":        "a file of any size",
	"/panel/statement/export/xlsx":       "a file of any size",
	"/panel/transactions/export/csv":     "a file of any size",
	"/panel/transactions/export/xlsx":    "a file of any size",
	"/panel/bulk/{id}/csv":               "a file",
	"/panel/bulk/{id}/xlsx":              "a file",
	"/console/commission/sums/{format}":  "a file",
	"/console/commission/lines/{format}": "a file of any size",
}

// timedPages returns all pages, with wildcards filled in by existing objects, and the lists
// with every kind of query.
func timedPages(t testing.TB, w *e2e.Env) (pages []timedPage) {
	t.Helper()
	people := map[web.Area]*e2e.Browser{web.Panel: w.SignIn(t, w.Demo.Operator), web.Console: w.SignIn(t, w.Demo.Admin)}
	people[web.Account], people[web.Docs] = people[web.Panel], w.Browser(t)
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
			t.Errorf("%s: add a value for its wildcard to SampleRoutes, or the route to noPages", route.Path)
			continue
		}
		by := people[route.Area]
		if route.Path == "/sign-in" {
			by = w.Browser(t)
		}
		pages = append(pages, timedPage{path, by})
	}
	for area, paths := range w.ListQueries(about[0].Path[len("/panel/subscribers/"):]) {
		for _, path := range paths {
			pages = append(pages, timedPage{path, people[area]})
		}
	}
	slices.SortStableFunc(pages, func(a, b timedPage) int { return strings.Compare(a.path, b.path) })
	return pages
}

// load requests a page and returns the time to its last byte.
func (p timedPage) load(t testing.TB) time.Duration {
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
