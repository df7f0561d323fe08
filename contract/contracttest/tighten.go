package contracttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// namesKeyword lists the names that an object may have beside its properties. The
// published object is open, as all are: names may be added.
const namesKeyword = "x-names"

// amountPointer matches the schemas that may be numbers other than integers:
// Amount, and those whose names end in it.
var amountPointer = regexp.MustCompile(`^/components/schemas/[A-Za-z]*Amount$`)

// tighten closes every object schema under a node, makes its properties required
// unless the schema lists the required ones (an empty list does not count:
// kin-openapi drops it), and adds the format of numbers. It returns an error for
// each schema where that is not possible.
func tighten(node any, at string) (errs []error) {
	switch node := node.(type) {
	case []any:
		for i, child := range node {
			errs = append(errs, tighten(child, fmt.Sprintf("%s/%d", at, i))...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			switch key {
			case "const", "enum", "default", "example", "examples":
				continue // values, not schemas
			}
			errs = append(errs, tighten(node[key], at+"/"+escape(key))...)
		}
		if err := tightenSchema(node, at); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", at, err))
		}
	}
	return errs
}

func tightenSchema(schema map[string]any, at string) error {
	// A schema composed of others cannot be closed: each part would reject the
	// properties of the rest.
	if _, found := schema["allOf"].([]any); found {
		return errors.New("allOf cannot be closed; list all properties in one place")
	}
	if _, isRef := schema["$ref"].(string); isRef && schema["properties"] != nil {
		return errors.New("properties beside $ref cannot be closed; list all properties in one place")
	}
	if format, found := schema["format"].(string); found && !knownFormat(format) {
		return fmt.Errorf("the format %q is not checked", format)
	}
	if hasType(schema, "object") {
		closeObject(schema)
	}
	if names, found := schema[namesKeyword].([]any); found {
		schema["propertyNames"] = map[string]any{"enum": names}
	}
	if hasType(schema, "integer") {
		schema["format"] = "whole"
	}
	if hasType(schema, "number") {
		if !amountPointer.MatchString(at) {
			return errors.New("a number has to be an integer or an Amount")
		}
		schema["format"] = "amount"
	}
	return nil
}

func closeObject(schema map[string]any) {
	if _, open := schema["additionalProperties"]; !open {
		schema["additionalProperties"] = false
	}
	if _, said := schema["required"]; said {
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	required := []any{}
	for name := range properties {
		required = append(required, name)
	}
	schema["required"] = required
}

// hasType reports whether a schema allows a type. In a map that is not a schema,
// "type" may be something else, such as a property of that name.
func hasType(schema map[string]any, name string) bool {
	switch types := schema["type"].(type) {
	case string:
		return types == name
	case []any:
		return slices.Contains(types, any(name))
	}
	return false
}

// formats lists the formats that the document may use. Those without a function
// are built into the validator, or informative only.
var formats = []*jsonschema.Format{
	{Name: "date-time"},
	{Name: "date"},
	{Name: "email"},
	{Name: "ipv4"},
	{Name: "ipv6"},
	{Name: "double"},
	{Name: "password"},
	// The contract's date-times without an offset, which are Indian time.
	{Name: "ist-date-time", Validate: texts(func(text string) error {
		at, err := time.Parse(time.DateTime, text)
		if err == nil && at.Format(time.DateTime) != text {
			err = fmt.Errorf("want the form %s", time.DateTime)
		}
		return err
	})},
	// The spelling of numbers. To a JSON parser 199 is 199.00, and 1.0 an integer;
	// to a client that reads decimals they are not.
	{Name: "amount", Validate: written(`-?(0|[1-9][0-9]*)\.[0-9]{2}`)},
	{Name: "whole", Validate: written(`-?(0|[1-9][0-9]*)`)},
}

func knownFormat(name string) bool {
	return slices.ContainsFunc(formats, func(f *jsonschema.Format) bool { return f.Name == name })
}

func texts(check func(string) error) func(any) error {
	return func(value any) error {
		if text, ok := value.(string); ok {
			return check(text)
		}
		return nil // checked by the type keyword
	}
}

// written checks the spelling of a number, which json.Number preserves.
func written(pattern string) func(any) error {
	whole := regexp.MustCompile(`^(?:` + pattern + `)$`)
	minusNothing := regexp.MustCompile(`^-[0.]+$`)
	return func(value any) error {
		number, ok := value.(json.Number)
		if !ok {
			return nil // checked by the type keyword
		}
		if text := number.String(); !whole.MatchString(text) || minusNothing.MatchString(text) {
			return fmt.Errorf("it is written %s", text)
		}
		return nil
	}
}
