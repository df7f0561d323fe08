package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// cliRefusalInstall has one of everything that leads to a refusal: operator 2 is
// deleted and had key 2; key 3 is revoked, key 4 was rotated to key 5; plan
// FAMILY-3 is retired; reference NEFT-1 was used for 100.00.
func cliRefusalInstall(t testing.TB) *e2e.Install {
	t.Helper()
	h := e2e.NewInstall(t)
	for _, args := range [][]string{
		{"lco", "create", "--name", "Gone"},
		{"key", "issue", "--lco", "2"},
		{"lco", "delete", "--lco", "2"},
		{"key", "issue", "--lco", "1"},
		{"key", "revoke", "--key-id", "3"},
		{"key", "issue", "--lco", "1"},
		{"key", "rotate", "--key-id", "4"},
		{"plan", "retire", "--id", "FAMILY-3"},
		{"wallet", "topup", "--lco", "1", "--amount", "100", "--reference", "NEFT-1"},
	} {
		e2e.RequireOK(t, h.Admin(args...))
	}
	return h
}

func TestAdmin_RefusalChangesNothing(t *testing.T) {
	t.Parallel()
	h := cliRefusalInstall(t)
	state := h.Dump()
	plan := func(more ...string) []string {
		args := []string{"plan", "set", "--name", "New"}
		for _, flag := range []struct{ name, value string }{
			{"--id", "NEW-1"}, {"--price", "100"}, {"--duration", "1"}, {"--component", "main=TV-BASIC"},
		} {
			if !strings.Contains(strings.Join(more, " "), flag.name) {
				args = append(args, flag.name, flag.value)
			}
		}
		return append(args, more...)
	}
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"a grace below zero", []string{"key", "rotate", "--key-id", "1", "--grace", "-1s"}, []string{"-1s", "72h"}},
		{"a grace a second too long", []string{"key", "rotate", "--key-id", "1", "--grace", "72h1s"}, []string{"72h0m1s", "72h"}},
		{"a grace an hour too long", []string{"key", "rotate", "--key-id", "1", "--grace", "73h"}, []string{"73h", "72h"}},
		{"rotating an unknown key", []string{"key", "rotate", "--key-id", "99"}, []string{"no key 99"}},
		{"rotating a revoked key", []string{"key", "rotate", "--key-id", "3"}, []string{"key 3", "revoked", "issue"}},
		{"rotating a key twice", []string{"key", "rotate", "--key-id", "4"}, []string{"key 4", "key 5"}},
		{"rotating a deleted operator's key", []string{"key", "rotate", "--key-id", "2"}, []string{"operator 2", "deleted"}},
		{"revoking an unknown key", []string{"key", "revoke", "--key-id", "99"}, []string{"no key 99"}},
		{"revoking a key twice", []string{"key", "revoke", "--key-id", "3"}, []string{"key 3", "revoked already"}},
		{"permitting an unknown key", []string{"key", "permit", "--key-id", "99", "--permission", "Renew"}, []string{"no key 99"}},
		{"permitting a revoked key", []string{"key", "permit", "--key-id", "3", "--permission", "Renew"}, []string{"key 3", "revoked"}},
		{"an unknown permission", []string{"key", "permit", "--key-id", "1", "--permission", "Renew", "--permission", "Fly"}, []string{`"Fly"`, "Advance Renew"}},
		{"a permission in lower case", []string{"key", "permit", "--key-id", "1", "--permission", "renew"}, []string{`"renew"`, "Renew"}},
		{"an empty permission", []string{"key", "permit", "--key-id", "1", "--permission", ""}, []string{"permission"}},
		{"two permissions in one word", []string{"key", "issue", "--lco", "1", "--permission", "Renew,Activate"}, []string{`"Renew,Activate"`}},
		{"a key with an unknown permission", []string{"key", "issue", "--lco", "1", "--permission", "Everything"}, []string{`"Everything"`}},
		{"a key for an unknown operator", []string{"key", "issue", "--lco", "99"}, []string{"no operator 99"}},
		{"a key for a deleted operator", []string{"key", "issue", "--lco", "2"}, []string{"operator 2", "deleted"}},
		{"an unknown operator's keys", []string{"key", "list", "--lco", "99"}, []string{"no operator 99"}},

		{"an IPv4 range wider than /24", []string{"whitelist", "add", "--lco", "1", "10.0.0.0/23"}, []string{"10.0.0.0/23", "/24"}},
		{"all of IPv4", []string{"whitelist", "add", "--lco", "1", "0.0.0.0/0"}, []string{"/24"}},
		{"an IPv6 range wider than /48", []string{"whitelist", "add", "--lco", "1", "2001:db8::/47"}, []string{"2001:db8::/47", "/48"}},
		{"host bits set", []string{"whitelist", "add", "--lco", "1", "203.0.113.7/24"}, []string{"203.0.113.0/24", "203.0.113.7"}},
		{"host bits set in IPv6", []string{"whitelist", "add", "--lco", "1", "2001:db8::1/64"}, []string{"2001:db8::/64"}},
		{"a 4-in-6 address", []string{"whitelist", "add", "--lco", "1", "::ffff:203.0.113.7"}, []string{"203.0.113.7"}},
		{"a 4-in-6 prefix", []string{"whitelist", "add", "--lco", "1", "::ffff:203.0.113.0/120"}, []string{"203.0.113.0/24"}},
		{"all of IPv4 as IPv6", []string{"whitelist", "add", "--lco", "1", "::ffff:0:0/96"}, []string{"IPv4"}},
		{"a zone", []string{"whitelist", "add", "--lco", "1", "fe80::1%eth0"}, []string{"zone"}},
		{"a host name", []string{"whitelist", "add", "--lco", "1", "billing.example"}, []string{"billing.example"}},
		{"octal", []string{"whitelist", "add", "--lco", "1", "010.0.0.1"}, []string{"octal"}},
		{"nothing", []string{"whitelist", "add", "--lco", "1", ""}, []string{"empty"}},
		{"two addresses in one", []string{"whitelist", "add", "--lco", "1", "192.0.2.1 192.0.2.2"}, []string{"blank"}},
		{"an entry for an unknown operator", []string{"whitelist", "add", "--lco", "99", "192.0.2.1"}, []string{"no operator 99"}},
		{"an entry for a deleted operator", []string{"whitelist", "add", "--lco", "2", "192.0.2.1"}, []string{"operator 2", "deleted"}},
		{"removing what is not there", []string{"whitelist", "remove", "--lco", "1", "192.0.2.1"}, []string{"192.0.2.1", "not on the whitelist"}},
		{"removing part of an entry", []string{"whitelist", "remove", "--lco", "1", "127.0.0.0/30"}, []string{"127.0.0.0/30"}},
		{"an unknown operator's whitelist", []string{"whitelist", "list", "--lco", "99"}, []string{"no operator 99"}},

		{"a price of 0", plan("--price", "0"), []string{"0.00", "0.01"}},
		{"a price of 0.00", plan("--price", "0.00"), []string{"0.00", "0.01"}},
		{"a price of a tenth of a paisa", plan("--price", "0.001"), []string{"--price", "0.001", "two decimals"}},
		{"a price below zero", plan("--price", "-1"), []string{"-1.00", "0.01"}},
		{"a price in words", plan("--price", "abc"), []string{"--price", `"abc"`, "349.50"}},
		{"an empty price", plan("--price", ""), []string{"--price"}},
		{"a price with a comma", plan("--price", "1,000"), []string{"--price", "1,000"}},
		{"a price with an exponent", plan("--price", "1e3"), []string{"--price", "1e3"}},
		{"a price beyond all bounds", plan("--price", "99999999999999999999"), []string{"--price"}},
		{"a price just beyond the bound", plan("--price", "10000000000000.01"), []string{"--price"}},
		{"an existing plan at no price", plan("--id", "BASIC-1", "--price", "0"), []string{"0.01"}},
		{"an unknown component", plan("--component", "main=TV-NONE"), []string{"TV-NONE"}},
		{"an unknown add-on", plan("--type", "combo", "--component", "main=TV-BASIC", "--component", "addon=OTT-NONE"), []string{"OTT-NONE"}},
		{"an add-on as the main component", plan("--component", "main=OTT-PLUS"), []string{"OTT-PLUS", "addon", "main"}},
		{"a main component as the add-on", plan("--type", "combo", "--component", "main=TV-BASIC", "--component", "addon=TV-FAMILY"), []string{"TV-FAMILY"}},
		{"a combo without an add-on", plan("--type", "combo"), []string{"combo", "addon"}},
		{"a standard plan with an add-on", plan("--component", "main=TV-BASIC", "--component", "addon=OTT-PLUS"), []string{"add-on", "combo"}},
		{"only an add-on", plan("--type", "combo", "--component", "addon=OTT-PLUS"), []string{"main component"}},
		{"an unknown type", plan("--type", "bundle"), []string{"bundle", "standard", "combo"}},
		{"no duration", plan("--duration", "0"), []string{"duration"}},
		{"a duration below zero", plan("--duration", "-1"), []string{"duration"}},
		{"a duration beyond the bound", plan("--duration", "25"), []string{"duration", "25", "1 to 24", "plans.max_months"}},
		{"a duration of centuries", plan("--duration", "1201"), []string{"duration"}},
		{"a plan without an id", plan("--id", ""), []string{"id"}},
		{"a plan's id with blanks around it", plan("--id", " NEW-1 "), []string{"id", "blanks"}},
		{"a plan's id of 101 characters", plan("--id", strings.Repeat("x", 101)), []string{"id", "101", "100"}},
		{"retiring an unknown plan", []string{"plan", "retire", "--id", "NONE-1"}, []string{"no plan NONE-1"}},
		{"retiring a plan twice", []string{"plan", "retire", "--id", "FAMILY-3"}, []string{"FAMILY-3", "already"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			state = h.WithTB(t).CheckRefusedFrom(state, test.args, test.want...)
		})
	}
}

