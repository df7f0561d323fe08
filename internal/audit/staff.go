package audit

import (
	"database/sql"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What staff can change is compared with the staff actions here.

func (a *auditor) readOperators() {
	type account struct {
		id, rateLimit, bps, low, version int64
		name, status, api                string
		secondFactor                     flag
		address, gstin                   string
	}
	secondFactor := "second_factor_required"
	if !a.has(migrationPeople) {
		secondFactor = "0"
	}
	details := "address, gstin"
	if !a.has(migrationReceipts) {
		details = "'', ''"
	}
	accounts := open(a, "operators", `
		SELECT id, name, status, api, rate_limit, commission_bps, low_balance_paise, version, `+secondFactor+`, `+details+`
		  FROM operators ORDER BY id`,
		func(row scanner, o *account) int64 {
			row(&o.id, &o.name, &o.status, &o.api, &o.rateLimit, &o.bps, &o.low, &o.version, &o.secondFactor, &o.address, &o.gstin)
			return o.id
		})
	walk(func(id int64) {
		subject := fmt.Sprintf("lco %d", id)
		a.operatorOf(id).known = true
		for i, o := range accounts.take(id) {
			if i > 0 {
				a.found("O2", subject, "there are two operators of this id; expected 1")
				continue
			}
			a.operatorOf(id).deleted = o.status == "deleted"
			h := a.claim(subject, "lco create")
			if h == nil {
				continue
			}
			if deleted := o.status == "deleted"; deleted != (h.last == "lco delete") {
				a.found("A9", subject, "it is %s, and the last staff action on it is %q", o.status, h.last)
			}
			a.compareState(subject, "the account", h.state, map[string]string{
				"name": o.name, "status": o.status, "api": o.api, "rate_limit": strconv.FormatInt(o.rateLimit, 10),
				"commission_bps": strconv.FormatInt(o.bps, 10), "low_balance": rupees(o.low),
				"second_factor_required": strconv.FormatBool(bool(o.secondFactor)),
				"address":                o.address, "gstin": o.gstin,
			})
			changes := h.total
			if whitelist := a.histories["whitelist of "+subject]; whitelist != nil {
				changes += whitelist.total
			}
			a.checkVersion(subject, o.version, changes)
		}
	}, accounts)
	a.report.Counts.Operators = accounts.count
}

// checkVersion requires that every staff action incremented the version that nodes compare:
// otherwise a node that has cached the row would not see the change.
func (a *auditor) checkVersion(subject string, version, changes int64) {
	if version != changes {
		a.found("A3", subject, "its version is %d; expected %d, one for each staff action", version, changes)
	}
}

func (a *auditor) readKeys() {
	type key struct {
		id, operator, version       int64
		hash                        []byte
		hint, permissions           string
		revoked, expires, successor sql.NullInt64
	}
	owners := map[string]int64{} // of hashes
	keys := open(a, "credentials", `
		SELECT id, operator_id, version, key_hash, hint, permissions, revoked_at, expires_at, replaced_by
		  FROM credentials ORDER BY id`,
		func(row scanner, k *key) int64 {
			row(&k.id, &k.operator, &k.version, &k.hash, &k.hint, &k.permissions, &k.revoked, &k.expires, &k.successor)
			return k.id
		})
	walk(func(id int64) {
		subject := fmt.Sprintf("key %d", id)
		keys.each(id, func(k *key) {
			a.keys[id] = true
			a.requireOperator(k.operator, subject)
			if other, taken := owners[string(k.hash)]; taken {
				a.found("A1", subject, "it is the same key as key %d; expected a key to be one", other)
			}
			owners[string(k.hash)] = id
			h := a.claim(subject, "key issue", "key rotate")
			if h == nil {
				return
			}
			a.checkVersion(subject, k.version, h.total)
			revocations := 0
			if k.revoked.Valid {
				revocations = 1
			}
			if h.actions["key revoke"] != revocations {
				a.found("A9", subject, "%d staff actions revoked it; expected %d", h.actions["key revoke"], revocations)
			}
			a.compareState(subject, "the key", h.state, map[string]string{
				"key": k.hint, "permissions": sorted(k.permissions), "revoked_at": second(k.revoked), "expires_at": second(k.expires),
				"replaced_by": strconv.FormatInt(k.successor.Int64, 10),
			})
		})
	}, keys)
	a.report.Counts.Keys = keys.count
}

func (a *auditor) readWhitelists() {
	type entry struct {
		operator int64
		text     string
	}
	entries := open(a, "whitelist", `SELECT operator_id, entry FROM whitelist ORDER BY operator_id`,
		func(row scanner, e *entry) int64 {
			row(&e.operator, &e.text)
			return e.operator
		})
	present := map[string]string{}
	walk(func(id int64) {
		subject := fmt.Sprintf("whitelist of lco %d", id)
		a.requireOperator(id, subject)
		var texts []string
		entries.each(id, func(e *entry) { texts = append(texts, asPeopleWrite(e.text)) })
		slices.Sort(texts)
		present[subject] = strings.Join(texts, ",")
		if a.histories[subject] == nil {
			a.found("A9", subject, "it has %s, and no staff action put that there", present[subject])
		}
	}, entries)
	for _, subject := range slices.Sorted(maps.Keys(a.histories)) {
		if h := a.histories[subject]; kindOf(subject) == "whitelist of lco" {
			h.claimed = true // an empty list has no rows to be found by
			a.compareState(subject, "it", h.state, map[string]string{"list": present[subject]})
		}
	}
	a.report.Counts.Whitelist = entries.count
}

// requireOperator reports a row whose operator is missing.
func (a *auditor) requireOperator(id int64, subject string) {
	if o := a.operators[id]; o == nil || !o.known {
		a.found("O2", subject, "it belongs to lco %d, which is missing", id)
	}
}

// asPeopleWrite formats a single address without its prefix length, as staff actions do.
func asPeopleWrite(entry string) string {
	if prefix, err := netip.ParsePrefix(entry); err == nil && prefix.IsSingleIP() {
		return prefix.Addr().String()
	}
	return entry
}

func sorted(list string) string {
	if list == "" {
		return ""
	}
	parts := strings.Split(list, ",")
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// second formats a moment as staff actions do; empty if there is none.
func second(ms sql.NullInt64) string {
	if !ms.Valid {
		return ""
	}
	return time.UnixMilli(ms.Int64).In(india).Format("2006-01-02 15:04:05")
}
