package operation

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

func fieldsOf(err error) map[string]string {
	fields, _ := fault.From(err).Data["fields"].(map[string]string)
	return fields
}

// Each row sets one field of an otherwise valid request.
func TestValidate_FieldLimits(t *testing.T) {
	good := map[Kind]map[string]string{
		Activate: {"full_name": "Asha", "mobile": "9876543210", "plan_id": "BASIC-1"},
		Renew:    {"subscriber_id": "100001", "plan_id": "BASIC-1"},
	}
	letters := func(n int) string { return strings.Repeat("अ", n) }
	rows := []struct {
		kind         Kind
		field, value string
		good         bool
	}{
		{Activate, "full_name", "", false}, {Activate, "full_name", "  ", false}, {Activate, "full_name", "A", true},
		{Activate, "full_name", letters(100), true}, {Activate, "full_name", letters(101), false},
		{Activate, "full_name", " " + letters(100) + "\u00a0", true},
		{Activate, "full_name", "क\u200dष", true}, {Activate, "full_name", "a\u0000b", false}, {Activate, "full_name", "a\u0085b", false},
		{Activate, "full_name", "\tAsha\r\n", true}, {Activate, "full_name", "\u0085Asha", true}, {Activate, "mobile", "9876543210\t", true},
		{Activate, "full_name", "a\nb", false}, {Activate, "full_name", "a\u007fb", false},
		{Activate, "full_name", "a\u202eb", false}, {Activate, "full_name", "a\u2066b", false},
		{Activate, "full_name", "a\ufdd0b", false}, {Activate, "full_name", "a\U0001fffeb", false}, {Activate, "full_name", "a\ufffdb", true},
		{Activate, "full_name", "<b>&amp;</b>", true},

		{Activate, "mobile", "", false}, {Activate, "mobile", "987654321", false}, {Activate, "mobile", "98765432101", false},
		{Activate, "mobile", "987654321x", false}, {Activate, "mobile", "९८७६५४३२१०", false}, {Activate, "mobile", " 9876543210 ", true},
		{Activate, "mobile", "987654321/", false}, {Activate, "mobile", "987654321:", false}, {Activate, "mobile", "9999999999", true},
		{Activate, "mobile", "+919876543", false}, {Activate, "mobile", "0000000000", true},

		{Activate, "plan_id", "", false}, {Activate, "plan_id", strings.Repeat("p", 100), true}, {Activate, "plan_id", strings.Repeat("p", 101), false},

		{Activate, "email", "", true}, {Activate, "email", "a@example.com", true}, {Activate, "email", "a.b+c@mail.example.co.in", true},
		{Activate, "email", "a@b", false}, {Activate, "email", "a", false}, {Activate, "email", "@example.com", false},
		{Activate, "email", "a@example..com", false}, {Activate, "email", "A <a@example.com>", false}, {Activate, "email", "a b@example.com", false},
		{Activate, "email", "a@-example.com", false}, {Activate, "email", "a@example.com,b@example.com", false},
		{Activate, "email", "a@[127.0.0.1]", false}, {Activate, "email", "a@1.2.3.4", false}, {Activate, "email", "a@example.123", false},
		{Activate, "email", "a@" + strings.Repeat("b", 63) + ".com", true}, {Activate, "email", "a@" + strings.Repeat("b", 64) + ".com", false},
		{Activate, "email", strings.Repeat("a", 60) + "@" + strings.Repeat("b", 60) + "." + strings.Repeat("c", 24) + ".com", true}, // 150
		{Activate, "email", strings.Repeat("a", 60) + "@" + strings.Repeat("b", 60) + "." + strings.Repeat("c", 25) + ".com", false},

		{Activate, "email", strings.Repeat("a", 64) + "@example.com", true}, {Activate, "email", strings.Repeat("a", 65) + "@example.com", false},
		{Activate, "email", "a@example-.com", false}, {Activate, "email", "a@ex-ample.com", true}, {Activate, "email", "a@exa_mple.com", false},
		{Activate, "email", "a@उदाहरण.example.com", true}, {Activate, "email", "a@9.example.com", true}, {Activate, "email", `"a"@example.com`, false},
		{Activate, "email", "a@example.com.", false}, {Activate, "email", "a(b)@example.com", false}, {Activate, "email", "a@example.c0m", true},

		{Activate, "password", strings.Repeat("p", 64), true}, {Activate, "password", strings.Repeat("p", 65), false},
		{Activate, "password", " ", true}, {Activate, "password", "a\tb", false},
		{Activate, "password", strings.Repeat("p", 64) + " ", false},

		{Activate, "connection_type", strings.Repeat("c", 100), true}, {Activate, "connection_type", strings.Repeat("c", 101), false},
		{Activate, "address", letters(500), true}, {Activate, "address", letters(501), false},
		{Activate, "address", "12 Lake Road\r\n\tKochi\n682001", true}, {Activate, "address", "\n12 Lake Road\n", true},
		{Activate, "address", strings.Repeat("a\n", 249) + "bc", true}, {Activate, "address", strings.Repeat("a\n", 249) + "bcd", false},
		{Activate, "address", "a\u000bb", false}, {Activate, "address", "a\u000cb", false}, {Activate, "address", "a\n\u0000b", false},
		{Activate, "address", "a\n\u0085b", false}, {Activate, "address", "a\n\u202eb", false}, {Activate, "address", "a\n\xffb", false},
		{Activate, "connection_type", "a\nb", false}, {Activate, "plan_id", "a\nb", false}, {Activate, "password", "a\nb", false},

		{Activate, "subscriber_id", "", true}, {Activate, "subscriber_id", "12345", false}, {Activate, "subscriber_id", "123456", true},
		{Activate, "subscriber_id", "1234567", false}, {Activate, "subscriber_id", "12345a", false},

		{Renew, "plan_id", "", false}, {Renew, "subscriber_id", "", false}, {Renew, "subscriber_id", "7", true}, {Renew, "subscriber_id", "a\u0000", false},
	}
	for _, row := range rows {
		for _, kind := range []Kind{row.kind, AdvanceRenew} {
			if kind == AdvanceRenew && row.kind != Renew {
				continue
			}
			fields := maps.Clone(good[row.kind])
			fields[row.field] = row.value
			_, err := validate(Request{Kind: kind, Fields: fields})
			if row.good && err != nil {
				t.Errorf("%s %s=%q: %v; want it accepted", kind, row.field, row.value, fieldsOf(err))
			}
			if !row.good && (fault.CodeOf(err) != fault.ValidationError || len(fieldsOf(err)) != 1 || fieldsOf(err)[row.field] == "") {
				t.Errorf("%s %s=%q: %v %v; want an error on that field alone", kind, row.field, row.value, err, fieldsOf(err))
			}
		}
	}
}

