package console

import (
	"maps"
	"slices"
	"strconv"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/web"
)

type actPage struct {
	Act    auditedAct
	Fields []actField
	// Chained: the hash of the act fits the act before it.
	Chained bool
}

// actField is one thing that an act was about, by its English name, before and after.
type actField struct {
	Name          string
	Before, After stateValue
	Changed       bool
}

func (c console) showAct(v *web.Visit) error {
	id, err := strconv.ParseInt(v.R.PathValue("act"), 10, 64)
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
	act := auditedAct{shownAct: shownAct{found.Entries[0]}}
	if act.OperatorID != 0 {
		operator, err := c.service(v).Operator(v.Context(), act.OperatorID)
		if err != nil && !refused(err) {
			return err
		}
		act.OperatorName = operator.Name
	}
	chain, err := c.verifyChain(v, id, id)
	if err != nil {
		return err
	}
	return v.Show("console/audit-log-act", actPage{Act: act, Fields: actFields(act.Before, act.After), Chained: chain.Broken == 0})
}

// actFields puts what was before beside what was after.
func actFields(before, after string) (fields []actField) {
	was, is := readState(before), readState(after)
	names := map[string]stateValue{}
	maps.Copy(names, was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name].Text != "" || is[name].Text != "" {
			fields = append(fields, actField{Name: stateName(name), Before: was[name], After: is[name], Changed: was[name] != is[name]})
		}
	}
	return fields
}