func TestAdmin_BadAmountsAndOperators(t *testing.T) {
	t.Parallel()
	h := cliRefusalInstall(t)
	state := h.Dump()
	topUp := func(amount, reference string) []string {
		return []string{"wallet", "topup", "--lco", "1", "--amount", amount, "--reference", reference}
	}
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"a top-up of nothing", topUp("0", "NEFT-2"), []string{"0.00", "above zero"}},
		{"a top-up below zero", topUp("-5", "NEFT-2"), []string{"-5.00", "above zero"}},
		{"a top-up in words", topUp("abc", "NEFT-2"), []string{"--amount", `"abc"`, "349.50"}},
		{"a top-up of half a paisa", topUp("1.005", "NEFT-2"), []string{"--amount", "1.005"}},
		{"a top-up with a currency", topUp("₹5", "NEFT-2"), []string{"--amount"}},
		{"a top-up beyond all bounds", topUp("99999999999999999999", "NEFT-2"), []string{"--amount"}},
		{"a wallet that would be too full", topUp("10000000000000", "NEFT-2"), []string{"more than"}},
		{"a used reference with another amount", topUp("100.01", "NEFT-1"), []string{"NEFT-1", "100.00", "own reference"}},
		{"a used reference, blanks around it, with another amount", topUp("7", " NEFT-1 "), []string{"NEFT-1", "100.00"}},
		{"a top-up without a reference", topUp("1", "  "), []string{"reference"}},
		{"a reference of 201 characters", topUp("1", strings.Repeat("x", 201)), []string{"reference", "201", "200"}},
		{"a top-up of an unknown operator", []string{"wallet", "topup", "--lco", "99", "--amount", "1", "--reference", "x"}, []string{"no operator 99"}},
		{"a top-up of a deleted operator", []string{"wallet", "topup", "--lco", "2", "--amount", "1", "--reference", "x"}, []string{"operator 2", "deleted"}},
		{"an unknown operator's wallet", []string{"wallet", "show", "--lco", "99"}, []string{"no operator 99"}},
		{"an unknown operator's ledger", []string{"ledger", "--lco", "99"}, []string{"no operator 99"}},
		{"an unknown operator's acts", []string{"log", "--lco", "99"}, []string{"no operator 99"}},
		{"the acts of operator 0, which nobody is", []string{"log", "--lco", "0"}, []string{"no operator 0"}},
		{"showing an unknown operator", []string{"lco", "show", "--lco", "99"}, []string{"no operator 99"}},
		{"showing an operator below zero", []string{"lco", "show", "--lco", "-1"}, []string{"no operator -1"}},

		{"changing an unknown operator", []string{"lco", "set", "--lco", "99", "--api", "blocked"}, []string{"no operator 99"}},
		{"changing a deleted operator", []string{"lco", "set", "--lco", "2", "--status", "active"}, []string{"operator 2", "deleted"}},
		{"deleting an unknown operator", []string{"lco", "delete", "--lco", "99"}, []string{"no operator 99"}},
		{"deleting an operator twice", []string{"lco", "delete", "--lco", "2"}, []string{"operator 2", "deleted"}},
		{"changing nothing", []string{"lco", "set", "--lco", "1"}, []string{"nothing to change"}},
		{"an unknown status", []string{"lco", "set", "--lco", "1", "--status", "stoppedAt"}, []string{"stoppedAt", "active or inactive"}},
		{"deleting by status", []string{"lco", "set", "--lco", "1", "--status", "deleted"}, []string{"deleted", "active or inactive"}},
		{"an unknown API switch", []string{"lco", "set", "--lco", "1", "--api", "on"}, []string{"on", "enabled, disabled or blocked"}},
		{"a rate limit of nothing", []string{"lco", "set", "--lco", "1", "--rate-limit", "0"}, []string{"rate limit", "1 to"}},
		{"a rate limit below zero", []string{"lco", "set", "--lco", "1", "--rate-limit", "-1"}, []string{"rate limit"}},
		{"a rate limit of no limit", []string{"lco", "set", "--lco", "1", "--rate-limit", "1000001"}, []string{"rate limit"}},
		{"a commission below zero", []string{"lco", "set", "--lco", "1", "--commission-bps", "-1"}, []string{"commission"}},
		{"a commission above the price", []string{"lco", "set", "--lco", "1", "--commission-bps", "10001"}, []string{"commission", "10000"}},
		{"a threshold below zero", []string{"lco", "set", "--lco", "1", "--low-balance", "-0.01"}, []string{"low-balance"}},
		{"a threshold in words", []string{"lco", "set", "--lco", "1", "--low-balance", "low"}, []string{"--low-balance", `"low"`}},
		{"one wrong setting among good ones", []string{"lco", "set", "--lco", "1", "--status", "inactive", "--rate-limit", "0"}, []string{"rate limit"}},
		{"an operator without a name", []string{"lco", "create", "--name", "  "}, []string{"name", "1 to 100"}},
		{"a name of 101 characters", []string{"lco", "create", "--name", strings.Repeat("ब", 101)}, []string{"name", "101"}},
		{"a new operator without requests", []string{"lco", "create", "--name", "A", "--rate-limit", "0"}, []string{"rate limit"}},
		{"a new operator with a wrong threshold", []string{"lco", "create", "--name", "A", "--low-balance", "1.234"}, []string{"--low-balance"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			state = h.WithTB(t).CheckRefusedFrom(state, test.args, test.want...)
		})
	}
}

