package audit

import (
	"fmt"
	"strings"
)

// Grants record who gave staff logins their access in the console, and are compared with the
// staff actions here. Actions of the command line leave no grant.

// consoleActor is the prefix of actors in the console; the username follows.
const consoleActor = "web:"

// grantedBy is the staff action by which a login is given access of a kind.
var grantedBy = map[string]string{
	"created": "login create", "password": "login reset-password", "totp": "login reset-totp", "role": "login set",
}

// accessAction identifies a staff action on a login.
type accessAction struct {
	subject, action string
	at              int64
}

// recordAccess records the actor of an action on a login, and when its person may have lost
// the right to make proposals.
func (a *auditor) recordAccess(action *staffAction) {
	if a.access == nil {
		a.access, a.lost = map[accessAction]string{}, map[string]bool{}
	}
	before, after := fieldsOf(action.before), fieldsOf(action.after)
	if after["realm"] != "staff" {
		return
	}
	a.access[accessAction{action.subject, action.action, action.at}] = action.actor
	if action.action == "login set" && (after["disabled"] == "true" || after["role"] != before["role"]) {
		a.lost[lostBy(after["username"], action.at)] = true
	}
}

func lostBy(username string, at int64) string { return fmt.Sprint(at, " ", username) }

// lapsedWithMaker reports whether a proposal lapsed when its maker's login was disabled
// or got another role.
func (a *auditor) lapsedWithMaker(p proposal) bool {
	username, is := strings.CutPrefix(p.maker, consoleActor)
	return is && p.decided.Int64 < p.made+proposalLifeMS && a.lost[lostBy(username, p.decided.Int64)]
}

type grantRow struct {
	what, actor string
	alone, saw  flag
	at          int64
}

// readGrants checks that every grant belongs to an existing staff login and follows from a
// staff action of the console: one grant if one person acted alone, two if two people agreed,
// and one more for each person who controls the login of one of them.
func (a *auditor) readGrants(staff map[int64]bool) {
	if !a.has(migrationGrants) {
		return
	}
	grants := open(a, "login_grants", `SELECT login_id, what, actor, alone, saw_password, at FROM login_grants ORDER BY login_id`,
		func(row scanner, g *grantRow) (id int64) {
			row(&id, &g.what, &g.actor, &g.alone, &g.saw, &g.at)
			return id
		})
	walk(func(id int64) {
		subject := fmt.Sprintf("login %d", id)
		byKind := map[string][]grantRow{}
		for _, g := range grants.take(id) {
			byKind[g.what] = append(byKind[g.what], g)
		}
		if !staff[id] {
			a.found("A11", subject, "somebody gave it access in the console, and there is no such staff login")
			return
		}
		for _, what := range []string{"created", "password", "totp", "role"} {
			if given := byKind[what]; len(given) > 0 {
				a.checkGrants(subject, what, given)
			}
		}
	}, grants)
}

func (a *auditor) checkGrants(subject, what string, given []grantRow) {
	at, alone, did, byOne := given[0].at, 0, false, false
	actor := a.access[accessAction{subject, grantedBy[what], at}]
	for _, g := range given {
		if g.at != at || !strings.HasPrefix(g.actor, consoleActor) || bool(g.saw) && g.actor != actor {
			a.found("A11", subject, "%s gave it access (%s) at %s; expected somebody in the console, at one moment", g.actor, what, moment(g.at))
		}
		if g.alone {
			alone++
		}
		if g.actor == actor {
			did, byOne = true, bool(g.alone)
		}
	}
	if !did {
		a.found("A11", subject, "%s gave it access (%s) at %s, and no staff action of theirs says so", given[0].actor, what, moment(at))
	}
	// A person who controls the login of one of them has a grant, too.
	if byOne && alone != len(given) || !byOne && len(given)-alone < 2 {
		a.found("A11", subject, "%d people gave it access (%s), %d of them alone; expected one alone, or two", len(given), what, alone)
	}
}
