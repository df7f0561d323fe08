package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// What the provider left open is settled by two people, because of its amount; the
// books agree afterwards, and the log says who did what.
func TestTwoPeopleSettleAnOperationInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "panel.staff_totp=false", "approval.above=300.00", "provider.timeout=2s", "review.first_check=10m")
	me := w.rich("Sagar Cable", "5000")
	_, big := w.inReview(me, "activate", "timeout_applied", "9800000001", "the-big-one")
	id := big.text("transaction_id")
	w.pass(2 * time.Minute)
	asha, ravi := w.person(t, "asha", login.Finance, 0), w.person(t, "ravi", login.Finance, 0)

	tab := looktest.New(t)
	tabSignIn(w, tab, asha)
	tab.Press("Review queue")
	tab.Sees("Sagar Cable")
	tab.Check("console-review")
	tab.Press(id)
	tab.Sees("a second person has to agree before anything happens")
	tab.Sees("No answer that counts")
	tab.Check("console-review-operation")
	tab.Set("What the provider did", "confirmed")
	tab.Fill("How you know", "Their desk sees it under the customer's number.")
	tab.Press("Propose it")
	tab.Sees("Your proposal waits for a second person.")
	tab.Sees("Take it back")
	tab.Check("console-review-proposed")
	if before := w.transaction(me, "the-big-one"); before.text("status") != "needs_review" {
		t.Errorf("one person's word has settled it: %s", before.raw)
	}

	second := looktest.New(t)
	tabSignIn(w, second, ravi)
	second.Sees("What needs a person")
	second.Open(w.at("/console/review"))
	second.Sees("Waits for a second person")
	second.Open(w.at(reviewed(id)))
	second.Sees("Their desk sees it under the customer's number.")
	w.pass(6 * time.Minute)
	second.Press("Approve and settle")
	second.Sees("Is it still you?")
	second.Fill("Password", ravi.Password)
	second.Press("Go on")
	second.Sees("Approve and settle")
	second.Press("Approve and settle")
	second.Sees("Settled: it is charged, and the subscription runs.")
	second.Check("console-review-settled")
	if after := w.transaction(me, "the-big-one"); after.text("status") != "success" {
		t.Errorf("it was settled, and is %s", after.raw)
	}
	w.audited()

	second.Press("Audit log")
	second.Sees("Proposal approved")
	second.Press("Verify the chain of these")
	second.Sees("The chain is whole here.")
	second.Check("console-audit-log")
	second.Press("Operation in review settled")
	second.Sees("Fits the act before it")
	second.Sees("web:ravi")
	second.Check("console-audit-log-act")

	second.Press("Health")
	second.Sees("Its last answers")
	second.Check("console-health")
}

func reviewed(id string) string { return "/console/review/operations/" + id }

// An administrator makes a plan, changes its price after a look at what that does,
// and retires it.
func TestAPlanIsMadeChangedAndRetiredInABrowser(t *testing.T) {
	aboutNoStore(t)
	t.Parallel()
	w := newWorld(t, "panel.staff_totp=false")
	tab := looktest.New(t)
	tabSignIn(w, tab, w.line.Admin)
	tab.Press("Catalogue")
	tab.Sees("Comparison with the provider")
	tab.Check("console-catalogue")
	tab.Press("New plan")
	tab.Fill("Id", "SPORTS-1")
	tab.Fill("Name", "Sports")
	tab.Fill("Price", "cheap")
	tab.Press("Look at the change")
	tab.Sees("Write a price in rupees, such as 349.00")
	tab.Check("console-plan-form")
	tab.Fill("Price", "275.50")
	tab.Press("Look at the change")
	tab.Sees("What will change")
	tab.Press("Make it so")
	tab.Sees("The plan is set.")
	tab.Press("Change")
	tab.Fill("Price", "299")
	tab.Press("Look at the change")
	tab.Sees("₹275.50")
	tab.Sees("₹299.00")
	tab.Check("console-plan-preview")
	tab.Press("Make it so")
	tab.Sees("+₹23.50")
	tab.Check("console-plan")
	tab.Press("Retire")
	tab.Sees("What was bought runs on until it expires.")
	tab.Check("console-plan-retire")
	tab.Press("Retire it")
	tab.Sees("The plan is retired.")
	if plans, err := w.desk.PlanHistory(t.Context(), "SPORTS-1"); err != nil || len(plans) != 3 || !plans[0].Retired || plans[0].By != "web:admin" {
		t.Errorf("the plan's history is %+v, %v", plans, err)
	}
}

