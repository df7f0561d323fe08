package signing_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/signing"
)

func FuzzCanonicalQuery(f *testing.F) {
	for _, raw := range []string{
		"", "&", "=", "==", "&&", "a", "a=", "=1", "a=1&&b=2", "&a=1&", "a=b=c",
		"%", "%1", "%z", "%%41", "%4%31", "100%", "a=%&41=b", "%2541", "%25",
		"+", "%2B+%20", "a;b=1;c", "a-=1&a=2&a%20=3", "B=1&a=2", "a=2&a=1&a",
		"%e0%a4%b0", "रवि=é", "%ff%FE", "\xff\x00\n", "%00%0A", "%7e~*!'()", "?a=1#b",
	} {
		f.Add(raw)
	}
	allowed := regexp.MustCompile(`^([A-Za-z0-9._~-]|%[0-9A-F]{2}|[&=])*$`)
	f.Fuzz(func(t *testing.T, raw string) {
		got := signing.CanonicalQuery(raw)
		if want := tableCanonicalQuery(raw); got != want {
			t.Errorf("CanonicalQuery(%q) = %q; the table says %q", raw, got, want)
		}
		if again := signing.CanonicalQuery(got); again != got {
			t.Errorf("CanonicalQuery(%q) = %q; of that again = %q", raw, got, again)
		}
		// Reversing and rotating the parts generate every order.
		parts := strings.Split(raw, "&")
		for _, shuffled := range [][]string{reversed(parts), append(parts[1:len(parts):len(parts)], parts[0])} {
			if other := signing.CanonicalQuery(strings.Join(shuffled, "&")); other != got {
				t.Errorf("CanonicalQuery(%q) = %q; with its parts in another order %q", raw, got, other)
			}
		}
		// Escaped bytes give the same result.
		if spelled := signing.CanonicalQuery(escapeAll(got)); spelled != got {
			t.Errorf("CanonicalQuery(%q) = %q; with every byte of it escaped %q", raw, got, spelled)
		}
		if !allowed.MatchString(got) {
			t.Errorf("CanonicalQuery(%q) = %q; want unreserved characters, upper-case escapes, '=' and '&' only", raw, got)
		}
		// No part is dropped or added, and each has its '='.
		if raw != "" && (strings.Count(got, "&") != strings.Count(raw, "&") || strings.Count(got, "=") != len(parts)) {
			t.Errorf("CanonicalQuery(%q) = %q; want %d pairs", raw, got, len(parts))
		}
	})
}

func reversed(parts []string) []string {
	parts = slices.Clone(parts)
	slices.Reverse(parts)
	return parts
}

// escapeAll escapes what a canonical query leaves to stand for itself, in lower
// case.
func escapeAll(canonical string) string {
	var out strings.Builder
	for i := 0; i < len(canonical); i++ {
		switch c := canonical[i]; c {
		case '&', '=':
			out.WriteByte(c)
		case '%':
			out.WriteString(strings.ToLower(canonical[i : i+3]))
			i += 2
		default:
			fmt.Fprintf(&out, "%%%02x", c)
		}
	}
	return out.String()
}

var (
	decodable        = regexp.MustCompile(`%[0-9A-Fa-f]{2}|\+`)
	decoded, encoded = tables()
)

// tables lists every spelling of a byte with the byte, and every byte with the
// one spelling that is canonical.
func tables() (decoded map[string]byte, encoded map[byte]string) {
	decoded = map[string]byte{"+": ' '}
	encoded = map[byte]string{}
	for c := range 256 {
		upper, lower := fmt.Sprintf("%%%02X", c), fmt.Sprintf("%%%02x", c)
		// Mixed case too: %eF is as good as %EF.
		for _, spelling := range []string{upper, lower, upper[:2] + lower[2:], lower[:2] + upper[2:]} {
			decoded[spelling] = byte(c)
		}
		encoded[byte(c)] = upper
	}
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~") {
		encoded[c] = string(c)
	}
	return decoded, encoded
}

// tableCanonicalQuery says the same as CanonicalQuery in another way, slowly, so
// that the fuzzer has something to compare with inside the process.
func tableCanonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	reencode := func(s string) string {
		plain := decodable.ReplaceAllFunc([]byte(s), func(spelling []byte) []byte {
			return []byte{decoded[string(spelling)]}
		})
		var b strings.Builder
		for _, c := range plain {
			b.WriteString(encoded[c])
		}
		return b.String()
	}

	var pairs [][]string
	for _, part := range strings.Split(raw, "&") {
		halves := append(strings.SplitN(part, "=", 2), "")
		pairs = append(pairs, []string{reencode(halves[0]), reencode(halves[1])})
	}
	slices.SortFunc(pairs, slices.Compare[[]string])
	joined := make([]string, len(pairs))
	for i, p := range pairs {
		joined[i] = strings.Join(p, "=")
	}
	return strings.Join(joined, "&")
}

func BenchmarkCanonicalQuery(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		signing.CanonicalQuery("subscriber_id=204417&mobile=9876543210&name=Ravi+Kumar%20%e0%a4%b0")
	}
}
