package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

func setStatus(t *testing.T, w *e2e.Env, operatorID int64, status subscription.OperatorStatus) {
	t.Helper()
	if _, err := w.Admin.ChangeOperator(t.Context(), operatorID, admin.OperatorChange{Status: &status}); err != nil {
		t.Fatal(err)
	}
}

// loginID finds a login by its username.
func loginID(t *testing.T, w *e2e.Env, username string) int64 {
	t.Helper()
	person, err := w.Admin.LoginNamed(t.Context(), username)
	if err != nil {
		t.Fatal(err)
	}
	return person.ID
}

const suspendedText = "the operator&#39;s account is suspended. You can view and download everything."

// A suspended operator's logins can view, download, and sign in and out; every form of the
// panel is refused, and no page offers one.
func TestSuspendedOperator_IsReadOnly(t *testing.T) {
	w := e2e.NewEnv(t)
	me, ids := w.NewSubscribers(2)
	b := w.SignIn(t, w.Demo.Operator)
	list := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	password := b.Get("/panel/subscribers/" + ids[0] + "/password").HiddenFields()
	setStatus(t, w, me.OperatorID, subscription.OperatorInactive)

	tried := 0
	w.CheckUnchanged("forms of a suspended operator", func() {
		for _, route := range w.Node.Site.Routes() {
			if !route.Changes() {
				continue
			}
			path := strings.NewReplacer("/panel/bulk/{id}", list, "/panel/subscribers/{id}", "/panel/subscribers/"+ids[0], "{login}", "1", "{key}", fmt.Sprint(me.ID)).Replace(route.Path)
			tried++
			if route.Method == http.MethodGet {
				b.Get(path).Shows(t, http.StatusForbidden, suspendedText)
			} else {
				b.Post(path, password).Shows(t, http.StatusForbidden, suspendedText)
			}
		}
	})
	if tried < 20 {
		t.Errorf("only %d routes of the panel change something; want at least 20", tried)
	}
	for _, path := range []string{"/panel/", "/panel/subscribers", "/panel/subscribers/" + ids[0], "/panel/bulk", list, "/panel/keys", "/panel/keys/" + fmt.Sprint(me.ID), "/panel/people", "/panel/people/" + fmt.Sprint(loginID(t, w, w.Demo.Operator.Username)), "/panel/transactions", "/panel/statement"} {
		page := b.Get(path).Shows(t, http.StatusOK, "Account suspended: view only.", "ask your MSO to reactivate the account")
		for _, form := range strings.Split(page.Body, `<form`)[1:] {
			if strings.Contains(form[:strings.Index(form, ">")], `method="post" action="/panel/`) {
				t.Errorf("%s offers a form that is refused: <form%s", path, form[:strings.Index(form, ">")])
			}
		}
		for _, href := range []string{`href="/panel/activate"`, `/renew"`, `/advance-renew"`, `/password"`} {
			if strings.Contains(page.Body, href) {
				t.Errorf("%s links to %s, which is refused", path, href)
			}
		}
	}
	b.Get("/panel/statement/export/csv").Shows(t, http.StatusOK)
	b.Post("/account/language", url.Values{"language": {"hi"}}).RedirectsTo(t, "/account/")
	b.Get("/panel/").Shows(t, http.StatusOK, "खाता सस्पेंड है: केवल देख सकते हैं।")
	b.Post("/account/language", url.Values{"language": {"en"}}).RedirectsTo(t, "/account/")
	b.Post("/account/password", url.Values{"password": {w.Demo.Operator.Password}, "new_password": {"monsoon ferry lamp"}, "repeated_password": {"monsoon ferry lamp"}}).RedirectsTo(t, "/account/")
	b.Post("/sign-out", nil).RedirectsTo(t, "/sign-in")
	b.SignIn(w.Demo.Operator.Username, "monsoon ferry lamp").RedirectsTo(t, "/")

	setStatus(t, w, me.OperatorID, subscription.OperatorActive)
	if page := b.Get("/panel/subscribers/" + ids[0]); strings.Contains(page.Body, "Account suspended: view only.") || !strings.Contains(page.Body, "/renew") {
		t.Error("after reactivation the page is still read only")
	}
	w.CheckAudit()
}

