//go:build long

package pages

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// slowPage is what no page may take, in milliseconds.
const slowPage = 50

// BenchmarkPages times every page, and compares it with the sign-in page, which does not
// read the store: on a shared machine the ratio says more than the time. first-ms is the
// time without cached figures. It fails if a page takes slowPage or longer; what takes longer
// for a large operator (?figures=yes, ?sums=yes, ?count=yes, ?provider=yes) is loaded after its page.
func BenchmarkPages(b *testing.B) {
	b.Run("of=demo", func(b *testing.B) { benchPages(b, newHistoryEnv(b)) })
	b.Run("of=100000-subscribers", func(b *testing.B) {
		benchPages(b, newGrownEnv(b, growth.Shape{Operators: 1, Subscribers: 100_000, Rounds: 3, Named: true}))
	})
}

// pageTime is the time of a page in milliseconds: the median and the longest, and without
// cached figures.
type pageTime struct {
	path                 string
	page, longest, first float64
}

func benchPages(b *testing.B, w *e2e.Env) {
	var all []pageTime
	sign := timedPage{path: "/sign-in", by: w.Browser(b)}
	pages := slices.DeleteFunc(timedPages(b, w), func(p timedPage) bool { return p.draft })
	for _, page := range pages {
		page.load(b) // templates are parsed at the first use
	}
	w.Advance(7 * time.Hour) // every cache expires within that
	for _, page := range pages {
		b.Run("page="+strings.ReplaceAll(page.path, "/", "|"), func(b *testing.B) {
			first := milliseconds(page.uncached(b))
			var base, visits []time.Duration
			for range 9 {
				base = append(base, sign.load(b))
			}
			for b.Loop() {
				visits = append(visits, page.load(b))
			}
			took := median(visits)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took, "ms/page")
			b.ReportMetric(first, "first-ms")
			b.ReportMetric(milliseconds(visits[len(visits)-1]), "max-ms")
			b.ReportMetric(took/median(base), "x-sign-in")
			all = append(all, pageTime{page.path, took, milliseconds(visits[len(visits)-1]), first})
		})
	}
	fmt.Fprint(os.Stderr, slowest(all, 12)) // a benchmark's log is shown only if it fails
	for _, page := range all {
		if page.page >= slowPage && !laterPart.MatchString(page.path) {
			b.Errorf("%s takes %.1f ms; want less than %d", page.path, page.page, slowPage)
		}
	}
}

// laterPart matches what is loaded after its page.
var laterPart = regexp.MustCompile(`[?&](figures|sums|count|provider)=yes`)

