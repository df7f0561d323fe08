package web

import (
	"strings"

	"github.com/coaxhq/coax/internal/web/look"
)

// lineForms are the beginnings of what the books say of a line, which is English for
// good, with what to say in its place.
var lineForms = []struct{ begins, form string }{
	{"Advance renewal of ", look.Word("Advance renewal of %s")},
	{"Renewal of ", look.Word("Renewal of %s")},
	{"Activation of ", look.Word("Activation of %s")},
	{"Top-up ", look.Word("Top-up %s")},
	{"Adjustment: ", look.Word("Adjustment: %s")},
}

// LineText is what the books say of a line, begun in the visitor's language.
func (v *Visit) LineText(description string) string {
	for _, known := range lineForms {
		if rest, is := strings.CutPrefix(description, known.begins); is {
			return v.T(known.form, rest)
		}
	}
	return description
}
