package console

import (
	"slices"
	"testing"
)

func TestAuditEntry_ShowsChangedAndUnchanged(t *testing.T) {
	text := func(s string) stateValue { return stateValue{Text: s} }
	word := func(s string) stateValue { return stateValue{Text: s, Word: true} }
	for name, tt := range map[string]struct {
		before, after string
		want          []entryField
	}{
		"a price that rose": {
			`{"price":349.00,"name":"Family","addon":""}`, `{"price":399.50,"name":"Family","addon":""}`,
			[]entryField{{"Name", text("Family"), text("Family"), false}, {"Price", text("₹349.00"), text("₹399.50"), true}},
		},
		"something new": {"", `{"rate_limit":60}`, []entryField{{"Requests a minute", text(""), text("60"), true}}},
		"a list":        {`["192.0.2.1"]`, `["192.0.2.1","192.0.2.2"]`, []entryField{{"", text("192.0.2.1"), text("192.0.2.1, 192.0.2.2"), true}}},
		"words of ours": {
			`{"status":"needs_review","disabled":false,"replaced_by":0}`, `{"status":"success","disabled":true,"replaced_by":7}`,
			[]entryField{{"Disabled", word("no"), word("yes"), true}, {"Replaced by", text(""), text("7"), true}, {"State", word("In review"), word("Success"), true}},
		},
		"permissions": {
			"", `{"permissions":["Activate","Check Balance"],"name":"active"}`,
			[]entryField{{"Name", text(""), text("active"), true}, {"Permissions", text(""), text("Activate, Check Balance"), true}},
		},
		"a plan that is proposed": {
			"", `{"kind":"plan","subject":"plan B","change":"{\"was\":{\"name\":\"Basic\",\"price\":199.00,\"duration\":1},\"plan\":{\"name\":\"Basic\",\"price\":0.01,\"duration\":24}}"}`,
			[]entryField{
				{"Months", text(""), text("1 → 24"), true}, {"Kind", text(""), stateValue{"Create or change a plan", true}, true},
				{"Price", text(""), text("₹199.00 → ₹0.01"), true}, {"Subject", text(""), text("plan B"), true},
			},
		},
		"a role that is proposed": {
			"", `{"change":"{\"username\":\"ravi\",\"role\":\"administrator\",\"from\":\"finance\"}"}`,
			[]entryField{{"Role", text(""), text("Finance → Administrator"), true}, {"Username", text(""), text("ravi"), true}},
		},
		"a change that cannot be read": {"", `{"change":"rubbish"}`, []entryField{{"Proposed change", text(""), text("rubbish"), true}}},
		"nothing":                      {"", "", nil},
	} {
		if got := entryFields(tt.before, tt.after, func(actor string) string { return "the name of " + actor }); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v; want %v", name, got, tt.want)
		}
	}
}
