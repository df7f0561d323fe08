package pages

import (
	"cmp"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// Each heading sorts the subscribers, and sorts them the other way when the list is sorted by it already.
// Both ways lead through every subscriber once, and the file has the order of the list.
func TestSubscribers_SortBothWays(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.LiftRateLimit(w.DemoCaller())
	w.TopUp(me, "9000")
	plans := []string{"BASIC-1", "FAMILY-1", "COMBO-1"}
	for i := range 27 {
		order := e2e.Order{"full_name": fmt.Sprintf("Asha %c%d", 'A'+i*7%26, i), "mobile": fmt.Sprintf("98%08d", i), "plan_id": plans[i%3]}
		if got := w.Operate(me, "activate", fmt.Sprintf("sorted-%d", i), order); got.Code != fault.OK {
			t.Fatal(got.Raw)
		}
		w.Advance(time.Hour) // no two expire together
	}
	b := w.SignIn(t, w.Demo.Operator)
	heading := regexp.MustCompile(`<th scope="col"[^>]*? aria-sort="(\w+)"><a href="([^"]*)">(\w+)</a>`)
	for column, sort := range map[int]struct{ name, heading string }{1: {"name", "Subscriber"}, 6: {"plan", "Plan"}, 9: {"expiry", "Expires"}, 7: {"price", "Price"}} {
		var ways [2][]string
		for way, prefix := range []string{"", "-"} {
			query := "?show=active&sort=" + prefix + sort.name
			page := b.Get("/panel/subscribers"+query).Shows(t, http.StatusOK)
			sorted := map[string][2]string{}
			for _, m := range heading.FindAllStringSubmatch(page.Body, -1) {
				sorted[m[3]] = [2]string{m[1], html.UnescapeString(m[2])}
			}
			want := [2]string{[]string{"ascending", "descending"}[way], "/panel/subscribers?show=active&sort=" + []string{"-", ""}[way] + sort.name}
			if sorted[sort.heading] != want || len(sorted) != 4 {
				t.Errorf("sort=%s%s: the headings are %q; want %q to be %q", prefix, sort.name, sorted, sort.heading, want)
			}
			var values []string
			for _, row := range csvRows(t, b.Get("/panel/subscribers/export/csv"+query))[1:] {
				ways[way], values = append(ways[way], row[0]), append(values, row[column])
			}
			slices.Reverse(values[:len(values)*way]) // ascending either way
			if len(values) != 27 || !slices.IsSortedFunc(values, cmp.Compare[string]) {
				t.Errorf("sort=%s%s: the file has %q", prefix, sort.name, values)
			}
			var shown []string
			for _, row := range walk(t, b, "/panel/subscribers"+query) {
				_, id, _ := strings.Cut(row[0], " · ")
				shown = append(shown, id)
			}
			if !slices.Equal(shown, ways[way]) {
				t.Errorf("sort=%s%s: the pages have %q, the file %q", prefix, sort.name, shown, ways[way])
			}
		}
		if slices.Reverse(ways[1]); !slices.Equal(ways[0], ways[1]) {
			t.Errorf("by %s the two ways are %q and %q", sort.name, ways[0], ways[1])
		}
	}
	if page := b.Get("/panel/subscribers?q=asha"); strings.Contains(page.Body, "aria-sort") {
		t.Error("the headings sort what was searched")
	}
}
