package docstest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract"
	"github.com/getkin/kin-openapi/openapi3"
)

const postmanFile = "sdk/postman/coax.postman_collection.json"

// postmanOrder is an order in which each request finds what it needs.
var postmanOrder = []string{"balance", "plans", "activate", "subscription", "renew", "advance-renew", "transaction"}

type (
	postmanCollection struct {
		Info     postmanInfo       `json:"info"`
		Item     []postmanItem     `json:"item"`
		Event    []postmanEvent    `json:"event"`
		Variable []postmanVariable `json:"variable"`
	}
	postmanInfo struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Schema      string `json:"schema"`
	}
	postmanItem struct {
		Name    string         `json:"name"`
		Request postmanRequest `json:"request"`
		Event   []postmanEvent `json:"event"`
	}
	postmanRequest struct {
		Method      string            `json:"method"`
		Description string            `json:"description"`
		Header      []postmanVariable `json:"header"`
		URL         postmanURL        `json:"url"`
		Body        *postmanBody      `json:"body,omitempty"`
	}
	postmanURL struct {
		Raw   string            `json:"raw"`
		Host  []string          `json:"host"`
		Path  []string          `json:"path"`
		Query []postmanVariable `json:"query,omitempty"`
	}
	postmanBody struct {
		Mode string `json:"mode"`
		Raw  string `json:"raw"`
	}
	postmanEvent struct {
		Listen string        `json:"listen"`
		Script postmanScript `json:"script"`
	}
	postmanScript struct {
		Type string   `json:"type"`
		Exec []string `json:"exec"`
	}
	postmanVariable struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
)

// The Postman collection is what the OpenAPI file and the signing script make it.
func TestPostman_FollowsOpenAPI(t *testing.T) {
	want := makePostman(t)
	if *update {
		if err := os.WriteFile(postmanFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(postmanFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what contract/openapi.yaml and sdk/postman/sign.js give (%v); go test ./internal/docstest -run TestPostman -update writes it", postmanFile, err)
	}
}

func makePostman(t *testing.T) []byte {
	t.Helper()
	api, err := openapi3.NewLoader().LoadFromData(contract.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	sign, err := os.ReadFile("sdk/postman/sign.js")
	if err != nil {
		t.Fatal(err)
	}
	if len(postmanOrder) != api.Paths.Len() {
		t.Errorf("the collection has %d requests; want one for each of the %d paths", len(postmanOrder), api.Paths.Len())
	}
	collection := postmanCollection{
		Info: postmanInfo{
			Name:        api.Info.Title,
			Description: "Set base_url, api_key and api_secret, and idempotency_key: a new one for every new order.",
			Schema:      "https://schema.getpostman.com/json/collection/v2.1.0/collection.json",
		},
		Event: []postmanEvent{{"prerequest", scriptOf(string(sign))}},
		Variable: []postmanVariable{
			{"base_url", "https://127.0.0.1:8443/api/v1"}, {"api_key", ""}, {"api_secret", ""}, {"idempotency_key", "order-7001"},
		},
	}
	for _, name := range postmanOrder {
		path := api.Paths.Value("/" + name)
		if path == nil {
			t.Fatalf("the OpenAPI file has no /%s", name)
		}
		method, operation := http.MethodGet, path.Get
		if operation == nil {
			method, operation = http.MethodPost, path.Post
		}
		collection.Item = append(collection.Item, postmanItem{
			Name:    operation.Summary,
			Request: postmanRequestOf(t, name, method, operation),
			Event:   []postmanEvent{{"test", scriptOf("pm.test(\"the service answers OK\", () => pm.expect(pm.response.json().code).to.equal(\"OK\"));\n")}},
		})
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(collection); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func postmanRequestOf(t *testing.T, name, method string, operation *openapi3.Operation) postmanRequest {
	t.Helper()
	request := postmanRequest{
		Method: method, Description: operation.Description, Header: []postmanVariable{},
		URL: postmanURL{Raw: "{{base_url}}/" + name, Host: []string{"{{base_url}}"}, Path: []string{name}},
	}
	if method == http.MethodPost {
		request.Header = []postmanVariable{{"Content-Type", "application/json"}, {"Idempotency-Key", "{{idempotency_key}}-" + name}}
		request.Body = &postmanBody{Mode: "raw", Raw: exampleBody(t, name, operation)}
	}
	switch name {
	case "subscription":
		request.URL.Query = []postmanVariable{{"subscriber_id", "100234"}}
	case "transaction":
		request.URL.Query = []postmanVariable{{"idempotency_key", "{{idempotency_key}}-renew"}}
	}
	for i, parameter := range request.URL.Query {
		if operation.Parameters.GetByInAndName("query", parameter.Key) == nil {
			t.Errorf("/%s has no parameter %s", name, parameter.Key)
		}
		request.URL.Raw += map[bool]string{true: "?", false: "&"}[i == 0] + parameter.Key + "=" + parameter.Value
	}
	return request
}

// exampleBody returns the example of a request that has a subscriber's id.
func exampleBody(t *testing.T, name string, operation *openapi3.Operation) string {
	t.Helper()
	for _, example := range operation.RequestBody.Value.Content["application/json"].Examples {
		fields, _ := example.Value.Value.(map[string]any)
		if fields["subscriber_id"] == nil {
			continue
		}
		text, err := json.MarshalIndent(fields, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	t.Fatalf("/%s has no example with a subscriber_id", name)
	return ""
}

func scriptOf(text string) postmanScript {
	return postmanScript{Type: "text/javascript", Exec: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
}
