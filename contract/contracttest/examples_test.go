package contracttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/coaxhq/coax/contract"
)

// examples returns the document's examples as responses. A code that comes with
// and without rate headers has two, and so has one that may be a replay.
func examples(t testing.TB) map[string]response {
	t.Helper()
	doc := publishedDocument(t)
	amounts := amountNames(doc.api)
	made := map[string]response{}
	everyAnswer(t, func(method, path string, status int, a *answer) {
		for name, example := range a.examples {
			code, _, _ := strings.Cut(name, " ")
			outcome := a.outcomes[code]
			body := twoDecimals(example.Value.Value, amounts)
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			bare := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
			rate := http.Header{}
			for name, rule := range a.headers {
				if slices.Contains(rateHeaders, name) {
					rate[name] = []string{headerExample(rule, body)}
				} else if name != replayHeader {
					bare[name] = []string{headerExample(rule, body)}
				}
			}
			counted := bare.Clone()
			maps.Copy(counted, rate)
			key := fmt.Sprintf("%s %s %d %s", method, path, status, name)
			if outcome.rate != "never" {
				made[key+", counted"] = response{method, path, status, counted, text}
			}
			if outcome.rate != "always" {
				made[key] = response{method, path, status, bare, text}
			}
			if rule, may := a.headers[replayHeader]; may && !outcome.givesOnce(body) {
				replayed := counted.Clone()
				replayed[replayHeader] = []string{headerExample(rule, body)}
				made[key+", replayed"] = response{method, path, status, replayed, text}
			}
		}
	})
	return made
}

func (o outcome) givesOnce(body any) bool {
	return slices.ContainsFunc(o.once, func(path []string) bool {
		_, there := at(body, path)
		return there
	})
}

func headerExample(rule header, body any) string {
	switch value := rule.example.(type) {
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case string:
		if strings.HasPrefix(value, "req_") {
			return body.(map[string]any)["request_id"].(string)
		}
		return value
	}
	return ""
}

// amountNames are the properties that are amounts.
func amountNames(api *openapi3.T) map[string]bool {
	names := map[string]bool{}
	api.WalkSchemas(func(_ string, ref *openapi3.SchemaRef) error {
		for name, property := range ref.Value.Properties {
			if amountPointer.MatchString(target(property.Ref, "")) {
				names[name] = true
			}
		}
		return nil
	})
	return names
}

// twoDecimals restores the decimals of amounts, which the YAML parser drops.
func twoDecimals(value any, amounts map[string]bool) any {
	switch value := value.(type) {
	case map[string]any:
		copied := map[string]any{}
		for name, field := range value {
			number, isNumber := field.(float64)
			if isNumber && amounts[name] {
				copied[name] = json.Number(strconv.FormatFloat(number, 'f', 2, 64))
			} else {
				copied[name] = twoDecimals(field, amounts)
			}
		}
		return copied
	case []any:
		copied := []any{}
		for _, element := range value {
			copied = append(copied, twoDecimals(element, amounts))
		}
		return copied
	}
	return value
}

func TestExamples_MatchContract(t *testing.T) {
	for name, r := range examples(t) {
		t.Run(name, func(t *testing.T) { Check(t, r.method, r.path, r.status, r.header, r.body) })
	}
}

func TestExamples_CoverEveryCode(t *testing.T) {
	everyAnswer(t, func(method, path string, status int, a *answer) {
		shown := map[string]bool{}
		for name, example := range a.examples {
			code, _, _ := strings.Cut(name, " ")
			if is, _ := at(example.Value.Value, []string{"code"}); is != code {
				t.Errorf("%s %s %d has an example %q with the code %v", method, path, status, name, is)
			}
			shown[code] = true
		}
		for code := range a.outcomes {
			if !shown[code] {
				t.Errorf("%s %s %d has no example for %s", method, path, status, code)
			}
			delete(shown, code)
		}
		if len(shown) > 0 {
			t.Errorf("%s %s %d has examples for %v, which are none of its codes", method, path, status, shown)
		}
	})
}

// An operation's code has several results: each reason of a failure, a replay, a
// missing add-on.
func TestExamples_CoverOperationResults(t *testing.T) {
	for _, path := range []string{"/activate", "/renew", "/advance-renew"} {
		promised := publishedDocument(t).operations[path][http.MethodPost]

		var got []string
		for _, example := range promised[http.StatusBadGateway].examples {
			reason, _ := at(example.Value.Value, []string{"data", "reason"})
			got = append(got, fmt.Sprint(reason))
		}
		want := []string{"NOT_CONFIRMED", "PROVIDER_REJECTED", "PROVIDER_UNREACHABLE", "REJECTED_BY_REVIEW"}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("POST %s has examples with the reasons %q; want %q", path, got, want)
		}

		succeeded := promised[http.StatusOK]
		if example := succeeded.examples["OK replayed"]; example == nil || succeeded.outcomes["OK"].givesOnce(example.Value.Value) {
			t.Errorf("POST %s has no example of a replay, or one with a password", path)
		}
		var warnings any
		if example := succeeded.examples["OK add-on failed"]; example != nil {
			warnings, _ = at(example.Value.Value, []string{"data", "warnings"})
		}
		if list, _ := warnings.([]any); len(list) != 1 {
			t.Errorf("POST %s has no example of an add-on that failed", path)
		}
	}
}

// A look-up has one code and several statuses.
func TestExamples_CoverLookupStatuses(t *testing.T) {
	for path, want := range map[string][]string{
		"/transaction":  {"failed", "needs_review", "processing", "success"},
		"/subscription": {"active", "expired", "pending"},
	} {
		var got []string
		for _, example := range publishedDocument(t).operations[path][http.MethodGet][http.StatusOK].examples {
			status, _ := at(example.Value.Value, []string{"data", "status"})
			got = append(got, fmt.Sprint(status))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("GET %s has examples with the statuses %q; want %q", path, got, want)
		}
	}
}

// Readers of the file see amounts as they will arrive.
func TestExamples_AmountsHaveTwoDecimals(t *testing.T) {
	amounts := amountNames(publishedDocument(t).api)
	number := regexp.MustCompile(`(?m)\b([a-z_]+): (-?[0-9][0-9.]*)(?:[,}]|$)`)
	seen := 0
	for _, match := range number.FindAllSubmatch(contract.OpenAPI, -1) {
		if !amounts[string(match[1])] {
			continue
		}
		seen++
		if !regexp.MustCompile(`^-?[0-9]+\.[0-9]{2}$`).Match(match[2]) {
			t.Errorf("%s is written %s", match[1], match[2])
		}
	}
	if seen == 0 {
		t.Error("found no amounts: this looks in the wrong place")
	}
}
