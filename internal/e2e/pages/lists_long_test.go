//go:build long

package pages

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// activateAll requests activations of which the provider makes the same.
func activateAll(t *testing.T, w *e2e.Env, n int, plan, outcome string) {
	t.Helper()
	me := w.NewFundedOperator("Sagar Cable", "45000")
	for i := range n {
		mobile := fmt.Sprintf("97%08d", i)
		w.ScriptProvider(mobile, outcome)
		order := e2e.Order{"full_name": "Asha Rao", "mobile": mobile, "plan_id": plan}
		w.WaitUntil("the breaker has closed", func() bool {
			return w.Operate(me, "activate", "list-"+mobile, order).Code != fault.ServiceUnavailable
		})
	}
}

// Long lists have pages of 25 rows, which lead forth and back, with every row once.
func TestLists_HavePagesOf25(t *testing.T) {
	const rows = 2*web.PageRows + 2
	const operationRow = `<th scope="row"><a href="/console/review/operations/([^"]+)"`
	for _, list := range []struct {
		name, path string
		row        string // matches each row, with what is its own
		counted    string // what the page says about their number
		fill       func(t *testing.T, w *e2e.Env)
	}{
		{"review queue", "/console/review", operationRow, "52 operations in review", func(t *testing.T, w *e2e.Env) {
			activateAll(t, w, rows, "BASIC-1", "wrong_reference")
		}},
		{"add-ons", "/console/review/addons", operationRow, "1 to 25 of 52", func(t *testing.T, w *e2e.Env) {
			activateAll(t, w, rows, "COMBO-1", "addon_fails")
		}},
		{"exceptions", "/console/review/exceptions", `/console/review/exceptions/(\d+)/close`, "1 to 25 of 52", func(t *testing.T, w *e2e.Env) {
			activateAll(t, w, rows, "BASIC-1", "wrong_reference")
		}},
		{"decided proposals", "/console/approvals", `<span class="sub mono">(DECIDED-\d+)</span>`, "25 proposals on this page", func(t *testing.T, w *e2e.Env) {
			asha, binu := w.SignIn(t, w.NewLogin(t, "asha", login.Finance, 0)), w.SignIn(t, w.NewLogin(t, "binu", login.Finance, 0))
			path := w.OperatorPage("/wallet")
			for i := range rows + 1 {
				form := url.Values{"form": {"top-up"}, "amount": {"60000"}, "reference": {fmt.Sprintf("DECIDED-%d", i)}, "step": {"confirm"}}
				asha.Post(path+"/top-up", form).RedirectsTo(t, path)
				if i < rows { // the last one stays open
					binu.Post(fmt.Sprintf("/console/approvals/%d/decline", i+1), url.Values{"reason": {"not at the bank"}}).RedirectsTo(t, "/console/approvals")
				}
			}
		}},
		{"closed months", "/console/commission", `<th scope="row">(\w+ \d{4}</th><td data-label="Operator">[^<]*)</td>`, "1 to 25 of 52", func(t *testing.T, w *e2e.Env) {
			for i := range rows/2 - 1 { // with the demo's operator
				if _, err := w.Admin.CreateOperator(t.Context(), fmt.Sprintf("Cable %d", i), admin.OperatorChange{}); err != nil {
					t.Fatal(err)
				}
			}
			month := admin.MonthOf(w.Now())
			w.Advance(75 * 24 * time.Hour)
			for range 2 {
				if _, err := w.Admin.ClosePeriod(t.Context(), month, 0); err != nil {
					t.Fatal(err)
				}
				month = admin.MonthOf(month.Ends())
			}
		}},
		{"bulk renewals", "/panel/bulk", `<th scope="row"><a href="/panel/bulk/([^"]+)">`, "25 bulk renewals on this page", func(t *testing.T, w *e2e.Env) {
			w.TopUp(w.DemoCaller(), "30000")
			me, ids := w.NewSubscribers(rows)
			b := w.SignIn(t, w.Demo.Operator)
			for _, id := range ids {
				runBulk(t, w, b, me.OperatorID, "subscriber_id\n"+id+"\n")
				w.Advance(time.Second)
			}
		}},
	} {
		t.Run(list.name, func(t *testing.T) {
			t.Parallel()
			w := e2e.NewEnv(t, "panel.staff_totp=false", "review.first_check=10m")
			list.fill(t, w)
			who := w.Demo.Admin
			if strings.HasPrefix(list.path, "/panel/") {
				who = w.Demo.Operator
			}
			b, seen := w.SignIn(t, who), map[string]bool{}
			row, previous := regexp.MustCompile(list.row), regexp.MustCompile(`href="([^"]*)" rel="prev"`)
			path, before := list.path, ""
			for number := 1; path != ""; number++ {
				page := b.Get(path).Shows(t, http.StatusOK)
				if number == 1 && !strings.Contains(page.Body, list.counted) {
					t.Errorf("the page does not say %q", list.counted)
				}
				found := row.FindAllStringSubmatch(page.Body, -1)
				if want := min(web.PageRows, rows-len(seen)); len(found) != want {
					t.Fatalf("page %d has %d rows; want %d\n%s", number, len(found), want, page.Body)
				}
				for _, one := range found {
					if seen[one[1]] {
						t.Errorf("page %d has %q once more", number, one[1])
					}
					seen[one[1]] = true
				}
				back := previous.FindStringSubmatch(page.Body)
				if (back != nil) != (number > 1) || number == 3 && withoutFragment(back[1]) != before {
					t.Errorf("page %d leads back to %q; want %q", number, back, before)
				}
				before, path = path, ""
				if next := nextPattern.FindStringSubmatch(page.Body); next != nil {
					path = withoutFragment(next[1])
				}
			}
			if len(seen) != rows {
				t.Errorf("the pages have %d rows; want %d", len(seen), rows)
			}
		})
	}
}