// A bulk renewal interrupted by a suspension waits until the operator continues it; then
// every row is renewed once.
func TestSuspendedOperator_BulkRenewalWaitsForConfirmation(t *testing.T) {
	w := e2e.NewEnv(t)
	me, ids := w.NewSubscribers(6)
	before := w.WalletPaise(me)[0]
	b, staff := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.Demo.Admin)
	list := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	w.ControlSimulator("status", `{"mode":"slow"}`)
	b.Post(list+"/start", nil).RedirectsTo(t, list)
	setStatus(t, w, me.OperatorID, subscription.OperatorInactive)
	w.ControlSimulator("status", `{"mode":"up"}`)
	b.Post(list+"/continue", nil).Shows(t, http.StatusForbidden, suspendedText)
	staff.Get("/console/health").Shows(t, http.StatusOK, "Bulk renewals waiting for their operators", "suspension")

	setStatus(t, w, me.OperatorID, subscription.OperatorActive)
	b.Get(list).Shows(t, http.StatusOK, "Interrupted, waiting for you", "when this account was suspended", "Continue", "Stop")
	w.Advance(10 * time.Minute)
	b.Get(list).Shows(t, http.StatusOK, "Interrupted, waiting for you")
	b.Post(list+"/continue", nil).RedirectsTo(t, list)
	w.WaitUntil("it is finished", func() bool { return strings.Contains(b.Get(list).Body, "Finished") })
	if cost := before - w.WalletPaise(me)[0]; cost != 6*199_00 {
		t.Errorf("%d paise were charged; want six renewals", cost)
	}
	w.CheckAudit()
}

// The pages and forms of each role of an operator.
func TestOperatorRoles_OpenTheirPagesOnly(t *testing.T) {
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(1)
	one := "/panel/subscribers/" + ids[0]
	people := map[login.Role]*e2e.Browser{login.Owner: w.SignIn(t, w.Demo.Operator)}
	for _, role := range []login.Role{login.Counter, login.ReadOnly} {
		people[role] = w.SignIn(t, w.NewLogin(t, "the-"+string(role), role, w.Demo.LCOID))
	}
	for _, row := range []struct {
		path string
		may  string // owner, counter, readonly
	}{
		{"/panel/", "ocr"}, {"/panel/subscribers", "ocr"}, {one, "ocr"}, {"/panel/transactions", "ocr"}, {"/panel/statement", "ocr"}, {"/panel/statement/export/csv", "ocr"},
		{"/panel/bulk", "ocr"}, {"/panel/activate", "oc"}, {one + "/renew", "oc"}, {one + "/advance-renew", "oc"}, {one + "/password", "oc"},
		{"/panel/keys", "or"}, {"/panel/requests", "or"}, {"/panel/signature", "or"}, {"/panel/people", "o"},
	} {
		for role, letter := range map[login.Role]string{login.Owner: "o", login.Counter: "c", login.ReadOnly: "r"} {
			page := people[role].Get(row.path)
			if may := strings.Contains(row.may, letter); may != (page.Status == http.StatusOK) || !may && page.Status != http.StatusForbidden {
				t.Errorf("%s opens %s with %d", role, row.path, page.Status)
			}
		}
	}
	// The counter role may order; read-only is refused and offered nothing.
	form := people[login.Counter].Get(one + "/renew").HiddenFields()
	w.CheckUnchanged("a renewal by a read-only login", func() {
		people[login.ReadOnly].Post(one+"/renew", form).Shows(t, http.StatusForbidden, "You do not have permission to view this page.")
		people[login.ReadOnly].Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Shows(t, http.StatusForbidden)
	})
	if renewed := people[login.Counter].Post(one+"/renew", form); !strings.HasPrefix(renewed.Location, "/panel/transactions/CX") {
		t.Errorf("a counter's renewal: %d to %q", renewed.Status, renewed.Location)
	}
	for _, path := range []string{"/panel/", one, "/panel/subscribers", "/panel/bulk", "/panel/keys"} {
		body := people[login.ReadOnly].Get(path).Body
		for _, part := range []string{`/renew"`, `href="/panel/activate"`, `method="post" action="/panel/`, `/panel/people"`} {
			if strings.Contains(body, part) {
				t.Errorf("%s offers %s to a read-only login", path, part)
			}
		}
	}
	w.CheckAudit()
}

