package main

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

// An account is closed for good by an administrator who has typed its id and given
// the password; its keys and people are out at once, and its books stay.
func TestAnAdministratorDeletesAnOperator(t *testing.T) {
	w := newWorld(t, "panel.staff_totp=false")
	me := w.rich("Sagar Cable", "500")
	owner := w.as(t, w.person(t, "sagar", login.Owner, me.operatorID))
	owner.get("/panel/").shows(t, http.StatusOK)
	id := strconv.FormatInt(me.operatorID, 10)
	page := "/console/operators/" + id
	status := func() subscription.OperatorStatus {
		operator, err := w.desk.Operator(t.Context(), me.operatorID)
		if err != nil {
			t.Fatal(err)
		}
		return operator.Status
	}

	for _, role := range []login.Role{login.Viewer, login.Support, login.Finance} {
		b := w.as(t, w.person(t, "a-"+string(role), role, 0))
		if strings.Contains(b.get(page).shows(t, http.StatusOK).body, page+"/delete") {
			t.Errorf("%s is offered to delete an operator", role)
		}
		b.get(page+"/delete").shows(t, http.StatusForbidden)
		b.post(page+"/delete", url.Values{"form": {"delete"}, "operator": {id}}).shows(t, http.StatusForbidden)
	}

	admin := w.line.Admin
	b := w.as(t, admin)
	b.get(page).shows(t, http.StatusOK, "Delete this operator")
	b.get(page+"/delete").shows(t, http.StatusOK, "Sagar Cable", "The wallet still has ₹500.00.", "This cannot be undone")
	for _, typed := range []string{"", "1", "Sagar Cable"} {
		b.post(page+"/delete", url.Values{"form": {"delete"}, "operator": {typed}}).
			shows(t, http.StatusUnprocessableEntity, "Type "+id+", the id of this operator.")
	}
	w.pass(6 * time.Minute)
	confirmed := url.Values{"form": {"delete"}, "operator": {id}}
	b.post(page+"/delete", confirmed).shows(t, http.StatusForbidden, `action="/step-up"`)
	if got := status(); got != subscription.OperatorActive {
		t.Fatalf("without the id or the password it is %s", got)
	}
	b.post("/step-up", url.Values{"to": {page + "/delete"}, "password": {admin.Password}, "form.form": {"delete"}, "form.operator": {id}}).
		shows(t, http.StatusOK, `value="`+id+`"`)
	b.post(page+"/delete", confirmed).sends(t, page)
	b.get(page).shows(t, http.StatusOK, "Sagar Cable is deleted.", "This account was deleted.")
	if got := status(); got != subscription.OperatorDeleted {
		t.Fatalf("deleted, it is %s", got)
	}

	// Twice is as once, and nothing is offered any more.
	b.post(page+"/delete", confirmed).sends(t, page)
	b.get(page+"/delete").sends(t, page)
	if strings.Contains(b.get(page).body, page+"/delete") {
		t.Error("a deleted operator can be deleted")
	}
	b.get("/console/operators/4711/delete").shows(t, http.StatusNotFound)
	if got := owner.get("/panel/"); got.status != http.StatusSeeOther || !strings.HasPrefix(got.location, "/sign-in") {
		t.Errorf("its owner gets %d to %q; want to be signed out", got.status, got.location)
	}
	w.expect("its key", call{as: me, path: balance}, fault.LCONotFound)
	acts, err := w.desk.Acts(t.Context(), me.operatorID)
	if last := acts[len(acts)-1]; err != nil || last.Action != "lco delete" || last.Actor != "web:"+admin.Username || last.Origin == "" {
		t.Errorf("the last act is %+v, %v", last, err)
	}
	w.audited()
}
