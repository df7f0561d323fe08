// Package strictjson reads one JSON object (RFC 8259) and refuses everything that two
// readers could understand differently: a repeated name, invalid UTF-8, half of a surrogate
// pair, anything after the object. encoding/json takes the last of two equal names, matches
// names in any case and replaces broken text.
package strictjson

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth limits how deep objects and arrays may be nested, the outermost object included.
const MaxDepth = 32

// An Error says why a text is not one strict JSON object.
type Error struct {
	// Reason never quotes the text, which may hold a secret.
	Reason string
	// Quoting is the same for the author of the text; it may quote it.
	Quoting string
}

func (e *Error) Error() string { return e.Reason }

// refused returns an Error whose reason has nothing to quote.
func refused(format string, args ...any) *Error {
	reason := fmt.Sprintf(format, args...)
	return &Error{Reason: reason, Quoting: reason}
}

// Parse reads one object. Its values are string, json.Number, bool, nil, []any and
// map[string]any. The error, if any, is an *Error.
func Parse(text []byte) (map[string]any, error) {
	object, err := parse(string(text))
	if err != nil {
		return nil, err // not a nil *Error in an interface
	}
	return object, nil
}

func parse(text string) (map[string]any, *Error) {
	if !utf8.ValidString(text) {
		return nil, refused("it is not valid UTF-8")
	}
	p := &parser{text: text}
	p.skipSpace()
	if p.at == len(text) {
		return nil, refused("it is empty")
	}
	if text[p.at] != '{' {
		return nil, refused("it begins with something else")
	}
	object, err := p.object(1)
	if err != nil {
		return nil, err
	}
	if p.skipSpace(); p.at != len(text) {
		return nil, refused("something follows the object at byte %d", p.at)
	}
	return object, nil
}

// parser reads valid UTF-8 from left to right. Strings without an escape are parts of text,
// which is not copied again.
type parser struct {
	text string
	at   int
}

func (p *parser) skipSpace() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// take consumes the next byte if it is c.
func (p *parser) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) unexpected() *Error {
	if p.at >= len(p.text) {
		return refused("it ends too early")
	}
	return &Error{
		Reason:  fmt.Sprintf("unexpected character at byte %d", p.at),
		Quoting: fmt.Sprintf("unexpected %q at byte %d", rune(p.text[p.at]), p.at),
	}
}

func (p *parser) object(depth int) (map[string]any, *Error) {
	p.at++ // the brace
	members := make(map[string]any, 8)
	for p.skipSpace(); !p.take('}'); p.skipSpace() {
		if len(members) > 0 {
			if !p.take(',') {
				return nil, p.unexpected()
			}
			p.skipSpace()
		}
		name, err := p.string()
		if err != nil {
			return nil, err
		}
		if _, repeated := members[name]; repeated {
			return nil, &Error{Reason: "a name is there twice", Quoting: fmt.Sprintf("the name %q is there twice", name)}
		}
		if p.skipSpace(); !p.take(':') {
			return nil, p.unexpected()
		}
		p.skipSpace()
		if members[name], err = p.value(depth); err != nil {
			return nil, err
		}
	}
	return members, nil
}

func (p *parser) value(depth int) (any, *Error) {
	if p.at >= len(p.text) {
		return nil, p.unexpected()
	}
	switch c := p.text[p.at]; {
	case c == '{' || c == '[':
		if depth >= MaxDepth {
			return nil, refused("it is nested deeper than %d", MaxDepth)
		}
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case c == '"':
		return p.string()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	rest := p.text[p.at:]
	switch {
	case strings.HasPrefix(rest, "true"):
		p.at += len("true")
		return true, nil
	case strings.HasPrefix(rest, "false"):
		p.at += len("false")
		return false, nil
	case strings.HasPrefix(rest, "null"):
		p.at += len("null")
		return nil, nil
	}
	return nil, p.unexpected()
}

func (p *parser) array(depth int) ([]any, *Error) {
	p.at++ // the bracket
	elements := []any{}
	for p.skipSpace(); !p.take(']'); p.skipSpace() {
		if len(elements) > 0 {
			if !p.take(',') {
				return nil, p.unexpected()
			}
			p.skipSpace()
		}
		element, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	return elements, nil
}

// number keeps the digits as they were written, so that no precision is lost.
func (p *parser) number() (json.Number, *Error) {
	start := p.at
	p.take('-')
	if !p.take('0') && !p.digits() {
		return "", p.unexpected()
	}
	if p.take('.') && !p.digits() {
		return "", p.unexpected()
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if !p.digits() {
			return "", p.unexpected()
		}
	}
	return json.Number(p.text[start:p.at]), nil
}

// digits consumes one or more digits.
func (p *parser) digits() bool {
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.at > start
}

func (p *parser) string() (string, *Error) {
	if !p.take('"') {
		return "", p.unexpected()
	}
	start := p.at
	var unescaped []byte // what precedes start, if there was an escape
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			last := p.text[start:p.at]
			p.at++
			if unescaped == nil {
				return last, nil
			}
			return string(append(unescaped, last...)), nil
		case c < ' ':
			return "", p.unexpected()
		case c == '\\':
			unescaped = append(unescaped, p.text[start:p.at]...)
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			unescaped = utf8.AppendRune(unescaped, r)
			start = p.at
		default:
			p.at++
		}
	}
	return "", p.unexpected()
}

var escapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads one character that is written with a backslash. Half of a surrogate pair is
// not a character.
func (p *parser) escape() (rune, *Error) {
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
	r, err := p.codeUnit()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if strings.HasPrefix(p.text[p.at:], `\u`) {
		p.at++
		low, err := p.codeUnit()
		if err != nil {
			return 0, err
		}
		if whole := utf16.DecodeRune(r, low); whole != utf8.RuneError {
			return whole, nil
		}
	}
	return 0, refused("an escape before byte %d is half of a surrogate pair", p.at)
}

// codeUnit reads uXXXX.
func (p *parser) codeUnit() (rune, *Error) {
	if len(p.text)-p.at < 5 {
		p.at = len(p.text)
		return 0, p.unexpected()
	}
	unit, err := strconv.ParseUint(p.text[p.at+1:p.at+5], 16, 16)
	if err != nil {
		return 0, p.unexpected()
	}
	p.at += 5
	return rune(unit), nil
}
