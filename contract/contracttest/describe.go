package contracttest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Description is the document's contents as plain lists, for tests that compare
// them with the service. Each caller gets its own copy.
type Description struct {
	Endpoints map[string]Endpoint // by method and path: "GET /api/v1/balance"
	Statuses  map[string][]int    // of each code, wherever it is answered
	Limits    map[string][]int    // the numbers in each row of the table of limits
}

// Endpoint describes one endpoint.
type Endpoint struct {
	Permissions []string
	Words       string          // its description, for people
	Headers     map[string]Text // of requests
	Query       map[string]Text
	Fields      map[string]Text // of a request's body
	Answers     map[int]map[string]Envelope
}

// Envelope describes a response with one code.
type Envelope struct {
	Fields Shape
	Data   []Shape // the alternatives for data
}

// Shape lists the fields of an object and of the objects within it, by their paths
// ("plan.id", "plans[].id"), and whether each is required.
type Shape map[string]bool

// Text describes a string in a request.
type Text struct {
	Required bool
	Default  string
	schema   *openapi3.Schema
	compiled *jsonschema.Schema
}

// Describe returns the contents of the published document.
func Describe(t testing.TB) Description {
	t.Helper()
	doc, err := published()
	if err != nil {
		t.Fatalf("read contract/openapi.yaml: %v", err)
	}
	described, err := doc.describe()
	if err != nil {
		t.Fatalf("read contract/openapi.yaml: %v", err)
	}
	return described
}

func (d *document) describe() (Description, error) {
	made := Description{Endpoints: map[string]Endpoint{}, Statuses: map[string][]int{}, Limits: limits(d.api.Info.Description)}
	collect := func(promised answers) {
		for status, answer := range promised {
			for code := range answer.outcomes {
				if !slices.Contains(made.Statuses[code], status) {
					made.Statuses[code] = append(made.Statuses[code], status)
					slices.Sort(made.Statuses[code])
				}
			}
		}
	}
	for path, item := range d.api.Paths.Map() {
		for method, operation := range item.Operations() {
			at := "/paths/" + escape(path) + "/" + strings.ToLower(method)
			endpoint, err := describeEndpoint(operation, at, d.compile)
			if err != nil {
				return made, err
			}
			endpoint.Answers = map[int]map[string]Envelope{}
			for status, answer := range d.operations[path][method] {
				endpoint.Answers[status] = map[string]Envelope{}
				for code, outcome := range answer.outcomes {
					endpoint.Answers[status][code] = describeEnvelope(outcome.schema)
				}
			}
			made.Endpoints[method+" "+d.prefix+path] = endpoint
			collect(d.operations[path][method])
		}
	}
	collect(d.unknownPath)
	collect(d.wrongMethod)
	return made, nil
}

func describeEndpoint(operation *openapi3.Operation, at string, compile func(string) (*jsonschema.Schema, error)) (Endpoint, error) {
	made := Endpoint{Words: operation.Description, Headers: map[string]Text{}, Query: map[string]Text{}, Fields: map[string]Text{}}
	if operation.Security != nil {
		for _, requirement := range *operation.Security {
			for _, names := range requirement {
				made.Permissions = append(made.Permissions, names...)
			}
		}
	}
	text := func(ref *openapi3.SchemaRef, found string, required bool) (Text, error) {
		compiled, err := compile(target(ref.Ref, found))
		standard, _ := ref.Value.Default.(string)
		return Text{Required: required, Default: standard, schema: ref.Value, compiled: compiled}, err
	}
	for i, parameter := range operation.Parameters {
		of := map[string]map[string]Text{"header": made.Headers, "query": made.Query}[parameter.Value.In]
		if of == nil {
			return made, fmt.Errorf("%s: the parameter %s is in the %s", at, parameter.Value.Name, parameter.Value.In)
		}
		found := target(parameter.Ref, fmt.Sprintf("%s/parameters/%d", at, i)) + "/schema"
		described, err := text(parameter.Value.Schema, found, parameter.Value.Required)
		if err != nil {
			return made, err
		}
		of[parameter.Value.Name] = described
	}
	if operation.RequestBody == nil {
		return made, nil
	}
	body := operation.RequestBody.Value.Content[mediaType].Schema
	found := target(body.Ref, at+"/requestBody/content/"+escape(mediaType)+"/schema")
	for name, property := range body.Value.Properties {
		field, err := text(property, found+"/properties/"+escape(name), slices.Contains(body.Value.Required, name))
		if err != nil {
			return made, err
		}
		made.Fields[name] = field
	}
	return made, nil
}

func describeEnvelope(schema *openapi3.Schema) Envelope {
	made := Envelope{Fields: Shape{}}
	for name := range schema.Properties {
		made.Fields[name] = slices.Contains(schema.Required, name)
	}
	data := schema.Properties["data"]
	if data == nil {
		return made
	}
	branches := openapi3.SchemaRefs{data}
	if len(data.Value.Properties) == 0 && len(data.Value.OneOf) > 0 {
		branches = data.Value.OneOf
	}
	for _, branch := range branches {
		shape := Shape{}
		shape.add(branch.Value, "")
		made.Data = append(made.Data, shape)
	}
	return made
}

func (s Shape) add(schema *openapi3.Schema, prefix string) {
	for name, property := range schema.Properties {
		s[prefix+name] = slices.Contains(schema.Required, name)
		s.add(property.Value, prefix+name+".")
	}
	if names, listed := schema.Extensions[namesKeyword].([]any); listed {
		for _, name := range names {
			s[prefix+fmt.Sprint(name)] = false
		}
	}
	if schema.Items != nil {
		s.add(schema.Items.Value, strings.TrimSuffix(prefix, ".")+"[].")
	}
}

// Accepts reports whether the document allows a text.
func (t Text) Accepts(text string) bool { return t.compiled.Validate(text) == nil }

var repetition = regexp.MustCompile(`\{([0-9]+)(?:,([0-9]+))?\}`)

// Lengths returns the boundary lengths of the text: each documented limit, one
// less and one more.
func (t Text) Lengths() []int {
	found := map[int]bool{}
	note := func(limit int) {
		for _, length := range []int{limit - 1, limit, limit + 1} {
			if length > 0 { // an empty text counts as missing
				found[length] = true
			}
		}
	}
	if t.schema.MinLength > 0 {
		note(int(t.schema.MinLength))
	}
	if t.schema.MaxLength != nil {
		note(int(*t.schema.MaxLength))
	}
	fixed := len(t.Prefix())
	for _, match := range repetition.FindAllStringSubmatch(t.schema.Pattern, -1) {
		for _, number := range match[1:] {
			if n, err := strconv.Atoi(number); err == nil {
				note(fixed + n)
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// literal matches the fixed beginning of a pattern.
var literal = regexp.MustCompile(`[A-Za-z_]*`)

// Prefix returns the fixed beginning of the text.
func (t Text) Prefix() string { return literal.FindString(strings.TrimPrefix(t.schema.Pattern, "^")) }

var number = regexp.MustCompile(`[0-9][0-9,]*`)

// limits parses the table of limits: the numbers of each row, by its name.
func limits(description string) map[string][]int {
	rows := map[string][]int{}
	_, section, _ := strings.Cut(description, "\n## Limits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || !number.MatchString(cells[2]) {
			continue
		}
		name := strings.ReplaceAll(strings.TrimSpace(cells[1]), "`", "")
		for _, text := range number.FindAllString(cells[2], -1) {
			n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
			if err == nil {
				rows[name] = append(rows[name], n)
			}
		}
	}
	return rows
}
