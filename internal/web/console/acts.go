package console

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
)

// shownAct is an act of staff as a page about its subject shows it: what changed,
// and not all that stayed as it was.
type shownAct struct{ admin.LoggedAct }

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
type statePart struct{ Name, Value string }

// difference lists what a state has that another has not, or has otherwise. A state
// that is no set of named values is shown as it is.
func difference(state, other string) []statePart {
	if state == "" {
		return nil
	}
	var these, those map[string]json.RawMessage
	if json.Unmarshal([]byte(state), &these) != nil {
		return []statePart{{Value: strings.NewReplacer(`"`, "", ",", ", ", "[", "", "]", "").Replace(state)}}
	}
	_ = json.Unmarshal([]byte(other), &those) // of another shape, it has none of them
	var parts []statePart
	for _, name := range slices.Sorted(maps.Keys(these)) {
		if value := strings.Trim(string(these[name]), `"`); string(those[name]) != string(these[name]) && value != "" {
			parts = append(parts, statePart{stateName(name), value})
		}
	}
	return parts
}
