package main

import (
	"slices"
	"strings"
	"testing"
)

var cliLoginShape = []string{
	"login_id int", "username text", "name text", "realm text", "role text", "lco_id int?", "status text", "totp bool",
	"must_change_password bool", "created_at moment", "last_sign_in moment?",
}

func TestCLIAdminLoginsInJSON(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	withPassword := append(append([]string{}, cliLoginShape...), "password text")
	made := cliShape(t, h.json("login", "create", "--username", "Meera", "--name", "Meera", "--role", "administrator"), withPassword...)
	if cliBare(made["username"], made["realm"], made["role"], made["status"], made["must_change_password"]) != "meera staff administrator enabled true" {
		t.Errorf("made %v", made)
	}
	lco := cliShape(t, h.json("lco", "create", "--name", "Asha Cable"), cliOperatorShape...)["lco_id"]
	cliShape(t, h.json("login", "create", "--username", "asha", "--name", "Asha", "--role", "owner", "--lco", lco), withPassword...)

	set := cliShape(t, h.json("login", "set", "--username", "MEERA", "--name", "Meera S", "--role", "viewer", "--status", "disabled"), cliLoginShape...)
	if cliBare(set["login_id"], set["name"], set["role"], set["status"]) != cliBare(made["login_id"], "Meera S", "viewer", "disabled") {
		t.Errorf("set %v", set)
	}
	reset := cliShape(t, h.json("login", "reset-password", "--username", "meera"), withPassword...)
	if reset["password"] == made["password"] {
		t.Error("the password is the one from before")
	}
	// The store has neither of them.
	for _, row := range h.dump() {
		for _, password := range []string{made["password"], reset["password"]} {
			if strings.Contains(row, strings.Trim(password, `"`)) {
				t.Errorf("a password is kept: %s", row)
			}
		}
	}
	// There may be others, of the house itself.
	listed := func(args ...string) (names []string) {
		for _, raw := range cliArray(t, h.json(append([]string{"login", "list"}, args...)...)) {
			names = append(names, cliBare(cliShape(t, raw, cliLoginShape...)["username"]))
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
	h.refuses([]string{"login", "list", "--lco", "9"}, "there is no operator 9")
	h.refuses([]string{"login", "list", "--lco", "0"}, "there is no operator 0")
	h.refuses([]string{"login", "reset-totp", "--username", "meera"}, "no second factor")
	h.refuses([]string{"login", "reset-password", "--username", "no body"}, "there is no login no body")
	cliWrongUsage(t, h.admin("login", "list", "--lco", "1", "--staff"), "staff")
}
