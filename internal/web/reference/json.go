package reference

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// toJSON converts a YAML document to JSON, after changes to it. It keeps the order of
// names, which is the order in which readers see them, and the decimals of numbers: 199.00
// stays 199.00.
func toJSON(document []byte, changes ...func(*yaml.Node) error) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return nil, fmt.Errorf("read the YAML document: %w", err)
	}
	for _, change := range changes {
		if err := change(&root); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	if err := writeJSON(&out, &root); err != nil {
		return nil, fmt.Errorf("convert the YAML document to JSON: %w", err)
	}
	return out.Bytes(), nil
}

func writeJSON(out *bytes.Buffer, node *yaml.Node) error {
	switch node.Kind {
	case yaml.DocumentNode:
		return writeJSON(out, node.Content[0])
	case yaml.MappingNode:
		out.WriteByte('{')
		for i := 0; i < len(node.Content); i += 2 {
			name, value := node.Content[i], node.Content[i+1]
			if i > 0 {
				out.WriteByte(',')
			}
			if name.Kind != yaml.ScalarNode || name.ShortTag() != "!!str" {
				return fmt.Errorf("line %d: a name must be a string", name.Line)
			}
			if err := writeString(out, name.Value); err != nil {
				return err
			}
			out.WriteByte(':')
			if err := writeJSON(out, value); err != nil {
				return err
			}
		}
		out.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, value := range node.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeJSON(out, value); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		return writeScalar(out, node)
	}
	return fmt.Errorf("line %d: anchors are not supported", node.Line)
}

func writeScalar(out *bytes.Buffer, node *yaml.Node) error {
	switch tag := node.ShortTag(); tag {
	case "!!str":
		return writeString(out, node.Value)
	case "!!bool", "!!null", "!!int", "!!float":
		// YAML has more ways than JSON to write these.
		if !json.Valid([]byte(node.Value)) {
			return fmt.Errorf("line %d: %q is not written as in JSON", node.Line, node.Value)
		}
		out.WriteString(node.Value)
		return nil
	default:
		return fmt.Errorf("line %d: JSON has no %s", node.Line, tag)
	}
}

func writeString(out *bytes.Buffer, text string) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // Encode ends with a line feed
	return nil
}
