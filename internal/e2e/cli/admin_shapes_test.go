package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestAdminOperators_JSON(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)

	made := e2e.CheckShape(t, h.JSON("lco", "create", "--name", "Asha Cable", "--rate-limit", "90", "--commission-bps", "175", "--low-balance", "750.5"), e2e.OperatorShape...)
	for name, want := range map[string]string{
		"lco_id": "2", "name": `"Asha Cable"`, "status": `"active"`, "api": `"enabled"`, "rate_limit": "90", "commission_bps": "175", "low_balance": "750.50",
	} {
		if made[name] != want {
			t.Errorf("create: %s is %s; want %s", name, made[name], want)
		}
	}
	plain := e2e.CheckShape(t, h.JSON("lco", "create", "--name", "Ben"), e2e.OperatorShape...)
	if plain["rate_limit"] != "60" || plain["commission_bps"] != "0" || plain["low_balance"] != "500.00" {
		t.Errorf("an operator with nothing said has %v; want 60 a minute, no commission, warned below 500.00", plain)
	}

	set := e2e.CheckShape(t, h.JSON("lco", "set", "--lco", "2", "--status", "inactive", "--api", "blocked"), e2e.OperatorShape...)
	if set["status"] != `"inactive"` || set["api"] != `"blocked"` || set["rate_limit"] != "90" || set["low_balance"] != "750.50" {
		t.Errorf("set: %v; want inactive and blocked, and the rest as it was", set)
	}
	shown := e2e.CheckShape(t, h.JSON("lco", "show", "--lco", "2"), append(slices.Clone(e2e.OperatorShape), "undelete_until moment?", "wallet_balance amount", "held amount", "whitelist texts", "address string", "gstin string")...)
	if shown["wallet_balance"] != "0.00" || shown["whitelist"] != "[]" || shown["status"] != `"inactive"` {
		t.Errorf("show: %v; want an empty wallet and whitelist", shown)
	}
	h.JSON("lco", "set", "--lco", "2", "--address", "12 Lake Road, Kochi", "--gstin", "27AAPFU0939F1ZV")
	if named := h.JSON("lco", "show", "--lco", "2"); !strings.Contains(named, `"address":"12 Lake Road, Kochi","gstin":"27AAPFU0939F1ZV"`) {
		t.Errorf("show: %s; want address and GSTIN", named)
	}
	h.CheckRefused([]string{"lco", "set", "--lco", "2", "--gstin", "27AAPFU0939F1ZA"}, "its last character does not fit the others")
	factor := e2e.CheckShape(t, h.JSON("lco", "set", "--lco", "2", "--second-factor", "required"), e2e.OperatorShape...)
	if set["second_factor_required"] != "false" || factor["second_factor_required"] != "true" {
		t.Errorf("second factor: %v, then %v; want it required", set, factor)
	}
	h.CheckRefused([]string{"lco", "set", "--lco", "2", "--second-factor", "maybe"}, "give required or optional")
	deleted := e2e.CheckShape(t, h.JSON("lco", "delete", "--lco", "2"), "lco_id int", "status text", "undelete_until moment")
	if deleted["lco_id"] != "2" || deleted["status"] != `"deleted"` {
		t.Errorf("delete: %v", deleted)
	}

	all := e2e.JSONArray(t, h.JSON("lco", "list"))
	if len(all) != 3 {
		t.Fatalf("list: %d operators; want 3, the deleted one too", len(all))
	}
	for _, one := range all {
		e2e.CheckShape(t, one, append(slices.Clone(e2e.OperatorShape), "undelete_until moment?")...)
	}
}

