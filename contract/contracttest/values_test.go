package contracttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Mutations give a value another type; here it gets another value. The values that
// may change are listed with the status they may change in; all other changes are
// detected.
func TestViolations_OtherValues(t *testing.T) {
	anyText := []string{
		"* message", "- data.note", "* data.provider", "- data.plans.id", "- data.plans.name", "- data.plans.description",
		"* data.customer.name", "* data.customer.connection_type", "* data.plan.id", "* data.plan.name",
		"success data.provider_transaction_id", "active data.last_provider_transaction",
		"failed data.provider_message", "* data.result_message",
		"* data.pending_operations.plan.id", "* data.pending_operations.plan.name", "- data.fields.*",
	}
	tests := []struct {
		name   string
		others func(any) []any
		free   []string
	}{
		{"null", null, []string{
			"success data.provider_transaction_id",
			"active data.last_provider_transaction", "active data.renewed_at",
		}},
		{"a moment in place of null", inPlaceOfNull("2027-03-01 12:00:00"), []string{
			"failed data.provider_transaction_id", "needs_review data.provider_transaction_id",
			"active data.last_provider_transaction", "expired data.last_provider_transaction",
			"active data.renewed_at", "expired data.renewed_at",
		}},
		{"a day in place of null", inPlaceOfNull("2027-03-01"), []string{
			"failed data.provider_transaction_id", "needs_review data.provider_transaction_id",
			"active data.last_provider_transaction", "expired data.last_provider_transaction",
		}},
		{"the opposite", opposite, []string{"- data.low_balance"}},
		{"any text", text("something else"), anyText},
		{"no text", text(""), []string{"- data.plans.description", "* data.customer.email"}},
		{"another status", words("success", "failed", "needs_review", "processing", "active", "expired", "pending"), []string{
			"* data.pending_operations.status",
		}},
		{"another operation", words("activate", "renew", "advance_renew"), []string{"active data.pending_operations.operation"}},
		{"another channel", words("api", "web"), []string{"* data.channel"}},
		{"another code", words("OK", "PENDING_REVIEW", "PROVIDER_ERROR", "REQUEST_IN_PROGRESS"), nil},
		{"another currency", words("INR", "USD"), nil},
		{"another reason", words("PROVIDER_REJECTED", "PROVIDER_UNREACHABLE", "NOT_CONFIRMED", "REJECTED_BY_REVIEW"), []string{"failed data.reason"}},
		{"another warning", words("COMBO_SECONDARY_FAILED", "OTHER"), nil},
		{"a moment", text("2027-03-01 12:00:00"), append([]string{
			"* data.created_at", "* data.completed_at", "* data.expiry.previous", "* data.expiry.new",
			"* data.expiry_date", "* data.renewed_at", "* data.pending_operations.created_at",
		}, anyText...)},
		{"a day", text("2027-03-01"), append([]string{
			"* data.expiry.start_date", "* data.idempotency_key", "* data.pending_operations.idempotency_key",
		}, anyText...)},
		{"less than nothing", numbers("-0.01", "-1"), []string{"- data.wallet_balance"}},
		{"nothing", numbers("0.00", "0"), []string{
			"- data.wallet_balance", "success data.wallet.after", "needs_review data.wallet.after", "processing data.wallet.after",
		}},
		{"something", numbers("0.01", "2"), []string{
			"- data.lco_id", "- data.wallet_balance", "- data.required_amount", "- data.shortfall", "- data.server_time",
			"- data.plans.price", "- data.plans.duration", "* data.plan.duration_months", "* data.amount",
			"* data.wallet.before", "* data.wallet.after", "success data.wallet.charged",
			"active data.days_remaining", "* data.pending_operations.amount",
		}},
	}
	chosen := recorded(t)
	maps.DeleteFunc(chosen, func(name string, _ response) bool { return strings.HasSuffix(name, "-replayed") })
	chosen = ofEachKind(chosen)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			passed := map[string]bool{}
			for name, r := range chosen {
				status := statusOf(r.body)
				for _, mutation := range (&mutator{others: tt.others}).of(r.body) {
					if Violations(r.method, r.path, r.status, r.header, mutation.Body) != nil {
						continue
					}
					path := mutatedPath(mutation.Name)
					rule := freedom(tt.free, status, path)
					if rule == "" {
						rule = status + " " + path
					}
					if !passed[rule] && !slices.Contains(tt.free, rule) {
						t.Errorf("%s: the check accepts another value at %q: %s", name, rule, mutation.Body)
					}
					passed[rule] = true
				}
			}
			for _, rule := range tt.free {
				if !passed[rule] {
					t.Errorf("%q may have another value, but no such mutation passed", rule)
				}
			}
		})
	}
}

