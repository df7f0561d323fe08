package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// A change by coax admin beside a running node applies to the next request.
func TestAdmin_ChangesRunningNodeAtOnce(t *testing.T) {
	t.Parallel()
	p := e2e.SharedDemo(t)
	h := p.Install(t)
	made := e2e.CheckShape(t, h.JSON("lco", "create", "--name", t.Name()), e2e.OperatorShape...)
	lco := made["lco_id"]
	issued := e2e.CheckShape(t, h.JSON("key", "issue", "--lco", lco), e2e.IssuedShape...)
	key, secret, keyID := issued["api_key"], issued["api_secret"], issued["key_id"]

	expect := func(code string) {
		t.Helper()
		file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "c.json"), `{"base_url":"`+p.Demo.BaseURL+`","ca_cert":"`+p.Demo.CACert+`","api_key":`+key+`,"api_secret":`+secret+`}`)
		var got struct{ Code string }
		out := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "balance", "--credentials", file)).Out
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.Code != code {
			t.Errorf("the next call is answered %s; want %s", got.Code, code)
		}
	}
	expect("IP_NOT_WHITELISTED")
	h.JSON("whitelist", "add", "--lco", lco, "127.0.0.1")
	expect("OK")
	h.JSON("whitelist", "remove", "--lco", lco, "127.0.0.1")
	expect("IP_NOT_WHITELISTED")
	h.JSON("whitelist", "add", "--lco", lco, "127.0.0.0/24")
	h.JSON("lco", "set", "--lco", lco, "--api", "disabled")
	expect("API_DISABLED")
	h.JSON("lco", "set", "--lco", lco, "--api", "blocked")
	expect("API_ACCESS_BLOCKED")
	h.JSON("lco", "set", "--lco", lco, "--api", "enabled", "--status", "inactive")
	expect("LCO_INACTIVE")
	h.JSON("lco", "set", "--lco", lco, "--status", "active")
	h.JSON("key", "permit", "--key-id", keyID, "--permission", "Renew")
	expect("PERMISSION_DENIED")
	h.JSON("key", "permit", "--key-id", keyID, "--permission", "Check Balance")
	expect("OK")

	// With a grace both keys are good; without, only the new one.
	next := e2e.CheckShape(t, h.JSON("key", "rotate", "--key-id", keyID, "--grace", "1h"), e2e.IssuedShape...)
	expect("OK")
	key, secret = next["api_key"], next["api_secret"]
	expect("OK")
	last := e2e.CheckShape(t, h.JSON("key", "rotate", "--key-id", next["key_id"], "--grace", "0s"), e2e.IssuedShape...)
	expect("CREDENTIAL_EXPIRED")
	key, secret = last["api_key"], last["api_secret"]
	expect("OK")
	h.JSON("key", "revoke", "--key-id", last["key_id"])
	expect("CREDENTIAL_REVOKED")

	again := e2e.CheckShape(t, h.JSON("key", "issue", "--lco", lco), e2e.IssuedShape...)
	key, secret = again["api_key"], again["api_secret"]
	expect("OK")
	h.JSON("lco", "delete", "--lco", lco)
	expect("LCO_NOT_FOUND")
}

// Plans and prices, too.
func TestAdminPlans_SoldAtOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	h := e2e.InstallAt(t, folder)
	plans := func() string {
		t.Helper()
		return e2e.RequireOK(t, e2e.Run(t, "call", "GET", "plans", "--credentials", filepath.Join(folder, "demo.json"))).Out
	}
	h.JSON("plan", "set", "--id", "NEW-1", "--name", "New", "--price", "123.45", "--duration", "1", "--component", "main=TV-BASIC")
	e2e.CheckMentions(t, "the plans", plans(), "NEW-1", "123.45", "BASIC-1")
	h.JSON("plan", "set", "--id", "NEW-1", "--name", "New", "--price", "0.01", "--duration", "1", "--component", "main=TV-BASIC")
	h.JSON("plan", "retire", "--id", "BASIC-1")
	got := plans()
	e2e.CheckMentions(t, "the plans", got, "NEW-1", "0.01")
	if strings.Contains(got, "BASIC-1") || strings.Contains(got, "123.45") {
		t.Errorf("a retired plan or an old price is still offered:\n%s", got)
	}
}
