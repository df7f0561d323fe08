package reference

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract"
	"go.yaml.in/yaml/v3"
)

func TestToJSON_KeepsOrderAndDecimals(t *testing.T) {
	got, err := toJSON([]byte("z: {b: 199.00, a: [true, null, -1, '1', 1.0e+2]}\na: |\n  <b> & \"é\"\n  2\n"))
	if want := `{"z":{"b":199.00,"a":[true,null,-1,"1",1.0e+2]},"a":"<b> & \"é\"\n2\n"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestToJSON_RefusesWhatJSONCannotHold(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":                 "read the YAML document",
		"a: &x 1\nb: *x":       "line 2: anchors",
		"1: a":                 "line 1: a name must be a string",
		"a: 2026-01-01":        "JSON has no !!timestamp",
		"a: .nan":              `".nan" is not written as in JSON`,
		"a: 0x10":              `"0x10" is not written as in JSON`,
		"a: True":              `"True" is not written as in JSON`,
		"a: !!binary aGVsbG8=": "JSON has no !!binary",
	} {
		if _, err := toJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// The JSON form has the same content as openapi.yaml, and samples for every endpoint.
func TestOpenAPIJSON_EqualsYAML(t *testing.T) {
	made, err := jsonFile()
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := yaml.Unmarshal(contract.OpenAPI, &want); err != nil {
		t.Fatal(err)
	}
	// Through JSON once more, so that both have the same types of numbers.
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		text []byte
		into *any
	}{{text, &want}, {made.plain, &got}} {
		if err := json.Unmarshal(one.text, one.into); err != nil {
			t.Fatal(err)
		}
	}
	for path, operations := range got.(map[string]any)["paths"].(map[string]any) {
		for method, operation := range operations.(map[string]any) {
			fields := operation.(map[string]any)
			if samples, _ := fields["x-codeSamples"].([]any); len(samples) != len(sampleLanguages) {
				t.Errorf("%s %s has %d samples; want one in each language", method, path, len(samples))
			}
			delete(fields, "x-codeSamples")
		}
	}

	if !reflect.DeepEqual(got, want) {
		t.Error("/openapi.json differs from openapi.yaml")
	}
	if !bytes.HasPrefix(made.plain, []byte(`{"openapi":"3.1.0","info":{"title":`)) {
		t.Errorf("it begins with %.60s; want the order of openapi.yaml", made.plain)
	}
}
