package pages

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// Whoever has a renewal in progress is marked on the due list, is not asked for money again, and is not
// in its sums.
func TestPanel_DueListMarksRenewalInProgress(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s")
	me := w.DemoCaller()
	w.Activate(me, "9812345670", "BASIC-1")
	w.StartReview(me, "renew", "unknowable", "9812345671", "in-review")
	b := w.SignIn(t, w.Demo.Operator)
	page := b.Get("/panel/subscribers/list/due?within=30").Shows(t, http.StatusOK,
		"9812345670", "9812345671", "In review", "1 of them has an operation in progress and is not in the sums.", "2 customers")
	if sums, boxes := strings.Count(page.Body, "<dd>₹199.00</dd>"), strings.Count(page.Body, "tick-box"); sums != 2 || boxes != 1 {
		t.Errorf("%d sums are the price of one customer, and %d have a box to tick; want 2 and 1\n%s", sums, boxes, page.Body)
	}
	file := csvRows(t, b.Get("/panel/subscribers/list/due/export/csv?within=30"))
	states := map[string][2]string{}
	for _, row := range file[1:] {
		states[row[2]] = [2]string{row[8], row[7]}
	}
	if states["9812345671"] != [2]string{"In review", ""} || states["9812345670"] != [2]string{"Expires soon", "199.00"} && states["9812345670"] != [2]string{"Active", "199.00"} {
		t.Errorf("the file has the states and prices %q; want none of who is in review, as the sums", states)
	}
}