func withoutFragment(address string) string {
	path, _, _ := strings.Cut(html.UnescapeString(address), "#")
	return path
}

// A comparison shows 25 differences and folds away the others.
func TestReconcile_FoldsManyDifferences(t *testing.T) {
	t.Parallel()
	w := e2e.NewLiveEnv(t)
	keys := operation.ClientKeys(w.Node.Vault.DeriveInOrder(operation.ClientKeyPurpose))
	for i := range 27 {
		forgotten(t, w, operation.Order{
			Reference: fmt.Sprintf("CX06D3K9ZR0000000000000%05d", i), ClientKey: keys.Of(w.Demo.LCOID, fmt.Sprintf("forgotten-%d", i)), Kind: operation.Renew, SubscriberID: fmt.Sprint(900000 + i),
			Mobile: fmt.Sprintf("98%08d", i), Component: "TV-BASIC", Months: 1, ExpiresAt: time.Now().Add(60 * 24 * time.Hour),
		})
	}
	page := w.SignIn(t, w.Demo.Admin).Get("/console/reconcile?day="+time.Now().In(subscription.IST).Format(time.DateOnly)).Shows(t, http.StatusOK, "Show 2 more")
	if first, rest := len(table(t, page, 0)), len(table(t, page, 1)); first != 25 || rest != 2 {
		t.Errorf("%d differences, and %d folded away; want 25 and 2", first, rest)
	}
}

// The filters of every list are folded away on a phone, and open on a desk; those that are set stay open.
func TestBrowser_FiltersFoldOnPhones(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	w.NewSubscribers(3)
	const inside = `document.querySelector(".fold select, .fold input")`
	for _, visit := range []struct {
		as    demo.Login
		lists map[string]string // to a query that sets a filter
	}{
		{w.Demo.Operator, map[string]string{
			"/panel/subscribers": "?plan=BASIC-1", "/panel/subscribers/list/due": "?within=30", "/panel/transactions": "?state=failed",
			"/panel/statement": "?side=debit", "/panel/requests": "?refused=yes",
		}},
		{w.Demo.Admin, map[string]string{
			"/console/operators": "?status=active", "/console/audit-log": "?actor=web:admin", "/console/commission": fmt.Sprintf("?operator=%d", w.Demo.LCOID),
		}},
	} {
		tab := looktest.New(t)
		tabSignIn(w, tab, visit.as)
		tab.WaitFor(".side")
		for path, set := range visit.lists {
			tab.As(looktest.Desk, looktest.Light)
			tab.Open(w.URL(path))
			tab.Until("the filters of "+path+" are open on a desk", inside+`.checkVisibility() && !document.querySelector(".fold > summary").checkVisibility()`)
			tab.As(looktest.Phone, looktest.Light)
			tab.Until("the filters of "+path+" are folded on a phone", `!`+inside+`.checkVisibility()`)
			tab.Click(".fold > summary")
			tab.Until("the filters of "+path+" unfold", inside+`.checkVisibility()`)
			tab.Open(w.URL(path + set))
			tab.Until("the filters of "+path+set+" stay open", inside+`.checkVisibility()`)
		}
	}
}

// A phone shows the first ten cards of a long list in the console, and all of them once that is asked for; a
// desk shows all. What htmx loads anew stays unfolded.
func TestBrowser_CardsFoldOnPhones(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false", "review.first_check=10m")
	activateAll(t, w, 12, "BASIC-1", "wrong_reference")
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Admin)
	tab.WaitFor(".side")
	const shown = `[...document.querySelectorAll("#queue tbody tr")].filter(row => row.checkVisibility()).length`
	tab.Open(w.URL("/console/review"))
	tab.Until("a desk shows all", shown+` === 12 && !document.querySelector(".unfold").checkVisibility()`)
	tab.Check("console-review-many")
	tab.As(looktest.Phone, looktest.Light)
	tab.Until("a phone shows ten", shown+` === 10`)
	tab.Set("Show all 12", "true")
	tab.Until("all are shown", shown+` === 12`)
	tab.Do(evaluate(`htmx.trigger("#queue", "refresh"); document.querySelector("#queue").dataset.old = "yes";
		htmx.ajax("GET", "/console/review", {target: "#queue", swap: "outerHTML"})`))
	tab.Until("the list is loaded anew", `!document.querySelector("#queue").dataset.old`)
	tab.Until("all are still shown", shown+` === 12`)
}
