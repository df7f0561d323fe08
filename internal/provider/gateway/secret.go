package gateway

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"unicode"
)

// Token is the bearer token for the provider. It is redacted wherever it is printed.
type Token string

const hidden = "[secret]"

func (Token) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, hidden) }
func (Token) String() string               { return hidden }
func (Token) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func (t Token) check() error {
	for _, b := range []byte(t) {
		if b <= ' ' || b > '~' {
			return errors.New("the provider's token has a character that no header can carry: is there a line break in its file?")
		}
	}
	return nil
}

// maxMessage is the length to which the provider's message is cut.
const maxMessage = 500

// message makes a provider's text fit to be stored and shown. One that repeats a secret is replaced:
// passwords must not be stored.
func (g *Gateway) message(text, password string) string {
	if g.reveals(text, password) {
		return "The provider's message is not shown, because it repeats a secret."
	}
	return tidy(text)
}

// tidy replaces unprintable characters and cuts the text.
func tidy(text string) string {
	text = strings.TrimSpace(strings.Map(plain, text))
	return cut(text, maxMessage)
}

func cut(text string, length int) string {
	if runes := []rune(text); len(runes) > length {
		return string(runes[:length-1]) + "…"
	}
	return text
}

// quoted quotes an unexpected value for staff.
func (g *Gateway) quoted(text, password string) string {
	if g.reveals(text, password) {
		return hidden
	}
	return strconv.QuoteToASCII(cut(text, 80))
}

func (g *Gateway) reveals(text, password string) bool {
	return password != "" && strings.Contains(text, password) ||
		g.token != "" && strings.Contains(text, string(g.token))
}

// plain replaces by a space: control characters, which PostgreSQL refuses in part, direction marks and
// noncharacters.
func plain(r rune) rune {
	switch {
	case unicode.IsControl(r),
		r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069,
		r >= 0xFDD0 && r <= 0xFDEF, r&0xFFFE == 0xFFFE:
		return ' '
	}
	return r
}
