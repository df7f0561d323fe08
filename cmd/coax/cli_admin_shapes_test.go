package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cliKinds says how the raw text of each kind of JSON value looks. An amount is
// a number with two decimals; a question mark allows null.
var cliKinds = map[string]*regexp.Regexp{
	"int":     regexp.MustCompile(`^-?(0|[1-9]\d*)$`),
	"amount":  regexp.MustCompile(`^(0|[1-9]\d*)\.\d\d$`),
	"text":    regexp.MustCompile(`^"[^"]+"$`),
	"texts":   regexp.MustCompile(`^\[("[^"]+"(,"[^"]+")*)?\]$`),
	"bool":    regexp.MustCompile(`^(true|false)$`),
	"moment":  regexp.MustCompile(`^"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d"$`),
	"object":  regexp.MustCompile(`^\{.*\}$`),
	"any":     regexp.MustCompile(`.`),
	"int?":    regexp.MustCompile(`^(null|[1-9]\d*)$`),
	"text?":   regexp.MustCompile(`^(null|"[^"]+")$`),
	"moment?": regexp.MustCompile(`^(null|"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d")$`),
	"null":    regexp.MustCompile(`^null$`),
	"string":  regexp.MustCompile(`^"[^"]*"$`),
}

// cliShape demands that a JSON object has exactly these fields ("name kind"), in
// this order, and returns their raw values.
func cliShape(t testing.TB, raw string, fields ...string) map[string]string {
	t.Helper()
	var values map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &values); err != nil {
		t.Fatalf("not a JSON object: %v\n%s", err, raw)
	}
	texts := map[string]string{}
	var wantNames []string
	for _, field := range fields {
		name, kind, _ := strings.Cut(field, " ")
		wantNames = append(wantNames, name)
		texts[name] = string(values[name])
		if !cliKinds[kind].MatchString(texts[name]) {
			t.Errorf("field %s is %q; want %s\n%s", name, texts[name], kind, raw)
		}
	}
	if got := cliFieldNames(t, raw); !slices.Equal(got, wantNames) {
		t.Errorf("fields %q; want %q", got, wantNames)
	}
	return texts
}

// cliFieldNames are the names of an object's own fields, in order.
func cliFieldNames(t testing.TB, raw string) []string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name.(string))
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// cliArray splits a JSON array into its raw elements.
func cliArray(t testing.TB, raw string) []string {
	t.Helper()
	var values []json.RawMessage
	if err := json.Unmarshal([]byte(raw), &values); err != nil || values == nil {
		t.Fatalf("not a JSON array: %v\n%s", err, raw)
	}
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	return texts
}

var (
	cliOperatorShape = []string{"lco_id int", "name text", "status text", "api text", "rate_limit int", "commission_bps int", "low_balance amount", "created_at moment"}
	cliWalletShape   = []string{"lco_id int", "wallet_balance amount", "held amount", "is_low bool"}
	cliPlanShape     = []string{"id text", "name text", "description string", "price amount", "duration int", "type text", "main text", "addon text?", "retired bool", "version int", "updated_at moment"}
	cliIssuedShape   = []string{"key_id int", "api_key text", "api_secret text"}
)

func TestCLIAdminOperatorsInJSON(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)

	made := cliShape(t, h.json("lco", "create", "--name", "Asha Cable", "--rate-limit", "90", "--commission-bps", "175", "--low-balance", "750.5"), cliOperatorShape...)
	for name, want := range map[string]string{
		"lco_id": "2", "name": `"Asha Cable"`, "status": `"active"`, "api": `"enabled"`, "rate_limit": "90", "commission_bps": "175", "low_balance": "750.50",
	} {
		if made[name] != want {
			t.Errorf("create: %s is %s; want %s", name, made[name], want)
		}
	}
	plain := cliShape(t, h.json("lco", "create", "--name", "Ben"), cliOperatorShape...)
	if plain["rate_limit"] != "60" || plain["commission_bps"] != "0" || plain["low_balance"] != "500.00" {
		t.Errorf("an operator with nothing said has %v; want 60 a minute, no commission, warned below 500.00", plain)
	}

	set := cliShape(t, h.json("lco", "set", "--lco", "2", "--status", "inactive", "--api", "blocked"), cliOperatorShape...)
	if set["status"] != `"inactive"` || set["api"] != `"blocked"` || set["rate_limit"] != "90" || set["low_balance"] != "750.50" {
		t.Errorf("set: %v; want inactive and blocked, and the rest as it was", set)
	}
	shown := cliShape(t, h.json("lco", "show", "--lco", "2"), append(slices.Clone(cliOperatorShape), "wallet_balance amount", "held amount", "whitelist texts")...)
	if shown["wallet_balance"] != "0.00" || shown["whitelist"] != "[]" || shown["status"] != `"inactive"` {
		t.Errorf("show: %v; want an empty wallet and whitelist", shown)
	}
	deleted := cliShape(t, h.json("lco", "delete", "--lco", "2"), "lco_id int", "status text")
	if deleted["lco_id"] != "2" || deleted["status"] != `"deleted"` {
		t.Errorf("delete: %v", deleted)
	}

	all := cliArray(t, h.json("lco", "list"))
	if len(all) != 3 {
		t.Fatalf("list: %d operators; want 3, the deleted one too", len(all))
	}
	for _, one := range all {
		cliShape(t, one, cliOperatorShape...)
	}
}

