package strictjson

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// nested is an object with n arrays in one another.
func nested(n int) string { return `{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }

func TestParse_AcceptsJSONObjects(t *testing.T) {
	for _, text := range []string{
		`{}`, " \t\r\n{ } \n", `{"a":"1"}`, `{"a":1,"b":[true,false,null,-0.5e+3],"c":{"d":{}}}`, `{"a":"\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t"}`,
		`{"":""}`, `{"a":"1","A":"2"}`, nested(MaxDepth - 1),
	} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v; want it accepted", text, err)
		}
	}
}

func TestParse_RefusesEverythingElse(t *testing.T) {
	for name, texts := range map[string][]string{
		"no object":           {``, " \n", `null`, `[]`, `[{}]`, `"{}"`, `"a"`, `1`},
		"around the object":   {`{}{}`, `{} x`, `x{}`, "\uFEFF{}", "{\"a\":\"1\"}\x00"},
		"unfinished":          {`{`, `}`, `{"a"`, `{"a":{"b":1}`, `{"a":"1`, `{"a":[`, `{"a":"\`, `{"a":"\u12`},
		"commas and colons":   {`{"a"}`, `{"a":}`, `{"a":"1",}`, `{,}`, `{"a":"1" "b":"2"}`, `{"a":[1,]}`, `{"a":[1 2]}`},
		"quotes and comments": {`{a:"1"}`, `{'a':'1'}`, `{/**/}`},
		"repeated name":       {`{"a":"1","a":"2"}`, `{"a":"1","\u0061":"2"}`, `{"x":{"a":1,"a":2}}`, `{"x":[{"a":1,"b":2,"a":3}]}`},
		"not UTF-8":           {"{\"a\":\"\xff\"}", "{\"\xff\":1}"},
		"control characters":  {"{\"a\":\"\n\"}", "{\"a\":\"\x01\"}"},
		"escapes":             {`{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u+123"}`, `{"a":"\u1_23"}`},
		"surrogates":          {`{"a":"\ud83d"}`, `{"a":"\ude00"}`, `{"a":"\ude00\ud83d"}`, `{"a":"\ud83d\u0041"}`, `{"a":"\ud800x"}`, `{"\ud83d":1}`},
		"numbers":             {`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":1e}`, `{"a":-}`, `{"a":NaN}`},
		"literals":            {`{"a":tru}`, `{"a":True}`, `{"a":nul}`},
		"too deep":            {nested(MaxDepth), strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)},
	} {
		for _, text := range texts {
			object, err := Parse([]byte(text))
			if invalid := new(Error); object != nil || !errors.As(err, &invalid) {
				t.Errorf("%s: Parse(%.60q) = %v, %v; want an *Error", name, text, object, err)
			}
		}
	}
}

func TestParse_Values(t *testing.T) {
	got, err := Parse([]byte(" {\"a\":\"\\u0062\\\\ud83d\\ud83d\\ude00\",\"A\":null,\"n\":1e999,\"l\":[true,{\"a\":[]}]}\n"))
	want := map[string]any{"a": "b\\ud83d\U0001F600", "A": nil, "n": json.Number("1e999"), "l": []any{true, map[string]any{"a": []any{}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Parse = %v, %v; want %v", got, err, want)
	}
}

// A provider's reply may repeat a password, and the error goes to a table that staff read.
func TestError_ReasonQuotesNothing(t *testing.T) {
	for _, text := range []string{`{"s3cr3t":1,"s3cr3t":2}`, `{"a":§}`, `{"a":"\§"}`} {
		_, err := Parse([]byte(text))
		if err == nil || strings.ContainsAny(err.Error(), "3§Â") {
			t.Errorf("%s: %v; want an error that quotes nothing", text, err)
		}
	}
}

func TestCanonical_IgnoresSpelling(t *testing.T) {
	canonical := func(text string) string {
		t.Helper()
		object, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return string(Canonical(object))
	}
	base := canonical(`{"plan_id":"P","mobile":"98","extra":{"b":[1,{"y":1,"x":2}],"a":null}}`)
	for _, same := range []string{
		` { "mobile" : "98" , "extra" : { "a" : null , "b" : [ 1 , { "x" : 2 , "y" : 1 } ] } , "plan_id" : "P" } `,
		`{"plan_id":"\u0050","mobile":"9\u0038","extra":{"b":[1,{"y":1,"x":2}],"a":null}}`,
	} {
		if got := canonical(same); got != base {
			t.Errorf("%s\nis %s\nwant %s", same, got, base)
		}
	}
	for _, other := range []string{
		`{"plan_id":"P","mobile":"98"}`,
		`{"plan_id":"P","mobile":"99","extra":{"b":[1,{"y":1,"x":2}],"a":null}}`,
		`{"plan_id":"P","mobile":"98","extra":{"b":[{"y":1,"x":2},1],"a":null}}`,
		`{"plan_id":"P","mobile":"98","extra":{"b":[1,{"y":"1","x":2}],"a":null}}`,
		`{"plan_id":"P","Mobile":"98","extra":{"b":[1,{"y":1,"x":2}],"a":null}}`,
	} {
		if got := canonical(other); got == base {
			t.Errorf("%s has the same canonical form", other)
		}
	}
}

// Stored fingerprints rest on these bytes.
func TestCanonical_Bytes(t *testing.T) {
	object, err := Parse([]byte(`{"b":[1.0,true,false,null,{}],"a":"<é\u2028&\"\\\/\u007f\u0001>","":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"":[],"a":"\u003cé\u2028\u0026\"\\/` + "\x7f" + `\u0001\u003e","b":[1.0,true,false,null,{}]}`
	if got := string(Canonical(object)); got != want {
		t.Errorf("Canonical = %s; want %s", got, want)
	}
}

func BenchmarkParse(b *testing.B) {
	text := []byte(`{"reference":"CX1","status":"applied","subscriber_id":"100234","mobile":"9812345678","component":"TV-FAMILY","transaction_id":"1"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
