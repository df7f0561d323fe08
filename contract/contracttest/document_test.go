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
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/httpapi"
)

// notYet are the codes that no endpoint answers with so far. Whoever makes one be
// answered describes it in the document and takes it from this list.
var notYet = []fault.Code{
	fault.UnsupportedMediaType, fault.InvalidJSON, fault.MissingIdempotencyKey, fault.InvalidIdempotencyKey,
	fault.ValidationError, fault.InvalidPlan, fault.IdempotencyKeyReused,

	fault.InsufficientBalance, fault.SubscriberExists, fault.SubscriberNotFound, fault.TransactionNotFound,
	fault.PlanAlreadyActive, fault.DuplicateRequest, fault.OperationInProgress, fault.PlansUnavailable,

	fault.PendingReview, fault.RequestInProgress, fault.ProviderError,
}

func publishedDocument(t testing.TB) *document {
	t.Helper()
	doc, err := published()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// everyAnswer walks all that can be answered, with a request that may get it.
func everyAnswer(t testing.TB, visit func(method, path string, status int, a *answer)) {
	t.Helper()
	doc := publishedDocument(t)
	walk := func(method, path string, promised answers) {
		for _, status := range slices.Sorted(maps.Keys(promised)) {
			visit(method, path, status, promised[status])
		}
	}
	for path, methods := range doc.operations {
		for method, promised := range methods {
			walk(method, doc.prefix+path, promised)
		}
	}
	walk(http.MethodPost, doc.prefix+"/balance", doc.wrongMethod)
	walk(http.MethodGet, "/somewhere/else", doc.unknownPath)
}

func documentedCodes(t testing.TB) []string {
	t.Helper()
	codes := map[string]bool{}
	everyAnswer(t, func(_, _ string, _ int, a *answer) {
		for code := range a.outcomes {
			codes[code] = true
		}
	})
	return slices.Sorted(maps.Keys(codes))
}

func TestTheDocumentIsValidOpenAPI31(t *testing.T) {
	api, err := openapi3.NewLoader().LoadFromData(contract.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if !api.IsOpenAPI31OrLater() || api.IsOpenAPI32OrLater() || api.Info.Version != "1.0" {
		t.Errorf("OpenAPI %s, version %s; want 3.1 and 1.0", api.OpenAPI, api.Info.Version)
	}
	if err := api.Validate(t.Context(), openapi3.ProhibitExtensionsWithRef(), openapi3.EnableMultiError()); err != nil {
		t.Error(err)
	}
}

func TestTheDocumentHasTheSevenEndpoints(t *testing.T) {
	want := []string{
		"GET /api/v1/balance", "GET /api/v1/plans", "GET /api/v1/subscription", "GET /api/v1/transaction",
		"POST /api/v1/activate", "POST /api/v1/advance-renew", "POST /api/v1/renew",
	}
	var got []string
	doc := publishedDocument(t)
	for path, methods := range doc.operations {
		for method := range methods {
			got = append(got, method+" "+doc.prefix+path)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the document has %q; want %q", got, want)
	}
}

func TestEveryRequestIsDescribedWithItsHeaders(t *testing.T) {
	for path, item := range publishedDocument(t).api.Paths.Map() {
		for method, operation := range item.Operations() {
			want := []string{"X-API-Key", "X-Timestamp", "X-Nonce", "X-Signature"}
			if method == http.MethodPost {
				want = append(want, "Idempotency-Key")
			}
			var got []string
			for _, parameter := range operation.Parameters {
				if parameter.Value.In == "header" && parameter.Value.Required {
					got = append(got, parameter.Value.Name)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s %s requires the headers %q; want %q", method, path, got, want)
			}
			if hasBody := operation.RequestBody != nil; hasBody != (method == http.MethodPost) {
				t.Errorf("%s %s has a body: %v", method, path, hasBody)
			}
		}
	}
}

func TestTheDocumentHasTheCodesThatAreAnswered(t *testing.T) {
	documented := documentedCodes(t)
	all := append(slices.Clone(fault.Contract), fault.BadRequest)
	for _, code := range all {
		described, waiting := slices.Contains(documented, string(code)), slices.Contains(notYet, code)
		switch {
		case !described && !waiting:
			t.Errorf("%s is answered and the document does not have it", code)
		case described && waiting:
			t.Errorf("the document has %s: take it from the list of those not answered yet", code)
		}
	}
	for _, code := range documented {
		if !slices.Contains(all, fault.Code(code)) {
			t.Errorf("the document has %s, which is no code of ours", code)
		}
	}
}

func TestEveryCodeTravelsWithItsStatus(t *testing.T) {
	statuses := map[string][]int{}
	everyAnswer(t, func(_, _ string, status int, a *answer) {
		for code := range a.outcomes {
			if !slices.Contains(statuses[code], status) {
				statuses[code] = append(statuses[code], status)
			}
		}
	})
	for code, got := range statuses {
		want := []int{httpapi.StatusOf(fault.Code(code))}
		if code == string(fault.BadRequest) {
			want = []int{400, 417, 431, 501, 505}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s has the statuses %v; want %v", code, got, want)
		}
	}
}

// What is published stays open for new fields, and says by itself which fields an
// answer has.
func TestPublishedObjectsAreOpenAndNameWhatTheyRequire(t *testing.T) {
	err := publishedDocument(t).api.WalkSchemas(func(pointer string, ref *openapi3.SchemaRef) error {
		schema := ref.Value
		if open := schema.AdditionalProperties.Has; open != nil && !*open {
			t.Errorf("%s is closed: a client that takes that seriously breaks with the next field", pointer)
		}
		if !strings.HasSuffix(pointer, "Request") && len(schema.Required) != len(schema.Properties) && schema.Type.Is("object") {
			t.Errorf("%s requires %v of its properties %v", pointer, schema.Required, slices.Sorted(maps.Keys(schema.Properties)))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// examples are the examples of the document, each as the answer it is an example
// of. A code that comes with and without rate headers is there twice.
func examples(t testing.TB) map[string]response {
	t.Helper()
	doc := publishedDocument(t)
	amounts := amountNames(doc.api)
	made := map[string]response{}
	everyAnswer(t, func(method, path string, status int, a *answer) {
		for code, outcome := range a.outcomes {
			example, found := a.examples[code]
			if !found {
				t.Errorf("%s %s %d has no example for %s", method, path, status, code)
				continue
			}
			body := twoDecimals(example.Value.Value, amounts)
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			header := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
			bare := header.Clone()
			for name, rule := range a.headers {
				header[name] = []string{headerExample(rule, body)}
				if !slices.Contains(rateHeaders, name) {
					bare[name] = header[name]
				}
			}
			key := fmt.Sprintf("%s %s %d %s", method, path, status, code)
			if outcome.rate != "never" {
				made[key+" counted"] = response{method, path, status, header, text}
			}
			if outcome.rate != "always" {
				made[key] = response{method, path, status, bare, text}
			}
		}
	})
	return made
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
			if property.Ref == "#"+amountPointer {
				names[name] = true
			}
		}
		return nil
	})
	return names
}

// twoDecimals gives amounts back the decimals that reading YAML took from them.
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

func TestEveryExampleKeepsTheContract(t *testing.T) {
	for name, r := range examples(t) {
		t.Run(name, func(t *testing.T) { Check(t, r.method, r.path, r.status, r.header, r.body) })
	}
}

func TestNoExampleIsLeftOver(t *testing.T) {
	everyAnswer(t, func(method, path string, status int, a *answer) {
		for code := range a.examples {
			if _, known := a.outcomes[code]; !known {
				t.Errorf("%s %s %d has an example %q, which is none of its codes", method, path, status, code)
			}
		}
	})
}

// Readers of the file see amounts as they will arrive.
func TestAmountsInExamplesAreWrittenWithTwoDecimals(t *testing.T) {
	amounts := amountNames(publishedDocument(t).api)
	number := regexp.MustCompile(`(?m)^\s*(?:- )?([a-z_]+): (-?[0-9][0-9.]*)$`)
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
