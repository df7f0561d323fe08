package e2e

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// jsonKinds are patterns of the raw text of JSON values. An amount is a number with two
// decimals; a question mark allows null.
var jsonKinds = map[string]*regexp.Regexp{
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

// CheckShape checks that a JSON object has exactly these fields ("name kind"), in this
// order, and returns their raw values.
func CheckShape(t testing.TB, raw string, fields ...string) map[string]string {
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
		if !jsonKinds[kind].MatchString(texts[name]) {
			t.Errorf("field %s is %q; want %s\n%s", name, texts[name], kind, raw)
		}
	}
	if got := FieldNames(t, raw); !slices.Equal(got, wantNames) {
		t.Errorf("fields %q; want %q", got, wantNames)
	}
	return texts
}

// FieldNames returns the names of an object's fields, in order.
func FieldNames(t testing.TB, raw string) []string {
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

// The fields of objects that coax admin --json prints.
var (
	OperatorShape = []string{"lco_id int", "name text", "status text", "api text", "rate_limit int", "commission_bps int", "low_balance amount", "second_factor_required bool", "created_at moment"}
	WalletShape   = []string{"lco_id int", "wallet_balance amount", "held amount", "is_low bool"}
	PlanShape     = []string{"id text", "name text", "description string", "price amount", "duration int", "type text", "main text", "addon text?", "retired bool", "version int", "updated_at moment"}
	IssuedShape   = []string{"key_id int", "api_key text", "api_secret text"}
)

// JSONArray splits a JSON array into its raw elements.
func JSONArray(t testing.TB, raw string) []string {
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
