package access

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is the secret that requests are signed with. It is redacted wherever it is printed; only
// Reveal returns it. The zero Secret is empty.
//
// The text is behind a pointer because fmt prints unexported fields without calling their methods:
// of a struct with a Secret in it, fmt prints an address.
type Secret struct {
	redacted
	text *string
}

func newSecret(text string) Secret { return Secret{text: &text} }

// Reveal returns the secret, to sign with or to show to its owner once.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

const hidden = "[secret]"

// redacted is embedded in types that must not be printed. It covers fmt, slog and JSON.
type redacted struct{}

// Format covers every verb; %d would not call String.
func (redacted) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

func (redacted) String() string               { return hidden }
func (redacted) GoString() string             { return hidden }
func (redacted) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (redacted) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
