package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// What staff do beside a running node, in another process, is obeyed by the very
// next request.
func TestCLIAdminActsOnARunningNodeAtOnce(t *testing.T) {
	t.Parallel()
	p := cliDemo(t)
	h := p.house(t)
	made := cliShape(t, h.json("lco", "create", "--name", t.Name()), cliOperatorShape...)
	lco := made["lco_id"]
	issued := cliShape(t, h.json("key", "issue", "--lco", lco), cliIssuedShape...)
	key, secret, keyID := issued["api_key"], issued["api_secret"], issued["key_id"]

	expect := func(code string) {
		t.Helper()
		file := cliWrite(t, filepath.Join(t.TempDir(), "c.json"), `{"base_url":"`+p.line.BaseURL+`","ca_cert":"`+p.line.CACert+`","api_key":`+key+`,"api_secret":`+secret+`}`)
		var got struct{ Code string }
		out := cliOK(t, cliRun(t, "call", "GET", "balance", "--credentials", file)).out
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.Code != code {
			t.Errorf("the next call is answered %s; want %s", got.Code, code)
		}
	}
	expect("IP_NOT_WHITELISTED")
	h.json("whitelist", "add", "--lco", lco, "127.0.0.1")
	expect("OK")
	h.json("whitelist", "remove", "--lco", lco, "127.0.0.1")
	expect("IP_NOT_WHITELISTED")
	h.json("whitelist", "add", "--lco", lco, "127.0.0.0/24")
	h.json("lco", "set", "--lco", lco, "--api", "disabled")
	expect("API_DISABLED")
	h.json("lco", "set", "--lco", lco, "--api", "blocked")
	expect("API_ACCESS_BLOCKED")
	h.json("lco", "set", "--lco", lco, "--api", "enabled", "--status", "inactive")
	expect("LCO_INACTIVE")
	h.json("lco", "set", "--lco", lco, "--status", "active")
	h.json("key", "permit", "--key-id", keyID, "--permission", "Renew")
	expect("PERMISSION_DENIED")
	h.json("key", "permit", "--key-id", keyID, "--permission", "Check Balance")
	expect("OK")

	// With a grace both keys are good; without, only the new one.
	next := cliShape(t, h.json("key", "rotate", "--key-id", keyID, "--grace", "1h"), cliIssuedShape...)
	expect("OK")
	key, secret = next["api_key"], next["api_secret"]
	expect("OK")
	last := cliShape(t, h.json("key", "rotate", "--key-id", next["key_id"], "--grace", "0s"), cliIssuedShape...)
	expect("CREDENTIAL_EXPIRED")
	key, secret = last["api_key"], last["api_secret"]
	expect("OK")
	h.json("key", "revoke", "--key-id", last["key_id"])
	expect("CREDENTIAL_REVOKED")

	again := cliShape(t, h.json("key", "issue", "--lco", lco), cliIssuedShape...)
	key, secret = again["api_key"], again["api_secret"]
	expect("OK")
	h.json("lco", "delete", "--lco", lco)
	expect("LCO_NOT_FOUND")
}

// Plans and prices, too.
func TestCLIAdminPlansAreSoldAtOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cliDemoIn(t, folder)
	h := cliHouseAt(t, folder)
	plans := func() string {
		t.Helper()
		return cliOK(t, cliRun(t, "call", "GET", "plans", "--credentials", filepath.Join(folder, "demo.json"))).out
	}
	h.json("plan", "set", "--id", "NEW-1", "--name", "New", "--price", "123.45", "--duration", "1", "--component", "main=TV-BASIC")
	cliSays(t, "the plans", plans(), "NEW-1", "123.45", "BASIC-1")
	h.json("plan", "set", "--id", "NEW-1", "--name", "New", "--price", "0.01", "--duration", "1", "--component", "main=TV-BASIC")
	h.json("plan", "retire", "--id", "BASIC-1")
	got := plans()
	cliSays(t, "the plans", got, "NEW-1", "0.01")
	if strings.Contains(got, "BASIC-1") || strings.Contains(got, "123.45") {
		t.Errorf("a retired plan or an old price is still offered:\n%s", got)
	}
}
