package contracttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded are answers of a running `coax demo`, each as it came over the wire:
// one at least for every code that is answered so far. Failures of our own were
// brought about by damaging the demo's store.
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

func TestEveryCodeWasRecorded(t *testing.T) {
	var codes []string
	for _, r := range recorded(t) {
		codes = append(codes, codeOf(r.body))
	}
	for _, code := range documentedCodes(t) {
		if !slices.Contains(codes, code) {
			t.Errorf("there is no recorded answer with %s", code)
		}
	}
}

func TestRecordedAnswersKeepTheContract(t *testing.T) {
	for name, r := range recorded(t) {
		t.Run(name, func(t *testing.T) { Check(t, r.method, r.path, r.status, r.header, r.body) })
	}
}

// A check that lets a spoilt answer pass is worth nothing, so every answer there
// is gets spoilt in every way.
func TestEveryMutationIsNoticed(t *testing.T) {
	tried := 0
	for name, r := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			tried += CheckMutations(t, r.method, r.path, r.status, r.header, r.body)
		})
	}
	spoilt := map[string]bool{}
	for name, r := range examples(t) {
		// The endpoints share most answers; each is spoilt on one of them.
		key := fmt.Sprint(r.status, r.header, string(r.body))
		if spoilt[key] {
			continue
		}
		spoilt[key] = true
		t.Run(name, func(t *testing.T) {
			tried += CheckMutations(t, r.method, r.path, r.status, r.header, r.body)
		})
	}
	t.Logf("%d mutations", tried)
	if tried < 3000 {
		t.Errorf("only %d mutations were tried; there were more than 3000 when this was written", tried)
	}
}

// Mutations write the body anew. If that alone were noticed, they would prove
// nothing.
func TestABodyWrittenAnewIsNotNoticed(t *testing.T) {
	same := func(value any) []any { return []any{value} }
	for name, r := range recorded(t) {
		for _, mutation := range mutations(r.body, same) {
			if !strings.HasPrefix(mutation.Name, "retype ") {
				continue
			}
			if err := Violations(r.method, r.path, r.status, r.header, mutation.Body); err != nil {
				t.Errorf("%s: %s: %v", name, mutation.Name, err)
			}
		}
	}
}

// Null is not among the mutations, because some fields of later answers may be
// null. None of those recorded so far may.
func TestNullIsNoticedInPlaceOfAnything(t *testing.T) {
	null := func(any) []any { return []any{nil} }
	for name, r := range recorded(t) {
		for _, mutation := range mutations(r.body, null) {
			if Violations(r.method, r.path, r.status, r.header, mutation.Body) == nil {
				t.Errorf("%s: nobody noticed: %s", name, mutation.Name)
			}
		}
	}
}
