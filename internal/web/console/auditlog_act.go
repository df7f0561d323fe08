package console

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	Name, Before, After string
	Changed             bool
}

func (c console) showAct(v *web.Visit) error {
	id, err := strconv.ParseInt(v.R.PathValue("act"), 10, 64)
	if err != nil || id < 1 {
		return web.NotFound()
	}
	found, err := c.desk(v).FindActs(v.Context(), admin.ActQuery{Below: id + 1, Most: 1})
	if err != nil {
		return err
	}
	if len(found.Acts) == 0 || found.Acts[0].ID != id {
		return web.NotFound()
	}
	act := auditedAct{shownAct: shownAct{found.Acts[0]}}
	if act.OperatorID != 0 {
		operator, err := c.desk(v).Operator(v.Context(), act.OperatorID)
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

// actFields puts what was before beside what was after. A state that is no set of
// names, such as a whitelist, is one field.
func actFields(before, after string) []actField {
	was, is := named(before), named(after)
	names := map[string]bool{}
	for name := range was {
		names[name] = true
	}
	for name := range is {
		names[name] = true
	}
	var fields []actField
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] == "" && is[name] == "" {
			continue
		}
		fields = append(fields, actField{Name: stateName(name), Before: was[name], After: is[name], Changed: was[name] != is[name]})
	}
	return fields
}

// named reads the fields of a state, as people write them.
func named(state string) map[string]string {
	if state == "" {
		return nil
	}
	var fields map[string]any
	decoder := json.NewDecoder(strings.NewReader(state))
	decoder.UseNumber() // an amount keeps its paise
	if decoder.Decode(&fields) != nil {
		return map[string]string{"": written(state)}
	}
	texts := map[string]string{}
	for name, value := range fields {
		switch v := value.(type) {
		case string:
			texts[name] = v
		case json.Number:
			texts[name] = v.String()
		default:
			text, err := json.Marshal(value)
			if err != nil {
				continue
			}
			texts[name] = written(string(text))
		}
	}
	return texts
}

// written shows JSON without its marks.
func written(text string) string {
	if text == "null" {
		return ""
	}
	return strings.NewReplacer(`"`, "", ",", ", ", "[", "", "]", "").Replace(text)
}
