package subscription

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultConnectionType is what a customer has unless somebody says otherwise.
const DefaultConnectionType = "OTT + Live TV"

// Unprintable says what in a text has no place in one that people will read; empty
// for a text that is fine.
func Unprintable(text string) string {
	form, args := WhyUnprintable(text)
	return fmt.Sprintf(form, args...)
}

var lineBreaksToSpaces = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ")

// UnprintableLines is Unprintable for a text of several lines, such as a postal
// address: line feeds, carriage returns and tabs are fine.
func UnprintableLines(text string) string { return Unprintable(lineBreaksToSpaces.Replace(text)) }

// WhyUnprintable is Unprintable taken apart, for whoever says it in another language.
// It finds control characters, marks that turn the direction of what follows, and
// code points that are no characters. Joiners are parts of Indian letters, and stay.
func WhyUnprintable(text string) (form string, args []any) {
	if !utf8.ValidString(text) {
		return "It is not valid UTF-8.", nil
	}
	for _, r := range text {
		switch {
		case r < 0x20 || r >= 0x7f && r <= 0x9f:
			return "It contains the control character U+%04X.", []any{r}
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return "It contains U+%04X, which turns the direction of the text.", []any{r}
		case r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe:
			return "It contains U+%04X, which is not a character.", []any{r}
		}
	}
	return "", nil
}
