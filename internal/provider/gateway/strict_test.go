package gateway

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

func TestParseObjectIsStrict(t *testing.T) {
	refused := map[string]string{
		"nothing":             ``,
		"white space":         " \n",
		"null":                `null`,
		"a text":              `"a"`,
		"a list":              `[{}]`,
		"two objects":         `{}{}`,
		"text after it":       `{} x`,
		"text before it":      `x{}`,
		"a comma too many":    `{"a":1,}`,
		"a comma too few":     `{"a":1 "b":2}`,
		"unfinished":          `{"a":{"b":1}`,
		"a name twice":        `{"a":1,"a":1}`,
		"a name twice inside": `{"a":[{"b":1,"c":2,"b":3}]}`,
		"an escaped name":     `{"a":1,"\u0061":1}`,
		"a control character": "{\"a\":\"\x01\"}",
		"not UTF-8":           "{\"a\":\"\xff\"}",
		"a comment":           `{/**/}`,
		"NaN":                 `{"a":NaN}`,
		"a plus":              `{"a":+1}`,
		"a byte order mark":   "\uFEFF{}",
		"too deep":            `{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
		"far too deep":        strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000),
	}
	for name, text := range refused {
		if got, err := parseObject([]byte(text)); err == nil {
			t.Errorf("%s: parseObject(%.60q) = %v; want it refused", name, text, got)
		}
	}
	got, err := parseObject([]byte(" {\"a\":\"\\u0062\",\"A\":null,\"n\":1e999,\"l\":[true,{\"a\":[]}]}\n"))
	want := map[string]any{"a": "b", "A": nil, "n": json.Number("1e999"), "l": []any{true, map[string]any{"a": []any{}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parseObject = %v, %v; want %v", got, err, want)
	}
}

// What the strict reading takes, the ordinary one takes too, and reads alike.
func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{
		`{"reference":"CX1","status":"applied"}`, `{"a":{"b":[1,2,{"c":null}]},"d":-1.5e3}`, `{"a":1,"a":2}`, `{"\u0061":"\ud800"}`, `[{}]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseObject(text)
		if err != nil {
			return
		}
		var want map[string]any
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("parseObject(%q) = %v; encoding/json has %v, %v", text, got, want, err)
		}
	})
}

// Nothing but a success that repeats the whole order confirms it, whatever else
// is said.
func FuzzJudge(f *testing.F) {
	f.Add(200, []byte(`{"reference":"CX1-2.3","status":"applied","subscriber_id":"100234","mobile":"9812345678","component":"TV-FAMILY","transaction_id":"1"}`))
	f.Add(404, []byte(`{"reference":"CX1-2.3","status":"unknown_reference"}`))
	f.Add(422, []byte(`{"reference":"CX1-2.3","status":"rejected","message":"no"}`))
	f.Add(200, []byte(`{"reference":"CX1-2.3","status":"voided"}`))
	g, err := New(Config{URL: "https://provider.example", Timeout: patience})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, code int, text []byte) {
		fields, err := parseObject(text)
		if err != nil || code != 200 && (code < 400 || code > 499) {
			return
		}
		for name, meanings := range map[string]map[string]meaning{"apply": applyAnswers, "status": statusAnswers, "void": voidAnswers} {
			got := g.judge(reply{code: code, fields: fields}, order, meanings).answer
			echo := fields["reference"] == order.Reference
			whole := echo && fields["subscriber_id"] == order.SubscriberID && fields["mobile"] == order.Mobile && fields["component"] == order.Component
			status := fields["status"]
			switch {
			case got.NeverLeft,
				got.Verdict == operation.Confirmed && (code != 200 || !whole || status != "applied" || got.Transaction == ""),
				got.Verdict == operation.Rejected && (!echo || status != "rejected" && status != "voided" || name == "void" && status != "voided" || name == "apply" && status != "rejected"),
				got.NotFound && (name != "status" || !echo || status != "unknown_reference" || got.Verdict != operation.Unknown):
				t.Errorf("%s: HTTP %d %q was judged %+v", name, code, text, got)
			}
		}
	})
}
