package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse compares Parse with a reference made of encoding/json and the checks that it
// lacks: both accept the same texts and read the same values. Two spellings of one value
// have one canonical form, and the form keeps the value.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":"1","b":[1,2.5e-3,{"c":null}]}`, `{"a":"\ud83d\ude00"}`, `{"a":"<&>\u2028"}`, ` {"x" : [ ] } `, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"x":{"a":1,"a":2}}`, `{"x":[0,{"a":1,"b":{},"a":2}]}`,
		`{"a":"\ud800"}`, `{"a":"\ud800\u0041"}`, `{"a":"\\ud800"}`, `[`, "{\"a\":\"\u007f\"}", "{\"a\":\"\xff\"}", `{"A":true,"a":-0}`, `{"a":01}`, `{"":{}}`, `{} {}`,
		`{"x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`, `{"x":` + strings.Repeat(`{"":`, 32) + `1` + strings.Repeat("}", 33),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		object, err := Parse(text)
		reference, accepted := referenceParse(text)
		if accepted != (err == nil) {
			t.Fatalf("%q: %v; the reference accepts it: %t", text, err, accepted)
		}
		if !accepted {
			return
		}
		if !reflect.DeepEqual(object, reference) {
			t.Fatalf("%q: %q; want %q", text, object, reference)
		}
		canonical := Canonical(object)
		if again, stillAccepted := referenceParse(canonical); !stillAccepted || !reflect.DeepEqual(again, reference) {
			t.Fatalf("%q: the canonical form %s has another value", text, canonical)
		}
		respelled, err := Parse(respell(text))
		if err != nil || !bytes.Equal(Canonical(respelled), canonical) {
			t.Fatalf("%q: canonical %s; spelled as %q it is %s, %v", text, canonical, respell(text), Canonical(respelled), err)
		}
	})
}

var escape = regexp.MustCompile(`\\(?:u([0-9A-Fa-f]{4})|.)`)

// referenceParse reads an object with encoding/json, and refuses by other means what that
// accepts.
func referenceParse(text []byte) (map[string]any, bool) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, false
	}
	// In JSON a backslash occurs in strings only, so every escape is found here.
	openHalf := -1 // where the second half of a surrogate pair has to begin
	for _, at := range escape.FindAllSubmatchIndex(text, -1) {
		unit := ""
		if at[2] >= 0 {
			unit = strings.ToLower(string(text[at[2]:at[3]]))
		}
		isLow := unit >= "dc00" && unit <= "dfff"
		if isLow != (openHalf == at[0]) || openHalf >= 0 && openHalf != at[0] {
			return nil, false
		}
		openHalf = -1
		if unit >= "d800" && unit <= "dbff" {
			openHalf = at[1]
		}
	}
	if openHalf >= 0 || !namesUnique(json.NewDecoder(bytes.NewReader(text)), MaxDepth) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	err := decoder.Decode(&object)
	return object, err == nil && object != nil
}

// namesUnique reports whether no object of a value repeats a name and none is nested too deep.
func namesUnique(tokens *json.Decoder, left int) bool {
	token, _ := tokens.Token()
	delim, nested := token.(json.Delim)
	if !nested {
		return true
	}
	if left == 0 {
		return false
	}
	seen := map[json.Token]bool{}
	for tokens.More() {
		if delim == '{' {
			name, _ := tokens.Token()
			if seen[name] {
				return false
			}
			seen[name] = true
		}
		if !namesUnique(tokens, left-1) {
			return false
		}
	}
	_, err := tokens.Token()
	return err == nil
}

var (
	letters = regexp.MustCompile(`[A-Za-z]`)
	literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// respell writes the same JSON value differently: indented, and with every letter of its
// strings escaped.
func respell(text []byte) []byte {
	var spread bytes.Buffer
	if err := json.Indent(&spread, text, "\r", "\t"); err != nil {
		panic(err) // the caller passes valid JSON only
	}
	return literal.ReplaceAllFunc(spread.Bytes(), func(quoted []byte) []byte {
		if bytes.ContainsRune(quoted, '\\') {
			return quoted // escapes have letters of their own
		}
		return letters.ReplaceAllFunc(quoted, func(letter []byte) []byte { return fmt.Appendf(nil, `\u%04X`, letter[0]) })
	})
}
