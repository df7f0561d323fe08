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

// act is one act of staff as it was written down.
type act struct {
	id, operator, at               int64
	actor, action, subject, reason string
	before, after, origin          string
	hash, mac                      []byte
	macKey                         sql.NullInt64
}

// history is what the acts say of one thing that staff can change.
type history struct {
	born   string // the action of the act that began it; empty if none did
	births int
	acts   int64  // how many there were in all
	last   string // the last action
	state  string // what the last act left
	lastID int64
	// operator is whose it was by the last act; zero if nobody's.
	operator int64
	actions  map[string]int
	// versions are the states by their version, for plans.
	versions map[int64][]string
	// claimed: the thing itself was found.
	claimed bool
}

// readActs proves the chain and keeps what the acts left behind.
func (a *auditor) readActs() {
	var previous []byte
	var last act
	origin := "origin"
	if !a.has(broughtProposals) {
		origin = "''"
	}
	mac := "mac, mac_key"
	if !a.has(broughtIntegrity) {
		mac = "NULL, NULL"
	}
	chain := a.readChainStart()
	acts := open(a, "staff_acts", `
		SELECT id, operator_id, actor, action, subject, before_state, after_state, reason, at, hash, `+origin+`, `+mac+`
		  FROM staff_acts ORDER BY id`,
		func(row scanner, act *act) int64 {
			row(&act.id, &act.operator, &act.actor, &act.action, &act.subject, &act.before, &act.after, &act.reason, &act.at, &act.hash, &act.origin, &act.mac, &act.macKey)
			return act.id
		})
	walk(func(id int64) {
		acts.each(id, func(act *act) {
			if expected := act.chained(previous); !slices.Equal(act.hash, expected) {
				a.found("A9", fmt.Sprintf("act %d", id), "its hash is %s; expected %s: it, or one before it, was changed, added or taken out",
					short(act.hash), short(expected))
			}
			// The chain goes on from what is there, so that one break is told once.
			previous = act.hash
			a.addAction(chain, act, &last)
			a.keep(act)
			if act.action == "proposal approve" {
				a.judgeApproval(&last, act)
			}
			last = *act
		})
	}, acts)
	a.closeActions(chain, &last)
	a.report.ActionsHead = hex.EncodeToString(previous)
	a.report.Counts.Actions = acts.count
}

// chained is the hash an act must have after the one before it: SHA-256 over
// its fields, each behind its length as eight bytes. Where it came from is one of
// them if that is known.
func (act *act) chained(previous []byte) []byte {
	var text []byte
	fields := []string{
		string(previous), act.actor, act.action, act.reason, strconv.FormatInt(act.at, 10), strconv.FormatInt(act.operator, 10),
		act.subject, act.before, act.after,
	}
	if act.origin != "" {
		fields = append(fields, act.origin)
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

// keep follows the things whose state the acts record. Top-ups are not among
// them: they are many, and are held against the wallet's entries one by one.
func (a *auditor) keep(act *act) {
	if act.subject == fmt.Sprintf("subscribers of lco %d", act.operator) {
		imported, _ := strconv.ParseInt(fieldsOf(act.after)["imported"], 10, 64)
		a.operatorOf(act.operator).imports += imported
		return
	}
	kind := kindOf(act.subject)
	if kind == "" {
		return
	}
	h := a.histories[act.subject]
	if h == nil {
		h = &history{actions: map[string]int{}}
		a.histories[act.subject] = h
	}
	if act.before == "" { // it was not there
		h.births++
		h.born = act.action
	}
	if difference := firstDifference(fieldsOf(h.state), fieldsOf(act.before)); difference != "" {
		invariant := "A9"
		if kind == "login" {
			invariant = "A11"
		}
		a.found(invariant, act.subject, "act %d found it changed by nobody: %s", act.id, difference)
	}
	h.last, h.lastID, h.state, h.operator = act.action, act.id, act.after, act.operator
	h.acts++
	h.actions[act.action]++
	switch kind {
	case "lco":
		if rate, err := strconv.ParseInt(fieldsOf(act.after)["commission_bps"], 10, 64); err == nil {
			a.operatorOf(act.operator).rates[rate] = true
		}
		if most, err := strconv.ParseInt(fieldsOf(act.after)["rate_limit"], 10, 64); err == nil {
			o := a.operatorOf(act.operator)
			o.limits = append(o.limits, limit{act.at, most})
		}
	case "login":
		a.keepAccess(act)
	case "plan":
		version, _ := strconv.ParseInt(fieldsOf(act.after)["version"], 10, 64)
		if h.versions == nil {
			h.versions = map[int64][]string{}
		}
		h.versions[version] = append(h.versions[version], act.after)
	}
}

// kindOf is what a subject names, of the things whose state is followed. All but
// plans are numbered; whatever else begins with the same words is not meant.
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

// closeHistories names what the acts made and nobody found.
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
			a.found("A9", subject, "version %d has %d acts of staff; expected 1", version.version, len(states))
			continue
		}
		a.holdAgainst(subject, fmt.Sprintf("version %d of it", version.version), states[0], map[string]string{
			"name": version.name, "price": rupees(version.price), "duration": fmt.Sprint(version.months), "type": version.kind,
			"main": version.main, "addon": version.addon, "retired": fmt.Sprint(bool(version.retired)),
		})
	}
	for _, subject := range slices.Sorted(maps.Keys(a.histories)) {
		h := a.histories[subject]
		if id, is := strings.CutPrefix(subject, "plan "); is && h.claimed {
			a.holdAgainst(subject, "it", h.state, map[string]string{"description": a.descriptions[id]})
		}
		if !h.claimed {
			a.found("A9", subject, "an act of staff made it (%s), and it is not there", h.born)
			continue
		}
		for _, version := range slices.Sorted(maps.Keys(h.versions)) {
			a.found("A9", subject, "an act of staff made version %d, and its history has none", version)
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

// claim finds the history of a thing that is there, and demands that one act
// of the right name began it.
func (a *auditor) claim(subject string, beginnings ...string) *history {
	h := a.histories[subject]
	if h == nil {
		a.found("A9", subject, "it is there, and no act of staff made it; expected one of %s", strings.Join(beginnings, ", "))
		return nil
	}
	h.claimed = true
	if h.births != 1 || !slices.Contains(beginnings, h.born) {
		a.found("A9", subject, "%d acts of staff began it, the last being %q; expected 1 of %s", h.births, h.born, strings.Join(beginnings, ", "))
	}
	return h
}

// holdAgainst compares a thing with the state its last act left it in. Fields
// that the act did not know, or that are new since, are not compared.
func (a *auditor) holdAgainst(subject, what, state string, present map[string]string) {
	if difference := firstDifference(fieldsOf(state), present); difference != "" {
		a.found("A9", subject, "%s is not as the last act of staff left it: %s", what, difference)
	}
}

// firstDifference names the first field, in the order of names, in which two
// states differ.
func firstDifference(left, found map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if value, known := found[name]; known && value != left[name] {
			return fmt.Sprintf("%s is %q; expected %q", name, value, left[name])
		}
	}
	return ""
}

// fieldsOf reads a state of the log: an object's fields as texts, or a list as
// a field of its own.
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
