// Package telemetry has the logs, metrics, traces and request ids of the service. Everything
// that is logged through it is searched for secrets first, which are redacted. It
// imports no other package of the service.
package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// redacted replaces a secret.
const redacted = "[redacted]"

// NewLogger returns a logger that writes one line an event to w: as JSON, or as text if
// format is "text". Secrets are redacted, by the name of an attribute or within a text
// or an error.
func NewLogger(w io.Writer, level slog.Leveler, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: redact}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(newJSONHandler(w, options))
}

// secretNames are parts of the names whose values are never written, whatever they look
// like. Customers' mobile numbers are among them.
var secretNames = []string{
	"secret", "password", "passwd", "passphrase", "signature", "authorization", "apikey",
	"masterkey", "privatekey", "token", "cookie", "nonce", "mobile", "phone",
}

// secretName reports whether a name is secret, however it is spelled: api_key, X-API-Key,
// apiKey.
func secretName(name string) bool {
	plain := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
	for _, secret := range secretNames {
		if strings.Contains(plain, secret) {
			return true
		}
	}
	return false
}

// checkedNames caches secretName's results. Attribute names are literals in our code, so
// they are few, and each line has a dozen of them.
var checkedNames sync.Map

func secretAttr(name string) bool {
	if secret, known := checkedNames.Load(name); known {
		return secret.(bool)
	}
	secret := secretName(name)
	checkedNames.Store(name, secret)
	return secret
}

// redact sees every attribute on its way out, the message and the members of
// groups included.
func redact(groups []string, a slog.Attr) slog.Attr {
	for _, group := range groups {
		if secretAttr(group) {
			return slog.String(a.Key, redacted)
		}
	}
	if secretAttr(a.Key) {
		return slog.String(a.Key, redacted)
	}
	switch a.Value.Kind() {
	case slog.KindString:
		if text := a.Value.String(); suspect(text) {
			a.Value = slog.StringValue(Scrub(text))
		}
	case slog.KindAny:
		a.Value = redactAny(a.Value)
	}
	return a
}

func redactAny(v slog.Value) slog.Value {
	switch value := v.Any().(type) {
	case nil, *slog.Source, slog.Level:
		return v
	case error:
		return slog.StringValue(Scrub(value.Error()))
	case fmt.Stringer:
		return slog.StringValue(Scrub(value.String()))
	case []byte:
		return slog.StringValue(Scrub(string(value)))
	default:
		return slog.AnyValue(redactTree(value))
	}
}

// redactTree takes a value apart the way JSON does, so that a field called
// Password inside a struct is found by its name.
func redactTree(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("[%T that does not encode]", value)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return fmt.Sprintf("[%T that does not encode]", value)
	}
	return redactNode(tree)
}

func redactNode(node any) any {
	switch node := node.(type) {
	case string:
		return Scrub(node)
	case []any:
		for i := range node {
			node[i] = redactNode(node[i])
		}
	case map[string]any:
		for name := range node {
			if secretName(name) {
				node[name] = redacted
			} else {
				node[name] = redactNode(node[name])
			}
		}
	}
	return node
}

// Scrub takes API secrets out of a text, and of API keys all but the beginning,
// by which people tell them apart.
func Scrub(text string) string {
	if !suspect(text) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		if !beginsSecret(text[i:]) {
			out.WriteByte(text[i])
			i++
			continue
		}
		prefix := text[i : i+prefixLen]
		i += prefixLen
		digits := text[i : i+hexRun(text[i:])]
		i += len(digits)
		out.WriteString(prefix)
		switch {
		case prefix == "cxs_" && digits != "":
			out.WriteString(redacted)
		case prefix == "cxk_" && len(digits) > hintDigits:
			out.WriteString(digits[:hintDigits] + "…")
		case prefix == "cxk_":
			out.WriteString(digits)
		}
	}
	return out.String()
}

const (
	prefixLen  = len("cxk_")
	hintDigits = 8
)

func beginsSecret(text string) bool {
	return strings.HasPrefix(text, "cxs_") || strings.HasPrefix(text, "cxk_")
}

// hexRun is how many hex digits a text begins with. The c of a further secret
// would pass for one and is not: else the second would lose its prefix and stay.
func hexRun(text string) int {
	for i := range len(text) {
		if !isHex(text[i]) || beginsSecret(text[i:]) {
			return i
		}
	}
	return len(text)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// suspect spares the many texts without a secret being taken apart.
func suspect(text string) bool {
	return strings.Contains(text, "cxs_") || strings.Contains(text, "cxk_")
}
