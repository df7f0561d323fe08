package main

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// bomSchema returns CycloneDX's own JSON schema, which the library's module has.
func bomSchema(module string) (*jsonschema.Schema, error) {
	folder, err := output(module, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	if err != nil {
		return nil, err
	}
	const base = "http://cyclonedx.org/schema/"
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
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
	}
	return compiler.Compile(base + "bom-1.6.schema.json")
}

// checkSBOM validates an SBOM against the schema.
func checkSBOM(schema *jsonschema.Schema, text []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(document)
}