func TestAdminWhitelist_TwentyEntriesAtMost(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	// The demo's own two are there already.
	for i := 3; i <= 20; i++ {
		e2e.RequireOK(t, h.Admin("whitelist", "add", "--lco", "1", fmt.Sprintf("192.0.2.%d", i)))
	}
	h.CheckRefused([]string{"whitelist", "add", "--lco", "1", "192.0.2.21"}, "full", "20", "remove")
	e2e.RequireOK(t, h.Admin("whitelist", "add", "--lco", "1", "192.0.2.20")) // there already, so not a 21st
	e2e.RequireOK(t, h.Admin("whitelist", "remove", "--lco", "1", "192.0.2.3"))
	e2e.RequireOK(t, h.Admin("whitelist", "add", "--lco", "1", "192.0.2.21"))
	if got := len(e2e.JSONArray(t, h.JSON("whitelist", "list", "--lco", "1"))); got != 20 {
		t.Errorf("%d entries; want 20", got)
	}
}

// The limits of the allowed ranges are accepted.
func TestAdmin_AcceptsRangeLimits(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	for _, args := range [][]string{
		{"whitelist", "add", "--lco", "1", "10.1.2.0/24"},
		{"whitelist", "add", "--lco", "1", "2001:db8:1::/48"},
		{"whitelist", "add", "--lco", "1", "192.0.2.1/32"},
		{"lco", "set", "--lco", "1", "--rate-limit", "1", "--commission-bps", "10000", "--low-balance", "0"},
		{"lco", "create", "--name", strings.Repeat("ब", 100)},
		{"wallet", "topup", "--lco", "1", "--amount", "+0.01", "--reference", strings.Repeat("ब", 200)},
		{"plan", "set", "--id", "A", "--name", "A", "--price", "0.01", "--duration", "24", "--component", "main=TV-BASIC"},
		{"plan", "set", "--id", "B", "--name", "B", "--price", "0.01", "--duration", "120", "--component", "main=TV-BASIC", "--set", "plans.max_months=120"},
	} {
		e2e.RequireOK(t, h.Admin(args...))
	}
}

func TestTools_EmptyDatabaseNamesRemedy(t *testing.T) {
	t.Parallel()
	folder, empty := t.TempDir(), pgtest.NewDatabase(t)
	e2e.RequireOK(t, e2e.Run(t, "init", "--dir", folder))
	for _, command := range [][]string{{"admin", "lco", "list"}, {"audit"}} {
		got := e2e.Run(t, append(command, "--config", folder+"/coax.toml", "--set", "store.url="+empty)...)
		e2e.CheckRefused(t, got, empty, "coax migrate")
	}
}

func TestAdmin_MissingStoreNamesRemedy(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	e2e.RequireOK(t, e2e.Run(t, "init", "--dir", folder))
	got := e2e.Run(t, "admin", "--config", folder+"/coax.toml", "lco", "list")
	e2e.CheckRefused(t, got, folder+"/data/coax.db", "coax migrate")
}
