package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/fault"
)

// FuzzBody holds the body parser against a reference made of encoding/json and
// the checks that it lacks: both take the same texts, and read the same in them.
// Two spellings of one value have one canonical form, and the form keeps the
// value.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":"1","b":[1,2.5e-3,{"c":null}]}`, `{"a":"\ud83d\ude00"}`, `{"a":"<&>\u2028"}`, ` {"x" : [ ] } `, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"x":{"a":1,"a":2}}`, `{"x":[0,{"a":1,"b":{},"a":2}]}`,
		`{"a":"\ud800"}`, `{"a":"\ud800\u0041"}`, `{"a":"\\ud800"}`, `[`, "{\"a\":\"\u007f\"}", "{\"a\":\"\xff\"}", `{"A":true,"a":-0}`, `{"a":01}`, `{"":{}}`, `{} {}`,
		`{"x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`, `{"x":` + strings.Repeat(`{"":`, 32) + `1` + strings.Repeat("}", 33),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		body, err := parseBody(text)
		reference, taken := referenceBody(text)
		if taken != (err == nil) {
			t.Fatalf("%q: %v; the reference takes it: %t", text, err, taken)
		}
		if !taken {
			if fault.CodeOf(err) != fault.InvalidJSON {
				t.Fatalf("%q: %v; want INVALID_JSON", text, err)
			}
			return
		}
		var others []string
		texts := map[string]string{}
		for name, value := range reference {
			if value, isText := value.(string); isText {
				texts[name] = value
			} else {
				others = append(others, name)
			}
		}
		slices.Sort(others)
		slices.Sort(body.others)
		if !maps.Equal(body.texts, texts) || !slices.Equal(body.others, others) {
			t.Fatalf("%q: texts %q and others %q; want %q and %q", text, body.texts, body.others, texts, others)
		}
		if again, stillTaken := referenceBody(body.canonical); !stillTaken || !reflect.DeepEqual(again, reference) {
			t.Fatalf("%q: the canonical form %s has another value", text, body.canonical)
		}
		respelled, err := parseBody(respell(text))
		if err != nil || !bytes.Equal(respelled.canonical, body.canonical) {
			t.Fatalf("%q: canonical %s; spelled as %q it is %s, %v", text, body.canonical, respell(text), respelled.canonical, err)
		}
	})
}

var escape = regexp.MustCompile(`\\(?:u([0-9A-Fa-f]{4})|.)`)

// referenceBody reads a body with encoding/json, and refuses by other means what
// that lets pass.
func referenceBody(text []byte) (map[string]any, bool) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, false
	}
	// In JSON a backslash occurs in texts only, so every escape is found here.
	openHalf := -1 // where the other half of a pair has to begin
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
	if openHalf >= 0 || !noNameTwice(json.NewDecoder(bytes.NewReader(text)), maxDepth) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	err := decoder.Decode(&object)
	return object, err == nil && object != nil
}

// noNameTwice walks one value. It also refuses what is nested too deep.
func noNameTwice(tokens *json.Decoder, left int) bool {
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
		if !noNameTwice(tokens, left-1) {
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

// respell writes a JSON text in another way: spread over lines, and every letter
// of its texts escaped.
func respell(text []byte) []byte {
	var spread bytes.Buffer
	if err := json.Indent(&spread, text, "\r", "\t"); err != nil {
		panic(err) // the caller has seen that it is JSON
	}
	return literal.ReplaceAllFunc(spread.Bytes(), func(quoted []byte) []byte {
		if bytes.ContainsRune(quoted, '\\') {
			return quoted // escapes have letters of their own
		}
		return letters.ReplaceAllFunc(quoted, func(letter []byte) []byte { return fmt.Appendf(nil, `\u%04X`, letter[0]) })
	})
}
