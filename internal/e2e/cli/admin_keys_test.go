package cli

import (
	"encoding/json"
	"os/user"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

const cliAllSeven = `["Activate","Renew","Advance Renew","Check Balance","Get Plans","Check Subscription","Check Transaction"]`

var cliKeyShape = []string{"key_id int", "key text", "permissions texts", "created_at moment", "expires_at moment?", "revoked_at moment?", "replaced_by int?"}

func TestAdminKeys_JSON(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)

	issued := e2e.CheckShape(t, h.JSON("key", "issue", "--lco", "1"), e2e.IssuedShape...)
	if issued["key_id"] != "2" || !strings.HasPrefix(issued["api_key"], `"cxk_`) || !strings.HasPrefix(issued["api_secret"], `"cxs_`) {
		t.Errorf("issue: %v; want key 2 with cxk_ and cxs_", issued)
	}
	narrow := e2e.CheckShape(t, h.JSON("key", "issue", "--lco", "1", "--permission", "Check Balance", "--permission", "Get Plans"), e2e.IssuedShape...)
	if got := cliKey(t, h, narrow["key_id"])["permissions"]; got != `["Check Balance","Get Plans"]` {
		t.Errorf("a key issued for two things may do %s", got)
	}
	if got := cliKey(t, h, issued["key_id"]); got["permissions"] != cliAllSeven || got["expires_at"] != "null" || got["revoked_at"] != "null" || got["replaced_by"] != "null" {
		t.Errorf("a key issued for nothing in particular: %v; want all seven permissions and no end", got)
	}

	rotated := e2e.CheckShape(t, h.JSON("key", "rotate", "--key-id", narrow["key_id"], "--grace", "72h"), e2e.IssuedShape...)
	if rotated["api_key"] == narrow["api_key"] || rotated["api_secret"] == narrow["api_secret"] || rotated["key_id"] == narrow["key_id"] {
		t.Errorf("rotate gave the old key again: %v", rotated)
	}
	if got := cliKey(t, h, narrow["key_id"]); got["replaced_by"] != rotated["key_id"] || got["expires_at"] == "null" {
		t.Errorf("the rotated key: %v; want an end, and its successor %s", got, rotated["key_id"])
	}
	if got := cliKey(t, h, rotated["key_id"])["permissions"]; got != `["Check Balance","Get Plans"]` {
		t.Errorf("the successor may do %s; want what its predecessor could", got)
	}
	e2e.CheckShape(t, h.JSON("key", "rotate", "--key-id", rotated["key_id"], "--grace", "0s"), e2e.IssuedShape...)

	permitted := e2e.CheckShape(t, h.JSON("key", "permit", "--key-id", "2", "--permission", "Renew"), "key_id int", "permissions texts")
	if permitted["key_id"] != "2" || permitted["permissions"] != `["Renew"]` {
		t.Errorf("permit: %v; want the set replaced by Renew", permitted)
	}
	revoked := e2e.CheckShape(t, h.JSON("key", "revoke", "--key-id", "2"), "key_id int", "status text")
	if revoked["key_id"] != "2" || revoked["status"] != `"revoked"` {
		t.Errorf("revoke: %v", revoked)
	}
	if got := cliKey(t, h, "2"); got["revoked_at"] == "null" || got["permissions"] != `["Renew"]` {
		t.Errorf("the revoked key: %v", got)
	}
	list := h.JSON("key", "list", "--lco", "1")
	for _, secret := range []string{issued["api_secret"], rotated["api_secret"], issued["api_key"]} {
		if strings.Contains(list, strings.Trim(secret, `"`)) {
			t.Errorf("key list shows a key or secret in full: %s", list)
		}
	}
}

func cliKey(t testing.TB, h *e2e.Install, id string) map[string]string {
	t.Helper()
	for _, key := range e2e.JSONArray(t, h.JSON("key", "list", "--lco", "1")) {
		if got := e2e.CheckShape(t, key, cliKeyShape...); got["key_id"] == id {
			return got
		}
	}
	t.Fatalf("key %s is not listed", id)
	return nil
}

