package pages

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
)

// A change that narrows access is made at once, even with a stale session. One that widens it
// requires a step-up; the form is then returned filled in, and works when sent again.
func TestStepUp_WideningAccess(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	me := w.NewOperator("Sagar Cable", access.AllPermissions)
	gone, err := w.Admin.CreateOperator(ctx, "Nadi Cable", admin.OperatorChange{})
	must(err)
	must(w.Admin.DeleteOperator(ctx, gone.ID))
	clerk, _, err := w.Admin.CreateLogin(ctx, admin.NewLogin{Username: "clerk", Name: "Clerk", Role: login.Viewer})
	must(err)
	owner, _, err := w.Admin.CreateLogin(ctx, admin.NewLogin{Username: "sagar", Name: "Sagar", Role: login.Owner, OperatorID: me.OperatorID})
	must(err)

	// state is what the forms below can change.
	type state struct {
		operator, gone, clerk, owner string
		permissions                  access.Permissions
		whitelist                    string
		operators                    int
	}
	now := func() (s state) {
		t.Helper()
		operator, err := w.Admin.Operator(ctx, me.OperatorID)
		must(err)
		s.operator = fmt.Sprint(operator.Status, operator.API, operator.RateLimit, operator.CommissionBPS)
		other, err := w.Admin.Operator(ctx, gone.ID)
		must(err)
		s.gone = string(other.Status)
		for id, text := range map[int64]*string{clerk.ID: &s.clerk, owner.ID: &s.owner} {
			person, err := w.Admin.Login(ctx, id)
			must(err)
			*text = fmt.Sprint(person.Role, person.Disabled)
		}
		keys, err := w.Admin.Keys(ctx, me.OperatorID)
		must(err)
		s.permissions = keys[0].Permissions
		var list []netip.Prefix
		list, err = w.Admin.Whitelist(ctx, me.OperatorID)
		must(err)
		s.whitelist = fmt.Sprint(list)
		all, err := w.Admin.Operators(ctx)
		must(err)
		s.operators = len(all)
		return s
	}

	operator := fmt.Sprintf("/console/operators/%d", me.OperatorID)
	key := fmt.Sprintf("%s/keys/%d", operator, me.ID)
	staffLogin, ownLogin := fmt.Sprintf("/console/staff/%d", clerk.ID), fmt.Sprintf("%s/logins/%d", operator, owner.ID)
	form := func(name string, pairs ...string) url.Values {
		values := url.Values{"form": {name}}
		for i := 0; i < len(pairs); i += 2 {
			values.Add(pairs[i], pairs[i+1])
		}
		return values
	}
	for _, tt := range []struct {
		name string
		// page has the form, which is sent to page+action.
		page, action  string
		narrow, widen url.Values
		// narrowAction is where narrow is sent to, if not to the same address.
		narrowAction string
		filled       []string
	}{
		{
			name: "whitelist", page: operator + "/whitelist", action: "/add", narrowAction: "/remove",
			narrow: form("remove", "address", "127.0.0.1"), widen: form("add", "address", "203.0.113.7"),
			filled: []string{`name="address" value="203.0.113.7"`},
		},
		{
			name: "status", page: operator, action: "/status", narrow: form("status", "status", "inactive"), widen: form("status", "status", "active"),
			filled: []string{`<option value="active" selected>`, "Suspended"},
		},
		{
			name: "API", page: operator, action: "/api", narrow: form("api", "api", "blocked"), widen: form("api", "api", "enabled"),
			filled: []string{`<option value="enabled" selected>`, "API blocked"},
		},
		{
			name: "rate limit", page: operator, action: "/rate-limit", narrow: form("rate-limit", "rate_limit", "10"), widen: form("rate-limit", "rate_limit", "11"),
			filled: []string{`name="rate_limit" value="11"`},
		},
		{
			name: "commission", page: operator, action: "/commission", widen: form("commission", "commission", "3.5"),
			filled: []string{`name="commission" value="3.5"`},
		},
		{
			name: "permissions", page: key, action: "/permissions",
			narrow: form("permissions", "permission", "Renew"), widen: form("permissions", "permission", "Renew", "permission", "Activate"),
			filled: []string{`value="Renew" checked`, `value="Activate" checked`},
		},
		{
			name: "login of staff", page: staffLogin, action: "/access", narrow: form("access", "disabled", "yes"), widen: form("access", "disabled", "no"),
			filled: []string{`name="disabled" value="no"`, "Enable"},
		},
		{
			name: "login of an operator", page: ownLogin, action: "/access", narrow: form("access", "disabled", "yes"), widen: form("access", "disabled", "no"),
			filled: []string{`name="disabled" value="no"`, "Enable"},
		},
		{
			name: "role", page: staffLogin, action: "/role", widen: form("role", "role", "support"),
			filled: []string{`<option value="support" selected>`},
		},
		{
			name: "undeletion", page: fmt.Sprintf("/console/operators/%d", gone.ID), action: "/undelete", widen: form("undelete"),
			filled: []string{"Reopen this account"},
		},
		{
			name: "new operator", page: "/console/new-operator",
			widen:  form("create", "name", "Nova Cable", "rate_limit", "60", "commission", "2", "low_balance", "500", "once", strings.Repeat("A", 12)),
			filled: []string{`value="Nova Cable"`},
		},
	} {
		b := w.SignIn(t, w.Demo.Admin)
		w.Advance(6 * time.Minute)
		if tt.narrow != nil {
			before := now()
			action := tt.action
			if tt.narrowAction != "" {
				action = tt.narrowAction
			}
			if got := b.Post(tt.page+action, tt.narrow); got.Status != http.StatusSeeOther || got.Location != tt.page {
				t.Errorf("%s: narrowed with a stale session: %d to %q\n%s", tt.name, got.Status, got.Location, got.Body)
			}
			if now() == before {
				t.Errorf("%s: narrowed with a stale session, nothing changed", tt.name)
			}
		}
		before := now()
		stopped := b.Post(tt.page+tt.action, tt.widen)
		stopped.Shows(t, http.StatusForbidden, `action="/step-up"`, "Nothing has been done yet", `name="to" value="`+tt.page+`"`)
		given := url.Values{"to": {tt.page}, "password": {w.Demo.Admin.Password}}
		for field, values := range tt.widen {
			for _, value := range values {
				stopped.Shows(t, http.StatusForbidden, `name="form.`+field+`" value="`+value+`"`)
				given.Add("form."+field, value)
			}
		}
		b.Post("/step-up", given).Shows(t, http.StatusOK, append(tt.filled, `action="`+tt.page+tt.action+`"`, "Nothing has been done yet: check your form")...)
		if after := now(); after != before {
			t.Errorf("%s: with a stale session %+v became %+v", tt.name, before, after)
		}
		if got := b.Post(tt.page+tt.action, tt.widen); got.Status != http.StatusSeeOther {
			t.Errorf("%s: after the step-up: %d\n%s", tt.name, got.Status, got.Body)
		}
		if now() == before {
			t.Errorf("%s: after the step-up nothing changed", tt.name)
		}
	}
	w.CheckAudit()
}
