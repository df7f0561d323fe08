package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A bomSchema is CycloneDX's own JSON schema, which the library's module has.
type bomSchema struct {
	schema *jsonschema.Schema
	spdx   map[string]bool // the identifiers of licences that it knows
}

func newBOMSchema(module string) (*bomSchema, error) {
	folder, err := output(module, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	if err != nil {
		return nil, err
	}
	const base = "http://cyclonedx.org/schema/"
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	b := &bomSchema{spdx: map[string]bool{}}
	for file, name := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json",
		"jsf-0.82.schemax.json": "jsf-0.82.schema.json", // as the module spells it
	} {
		text, err := os.ReadFile(filepath.Join(folder, "schema", file))
		if err != nil {
			return nil, err
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if err := compiler.AddResource(base+name, document); err != nil {
			return nil, err
		}
		if file == "spdx.schema.json" {
			var known struct{ Enum []string }
			if err := json.Unmarshal(text, &known); err != nil {
				return nil, err
			}
			for _, id := range known.Enum {
				b.spdx[id] = true
			}
		}
	}
	b.schema, err = compiler.Compile(base + "bom-1.6.schema.json")
	return b, err
}

// check validates an SBOM.
func (b *bomSchema) check(text []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	err = b.schema.Validate(document)
	var found *jsonschema.ValidationError
	if !errors.As(err, &found) {
		return err
	}
	// The whole text would list every licence there is.
	var at []string
	var each func(e *jsonschema.ValidationError)
	each = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			each(cause)
		}
		if len(e.Causes) == 0 {
			at = append(at, "/"+strings.Join(e.InstanceLocation, "/")+" violates "+strings.Join(e.ErrorKind.KeywordPath(), "/"))
		}
	}
	each(found)
	return errors.New(strings.Join(at, "; "))
}
