package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
)

// shownAct is an act of staff as a page about its subject shows it: what changed,
// and not all that stayed as it was.
type shownAct struct{ admin.LoggedAct }

// By is who did it.
func (a shownAct) By() string { return who(a.Actor) }

// Was and Is are what changed, before and after.
func (a shownAct) Was() string { return difference(a.Before, a.After) }
func (a shownAct) Is() string  { return difference(a.After, a.Before) }

// difference lists what a state has that another has not, or has otherwise. A state
// that is no set of named values is shown as it is.
func difference(state, other string) string {
	if state == "" {
		return ""
	}
	var these, those map[string]json.RawMessage
	if json.Unmarshal([]byte(state), &these) != nil {
		return strings.NewReplacer(`"`, "", ",", ", ", "[", "", "]", "").Replace(state)
	}
	_ = json.Unmarshal([]byte(other), &those) // of another shape, it has none of them
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(these)) {
		if value := strings.Trim(string(these[name]), `"`); string(those[name]) != string(these[name]) && value != "" {
			parts = append(parts, fmt.Sprintf("%s: %s", strings.ReplaceAll(name, "_", " "), value))
		}
	}
	return strings.Join(parts, ", ")
}
