package contracttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Mutation is a response's body with one thing changed.
type Mutation struct {
	Name string // what was changed and where, such as "remove data.plans[0].price"
	Body []byte
}

// Mutations returns variants of a body with one defect each: at every depth each
// field removed, each value replaced by ones of other types, each number written
// with another decimal, a field added to each object, an unknown element to each
// array. A body that is not JSON has none.
//
// No value is replaced by null, which some fields allow. A correct schema rejects
// all of these, except the removal of an optional field.
func Mutations(body []byte) []Mutation {
	return (&mutator{others: others, shapes: true}).of(body)
}

type mutator struct {
	root   any
	others func(any) []any // the replacements of a value
	shapes bool            // whether to remove, add and rewrite as well
	made   []Mutation
}

func (m *mutator) of(body []byte) []Mutation {
	var err error
	if m.root, err = decode(body); err != nil {
		return nil
	}
	m.value("", m.root, func(value any) { m.root = value })
	return m.made
}

// reshape saves the current tree, if shapes are to be changed.
func (m *mutator) reshape(format string, args ...any) {
	if m.shapes {
		m.save(format, args...)
	}
}

// save adds the current tree as a mutation.
func (m *mutator) save(format string, args ...any) {
	text, err := json.Marshal(m.root)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	m.made = append(m.made, Mutation{Name: fmt.Sprintf(format, args...), Body: text})
}

// value mutates a value, which set replaces, and all values within it.
func (m *mutator) value(at string, value any, set func(any)) {
	for _, other := range m.others(value) {
		set(other)
		m.save("retype %s as %s", name(at), typeName(other))
	}
	if number, ok := value.(json.Number); ok {
		set(anotherDecimal(number))
		m.reshape("rewrite %s as %s", name(at), anotherDecimal(number))
	}
	set(value)

	switch value := value.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(value)) {
			kept := value[field]
			delete(value, field)
			m.reshape("remove %s", join(at, field))
			value[field] = kept
			m.value(join(at, field), kept, func(other any) { value[field] = other })
		}
		value[alienField] = alien()
		m.reshape("add %s", join(at, alienField))
		delete(value, alienField)
	case []any:
		for i, element := range value {
			m.value(fmt.Sprintf("%s[%d]", at, i), element, func(other any) { value[i] = other })
		}
		set(append(slices.Clone(value), alien()))
		m.reshape("append to %s", name(at))
		set(value)
	}
}

const alienField = "unexpected"

// alien returns a value that the contract has nowhere, not even in maps of texts.
func alien() any { return map[string]any{"alien": true} }

// others returns replacements of other types.
func others(value any) []any {
	switch value := value.(type) {
	case string:
		return []any{json.Number("7"), true, []any{value}, map[string]any{}}
	case json.Number:
		return []any{value.String(), true, []any{value}}
	case bool:
		return []any{fmt.Sprint(value), json.Number("1"), []any{value}}
	case map[string]any:
		return []any{"object", []any{value}}
	case []any:
		return []any{"array", map[string]any{"0": value}}
	}
	return []any{json.Number("0"), true, []any{}} // in place of null
}

func anotherDecimal(number json.Number) json.Number {
	if strings.Contains(number.String(), ".") {
		return number + "0"
	}
	return number + ".0"
}

func typeName(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "null"
}

func join(at, field string) string {
	if at == "" {
		return field
	}
	return at + "." + field
}

func name(at string) string {
	if at == "" {
		return "the body"
	}
	return at
}

// CheckMutations checks a response, and that the contract detects changes of it:
// it fails the test for every mutation of the body, and every header removed,
// repeated, or added, that passes. The removal of an optional part has to pass: a
// field that is given once, a header that is not required, one of several names in
// a map. So do the mutations named in allowed. It returns the number of mutations.
func CheckMutations(t testing.TB, method, path string, status int, header http.Header, body []byte, allowed ...string) int {
	t.Helper()
	Check(t, method, path, status, header, body)
	allowed = append(mayBeMissing(t, method, path, status, header, body), allowed...)
	tried, used := 0, map[string]bool{}
	try := func(name string, header http.Header, body []byte) {
		tried++
		err := Violations(method, path, status, header, body)
		if slices.Contains(allowed, name) {
			used[name] = true
			if err != nil {
				t.Errorf("%s is allowed, but: %v", name, err)
			}
		} else if err == nil {
			t.Errorf("%s %s %d: the check accepts: %s\nheader: %v\nbody: %s", method, path, status, name, header, body)
		}
	}
	for _, mutation := range Mutations(body) {
		try(mutation.Name, header, mutation.Body)
	}
	for name, mutated := range headerMutations(header) {
		try(name, mutated, body)
	}
	for _, name := range allowed {
		if !used[name] {
			t.Errorf("%s %s %d: there is no mutation %q to allow", method, path, status, name)
		}
	}
	return tried
}

// mayBeMissing names the mutations that remove an optional part of a response.
func mayBeMissing(t testing.TB, method, path string, status int, header http.Header, body []byte) (names []string) {
	t.Helper()
	doc, err := published()
	if err != nil {
		t.Fatalf("read contract/openapi.yaml: %v", err)
	}
	promised, _ := doc.promised(method, path)
	answer, documented := promised[status]
	value, err := decode(body)
	if !documented || err != nil {
		return nil
	}
	for name := range canonical(header) {
		if rule, known := answer.headers[name]; known && !rule.required && !slices.Contains(rateHeaders, name) {
			names = append(names, "remove header "+name)
		}
	}
	code, _ := at(value, []string{"code"})
	text, _ := code.(string)
	outcome := answer.outcomes[text]
	for _, path := range outcome.once {
		if _, there := at(value, path); there {
			names = append(names, "remove "+strings.Join(path, "."))
		}
	}
	for _, path := range outcome.empty {
		found, _ := at(value, path)
		if object, _ := found.(map[string]any); len(object) == 1 {
			for field := range object {
				names = append(names, "remove "+strings.Join(append(slices.Clone(path), field), "."))
			}
		}
	}
	for _, path := range outcome.maps {
		found, _ := at(value, path)
		if object, _ := found.(map[string]any); len(object) > 1 {
			for field := range object {
				names = append(names, "remove "+strings.Join(append(slices.Clone(path), field), "."))
			}
		}
	}
	return names
}

// headerMutations returns the headers with one of the contract's changed.
func headerMutations(header http.Header) map[string]http.Header {
	plain := canonical(header)
	made := map[string]http.Header{}
	change := func(name, header string, values ...string) {
		changed := plain.Clone()
		delete(changed, header)
		if len(values) > 0 {
			changed[header] = values
		}
		made[name] = changed
	}
	names := append([]string{"Content-Type", "Cache-Control", "X-Request-Id", "Retry-After", "Allow", replayHeader, "Set-Cookie"}, rateHeaders...)
	for _, name := range names {
		values := plain[name]
		if len(values) == 0 {
			change("add header "+name, name, "1")
			continue
		}
		change("remove header "+name, name)
		change("repeat header "+name, name, values[0], values[0])
		change("change header "+name, name, "-"+values[0])
	}
	return made
}
