package gateway

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
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
