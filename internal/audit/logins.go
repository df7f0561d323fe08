package audit

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What people sign in with is held against the acts here: those of staff, and those
// by which people change their own login, which are in the same chain.
//
// An act says that a password or a second factor was set, and when, never which. A
// hash that was put in another's place is therefore not seen, nor a recovery code;
// and sessions, which end by themselves, leave no act.

// recoveryCodesMost is how many recovery codes come with a second factor.
const recoveryCodesMost = 10

// What is to be done about a login that is not as the acts say.
const (
	switchOff = "somebody wrote to the store past the service: switch the login off (coax admin login set --username %s --status disabled), " +
		"and find out who can write there before you trust it again"
	bringBack = "logins are switched off, never taken out: somebody wrote to the store past the service; " +
		"find out who can write there, and take the row from a backup"
)

type loginRow struct {
	operator, changed      sql.NullInt64
	version                int64
	username, name         string
	realm, role            string
	mustChange, off, twice flag
}

// readLogins demands that every login is as the last act left it, that an act made
// it, and that none is missing.
func (a *auditor) readLogins() {
	if !a.has(broughtLogins) {
		return
	}
	logins := open(a, "logins", `
		SELECT id, operator_id, username, name, realm, role, must_change_password, disabled, password_changed_at, totp IS NOT NULL, version
		  FROM logins ORDER BY id`,
		func(row scanner, l *loginRow) (id int64) {
			row(&id, &l.operator, &l.username, &l.name, &l.realm, &l.role, &l.mustChange, &l.off, &l.changed, &l.twice, &l.version)
			return id
		})
	codes := open(a, "login_recovery_codes", `SELECT login_id, count(*) FROM login_recovery_codes GROUP BY login_id ORDER BY login_id`,
		func(row scanner, count *int64) (id int64) {
			row(&id, count)
			return id
		})
	staff := map[int64]bool{}
	walk(func(id int64) {
		subject := fmt.Sprintf("login %d", id)
		found, ways := logins.take(id), codes.take(id)
		if len(found) == 0 {
			a.found("A11", subject, "there are %d recovery codes of it, and no such login", ways[0])
			return
		}
		for _, l := range found {
			staff[id] = l.realm == "staff"
			a.judgeLogin(subject, l)
			if len(ways) > 0 && (ways[0] > recoveryCodesMost || !bool(l.twice)) {
				a.found("A11", subject, "%q has %d recovery codes; expected %d at most, and none without a second factor: "+switchOff,
					l.username, ways[0], recoveryCodesMost, l.username)
			}
		}
	}, logins, codes)
	a.report.Counts.Logins = logins.count
	a.readGrants(staff)
	for _, subject := range slices.Sorted(maps.Keys(a.histories)) {
		if h := a.histories[subject]; kindOf(subject) == "login" && !h.claimed {
			h.claimed = true
			a.found("A11", subject, "act %d is about %q, and it is not there: %s", h.lastID, fieldsOf(h.state)["username"], bringBack)
		}
	}
}

func (a *auditor) judgeLogin(subject string, l loginRow) {
	if l.operator.Valid {
		a.demandOperator(l.operator.Int64, subject)
	}
	h := a.histories[subject]
	if h == nil {
		a.found("A11", subject, "%q is there as %s, and no act made it: "+switchOff, l.username, l.role, l.username)
		return
	}
	h.claimed = true
	if h.births != 1 || h.born != "login create" {
		a.found("A11", subject, "%d acts began it, the last being %q; expected 1 of login create", h.births, h.born)
	}
	present := map[string]string{
		"username": l.username, "name": l.name, "realm": l.realm, "role": l.role, "disabled": strconv.FormatBool(bool(l.off)),
		"totp": strconv.FormatBool(bool(l.twice)), "must_change_password": strconv.FormatBool(bool(l.mustChange)),
		"password_changed_at": second(l.changed),
	}
	left := fieldsOf(h.state)
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if value, known := present[name]; known && value != left[name] {
			wrong = append(wrong, fmt.Sprintf("%s is %q; expected %q", name, value, left[name]))
		}
	}
	if l.operator.Int64 != h.operator {
		wrong = append(wrong, fmt.Sprintf("its operator is %d; expected %d", l.operator.Int64, h.operator))
	}
	if len(wrong) > 0 {
		a.found("A11", subject, "%q is not as act %d left it: %s: "+switchOff, l.username, h.lastID, strings.Join(wrong, ", "), l.username)
	}
	a.judgeVersion(subject, l.version, h.acts)
}
