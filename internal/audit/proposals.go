package audit

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/money"
)

// Proposals: each step has its staff action, one person proposes and another approves, and
// the change was made at the approval, by the person who approved it.

// proposalLifeMS is how long a proposal waits for its second person.
const proposalLifeMS = 24 * 60 * 60 * 1000

type proposal struct {
	id, operator, amount, made           int64
	kind, reference, transaction, reason string
	matter, maker, status, answer        string
	subject, change                      string
	confirm                              flag
	checker                              sql.NullString
	decided                              sql.NullInt64
}

// steps are the staff actions that a proposal of a status has behind it.
var steps = map[string][]string{
	"open":      {"proposal make"},
	"lapsed":    {"proposal make"},
	"approved":  {"proposal make", "proposal approve"},
	"declined":  {"proposal make", "proposal decline"},
	"withdrawn": {"proposal make", "proposal withdraw"},
}

// readProposals compares the proposals with the staff actions.
func (a *auditor) readProposals() {
	if !a.has(migrationProposals) {
		return
	}
	wants := `subject, change`
	if !a.has(migrationSubjects) {
		wants = `'', ''`
	}
	proposals := open(a, "proposals", `
		SELECT 'proposal ' || id, id, kind, operator_id, amount_paise, reference, transaction_id, confirm, reason, matter, maker, made_at,
		       status, checker, decided_at, answer, `+wants+`
		  FROM proposals ORDER BY ('proposal ' || id) `+bytewise,
		func(row scanner, p *proposal) (subject string) {
			row(&subject, &p.id, &p.kind, &p.operator, &p.amount, &p.reference, &p.transaction, &p.confirm, &p.reason, &p.matter, &p.maker, &p.made,
				&p.status, &p.checker, &p.decided, &p.answer, &p.subject, &p.change)
			return subject
		})
	actions := open(a, "staff_acts", `
		SELECT subject, id, operator_id, actor, action, after_state, reason, at
		  FROM staff_acts WHERE action IN ('proposal make', 'proposal approve', 'proposal decline', 'proposal withdraw')
		 ORDER BY subject `+bytewise+`, id`,
		func(row scanner, action *staffAction) string {
			row(&action.subject, &action.id, &action.operator, &action.actor, &action.action, &action.after, &action.reason, &action.at)
			return action.subject
		})
	matters := map[string]string{} // that are open
	walk(func(subject string) {
		found, said := proposals.take(subject), actions.take(subject)
		if len(found) != 1 {
			a.found("A10", subject, "there are %d proposals of this id, and %d staff actions on it; expected 1", len(found), len(said))
			return
		}
		p := found[0]
		if p.operator != 0 || p.subject == "" {
			a.requireOperator(p.operator, subject)
		}
		a.checkProposal(subject, p, said)
		if p.status == "open" {
			matter := fmt.Sprintf("%d %s", p.operator, p.matter)
			if other := matters[matter]; other != "" {
				a.found("A10", subject, "it wants to %s, which %s does already; expected one at a time", p.matter, other)
			}
			matters[matter] = subject
		}
	}, proposals, actions)
	a.report.Counts.Proposals = proposals.count
}

func (a *auditor) checkProposal(subject string, p proposal, said []staffAction) {
	expected := steps[p.status]
	var told []string
	for _, action := range said {
		told = append(told, action.action)
	}
	if expected == nil || strings.Join(told, ", ") != strings.Join(expected, ", ") {
		a.found("A10", subject, "it is %s, and the staff actions on it are %q; expected %q", p.status, told, expected)
		return
	}
	for i, action := range said {
		who, at, reason := p.maker, p.made, p.reason
		if i > 0 {
			who, at, reason = p.checker.String, p.decided.Int64, p.answer
		}
		if action.actor != who || action.at != at || action.operator != p.operator || action.reason != reason {
			a.found("A10", subject, "%q is by %s at %s, %q; expected what staff action %d says, %s at %s, %q",
				action.action, who, moment(at), reason, action.id, action.actor, moment(action.at), action.reason)
		}
		status := "open"
		if i > 0 {
			status = p.status
		}
		present := map[string]string{
			"kind": p.kind, "amount": rupees(p.amount), "maker": p.maker, "status": status, "reference": p.reference,
			"subject": p.subject, "change": p.change, "transaction_id": p.transaction, "confirm": strconv.FormatBool(bool(p.confirm)),
		}
		if difference := firstDifference(fieldsOf(action.after), present); difference != "" {
			a.found("A10", subject, "it is not as staff action %d left it: %s", action.id, difference)
		}
	}
	switch {
	case p.status == "lapsed" && p.decided.Int64 != p.made+proposalLifeMS && !a.lapsedWithMaker(p):
		a.found("A10", subject, "it lapsed at %s; expected %s, a day after it was made, or that its maker's login was disabled or changed then", moment(p.decided.Int64), moment(p.made+proposalLifeMS))
	case p.status == "approved" && p.decided.Int64 >= p.made+proposalLifeMS:
		a.found("A10", subject, "it was approved at %s; expected that before %s, when it lapsed", moment(p.decided.Int64), moment(p.made+proposalLifeMS))
	case (p.status == "approved" || p.status == "declined") && p.checker.String == p.maker:
		a.found("A10", subject, "%s made it and %s it; expected two people", p.maker, p.status)
	}
}

