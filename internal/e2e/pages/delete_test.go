package pages

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// An administrator deletes an operator without money after typing its id and a step-up. Its
// keys and logins stop at once, and its ledger stays. It can be undeleted for 30 days.
func TestConsole_DeletesOperator(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	me := w.NewFundedOperator("Sagar Cable", "500")
	owner := w.SignIn(t, w.NewLogin(t, "sagar", login.Owner, me.OperatorID))
	owner.Get("/panel/").Shows(t, http.StatusOK)
	id := strconv.FormatInt(me.OperatorID, 10)
	page := "/console/operators/" + id
	status := func() subscription.OperatorStatus {
		operator, err := w.Admin.Operator(t.Context(), me.OperatorID)
		if err != nil {
			t.Fatal(err)
		}
		return operator.Status
	}

	for _, role := range []login.Role{login.Viewer, login.Support, login.Finance} {
		b := w.SignIn(t, w.NewLogin(t, "a-"+string(role), role, 0))
		if strings.Contains(b.Get(page).Shows(t, http.StatusOK).Body, page+"/delete") {
			t.Errorf("%s is offered to delete an operator", role)
		}
		b.Get(page+"/delete").Shows(t, http.StatusForbidden)
		b.Post(page+"/delete", url.Values{"form": {"delete"}, "operator": {id}}).Shows(t, http.StatusForbidden)
	}

	administrator := w.Demo.Admin
	b := w.SignIn(t, administrator)
	b.Get(page).Shows(t, http.StatusOK, "Delete this operator")
	b.Get(page+"/delete").Shows(t, http.StatusOK, "Sagar Cable", "The wallet still has ₹500.00.", "can undo this for 30 days")
	for _, typed := range []string{"", "1", "Sagar Cable"} {
		b.Post(page+"/delete", url.Values{"form": {"delete"}, "operator": {typed}}).
			Shows(t, http.StatusUnprocessableEntity, "Type "+id+", the id of this operator.")
	}
	w.Advance(6 * time.Minute)
	confirmed := url.Values{"form": {"delete"}, "operator": {id}}
	b.Post(page+"/delete", confirmed).Shows(t, http.StatusForbidden, `action="/step-up"`)
	if got := status(); got != subscription.OperatorActive {
		t.Fatalf("without the id or the password it is %s", got)
	}
	b.Post("/step-up", url.Values{"to": {page + "/delete"}, "password": {administrator.Password}, "form.form": {"delete"}, "form.operator": {id}}).
		Shows(t, http.StatusOK, `value="`+id+`"`)
	b.Post(page+"/delete", confirmed).Shows(t, http.StatusUnprocessableEntity, "operator Sagar Cable cannot be deleted: its wallet has ₹500.00; pay it out: coax admin wallet adjust --lco "+id+" --amount=-500.00 --reason TEXT")
	if _, err := w.Admin.Adjust(t.Context(), me.OperatorID, money.Paise(-500_00), "paid out"); err != nil {
		t.Fatal(err)
	}
	b.Post(page+"/delete", confirmed).RedirectsTo(t, page)
	until := w.Now().AddDate(0, 0, 30).In(subscription.IST).Format("2 Jan 2006, 15:04")
	b.Get(page).Shows(t, http.StatusOK, "Sagar Cable is deleted.", "This account was deleted. An administrator can open it again as it was, until "+until+".", page+"/undelete")
	if got := status(); got != subscription.OperatorDeleted {
		t.Fatalf("deleted, it is %s", got)
	}

	// A second deletion changes nothing, and none is offered.
	b.Post(page+"/delete", confirmed).RedirectsTo(t, page)
	b.Get(page+"/delete").RedirectsTo(t, page)
	if strings.Contains(b.Get(page).Body, page+"/delete") {
		t.Error("a deleted operator can be deleted")
	}
	b.Get("/console/operators/4711/delete").Shows(t, http.StatusNotFound)
	if got := owner.Get("/panel/"); got.Status != http.StatusSeeOther || !strings.HasPrefix(got.Location, "/sign-in") {
		t.Errorf("its owner gets %d to %q; want a redirect to sign in", got.Status, got.Location)
	}
	w.Expect("its key", e2e.Call{As: me, Path: e2e.Balance}, fault.LCONotFound)
	entries, err := w.Admin.AuditPage(t.Context(), admin.ListQuery{OperatorID: me.OperatorID})
	if last := entries[len(entries)-1]; err != nil || last.Action != "lco delete" || last.Actor != "web:"+administrator.Username || last.Origin == "" {
		t.Errorf("the last audit entry is %+v, %v", last, err)
	}

	for _, role := range []login.Role{login.Viewer, login.Support, login.Finance} {
		c := w.SignIn(t, w.NewLogin(t, "b-"+string(role), role, 0))
		if strings.Contains(c.Get(page).Shows(t, http.StatusOK).Body, page+"/undelete") {
			t.Errorf("%s is offered to undelete an operator", role)
		}
		c.Post(page+"/undelete", url.Values{"form": {"undelete"}}).Shows(t, http.StatusForbidden)
	}
	b.Post(page+"/undelete", url.Values{"form": {"undelete"}}).RedirectsTo(t, page)
	b.Get(page).Shows(t, http.StatusOK, "Sagar Cable is open again.", page+"/delete")
	w.Expect("its key, again", e2e.Call{As: me, Path: e2e.Balance}, fault.OK)
	if got := status(); got != subscription.OperatorActive {
		t.Errorf("undeleted, it is %s", got)
	}
	w.CheckAudit()
}