func TestCLIAdminMoneyInJSON(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	topUp := append(slices.Clone(cliWalletShape), "credited bool")

	got := cliShape(t, h.json("wallet", "topup", "--lco", "1", "--amount", "5000", "--reference", "NEFT-1"), topUp...)
	if got["wallet_balance"] != "15000.00" || got["held"] != "0.00" || got["credited"] != "true" {
		t.Errorf("top-up: %v; want 15000.00, credited", got)
	}
	before := h.dump()
	again := cliShape(t, h.json("wallet", "topup", "--lco", "1", "--amount", "5000.00", "--reference", "NEFT-1"), topUp...)
	if again["wallet_balance"] != "15000.00" || again["credited"] != "false" {
		t.Errorf("the same reference again: %v; want the balance as it was, not credited", again)
	}
	if after := h.dump(); !slices.Equal(before, after) {
		t.Errorf("the same reference twice changed the store:\n%s", cliDifference(before, after))
	}
	cliShape(t, h.json("wallet", "topup", "--lco", "1", "--amount", "0.05", "--reference", "NEFT-2"), topUp...)

	wallet := cliShape(t, h.json("wallet", "show", "--lco", "1"), cliWalletShape...)
	if wallet["wallet_balance"] != "15000.05" || wallet["held"] != "0.00" || wallet["is_low"] != "false" {
		t.Errorf("show: %v; want 15000.05", wallet)
	}

	lines := cliArray(t, h.json("ledger", "--lco", "1"))
	if len(lines) != 3 {
		t.Fatalf("ledger: %d lines; want the opening balance and two top-ups", len(lines))
	}
	var amounts, sums []string
	for _, line := range lines {
		l := cliShape(t, line, "id int", "kind text", "amount amount", "balance_after amount", "description text", "transaction_id text?", "created_at moment")
		if l["kind"] != `"credit"` || l["transaction_id"] != "null" {
			t.Errorf("ledger: %v; want a credit of no transaction", l)
		}
		amounts, sums = append(amounts, l["amount"]), append(sums, l["balance_after"])
	}
	if !slices.Equal(amounts, []string{"10000.00", "5000.00", "0.05"}) || !slices.Equal(sums, []string{"10000.00", "15000.00", "15000.05"}) {
		t.Errorf("ledger: amounts %v, sums %v; want the oldest first", amounts, sums)
	}
	cliSays(t, "the ledger", lines[1], "NEFT-1")
}

func TestCLIAdminPlansInJSON(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)

	if all := cliArray(t, h.json("plan", "list")); len(all) < 4 {
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

	made := cliShape(t, h.json("plan", "set", "--id", "NEW-6", "--name", "Half a year", "--price", "1500", "--duration", "6", "--component", "main=TV-BASIC"), cliPlanShape...)
	if made["version"] != "1" || made["price"] != "1500.00" || made["type"] != `"standard"` || made["description"] != `""` || made["addon"] != "null" {
		t.Errorf("set: %v; want version 1 of a standard plan at 1500.00", made)
	}
	changed := cliShape(t, h.json("plan", "set", "--id", "NEW-6", "--name", "Half a year", "--price", "0.01", "--duration", "6", "--type", "combo",
		"--component", "addon=OTT-PLUS", "--component", "main=TV-BASIC", "--description", "cheap"), cliPlanShape...)
	if changed["version"] != "2" || changed["price"] != "0.01" || changed["addon"] != `"OTT-PLUS"` || changed["description"] != `"cheap"` {
		t.Errorf("set again: %v; want version 2, a combo at the least price", changed)
	}
	retired := cliShape(t, h.json("plan", "retire", "--id", "NEW-6"), "id text", "retired bool")
	if retired["id"] != `"NEW-6"` || retired["retired"] != "true" {
		t.Errorf("retire: %v", retired)
	}
	if got := cliPlan(t, h, "NEW-6"); got["retired"] != "true" || got["version"] != "3" {
		t.Errorf("a retired plan is listed as %v; want retired, version 3", got)
	}
	if back := cliShape(t, h.json("plan", "set", "--id", "NEW-6", "--name", "Half a year", "--price", "1", "--duration", "6", "--component", "main=TV-BASIC"), cliPlanShape...); back["retired"] != "false" {
		t.Errorf("a retired plan that is set again: %v; want it back in the catalogue", back)
	}
}

func cliPlan(t testing.TB, h *cliHouse, id string) map[string]string {
	t.Helper()
	for _, plan := range cliArray(t, h.json("plan", "list")) {
		if got := cliShape(t, plan, cliPlanShape...); got["id"] == `"`+id+`"` {
			return got
		}
	}
	t.Fatalf("plan %s is not listed", id)
	return nil
}
