package main

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
)

// The provider refuses one row of a list. Its page and its file offer it for another
// try, which is a list of its own: looked at first, started then, and charged once.
func TestFailedRowsOfABulkRenewalAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	me, ids := w.customers(3)
	w.script("9800000001", "reject")
	before := w.money(me)[0]
	b := w.as(t, w.line.Operator)
	run := func(list string) {
		t.Helper()
		b.post(list+"/start", nil).sends(t, list)
		w.until("it is finished", func() bool { return strings.Contains(b.get(list).body, "Finished") })
	}
	const offer = "Try the failed rows again"

	first := b.post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).location
	b.post(first+"/again", nil).sends(t, first)
	b.get(first).shows(t, http.StatusOK, "The bulk renewal is not finished yet. Wait for it, and try again then.")
	run(first)
	b.get(first).shows(t, http.StatusOK, offer, "The provider refused it. The money is back in the wallet.")
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.get(first+"/csv").body, "\ufeff"))).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	last := len(rows[0]) - 1
	for i, want := range []string{"Can be tried again", "", "Yes", ""} {
		if rows[i][last] != want {
			t.Errorf("line %d of the file ends with %q; want %q", i+1, rows[i][last], want)
		}
	}

	second := b.post(first+"/again", nil).location
	b.get(second).shows(t, http.StatusOK, "Again: Expired", "Renew 1 subscriber")
	if cost := before - w.money(me)[0]; cost != 2*199_00 {
		t.Errorf("before the second try is started, %d paise are charged; want two renewals", cost)
	}
	run(second)
	if again := b.get(second).shows(t, http.StatusOK); strings.Contains(again.body, offer) {
		t.Error("a list of which all is done is offered for another try")
	}
	third := b.post(first+"/again", nil).location
	b.get(third).shows(t, http.StatusOK, "None of the rows can be renewed.", "has been renewed already")
	b.post(second+"/again", nil).sends(t, second)
	b.get(second).shows(t, http.StatusOK, "None of its rows can be tried again.")
	if cost := before - w.money(me)[0]; cost != 3*199_00 {
		t.Errorf("in the end %d paise are charged; want three renewals", cost)
	}
	for outcome, want := range map[string]float64{"done": 3, "refused": 1, "in_review": 0, "cancelled": 0} {
		if got := w.metric(`coax_bulk_rows_total{outcome="` + outcome + `"}`); got != want {
			t.Errorf("%v rows are counted as %s; want %v", got, outcome, want)
		}
	}
	if got := w.metric("coax_bulk_jobs_open"); got != 0 {
		t.Errorf("%v jobs are open; want none", got)
	}

	other := w.newOperator("Another", access.AllPermissions)
	stranger := w.as(t, w.person(t, "stranger", login.Owner, other.operatorID))
	stranger.post(first+"/again", nil).shows(t, http.StatusNotFound)
	w.audited()
}
