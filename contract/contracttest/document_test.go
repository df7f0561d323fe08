package contracttest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/coaxhq/coax/contract"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/httpapi"
)

func publishedDocument(t testing.TB) *document {
	t.Helper()
	doc, err := published()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// everyAnswer visits all documented responses, each with a request that may get it.
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

func TestDocument_IsValidOpenAPI31(t *testing.T) {
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

func TestDocument_HasSevenEndpoints(t *testing.T) {
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

func TestDocument_RequestHeaders(t *testing.T) {
	scheme := publishedDocument(t).api.Components.SecuritySchemes["ApiKey"]
	if scheme == nil || scheme.Value.Type != "apiKey" || scheme.Value.In != "header" || scheme.Value.Name != "X-API-Key" {
		t.Errorf("the security scheme is %v; want the key in its header", scheme)
	}
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

func TestDocument_CodesMatchService(t *testing.T) {
	documented := documentedCodes(t)
	all := append(slices.Clone(fault.Contract), fault.BadRequest)
	for _, code := range all {
		if !slices.Contains(documented, string(code)) {
			t.Errorf("the document does not have %s", code)
		}
	}
	for _, code := range documented {
		if !slices.Contains(all, fault.Code(code)) {
			t.Errorf("the document has %s, which is no code of ours", code)
		}
	}
}

// Each endpoint answers with the codes that the contract lists for it, and with
// those that any may answer with.
func TestDocument_EndpointCodes(t *testing.T) {
	any := []fault.Code{
		fault.BadRequest, fault.HTTPSRequired, fault.PayloadTooLarge, fault.TooManyFailedAttempts, fault.RateLimited,
		fault.MissingAuthHeaders, fault.InvalidAPIKey, fault.CredentialRevoked, fault.CredentialExpired,
		fault.TimestampExpired, fault.InvalidSignature, fault.InvalidNonce, fault.ReplayDetected,
		fault.LCONotFound, fault.LCOInactive, fault.APIAccessBlocked, fault.APIDisabled, fault.IPNotWhitelisted,
		fault.PermissionDenied, fault.InternalError, fault.ServiceUnavailable, fault.OK,
	}
	operation := []fault.Code{
		fault.UnsupportedMediaType, fault.InvalidJSON, fault.MissingIdempotencyKey, fault.InvalidIdempotencyKey,
		fault.IdempotencyKeyReused, fault.RequestInProgress, fault.ValidationError, fault.PlansUnavailable, fault.InvalidPlan,
		fault.OperationInProgress, fault.InsufficientBalance, fault.PendingReview, fault.ProviderError,
	}
	renewal := append(slices.Clone(operation), fault.SubscriberNotFound, fault.DuplicateRequest)
	for path, own := range map[string][]fault.Code{
		"/activate":      append(slices.Clone(operation), fault.SubscriberExists),
		"/renew":         renewal,
		"/advance-renew": append(slices.Clone(renewal), fault.PlanAlreadyActive),
		"/balance":       {},
		"/plans":         {fault.PlansUnavailable},
		"/subscription":  {fault.ValidationError, fault.SubscriberNotFound},
		"/transaction":   {fault.ValidationError, fault.TransactionNotFound},
	} {
		want := slices.Sorted(slices.Values(append(slices.Clone(any), own...)))
		var got []fault.Code
		for _, promised := range publishedDocument(t).operations[path] {
			for _, answer := range promised {
				for code := range answer.outcomes {
					got = append(got, fault.Code(code))
				}
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s has the codes %q; want %q", path, got, want)
		}
	}
}

func TestDocument_CodeStatuses(t *testing.T) {
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

// Published objects allow new fields, and list the fields that are required.
func TestDocument_ObjectsAreOpenAndListRequired(t *testing.T) {
	err := publishedDocument(t).api.WalkSchemas(func(pointer string, ref *openapi3.SchemaRef) error {
		schema := ref.Value
		if open := schema.AdditionalProperties.Has; open != nil && !*open {
			t.Errorf("%s is closed: a client that takes that seriously breaks with the next field", pointer)
		}
		if strings.HasSuffix(pointer, "Request") || !schema.Type.Is("object") {
			return nil
		}
		for name, property := range schema.Properties {
			once, _ := property.Value.Extensions[onceKeyword].(bool)
			if required := slices.Contains(schema.Required, name); required == once {
				t.Errorf("%s: %s is required: %v; is given once: %v", pointer, name, required, once)
			}
		}
		for _, name := range schema.Required {
			if schema.Properties[name] == nil {
				t.Errorf("%s requires %s and does not describe it", pointer, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Some readers, kin-openapi among them, apply keywords beside a reference to the
// referenced element everywhere.
func TestDocument_RefsHaveOnlyDescriptions(t *testing.T) {
	text, err := publishedDocument(t).api.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	var walk func(node any, at string)
	walk = func(node any, at string) {
		switch node := node.(type) {
		case []any:
			for i, child := range node {
				walk(child, fmt.Sprintf("%s/%d", at, i))
			}
		case map[string]any:
			_, isRef := node["$ref"].(string)
			for key, child := range node {
				if isRef && key != "$ref" && key != "description" {
					t.Errorf("%s: %s stands beside a reference", at, key)
				}
				walk(child, at+"/"+key)
			}
			if isRef {
				seen++
			}
		}
	}
	walk(tree, "")
	if seen == 0 {
		t.Error("found no reference: this looks in the wrong place")
	}
}

// CheckMutations accepts the removal of optional parts, so they are listed here: a
// generated password, and the replay header.
func TestDocument_OptionalParts(t *testing.T) {
	want := []string{
		"POST /api/v1/activate 200 Idempotent-Replayed",
		"POST /api/v1/activate 200 data.customer.password",
		"POST /api/v1/activate 202 Idempotent-Replayed",
		"POST /api/v1/activate 202 data.customer.password",
		"POST /api/v1/activate 502 Idempotent-Replayed",
		"POST /api/v1/advance-renew 200 Idempotent-Replayed",
		"POST /api/v1/advance-renew 202 Idempotent-Replayed",
		"POST /api/v1/advance-renew 502 Idempotent-Replayed",
		"POST /api/v1/renew 200 Idempotent-Replayed",
		"POST /api/v1/renew 202 Idempotent-Replayed",
		"POST /api/v1/renew 502 Idempotent-Replayed",
	}
	var got []string
	everyAnswer(t, func(method, path string, status int, a *answer) {
		at := fmt.Sprintf("%s %s %d ", method, path, status)
		for name, rule := range a.headers {
			if !rule.required && !slices.Contains(rateHeaders, name) {
				got = append(got, at+name)
			}
		}
		for _, outcome := range a.outcomes {
			for _, path := range outcome.once {
				got = append(got, at+strings.Join(path, "."))
			}
		}
	})
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("these may be missing: %q; want %q", got, want)
	}
}
