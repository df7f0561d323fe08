package report

import (
	"encoding/base64"
	"encoding/json"
	"errors"
)

// Cursor is a row in a list, by what the list is sorted by. Pages go on behind one,
// not after so many rows: that stays quick however far one reads, and shows nothing
// twice when something is added meanwhile.
type Cursor struct {
	Number int64  `json:"n,omitempty"`
	Text   string `json:"t,omitempty"`
	ID     string `json:"i,omitempty"`
}

// ErrCursor is what a page is refused with that goes on from a place which no page
// has given out.
var ErrCursor = errors.New("there is no such place in the list")

// String writes a place for an address; the beginning is empty.
func (p Cursor) String() string {
	if p == (Cursor{}) {
		return ""
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // two texts and a number always can be written
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseCursor reads what String has written. Whoever makes one up sees another page
// of the same list, and nothing that the list does not have.
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
