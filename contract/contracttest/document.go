package contracttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// mediaType is the media type of every response.
const mediaType = "application/json"

// rateKeyword says whether a code comes with the X-RateLimit headers.
const rateKeyword = "x-rate-limit-headers"

// onceKeyword marks a field that is optional, and forbidden in a replay.
const onceKeyword = "x-given-once"

// replayHeader marks a replay.
const replayHeader = "Idempotent-Replayed"

// document is the contract with its schemas compiled.
type document struct {
	api         *openapi3.T
	prefix      string                        // where the server puts the paths: /api/v1
	operations  map[string]map[string]answers // by path, then by method
	unknownPath answers
	wrongMethod answers
	compile     func(pointer string) (*jsonschema.Schema, error)
}

// answers are the documented responses, by status.
type answers map[int]*answer

type answer struct {
	headers  map[string]header  // by canonical name
	outcomes map[string]outcome // by code
	examples openapi3.Examples  // by code
}

type header struct {
	required bool
	integer  bool
	schema   *jsonschema.Schema
	example  any
}

// outcome is a response with one code.
type outcome struct {
	schema *openapi3.Schema // as published
	body   *jsonschema.Schema
	rate   string     // always, never or sometimes
	once   [][]string // the paths of fields that are given once
	maps   [][]string // the paths of objects with any number of names
	empty  [][]string // the paths of objects that may be empty instead
}

// outside lists the responses to requests without an operation. An unknown path
// adds 404, a wrong method 405.
var outside = map[int]string{
	http.StatusBadRequest:                  "UnreadableMessage",
	http.StatusForbidden:                   "PlainHttp",
	http.StatusExpectationFailed:           "UnreadableMessage",
	http.StatusTooManyRequests:             "Throttled",
	http.StatusRequestHeaderFieldsTooLarge: "UnreadableMessage",
	http.StatusInternalServerError:         "InternalError",
	http.StatusNotImplemented:              "UnreadableMessage",
	http.StatusHTTPVersionNotSupported:     "UnreadableMessage",
}

// load reads a document; it returns an error if responses cannot be checked by it.
//
// kin-openapi reads and validates it. It would also validate bodies, but compiles
// the schema for each, and if it cannot, it falls back to the rules of OpenAPI 3.0,
// which have no const. So the schemas are compiled here, once, for the validator
// that kin-openapi itself uses.
func load(text []byte) (*document, error) {
	api, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	if !api.IsOpenAPI31OrLater() {
		return nil, fmt.Errorf("it is OpenAPI %s; the schemas need 3.1", api.OpenAPI)
	}
	// Examples are checked by this package's own tests: here each would compile its
	// schema again, which takes longer than all the rest.
	if err := api.Validate(context.Background(), openapi3.DisableExamplesValidation()); err != nil {
		return nil, err
	}
	compile, err := tightened(api)
	if err != nil {
		return nil, err
	}

	doc := &document{api: api, operations: map[string]map[string]answers{}, compile: compile}
	if doc.prefix, err = serverPath(api); err != nil {
		return nil, err
	}
	b := builder{compile: compile}
	for path, item := range api.Paths.Map() {
		methods := map[string]answers{}
		for method, operation := range item.Operations() {
			at := "/paths/" + escape(path) + "/" + strings.ToLower(method) + "/responses/"
			methods[method] = b.answers(operation.Responses.Map(), at)
		}
		doc.operations[path] = methods
	}
	doc.unknownPath = b.outside(api, http.StatusNotFound, "NotFound")
	doc.wrongMethod = b.outside(api, http.StatusMethodNotAllowed, "MethodNotAllowed")
	return doc, errors.Join(b.errs...)
}

// serverPath returns the path of the server's default address.
func serverPath(api *openapi3.T) (string, error) {
	if len(api.Servers) != 1 {
		return "", fmt.Errorf("it has %d servers; want one", len(api.Servers))
	}
	address := api.Servers[0].URL
	for name, variable := range api.Servers[0].Variables {
		address = strings.ReplaceAll(address, "{"+name+"}", variable.Default)
	}
	parsed, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(parsed.Path, "/"), nil
}

// builder converts documented responses to answers, and collects errors.
type builder struct {
	compile func(pointer string) (*jsonschema.Schema, error)
	errs    []error
}

func (b *builder) report(pointer, format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(pointer+": "+format, args...))
}

func (b *builder) schema(pointer string) *jsonschema.Schema {
	schema, err := b.compile(pointer)
	if err != nil {
		b.report(pointer, "%w", err)
	}
	return schema
}

