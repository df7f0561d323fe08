package contracttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded returns responses of a running `coax demo`, as received: at least one
// for every code. Internal errors were caused by damaging the demo's store, and
// unverified prices by taking the simulator's catalogue down.
func recorded(t testing.TB) map[string]response {
	t.Helper()
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil {
		t.Fatal(err)
	}
	responses := map[string]response{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			Method, Path string
			Status       int
			Header       http.Header
			Body         string
		}
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		responses[name] = response{method: r.Method, path: r.Path, status: r.Status, header: r.Header, body: []byte(r.Body)}
	}
	return responses
}

func codeOf(body []byte) string {
	var envelope struct{ Code string }
	json.Unmarshal(body, &envelope)
	return envelope.Code
}

func TestRecorded_HasEveryCode(t *testing.T) {
	var codes []string
	for _, r := range recorded(t) {
		codes = append(codes, codeOf(r.body))
	}
	for _, code := range documentedCodes(t) {
		if !slices.Contains(codes, code) {
			t.Errorf("%s is documented, and no answer with it was recorded", code)
		}
	}
}

func TestRecorded_MatchesContract(t *testing.T) {
	for name, r := range recorded(t) {
		t.Run(name, func(t *testing.T) { Check(t, r.method, r.path, r.status, r.header, r.body) })
	}
}

// kind distinguishes responses that differ in more than their values. Endpoints
// share schemas, so the endpoint does not matter. Mutating one response of each
// kind finds the same defects as mutating all of them, in less time.
func (r response) kind() string {
	value, _ := decode(r.body)
	header := canonical(r.header)
	for _, name := range transportHeaders {
		delete(header, name)
	}
	return fmt.Sprint(r.status, slices.Sorted(maps.Keys(header)), form(value, ""))
}

// form lists the fields of a value with their types, and the texts of the fields
// that select its schema.
func form(value any, name string) any {
	switch value := value.(type) {
	case map[string]any:
		fields := map[string]any{}
		for field, inner := range value {
			fields[field] = form(inner, field)
		}
		return fields // fmt prints maps in order
	case []any:
		if len(value) == 0 {
			return "none"
		}
		return form(value[0], name)
	case string:
		if slices.Contains([]string{"code", "result_code", "operation", "status"}, name) {
			return value
		}
	}
	return typeName(value)
}

func ofEachKind(all map[string]response) map[string]response {
	chosen, known := map[string]response{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if kind := all[name].kind(); !known[kind] {
			known[kind], chosen[name] = true, all[name]
		}
	}
	return chosen
}

// The check rejects every mutation of every kind of response.
func TestMutations_AreDetected(t *testing.T) {
	all := recorded(t)
	for name, r := range examples(t) {
		all["the example "+name] = r // endpoints share examples, and most were recorded
	}
	tried := 0
	for name, r := range ofEachKind(all) {
		t.Run(name, func(t *testing.T) {
			tried += CheckMutations(t, r.method, r.path, r.status, r.header, r.body)
		})
	}
	t.Logf("%d mutations", tried)
	if tried < 5_000 {
		t.Errorf("only %d mutations were tried; there were more than 5,000 when this was written", tried)
	}
}

// Mutations encode the body again. If the check rejected that alone, they would
// prove nothing.
func TestCheck_AcceptsReencodedBody(t *testing.T) {
	same := func(value any) []any { return []any{value} }
	for name, r := range ofEachKind(recorded(t)) {
		for _, mutation := range (&mutator{others: same}).of(r.body) {
			if err := Violations(r.method, r.path, r.status, r.header, mutation.Body); err != nil {
				t.Errorf("%s: %s: %v", name, mutation.Name, err)
			}
		}
	}
}
