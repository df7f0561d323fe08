package audit

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Logins are compared with the staff actions here: those of staff, and those by which people
// change their own login, which are in the same chain.
//
// A staff action says that a password or a second factor was set, and when, but not its value.
// So a replaced password hash, recovery code or passkey is not detected. Sessions expire and
// leave no staff action.

// maxRecoveryCodes is how many recovery codes come with a second factor, maxPasskeys how
// many passkeys one person has.
const maxRecoveryCodes, maxPasskeys = 10, 10

// What to do about a login that differs from its staff actions.
const (
	adviceDisable = "somebody wrote to the store past the service: switch the login off (coax admin login set --username %s --status disabled), " +
		"and find out who can write there before you trust it again"
	adviceRestore = "logins are switched off, never taken out: somebody wrote to the store past the service; " +
		"find out who can write there, and take the row from a backup"
)

type loginRow struct {
	operator, changed      sql.NullInt64
	version                int64
	username, name         string
	realm, role            string
	mustChange, off, twice flag
	passkeys               int64
}

// readLogins checks that every login was created by a staff action and is as the last one left
// it, and that none is missing.
func (a *auditor) readLogins() {
	if !a.has(migrationLogins) {
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
	passkeys := a.openPasskeys()
	staff := map[int64]bool{}
	walk(func(id int64) {
		subject := fmt.Sprintf("login %d", id)
		found, ways, keys := logins.take(id), sum(codes.take(id)), sum(passkeys.take(id))
		if len(found) == 0 {
			a.found("A11", subject, "there are %d recovery codes and %d passkeys of it, and no such login", ways, keys)
			return
		}
		for _, l := range found {
			staff[id] = l.realm == "staff"
			l.passkeys = keys
			a.checkLogin(subject, l)
			if keys > maxPasskeys {
				a.found("A11", subject, "%q has %d passkeys; expected %d at most: "+adviceDisable, l.username, keys, maxPasskeys, l.username)
			}
			if ways > 0 && (ways > maxRecoveryCodes || !bool(l.twice) && keys == 0) {
				a.found("A11", subject, "%q has %d recovery codes; expected %d at most, and none without a second factor: "+adviceDisable,
					l.username, ways, maxRecoveryCodes, l.username)
			}
		}
	}, logins, codes, passkeys)
	a.report.Counts.Logins = logins.count
	a.readGrants(staff)
	for _, subject := range slices.Sorted(maps.Keys(a.histories)) {
		if h := a.histories[subject]; kindOf(subject) == "login" && !h.claimed {
			h.claimed = true
			a.found("A11", subject, "staff action %d is about %q, and it is missing: %s", h.lastID, fieldsOf(h.state)["username"], adviceRestore)
		}
	}
}

// openPasskeys counts the passkeys of each login; there are none in a store from before.
func (a *auditor) openPasskeys() *stream[int64, int64] {
	query := `SELECT login_id, count(*) FROM login_passkeys GROUP BY login_id ORDER BY login_id`
	if !a.has(migrationPasskeys) {
		query = `SELECT id, 0 FROM logins WHERE id < 0`
	}
	return open(a, "login_passkeys", query, func(row scanner, count *int64) (id int64) {
		row(&id, count)
		return id
	})
}

func sum(counts []int64) (total int64) {
	for _, count := range counts {
		total += count
	}
	return total
}

func (a *auditor) checkLogin(subject string, l loginRow) {
	if l.operator.Valid {
		a.requireOperator(l.operator.Int64, subject)
	}
	h := a.histories[subject]
	if h == nil {
		a.found("A11", subject, "%q is there as %s, and no staff action made it: "+adviceDisable, l.username, l.role, l.username)
		return
	}
	h.claimed = true
	if h.births != 1 || h.born != "login create" {
		a.found("A11", subject, "%d staff actions began it, the last being %q; expected 1 of login create", h.births, h.born)
	}
	present := map[string]string{
		"username": l.username, "name": l.name, "realm": l.realm, "role": l.role, "disabled": strconv.FormatBool(bool(l.off)),
		"totp": strconv.FormatBool(bool(l.twice)), "must_change_password": strconv.FormatBool(bool(l.mustChange)),
		"password_changed_at": second(l.changed), "passkeys": strconv.FormatInt(l.passkeys, 10),
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
		a.found("A11", subject, "%q is not as staff action %d left it: %s: "+adviceDisable, l.username, h.lastID, strings.Join(wrong, ", "), l.username)
	}
	a.checkVersion(subject, l.version, h.total)
}
