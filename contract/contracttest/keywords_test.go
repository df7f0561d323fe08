package contracttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract"
)

const balanceData = `data: {$ref: "#/components/schemas/Balance"}`

// altered is the published document with one text in place of another.
func altered(t *testing.T, old, replacement string) []byte {
	t.Helper()
	text := string(contract.OpenAPI)
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is %d times in the document; want once", old, strings.Count(text, old))
	}
	return []byte(strings.Replace(text, old, replacement, 1))
}

// A validator ignores unknown keywords silently. So each keyword that the document
// uses, or may use, has to reject something here.
func TestSchema_KeywordsAreEnforced(t *testing.T) {
	tests := []struct {
		keyword string
		schema  string
		good    []string
		bad     []string
	}{
		{"const", `{const: INR}`, []string{`"INR"`}, []string{`"inr"`, `null`}},
		{"const of a boolean", `{type: boolean, const: false}`, []string{`false`}, []string{`true`, `0`, `"false"`}},
		{"type", `{type: string}`, []string{`""`}, []string{`null`, `1`, `true`, `[]`, `{}`}},
		{"several types", `{type: [string, "null"]}`, []string{`""`, `null`}, []string{`1`, `[]`}},
		{"a missing property", `{type: object, properties: {a: {type: string}, b: {type: string}}}`,
			[]string{`{"a":"","b":""}`}, []string{`{"a":""}`, `{}`}},
		{"an optional property", `{type: object, required: [a], properties: {a: {type: string}, b: {type: string}}}`,
			[]string{`{"a":"","b":""}`, `{"a":""}`}, []string{`{"b":""}`, `{"a":"","b":1}`}},
		{"a closed object", `{type: object, properties: {a: {type: string}}}`, []string{`{"a":""}`}, []string{`{"a":"","b":""}`}},
		{"a closed object without properties", `{type: object}`, []string{`{}`}, []string{`{"b":""}`}},
		{"a closed object that may be null", `{type: [object, "null"], properties: {a: {type: string}}}`,
			[]string{`{"a":""}`, `null`}, []string{`{"a":"","b":""}`, `{}`}},
		{"closed objects in a list", `{type: array, items: {type: object, properties: {a: {type: string}}}}`,
			[]string{`[]`, `[{"a":""}]`}, []string{`[{"a":""},{"a":"","b":""}]`, `[{}]`, `[""]`, `{}`}},
		{"closed objects in oneOf", `{oneOf: [{type: object, properties: {a: {const: 1}}}, {type: object, properties: {b: {const: 1}}}]}`,
			[]string{`{"a":1}`, `{"b":1}`}, []string{`{"a":1,"b":1}`, `{}`, `{"a":2}`}},
		{"oneOf", `{oneOf: [{type: string, minLength: 2}, {type: string, maxLength: 2}]}`, []string{`"a"`, `"abc"`}, []string{`"ab"`, `1`}},
		{"anyOf", `{anyOf: [{const: a}, {const: b}]}`, []string{`"a"`, `"b"`}, []string{`"c"`}},
		{"a map of texts", `{type: object, additionalProperties: {type: string}}`, []string{`{}`, `{"any":"text"}`}, []string{`{"any":1}`, `{"any":{}}`}},
		{"additionalProperties: false", `{type: object, additionalProperties: false}`, []string{`{}`}, []string{`{"b":""}`}},
		{"pattern", `{type: string, pattern: "^[0-9]{10}$"}`, []string{`"9876543210"`}, []string{`"987654321"`, `"98765432100"`, `"987654321x"`, `"9876543210\n"`}},
		{"enum", `{enum: [a, b]}`, []string{`"a"`}, []string{`"c"`, `null`}},
		{"minLength", `{type: string, minLength: 1}`, []string{`"a"`}, []string{`""`}},
		{"maxLength", `{type: string, maxLength: 1}`, []string{`"अ"`}, []string{`"ab"`}},
		{"minimum", `{type: integer, minimum: 0}`, []string{`0`}, []string{`-1`}},
		{"maximum", `{type: integer, maximum: 5}`, []string{`5`}, []string{`6`}},
		{"minItems", `{type: array, items: {type: string}, minItems: 1}`, []string{`["a"]`}, []string{`[]`}},
		{"maxItems", `{type: array, items: {type: string}, maxItems: 1}`, []string{`[]`, `["a"]`}, []string{`["a","b"]`}},
		{"uniqueItems", `{type: array, items: {type: string}, uniqueItems: true}`, []string{`["a","b"]`}, []string{`["a","a"]`}},
		{"minProperties", `{type: object, additionalProperties: {type: string}, minProperties: 1}`, []string{`{"a":""}`}, []string{`{}`}},
		{"x-names", `{type: object, additionalProperties: {type: string}, x-names: [a, b]}`, []string{`{}`, `{"a":""}`, `{"a":"","b":""}`}, []string{`{"c":""}`, `{"a":1}`}},
		{"null", `{type: "null"}`, []string{`null`}, []string{`""`, `0`, `false`, `{}`}},
		{"oneOf beside properties", `{type: object, required: [a, b], properties: {a: {type: string}, b: {type: [string, "null"]}}, oneOf: [{properties: {a: {const: x}, b: {type: "null"}}}, {properties: {a: {const: y}, b: {type: string}}}]}`,
			[]string{`{"a":"x","b":null}`, `{"a":"y","b":""}`}, []string{`{"a":"x","b":""}`, `{"a":"y","b":null}`, `{"a":"z","b":""}`, `{"b":""}`, `{"a":"x","b":null,"c":1}`}},
		{"const of an integer", `{type: integer, const: 0}`, []string{`0`}, []string{`1`, `0.0`, `"0"`}},
		{"an integer", `{type: integer}`, []string{`0`, `-7`, `1803796200`}, []string{`1.0`, `1.5`, `1e3`, `-0`, `"1"`}},
		{"an amount", `{$ref: "#/components/schemas/Amount"}`,
			[]string{`0.00`, `199.00`, `-5.25`, `10000000000.01`},
			[]string{`199`, `199.0`, `199.000`, `1.99e2`, `1.99E+2`, `-0.00`, `"199.00"`, `null`}},
		{"a positive amount", `{$ref: "#/components/schemas/PositiveAmount"}`, []string{`0.01`}, []string{`0.00`, `-0.01`, `1`}},
		{"a balance", `{$ref: "#/components/schemas/BalanceAmount"}`, []string{`0.00`, `0.01`}, []string{`-0.01`, `0`, `1.5`}},
		{"no amount", `{$ref: "#/components/schemas/ZeroAmount"}`, []string{`0.00`}, []string{`0.01`, `0`, `-0.00`, `0.000`, `null`}},
		{"a keyword beside $ref", `{$ref: "#/components/schemas/Amount", exclusiveMinimum: 0}`, []string{`0.01`}, []string{`0.00`, `-1.00`, `1`}},
		{"an amount that may be missing", `{oneOf: [{$ref: "#/components/schemas/Amount"}, {type: "null"}]}`, []string{`1.00`, `null`}, []string{`1`, `""`}},
		{"format date-time", `{type: string, format: date-time}`, []string{`"2027-02-28T12:00:00+05:30"`},
			[]string{`"2027-02-29T12:00:00+05:30"`, `"2027-02-28 12:00:00"`, `"2027-02-28T12:00:00"`, `"2027-02-28T25:00:00Z"`}},
		{"format date", `{type: string, format: date}`, []string{`"2027-02-28"`}, []string{`"2027-02-29"`, `"28.02.2027"`, `"2027-2-28"`}},
		{"format ist-date-time", `{type: [string, "null"], format: ist-date-time}`, []string{`"2027-02-28 23:59:59"`, `null`},
			[]string{`"2027-02-29 12:00:00"`, `"2027-02-28T12:00:00"`, `"2027-02-28 1:00:00"`, `"2027-02-28 12:00"`, `"2027-02-28 12:00:00.5"`, `""`}},
		{"format ipv4 or ipv6", `{type: string, anyOf: [{format: ipv4}, {format: ipv6}]}`, []string{`"192.0.2.1"`, `"2001:db8::1"`},
			[]string{`"unknown"`, `"192.0.2.256"`, `"192.0.2.1:80"`}},
	}
	// All of them in one document, each the schema of an optional field.
	fields := []string{"k: {type: string}"}
	for i, tt := range tests {
		fields = append(fields, fmt.Sprintf("v%d: %s", i, tt.schema))
	}
	doc, err := load(altered(t, balanceData,
		"data: {type: object, required: [k], properties: {"+strings.Join(fields, ", ")+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	recorded := recorded(t)["balance"]
	for i, tt := range tests {
		t.Run(tt.keyword, func(t *testing.T) {
			check := func(value string) []string {
				r := recorded
				r.body = fmt.Appendf(nil, `{"success":true,"request_id":%q,"code":"OK","message":"m","data":{"k":"","v%d":%s}}`,
					r.header["X-Request-Id"][0], i, value)
				return doc.check(r)
			}
			for _, value := range tt.good {
				if found := check(value); found != nil {
					t.Errorf("%s was refused: %q", value, found)
				}
			}
			for _, value := range tt.bad {
				if check(value) == nil {
					t.Errorf("%s passed", value)
				}
			}
		})
	}
}

func TestLoad_UncheckableDocument(t *testing.T) {
	const okCode = "code: {type: string, const: OK}\n        message: {$ref: \"#/components/schemas/Message\"}\n        " + balanceData
	const balanceRate = "description: The wallet was read.\n      x-rate-limit-headers: always"
	tests := []struct {
		name, old, replacement string
		want                   string
	}{
		{"an object in parts", balanceData, `data: {allOf: [{$ref: "#/components/schemas/Balance"}]}`, "allOf cannot be closed"},
		{"an object that adds to another", balanceData, `data: {$ref: "#/components/schemas/Balance", properties: {more: {type: string}}}`, "beside $ref"},
		{"an unknown format", balanceData, `data: {type: string, format: lunar-date}`, "lunar-date"},
		{"a number that is no amount", balanceData, `data: {type: number}`, "integer or an Amount"},
		{"a reference to nothing", balanceData, `data: {$ref: "#/components/schemas/Wallet"}`, "Wallet"},
		{"a code that is not pinned", okCode, `code: {type: string}`, "not pinned"},
		{"nothing said on rate headers", balanceRate, "description: The wallet was read.", "want always, never or sometimes"},
		{"two schemas for a code", `- $ref: "#/components/schemas/InvalidNonce"`, `- $ref: "#/components/schemas/InvalidSignature"`, "twice"},
		{"an answer for any status", `"200": {$ref: "#/components/responses/Balance"}`, `default: {$ref: "#/components/responses/Balance"}`, "only exact statuses"},
		{"no answer for an unknown path", "\n    NotFound:\n      description: Answers", "\n    NoSuchPath:\n      description: Answers", "NotFound: is not there"},
		{"an older OpenAPI", "openapi: 3.1.0", "openapi: 3.0.3", "3.1"},
		{"an invalid document", "  version: \"1.0\"\n", "", "version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(altered(t, tt.old, tt.replacement))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("load: %v; want an error with %q", err, tt.want)
			}
		})
	}
}