// checkApproval requires that an approval follows the staff action that it approves, by the
// same actor at the same time.
func (a *auditor) checkApproval(done, approval *staffAction) {
	state := fieldsOf(approval.after)
	same := done.actor == approval.actor && done.at == approval.at && done.operator == approval.operator && done.origin == approval.origin
	var want string
	switch state["kind"] {
	case "topup":
		want = fmt.Sprintf("wallet topup: wallet of lco %d, reference %s", approval.operator, state["reference"])
		same = same && moved(done) == state["amount"]
	case "adjust":
		want = fmt.Sprintf("wallet adjust: wallet of lco %d", approval.operator)
		same = same && moved(done) == state["amount"]
	case "settle":
		want = "review settle: operation " + state["transaction_id"]
		outcome := "success"
		if strings.HasPrefix(state["transaction_id"], "RV") {
			// The settlement of a reversal, which is an action on its operation.
			want, outcome = "reversal settle: "+done.subject, "reversed"
			same = same && fieldsOf(done.after)["reference"] == state["transaction_id"] && fieldsOf(done.after)["amount"] == state["amount"]
		}
		same = same && (fieldsOf(done.after)["status"] == outcome) == (state["confirm"] == "true")
	case "reverse":
		want = "operation reverse: operation " + state["transaction_id"]
		same = same && fieldsOf(done.after)["amount"] == state["amount"]
	case "login":
		// The login has an id since it was made.
		want = "login create: " + done.subject
		same = same && state["subject"] == "login "+fieldsOf(done.after)["username"] && firstDifference(wantedOf(state), fieldsOf(done.after)) == ""
	case "role":
		want = "login set: " + state["subject"]
		same = same && fieldsOf(done.before)["role"] == wantedOf(state)["from"] && fieldsOf(done.after)["role"] == wantedOf(state)["role"]
	case "password":
		want = "login reset-password: " + state["subject"]
	case "totp":
		want = "login reset-totp: " + state["subject"]
	case "plan":
		want = "plan set: " + state["subject"]
		same = same && plannedAs(done, state["change"])
	}
	if !same || done.action+": "+done.subject != want {
		a.found("A10", approval.subject, "staff action %d approves %s of %s, and the staff action before it is %q by %s (%s); expected what was approved",
			approval.id, want, state["amount"], done.action+": "+done.subject, done.actor, moved(done))
	}
}

// wantedOf returns the change that a proposal about a login asks for.
func wantedOf(state map[string]string) map[string]string { return fieldsOf(state["change"]) }

// moved returns the change of a wallet's balance by a staff action.
func moved(action *staffAction) string {
	before, err1 := money.Parse(fieldsOf(action.before)["wallet_balance"])
	after, err2 := money.Parse(fieldsOf(action.after)["wallet_balance"])
	if err1 != nil || err2 != nil {
		return ""
	}
	return after.Sub(before).String()
}

// plannedAs reports whether a staff action left a plan as a proposal wanted it, one version
// after the one that the proposal was made from.
func plannedAs(action *staffAction, change string) bool {
	var wanted struct {
		Was struct {
			Version int64 `json:"version"`
		} `json:"was"`
		Plan json.RawMessage `json:"plan"`
	}
	if json.Unmarshal([]byte(change), &wanted) != nil {
		return false
	}
	plan, left := fieldsOf(string(wanted.Plan)), fieldsOf(action.after)
	for _, field := range []string{"name", "description", "price", "duration", "type", "main", "addon"} {
		if plan[field] != left[field] {
			return false
		}
	}
	return left["version"] == strconv.FormatInt(wanted.Was.Version+1, 10)
}
