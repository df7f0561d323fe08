package access

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

func TestNewKey_WellFormedAndUnique(t *testing.T) {
	keyForm := regexp.MustCompile(`^cxk_[0-9a-f]{32}$`)
	secretForm := regexp.MustCompile(`^cxs_[0-9a-f]{64}$`)
	seen := map[string]bool{}
	for range 1000 {
		key, secret := NewKey()
		if !keyForm.MatchString(key) || !wellFormedKey(key) {
			t.Fatalf("key %q is not of the form of a key", key)
		}
		if !secretForm.MatchString(secret.Reveal()) {
			t.Fatalf("secret %q is not of the form of a secret", secret.Reveal())
		}
		if seen[key] || seen[secret.Reveal()] {
			t.Fatal("the same key or secret was made twice")
		}
		seen[key], seen[secret.Reveal()] = true, true
	}
}

func TestWellFormedKey(t *testing.T) {
	const good = "cxk_0123456789abcdef0123456789abcdef"
	tests := []struct {
		name, key string
		want      bool
	}{
		{"as it was issued", good, true},
		{"empty", "", false},
		{"the prefix alone", "cxk_", false},
		{"without prefix", good[4:], false},
		{"a secret's prefix", "cxs_" + good[4:], false},
		{"upper-case prefix", "CXK_" + good[4:], false},
		{"upper-case hex", good[:4] + strings.ToUpper(good[4:]), false},
		{"one upper-case digit", good[:35] + "F", false},
		{"one digit short", good[:35], false},
		{"one digit long", good + "0", false},
		{"not hex", good[:35] + "g", false},
		{"a blank behind", good[:35] + " ", false},
		{"a blank before", " " + good[:35], false},
		{"a NUL", good[:35] + "\x00", false},
		{"a full-width digit, of as many bytes", "cxk_" + strings.Repeat("0", 29) + "\uff10", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := wellFormedKey(tt.key); got != tt.want {
				t.Errorf("wellFormedKey(%q) = %t; want %t", tt.key, got, tt.want)
			}
			if hint := Hint(tt.key); (hint != "") != tt.want {
				t.Errorf("Hint(%q) = %q; only a key has one", tt.key, hint)
			}
		})
	}
	if got := Hint(good); got != "cxk_01234567" {
		t.Errorf("Hint(%q) = %q; want cxk_01234567", good, got)
	}
}

func TestHashKey_IsSHA256(t *testing.T) {
	hash := HashKey("cxk_0123456789abcdef0123456789abcdef")
	// printf 'cxk_0123456789abcdef0123456789abcdef' | sha256sum
	const want = "c1b8bfb40f8526e90f84ccd9f8edbaaaaf41882b242202c6d21ffc0c1d327671"
	if got := hex.EncodeToString(hash[:]); got != want {
		t.Errorf("HashKey = %s; want %s", got, want)
	}
}

// holder has a secret where fmt finds it without asking its methods.
type holder struct {
	secret  Secret
	Secrets []Secret
}

func TestSecret_IsRedacted(t *testing.T) {
	_, secret := NewKey()
	inside := holder{secret, []Secret{secret}}
	for _, value := range []any{secret, &secret, inside, &inside, map[string]any{"x": secret}, []any{secret}, fmt.Errorf("odd: %v", secret)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%08b"} {
			hides(t, secret, fmt.Sprintf(verb, value))
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Errorf("marshal %T: %v", value, err)
		}
		hides(t, secret, string(text))

		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "value", value, slog.Group("g", "value", value))
		hides(t, secret, log.String())
	}
	if got := fmt.Sprint(secret); got != "[secret]" {
		t.Errorf("printed as %q; want [secret]", got)
	}
	if got := secret.String() + secret.GoString(); got != "[secret][secret]" {
		t.Errorf("String and GoString = %q", got)
	}
}

func hides(t *testing.T, secret Secret, printed string) {
	t.Helper()
	raw := secret.Reveal()
	for _, form := range []string{raw, raw[4:20], hex.EncodeToString([]byte(raw[:16]))} {
		if strings.Contains(strings.ToLower(printed), form) {
			t.Errorf("the secret is in %q", printed)
		}
	}
}

// HMAC hashes a key of more than 64 bytes first, so a shorter decoy would be told
// from a secret by the time it takes.
func TestDecoySecret_Length(t *testing.T) {
	_, secret := NewKey()
	if got, want := len(decoySecret), len(secret.Reveal()); got != want {
		t.Errorf("the decoy has %d characters; a secret has %d", got, want)
	}
}

func TestSecret_ZeroIsEmpty(t *testing.T) {
	if got := (Secret{}).Reveal(); got != "" {
		t.Errorf("Reveal = %q; want nothing", got)
	}
}

func TestHintPrefix_OfKeysAndTheirBeginnings(t *testing.T) {
	key, _ := NewKey()
	for text, want := range map[string]string{
		key: Hint(key), Hint(key): Hint(key), key[:7]: key[:7], strings.ToUpper(key): Hint(key),
		"": "", "cxk_": "", "cxk": "", key[4:]: "", "cxk_12x": "", "cxk_%": "", "asha": "",
	} {
		if got := HintPrefix(text); got != want {
			t.Errorf("HintPrefix(%q) = %q; want %q", text, got, want)
		}
	}
}
