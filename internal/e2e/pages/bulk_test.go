package pages

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
)

// A list that was checked before another one was started is checked again with one click. Who was
// renewed in the meantime is marked, since nothing else keeps them from paying twice.
func TestBulkRenewal_OutdatedListIsCheckedAgain(t *testing.T) {
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(2)
	b := w.SignIn(t, w.Demo.Operator)
	const checked, recent = "All rows are checked", "renewed in the last 24 hours"

	list := b.Upload("/panel/bulk", "file", "march.csv", "subscriber_id\n"+ids[0]+"\n"+ids[1]+"\n").Location
	if page := b.Get(list).Shows(t, http.StatusOK, checked, "notice-good"); strings.Contains(page.Body, recent) || strings.Contains(page.Body, "Check again") {
		t.Error("a list that was just checked, of customers not renewed lately, has a warning")
	}
	w.Advance(time.Minute)
	other := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids[:1]}).Location
	b.Post(other+"/start", nil).RedirectsTo(t, other)
	w.WaitUntil("it is finished", func() bool { return strings.Contains(b.Get(other).Body, "Finished") })
	w.Advance(3 * time.Minute) // until then a renewal is refused as a duplicate

	b.Post(list+"/start", nil).RedirectsTo(t, list)
	page := b.Get(list).Shows(t, http.StatusOK, "Another bulk renewal was started since this list was checked.", "Check again")
	if strings.Contains(page.Body, checked) || strings.Contains(page.Body, list+"/start") {
		t.Error("an outdated list is shown as checked, or can be started")
	}
	again := b.Post(list+"/again", nil).Location
	b.Post(list+"/again", nil).RedirectsTo(t, again)
	page = b.Get(again).Shows(t, http.StatusOK, "march.csv", "Renew 2 subscribers", "1 customer was "+recent, "Current expiry")
	if marks := strings.Count(page.Body, ">Renewed today<") + strings.Count(page.Body, ">Renewed yesterday<"); marks != 1 || strings.Contains(page.Body, "notice-good") {
		t.Errorf("%d rows are marked as renewed lately; want one, and nothing green", marks)
	}
	b.Post(again+"/start", nil).RedirectsTo(t, again)
	w.WaitUntil("it is finished", func() bool { return strings.Contains(b.Get(again).Body, "Finished") })

	w.Advance(3 * time.Minute)
	some := b.Upload("/panel/bulk", "file", "some.csv", "subscriber_id\n"+ids[1]+"\n999999\n").Location
	if page := b.Get(some).Shows(t, http.StatusOK, "1 row cannot be renewed.", "The wallet covers the others."); strings.Contains(page.Body, "notice-good") {
		t.Error("a list with a row that cannot be renewed is green")
	}
	w.Advance(61 * time.Minute)
	w.SignIn(t, w.Demo.Operator).Get(some).Shows(t, http.StatusOK, "checked more than an hour ago", "Check again")
	w.CheckAudit()
}

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
	const offer = "Retry failed rows"

	first := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	run(first)
	b.Get(first).Shows(t, http.StatusOK, offer, "The provider refused it. The money is back in the wallet.")
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.Get(first+"/csv").Body, "\ufeff"))).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	last := len(rows[0]) - 1
	for i, want := range []string{"Can be retried", "", "Yes", ""} {
		if rows[i][last] != want {
			t.Errorf("line %d of the file ends with %q; want %q", i+1, rows[i][last], want)
		}
	}

	second := b.Post(first+"/again", nil).Location
	b.Get(second).Shows(t, http.StatusOK, "Retry: Expired", "Renew 1 subscriber")
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
	b.Get(second).Shows(t, http.StatusOK, "None of its rows can be retried.")
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

// The export of the subscribers is a list to renew by, once some of its lines are deleted: its
// plans are names.
func TestBulkRenewal_FromExportOfSubscribers(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	w.NewSubscribers(4)
	b := w.SignIn(t, w.Demo.Operator)
	upload := func(name, content string, rows int) {
		t.Helper()
		list := b.Upload("/panel/bulk", "file", name, content).Location
		page := b.Get(list).Shows(t, http.StatusOK, fmt.Sprintf("Renew %d subscribers", rows))
		if strings.Contains(page.Body, "cannot be renewed") {
			t.Errorf("%s: rows are refused:\n%s", name, page.Body)
		}
	}
	const export = "/panel/subscribers/export/"
	lines := strings.SplitAfter(b.Get(export+"csv").Shows(t, http.StatusOK).Body, "\r\n")
	upload("some.csv", lines[0]+lines[2]+lines[4], 2)
	upload("all.xlsx", b.Get(export+"xlsx").Shows(t, http.StatusOK).Body, 4)
	b.Post("/account/language", url.Values{"language": {"hi"}, "back": {"/panel/"}}).RedirectsTo(t, "/panel/")
	hindi := b.Get(export+"csv").Shows(t, http.StatusOK, "प्लान").Body
	b.Post("/account/language", url.Values{"language": {"en"}, "back": {"/panel/"}}).RedirectsTo(t, "/panel/")
	upload("hindi.csv", hindi, 4)
}

// What the wallet covers no row of cannot be started: the page says why, and leads to the money. If it
// covers one row, it can be.
func TestBulk_UncoveredDraftCannotBeStarted(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me, ids := w.NewSubscribers(2)
	b := w.SignIn(t, w.Demo.Operator)
	holds := func(paise int64) {
		t.Helper()
		if _, err := w.Admin.Adjust(t.Context(), me.OperatorID, money.Paise(paise-w.WalletPaise(me)[0]), "for a test"); err != nil {
			t.Fatal(err)
		}
	}
	file := fmt.Sprintf("subscriber_id,plan_id\n%s,BASIC-1\n%s,FAMILY-1\n", ids[0], ids[1])
	holds(198_99)
	job := b.Upload("/panel/bulk", "file", "list.csv", file).Location
	page := b.Get(job).Shows(t, http.StatusOK, "The wallet is ₹349.01 short.", "It covers none of the rows, so nothing can be started. Add money first.", `href="/panel/add-money"`)
	button := regexp.MustCompile(`<button class="button button-primary" type="submit"( disabled)?>.*?Renew 2 subscribers`)
	if found := button.FindStringSubmatch(page.Body); found == nil || found[1] == "" {
		t.Errorf("the button that starts it is %q; want it disabled", found)
	}
	holds(199_00)
	page = b.Get(job).Shows(t, http.StatusOK, "Rows are renewed in order until the wallet is used up.")
	if found := button.FindStringSubmatch(page.Body); found == nil || found[1] != "" {
		t.Errorf("the button that starts it is %q; want it enabled", found)
	}
}
