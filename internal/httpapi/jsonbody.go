package httpapi

import (
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/fault"
)

// maxDepth bounds how deep an ignored field may be nested.
const maxDepth = 32

// jsonBody is a request body, read strictly: one object, no name twice, valid
// UTF-8, nothing behind it. encoding/json takes the last of two equal names,
// matches names whatever their case, and mends broken text; what was signed and
// what is understood would then be two things.
type jsonBody struct {
	// texts are the top-level fields whose value is a text; others names the
	// ones whose value is anything else.
	texts  map[string]string
	others []string
	// canonical is the same value in one form: no white space, names sorted,
	// texts in the least escaping. Two bodies with the same value have the
	// same canonical bytes.
	canonical []byte
}

func invalidJSON(format string, args ...any) error {
	return fault.New(fault.InvalidJSON, "The body is not a JSON object: "+format, args...)
}

// parseBody reads a request body.
func parseBody(body []byte) (jsonBody, error) {
	if !utf8.Valid(body) {
		return jsonBody{}, invalidJSON("it is not valid UTF-8.")
	}
	p := &jsonParser{text: body, top: jsonBody{texts: map[string]string{}}}
	p.blanks()
	if p.at == len(body) {
		return jsonBody{}, invalidJSON("it is empty.")
	}
	if body[p.at] != '{' {
		return jsonBody{}, invalidJSON("it begins with something else.")
	}
	canonical, err := p.object(1)
	if err != nil {
		return jsonBody{}, err
	}
	if p.blanks(); p.at != len(body) {
		return jsonBody{}, invalidJSON("something follows the object at byte %d.", p.at)
	}
	p.top.canonical = canonical
	return p.top, nil
}

// jsonParser reads JSON (RFC 8259) from the left and writes its canonical form.
type jsonParser struct {
	text []byte
	at   int
	top  jsonBody
}

func (p *jsonParser) blanks() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// take passes one byte, if it is the wanted one.
func (p *jsonParser) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *jsonParser) unexpected() error {
	if p.at >= len(p.text) {
		return invalidJSON("it ends too early.")
	}
	return invalidJSON("unexpected %q at byte %d.", rune(p.text[p.at]), p.at)
}

// member is a name and its value, both canonical.
type member struct {
	name  string
	value []byte
}

func (p *jsonParser) object(depth int) ([]byte, error) {
	p.at++ // the brace
	var members []member
	seen := map[string]bool{}
	for p.blanks(); !p.take('}'); p.blanks() {
		if len(members) > 0 {
			if !p.take(',') {
				return nil, p.unexpected()
			}
			p.blanks()
		}
		name, err := p.string()
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, invalidJSON("the name %q is there twice.", name)
		}
		seen[name] = true
		if p.blanks(); !p.take(':') {
			return nil, p.unexpected()
		}
		p.blanks()
		value, err := p.member(depth, name)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, value})
	}
	slices.SortFunc(members, func(a, b member) int {
		if a.name < b.name {
			return -1
		}
		return 1 // names are never equal
	})
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(m.name)...), ':'), m.value...)
	}
	return append(out, '}'), nil
}

// member reads an object's value; of the top object it is also remembered.
func (p *jsonParser) member(depth int, name string) ([]byte, error) {
	if depth > 1 {
		return p.value(depth)
	}
	if p.at < len(p.text) && p.text[p.at] == '"' {
		text, err := p.string()
		p.top.texts[name] = text
		return quote(text), err
	}
	p.top.others = append(p.top.others, name)
	return p.value(depth)
}

func (p *jsonParser) value(depth int) ([]byte, error) {
	if p.at >= len(p.text) {
		return nil, p.unexpected()
	}
	switch c := p.text[p.at]; {
	case c == '{' || c == '[':
		if depth >= maxDepth {
			return nil, invalidJSON("it is nested deeper than %d.", maxDepth)
		}
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case c == '"':
		text, err := p.string()
		return quote(text), err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if len(p.text)-p.at >= len(word) && string(p.text[p.at:p.at+len(word)]) == word {
			p.at += len(word)
			return []byte(word), nil
		}
	}
	return nil, p.unexpected()
}

func (p *jsonParser) array(depth int) ([]byte, error) {
	p.at++ // the bracket
	out := []byte{'['}
	for p.blanks(); !p.take(']'); p.blanks() {
		if len(out) > 1 {
			if !p.take(',') {
				return nil, p.unexpected()
			}
			p.blanks()
			out = append(out, ',')
		}
		value, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, value...)
	}
	return append(out, ']'), nil
}

// number keeps the digits as they were written: 1 and 1.0 may be the same to
// some, and telling them apart can only refuse, never charge.
func (p *jsonParser) number() ([]byte, error) {
	start := p.at
	p.take('-')
	if !p.take('0') && !p.digits() {
		return nil, p.unexpected()
	}
	if p.take('.') && !p.digits() {
		return nil, p.unexpected()
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if !p.digits() {
			return nil, p.unexpected()
		}
	}
	return p.text[start:p.at], nil
}

// digits passes one or more digits.
func (p *jsonParser) digits() bool {
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.at > start
}

func (p *jsonParser) string() (string, error) {
	if !p.take('"') {
		return "", p.unexpected()
	}
	var out []byte
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return string(out), nil
		case c < 0x20:
			return "", p.unexpected()
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
			p.at++
		}
	}
	return "", p.unexpected()
}

var escapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads what a backslash begins. Half a surrogate pair is no character.
func (p *jsonParser) escape() (rune, error) {
	p.at++ // the backslash
	if p.at >= len(p.text) {
		return 0, p.unexpected()
	}
	c := p.text[p.at]
	if r, ok := escapes[c]; ok {
		p.at++
		return r, nil
	}
	if c != 'u' {
		return 0, p.unexpected()
	}
	r, err := p.hex()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if p.at+1 < len(p.text) && p.text[p.at] == '\\' && p.text[p.at+1] == 'u' {
		p.at++
		low, err := p.hex()
		if err != nil {
			return 0, err
		}
		if whole := utf16.DecodeRune(r, low); whole != utf8.RuneError {
			return whole, nil
		}
	}
	return 0, invalidJSON("an escape before byte %d is half of a surrogate pair.", p.at)
}

// hex reads uXXXX.
func (p *jsonParser) hex() (rune, error) {
	if len(p.text)-p.at < 5 {
		p.at = len(p.text)
		return 0, p.unexpected()
	}
	digits := string(p.text[p.at+1 : p.at+5])
	n, err := strconv.ParseUint(digits, 16, 16)
	if err != nil || digits[0] == '+' {
		return 0, p.unexpected()
	}
	p.at += 5
	return rune(n), nil
}

// quote writes a text as JSON, always in the same way.
func quote(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text always encodes
	}
	return quoted
}
