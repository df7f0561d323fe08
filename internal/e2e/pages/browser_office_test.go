package pages

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// A review above approval.above is settled by two people; the audit passes afterwards, and
// the audit log has both actions.
func TestBrowser_ReviewTakesTwoPeople(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false", "approval.above=300.00", "provider.timeout=2s", "review.first_check=10m")
	me := w.NewFundedOperator("Sagar Cable", "5000")
	_, big := w.StartReview(me, "activate", "timeout_applied", "9800000001", "the-big-one")
	id := big.Text("transaction_id")
	w.Advance(2 * time.Minute)
	asha, ravi := w.NewLogin(t, "asha", login.Finance, 0), w.NewLogin(t, "ravi", login.Finance, 0)

	tab := looktest.New(t)
	tabSignIn(w, tab, asha)
	tab.Press("Review queue")
	tab.Sees("Sagar Cable")
	tab.Check("console-review")
	tab.Click(`a[href="` + reviewed(id) + `"]`)
	tab.Sees("It needs a second approval before anything changes")
	tab.Sees("No valid response")
	tab.Check("console-review-operation")
	tab.Set("What did the provider do?", "confirmed")
	tab.Fill("Evidence", "Their service sees it under the customer's number.")
	tab.Press("Propose")
	tab.Sees("Your proposal needs a second approval.")
	tab.Sees("Withdraw")
	tab.Check("console-review-proposed")
	if before := w.LookUp(me, "the-big-one"); before.Text("status") != "needs_review" {
		t.Errorf("one person has settled it: %s", before.Raw)
	}

	second := looktest.New(t)
	tabSignIn(w, second, ravi)
	second.Sees("Open tasks")
	second.Open(w.URL("/console/review"))
	second.Sees("Needs a second approval")
	second.Open(w.URL(reviewed(id)))
	second.Sees("Their service sees it under the customer's number.")
	w.Advance(6 * time.Minute)
	second.Press("Approve and settle")
	second.Sees("Confirm it is you")
	second.Fill("Password", ravi.Password)
	second.Press("Continue")
	second.Sees("Approve and settle")
	second.Press("Approve and settle")
	second.Sees("Settled: it is charged, and the subscription runs.")
	second.Check("console-review-settled")
	if after := w.LookUp(me, "the-big-one"); after.Text("status") != "success" {
		t.Errorf("after the approval it is %s", after.Raw)
	}
	w.CheckAudit()

	second.Press("Audit log")
	second.Sees("Proposal approved")
	second.Press("Verify the hash chain of these")
	second.Sees("The hash chain is intact here.")
	second.Check("console-audit-log")
	second.Press("Operation in review settled")
	second.Sees("Matches previous action")
	second.Sees("web:ravi")
	second.Check("console-audit-log-entry")

	second.Press("Health")
	second.Sees("Latest responses")
	second.Check("console-health")
}

func reviewed(id string) string { return "/console/review/operations/" + id }

// An administrator creates a plan, previews and changes its price, and retires it.
func TestBrowser_PlanLifecycle(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Admin)
	tab.Press("Catalogue")
	tab.Sees("Comparison with the provider")
	tab.Check("console-catalogue")
	tab.Press("New plan")
	tab.Fill("Id", "SPORTS-1")
	tab.Fill("Name", "Sports")
	tab.Fill("Price", "cheap")
	tab.Press("Review change")
	tab.Sees("Enter a price in rupees, such as 349.00")
	tab.Check("console-plan-form")
	tab.Fill("Price", "275.50")
	tab.Press("Review change")
	tab.Sees("Changes")
	tab.Press("Save changes")
	tab.Sees("Plan saved.")
	tab.Press("Change")
	tab.Fill("Price", "299")
	tab.Press("Review change")
	tab.Sees("₹275.50")
	tab.Sees("₹299.00")
	tab.Check("console-plan-preview")
	tab.Press("Save changes")
	tab.Sees("+₹23.50")
	tab.Check("console-plan")
	tab.Press("Retire")
	tab.Sees("Subscriptions run until they expire.")
	tab.Check("console-plan-retire")
	tab.Press("Retire it")
	tab.Sees("Plan retired.")
	if plans, err := w.Admin.PlanHistory(t.Context(), "SPORTS-1"); err != nil || len(plans) != 3 || !plans[0].Retired || plans[0].By != "web:admin" {
		t.Errorf("the plan's history is %+v, %v", plans, err)
	}
}