// A month is looked at, kept as a file, and closed when it is over.
func TestAMonthIsClosedInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "panel.staff_totp=false")
	me := w.rich("Sagar Cable", "5000")
	rate := 250
	if _, err := w.desk.ChangeOperator(t.Context(), me.operatorID, admin.OperatorChange{CommissionBPS: &rate}); err != nil {
		t.Fatal(err)
	}
	w.activated(me, "9800000001", "FAMILY-1")
	month := admin.MonthOf(w.now())
	tab := looktest.New(t)
	tabSignIn(w, tab, w.line.Admin)
	tab.Press("Commission")
	tab.Sees("₹8.73") // 2.5 % of 349.00, half up
	tab.Sees("is not over")
	tab.Check("console-commission")

	w.pass(month.Ends().Add(time.Hour).Sub(w.now()))
	tabSignIn(w, tab, w.line.Admin)
	tab.Sees("What needs a person")
	tab.Open(w.at("/console/commission?month=" + month.String()))
	tab.Sees("is settled for good")
	tab.Click(`form[action="/console/commission/close"] button[type="submit"]`)
	tab.Sees("is closed: ₹8.73.")
	tab.Sees("is closed already.")
	tab.Check("console-commission-closed")
	if closed, err := w.desk.ClosedPeriods(t.Context(), me.operatorID); err != nil || len(closed) != 1 || closed[0].ClosedBy != "web:admin" {
		t.Errorf("closed are %+v, %v", closed, err)
	}

	b := w.as(t, w.line.Admin)
	sums := b.get("/console/commission/sums/csv?month="+month.String()).shows(t, http.StatusOK, "Sagar Cable,FAMILY-1,", ",349.00,8.73")
	if got := sums.header.Get("Content-Disposition"); got != `attachment; filename="commission-`+month.String()+`.csv"` {
		t.Errorf("the file is %s", got)
	}
	b.get("/console/commission/lines/csv?month="+month.String()).shows(t, http.StatusOK, ",349.00,250,8.73")
	if sheet := b.get("/console/commission/lines/xlsx?month=" + month.String()); !strings.HasPrefix(sheet.body, "PK") {
		t.Errorf("the workbook begins with %.20q", sheet.body)
	}
	b.get("/console/commission?month=soon").shows(t, http.StatusNotFound)
	b.post("/console/commission/close", url.Values{"month": {month.String()}}).shows(t, http.StatusUnprocessableEntity, "is closed for every operator there was")
}

// The review pages without a script: what is wrong is said beside what was typed,
// two clicks settle once, and nobody decides about an operation through another's
// address.
func TestReviewsAreSettledOnceAndOnlyWithAReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "panel.staff_totp=false", "approval.above=1000.00", "provider.timeout=2s", "review.first_check=10m")
	me := w.rich("Sagar Cable", "5000")
	_, open := w.inReview(me, "activate", "timeout_not_applied", "9800000002", "the-small-one")
	page := reviewed(open.text("transaction_id"))
	b := w.as(t, w.person(t, "asha", login.Finance, 0))

	b.post(page+"/settle", url.Values{"verdict": {"maybe"}, "reason": {"  "}}).shows(t, http.StatusUnprocessableEntity,
		"Choose what the provider did.", "Write how you know")
	b.post(page+"/settle", url.Values{"verdict": {"rejected"}}).shows(t, http.StatusUnprocessableEntity, `value="rejected" selected`)
	b.post(page+"/proposals/1/approve", nil).shows(t, http.StatusNotFound)
	b.get(reviewed("CX0000")).shows(t, http.StatusNotFound)

	before := w.money(me)
	say := url.Values{"verdict": {"rejected"}, "reason": {"Their desk knows nothing of it."}}
	b.post(page+"/settle", say).sends(t, page)
	b.get(page).shows(t, http.StatusOK, "the money went back")
	b.post(page+"/settle", say).sends(t, page)
	b.get(page).shows(t, http.StatusOK, "This operation is settled.")
	if after := w.money(me); after[0] != before[0]+349_00 || after[1] != 0 {
		t.Errorf("the wallet had %v and has %v; want 349.00 back, once", before, after)
	}
	w.audited()

	viewer := w.as(t, w.person(t, "vani", login.Viewer, 0))
	if seen := viewer.get(page).shows(t, http.StatusOK, "Every question to the provider"); strings.Contains(seen.body, "<textarea") {
		t.Error("a viewer is offered a form")
	}
	b.get("/console/audit-log?q=nothing+has+this").shows(t, http.StatusOK, "No act fits")
	b.get("/console/audit-log?from=yesterday").shows(t, http.StatusOK, "Write days as 2027-03-31.")
	b.get("/console/audit-log?action=review+settle&actor=web:asha&verify=yes").shows(t, http.StatusOK, "Their desk knows nothing of it.", "The chain is whole here.")
}
