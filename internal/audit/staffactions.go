package audit

import (
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// staffAction is a row of staff_acts.
type staffAction struct {
	id, operator, at               int64
	actor, action, subject, reason string
	before, after, origin          string
	hash, mac                      []byte
	macKey                         sql.NullInt64
}

// history is the sequence of staff actions on one thing that staff can change.
type history struct {
	born   string // the action that created it; empty if none did
	births int
	total  int64  // how many there were in all
	last   string // the last action
	state  string // after the last action
	lastID int64
	// operator is the last action's; zero if it has none.
	operator int64
	actions  map[string]int
	// versions are the states by their version, for plans.
	versions map[int64][]string
	// claimed: the thing itself exists.
	claimed bool
}

// readStaffActions checks the chain and records the histories.
func (a *auditor) readStaffActions() {
	var previous []byte
	var last staffAction
	origin := "origin"
	if !a.has(migrationProposals) {
		origin = "''"
	}
	mac := "mac, mac_key"
	if !a.has(migrationIntegrity) {
		mac = "NULL, NULL"
	}
	chain := a.readChainStart()
	actions := open(a, "staff_acts", `
		SELECT id, operator_id, actor, action, subject, before_state, after_state, reason, at, hash, `+origin+`, `+mac+`
		  FROM staff_acts ORDER BY id`,
		func(row scanner, action *staffAction) int64 {
			row(&action.id, &action.operator, &action.actor, &action.action, &action.subject, &action.before, &action.after, &action.reason, &action.at, &action.hash, &action.origin, &action.mac, &action.macKey)
			return action.id
		})
	walk(func(id int64) {
		actions.each(id, func(action *staffAction) {
			if expected := action.chained(previous); !slices.Equal(action.hash, expected) {
				a.found("A9", fmt.Sprintf("staff action %d", id), "its hash is %s; expected %s: it, or one before it, was changed, added or taken out",
					short(action.hash), short(expected))
			}
			// Continue from the stored hash, so that one break is reported once.
			previous = action.hash
			a.addAction(chain, action, &last)
			a.record(action)
			if action.action == "proposal approve" {
				a.checkApproval(&last, action)
			}
			last = *action
		})
	}, actions)
	a.closeActions(chain, &last)
	a.report.ActionsHead = hex.EncodeToString(previous)
	a.report.Counts.Actions = actions.count
}

// chained returns the hash that an action must have after the one before it: SHA-256 over
// its fields, each after its length as eight bytes. The origin is one of them if there is
// one.
func (action *staffAction) chained(previous []byte) []byte {
	var text []byte
	fields := []string{
		string(previous), action.actor, action.action, action.reason, strconv.FormatInt(action.at, 10), strconv.FormatInt(action.operator, 10),
		action.subject, action.before, action.after,
	}
	if action.origin != "" {
		fields = append(fields, action.origin)
	}
	for _, field := range fields {
		text = binary.BigEndian.AppendUint64(text, uint64(len(field)))
		text = append(text, field...)
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

func short(hash []byte) string {
	if len(hash) > 6 {
		hash = hash[:6]
	}
	return hex.EncodeToString(hash) + "…"
}

// record records the history of what an action changed. Top-ups are left out: there are many,
// and they are compared with the wallet entries one by one.
func (a *auditor) record(action *staffAction) {
	if action.subject == fmt.Sprintf("subscribers of lco %d", action.operator) {
		imported, _ := strconv.ParseInt(fieldsOf(action.after)["imported"], 10, 64)
		a.operatorOf(action.operator).imports += imported
		return
	}
	kind := kindOf(action.subject)
	if kind == "" {
		return
	}
	h := a.histories[action.subject]
	if h == nil {
		h = &history{actions: map[string]int{}}
		a.histories[action.subject] = h
	}
	if action.before == "" { // it is new
		h.births++
		h.born = action.action
	}
	if difference := firstDifference(fieldsOf(h.state), fieldsOf(action.before)); difference != "" {
		invariant := "A9"
		if kind == "login" {
			invariant = "A11"
		}
		a.found(invariant, action.subject, "staff action %d found it changed by nobody: %s", action.id, difference)
	}
	h.last, h.lastID, h.state, h.operator = action.action, action.id, action.after, action.operator
	h.total++
	h.actions[action.action]++
	switch kind {
	case "lco":
		if rate, err := strconv.ParseInt(fieldsOf(action.after)["commission_bps"], 10, 64); err == nil {
			a.operatorOf(action.operator).rates[rate] = true
		}
		if requests, err := strconv.ParseInt(fieldsOf(action.after)["rate_limit"], 10, 64); err == nil {
			o := a.operatorOf(action.operator)
			o.limits = append(o.limits, limit{action.at, requests})
		}
	case "login":
		a.recordAccess(action)
	case "plan":
		version, _ := strconv.ParseInt(fieldsOf(action.after)["version"], 10, 64)
		if h.versions == nil {
			h.versions = map[int64][]string{}
		}
		h.versions[version] = append(h.versions[version], action.after)
	}
}

// kindOf returns the kind of a subject whose history is recorded; empty for others. All but
// plans are numbered.
func kindOf(subject string) string {
	for _, kind := range []string{"lco", "key", "plan", "whitelist of lco", "login"} {
		if rest, is := strings.CutPrefix(subject, kind+" "); is {
			if _, err := strconv.ParseInt(rest, 10, 64); err == nil || kind == "plan" {
				return kind
			}
		}
	}
	return ""
}

func (a *auditor) operatorOf(id int64) *operator {
	o := a.operators[id]
	if o == nil {
		o = &operator{rates: map[int64]bool{}}
		a.operators[id] = o
	}
	return o
}

// closeHistories reports what the staff actions created and is missing in the store.
func (a *auditor) closeHistories() {
	for _, version := range a.planVersions() {
		subject := "plan " + version.plan
		h := a.histories[subject]
		if h == nil {
			h = &history{}
		}
		h.claimed = true
		states := h.versions[version.version]
		delete(h.versions, version.version)
		if len(states) != 1 {
			a.found("A9", subject, "version %d has %d staff actions; expected 1", version.version, len(states))
			continue
		}
		a.compareState(subject, fmt.Sprintf("version %d of it", version.version), states[0], map[string]string{
			"name": version.name, "price": rupees(version.price), "duration": fmt.Sprint(version.months), "type": version.kind,
			"main": version.main, "addon": version.addon, "retired": fmt.Sprint(bool(version.retired)),
		})
	}
	for _, subject := range slices.Sorted(maps.Keys(a.histories)) {
		h := a.histories[subject]
		if id, is := strings.CutPrefix(subject, "plan "); is && h.claimed {
			a.compareState(subject, "it", h.state, map[string]string{"description": a.descriptions[id]})
		}
		if !h.claimed {
			a.found("A9", subject, "a staff action made it (%s), and it is missing", h.born)
			continue
		}
		for _, version := range slices.Sorted(maps.Keys(h.versions)) {
			a.found("A9", subject, "a staff action made version %d, and its history has none", version)
		}
	}
	a.histories = nil
}

func (a *auditor) planVersions() []planVersion {
	var all []planVersion
	for _, id := range slices.Sorted(maps.Keys(a.plans)) {
		all = append(all, a.plans[id]...)
	}
	return all
}

// claim finds the history of an existing row, and checks that one staff action of the right
// name began it.
func (a *auditor) claim(subject string, beginnings ...string) *history {
	h := a.histories[subject]
	if h == nil {
		a.found("A9", subject, "it is there, and no staff action made it; expected one of %s", strings.Join(beginnings, ", "))
		return nil
	}
	h.claimed = true
	if h.births != 1 || !slices.Contains(beginnings, h.born) {
		a.found("A9", subject, "%d staff actions began it, the last being %q; expected 1 of %s", h.births, h.born, strings.Join(beginnings, ", "))
	}
	return h
}

// compareState compares a row with the state that its last staff action left. Fields that the
// staff action did not have, or that are new since, are not compared.
func (a *auditor) compareState(subject, what, state string, present map[string]string) {
	if difference := firstDifference(fieldsOf(state), present); difference != "" {
		a.found("A9", subject, "%s is not as the last staff action left it: %s", what, difference)
	}
}

// firstDifference returns the first field, by name, in which two states differ.
func firstDifference(left, found map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if value, known := found[name]; known && value != left[name] {
			return fmt.Sprintf("%s is %q; expected %q", name, value, left[name])
		}
	}
	return ""
}

// fieldsOf parses a logged state: an object's fields as texts, or a list as one field.
func fieldsOf(state string) map[string]string {
	if state == "" {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(state))
	decoder.UseNumber() // amounts keep their two decimals
	var value any
	if decoder.Decode(&value) != nil {
		return map[string]string{"state": state}
	}
	object, is := value.(map[string]any)
	if !is {
		return map[string]string{"list": textOf(value)}
	}
	fields := make(map[string]string, len(object))
	for name, value := range object {
		fields[name] = textOf(value)
	}
	return fields
}

func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []any:
		texts := make([]string, len(v))
		for i, one := range v {
			texts[i] = textOf(one)
		}
		slices.Sort(texts)
		return strings.Join(texts, ",")
	}
	return fmt.Sprint(value)
}
