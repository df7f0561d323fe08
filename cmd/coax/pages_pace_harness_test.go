package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/growth"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/web"
)

// longStay keeps people signed in, and prices verified, while the clock is moved on.
var longStay = []string{"panel.idle=24h", "panel.absolute=700h", "catalogue.max_age=700h"}

// historicWorld is the world of a demo with a history.
func historicWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, folder: t.TempDir(), logged: &synchronised{}, history: true}
	w.time.Store(time.Now().UnixMilli())
	w.start(slices.Concat(ownStore(t), longStay)...)
	t.Cleanup(func() { w.stop() })
	return w
}

// grownWorld is a world whose demo's operator is the first of a store that has grown.
func grownWorld(t testing.TB, shape growth.Shape) *world {
	t.Helper()
	w := &world{t: t, folder: t.TempDir(), logged: &synchronised{}}
	w.time.Store(time.Now().UnixMilli())
	masterKey, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.folder, "master.key"), masterKey, 0o400); err != nil {
		t.Fatal(err)
	}
	sets := longStay
	if pgtest.Chosen() {
		address := pgtest.NewDatabase(t)
		sets = append(slices.Clone(sets), "store.url="+address)
		_, err = growth.FillPostgresAs(t.Context(), address, shape, w.now(), masterKey, nil)
	} else {
		place := filepath.Join(w.folder, "data")
		if err := os.Mkdir(place, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err = growth.FillSQLiteAs(t.Context(), filepath.Join(place, "coax.db"), shape, w.now(), masterKey, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.start(sets...)
	t.Cleanup(func() { w.stop() })
	return w
}

// paced is a page that is timed, and whose.
type paced struct {
	path string
	by   *browser
}

// noPages are routes that are got and are no pages to be timed.
var noPages = map[string]string{
	"/":                                  "it sends on",
	"/sign-in/code":                      "for those who owe a code",
	"/account/second-factor":             "for those who have just given their password",
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
func pacedPages(t testing.TB, w *world) (pages []paced) {
	t.Helper()
	people := map[web.Area]*browser{web.Panel: w.as(t, w.line.Operator), web.Console: w.as(t, w.line.Admin)}
	people[web.Door] = people[web.Panel]
	about := w.somethings(t, people[web.Panel])
	for _, route := range w.node.site.Routes() {
		if route.Method != http.MethodGet || noPages[route.Path] != "" {
			continue
		}
		path := route.Path
		for _, one := range about {
			path = strings.Replace(path, one.place, one.value, 1)
		}
		if strings.Contains(path, "{") {
			t.Errorf("%s is about something that is not known here: add it to somethings, or to noPages", route.Path)
			continue
		}
		by := people[route.Area]
		if route.Path == "/sign-in" {
			by = w.browser(t)
		}
		pages = append(pages, paced{path, by})
	}
	for area, paths := range w.waysToAsk(about[0].value[len("/panel/subscribers/"):]) {
		for _, path := range paths {
			pages = append(pages, paced{path, people[area]})
		}
	}
	slices.SortStableFunc(pages, func(a, b paced) int { return strings.Compare(a.path, b.path) })
	return pages
}

// something is what stands in the place of a {name} of a route.
type something struct{ place, value string }

// somethings are of the demo's operator. The first is a subscriber.
func (w *world) somethings(t testing.TB, panel *browser) []something {
	t.Helper()
	ctx, id := context.Background(), w.line.LCOID
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	subscribers, err := w.node.store.ListSubscribers(ctx, report.SubscriberQuery{OperatorID: id, Standing: report.Active, Now: w.now(), Most: 100})
	must(err)
	operations, err := w.node.store.PageOperations(ctx, report.OperationQuery{OperatorID: id, Most: 1})
	must(err)
	keys, err := w.desk.Keys(ctx, id)
	must(err)
	w.send(call{as: w.demoCaller(), path: "/api/v1/balance"})
	requests, err := w.node.requests.Search(ctx, id, requestlog.Query{Most: 1})
	must(err)
	staff, err := w.desk.LoginNamed(ctx, w.line.Admin.Username)
	must(err)
	owner, err := w.desk.LoginNamed(ctx, w.line.Operator.Username)
	must(err)
	form := url.Values{"within": {"7"}, "kind": {"renew"}}
	for _, s := range subscribers {
		form.Add("subscriber", s.ID)
	}
	job := panel.post("/panel/bulk", form)
	if !strings.HasPrefix(job.location, "/panel/bulk/") {
		t.Fatalf("a bulk renewal begins with %d, to %q\n%s", job.status, job.location, job.body)
	}
	operator := fmt.Sprintf("/console/operators/%d", id)
	return []something{
		{"/panel/subscribers/{id}", "/panel/subscribers/" + subscribers[len(subscribers)/2].ID},
		{"/panel/transactions/{id}", "/panel/transactions/" + operations[0].ID},
		{"/panel/bulk/{id}", job.location},
		{"/panel/requests/{id}", "/panel/requests/" + requests.Entries[0].ID},
		{"/console/operators/{id}", operator},
		{operator + "/keys/{key}", fmt.Sprintf("%s/keys/%d", operator, keys[0].ID)},
		{operator + "/logins/{login}", fmt.Sprintf("%s/logins/%d", operator, owner.ID)},
		{"/console/staff/{login}", fmt.Sprintf("/console/staff/%d", staff.ID)},
		{"/console/catalogue/plans/{id}", "/console/catalogue/plans/BASIC-1"},
		{"/console/review/operations/{id}", "/console/review/operations/" + operations[0].ID},
		{"/console/audit-log/{act}", "/console/audit-log/2"},
	}
}

// waysToAsk are lists from their first page and from far behind it, searched and
// narrowed down, with filters too that nothing passes.
func (w *world) waysToAsk(subscriber string) map[web.Area][]string {
	day := func(back int) string { return w.now().AddDate(0, 0, -back).Format(time.DateOnly) }
	behind := func(p report.Place) string { return url.QueryEscape(p.String()) }
	long := w.now().AddDate(0, 0, -60).UnixMilli()
	return map[web.Area][]string{
		web.Panel: {
			"/panel/?figures=yes",
			"/panel/subscribers?after=" + behind(report.Place{Text: "lakshmi devi", ID: "1"}),
			"/panel/subscribers?q=s", "/panel/subscribers?q=sha", "/panel/subscribers?q=asha+sh", "/panel/subscribers?q=zzz",
			"/panel/subscribers?q=" + subscriber[:3], "/panel/subscribers?q=" + subscriber,
			"/panel/subscribers?show=active", "/panel/subscribers?show=3", "/panel/subscribers?show=7", "/panel/subscribers?show=15",
			"/panel/subscribers?show=expired", "/panel/subscribers?show=review", "/panel/subscribers?show=active&q=ra", "/panel/subscribers?show=expired&q=ra",
			"/panel/subscribers?show=15&after=" + behind(report.Place{Number: w.now().AddDate(0, 0, 9).UnixMilli(), ID: "1"}),
			"/panel/bulk?within=7", "/panel/bulk?within=expired",
			"/panel/statement?order=oldest", "/panel/statement?from=" + day(89) + "&until=" + day(0), "/panel/statement?from=" + day(60) + "&until=" + day(31),
			"/panel/statement?from=" + day(89) + "&after=" + behind(report.Place{Number: 200}),
			"/panel/statement?from=" + day(89) + "&side=credit", "/panel/statement?from=" + day(89) + "&q=nothing", "/panel/statement?from=" + day(89) + "&q=renewal",
			"/panel/transactions?after=" + behind(report.Place{Number: long, ID: "CX"}),
			"/panel/transactions?state=failed", "/panel/transactions?state=needs_review", "/panel/transactions?state=processing",
			"/panel/transactions?kind=advance_renew", "/panel/transactions?channel=web", "/panel/transactions?state=failed&channel=web&kind=advance_renew",
			"/panel/transactions?from=" + day(40) + "&until=" + day(30), "/panel/transactions?subscriber=" + subscriber,
			"/panel/requests?refused=yes", "/panel/requests?q=nothing",
		},
		web.Console: {
			"/console/operators?q=demo", "/console/operators?status=inactive",
			"/console/commission?month=" + w.now().AddDate(0, 0, -35).Format("2006-01"),
			fmt.Sprintf("/console/commission?operator=%d", w.line.LCOID), "/console/commission?sums=yes",
			"/console/audit-log?actor=nobody", "/console/audit-log?action=key+revoke", "/console/audit-log?q=nothing", "/console/audit-log?from=" + day(80) + "&until=" + day(70),
			fmt.Sprintf("/console/audit-log?operator=%d", w.line.LCOID), "/console/audit-log?verify=yes", "/console/review/exceptions?closed=yes",
		},
	}
}

// timed gets a page, and says how long it took until the last of it was there.
func (p paced) timed(t testing.TB) time.Duration {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.by.w.at(p.path), nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	response, err := p.by.http.Do(request)
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