// The functions below return the replacements of a value, if they apply to it.

func null(value any) []any {
	if value == nil {
		return nil
	}
	return []any{nil}
}

func inPlaceOfNull(text string) func(any) []any {
	return func(value any) []any {
		if value != nil {
			return nil
		}
		return []any{text}
	}
}

func opposite(value any) []any {
	if flag, ok := value.(bool); ok {
		return []any{!flag}
	}
	return nil
}

func text(text string) func(any) []any {
	return func(value any) []any {
		if is, ok := value.(string); !ok || is == text {
			return nil
		}
		return []any{text}
	}
}

// words replaces one of the words by each of the others.
func words(all ...string) func(any) []any {
	return func(value any) (others []any) {
		is, _ := value.(string)
		for _, word := range all {
			if slices.Contains(all, is) && word != is {
				others = append(others, word)
			}
		}
		return others
	}
}

// numbers replaces amounts and integers.
func numbers(amount, whole string) func(any) []any {
	return func(value any) []any {
		number, ok := value.(json.Number)
		switch {
		case !ok || number.String() == amount || number.String() == whole:
			return nil
		case strings.Contains(number.String(), "."):
			return []any{json.Number(amount)}
		}
		return []any{json.Number(whole)}
	}
}

// freedom finds the rule that allows another value: "status path", where * is any
// status and - is for responses without one.
func freedom(rules []string, status, path string) string {
	for _, rule := range rules {
		in, at, _ := strings.Cut(rule, " ")
		prefix, open := strings.CutSuffix(at, "*")
		if (in == "*" || in == status) && (at == path || open && strings.HasPrefix(path, prefix)) {
			return rule
		}
	}
	return ""
}

func statusOf(body []byte) string {
	var envelope struct{ Data struct{ Status string } }
	json.Unmarshal(body, &envelope)
	if envelope.Data.Status == "" {
		return "-"
	}
	return envelope.Data.Status
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// mutatedPath returns the path of the replaced value.
func mutatedPath(mutation string) string {
	path, _, _ := strings.Cut(strings.TrimPrefix(mutation, "retype "), " as ")
	return index.ReplaceAllString(path, "")
}

// Each combination of operation and status has its own form of expiry. No look-up
// passes with another form.
func TestViolations_ExpiryOfOtherOperation(t *testing.T) {
	shapes := map[string]map[string]any{}
	lookups := map[string]response{}
	for name, r := range recorded(t) {
		value, _ := decode(r.body)
		expiry, found := at(value, []string{"data", "expiry"})
		if found && strings.HasPrefix(name, "transaction-") {
			lookups[name] = r
			shapes[shape(expiry)] = expiry.(map[string]any)
		}
	}
	if len(shapes) != 6 {
		t.Errorf("there are %d forms of expiry in look-ups: %v; want 6", len(shapes), slices.Sorted(maps.Keys(shapes)))
	}
	for name, r := range lookups {
		value, _ := decode(r.body)
		data, _ := at(value, []string{"data"})
		own := shape(data.(map[string]any)["expiry"])
		for form, expiry := range shapes {
			data.(map[string]any)["expiry"] = expiry
			body, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if passes := Violations(r.method, r.path, r.status, r.header, body) == nil; passes != (form == own) {
				t.Errorf("%s with an expiry of the form %s, not %s: passes: %v", name, form, own, passes)
			}
		}
	}
}

// shape lists which parts of an expiry are set.
func shape(expiry any) string {
	var there []string
	for name, value := range expiry.(map[string]any) {
		there = append(there, fmt.Sprintf("%s:%v", name, value != nil))
	}
	slices.Sort(there)
	return strings.Join(there, " ")
}