func TestAdminWhitelist_JSON(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	added := e2e.CheckShape(t, h.JSON("whitelist", "add", "--lco", "1", "203.0.113.0/24"), "lco_id int", "whitelist texts")
	e2e.CheckMentions(t, "whitelist add", added["whitelist"], `"203.0.113.0/24"`, `"127.0.0.1"`)
	e2e.CheckShape(t, h.JSON("whitelist", "add", "--lco", "1", "2001:db8::/48"), "lco_id int", "whitelist texts")

	before := h.Dump()
	e2e.CheckShape(t, h.JSON("whitelist", "add", "--lco", "1", "203.0.113.0/24"), "lco_id int", "whitelist texts")
	if after := h.Dump(); !slices.Equal(before, after) {
		t.Errorf("adding an entry twice changed the store:\n%s", e2e.Diff(before, after))
	}

	e2e.CheckShape(t, h.JSON("whitelist", "remove", "--lco", "1", "127.0.0.1"), "lco_id int", "whitelist texts")
	got := e2e.JSONArray(t, h.JSON("whitelist", "list", "--lco", "1"))
	slices.Sort(got)
	if want := []string{`"2001:db8::/48"`, `"203.0.113.0/24"`, `"::1"`}; !slices.Equal(got, want) {
		t.Errorf("whitelist list: %v; want %v", got, want)
	}
}

func TestAdminLists_EmptyArrays(t *testing.T) {
	t.Parallel()
	h := cliEmptyInstall(t)
	for _, list := range [][]string{{"lco", "list"}, {"plan", "list"}, {"log"}} {
		if got := h.JSON(list...); got != "[]" {
			t.Errorf("%q of a new installation: %s; want []", list, got)
		}
		if got := e2e.RequireOK(t, h.Admin(list...)).Out; strings.TrimSpace(got) == "" {
			t.Errorf("%q of a new installation tells a person nothing", list)
		}
	}
	e2e.RequireOK(t, h.Admin("lco", "create", "--name", "Asha"))
	for _, list := range [][]string{{"ledger", "--lco", "1"}, {"key", "list", "--lco", "1"}, {"whitelist", "list", "--lco", "1"}} {
		if got := h.JSON(list...); got != "[]" {
			t.Errorf("%q of a new operator: %s; want []", list, got)
		}
		if got := e2e.RequireOK(t, h.Admin(list...)).Out; strings.TrimSpace(got) == "" {
			t.Errorf("%q of a new operator tells a person nothing", list)
		}
	}
}

// cliEmptyInstall returns an installation after init and migrate.
func cliEmptyInstall(t testing.TB) *e2e.Install {
	t.Helper()
	folder := t.TempDir()
	e2e.RequireOK(t, e2e.Run(t, "init", "--dir", folder))
	h := e2e.InstallAt(t, folder)
	e2e.CheckMentions(t, "migrate", e2e.RequireOK(t, e2e.Run(t, "migrate", "--config", h.Config)).Out, "up to date")
	return h
}

func TestAdminLog_RecordsActorAndAction(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	h.JSON("lco", "create", "--name", "Asha")
	h.JSON("lco", "set", "--lco", "2", "--api", "disabled")
	h.JSON("wallet", "topup", "--lco", "2", "--amount", "12.30", "--reference", "NEFT-9")
	issued := e2e.CheckShape(t, h.JSON("key", "issue", "--lco", "2"), e2e.IssuedShape...)
	h.JSON("plan", "retire", "--id", "BASIC-1")

	raw := h.JSON("log", "--lco", "2")
	var actions []string
	for _, act := range e2e.JSONArray(t, raw) {
		a := e2e.CheckShape(t, act, "id int", "at moment", "actor text", "action text", "lco_id int?", "subject text", "before any", "after any", "reason string", "origin text?")
		if a["lco_id"] != "2" {
			t.Errorf("log --lco 2 lists an act of another: %s", act)
		}
		current, err := user.Current()
		if err == nil && a["actor"] != `"cli:`+current.Username+`"` {
			t.Errorf("actor %s; want who runs the test", a["actor"])
		}
		actions = append(actions, strings.Trim(a["action"], `"`))
	}
	if want := []string{"lco create", "lco set", "wallet topup", "key issue"}; !slices.Equal(actions, want) {
		t.Errorf("the audit entries are %q; want %q", actions, want)
	}
	if secret := strings.Trim(issued["api_secret"], `"`); strings.Contains(raw, secret) {
		t.Error("the log holds a secret")
	}

	var entries []struct {
		Before, After json.RawMessage
	}
	if err := json.Unmarshal([]byte(raw), &entries); err != nil {
		t.Fatal(err)
	}
	e2e.CheckMentions(t, "before lco set", string(entries[1].Before), `"api":"enabled"`)
	e2e.CheckMentions(t, "after lco set", string(entries[1].After), `"api":"disabled"`)
	if string(entries[0].Before) != "null" {
		t.Errorf("before an operator was made there was %s; want null", entries[0].Before)
	}
	e2e.CheckMentions(t, "after a top-up", string(entries[2].After), `"wallet_balance":12.30`)

	whole := e2e.JSONArray(t, h.JSON("log"))
	last := e2e.CheckShape(t, whole[len(whole)-1], "id int", "at moment", "actor text", "action text", "lco_id int?", "subject text", "before any", "after any", "reason string", "origin text?")
	if last["action"] != `"plan retire"` || last["lco_id"] != "null" || last["subject"] != `"plan BASIC-1"` {
		t.Errorf("the last act is %v; want the retirement of BASIC-1", last)
	}
}

