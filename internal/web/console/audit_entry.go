package console

import (
	"maps"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/web"
)

// shownEntry is an audit entry on a page about its subject: only what changed.
type shownEntry struct {
	admin.AuditEntry
	named func(actor string) string
}

// By returns the name of the actor.
func (a shownEntry) By() string { return a.named(a.Actor) }

// What returns the action's name in English.
func (a shownEntry) What() string {
	if name, known := actionNames[a.Action]; known {
		return name
	}
	return a.Action
}

// Why returns the given reason. A form's voucher is not a reason, and is shown only on the
// entry's own page.
func (a shownEntry) Why() string {
	return web.WithoutVoucher(a.Reason)
}

// Was and Is return what changed, before and after.
func (a shownEntry) Was() []statePart { return difference(a.Before, a.After, a.named) }
func (a shownEntry) Is() []statePart  { return difference(a.After, a.Before, a.named) }

// statePart is a field of a state with its English name; without a name it is the whole
// state.
type statePart struct {
	Name string
	stateValue
}

// difference lists the fields of a state that differ from another.
func difference(state, other string, named func(string) string) (parts []statePart) {
	these, those := readState(state, named), readState(other, named)
	for _, name := range slices.Sorted(maps.Keys(these)) {
		if value := these[name]; value.Text != "" && value != those[name] {
			parts = append(parts, statePart{stateName(name), value})
		}
	}
	return parts
}
