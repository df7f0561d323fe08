package console

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
)

// shownAct is an act of staff as a page about its subject shows it: what changed,
// and not all that stayed as it was.
type shownAct struct{ admin.AuditEntry }

// By is who did it.
func (a shownAct) By() string { return who(a.Actor) }

// What is what was done, in English.
func (a shownAct) What() string {
	if name, known := actNames[a.Action]; known {
		return name
	}
	return a.Action
}

// Why is the reason that somebody gave. The voucher of a form is none, and is left to
// the act's own page.
func (a shownAct) Why() string { return strings.TrimSpace(voucherNote.ReplaceAllString(a.Reason, "")) }

var voucherNote = regexp.MustCompile(`\(voucher [A-Z2-7]{12}\)$`)

// Was and Is are what changed, before and after.
func (a shownAct) Was() []statePart { return difference(a.Before, a.After) }
func (a shownAct) Is() []statePart  { return difference(a.After, a.Before) }

// statePart is a field of a state, by its English name; without one it is the whole.
type statePart struct {
	Name string
	stateValue
}

// difference lists what a state has that another has not, or has otherwise.
func difference(state, other string) (parts []statePart) {
	these, those := readState(state), readState(other)
	for _, name := range slices.Sorted(maps.Keys(these)) {
		if value := these[name]; value.Text != "" && value != those[name] {
			parts = append(parts, statePart{stateName(name), value})
		}
	}
	return parts
}