// An owner manages the logins of the own operator only.
func TestOwner_ManagesPeople(t *testing.T) {
	w := e2e.NewEnv(t)
	other := w.NewOperator("Other Cable", access.AllPermissions)
	w.NewLogin(t, "stranger", login.Owner, other.OperatorID)
	w.NewLogin(t, "clerk", login.Finance, 0)
	b := w.SignIn(t, w.Demo.Operator)
	form := b.Get("/panel/people").Shows(t, http.StatusOK, w.Demo.Operator.Username).HiddenFields()
	if body := b.Get("/panel/people").Body; strings.Contains(body, "stranger") || strings.Contains(body, "clerk") {
		t.Error("the list has logins of others")
	}
	for field, value := range map[string]string{"name": "Ravi", "username": "ravi", "role": "administrator"} {
		form.Set(field, value)
	}
	b.Post("/panel/people", form).Shows(t, http.StatusUnprocessableEntity, "Choose one of these.", `value="ravi"`)
	form.Set("role", "counter")
	b.Post("/panel/people", form).Shows(t, http.StatusOK, "This is shown once.", "ravi")
	b.Post("/panel/people", form).Shows(t, http.StatusOK, "one password was created")
	form.Del("once")
	b.Post("/panel/people", form).Shows(t, http.StatusUnprocessableEntity, "The form was incomplete.")
	form.Set("once", b.Get("/panel/people").HiddenFields().Get("once"))
	b.Post("/panel/people", form).Shows(t, http.StatusUnprocessableEntity, "there is a login ravi already")

	ravi := "/panel/people/" + fmt.Sprint(loginID(t, w, "ravi"))
	b.Post(ravi+"/role", url.Values{"role": {"readonly"}}).RedirectsTo(t, ravi)
	b.Post(ravi+"/role", url.Values{"role": {"finance"}}).Shows(t, http.StatusUnprocessableEntity, "give owner, counter or readonly")
	b.Post(ravi+"/name", url.Values{"name": {"Ravi Iyer"}}).RedirectsTo(t, ravi)
	reset := b.Get(ravi).Shows(t, http.StatusOK, "Ravi Iyer", "Read only").HiddenFields()
	b.Post(ravi+"/reset-password", reset).Shows(t, http.StatusOK, "This is shown once.")
	b.Post(ravi+"/reset-password", reset).Shows(t, http.StatusOK, "one password was created")
	b.Post(ravi+"/access", url.Values{"disabled": {"yes"}}).RedirectsTo(t, ravi)
	b.Post(ravi+"/access", url.Values{"disabled": {"no"}}).RedirectsTo(t, ravi)
	b.Post(ravi+"/reset-second-factor", nil).Shows(t, http.StatusUnprocessableEntity, "has no second factor")

	// Owners cannot change their own login.
	own := "/panel/people/" + fmt.Sprint(loginID(t, w, w.Demo.Operator.Username))
	w.CheckUnchanged("what an owner may not do", func() {
		b.Post(own+"/role", url.Values{"role": {"counter"}}).Shows(t, http.StatusUnprocessableEntity, "you cannot change your own role")
		b.Post(own+"/access", url.Values{"disabled": {"yes"}}).Shows(t, http.StatusUnprocessableEntity, "you cannot disable your own login")
		b.Post(own+"/reset-password", url.Values{"once": {"ABCDEFGHIJKL"}}).Shows(t, http.StatusUnprocessableEntity)
		for _, username := range []string{"stranger", "clerk", w.Demo.Admin.Username} {
			foreign := "/panel/people/" + fmt.Sprint(loginID(t, w, username))
			b.Get(foreign).Shows(t, http.StatusNotFound)
			for _, what := range []string{"/name", "/role", "/access", "/reset-password", "/reset-second-factor"} {
				b.Post(foreign+what, url.Values{"name": {"x"}, "role": {"readonly"}, "disabled": {"yes"}, "once": {"ABCDEFGHIJKL"}}).Shows(t, http.StatusNotFound)
			}
		}
	})

	// With a stale session a login is disabled at once, and enabled only after a step-up.
	// The audit log has both.
	w.Advance(6 * time.Minute)
	b.Post(ravi+"/access", url.Values{"disabled": {"yes"}}).RedirectsTo(t, ravi)
	b.Post(ravi+"/access", url.Values{"disabled": {"no"}}).Shows(t, http.StatusForbidden, `action="/step-up"`)
	entries, err := w.Admin.FindAuditEntries(t.Context(), admin.AuditQuery{OperatorID: w.Demo.LCOID, Actor: "web:" + w.Demo.Operator.Username, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]int{}
	for _, entry := range entries.Entries {
		done[entry.Action]++
		if entry.Origin == "" {
			t.Errorf("the audit entry of %s has no origin", entry.Action)
		}
	}
	for action, times := range map[string]int{"login create": 1, "login set": 5, "login reset-password": 1} {
		if done[action] != times {
			t.Errorf("%s has %d audit entries; want %d", action, done[action], times)
		}
	}
	w.CheckAudit()
}

// An owner sees where a key was used from, and revokes it at once.
func TestOwner_RevokesAKey(t *testing.T) {
	w := e2e.NewEnv(t)
	me := w.DemoCaller()
	theirs := w.NewOperator("Other Cable", access.AllPermissions)
	w.Activate(me, "9800000000", "BASIC-1")
	w.Expect("before", e2e.Call{As: me, Path: "/api/v1/subscription?mobile=9800000000"}, fault.OK)
	b := w.SignIn(t, w.Demo.Operator)
	key := "/panel/keys/" + fmt.Sprint(me.ID)
	b.Get("/panel/keys").Shows(t, http.StatusOK, `href="`+key+`"`)
	page := b.Get(key).Shows(t, http.StatusOK, "127.0.0.1", "Revoke the key", "Only your MSO can issue another key.")
	for _, offered := range []string{"/rotate", "/permissions"} {
		if strings.Contains(page.Body, offered) {
			t.Errorf("the page offers %s", offered)
		}
	}
	foreign := "/panel/keys/" + fmt.Sprint(theirs.ID)
	w.CheckUnchanged("another operator's key", func() {
		b.Get(foreign).Shows(t, http.StatusNotFound)
		b.Post(foreign+"/revoke", nil).Shows(t, http.StatusNotFound)
	})
	looks := w.SignIn(t, w.NewLogin(t, "looks", login.ReadOnly, w.Demo.LCOID))
	if strings.Contains(looks.Get(key).Shows(t, http.StatusOK).Body, "Revoke the key") {
		t.Error("a read-only login is offered to revoke a key")
	}
	looks.Post(key+"/revoke", nil).Shows(t, http.StatusForbidden)
	w.Advance(6 * time.Minute) // works with a stale session too
	b.Post(key+"/revoke", nil).RedirectsTo(t, "/panel/keys")
	w.Expect("revoked", e2e.Call{As: me, Path: "/api/v1/subscription?mobile=9800000000"}, fault.CredentialRevoked)
	b.Post(key+"/revoke", nil).Shows(t, http.StatusUnprocessableEntity, "was revoked already")
	w.CheckAudit()
}

// If an operator requires a second factor, its logins must set one up first, and only staff
// can lift the requirement.
func TestOperatorSecondFactor_Required(t *testing.T) {
	w := e2e.NewEnv(t)
	b := w.SignIn(t, w.Demo.Operator)
	counter := w.SignIn(t, w.NewLogin(t, "counter", login.Counter, w.Demo.LCOID))
	b.Post("/panel/people/second-factor", nil).RedirectsTo(t, "/panel/people")
	b.Get("/panel/").RedirectsTo(t, "/account/second-factor")
	counter.Get("/panel/subscribers").RedirectsTo(t, "/account/second-factor")
	key, _ := b.EnrolTOTP()
	b.Get("/panel/people").Shows(t, http.StatusOK, "A second factor is required for everyone here. Only your MSO can change that.")
	proof := func() url.Values {
		w.Advance(time.Minute) // a code is good once
		return url.Values{"password": {w.Demo.Operator.Password}, "code": {e2e.TOTPCode(t, key, w.Now())}}
	}
	b.Post("/account/second-factor/remove", proof()).Shows(t, http.StatusUnprocessableEntity, "A second factor is required for your login.")
	counter.EnrolTOTP()
	counter.Get("/panel/subscribers").Shows(t, http.StatusOK)

	staff := w.SignIn(t, w.Demo.Admin)
	staff.Post(w.OperatorPage("/second-factor"), url.Values{"form": {"second-factor"}, "second_factor": {"maybe"}}).Shows(t, http.StatusUnprocessableEntity, "Choose one of these.")
	staff.Post(w.OperatorPage("/second-factor"), url.Values{"form": {"second-factor"}, "second_factor": {"optional"}}).RedirectsTo(t, w.OperatorPage(""))
	b.Post("/account/second-factor/remove", proof()).RedirectsTo(t, "/account/")
	b.Get("/account/").Shows(t, http.StatusOK, "The authenticator app was removed. Your other devices were signed out.")
	w.CheckAudit()
}

// The console creates and changes operators' logins of every role.
func TestConsole_MakesOperatorRoles(t *testing.T) {
	w := e2e.NewEnv(t)
	staff := w.SignIn(t, w.Demo.Admin)
	form := staff.Get(w.OperatorPage("/logins")).Shows(t, http.StatusOK, "Counter", "Read only").HiddenFields()
	for field, value := range map[string]string{"name": "Ravi", "username": "ravi", "role": "finance"} {
		form.Set(field, value)
	}
	staff.Post(w.OperatorPage("/logins"), form).Shows(t, http.StatusUnprocessableEntity, "Choose one of these.")
	form.Set("role", "readonly")
	staff.Post(w.OperatorPage("/logins"), form).Shows(t, http.StatusOK, "This is shown once.")
	person, err := w.Admin.LoginNamed(t.Context(), "ravi")
	if err != nil || person.Role != login.ReadOnly || person.OperatorID != w.Demo.LCOID {
		t.Errorf("ravi is %+v, %v", person, err)
	}
	staff.Post(w.OperatorPage("/logins/"+fmt.Sprint(person.ID)+"/role"), url.Values{"form": {"role"}, "role": {"counter"}}).RedirectsTo(t, w.OperatorPage("/logins/"+fmt.Sprint(person.ID)))
	staffForm := staff.Get("/console/staff").HiddenFields()
	for field, value := range map[string]string{"name": "Uma", "username": "uma", "role": "counter"} {
		staffForm.Set(field, value)
	}
	staff.Post("/console/staff", staffForm).Shows(t, http.StatusUnprocessableEntity, "Choose one of these.")
	w.CheckAudit()
}

// App passwords are replaced at most ten times a minute by all logins of an operator
// together, and only after a step-up.
func TestAppPasswords_AreThrottled(t *testing.T) {
	w := e2e.NewEnv(t)
	_, ids := w.NewSubscribers(2)
	people := []*e2e.Browser{w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.NewLogin(t, "counter", login.Counter, w.Demo.LCOID))}
	for i := range admin.ResetsAMinute {
		b, path := people[i%2], "/panel/subscribers/"+ids[i%2]+"/password"
		b.Post(path, b.Get(path).HiddenFields()).Shows(t, http.StatusOK, "The password was changed.")
	}
	path := "/panel/subscribers/" + ids[0] + "/password"
	form := people[0].Get(path).HiddenFields()
	w.CheckUnchanged("an eleventh reset", func() {
		page := people[0].Post(path, form).Shows(t, http.StatusTooManyRequests, "Nothing was replaced now; try again in")
		if page.Header.Get("Retry-After") == "" {
			t.Error("the answer does not say when to try again")
		}
	})
	w.Advance(time.Minute + time.Second)
	people[0].Post(path, form).Shows(t, http.StatusOK, "The password was changed.")
	w.Advance(6 * time.Minute)
	people[0].Post(path, form).Shows(t, http.StatusForbidden, `action="/step-up"`)
	w.CheckAudit()
}
