package requestlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coaxhq/coax/signing"
)

// changed describes how a body was changed on its way: it re-encodes the body in the ways
// in which libraries write JSON, until one has the hash of the body that arrived. It is
// empty if none has.
func changed(body, arrivedHash string) string {
	if body == "" {
		return ""
	}
	for _, form := range forms(body) {
		if form.text != body && signing.BodySHA256([]byte(form.text)) == arrivedHash {
			return form.how
		}
	}
	return ""
}

// form is a body in another encoding.
type form struct{ text, how string }

func forms(body string) []form {
	trimmed := strings.TrimRight(body, "\r\n\t ")
	all := []form{
		{trimmed, "without the newline or the spaces at its end"},
		{trimmed + "\n", "with a newline at its end"},
		{trimmed + "\r\n", "with CR LF at its end"},
		{strings.ReplaceAll(body, "\r\n", "\n"), "with LF in place of CR LF"},
		{strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\n", "\r\n"), "with CR LF in place of LF"},
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(body)) != nil {
		return all
	}
	orders := []form{{compact.String(), ""}}
	if byName := sorted(compact.Bytes()); byName != "" {
		orders = append(orders, form{byName, ", with its names in alphabetical order"})
	}
	for _, order := range orders {
		for _, spelling := range spellings(order.text) {
			all = append(all,
				form{spelling.text, "re-encoded without spaces" + spelling.how + order.how},
				form{spaced(spelling.text), "re-encoded with a space after each comma and colon" + spelling.how + order.how},
			)
			for _, indent := range []string{"  ", "    ", "\t"} {
				var lines bytes.Buffer
				if json.Indent(&lines, []byte(spelling.text), "", indent) == nil {
					all = append(all, form{lines.String(), "re-encoded over several lines" + spelling.how + order.how})
				}
			}
		}
	}
	return all
}

// sorted encodes a JSON object with its names in order; empty if it is not an object.
func sorted(object []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return ""
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(fields) != nil {
		return ""
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// spellings returns the JSON with the optional escapes that libraries use.
func spellings(compact string) []form {
	plain := unescaped(compact)
	return []form{
		{compact, ""},
		{plain, ", with letters in place of escapes"},
		{asciiOnly(plain), ", with escapes in place of letters beyond ASCII"},
		{strings.ReplaceAll(plain, "/", `\/`), ", with slashes escaped"},
		{strings.ReplaceAll(asciiOnly(plain), "/", `\/`), ", with slashes and letters beyond ASCII escaped"},
		{strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(plain), ", with <, > and & escaped"},
	}
}

// unescaped encodes strings with as few escapes as JSON allows.
func unescaped(compact string) string {
	return overTexts(compact, func(quoted string) string {
		var text string
		if json.Unmarshal([]byte(quoted), &text) != nil {
			return quoted
		}
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if encoder.Encode(text) != nil {
			return quoted
		}
		return strings.TrimSuffix(out.String(), "\n")
	})
}

func asciiOnly(text string) string {
	var out strings.Builder
	for _, char := range text {
		switch {
		case char < 0x80:
			out.WriteRune(char)
		case char > 0xFFFF:
			char -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xD800+char>>10, 0xDC00+char&0x3FF)
		default:
			fmt.Fprintf(&out, `\u%04x`, char)
		}
	}
	return out.String()
}

// spaced adds a space after each comma and colon outside of strings.
func spaced(compact string) string {
	var out strings.Builder
	inside, escaped := false, false
	for i := range len(compact) {
		c := compact[i]
		out.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case inside && c == '\\':
			escaped = true
		case c == '"':
			inside = !inside
		case !inside && (c == ',' || c == ':'):
			out.WriteByte(' ')
		}
	}
	return out.String()
}

// overTexts rewrites each quoted string of a JSON document.
func overTexts(compact string, rewrite func(quoted string) string) string {
	var out strings.Builder
	for len(compact) > 0 {
		begin := strings.IndexByte(compact, '"')
		if begin < 0 {
			break
		}
		end := begin + 1
		for end < len(compact) && compact[end] != '"' {
			if compact[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(compact))
		out.WriteString(compact[:begin])
		out.WriteString(rewrite(compact[begin:end]))
		compact = compact[end:]
	}
	out.WriteString(compact)
	return out.String()
}