// uncached returns the shortest time of a page without cached figures. Figures of past days
// are cached for hours, and advancing the clock that far would leave the store's operations
// too far behind, so pages that show them are loaded once.
func (p timedPage) uncached(t testing.TB) time.Duration {
	tries := 3
	if strings.HasPrefix(p.path, "/panel/?") || strings.HasPrefix(p.path, "/console/commission") {
		tries = 1
	}
	took := time.Hour
	for range tries {
		p.by.Env.Advance(6 * time.Minute)
		took = min(took, p.load(t))
	}
	return took
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// median returns the median in milliseconds.
func median(all []time.Duration) float64 {
	slices.Sort(all)
	return milliseconds(all[len(all)/2])
}

// slowest lists the pages that took longest.
func slowest(all []pageTime, limit int) string {
	slices.SortFunc(all, func(a, b pageTime) int { return cmp.Compare(max(b.page, b.first), max(a.page, a.first)) })
	var text strings.Builder
	fmt.Fprintf(&text, "the slowest of %d pages, in ms: first, then the median and the longest\n", len(all))
	for _, p := range all[:min(len(all), limit)] {
		fmt.Fprintf(&text, "%8.1f %8.1f %8.1f  %s\n", p.first, p.page, p.longest, p.path)
	}
	var medians, longest []float64
	for _, p := range all {
		medians, longest = append(medians, p.page), append(longest, p.longest)
	}
	slices.Sort(medians)
	fmt.Fprintf(&text, "%8s %8.1f %8.1f  all pages\n", "", medians[len(medians)/2], slices.Max(longest))
	return text.String()
}

// Slow figures of a large operator are loaded after the page: by JavaScript, or with a click.
func TestLargeOperator_FiguresLoadAfterPage(t *testing.T) {
	t.Parallel()
	w := newGrownEnv(t, growth.Shape{Operators: 1, Subscribers: 6_000, Rounds: 1, Named: true})
	b := w.SignIn(t, w.Demo.Operator)
	const chart, waiting = "Spent, last 30 days", `hx-get="/panel/" hx-trigger="load"`
	first := b.Get("/panel/").Shows(t, http.StatusOK, waiting, "are being calculated", "5,999 active subscribers", "Expiring next")
	if strings.Contains(first.Body, chart) || strings.Contains(first.Body, "due in 7 days") {
		t.Errorf("the first page already has the figures:\n%s", first.Body)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL("/panel/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Hx-Request", "true")
	part := b.Send(request).Shows(t, http.StatusOK, chart, "due in 7 days", `id="figures"`)
	if strings.Contains(part.Body, "<html") || strings.Contains(part.Body, waiting) || strings.Contains(part.Body, "Expiring next") {
		t.Errorf("the script got more than the figures, or is to load them again:\n%s", part.Body)
	}
	if again := b.Get("/panel/").Shows(t, http.StatusOK, chart, "Expiring next"); strings.Contains(again.Body, waiting) {
		t.Error("cached figures are loaded again")
	}
	const plan = "/console/catalogue/plans/BASIC-1"
	staff := w.SignIn(t, w.Demo.Admin)
	staff.Get(plan).Shows(t, http.StatusOK, `hx-get="`+plan+`" hx-trigger="load"`)
	counted := staff.Get(plan+"?count=yes").Shows(t, http.StatusOK, "Active subscribers")
	if strings.Contains(counted.Body, `hx-trigger="load"`) {
		t.Error("the plan's subscribers are counted and to be loaded as well")
	}

	w.Advance(2 * time.Hour)
	b.Get("/panel/").Shows(t, http.StatusOK, waiting, `href="/panel/?figures=yes"`)
	b.Get("/panel/?figures=yes").Shows(t, http.StatusOK, chart, "Expiring next")
}

// The same in a browser, with and without JavaScript; and a search that continues with a
// click.
func TestBrowser_LargeOperator(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := newGrownEnv(t, growth.Shape{Operators: 1, Subscribers: 6_000, Rounds: 2, Named: true})
	without := looktest.WithoutScript(t)
	tabSignIn(w, without, w.Demo.Operator)
	without.Sees("are being calculated")
	without.Check("panel-home-large-without-script")
	without.Press("Show")
	without.Sees("Spent, last 30 days")

	w.Advance(2 * time.Hour)
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("Spent, last 30 days")
	tab.Sees("due in 7 days")
	tab.Check("panel-home-large")
	tab.Open(w.URL("/panel/transactions?channel=web"))
	tab.Sees("Nothing found so far")
	if shown := w.SignIn(t, w.Demo.Operator).Get("/panel/transactions?channel=web").Body; !strings.Contains(shown, ". The next page searches further.") || strings.Contains(shown, "&lt;") {
		t.Errorf("the note on the searched range is missing or escaped:\n%s", shown)
	}
	tab.Check("panel-transactions-so-far")
	tab.Press("Next")
	tab.Sees("Nothing matches your search.")

	staff := looktest.New(t)
	tabSignIn(w, staff, w.Demo.Admin)
	staff.Sees("Welcome")
	staff.Open(w.URL("/console/commission?month=" + report.Month(w.Now()).AddDate(0, -1, 0).Format("2006-01")))
	staff.Sees("The plans that earned most")
}
