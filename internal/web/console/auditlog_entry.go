package console

import (
	"maps"
	"slices"
	"strconv"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/web"
)

type entryPage struct {
	Entry  auditedEntry
	Fields []entryField
	// Chained: the entry's hash fits the entry before it.
	Chained bool
}

// entryField is a field of an entry's state with its English name, before and after.
type entryField struct {
	Name          string
	Before, After stateValue
	Changed       bool
}

func (c console) showEntry(v *web.Visit) error {
	id, err := strconv.ParseInt(v.R.PathValue("entry"), 10, 64)
	if err != nil || id < 1 {
		return web.NotFound()
	}
	found, err := c.service(v).FindAuditEntries(v.Context(), admin.AuditQuery{Below: id + 1, Limit: 1})
	if err != nil {
		return err
	}
	if len(found.Entries) == 0 || found.Entries[0].ID != id {
		return web.NotFound()
	}
	entry := auditedEntry{shownEntry: shownEntry{found.Entries[0]}}
	if entry.OperatorID != 0 {
		operator, err := c.service(v).Operator(v.Context(), entry.OperatorID)
		if err != nil && !refused(err) {
			return err
		}
		entry.OperatorName = operator.Name
	}
	chain, err := c.verifyChain(v, id, id)
	if err != nil {
		return err
	}
	return v.Show("console/audit-log-entry", entryPage{Entry: entry, Fields: entryFields(entry.Before, entry.After), Chained: chain.Broken == 0})
}

// entryFields pairs the fields before and after.
func entryFields(before, after string) (fields []entryField) {
	was, is := readState(before), readState(after)
	names := map[string]stateValue{}
	maps.Copy(names, was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name].Text != "" || is[name].Text != "" {
			fields = append(fields, entryField{Name: stateName(name), Before: was[name], After: is[name], Changed: was[name] != is[name]})
		}
	}
	return fields
}
