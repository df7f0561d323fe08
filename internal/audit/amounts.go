package audit

import (
	"database/sql"
	"fmt"
	"strings"
)

// readAmounts compares what counts towards the approval limits with the staff actions that
// moved it: a changed row would let a person move more without approval than allowed. A row
// without its action only counts more; the chain shows that the action is missing.
func (a *auditor) readAmounts() {
	if !a.has(migrationAmounts) {
		return
	}
	type counted struct {
		id, at, operator, amount int64
		actAt, actOperator       int64
		person, actor, action    string
		before, after            string
		cost                     sql.NullInt64
	}
	amounts := open(a, "staff_amounts", `
		SELECT m.act_id, m.at, m.person, m.operator_id, m.amount_paise, a.actor, a.action, a.at, a.operator_id, a.before_state, a.after_state, o.amount_paise
		  FROM staff_amounts m JOIN staff_acts a ON a.id = m.act_id
		  LEFT JOIN operations o ON a.action IN ('review settle', 'operation reverse', 'reversal settle') AND o.id = substr(a.subject, 11)
		 ORDER BY m.act_id`,
		func(row scanner, c *counted) int64 {
			row(&c.id, &c.at, &c.person, &c.operator, &c.amount, &c.actor, &c.action, &c.actAt, &c.actOperator, &c.before, &c.after, &c.cost)
			return c.id
		})
	walk(func(id int64) {
		amounts.each(id, func(c *counted) {
			subject := fmt.Sprintf("staff action %d", id)
			want := ""
			switch c.action {
			case "wallet topup", "wallet adjust":
				want = strings.TrimPrefix(moved(&staffAction{before: c.before, after: c.after}), "-")
			case "review settle", "operation reverse", "reversal settle":
				want = rupees(c.cost.Int64)
			}
			if want != rupees(c.amount) || c.at != c.actAt || c.operator != c.actOperator || c.person != personOf(c.actor) {
				a.found("A10", subject, "%s counts as moved alone by %s for lco %d at %s; expected what the action says, %q by %s for lco %d at %s, which moved %s",
					rupees(c.amount), c.person, c.operator, moment(c.at), c.action, c.actor, c.actOperator, moment(c.actAt), want)
			}
		})
	}, amounts)
}

// personOf is the username of an actor: asha for web:asha and cli:asha.
func personOf(actor string) string {
	if _, name, found := strings.Cut(actor, ":"); found {
		actor = name
	}
	return strings.ToLower(actor)
}
