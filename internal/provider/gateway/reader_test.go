package gateway

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// readStrictly is a second JSON parser to compare strictjson.Parse with. It splits the text
// into tokens with one regular expression, where Parse reads byte by byte.
func readStrictly(text string) (map[string]any, bool) {
	r := &strictReader{ok: utf8.ValidString(text)}
	for rest := text; rest != "" && r.ok; {
		found := word.FindString(rest)
		r.ok = found != ""
		if rest = rest[len(found):]; strings.Trim(found, " \t\r\n") != "" {
			r.words = append(r.words, found)
		}
	}
	object, isObject := r.value(0).(map[string]any)
	return object, r.ok && isObject && len(r.words) == 0
}

var (
	word     = regexp.MustCompile(`^(?:[ \t\r\n]+|"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null|[][{},:])`)
	quoted   = regexp.MustCompile(`\\(?:u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|.)`)
	oneHalf  = regexp.MustCompile(`^\\u[dD][89a-fA-F]..$`)
	unquoted = map[string]string{`\"`: `"`, `\\`: `\`, `\/`: `/`, `\b`: "\b", `\f`: "\f", `\n`: "\n", `\r`: "\r", `\t`: "\t"}
)

type strictReader struct {
	words []string
	ok    bool
}

// next returns the next token. At the end, and after an error, it is empty, which
// is valid nowhere.
func (r *strictReader) next() string {
	if !r.ok || len(r.words) == 0 {
		r.ok = false
		return ""
	}
	first := r.words[0]
	r.words = r.words[1:]
	return first
}

func (r *strictReader) value(inside int) any {
	switch first := r.next(); {
	case inside >= 32 && (first == "{" || first == "["):
		r.ok = false
	case first == "{":
		object := map[string]any{}
		r.list("}", func() {
			name, isText := r.text(r.next())
			_, twice := object[name]
			r.ok = r.ok && isText && !twice && r.next() == ":"
			object[name] = r.value(inside + 1)
		})
		return object
	case first == "[":
		r.list("]", func() { r.value(inside + 1) })
	case first == "}" || first == "]" || first == "," || first == ":":
		r.ok = false
	default:
		if text, isText := r.text(first); isText {
			return text
		}
	}
	return nil // the values of numbers, lists and literals do not matter
}

// list reads the elements up to the closing bracket.
func (r *strictReader) list(end string, element func()) {
	if len(r.words) > 0 && r.words[0] == end {
		r.next()
		return
	}
	for between := ","; r.ok && between == ","; {
		element()
		between = r.next()
		r.ok = r.ok && (between == "," || between == end)
	}
}

func (r *strictReader) text(found string) (text string, isText bool) {
	if !strings.HasPrefix(found, `"`) {
		return "", false
	}
	return quoted.ReplaceAllStringFunc(found[1:len(found)-1], func(escape string) string {
		if plain, short := unquoted[escape]; short {
			return plain
		}
		if oneHalf.MatchString(escape) {
			r.ok = false
		}
		units := strings.Split(escape[2:], `\u`)
		first, _ := strconv.ParseUint(units[0], 16, 16)
		if len(units) == 1 {
			return string(rune(first))
		}
		second, _ := strconv.ParseUint(units[1], 16, 16)
		return string(rune(0x10000 + (first-0xD800)<<10 + second - 0xDC00))
	}), true
}
