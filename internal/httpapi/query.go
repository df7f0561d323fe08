package httpapi

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/signing"
)

// lookup holds the names of the two query parameters of a look-up; the first takes precedence.
type lookup struct{ first, second string }

// The look-ups. The other endpoints ignore the query.
var (
	lookupTransaction  = lookup{"transaction_id", "idempotency_key"}
	lookupSubscription = lookup{"subscriber_id", "mobile"}
)

// readQuery reads the parameters of a look-up from the canonical query, which was
// signed. White space around a value is trimmed as in a body.
func readQuery(raw string, by lookup) (map[string]string, error) {
	first, second := by.first, by.second
	values := map[string]string{}
	problems := map[string]string{}
	for pair := range strings.SplitSeq(signing.CanonicalQuery(raw), "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, value = unescape(name), strings.TrimSpace(unescape(value))
		if !slices.Contains([]string{first, second}, name) {
			continue
		}
		if _, twice := values[name]; twice {
			problems[name] = "It is given twice."
		}
		values[name] = value
	}
	used := first
	if values[first] == "" {
		used = second
	}
	if value := values[used]; !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		problems[used] = "It contains what is no text."
	}
	if len(problems) == 0 && used == second {
		switch {
		case values[second] == "":
			problems[first] = "Give " + first + " or " + second + "."
		case second == "mobile" && !tenDigits(values[second]):
			problems[second] = "It has to be exactly 10 digits."
		}
	}
	if len(problems) > 0 {
		return nil, fault.New(fault.ValidationError, "The query is not valid; data.fields says why.").With("fields", problems)
	}
	return values, nil
}

// unescape decodes a part of a canonical query, which is always well formed.
func unescape(text string) string {
	plain, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return plain
}

func tenDigits(text string) bool {
	return len(text) == 10 && strings.Trim(text, "0123456789") == ""
}
