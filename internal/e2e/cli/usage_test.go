package cli

import (
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestUsage_WrongUsageExits2(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	before := h.Dump()
	admin := func(args ...string) []string { return append([]string{"admin", "--config", h.Config}, args...) }
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"an unknown command", []string{"nonsense"}, []string{"nonsense"}},
		{"an unknown admin command", admin("nonsense"), []string{"nonsense"}},
		{"an unknown lco command", admin("lco", "nonsense"), []string{"nonsense"}},
		{"admin alone", []string{"admin"}, []string{"lco", "wallet", "key"}},
		{"a group alone", admin("key"), []string{"issue", "rotate", "revoke"}},
		{"a mistyped command with flags", []string{"sreve", "--config", "x"}, []string{`unknown command "sreve"`, "is serve meant?"}},
		{"a mistyped command of a group, with flags", []string{"admin", "lco", "craete", "--name", "x"}, []string{`unknown command "craete"`, "is create meant?"}},
		{"a word too many", []string{"serve", "coax.toml"}, []string{"coax serve", "no word", "coax.toml"}},
		{"an unknown flag", []string{"version", "--nonsense"}, []string{"--nonsense"}},
		{"an unknown flag of admin", admin("lco", "list", "--nonsense"), []string{"--nonsense"}},
		{"a missing name", admin("lco", "create"), []string{"name"}},
		{"a missing operator", admin("wallet", "show"), []string{"lco"}},
		{"a missing amount", admin("wallet", "topup", "--lco", "1", "--reference", "x"), []string{"amount"}},
		{"a missing reference", admin("wallet", "topup", "--lco", "1", "--amount", "1"), []string{"reference"}},
		{"a missing key", admin("key", "rotate"), []string{"key-id"}},
		{"a missing permission", admin("key", "permit", "--key-id", "1"), []string{"permission"}},
		{"a missing price", admin("plan", "set", "--id", "A", "--name", "A", "--duration", "1", "--component", "main=TV-BASIC"), []string{"price"}},
		{"a missing component", admin("plan", "set", "--id", "A", "--name", "A", "--duration", "1", "--price", "1"), []string{"component"}},
		{"a missing plan", admin("plan", "retire"), []string{"id"}},
		{"no configuration for admin", []string{"admin", "lco", "list"}, []string{"--config"}},
		{"no configuration for serve", []string{"serve"}, []string{"--config"}},
		{"no configuration for migrate", []string{"migrate"}, []string{"--config"}},
		{"no configuration, and an amount in words", []string{"admin", "wallet", "topup", "--lco", "1", "--amount", "abc", "--reference", "x"}, []string{"--config"}},
		{"no folder for init", []string{"init"}, []string{"dir"}},
		{"an operator in words", admin("wallet", "show", "--lco", "abc"), []string{"abc", "lco"}},
		{"a key in words", admin("key", "revoke", "--key-id", "abc"), []string{"abc", "key-id"}},
		{"a rate limit in words", admin("lco", "set", "--lco", "1", "--rate-limit", "abc"), []string{"abc", "rate-limit"}},
		{"a grace in words", admin("key", "rotate", "--key-id", "1", "--grace", "abc"), []string{"abc", "grace"}},
		{"a grace without a unit", admin("key", "rotate", "--key-id", "1", "--grace", "72"), []string{"72", "grace"}},
		{"a duration in words", admin("plan", "set", "--id", "A", "--name", "A", "--price", "1", "--duration", "one", "--component", "main=TV-BASIC"), []string{"one", "duration"}},
		{"a component without a role", admin("plan", "set", "--id", "A", "--name", "A", "--price", "1", "--duration", "1", "--component", "TV-BASIC"), []string{"TV-BASIC", "main=CODE"}},
		{"a component of an unknown role", admin("plan", "set", "--id", "A", "--name", "A", "--price", "1", "--duration", "1", "--component", "base=TV-BASIC"), []string{"base", "main", "addon"}},
		{"two main components", admin("plan", "set", "--id", "A", "--name", "A", "--price", "1", "--duration", "1", "--component", "main=TV-BASIC", "--component", "main=TV-FAMILY"), []string{"one main"}},
		{"a flag without its value", admin("lco", "create", "--name"), []string{"name"}},
		{"something left over", admin("lco", "list", "extra"), []string{"extra"}},
		{"something left over after a top-up", admin("wallet", "topup", "--lco", "1", "--amount", "1", "--reference", "x", "extra"), []string{"extra"}},
		{"something left over after version", []string{"version", "extra"}, []string{"extra"}},
		{"something left over after demo", []string{"demo", "extra"}, []string{"extra"}},
		{"something left over after serve", []string{"serve", "--config", h.Config, "extra"}, []string{"extra"}},
		{"no address to whitelist", admin("whitelist", "add", "--lco", "1"), []string{"one address or range"}},
		{"two addresses to whitelist", admin("whitelist", "add", "--lco", "1", "192.0.2.1", "192.0.2.2"), []string{"one address or range"}},
		{"a call without a path", []string{"call", "GET"}, []string{"a METHOD and a PATH"}},
		{"a sign without anything", []string{"sign"}, []string{"a METHOD and a PATH"}},
		{"a demo's address without a port", []string{"demo", "--dir", t.TempDir(), "--addr", "localhost"}, []string{"--addr", "localhost", "HOST:PORT"}},
		{"a demo's address in words", []string{"demo", "--dir", t.TempDir(), "--addr", "127.0.0.1:https"}, []string{"--addr", "HOST:PORT"}},
		{"a shell that completion does not know", []string{"completion", "nonsense"}, []string{"nonsense"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e2e.CheckUsageError(t, e2e.Run(t, test.args...), test.want...)
		})
	}
	if diff := e2e.Diff(before, h.Dump()); diff != "" {
		t.Errorf("wrong usage changed the store:\n%s", diff)
	}
}

