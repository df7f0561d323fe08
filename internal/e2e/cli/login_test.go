package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

var cliLoginShape = []string{
	"login_id int", "username text", "name text", "realm text", "role text", "lco_id int?", "status text", "totp bool", "passkeys int",
	"must_change_password bool", "created_at moment", "last_sign_in moment?", "password_ends moment?",
}

func TestAdminLogins_JSON(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	withPassword := append(append([]string{}, cliLoginShape...), "password text")
	made := e2e.CheckShape(t, h.JSON("login", "create", "--username", "Meera", "--name", "Meera", "--role", "administrator"), withPassword...)
	if e2e.JoinUnquoted(made["username"], made["realm"], made["role"], made["status"], made["must_change_password"]) != "meera staff administrator enabled true" {
		t.Errorf("made %v", made)
	}
	lco := e2e.CheckShape(t, h.JSON("lco", "create", "--name", "Asha Cable"), e2e.OperatorShape...)["lco_id"]
	e2e.CheckShape(t, h.JSON("login", "create", "--username", "asha", "--name", "Asha", "--role", "owner", "--lco", lco), withPassword...)

	set := e2e.CheckShape(t, h.JSON("login", "set", "--username", "MEERA", "--name", "Meera S", "--role", "viewer", "--status", "disabled"), cliLoginShape...)
	if e2e.JoinUnquoted(set["login_id"], set["name"], set["role"], set["status"]) != e2e.JoinUnquoted(made["login_id"], "Meera S", "viewer", "disabled") {
		t.Errorf("set %v", set)
	}
	reset := e2e.CheckShape(t, h.JSON("login", "reset-password", "--username", "meera"), withPassword...)
	if reset["password"] == made["password"] {
		t.Error("the password is the one from before")
	}
	// The store has neither of them.
	for _, row := range h.Dump() {
		for _, password := range []string{made["password"], reset["password"]} {
			if strings.Contains(row, strings.Trim(password, `"`)) {
				t.Errorf("a password is kept: %s", row)
			}
		}
	}
	// The demo has logins of its own.
	listed := func(args ...string) (names []string) {
		for _, raw := range e2e.JSONArray(t, h.JSON(append([]string{"login", "list"}, args...)...)) {
			names = append(names, e2e.JoinUnquoted(e2e.CheckShape(t, raw, cliLoginShape...)["username"]))
		}
		return names
	}
	if all := listed(); !slices.Contains(all, "asha") || !slices.Contains(all, "meera") {
		t.Errorf("listed are %q", all)
	}
	if staff := listed("--staff"); slices.Contains(staff, "asha") || !slices.Contains(staff, "meera") {
		t.Errorf("staff is %q", staff)
	}
	if owners := listed("--lco", lco); !slices.Equal(owners, []string{"asha"}) {
		t.Errorf("the operator's are %q", owners)
	}
	for _, role := range []string{"counter", "readonly"} {
		made := e2e.CheckShape(t, h.JSON("login", "create", "--username", "the-"+role, "--name", role, "--role", role, "--lco", lco), withPassword...)
		if e2e.JoinUnquoted(made["realm"], made["role"], made["lco_id"]) != e2e.JoinUnquoted("operator", role, lco) {
			t.Errorf("made %v; want a login of operator %s", made, lco)
		}
	}
	set = e2e.CheckShape(t, h.JSON("login", "set", "--username", "the-counter", "--role", "readonly"), cliLoginShape...)
	if e2e.JoinUnquoted(set["role"]) != "readonly" {
		t.Errorf("set %v", set)
	}
	h.CheckRefused([]string{"login", "create", "--username", "nobody", "--name", "x", "--role", "counter"}, "role counter belongs to an operator")
	h.CheckRefused([]string{"login", "set", "--username", "the-readonly", "--role", "finance"}, "is an operator's login and stays one")
	h.CheckRefused([]string{"login", "list", "--lco", "9"}, "there is no operator 9")
	h.CheckRefused([]string{"login", "list", "--lco", "0"}, "there is no operator 0")
	h.CheckRefused([]string{"login", "reset-totp", "--username", "meera"}, "no second factor")
	h.CheckRefused([]string{"login", "reset-password", "--username", "no body"}, "there is no login no body")
	e2e.CheckUsageError(t, h.Admin("login", "list", "--lco", "1", "--staff"), "staff")
}
