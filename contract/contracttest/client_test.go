package contracttest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/client"
)

// The public client knows every code and every field of the document, and none
// that is not in it.

func TestClient_KnowsAllCodes(t *testing.T) {
	var known []string
	for _, code := range client.Codes() {
		known = append(known, string(code))
	}
	slices.Sort(known)
	documented := slices.Sorted(slices.Values(documentedCodes(t)))
	if !slices.Equal(known, documented) {
		t.Errorf("the client knows %v; the document has %v", known, documented)
	}
}

// answered are the client's types of the endpoints' results.
var answered = map[string]any{
	"POST /activate":      client.Operation{},
	"POST /renew":         client.Operation{},
	"POST /advance-renew": client.Operation{},
	"GET /transaction":    client.Operation{},
	"GET /balance":        client.Balance{},
	"GET /plans":          client.Catalogue{},
	"GET /subscription":   client.Subscription{},
}

func TestClient_ReadsAllResultFields(t *testing.T) {
	documented := map[reflect.Type]map[string]bool{}
	for name, r := range examples(t) {
		into, ok := answered[r.method+" "+strings.TrimPrefix(r.path, "/api/v1")]
		if !ok || r.status != http.StatusOK && r.status != http.StatusAccepted && codeOf(r.body) != "PROVIDER_ERROR" {
			continue
		}
		var envelope struct{ Data json.RawMessage }
		if err := json.Unmarshal(r.body, &envelope); err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(envelope.Data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(reflect.New(reflect.TypeOf(into)).Interface()); err != nil {
			t.Errorf("%s: the client cannot read it whole: %v", name, err)
		}
		data, err := decode(envelope.Data)
		if err != nil {
			t.Fatal(err)
		}
		if documented[reflect.TypeOf(into)] == nil {
			documented[reflect.TypeOf(into)] = map[string]bool{}
		}
		collectNames(data, "", documented[reflect.TypeOf(into)])
	}
	if len(documented) != 4 {
		t.Errorf("examples of %d kinds of results were read; want 4", len(documented))
	}
	for of, names := range documented {
		for _, name := range tagged(of, "") {
			if !names[name] {
				t.Errorf("%v has %s, which no example has", of, name)
			}
		}
	}
}

// collectNames lists the paths of all fields in a value, without indices.
func collectNames(value any, path string, into map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			into[path+name] = true
			collectNames(inner, path+name+".", into)
		}
	case []any:
		for _, inner := range value {
			collectNames(inner, path, into)
		}
	}
}

// tagged lists the paths of a type's JSON fields in the same way.
func tagged(of reflect.Type, path string) (names []string) {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		names = append(names, path+name)
		names = append(names, tagged(of.Field(i).Type, path+name+".")...)
	}
	return names
}

func TestClient_SendsAllRequestFields(t *testing.T) {
	schemas := publishedDocument(t).api.Components.Schemas
	for schema, request := range map[string]any{"ActivateRequest": client.Activation{}, "RenewRequest": client.Renewal{}} {
		sent := tagged(reflect.TypeOf(request), "")
		slices.Sort(sent)
		if documented := slices.Sorted(maps.Keys(schemas[schema].Value.Properties)); !slices.Equal(sent, documented) {
			t.Errorf("%T has %v; %s has %v", request, sent, schema, documented)
		}
	}
}