// The contract's tables of request fields. Other fields are ignored, whatever their type.
func TestKnownFields_MatchContract(t *testing.T) {
	renewal := []string{"mobile", "plan_id", "subscriber_id"}
	for kind, want := range map[Kind][]string{
		Activate: {"address", "connection_type", "email", "full_name", "mobile", "password", "plan_id", "subscriber_id"},
		Renew:    renewal, AdvanceRenew: renewal,
	} {
		if got := slices.Sorted(slices.Values(KnownFields(kind))); !slices.Equal(got, want) {
			t.Errorf("%s knows %v; want %v", kind, got, want)
		}
	}
}

func TestValidate_ReportsAllFieldErrors(t *testing.T) {
	_, err := validate(Request{
		Kind: Activate, NotText: []string{"full_name", "address"},
		Fields: map[string]string{"mobile": "1", "email": "x", "subscriber_id": "x", "password": strings.Repeat("p", 65)},
	})
	got := slices.Sorted(maps.Keys(fieldsOf(err)))
	if want := []string{"address", "email", "full_name", "mobile", "password", "plan_id", "subscriber_id"}; !slices.Equal(got, want) {
		t.Errorf("reported %v; want %v", got, want)
	}
}

func TestValidate_RenewalIDOverMobile(t *testing.T) {
	rows := []struct {
		name    string
		fields  map[string]string
		notText []string
		wrong   string
		want    input
	}{
		{"neither", map[string]string{"plan_id": "P"}, nil, "subscriber_id", input{}},
		{"both empty", map[string]string{"plan_id": "P", "subscriber_id": " ", "mobile": ""}, nil, "subscriber_id", input{}},
		{"mobile alone", map[string]string{"plan_id": "P", "mobile": "9876543210"}, nil, "", input{planID: "P", mobile: "9876543210"}},
		{"a bad mobile alone", map[string]string{"plan_id": "P", "mobile": "98"}, nil, "mobile", input{}},
		{"an id and a bad mobile", map[string]string{"plan_id": "P", "subscriber_id": "1", "mobile": "98"}, nil, "", input{planID: "P", subscriberID: "1"}},
		{"an id and a mobile that is no text", map[string]string{"plan_id": "P", "subscriber_id": "1"}, []string{"mobile"}, "", input{planID: "P", subscriberID: "1"}},
		{"an id that is no text", map[string]string{"plan_id": "P", "mobile": "9876543210"}, []string{"subscriber_id"}, "subscriber_id", input{}},
	}
	for _, row := range rows {
		got, err := validate(Request{Kind: Renew, Fields: row.fields, NotText: row.notText})
		switch {
		case row.wrong == "" && (err != nil || got != row.want):
			t.Errorf("%s: %+v, %v; want %+v", row.name, got, err, row.want)
		case row.wrong != "" && (len(fieldsOf(err)) != 1 || fieldsOf(err)[row.wrong] == ""):
			t.Errorf("%s: %v %v; want an error on %s", row.name, err, fieldsOf(err), row.wrong)
		}
	}
}

func TestValidate_ActivationDefaults(t *testing.T) {
	got, err := validate(Request{Kind: Activate, Fields: map[string]string{
		"full_name": " Asha ", "mobile": "9876543210", "plan_id": " BASIC-1", "password": "  p ",
	}})
	if err != nil || got.name != "Asha" || got.planID != "BASIC-1" || got.password != "  p " || got.profile.ConnectionType != "OTT + Live TV" {
		t.Errorf("%+v, %v", got, err)
	}
}
