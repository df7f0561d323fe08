package pages

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
)

// The provider rejects one row of a bulk renewal. Its page and file offer a retry, which is
// a new list: checked first, then started, and charged once.
func TestBulkRenewal_FailedRowsAreRetried(t *testing.T) {
	w := e2e.NewEnv(t)
	me, ids := w.NewSubscribers(3)
	w.ScriptProvider("9800000001", "reject")
	before := w.WalletPaise(me)[0]
	b := w.SignIn(t, w.Demo.Operator)
	run := func(list string) {
		t.Helper()
		b.Post(list+"/start", nil).RedirectsTo(t, list)
		w.WaitUntil("it is finished", func() bool { return strings.Contains(b.Get(list).Body, "Finished") })
	}
	const offer = "Try the failed rows again"

	first := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	b.Post(first+"/again", nil).RedirectsTo(t, first)
	b.Get(first).Shows(t, http.StatusOK, "The bulk renewal is not finished yet. Wait for it, and try again then.")
	run(first)
	b.Get(first).Shows(t, http.StatusOK, offer, "The provider refused it. The money is back in the wallet.")
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.Get(first+"/csv").Body, "\ufeff"))).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	last := len(rows[0]) - 1
	for i, want := range []string{"Can be tried again", "", "Yes", ""} {
		if rows[i][last] != want {
			t.Errorf("line %d of the file ends with %q; want %q", i+1, rows[i][last], want)
		}
	}

	second := b.Post(first+"/again", nil).Location
	b.Get(second).Shows(t, http.StatusOK, "Again: Expired", "Renew 1 subscriber")
	if cost := before - w.WalletPaise(me)[0]; cost != 2*199_00 {
		t.Errorf("before the retry is started, %d paise are charged; want two renewals", cost)
	}
	run(second)
	if again := b.Get(second).Shows(t, http.StatusOK); strings.Contains(again.Body, offer) {
		t.Error("a list without failed rows offers a retry")
	}
	third := b.Post(first+"/again", nil).Location
	b.Get(third).Shows(t, http.StatusOK, "None of the rows can be renewed.", "has been renewed already")
	b.Post(second+"/again", nil).RedirectsTo(t, second)
	b.Get(second).Shows(t, http.StatusOK, "None of its rows can be tried again.")
	if cost := before - w.WalletPaise(me)[0]; cost != 3*199_00 {
		t.Errorf("in the end %d paise are charged; want three renewals", cost)
	}
	for outcome, want := range map[string]float64{"done": 3, "refused": 1, "in_review": 0, "cancelled": 0} {
		if got := w.Metric(`coax_bulk_rows_total{outcome="` + outcome + `"}`); got != want {
			t.Errorf("%v rows are counted as %s; want %v", got, outcome, want)
		}
	}
	if got := w.Metric("coax_bulk_jobs_open"); got != 0 {
		t.Errorf("%v jobs are open; want none", got)
	}

	other := w.NewOperator("Another", access.AllPermissions)
	stranger := w.SignIn(t, w.NewLogin(t, "stranger", login.Owner, other.OperatorID))
	stranger.Post(first+"/again", nil).Shows(t, http.StatusNotFound)
	w.CheckAudit()
}
