package gateway

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
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
		"half a character":    `{"a":"\ud83d"}`,
		"the other half":      `{"a":"\ude00"}`,
		"halves in disorder":  `{"a":"\ude00\ud83d"}`,
		"a half and a letter": `{"a":"\ud83d\u0041"}`,
		"a half in a name":    `{"\ud83d":1}`,
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
	got, err := parseObject([]byte(" {\"a\":\"\\u0062\\\\ud83d\\ud83d\\ude00\",\"A\":null,\"n\":1e999,\"l\":[true,{\"a\":[]}]}\n"))
	want := map[string]any{"a": "b\\ud83d\U0001F600", "A": nil, "n": json.Number("1e999"), "l": []any{true, map[string]any{"a": []any{}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parseObject = %v, %v; want %v", got, err, want)
	}
}

// The short way may only take what the long way takes, and has to read it alike.
func TestTheShortWayThroughAnAnswerEndsWhereTheLongWayDoes(t *testing.T) {
	alike := func(t *rapid.T, text string) (taken bool) {
		got, taken := parseFlat(text)
		if !taken || !utf8.ValidString(text) { // which is looked at before
			return taken
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("the short way takes %q, which is no JSON", text)
		}
		if want, err := parseTokens([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the short way reads %q as %v; the long way as %v, %v", text, got, want, err)
		}
		return taken
	}
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"{", "}", ":", ",", `"a"`, `"b"`, `""`, `"é"`, `"\u0061"`, `"\\"`, `"`, " ", "\n", "\t", "\v", "1", "null", "[", "]", "\x00", "\x7f", "\xff", "\uFEFF"}),
		rapid.SampledFrom([]string{`"a":"x"`, `"b":"y",`, ` "c" : "z" `, `{"a":"b"}`}),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
		if rapid.Bool().Draw(t, "in braces") {
			text = "{" + text + "}"
		}
		alike(t, text)
	})

	// What is put together at random is hardly ever an object; these always are.
	space := rapid.SampledFrom([]string{"", " ", "\n", "\t "})
	name := rapid.StringMatching(`"[a-z_]{1,8}"`)
	value := rapid.StringMatching(`"[ -!#-\[\]-~]{0,12}"`)
	rapid.Check(t, func(t *rapid.T) {
		around := func(part string) string { return space.Draw(t, "before") + part + space.Draw(t, "after") }
		var members []string
		for _, name := range rapid.SliceOfNDistinct(name, 1, 8, rapid.ID[string]).Draw(t, "names") {
			members = append(members, around(name)+":"+around(value.Draw(t, "value")))
		}
		if text := around("{" + strings.Join(members, ",") + "}"); !alike(t, text) {
			t.Errorf("the short way does not take %q", text)
		}
	})
	if _, taken := parseFlat(confirmation(order)); !taken {
		t.Error("the short way does not take an ordinary answer")
	}
}
