package strictjson

import (
	"encoding/json"
	"maps"
	"slices"
)

// Canonical writes an object from Parse in one form: no white space, names sorted, strings
// escaped as encoding/json does. Two texts with the same value have the same canonical bytes;
// numbers count as the same only if they are written with the same characters.
//
// Stored fingerprints of requests are computed from these bytes, so they must never change.
func Canonical(object map[string]any) []byte {
	return appendValue(make([]byte, 0, 256), object)
}

func appendValue(out []byte, value any) []byte {
	switch value := value.(type) {
	case map[string]any:
		out = append(out, '{')
		names := slices.AppendSeq(make([]string, 0, len(value)), maps.Keys(value))
		slices.Sort(names)
		for i, name := range names {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendValue(append(appendString(out, name), ':'), value[name])
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, element := range value {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendValue(out, element)
		}
		return append(out, ']')
	case string:
		return appendString(out, value)
	case json.Number:
		return append(out, value...)
	case bool:
		if value {
			return append(out, "true"...)
		}
		return append(out, "false"...)
	default:
		return append(out, "null"...)
	}
}

// appendString writes what json.Marshal writes, without its allocation where nothing has to
// be escaped.
func appendString(out []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic(err) // a string always encodes
			}
			return append(out, quoted...)
		}
	}
	return append(append(append(out, '"'), text...), '"')
}
