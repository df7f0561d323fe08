package pages

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/report"
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
	// draft: it is of a bulk renewal that was not started, and is gone an hour later.
	draft bool
}

// noPages are GET routes that are not timed, with the reason.
var noPages = map[string]string{
	"/":                                       "a redirect",
	"/sign-in/code":                           "only during a sign-in",
	"/account/passkeys/{passkey}/remove":      "needs a passkey",
	"/r/{link}":                               "with the other pages of receipts, in finishedPages",
	"/panel/subscribers/export/csv":           "a file of any size",
	"/panel/subscribers/export/xlsx":          "a file of any size",
	"/panel/subscribers/list/due/export/csv":  "a file of any size",
	"/panel/subscribers/list/due/export/xlsx": "a file of any size",
	"/panel/statement/export/csv":             "a file of any size",
	"/panel/statement/export/xlsx":            "a file of any size",
	"/panel/transactions/export/csv":          "a file of any size",
	"/panel/transactions/export/xlsx":         "a file of any size",
	"/panel/bulk/{id}/csv":                    "a file",
	"/panel/bulk/{id}/xlsx":                   "a file",
	"/console/commission/sums/{format}":       "a file",
	"/console/commission/lines/{format}":      "a file of any size",
}

// runBulk renews the subscribers of a file, and returns the job's page once it is finished.
func runBulk(t testing.TB, w *e2e.Env, b *e2e.Browser, operatorID int64, file string) (page string) {
	t.Helper()
	checked := b.Upload("/panel/bulk", "file", "list.csv", file)
	if page = checked.Location; !strings.HasPrefix(page, "/panel/bulk/") {
		t.Fatalf("the list was refused: %d\n%s", checked.Status, plainText(checked.Body))
	}
	b.Post(page+"/start", nil).RedirectsTo(t, page)
	w.WaitUntil("the bulk renewal is finished", func() bool {
		job, is, err := w.Node.Store.BulkJob(t.Context(), operatorID, strings.TrimPrefix(page, "/panel/bulk/"))
		return err == nil && is && job.State == bulk.Finished
	})
	return page
}

// soldInBulk are subscribers that finishedPages renews, so many that their receipts fill pages.
const soldInBulk = 60

// finishedPages renews subscribers in bulk, some of whom are refused, and returns the pages of the results
// and of the receipts, and a customer's link to a receipt.
func finishedPages(t testing.TB, w *e2e.Env, people map[web.Area]*e2e.Browser) (pages []timedPage) {
	t.Helper()
	me := w.DemoCaller()
	w.TopUp(me, "45000")
	subscribers, err := w.Node.Store.ListSubscribers(t.Context(), report.SubscriberQuery{
		OperatorID: me.OperatorID, Source: report.FromExpiry, Status: report.Active, Now: w.Now(), Limit: soldInBulk,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := "subscriber_id\n"
	for _, s := range subscribers {
		file += s.ID + "\n"
	}
	panel := people[web.Panel]
	job := runBulk(t, w, panel, me.OperatorID, file+"999999998\n999999999\n")
	done := panel.Get(job).Shows(t, http.StatusOK, "Refused")
	sold := regexp.MustCompile(`href="(/panel/transactions/[^"]+)"`).FindStringSubmatch(done.Body)
	if sold == nil {
		t.Fatalf("the bulk renewal renewed nobody:\n%s", plainText(done.Body))
	}
	for _, path := range []string{job, job + "?only=refused", job + "/receipts", sold[1] + "/receipt"} {
		pages = append(pages, timedPage{path: path, by: panel})
	}
	link := regexp.MustCompile(`/r/[A-Za-z0-9_-]+`).FindString(panel.Get(sold[1] + "/receipt").Body)
	if link == "" {
		t.Fatal("the receipt has no link for the customer")
	}
	return append(pages, timedPage{path: link, by: people[web.Docs]})
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
		pages = append(pages, timedPage{path, by, strings.HasPrefix(route.Path, "/panel/bulk/{id}")})
	}
	for area, paths := range w.ListQueries(about[0].Path[len("/panel/subscribers/"):]) {
		for _, path := range paths {
			pages = append(pages, timedPage{path: path, by: people[area]})
		}
	}
	pages = append(pages, finishedPages(t, w, people)...)
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