func (b *builder) answers(responses map[string]*openapi3.ResponseRef, at string) answers {
	made := answers{}
	for key, response := range responses {
		status, err := strconv.Atoi(key)
		if err != nil {
			b.report(at+key, "only exact statuses can be checked")
			continue
		}
		made[status] = b.answer(response, target(response.Ref, at+key))
	}
	return made
}

func (b *builder) outside(api *openapi3.T, status int, name string) answers {
	names := maps.Clone(outside)
	names[status] = name
	made := answers{}
	for status, name := range names {
		at := "/components/responses/" + name
		response, found := api.Components.Responses[name]
		if !found {
			b.report(at, "is not there, and status %d needs it", status)
			continue
		}
		made[status] = b.answer(response, at)
	}
	return made
}

func (b *builder) answer(response *openapi3.ResponseRef, at string) *answer {
	made := &answer{headers: map[string]header{}, outcomes: map[string]outcome{}}
	for name, ref := range response.Value.Headers {
		pointer := target(ref.Ref, at+"/headers/"+escape(name)) + "/schema"
		made.headers[http.CanonicalHeaderKey(name)] = header{
			required: ref.Value.Required,
			integer:  ref.Value.Schema.Value.Type.Is("integer"),
			schema:   b.schema(pointer),
			example:  ref.Value.Example,
		}
	}
	content, found := response.Value.Content[mediaType]
	if !found || len(response.Value.Content) != 1 {
		b.report(at, "want %s and no other content", mediaType)
		return made
	}
	at = target(content.Schema.Ref, at+"/content/"+escape(mediaType)+"/schema")
	made.examples = content.Examples
	branches := content.Schema.Value.OneOf
	if len(branches) == 0 {
		b.outcome(made, content.Schema, at)
	}
	for i, branch := range branches {
		b.outcome(made, branch, target(branch.Ref, fmt.Sprintf("%s/oneOf/%d", at, i)))
	}
	return made
}

func (b *builder) outcome(made *answer, ref *openapi3.SchemaRef, at string) {
	var code string
	if property := ref.Value.Properties["code"]; property != nil {
		code, _ = property.Value.Const.(string)
	}
	rate, _ := ref.Value.Extensions[rateKeyword].(string)
	switch _, twice := made.outcomes[code]; {
	case code == "":
		b.report(at, "its code is not pinned with const")
	case twice:
		b.report(at, "%s is there twice for one status", code)
	case !slices.Contains([]string{"always", "never", "sometimes"}, rate):
		b.report(at, "%s is %q; want always, never or sometimes", rateKeyword, rate)
	}
	result := outcome{schema: ref.Value, body: b.schema(at), rate: rate}
	result.remark(ref.Value, nil)
	made.outcomes[code] = result
}

// remark records the paths of optional fields in a schema.
func (o *outcome) remark(schema *openapi3.Schema, path []string) {
	if schema.AdditionalProperties.Schema != nil {
		o.maps = append(o.maps, path)
	}
	for name, property := range schema.Properties {
		below := append(slices.Clone(path), name)
		if once, _ := property.Value.Extensions[onceKeyword].(bool); once {
			o.once = append(o.once, below)
		}
		o.remark(property.Value, below)
	}
	for _, branch := range schema.OneOf {
		if limit := branch.Value.MaxProps; limit != nil && *limit == 0 {
			o.empty = append(o.empty, path)
		}
		o.remark(branch.Value, path)
	}
}

// target returns the pointer to an element: where its reference points to, if it
// is one, else where it was found.
func target(ref, found string) string {
	if ref != "" {
		return strings.TrimPrefix(ref, "#")
	}
	return found
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func escape(name string) string { return escapes.Replace(name) }

// tightened returns a compiler for the schemas of a document, made as strict as
// possible.
func tightened(api *openapi3.T) (func(pointer string) (*jsonschema.Schema, error), error) {
	text, err := api.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	if err := errors.Join(tighten(tree, "")...); err != nil {
		return nil, err
	}

	const address = "https://coax.invalid/openapi.json"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	for _, format := range formats {
		if format.Validate != nil {
			compiler.RegisterFormat(format)
		}
	}
	if err := compiler.AddResource(address, tree); err != nil {
		return nil, err
	}
	var one sync.Mutex
	return func(pointer string) (*jsonschema.Schema, error) {
		one.Lock()
		defer one.Unlock()
		return compiler.Compile(address + "#" + pointer)
	}, nil
}