// A month's commission is shown, exported, and closed when the month is over.
func TestBrowser_MonthClose(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	me := w.NewFundedOperator("Sagar Cable", "5000")
	rate := 250
	if _, err := w.Admin.ChangeOperator(t.Context(), me.OperatorID, admin.OperatorChange{CommissionBPS: &rate}); err != nil {
		t.Fatal(err)
	}
	w.Activate(me, "9800000001", "FAMILY-1")
	month := admin.MonthOf(w.Now())
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Admin)
	tab.Press("Commission")
	tab.Sees("₹8.73") // 2.5 % of 349.00, half up
	tab.Sees("is not over")
	tab.Check("console-commission")

	w.Advance(month.Ends().Add(time.Hour).Sub(w.Now()))
	tabSignIn(w, tab, w.Demo.Admin)
	tab.Sees("Open tasks")
	tab.Open(w.URL("/console/commission?month=" + month.String()))
	tab.Sees("is final")
	tab.Click(`form[action="/console/commission/close"] button[type="submit"]`)
	tab.Sees("is closed: ₹8.73.")
	tab.Sees("is closed already.")
	tab.Check("console-commission-closed")
	if closed, err := w.Admin.ClosedPeriods(t.Context(), me.OperatorID); err != nil || len(closed) != 1 || closed[0].ClosedBy != "web:admin" {
		t.Errorf("closed are %+v, %v", closed, err)
	}

	b := w.SignIn(t, w.Demo.Admin)
	sums := b.Get("/console/commission/sums/csv?month="+month.String()).Shows(t, http.StatusOK, "Sagar Cable,FAMILY-1,", ",349.00,8.73")
	if got := sums.Header.Get("Content-Disposition"); got != `attachment; filename="commission-`+month.String()+`.csv"` {
		t.Errorf("the file is %s", got)
	}
	b.Get("/console/commission/lines/csv?month="+month.String()).Shows(t, http.StatusOK, ",349.00,250,8.73")
	if sheet := b.Get("/console/commission/lines/xlsx?month=" + month.String()); !strings.HasPrefix(sheet.Body, "PK") {
		t.Errorf("the workbook begins with %.20q", sheet.Body)
	}
	b.Get("/console/commission?month=soon").Shows(t, http.StatusNotFound)
	b.Post("/console/commission/close", url.Values{"month": {month.String()}}).Shows(t, http.StatusUnprocessableEntity, "is closed for every operator there was")
}

// The review pages without JavaScript: errors keep the typed input, two clicks settle once,
// and a proposal cannot be approved under another operation's path.
func TestReviewPage_SettlesOnceWithReason(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false", "approval.above=6000.00", "provider.timeout=2s", "review.first_check=10m")
	me := w.NewFundedOperator("Sagar Cable", "5000")
	_, open := w.StartReview(me, "activate", "timeout_not_applied", "9800000002", "the-small-one")
	page := reviewed(open.Text("transaction_id"))
	b := w.SignIn(t, w.NewLogin(t, "asha", login.Finance, 0))

	b.Post(page+"/settle", url.Values{"verdict": {"maybe"}, "reason": {"  "}}).Shows(t, http.StatusUnprocessableEntity,
		"Select what the provider did.", "Enter the evidence")
	b.Post(page+"/settle", url.Values{"verdict": {"rejected"}}).Shows(t, http.StatusUnprocessableEntity, `value="rejected" selected`)
	b.Post(page+"/proposals/1/approve", nil).Shows(t, http.StatusNotFound)
	b.Get(reviewed("CX0000")).Shows(t, http.StatusNotFound)

	before := w.WalletPaise(me)
	say := url.Values{"verdict": {"rejected"}, "reason": {"Their service knows nothing of it."}}
	b.Post(page+"/settle", say).RedirectsTo(t, page)
	b.Get(page).Shows(t, http.StatusOK, "the money went back")
	b.Post(page+"/settle", say).RedirectsTo(t, page)
	b.Get(page).Shows(t, http.StatusOK, "This operation is settled.")
	if after := w.WalletPaise(me); after[0] != before[0]+349_00 || after[1] != 0 {
		t.Errorf("the wallet had %v and has %v; want 349.00 back, once", before, after)
	}
	w.CheckAudit()

	viewer := w.SignIn(t, w.NewLogin(t, "vani", login.Viewer, 0))
	if seen := viewer.Get(page).Shows(t, http.StatusOK, "Provider calls"); strings.Contains(seen.Body, "<textarea") {
		t.Error("a viewer is offered a form")
	}
	b.Get("/console/audit-log").Shows(t, http.StatusOK, "Wallet of Sagar Cable", "₹5,000.00", open.Text("transaction_id"), "₹349.00")
	b.Get("/console/audit-log?q=sagar+cable").Shows(t, http.StatusOK, "Wallet of Sagar Cable", "Operator created")
	b.Get("/console/audit-log?q=nothing+has+this").Shows(t, http.StatusOK, "No matching action")
	b.Get("/console/audit-log?from=yesterday").Shows(t, http.StatusOK, "Enter dates as 2027-03-31.")
	if _, err := admin.NewService(w.Node.Store, w.Node.Vault, "cli:root", w.Now).Adjust(t.Context(), me.OperatorID, money.Paise(-12_50), "typed twice"); err != nil {
		t.Fatal(err)
	}
	b.Get("/console/audit-log?actor=root+%28command+line%29").Shows(t, http.StatusOK, "root (command line)", "Wallet of Sagar Cable", "−₹12.50", "typed twice")
	b.Get("/console/audit-log?action=review+settle&actor=name+of+asha").Shows(t, http.StatusOK, "Their service knows nothing of it.")
	b.Get("/console/audit-log?action=review+settle&actor=web:asha&verify=yes").Shows(t, http.StatusOK, "Their service knows nothing of it.", "The hash chain is intact here.")
}
