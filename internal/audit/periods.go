package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// period is a month of one operator that was closed.
type period struct {
	operator, operations, amount, closed int64
	month, by                            string
	// The number and the sum of the commissions found.
	found, sum int64
}

// monthOf names a month of one operator; commissions belong to the month in which
// they were earned.
type monthOf struct {
	operator int64
	month    string
}

// readPeriods reads the closed months and compares them with the staff actions that closed
// them.
func (a *auditor) readPeriods() {
	if !a.has(migrationProposals) {
		return
	}
	a.periods = map[monthOf]*period{}
	subject := func(month string, operator int64) string {
		return fmt.Sprintf("commission %s of lco %d", month, operator)
	}
	periods := open(a, "commission_periods", `
		SELECT operator_id, month, operations, amount_paise, closed_by, closed_at FROM commission_periods ORDER BY operator_id`,
		func(row scanner, p *period) int64 {
			row(&p.operator, &p.month, &p.operations, &p.amount, &p.by, &p.closed)
			return p.operator
		})
	actions := open(a, "staff_acts", `
		SELECT operator_id, id, actor, subject, after_state, at FROM staff_acts WHERE action = 'commission close' ORDER BY operator_id`,
		func(row scanner, action *staffAction) int64 {
			row(&action.operator, &action.id, &action.actor, &action.subject, &action.after, &action.at)
			return action.operator
		})
	walk(func(operator int64) {
		said := map[string][]staffAction{}
		actions.each(operator, func(action *staffAction) { said[action.subject] = append(said[action.subject], *action) })
		periods.each(operator, func(p *period) {
			name := subject(p.month, operator)
			a.requireOperator(operator, name)
			kept := *p
			a.periods[monthOf{operator, p.month}] = &kept
			closings := said[name]
			delete(said, name)
			if len(closings) != 1 {
				a.found("A9", name, "it is closed, and %d staff actions closed it; expected 1", len(closings))
				return
			}
			action, state := closings[0], fieldsOf(closings[0].after)
			if action.actor != p.by || action.at != p.closed || state["operations"] != fmt.Sprint(p.operations) || state["amount"] != rupees(p.amount) {
				a.found("A9", name, "it was closed by %s at %s with %d operations and %s; expected what staff action %d says, %s at %s with %s and %s",
					p.by, moment(p.closed), p.operations, rupees(p.amount), action.id, action.actor, moment(action.at), state["operations"], state["amount"])
			}
		})
		for _, name := range slices.Sorted(maps.Keys(said)) {
			a.found("A9", name, "staff action %d closed it, and it is not closed", said[name][0].id)
		}
	}, periods, actions)
	a.report.Counts.Periods = periods.count
}

// earned adds a commission to the month that it belongs to, if that was closed.
func (a *auditor) earned(c commission) {
	if len(a.periods) == 0 {
		return
	}
	month := time.UnixMilli(c.created).In(india).Format("2006-01")
	if p := a.periods[monthOf{c.operator, month}]; p != nil {
		p.found++
		p.sum += c.amount
	}
}

// closePeriods compares the closed months with the sums of their commissions.
func (a *auditor) closePeriods() {
	for _, key := range slices.SortedFunc(maps.Keys(a.periods), func(x, y monthOf) int {
		return cmp.Or(cmp.Compare(x.operator, y.operator), cmp.Compare(x.month, y.month))
	}) {
		if p := a.periods[key]; p.found != p.operations || p.sum != p.amount {
			a.found("C2", fmt.Sprintf("commission %s of lco %d", key.month, key.operator),
				"it was closed with %d operations and %s, and the commissions are %d and %s; expected a closed month to stay as it was",
				p.operations, rupees(p.amount), p.found, rupees(p.sum))
		}
	}
	a.periods = nil
}
