package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep an answer may be nested. The protocol needs three.
const maxDepth = 32

// parseObject reads one JSON object and nothing else. encoding/json alone would
// take the last of two equal names, names in other cases, and mend broken text;
// an answer that needs any of that is not an answer to the letter. Its errors
// never quote the text.
func parseObject(text []byte) (map[string]any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	if object, flat := parseFlat(string(text)); flat {
		return object, nil
	}
	if !json.Valid(text) {
		return nil, errors.New("it is not JSON, or goes on after its end")
	}
	if hasHalfPair(text) {
		return nil, errors.New("it escapes half of a surrogate pair")
	}
	return parseTokens(text)
}

// parseTokens reads an object of anything from a text that is known to be JSON.
func parseTokens(text []byte) (map[string]any, error) {
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	value, err := parseValue(tokens, 0)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	return object, nil
}

// parseFlat reads an object of texts without an escape in them, which is what
// nearly every answer is; encoding/json takes ten times as long. Whatever else it
// meets, be it right or wrong, it leaves to others.
func parseFlat(text string) (map[string]any, bool) {
	object := make(map[string]any, 8)
	rest, found := strings.CutPrefix(skipBlanks(text), "{")
	for found {
		var name, value string
		if name, rest, found = cutText(rest); !found {
			break
		}
		if rest, found = strings.CutPrefix(rest, ":"); !found {
			break
		}
		if value, rest, found = cutText(rest); !found {
			break
		}
		if _, repeated := object[name]; repeated {
			break
		}
		object[name] = value
		if end, ended := strings.CutPrefix(rest, "}"); ended {
			return object, skipBlanks(end) == ""
		}
		rest, found = strings.CutPrefix(rest, ",")
	}
	return nil, false
}

// cutText takes a text in quotes from the beginning, and the blanks around it.
func cutText(from string) (text, rest string, found bool) {
	from, found = strings.CutPrefix(skipBlanks(from), `"`)
	if !found {
		return "", "", false
	}
	for i := range len(from) {
		switch c := from[i]; {
		case c == '"':
			return from[:i], skipBlanks(from[i+1:]), true
		case c == '\\', c < ' ':
			return "", "", false
		}
	}
	return "", "", false
}

func skipBlanks(text string) string { return strings.TrimLeft(text, " \t\r\n") }

// hasHalfPair reports whether a text that is known to be JSON escapes half of a
// surrogate pair. That is no character, and encoding/json would put one in its
// place that the provider never sent.
func hasHalfPair(text []byte) bool {
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++ // what is escaped is passed over, be it a backslash
		if text[i] != 'u' {
			continue
		}
		first := codeUnit(text[i+1 : i+5])
		i += 4
		if !utf16.IsSurrogate(first) {
			continue
		}
		if !bytes.HasPrefix(text[i+1:], []byte(`\u`)) || utf16.DecodeRune(first, codeUnit(text[i+3:i+7])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// codeUnit reads four hex digits.
func codeUnit(digits []byte) rune {
	unit, _ := strconv.ParseUint(string(digits), 16, 16) // JSON has seen to it that they are
	return rune(unit)
}

var errUnreadable = errors.New("it cannot be read")

// parseValue reads the next value of a text that is known to be JSON.
func parseValue(tokens *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	token, err := tokens.Token()
	if err != nil {
		return nil, errUnreadable
	}
	switch token {
	case json.Delim('{'):
		return parseMembers(tokens, depth)
	case json.Delim('['):
		return parseElements(tokens, depth)
	}
	return token, nil
}

func parseMembers(tokens *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for tokens.More() {
		token, err := tokens.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, errUnreadable
		}
		if _, repeated := object[name]; repeated {
			return nil, errors.New("a name is repeated")
		}
		if object[name], err = parseValue(tokens, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := tokens.Token(); err != nil {
		return nil, errUnreadable
	}
	return object, nil
}

func parseElements(tokens *json.Decoder, depth int) (any, error) {
	elements := []any{}
	for tokens.More() {
		element, err := parseValue(tokens, depth+1)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	if _, err := tokens.Token(); err != nil {
		return nil, errUnreadable
	}
	return elements, nil
}
