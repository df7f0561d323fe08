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
	entry, err := c.audited(v, found.Entries[0])
	if err != nil {
		return err
	}
	chain, err := c.verifyChain(v, id, id)
	if err != nil {
		return err
	}
	return v.Show("console/audit-log-entry", entryPage{Entry: entry, Fields: entryFields(entry.Before, entry.After, v.Who), Chained: chain.Broken == 0})
}

// audited returns one entry with the name of its subject.
func (c console) audited(v *web.Visit, entry admin.AuditEntry) (auditedEntry, error) {
	names := map[int64]string{}
	if entry.OperatorID != 0 {
		operator, err := c.service(v).Operator(v.Context(), entry.OperatorID)
		if err != nil && !refused(err) {
			return auditedEntry{}, err
		}
		names[entry.OperatorID] = operator.Name
	}
	all, err := auditedEntries(v, c.Store, []admin.AuditEntry{entry}, names)
	if err != nil {
		return auditedEntry{}, err
	}
	return all[0], nil
}

// entryFields pairs the fields before and after.
func entryFields(before, after string, named func(string) string) (fields []entryField) {
	was, is := readState(before, named), readState(after, named)
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
