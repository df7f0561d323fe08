package report

import (
	"encoding/base64"
	"encoding/json"
	"errors"
)

// Cursor identifies a row in a list by its sort key. Pages continue after a cursor, not at
// an offset: that stays fast on later pages, and shows no row twice when others are added.
type Cursor struct {
	Number int64  `json:"n,omitempty"`
	Text   string `json:"t,omitempty"`
	ID     string `json:"i,omitempty"`
	// Part is the part of the list, where it has several.
	Part string `json:"p,omitempty"`
}

// ErrCursor is returned for an invalid cursor.
var ErrCursor = errors.New("there is no such place in the list")

// String encodes a cursor for a URL; the beginning of a list is empty.
func (p Cursor) String() string {
	if p == (Cursor{}) {
		return ""
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // cannot happen
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseCursor decodes what String has encoded. A forged cursor shows another page of the
// same list, and nothing else.
func ParseCursor(text string) (p Cursor, err error) {
	if text == "" {
		return p, nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(plain, &p) != nil {
		return Cursor{}, ErrCursor
	}
	return p, nil
}