func TestAdminMoney_JSON(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	topUp := append(slices.Clone(e2e.WalletShape), "credited bool")

	got := e2e.CheckShape(t, h.JSON("wallet", "topup", "--lco", "1", "--amount", "5000", "--reference", "NEFT-1"), topUp...)
	if got["wallet_balance"] != "15000.00" || got["held"] != "0.00" || got["credited"] != "true" {
		t.Errorf("top-up: %v; want 15000.00, credited", got)
	}
	before := h.Dump()
	again := e2e.CheckShape(t, h.JSON("wallet", "topup", "--lco", "1", "--amount", "5000.00", "--reference", "NEFT-1"), topUp...)
	if again["wallet_balance"] != "15000.00" || again["credited"] != "false" {
		t.Errorf("the same reference again: %v; want the balance as it was, not credited", again)
	}
	if after := h.Dump(); !slices.Equal(before, after) {
		t.Errorf("the same reference twice changed the store:\n%s", e2e.Diff(before, after))
	}
	e2e.CheckShape(t, h.JSON("wallet", "topup", "--lco", "1", "--amount", "0.05", "--reference", "NEFT-2"), topUp...)

	wallet := e2e.CheckShape(t, h.JSON("wallet", "show", "--lco", "1"), e2e.WalletShape...)
	if wallet["wallet_balance"] != "15000.05" || wallet["held"] != "0.00" || wallet["is_low"] != "false" {
		t.Errorf("show: %v; want 15000.05", wallet)
	}

	lines := e2e.JSONArray(t, h.JSON("ledger", "--lco", "1"))
	if len(lines) != 3 {
		t.Fatalf("ledger: %d lines; want the opening balance and two top-ups", len(lines))
	}
	var amounts, sums []string
	for _, line := range lines {
		l := e2e.CheckShape(t, line, "id int", "kind text", "amount amount", "balance_after amount", "description text", "transaction_id text?", "created_at moment")
		if l["kind"] != `"credit"` || l["transaction_id"] != "null" {
			t.Errorf("ledger: %v; want a credit of no transaction", l)
		}
		amounts, sums = append(amounts, l["amount"]), append(sums, l["balance_after"])
	}
	if !slices.Equal(amounts, []string{"10000.00", "5000.00", "0.05"}) || !slices.Equal(sums, []string{"10000.00", "15000.00", "15000.05"}) {
		t.Errorf("ledger: amounts %v, sums %v; want the oldest first", amounts, sums)
	}
	e2e.CheckMentions(t, "the ledger", lines[1], "NEFT-1")
}

func TestAdminPlans_JSON(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)

	if all := e2e.JSONArray(t, h.JSON("plan", "list")); len(all) < 4 {
		t.Errorf("a demo's catalogue has %d plans; want at least 4", len(all))
	}
	for _, want := range []struct{ id, kind, price, months, main, addon string }{
		{"BASIC-1", "standard", "199.00", "1", "TV-BASIC", ""},
		{"FAMILY-1", "standard", "349.00", "1", "TV-FAMILY", ""},
		{"FAMILY-3", "standard", "999.00", "3", "TV-FAMILY", ""},
		{"COMBO-1", "combo", "499.00", "1", "TV-FAMILY", "OTT-PLUS"},
	} {
		got := cliPlan(t, h, want.id)
		addon := "null"
		if want.addon != "" {
			addon = `"` + want.addon + `"`
		}
		if got["type"] != `"`+want.kind+`"` || got["price"] != want.price || got["duration"] != want.months ||
			got["main"] != `"`+want.main+`"` || got["addon"] != addon || got["retired"] != "false" {
			t.Errorf("the demo's %s is %v; want %v", want.id, got, want)
		}
	}

	made := e2e.CheckShape(t, h.JSON("plan", "set", "--id", "NEW-6", "--name", "Half a year", "--price", "1500", "--duration", "6", "--component", "main=TV-BASIC"), e2e.PlanShape...)
	if made["version"] != "1" || made["price"] != "1500.00" || made["type"] != `"standard"` || made["description"] != `""` || made["addon"] != "null" {
		t.Errorf("set: %v; want version 1 of a standard plan at 1500.00", made)
	}
	changed := e2e.CheckShape(t, h.JSON("plan", "set", "--id", "NEW-6", "--name", "Half a year", "--price", "0.01", "--duration", "6", "--type", "combo",
		"--component", "addon=OTT-PLUS", "--component", "main=TV-BASIC", "--description", "cheap"), e2e.PlanShape...)
	if changed["version"] != "2" || changed["price"] != "0.01" || changed["addon"] != `"OTT-PLUS"` || changed["description"] != `"cheap"` {
		t.Errorf("set again: %v; want version 2, a combo at the least price", changed)
	}
	retired := e2e.CheckShape(t, h.JSON("plan", "retire", "--id", "NEW-6"), "id text", "retired bool")
	if retired["id"] != `"NEW-6"` || retired["retired"] != "true" {
		t.Errorf("retire: %v", retired)
	}
	if got := cliPlan(t, h, "NEW-6"); got["retired"] != "true" || got["version"] != "3" {
		t.Errorf("a retired plan is listed as %v; want retired, version 3", got)
	}
	if back := e2e.CheckShape(t, h.JSON("plan", "set", "--id", "NEW-6", "--name", "Half a year", "--price", "1", "--duration", "6", "--component", "main=TV-BASIC"), e2e.PlanShape...); back["retired"] != "false" {
		t.Errorf("a retired plan that is set again: %v; want it back in the catalogue", back)
	}
}

func cliPlan(t testing.TB, h *e2e.Install, id string) map[string]string {
	t.Helper()
	for _, plan := range e2e.JSONArray(t, h.JSON("plan", "list")) {
		if got := e2e.CheckShape(t, plan, e2e.PlanShape...); got["id"] == `"`+id+`"` {
			return got
		}
	}
	t.Fatalf("plan %s is not listed", id)
	return nil
}