// The human-readable output has the requested values; its format is not fixed.
func TestAdmin_HumanReadableOutput(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"lco", "create", "--name", "Asha Cable"}, []string{"lco_id", "2", "Asha Cable", "active", "500.00"}},
		{[]string{"lco", "list"}, []string{"Demo Cable", "Asha Cable", "enabled"}},
		{[]string{"lco", "show", "--lco", "1"}, []string{"Demo Cable", "10000.00", "127.0.0.1, ::1"}},
		{[]string{"lco", "show", "--lco", "2"}, []string{"whitelist", "-"}},
		{[]string{"wallet", "topup", "--lco", "2", "--amount", "1", "--reference", "x"}, []string{"1.00", "credited", "true"}},
		{[]string{"wallet", "show", "--lco", "2"}, []string{"wallet_balance", "1.00", "held", "0.00"}},
		{[]string{"ledger", "--lco", "1"}, []string{"credit", "10000.00", "demo opening balance"}},
		{[]string{"plan", "list"}, []string{"BASIC-1", "199.00", "TV-FAMILY", "OTT-PLUS"}},
		{[]string{"key", "issue", "--lco", "2"}, []string{"cxk_", "cxs_", "not shown again"}},
		{[]string{"key", "list", "--lco", "2"}, []string{"Advance Renew", "key_id"}},
		{[]string{"key", "permit", "--key-id", "2", "--permission", "Renew"}, []string{"Renew"}},
		{[]string{"key", "revoke", "--key-id", "2"}, []string{"revoked"}},
		{[]string{"whitelist", "add", "--lco", "2", "192.0.2.1"}, []string{"192.0.2.1"}},
		{[]string{"whitelist", "list", "--lco", "2"}, []string{"192.0.2.1"}},
		{[]string{"log"}, []string{"lco create", "key revoke", "before", "after"}},
		{[]string{"wallet", "adjust", "--lco", "2", "--amount=-1.00", "--reason", "paid out", "--reference", "x"}, []string{"wallet_balance", "0.00", "booked", "true"}},
		{[]string{"wallet", "adjust", "--lco", "2", "--amount=-1.00", "--reason", "paid out", "--reference", "x"}, []string{"wallet_balance", "0.00", "booked", "false"}},
		{[]string{"lco", "delete", "--lco", "2"}, []string{"deleted", "undelete_until"}},
		{[]string{"lco", "undelete", "--lco", "2"}, []string{"Asha Cable", "active"}},
	} {
		got := e2e.RequireOK(t, h.Admin(test.args...))
		e2e.CheckMentions(t, strings.Join(test.args, " "), got.Out, test.want...)
		if strings.Contains(got.Out, "%!") || strings.Contains(got.Out, "<nil>") || strings.Contains(got.Out, "{") && test.args[0] != "log" {
			t.Errorf("%q prints what only a program understands:\n%s", test.args, got.Out)
		}
	}
}
