package console

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// stateValue is the formatted value of a field.
type stateValue struct {
	Text string
	// Word: Text is an English text of ours, to be translated.
	Word bool
}

// readState parses the before or after of an audit entry into fields. A state that is not an
// object, such as a whitelist, is one field without a name.
func readState(state string, named func(actor string) string) map[string]stateValue {
	if state == "" {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(state), &fields) != nil {
		return map[string]stateValue{"": readValue("", json.RawMessage(state))}
	}
	values := map[string]stateValue{}
	for name, value := range fields {
		if name == "change" && addChange(values, value) {
			continue
		}
		values[name] = readValue(name, value)
		if slices.Contains(actorFields, name) {
			values[name] = stateValue{Text: named(values[name].Text)}
		}
	}
	return values
}

// addChange adds a proposal's change to the fields of its state: of a plan the differences,
// of a login all fields. It returns false for what it cannot parse.
func addChange(values map[string]stateValue, raw json.RawMessage) bool {
	var text string
	var wanted map[string]json.RawMessage
	if json.Unmarshal(raw, &text) != nil || json.Unmarshal([]byte(text), &wanted) != nil {
		return false
	}
	was, is := map[string]json.RawMessage{}, wanted
	if plan, of := wanted["plan"]; of {
		is = nil
		if json.Unmarshal(wanted["was"], &was) != nil || json.Unmarshal(plan, &is) != nil {
			return false
		}
	} else if from, of := wanted["from"]; of {
		was["role"] = from
		delete(is, "from")
	}
	for name, value := range is {
		before, after := readValue(name, was[name]), readValue(name, value)
		switch {
		case before == after:
		case before.Text == "" || before.Text == look.Rupees(money.Amount{}):
			values[name] = after
		default:
			values[name] = stateValue{Text: before.Text + " → " + after.Text}
		}
	}
	return true
}

var (
	// stateFields hold a state with a display name.
	stateFields = []string{"status", "addon_status", "outcome", "api"}
	// actorFields hold who did something, such as web:asha.
	actorFields = []string{"maker"}
	// amountFields hold rupees.
	amountFields = []string{"amount", "held", "low_balance", "price", "wallet_balance"}
	// numberFields hold an id; 0 means none.
	numberFields = []string{"replaced_by"}
	// fieldTexts are the English texts of values of a field.
	fieldTexts = map[string]map[string]string{
		"kind": {
			string(admin.ProposedTopUp): look.Text("Top up the wallet"), string(admin.ProposedAdjustment): look.Text("Adjust the wallet"),
			string(admin.ProposedReversal): look.Text("Reverse an operation"), string(admin.ProposedSettlement): look.Text("Settle it"), string(admin.ProposedPlan): look.Text("Create or change a plan"),
			string(admin.ProposedLogin): look.Text("Create a login"), string(admin.ProposedRole): look.Text("Change a login's role"),
			string(admin.ProposedPassword): look.Text("Reset a login's password"), string(admin.ProposedTOTP): look.Text("Remove a login's second factor"),
		},
		"realm": {string(login.Staff): look.Text("Staff"), string(login.Operator): look.Text("Operator")},
		"type":  {string(subscription.Standard): look.Text("Standard"), string(subscription.Combo): look.Text("Combo")},
	}
)

func readValue(field string, raw json.RawMessage) stateValue {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return stateValue{Text: string(raw)}
	}
	switch value := value.(type) {
	case nil:
		return stateValue{}
	case bool:
		if value {
			return stateValue{look.Text("yes"), true}
		}
		return stateValue{look.Text("no"), true}
	case string:
		if word, known := look.StateText(value); known && slices.Contains(stateFields, field) {
			return stateValue{word, true}
		}
		if word, known := fieldTexts[field][value]; known {
			return stateValue{word, true}
		}
		if word := web.RoleName(login.Role(value)); field == "role" && word != "" {
			return stateValue{word, true}
		}
		return stateValue{Text: value}
	case float64:
		if value == 0 && slices.Contains(numberFields, field) {
			return stateValue{}
		}
		if amount, err := money.Parse(string(raw)); err == nil && slices.Contains(amountFields, field) {
			return stateValue{Text: look.Rupees(amount)}
		}
		return stateValue{Text: string(raw)}
	}
	return stateValue{Text: strings.NewReplacer(`"`, "", ",", ", ", "[", "", "]", "").Replace(string(raw))}
}
