package access

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is the text a caller signs with. It hides itself wherever it might be
// printed; only Reveal gives it away. The zero Secret is empty.
//
// The text is behind a pointer because fmt looks into unexported fields without
// asking their methods: of a struct that holds a Secret it prints an address.
type Secret struct {
	hushed
	text *string
}

func newSecret(text string) Secret { return Secret{text: &text} }

// Reveal returns the secret itself, to sign with or to show to its owner once.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

const hidden = "[secret]"

// hushed is embedded by what must not be printed. Its methods cover fmt, slog
// and JSON, the ways in which values end up in logs and answers.
type hushed struct{}

// Format speaks for every verb; %d would not ask String.
func (hushed) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

func (hushed) String() string               { return hidden }
func (hushed) GoString() string             { return hidden }
func (hushed) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (hushed) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
