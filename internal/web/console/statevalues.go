package console

import (
	"encoding/json"
	"slices"
	"strings"

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
func readState(state string) map[string]stateValue {
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
		case before.Text == "" || before.Text == "0.00":
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
	// numberFields hold an id; 0 means none.
	numberFields = []string{"replaced_by"}
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
		return stateValue{Text: value}
	case float64:
		if value == 0 && slices.Contains(numberFields, field) {
			return stateValue{}
		}
		return stateValue{Text: string(raw)} // an amount, as stored
	}
	return stateValue{Text: strings.NewReplacer(`"`, "", ",", ", ", "[", "", "]", "").Replace(string(raw))}
}