func TestUsage_HelpListsContractFlags(t *testing.T) {
	t.Parallel()
	for command, flags := range map[string][]string{
		"demo":                {"--dir", "--addr", "--set", "--json"},
		"serve":               {"--config", "--set"},
		"migrate":             {"--config", "--set"},
		"init":                {"--dir"},
		"call":                {"--data", "--idempotency-key", "--credentials"},
		"sign":                {"--data", "--idempotency-key", "--credentials"},
		"admin lco create":    {"--name", "--rate-limit", "--commission-bps", "--low-balance", "--config", "--set", "--json"},
		"admin lco set":       {"--lco", "--status", "--api", "--rate-limit", "--commission-bps", "--low-balance"},
		"admin lco delete":    {"--lco"},
		"admin lco show":      {"--lco"},
		"admin wallet topup":  {"--lco", "--amount", "--reference"},
		"admin wallet show":   {"--lco"},
		"admin ledger":        {"--lco"},
		"admin plan set":      {"--id", "--name", "--price", "--duration", "--type", "--component", "--description"},
		"admin plan retire":   {"--id"},
		"admin key issue":     {"--lco", "--permission"},
		"admin key rotate":    {"--key-id", "--grace"},
		"admin key revoke":    {"--key-id"},
		"admin key permit":    {"--key-id", "--permission"},
		"admin key list":      {"--lco"},
		"admin whitelist add": {"--lco", "CIDR_OR_ADDRESS"},
		"admin log":           {"--lco"},
	} {
		got := e2e.RequireOK(t, e2e.Run(t, append(strings.Fields(command), "--help")...))
		e2e.CheckMentions(t, command+" --help", got.Out, flags...)
	}
}

func TestUsage_VersionAndCompletion(t *testing.T) {
	t.Parallel()
	got := e2e.RequireOK(t, e2e.Run(t, "version")).Out
	if !strings.HasPrefix(got, "coax 0.") || strings.Count(got, "\n") != 1 {
		t.Errorf("version prints %q; want one line with the program's name and version", got)
	}
	if flag := e2e.RequireOK(t, e2e.Run(t, "--version")).Out; flag != got {
		t.Errorf("--version prints %q; want %q, as version does", flag, got)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		e2e.CheckMentions(t, "completion for "+shell, e2e.RequireOK(t, e2e.Run(t, "completion", shell)).Out, "coax")
	}
}
