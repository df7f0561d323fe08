package subscription

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultConnectionType is the connection type of a customer for whom none is given.
const DefaultConnectionType = "OTT + Live TV"

// Unprintable describes the first character that must not be in a text for people; empty if there is
// none.
func Unprintable(text string) string {
	form, args := WhyUnprintable(text)
	return fmt.Sprintf(form, args...)
}

var lineBreaksToSpaces = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ")

// UnprintableLines is Unprintable for a text of several lines, such as a postal
// address: it may have line feeds, carriage returns and tabs.
func UnprintableLines(text string) string { return Unprintable(lineBreaksToSpaces.Replace(text)) }

// WhyUnprintable is Unprintable with format and arguments apart, for translations. It finds control
// characters, direction marks and noncharacters. Joiners are allowed: Indian scripts need them.
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
